//! The `outputs` block: the files that a workflow writes at its end.

use std::path::{Component, Path, PathBuf};

use super::cursor::Cursor;
use super::fields::Keys;

const KEYS: Keys = Keys {
    required: &[],
    optional: &["artifacts"],
};
const ARTIFACT_KEYS: Keys = Keys {
    required: &["path", "from"],
    optional: &[],
};

#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Artifact {
    /// A template. Check its result with [`checked_artifact_path`].
    pub path: String,
    /// A template for the content.
    pub from: String,
}

/// Why a text is not a path inside the artifacts folder.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum PathError {
    #[error("an artifact's path must name a file, not {0:?}")]
    Empty(String),
    #[error("an artifact's path must be relative, not {0:?}")]
    Absolute(String),
    #[error("an artifact's path must not contain `..`: {0:?}")]
    ParentFolder(String),
    #[error("an artifact's path must not contain control characters: {0:?}")]
    Control(String),
}

/// Checks that `path` stays inside the folder that it will be joined to, as far as its text shows.
/// The writer must check symbolic links.
pub fn checked_artifact_path(path: &str) -> Result<PathBuf, PathError> {
    if path.chars().any(char::is_control) {
        return Err(PathError::Control(path.to_owned()));
    }
    let mut checked = PathBuf::new();
    for component in Path::new(path).components() {
        match component {
            Component::Normal(name) => checked.push(name),
            Component::CurDir => {}
            Component::ParentDir => return Err(PathError::ParentFolder(path.to_owned())),
            Component::RootDir | Component::Prefix(_) => {
                return Err(PathError::Absolute(path.to_owned()));
            }
        }
    }
    if checked.as_os_str().is_empty() || path.ends_with('/') || path.ends_with("/.") {
        return Err(PathError::Empty(path.to_owned()));
    }
    Ok(checked)
}

pub(super) fn read(cursor: &Cursor<'_>) -> Vec<Artifact> {
    let fields = cursor.fields(&KEYS);
    let cursors = fields.read("artifacts", |cursor| cursor.list(0));
    let mut seen = Vec::new();
    cursors
        .iter()
        .map(|cursor| artifact(cursor, &mut seen))
        .collect()
}

fn artifact(cursor: &Cursor<'_>, seen: &mut Vec<PathBuf>) -> Artifact {
    let fields = cursor.fields(&ARTIFACT_KEYS);
    let path = fields.read("path", |cursor| {
        let path = cursor.template();
        // The path of a template is checked after rendering.
        if !["{{", "{%", "{#"].iter().any(|mark| path.contains(mark)) {
            match checked_artifact_path(&path) {
                Ok(file) if seen.contains(&file) => {
                    cursor.invalid("another artifact has this path");
                }
                Ok(file) => seen.push(file),
                Err(error) => cursor.invalid(error.to_string()),
            }
        }
        path
    });
    let from = fields.read("from", |cursor| cursor.template());
    Artifact { path, from }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_path_stays_inside_its_folder() {
        for (given, expected) in [
            ("out.md", "out.md"),
            ("./a//b.txt", "a/b.txt"),
            ("a/..b", "a/..b"),
            ("…/ü.md", "…/ü.md"),
        ] {
            assert_eq!(checked_artifact_path(given), Ok(PathBuf::from(expected)));
        }
        for bad in [
            "", ".", "./", "/", "/etc/x", "..", "../x", "a/../b", "a/..", "a/", "a/.", "a\nb",
            "a\0",
        ] {
            assert!(checked_artifact_path(bad).is_err(), "{bad:?}");
        }
    }

    proptest::proptest! {
        #[test]
        fn accepted_paths_have_only_normal_components(path in "[a./~\\\\ ]{0,12}") {
            if let Ok(checked) = checked_artifact_path(&path) {
                let plain = |component| matches!(component, Component::Normal(_));
                proptest::prop_assert!(checked.components().all(plain));
                proptest::prop_assert!(checked.components().count() > 0);
            }
        }
    }
}
