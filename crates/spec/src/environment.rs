//! The `env` block: secrets and mounted folders that a workflow needs.

use super::cursor::Cursor;
use super::fields::Keys;

const KEYS: Keys = Keys {
    required: &[],
    optional: &["secrets", "mounts", "pass"],
};
const SECRET_KEYS: Keys = Keys {
    required: &["key", "source"],
    optional: &["name", "path"],
};

#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Environment {
    /// Values for `${NAME}`. They are never stored.
    pub secrets: Vec<Secret>,
    /// Names of environment variables that agents' programs get, although they look like secrets. A
    /// name may end in `*`.
    pub pass: Vec<String>,
    /// Folders that tools may access in addition to the workspace: name and path.
    pub mounts: Vec<(String, String)>,
}

#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Secret {
    /// The `NAME` in `${NAME}`.
    pub name: String,
    pub source: Source,
}

#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Source {
    /// An environment variable.
    Variable(String),
    /// A file; the path is relative to the spec.
    File(String),
}

#[derive(Clone, Copy)]
enum SourceKind {
    Env,
    File,
    Aws,
}

pub(super) fn read(cursor: &Cursor<'_>) -> Environment {
    let fields = cursor.fields(&KEYS);
    let mut environment = Environment::default();
    for cursor in fields.read("secrets", |cursor| cursor.list(0)) {
        environment.secrets.extend(secret(&cursor));
    }
    for (name, cursor) in fields.read("mounts", |cursor| cursor.identifier_entries()) {
        let folder = cursor.single_line();
        environment.mounts.push((name.to_owned(), folder));
    }
    for cursor in fields.read("pass", |cursor| cursor.list(0)) {
        environment.pass.extend(variable_name(&cursor));
    }
    environment
}

/// The name of an environment variable, or the beginning of names and a `*`.
fn variable_name(cursor: &Cursor<'_>) -> Option<String> {
    let name = cursor.single_line();
    let plain = name.strip_suffix('*').unwrap_or(&name);
    let fits = |c: char| c.is_ascii_alphanumeric() || c == '_';
    if plain.is_empty() || !plain.chars().all(fits) {
        cursor
            .invalid("is not the name of an environment variable; a `*` may follow its beginning");
        return None;
    }
    Some(name)
}

fn secret(cursor: &Cursor<'_>) -> Option<Secret> {
    let fields = cursor.fields(&SECRET_KEYS);
    let key = fields.read("key", |cursor| cursor.identifier());
    let source_kind = fields.get("source")?.choice(&[
        ("env", SourceKind::Env),
        ("file", SourceKind::File),
        ("secrets_manager", SourceKind::Aws),
        ("ssm", SourceKind::Aws),
    ]);
    let path = fields.get("path");
    let name = fields.get("name").map(|cursor| cursor.single_line());
    let source = match (source_kind, path) {
        (SourceKind::Env, None) => Source::Variable(key.clone()),
        (SourceKind::Env, Some(path)) => {
            path.invalid("would be ignored: source `env` is a variable, not a file");
            return None;
        }
        (SourceKind::File, Some(path)) => Source::File(path.single_line()),
        (SourceKind::File, None) => {
            cursor.invalid("`path` is missing; source `file` needs it");
            return None;
        }
        (SourceKind::Aws, _) => {
            cursor.unsupported("secrets are read from the environment or from a file; fetch it first, and use source `env`");
            return None;
        }
    };
    Some(Secret {
        name: name.unwrap_or(key),
        source,
    })
}
