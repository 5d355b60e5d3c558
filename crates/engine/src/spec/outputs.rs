//! The `outputs` block: what is written when the work is done.

use std::path::{Component, Path, PathBuf};

use super::fields::Keys;
use super::place::Place;

const KEYS: Keys = Keys {
    required: &[],
    optional: &["artifacts"],
};
const ARTIFACT_KEYS: Keys = Keys {
    required: &["path", "from"],
    optional: &[],
};

/// A file that a workflow writes.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Artifact {
    /// Where: a template. Check what it renders to with [`checked_artifact_path`].
    pub path: String,
    /// What: a template.
    pub from: String,
}

/// The text is not a path inside the artifacts folder.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum PathError {
    /// It names no file.
    #[error("an artifact's path must name a file, not {0:?}")]
    Empty(String),
    /// It starts at the root.
    #[error("an artifact's path must be relative, not {0:?}")]
    Absolute(String),
    /// It leaves the folder.
    #[error("an artifact's path must not hold `..`, as {0:?} does")]
    Upward(String),
    /// It holds a character that no file name should.
    #[error("an artifact's path must not hold control characters, as {0:?} does")]
    Control(String),
}

/// Checks that `path` stays inside the folder that it will be joined to, as far as its text tells:
/// where symbolic links lead is for the writer to see.
pub fn checked_artifact_path(path: &str) -> Result<PathBuf, PathError> {
    if path.chars().any(char::is_control) {
        return Err(PathError::Control(path.to_owned()));
    }
    let mut checked = PathBuf::new();
    for component in Path::new(path).components() {
        match component {
            Component::Normal(name) => checked.push(name),
            Component::CurDir => {}
            Component::ParentDir => return Err(PathError::Upward(path.to_owned())),
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

pub(super) fn read(place: &Place<'_>) -> Vec<Artifact> {
    let fields = place.fields(&KEYS);
    let places = fields.read("artifacts", |place| place.list(0));
    let mut seen = Vec::new();
    places
        .iter()
        .map(|place| artifact(place, &mut seen))
        .collect()
}

fn artifact(place: &Place<'_>, seen: &mut Vec<PathBuf>) -> Artifact {
    let fields = place.fields(&ARTIFACT_KEYS);
    let path = fields.read("path", |place| {
        let path = place.template();
        // What a template becomes is known, and checked, only after rendering.
        if !["{{", "{%", "{#"].iter().any(|mark| path.contains(mark)) {
            match checked_artifact_path(&path) {
                Ok(file) if seen.contains(&file) => place.invalid("another artifact has this path"),
                Ok(file) => seen.push(file),
                Err(error) => place.invalid(error.to_string()),
            }
        }
        path
    });
    let from = fields.read("from", |place| place.template());
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
        fn whatever_is_accepted_has_only_plain_components(path in "[a./~\\\\ ]{0,12}") {
            if let Ok(checked) = checked_artifact_path(&path) {
                let plain = |component| matches!(component, Component::Normal(_));
                proptest::prop_assert!(checked.components().all(plain));
                proptest::prop_assert!(checked.components().count() > 0);
            }
        }
    }
}
