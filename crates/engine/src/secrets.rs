//! The secrets that a workflow declares: read when a run begins, filled in where `${NAME}` stands,
//! and never written down (P12).

use std::collections::BTreeMap;
use std::path::Path;
use std::sync::Arc;

use crate::error::Error;
use crate::spec::{Declared, Executor, Secret, Server, Source, Transport, Workflow};
use crate::world::World;

/// Longer files are no secrets.
const LONGEST: u64 = 64 * 1024;

/// Shorter values are found everywhere, and hiding them would eat ordinary words.
const SHORTEST: usize = 8;

/// The values that there are, by name.
pub(crate) struct Secrets {
    declared: Vec<Secret>,
    values: BTreeMap<String, String>,
}

impl Secrets {
    /// Reads what `workflow` declares; `folder` is where its spec stands. One that is missing is an
    /// error only where it is filled in.
    fn read(world: &World, workflow: &Workflow, folder: &Path) -> Self {
        let declared = workflow.environment.secrets.clone();
        let mut values = BTreeMap::new();
        for secret in &declared {
            let value = match &secret.source {
                Source::Variable(name) => world.drivers.variable(name),
                Source::File(path) => {
                    let bytes = world.disk.read(&folder.join(path), LONGEST).ok();
                    let text = bytes.and_then(|bytes| String::from_utf8(bytes).ok());
                    text.map(|text| text.trim().to_owned())
                }
            };
            if let Some(value) = value.filter(|value| !value.is_empty()) {
                values.insert(secret.name.clone(), value);
            }
        }
        Self { declared, values }
    }

    /// The services and servers of a workflow with their secrets.
    pub(crate) fn fill(&self, declared: &Declared) -> Result<Declared, Error> {
        let executor = |executor: &Executor| {
            Ok(Executor {
                headers: self.fill_pairs(&executor.headers)?,
                ..executor.clone()
            })
        };
        let server = |server: &Server| {
            let transport = match &server.transport {
                Transport::Program { argv, env } => Transport::Program {
                    argv: argv.clone(),
                    env: self.fill_pairs(env)?,
                },
                Transport::Address { url, headers } => Transport::Address {
                    url: url.clone(),
                    headers: self.fill_pairs(headers)?,
                },
            };
            Ok(Server {
                id: server.id.clone(),
                transport,
            })
        };
        Ok(Declared {
            native: declared.native.clone(),
            executors: each(&declared.executors, executor)?,
            servers: each(&declared.servers, server)?,
        })
    }

    fn fill_pairs(&self, pairs: &[(String, String)]) -> Result<Vec<(String, String)>, Error> {
        each(pairs, |(name, text)| {
            Ok((name.clone(), self.fill_text(text)?))
        })
    }

    /// `text` with the values of the secrets that it names. Other names stay as they stand.
    fn fill_text(&self, text: &str) -> Result<String, Error> {
        let mut filled = text.to_owned();
        for secret in &self.declared {
            let word = format!("${{{}}}", secret.name);
            if !filled.contains(&word) {
                continue;
            }
            let value = self.values.get(&secret.name);
            let value = value.ok_or_else(|| Error::NoSecret {
                name: secret.name.clone(),
                place: match &secret.source {
                    Source::Variable(name) => format!("the variable {name} is not set"),
                    Source::File(path) => format!("{path} cannot be read, or is empty"),
                },
            })?;
            filled = filled.replace(&word, value);
        }
        Ok(filled)
    }
}

fn each<T, U>(all: &[T], make: impl Fn(&T) -> Result<U, Error>) -> Result<Vec<U>, Error> {
    all.iter().map(make).collect()
}

impl World {
    /// The same world for one workflow: it also hides what that workflow wants hidden. `spec` is
    /// where its spec stands.
    pub(crate) fn for_workflow(
        &self,
        workflow: &Workflow,
        spec: &Path,
        notice: &dyn Fn(&str),
    ) -> (Self, Secrets) {
        let folder = spec.parent().unwrap_or(Path::new("."));
        let secrets = Secrets::read(self, workflow, folder);
        for (name, value) in &secrets.values {
            if value.chars().count() < SHORTEST {
                notice(&format!(
                    "secret `{name}` has fewer than {SHORTEST} characters: it cannot be told from ordinary text, and will not be hidden"
                ));
            }
        }
        let values: Vec<_> = secrets.values.clone().into_iter().collect();
        let personal = workflow.guardrails.pii_redaction;
        let world = Self {
            redactor: Arc::new(self.redactor.knowing(&values, personal)),
            ..self.clone()
        };
        (world, secrets)
    }
}
