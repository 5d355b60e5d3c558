//! Answers permission requests by a policy: allows a single use, never "always".

use std::io::ErrorKind;
use std::path::{Component, Path};

use serde_json::{Value, json};

use super::update::{Tool, ToolKind};
use crate::program::Permissions;

/// What an agent may do where it asks. What it does without asking is up to the agent.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub enum Policy {
    #[default]
    Nothing,
    /// Read and search, in the session's folder.
    Read,
    /// Also change and delete files in the session's folder.
    Edit,
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

/// What is known of a tool call when the agent requests permission for it.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub(super) struct ToolCallInfo {
    /// The agent's id of the call.
    pub(super) id: String,
    pub(super) kind: Option<ToolKind>,
    /// The text that the agent shows to users.
    pub(super) title: Option<String>,
    /// The files that it touches.
    pub(super) paths: Vec<String>,
}

impl ToolCallInfo {
    /// Overwrites what is known by what `tool` contains.
    pub(super) fn update(&mut self, tool: &Tool) {
        self.id.clone_from(&tool.id);
        if let Some(kind) = &tool.kind {
            self.kind = Some(kind.clone());
        }
        if let Some(title) = &tool.title {
            self.title = Some(title.clone());
        }
        let paths = paths(tool);
        if !paths.is_empty() {
            self.paths = paths;
        }
    }
}

impl ToolCallInfo {
    /// Whether it is a tool of this MCP server. Titles may contain a model's words, as those of
    /// commands do, so a call that executes or touches anything is not, whatever its title is.
    pub(super) fn belongs_to(&self, server: &str) -> bool {
        let plain = |c: char| c.is_ascii_lowercase() || c == '_';
        let name = self.title.as_deref().and_then(|title| {
            claude_tool(title, server).or_else(|| self.gemini_tool(title, server))
        });
        let named = name.is_some_and(|name| !name.is_empty() && name.chars().all(plain));
        named && self.paths.is_empty() && matches!(self.kind, None | Some(ToolKind::Other))
    }

    /// The tool in a title like `add_todo (segno MCP Server)`. Gemini shows an argument instead of the
    /// title of a tool that has one called `command`, so the call's id must begin with the name under
    /// which Gemini has registered the tool.
    fn gemini_tool<'a>(&self, title: &'a str, server: &str) -> Option<&'a str> {
        let name = title.strip_suffix(&format!(" ({server} MCP Server)"))?;
        let id = format!("mcp_{server}_{name}__");
        self.id.starts_with(&id).then_some(name)
    }
}

/// The tool in a title like `mcp__segno__add_todo`, as Claude Code's adapter writes it.
fn claude_tool<'a>(title: &'a str, server: &str) -> Option<&'a str> {
    let rest = title.strip_prefix("mcp__")?;
    rest.strip_prefix(server)?.strip_prefix("__")
}

/// The paths that a tool call names: its locations, and the files in its diffs.
fn paths(tool: &Tool) -> Vec<String> {
    let locations = tool.locations.iter().flatten();
    let diffs = tool.content.iter().flatten();
    let diffs = diffs.filter_map(|content| content["path"].as_str());
    let named = locations.map(|location| location.path.as_str());
    named.chain(diffs).map(str::to_owned).collect()
}

impl Policy {
    /// The response to a permission request, and whether it grants permission.
    pub(super) fn answer(
        self,
        known: &ToolCallInfo,
        folder: &Path,
        options: &Value,
    ) -> (Value, bool) {
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

    /// A call of unknown kind is allowed only under `All`. A call that changes files must name
    /// them.
    fn allows(self, known: &ToolCallInfo, folder: &Path) -> bool {
        let inside = || {
            let mut paths = known.paths.iter();
            paths.all(|path| is_inside(folder, Path::new(path)))
        };
        match (self, &known.kind) {
            (Self::All, _) | (Self::Read | Self::Edit, Some(ToolKind::Think)) => true,
            (Self::Read | Self::Edit, Some(ToolKind::Read | ToolKind::Search)) => inside(),
            (Self::Edit, Some(ToolKind::Edit | ToolKind::Delete)) => {
                !known.paths.is_empty() && inside()
            }
            _ => false,
        }
    }
}

/// Whether a path leads into the folder, after following symlinks.
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
    // A path that does not exist yet is where its nearest existing ancestor is.
    for ancestor in given.ancestors() {
        match ancestor.canonicalize() {
            Ok(real) => return real.starts_with(&root),
            Err(error) if error.kind() == ErrorKind::NotFound && !ancestor.is_symlink() => {}
            Err(_) => return false,
        }
    }
    false
}

/// The response that makes no choice.
pub(super) fn cancelled() -> Value {
    json!({"outcome": {"outcome": "cancelled"}})
}

#[cfg(test)]
mod tests {
    use super::*;

    fn known(kind: Option<ToolKind>, paths: &[&str]) -> ToolCallInfo {
        ToolCallInfo {
            kind,
            paths: paths.iter().map(ToString::to_string).collect(),
            ..ToolCallInfo::default()
        }
    }

    #[test]
    fn permission_is_granted_once_or_not_at_all() {
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
            let (answer, granted) =
                policy.answer(&ToolCallInfo::default(), Path::new("/"), options);
            let chosen = answer["outcome"]["optionId"].as_str().unwrap_or_default();
            assert_eq!(chosen, expected, "{policy:?} {options}");
            assert_eq!(granted, expected == "once");
        }
    }

    #[test]
    fn only_calls_without_effects_count_as_server_tools() {
        let called = |title: &str, kind: Option<ToolKind>, paths: &[&str]| ToolCallInfo {
            title: Some(title.to_owned()),
            ..known(kind, paths)
        };
        let own = "mcp__segno__add_todo";
        assert!(called(own, Some(ToolKind::Other), &[]).belongs_to("segno"));
        assert!(called(own, None, &[]).belongs_to("segno"));
        for other in [
            called(own, Some(ToolKind::Execute), &[]),
            called(own, Some(ToolKind::Other), &["/etc/passwd"]),
            called("mcp__segno__", None, &[]),
            called("mcp__segno__x; rm -rf .", None, &[]),
            called("mcp__segno2__add_todo", None, &[]),
            called("add_todo", None, &[]),
            known(None, &[]),
        ] {
            assert!(!other.belongs_to("segno"), "{other:?}");
        }
    }

    #[test]
    fn server_tools_of_gemini_have_title_and_id() {
        let called = |id: &str, title: &str, kind: ToolKind| ToolCallInfo {
            id: id.to_owned(),
            title: Some(title.to_owned()),
            ..known(Some(kind), &[])
        };
        let (id, title) = ("mcp_segno_add_todo__fc_1", "add_todo (segno MCP Server)");
        assert!(called(id, title, ToolKind::Other).belongs_to("segno"));
        for other in [
            called("mcp_other_run__fc_1", title, ToolKind::Other),
            called("mcp_segno_add_note__fc_1", title, ToolKind::Other),
            called(id, "add_todo (segno2 MCP Server)", ToolKind::Other),
            called(id, "rm -rf . (segno MCP Server)", ToolKind::Other),
            called(id, title, ToolKind::Execute),
        ] {
            assert!(!other.belongs_to("segno"), "{other:?}");
        }
    }

    #[test]
    fn policy_denies_unknown_kinds_and_outside_paths() {
        use ToolKind::{Delete, Edit, Execute, Fetch, Move, Read, Search, Think, Unknown};
        let folder = tempfile::tempdir().unwrap();
        let folder = folder.path();
        std::os::unix::fs::symlink("/etc", folder.join("out")).unwrap();
        std::os::unix::fs::symlink("/nowhere/at/all", folder.join("gone")).unwrap();
        let inside = folder.join("new/a.txt").display().to_string();
        let (read, edit) = ([Policy::Read, Policy::Edit], [Policy::Edit]);
        let none: [Policy; 0] = [];
        let cases: [(Option<ToolKind>, &[&str], &[Policy]); 19] = [
            (Some(Read), &["a.txt"], &read),
            (Some(Read), &[], &read),
            (Some(Search), &[&inside], &read),
            (Some(Think), &[], &read),
            (Some(Read), &["/etc/passwd"], &none),
            (Some(Edit), &["a.txt"], &edit),
            (Some(Edit), &[&inside, "b"], &edit),
            (Some(Delete), &["a.txt"], &edit),
            (Some(Edit), &[], &none),
            (Some(Edit), &["a.txt", "/etc/passwd"], &none),
            (Some(Edit), &["../a.txt"], &none),
            (Some(Edit), &["out/passwd"], &none),
            (Some(Edit), &["out/new"], &none),
            (Some(Edit), &["gone"], &none),
            (Some(Move), &["a.txt"], &none),
            (Some(Execute), &[], &none),
            (Some(Fetch), &[], &none),
            (Some(Unknown("edit ".into())), &["a.txt"], &none),
            (None, &["a.txt"], &none),
        ];
        for (kind, paths, allowing) in cases {
            let known = known(kind, paths);
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
