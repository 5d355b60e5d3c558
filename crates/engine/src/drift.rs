//! What others did to a workspace while nobody worked for its session.

use segno_core::digest::Digest;
use segno_core::journal::WorkspaceSeen;
use segno_core::snapshot::Sight;

/// What to do if a workspace is not as the session left it.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub enum OnDrift {
    /// Say so, and go on.
    #[default]
    Warn,
    /// Refuse to go on.
    Refuse,
    /// Go on.
    Accept,
}

/// How a workspace looks, as it is written down; `None` where git has nothing to say.
pub(crate) fn seen(sight: &Sight) -> Option<WorkspaceSeen> {
    let repository = sight.repository.as_ref()?;
    Some(WorkspaceSeen {
        branch: repository.branch.clone(),
        commit: repository.commit.clone(),
        changed: sight.changed.len() as u64,
        names: Digest::of(sight.changed.join("\0").as_bytes()),
    })
}

/// How a workspace differs from what was seen last, in words.
pub fn drift(before: &WorkspaceSeen, sight: &Sight) -> Vec<String> {
    let Some(now) = seen(sight) else {
        return vec!["it is no git repository any more".to_owned()];
    };
    let mut drift = Vec::new();
    let named = |name: &Option<String>, none: &str| match name {
        Some(name) => name
            .get(..12)
            .filter(|_| name.len() == 40)
            .unwrap_or(name)
            .to_owned(),
        None => none.to_owned(),
    };
    if before.branch != now.branch {
        let (was, is) = (named(&before.branch, "none"), named(&now.branch, "none"));
        drift.push(format!("the branch was {was} and is {is}"));
    }
    if before.commit != now.commit {
        let (was, is) = (named(&before.commit, "none"), named(&now.commit, "none"));
        drift.push(format!("the commit was {was} and is {is}"));
    }
    if before.names != now.names {
        drift.push(match (before.changed, now.changed) {
            (was, is) if was == is => {
                format!("{is} files differ from the commit, and not the same ones as before")
            }
            (was, is) => format!("{was} files differed from the commit, and {is} do now"),
        });
    }
    drift
}

#[cfg(test)]
mod tests {
    use segno_core::checkpoint::Repository;

    use super::*;

    fn sight(branch: &str, changed: &[&str]) -> Sight {
        Sight {
            repository: Some(Repository {
                branch: Some(branch.into()),
                commit: Some("c".into()),
                ..Repository::default()
            }),
            changed: changed.iter().map(|name| (*name).to_owned()).collect(),
        }
    }

    #[test]
    fn only_what_differs_is_told() {
        let before = seen(&sight("main", &["a"])).unwrap();
        assert_eq!(drift(&before, &sight("main", &["a"])), Vec::<String>::new());
        assert_eq!(
            drift(&before, &sight("other", &["b"])),
            [
                "the branch was main and is other",
                "1 files differ from the commit, and not the same ones as before"
            ]
        );
        assert_eq!(
            drift(&before, &Sight::default()),
            ["it is no git repository any more"]
        );
    }
}
