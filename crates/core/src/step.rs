//! Step paths. A path is a step's identity: stable across runs, never dependent on the order in which
//! steps happen to finish.

use std::fmt;

use serde::{Deserialize, Deserializer, Serialize, de};

/// A step's path: `steps/0`, `tasks/research`, `nodes/check#2`, `rounds/1/workers/3`.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize)]
#[serde(transparent)]
pub struct Path(String);

/// The text is not a step path.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("not a step path: {0:?}")]
pub struct PathError(String);

impl Path {
    /// Validates a path: segments of letters, digits and `. _ : - #`, joined by `/`.
    pub fn new(text: &str) -> Result<Self, PathError> {
        let segment_ok = |segment: &str| {
            !segment.is_empty()
                && segment
                    .chars()
                    .all(|c| c.is_ascii_alphanumeric() || "._:-#".contains(c))
        };
        if text.len() <= 512 && text.split('/').all(segment_ok) {
            Ok(Self(text.to_owned()))
        } else {
            Err(PathError(text.to_owned()))
        }
    }

    /// A path of one segment. Names from specs were validated when the spec was parsed.
    #[must_use]
    pub fn root(segment: impl fmt::Display) -> Self {
        Self::checked(segment.to_string())
    }

    /// The path with one more segment.
    #[must_use]
    pub fn join(&self, segment: impl fmt::Display) -> Self {
        Self::checked(format!("{}/{segment}", self.0))
    }

    /// The path of the n-th visit: `nodes/check#2`. The first visit has no number.
    #[must_use]
    pub fn nth(&self, n: u32) -> Self {
        match n {
            0 | 1 => self.clone(),
            n => Self::checked(format!("{}#{n}", self.0)),
        }
    }

    fn checked(text: String) -> Self {
        debug_assert!(Self::new(&text).is_ok(), "{text:?}");
        Self(text)
    }

    pub fn as_str(&self) -> &str {
        &self.0
    }
}

impl fmt::Display for Path {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.pad(&self.0)
    }
}

impl<'de> Deserialize<'de> for Path {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        Self::new(&String::deserialize(deserializer)?).map_err(de::Error::custom)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn paths_grow_by_segments() {
        let node = Path::root("nodes").join("check");
        assert_eq!(node.nth(1).as_str(), "nodes/check");
        assert_eq!(
            node.nth(2).join("steps").join(0).as_str(),
            "nodes/check#2/steps/0"
        );
    }

    #[test]
    fn paths_are_plain_segments() {
        for good in [
            "steps/0",
            "tasks/research",
            "branches/web/steps/1",
            "nodes/check#2",
        ] {
            assert_eq!(Path::new(good).unwrap().as_str(), good);
        }
        for bad in ["", "/", "a//b", "a/", "a b", "a\n", &"x".repeat(513)] {
            assert!(Path::new(bad).is_err(), "{bad:?}");
        }
    }
}
