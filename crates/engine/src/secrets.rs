//! The secrets that a workflow declares: read when a run starts, inserted for `${NAME}`, and never
//! written to disk (P12).

use std::collections::BTreeMap;
use std::path::Path;
use std::sync::Arc;

use segno_core::error::{Diagnose, Diagnosis, Kind};
use segno_spec::{DeclaredTools, Executor, Secret, Server, Source, Transport, Workflow};

use crate::env::Env;

/// The largest secret file that is read, in bytes.
const MAX_FILE_BYTES: u64 = 64 * 1024;

/// Shorter values occur everywhere, and hiding them would redact ordinary words.
const SHORTEST: usize = 8;

/// A secret that is needed is not set.
#[derive(Debug, thiserror::Error)]
#[error("secret `{name}` is missing: {place}")]
pub struct NoSecret {
    pub name: String,
    pub place: String,
}

impl Diagnose for NoSecret {
    fn diagnosis(&self) -> Diagnosis {
        Diagnosis::new(Kind::Invalid, "A0103")
            .hint("set it; Segno never reads secrets from a spec, so that they are not stored")
    }
}

/// The values that are set, by name.
pub struct Secrets {
    declared: Vec<Secret>,
    values: BTreeMap<String, String>,
}

impl Secrets {
    /// Reads the secrets that `workflow` declares; `folder` holds the spec. A missing secret is an
    /// error only where it is inserted.
    fn read(env: &Env, workflow: &Workflow, folder: &Path) -> Self {
        let declared = workflow.environment.secrets.clone();
        let mut values = BTreeMap::new();
        for secret in &declared {
            let value = match &secret.source {
                Source::Variable(name) => env.drivers.variable(name),
                Source::File(path) => {
                    let bytes = env.disk.read(&folder.join(path), MAX_FILE_BYTES).ok();
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

    /// The executors and MCP servers of a workflow with their secrets inserted.
    pub(crate) fn fill(&self, declared: &DeclaredTools) -> Result<DeclaredTools, NoSecret> {
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
        Ok(DeclaredTools {
            native: declared.native.clone(),
            executors: try_map(&declared.executors, executor)?,
            servers: try_map(&declared.servers, server)?,
        })
    }

    fn fill_pairs(&self, pairs: &[(String, String)]) -> Result<Vec<(String, String)>, NoSecret> {
        try_map(pairs, |(name, text)| {
            Ok((name.clone(), self.fill_text(text)?))
        })
    }

    /// `text` with the values of the secrets that it names. Other names stay unchanged.
    fn fill_text(&self, text: &str) -> Result<String, NoSecret> {
        let mut filled = text.to_owned();
        for secret in &self.declared {
            let word = format!("${{{}}}", secret.name);
            if !filled.contains(&word) {
                continue;
            }
            let value = self.values.get(&secret.name);
            let value = value.ok_or_else(|| NoSecret {
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

fn try_map<T, U>(all: &[T], make: impl Fn(&T) -> Result<U, NoSecret>) -> Result<Vec<U>, NoSecret> {
    all.iter().map(make).collect()
}

impl Env {
    /// The environment of one workflow: its redactor also knows the secrets of that workflow.
    /// `spec` is the path of the spec.
    pub fn for_workflow(
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
                    "secret `{name}` has fewer than {SHORTEST} characters and is not redacted: it cannot be distinguished from ordinary text"
                ));
            }
        }
        let values: Vec<_> = secrets.values.clone().into_iter().collect();
        let personal = workflow.guardrails.pii_redaction;
        let env = Self {
            redactor: Arc::new(self.redactor.with_secrets(&values, personal)),
            ..self.clone()
        };
        (env, secrets)
    }
}
