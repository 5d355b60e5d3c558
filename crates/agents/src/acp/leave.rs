//! Leave to use a tool: given once, for what a policy says, and never for good.

use std::io::ErrorKind;
use std::path::{Component, Path};

use serde_json::{Value, json};

use super::update::{Tool, ToolKind};
use crate::program::Permissions;

/// What an agent may do where it asks. What it does unasked is its own affair.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub enum Policy {
    /// Nothing.
    #[default]
    Nothing,
    /// Look and search, in the session's folder.
    Read,
    /// That, and change and remove files in the session's folder.
    Edit,
    /// Everything.
    All,
}

impl From<Permissions> for Policy {
    fn from(permissions: Permissions) -> Self {
        match permissions {
            Permissions::Read => Self::Read,
            Permissions::Edit => Self::Edit,
            Permissions::All => Self::All,
        }
    }
}

/// What is known of a tool when leave is asked for it.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub(super) struct Known {
    pub(super) kind: Option<ToolKind>,
    /// What people are shown.
    pub(super) title: Option<String>,
    /// The files that it touches.
    pub(super) places: Vec<String>,
}

impl Known {
    /// With what is told now in place of what was told before.
    pub(super) fn update(&mut self, tool: &Tool) {
        if let Some(kind) = &tool.kind {
            self.kind = Some(kind.clone());
        }
        if let Some(title) = &tool.title {
            self.title = Some(title.clone());
        }
        let places = places(tool);
        if !places.is_empty() {
            self.places = places;
        }
    }
}

impl Known {
    /// Whether it is a tool of this MCP server. Titles may be a model's words, as those of commands are,
    /// so what runs or touches anything is none, whatever it is called.
    pub(super) fn is_of(&self, server: &str) -> bool {
        let plain = |c: char| c.is_ascii_lowercase() || c == '_';
        let name = self.title.as_deref().and_then(|title| {
            let rest = title.strip_prefix("mcp__")?;
            rest.strip_prefix(server)?.strip_prefix("__")
        });
        let named = name.is_some_and(|name| !name.is_empty() && name.chars().all(plain));
        named && self.places.is_empty() && matches!(self.kind, None | Some(ToolKind::Other))
    }
}

/// The files that a tool names: those that it touches, and those that it shows changes of.
fn places(tool: &Tool) -> Vec<String> {
    let locations = tool.locations.iter().flatten();
    let diffs = tool.content.iter().flatten();
    let diffs = diffs.filter_map(|content| content["path"].as_str());
    let named = locations.map(|location| location.path.as_str());
    named.chain(diffs).map(str::to_owned).collect()
}

impl Policy {
    /// What is answered, and whether that is leave.
    pub(super) fn answer(self, known: &Known, folder: &Path, options: &Value) -> (Value, bool) {
        let option = |wanted: &str| {
            let mut all = options.as_array().into_iter().flatten();
            all.find(|option| option["kind"] == wanted && option["optionId"].is_string())
        };
        let allowed = self.allows(known, folder);
        let granted = option("allow_once").filter(|_| allowed);
        match granted.or_else(|| option("reject_once")) {
            Some(option) => {
                let chosen = json!({"outcome": "selected", "optionId": option["optionId"]});
                (json!({"outcome": chosen}), granted.is_some())
            }
            None => (cancelled(), false),
        }
    }

    /// A tool of no known sort is allowed only where everything is. What changes files must say
    /// which.
    fn allows(self, known: &Known, folder: &Path) -> bool {
        let inside = || {
            let mut places = known.places.iter();
            places.all(|place| is_inside(folder, Path::new(place)))
        };
        match (self, &known.kind) {
            (Self::All, _) | (Self::Read | Self::Edit, Some(ToolKind::Think)) => true,
            (Self::Read | Self::Edit, Some(ToolKind::Read | ToolKind::Search)) => inside(),
            (Self::Edit, Some(ToolKind::Edit | ToolKind::Delete)) => {
                !known.places.is_empty() && inside()
            }
            _ => false,
        }
    }
}

/// Whether a path leads into the folder, links followed.
fn is_inside(folder: &Path, path: &Path) -> bool {
    let Ok(root) = folder.canonicalize() else {
        return false;
    };
    let given = root.join(path);
    if given
        .components()
        .any(|part| matches!(part, Component::ParentDir))
    {
        return false;
    }
    // What is not there yet is where its nearest folder is.
    for there in given.ancestors() {
        match there.canonicalize() {
            Ok(real) => return real.starts_with(&root),
            Err(error) if error.kind() == ErrorKind::NotFound && !there.is_symlink() => {}
            Err(_) => return false,
        }
    }
    false
}

/// The answer that decides nothing.
pub(super) fn cancelled() -> Value {
    json!({"outcome": {"outcome": "cancelled"}})
}

#[cfg(test)]
mod tests {
    use super::*;

    fn known(kind: Option<ToolKind>, places: &[&str]) -> Known {
        Known {
            kind,
            places: places.iter().map(ToString::to_string).collect(),
            title: None,
        }
    }

    #[test]
    fn leave_is_given_once_or_not_at_all() {
        let options = json!([
            {"optionId": "always", "kind": "allow_always"},
            {"optionId": "once", "kind": "allow_once"},
            {"optionId": "never", "kind": "reject_always"},
            {"optionId": "no", "kind": "reject_once"},
        ]);
        let only_for_good = json!([
            {"optionId": "always", "kind": "allow_always"},
            {"optionId": "never", "kind": "reject_always"},
        ]);
        let nameless = json!([{"kind": "allow_once"}]);
        for (policy, options, expected) in [
            (Policy::All, &options, "once"),
            (Policy::Nothing, &options, "no"),
            (Policy::All, &only_for_good, ""),
            (Policy::Nothing, &only_for_good, ""),
            (Policy::All, &Value::Null, ""),
            (Policy::All, &nameless, ""),
        ] {
            let (answer, granted) = policy.answer(&Known::default(), Path::new("/"), options);
            let chosen = answer["outcome"]["optionId"].as_str().unwrap_or_default();
            assert_eq!(chosen, expected, "{policy:?} {options}");
            assert_eq!(granted, expected == "once");
        }
    }

    #[test]
    fn only_what_runs_and_touches_nothing_can_be_a_tool_of_a_server() {
        let called = |title: &str, kind: Option<ToolKind>, places: &[&str]| Known {
            title: Some(title.to_owned()),
            ..known(kind, places)
        };
        let own = "mcp__segno__add_todo";
        assert!(called(own, Some(ToolKind::Other), &[]).is_of("segno"));
        assert!(called(own, None, &[]).is_of("segno"));
        for other in [
            called(own, Some(ToolKind::Execute), &[]),
            called(own, Some(ToolKind::Other), &["/etc/passwd"]),
            called("mcp__segno__", None, &[]),
            called("mcp__segno__x; rm -rf .", None, &[]),
            called("mcp__segno2__add_todo", None, &[]),
            called("add_todo", None, &[]),
            known(None, &[]),
        ] {
            assert!(!other.is_of("segno"), "{other:?}");
        }
    }

    #[test]
    fn a_policy_allows_what_it_says_and_nothing_that_is_not_known() {
        use ToolKind::{Delete, Edit, Execute, Fetch, Move, Read, Search, Think, Unknown};
        let folder = tempfile::tempdir().unwrap();
        let folder = folder.path();
        std::os::unix::fs::symlink("/etc", folder.join("out")).unwrap();
        std::os::unix::fs::symlink("/nowhere/at/all", folder.join("gone")).unwrap();
        let inside = folder.join("new/a.txt").display().to_string();
        let (read, edit) = ([Policy::Read, Policy::Edit], [Policy::Edit]);
        let nobody: [Policy; 0] = [];
        let cases: [(Option<ToolKind>, &[&str], &[Policy]); 19] = [
            (Some(Read), &["a.txt"], &read),
            (Some(Read), &[], &read),
            (Some(Search), &[&inside], &read),
            (Some(Think), &[], &read),
            (Some(Read), &["/etc/passwd"], &nobody),
            (Some(Edit), &["a.txt"], &edit),
            (Some(Edit), &[&inside, "b"], &edit),
            (Some(Delete), &["a.txt"], &edit),
            (Some(Edit), &[], &nobody),
            (Some(Edit), &["a.txt", "/etc/passwd"], &nobody),
            (Some(Edit), &["../a.txt"], &nobody),
            (Some(Edit), &["out/passwd"], &nobody),
            (Some(Edit), &["out/new"], &nobody),
            (Some(Edit), &["gone"], &nobody),
            (Some(Move), &["a.txt"], &nobody),
            (Some(Execute), &[], &nobody),
            (Some(Fetch), &[], &nobody),
            (Some(Unknown("edit ".into())), &["a.txt"], &nobody),
            (None, &["a.txt"], &nobody),
        ];
        for (kind, places, allowing) in cases {
            let known = known(kind, places);
            for policy in [Policy::Nothing, Policy::Read, Policy::Edit, Policy::All] {
                let expected = policy == Policy::All || allowing.contains(&policy);
                assert_eq!(
                    policy.allows(&known, folder),
                    expected,
                    "{policy:?} {known:?}"
                );
            }
        }
    }
}
