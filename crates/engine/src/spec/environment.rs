//! The `env` block: what a workflow needs from where it runs.

use super::fields::Keys;
use super::place::Place;

const KEYS: Keys = Keys {
    required: &[],
    optional: &["secrets", "mounts"],
};
const SECRET_KEYS: Keys = Keys {
    required: &["key", "source"],
    optional: &["name", "path"],
};

/// What a workflow needs from where it runs.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Environment {
    /// What is filled in for `${NAME}`, and never written down.
    pub secrets: Vec<Secret>,
    /// Folders that tools may reach besides the workspace: their names, and where they are.
    pub mounts: Vec<(String, String)>,
}

/// A secret, and where it is kept.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Secret {
    /// The name that `${NAME}` has.
    pub name: String,
    /// Where it is kept.
    pub source: Source,
}

/// Where a secret is kept.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Source {
    /// In this variable of the environment.
    Variable(String),
    /// In this file; its name is relative to the spec.
    File(String),
}

#[derive(Clone, Copy)]
enum Sort {
    Env,
    File,
    Aws,
}

pub(super) fn read(place: &Place<'_>) -> Environment {
    let fields = place.fields(&KEYS);
    let mut environment = Environment::default();
    for place in fields.read("secrets", |place| place.list(0)) {
        environment.secrets.extend(secret(&place));
    }
    for (name, place) in fields.read("mounts", |place| place.named()) {
        let folder = place.line_of_text();
        environment.mounts.push((name.to_owned(), folder));
    }
    environment
}

fn secret(place: &Place<'_>) -> Option<Secret> {
    let fields = place.fields(&SECRET_KEYS);
    let key = fields.read("key", |place| place.identifier());
    let sort = fields.get("source")?.choice(&[
        ("env", Sort::Env),
        ("file", Sort::File),
        ("secrets_manager", Sort::Aws),
        ("ssm", Sort::Aws),
    ]);
    let path = fields.get("path");
    let name = fields.get("name").map(|place| place.line_of_text());
    let source = match (sort, path) {
        (Sort::Env, None) => Source::Variable(key.clone()),
        (Sort::Env, Some(path)) => {
            path.invalid("would be ignored: source `env` is a variable, not a file");
            return None;
        }
        (Sort::File, Some(path)) => Source::File(path.line_of_text()),
        (Sort::File, None) => {
            place.invalid("`path` is missing: source `file` reads it");
            return None;
        }
        (Sort::Aws, _) => {
            place.unsupported("secrets are read from the environment or a file: fetch it before, and use source `env`");
            return None;
        }
    };
    Some(Secret {
        name: name.unwrap_or(key),
        source,
    })
}
