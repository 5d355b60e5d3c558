//! Files that start programs without anybody asking for it: git, shells, agents, editors, package
//! managers and CI services read them by name, as soon as a user works in their folder or pushes it.
//!
//! One list for everything that writes files on behalf of others: a restore of something that came
//! from elsewhere sets such files aside, and the file tools of models do not write them. The list
//! names files for which a routine command such as `git status` or `cd` is enough. Files that a
//! user runs on purpose, such as a `Makefile` or a test, are not on it.
//!
//! Names are compared as the most lenient file system would: without regard to case, to invisible
//! characters, and to dots and spaces at the end. Links are the caller's part: a path has to be
//! resolved before it is judged.

/// Every such place, in any folder, with the reason; names as [`folded`] returns them. A folder
/// stands for all that it contains.
const PLACES: [(&str, &[&str]); 6] = [
    (
        "git runs the programs that it names",
        &[
            ".git/config",
            ".git/config.worktree",
            ".git/commondir",
            ".git/hooks",
            ".git/rebase-merge/git-rebase-todo",
            ".gitconfig",
            ".config/git",
            ".githooks",
            ".husky",
            ".lefthook.yaml",
            ".lefthook.yml",
            ".pre-commit-config.yaml",
            "lefthook.yaml",
            "lefthook.yml",
        ],
    ),
    (
        "agents run the programs that it names",
        &[
            ".claude",
            ".codex",
            ".config/segno",
            ".continue",
            ".cursor",
            ".gemini",
            ".kiro",
            ".mcp.json",
            ".opencode",
            ".roo",
            ".windsurf",
            "opencode.json",
            "opencode.jsonc",
        ],
    ),
    (
        "editors run the programs that it names",
        &[
            ".devcontainer",
            ".devcontainer.json",
            ".dir-locals.el",
            ".exrc",
            ".idea",
            ".nvim.lua",
            ".nvimrc",
            ".vimrc",
            ".vscode",
            ".zed",
        ],
    ),
    (
        "a shell or debugger runs it when it starts",
        &[
            ".bash_login",
            ".bash_logout",
            ".bash_profile",
            ".bashrc",
            ".config/autostart",
            ".config/fish",
            ".config/mise",
            ".config/systemd",
            ".envrc",
            ".gdbinit",
            ".lldbinit",
            ".mise",
            ".mise.toml",
            ".profile",
            ".ssh",
            ".zlogin",
            ".zprofile",
            ".zshenv",
            ".zshrc",
            "mise.toml",
        ],
    ),
    (
        "package managers run the programs that it names",
        &[
            ".cargo/config",
            ".cargo/config.toml",
            ".npmrc",
            ".pnpmfile.cjs",
            ".yarn/plugins",
            ".yarn/releases",
            ".yarnrc",
            ".yarnrc.yml",
        ],
    ),
    (
        "CI services run the commands in it",
        &[
            ".appveyor.yml",
            ".azure-pipelines",
            ".build.yml",
            ".builds",
            ".buildkite",
            ".circleci",
            ".cirrus.yml",
            ".drone.yml",
            ".forgejo/workflows",
            ".gitea/workflows",
            ".github/actions",
            ".github/workflows",
            ".gitlab-ci.yml",
            ".gitlab/ci",
            ".teamcity",
            ".travis.yml",
            ".woodpecker",
            ".woodpecker.yml",
            "jenkinsfile",
            "appveyor.yml",
            "azure-pipelines.yml",
            "bitbucket-pipelines.yml",
        ],
    ),
];

/// Why a file at this path could start programs; `None` if it cannot. `path` is relative, with `/`
/// between names. It may be such a place or lie in one: of a path and the folders above it, the
/// shortest with a reason is the place itself.
pub fn starts_programs(path: &[u8]) -> Option<&'static str> {
    let names = folded_names(path);
    if has_nested_git_setting(&names) {
        return Some(PLACES[0].0);
    }
    let starts = |start: usize| {
        let names = &names[start..];
        let mut places = PLACES.iter();
        places.find(|(_, places)| places.iter().any(|place| is_at_or_below(names, place)))
    };
    (0..names.len()).find_map(starts).map(|(reason, _)| *reason)
}

/// Whether such places can lie below a folder at this path, such as `.git` or `.github`. A link
/// there decides where they are.
pub fn may_contain_starters(path: &[u8]) -> bool {
    let names = folded_names(path);
    let above = |place: &&str| {
        let place: Vec<&str> = place.split('/').collect();
        (1..place.len())
            .any(|length| names.len() >= length && names[names.len() - length..] == place[..length])
    };
    starts_programs(path).is_none() && PLACES.iter().flat_map(|(_, places)| *places).any(above)
}

/// The names of a path as [`folded`] compares them, with `.` and `..` resolved as far as the path
/// itself goes.
pub fn folded_names(path: &[u8]) -> Vec<String> {
    let mut names: Vec<String> = Vec::new();
    for name in path.split(|byte| *byte == b'/') {
        match name {
            b"" | b"." => {}
            b".." => drop(names.pop()),
            name => names.push(folded(name)),
        }
    }
    names
}

/// A name in the form in which names are compared: two names that some file system takes for the
/// same one have the same form.
pub fn folded(name: &[u8]) -> String {
    let text = String::from_utf8_lossy(name);
    // NTFS: what follows a colon names a stream of the same file.
    let end = text.find(':').filter(|end| *end > 0);
    let text = &text[..end.unwrap_or(text.len())];
    let visible = text.chars().filter(|c| !is_ignored(*c));
    // Through upper case, because some lower-case letters share one: `ſ` and `s`.
    let upper = visible.flat_map(char::to_uppercase);
    let lower: String = upper.flat_map(char::to_lowercase).collect();
    // FAT and NTFS drop dots and spaces at the end of a name.
    let trimmed = lower.trim_end_matches(['.', ' ']);
    match trimmed {
        "" => lower,
        // The short name that FAT and NTFS give to `.git`.
        "git~1" | "git~2" | "git~3" | "git~4" => ".git".to_owned(),
        trimmed => trimmed.to_owned(),
    }
}

/// Characters that HFS+ skips when it compares names.
fn is_ignored(c: char) -> bool {
    matches!(c, '\u{200c}'..='\u{200f}' | '\u{202a}'..='\u{202e}' | '\u{206a}'..='\u{206f}' | '\u{feff}')
}

fn is_at_or_below(names: &[String], place: &str) -> bool {
    let mut names = names.iter();
    place
        .split('/')
        .all(|part| names.next().is_some_and(|name| name == part))
}

/// Whether this is a setting of a submodule or a linked worktree: these have folders of their own
/// inside the git folder, at any depth.
fn has_nested_git_setting(names: &[String]) -> bool {
    let mut nested = names
        .iter()
        .skip_while(|name| *name != ".git")
        .skip_while(|name| !["modules", "worktrees"].contains(&name.as_str()));
    nested.next().is_some()
        && nested.any(|name| ["config", "config.worktree", "hooks"].contains(&name.as_str()))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn starts(path: &str) -> bool {
        starts_programs(path.as_bytes()).is_some()
    }

    #[test]
    fn places_are_found_in_any_folder() {
        for path in [
            ".git/config",
            "sub/.git/hooks/pre-commit",
            ".git/modules/lib/inner/hooks/post-checkout",
            ".git/worktrees/w/config.worktree",
            ".claude/settings.json",
            ".claude",
            "a/b/.mcp.json",
            ".envrc",
            ".cargo/config.toml",
            ".github/workflows/ci.yml",
            ".gitlab-ci.yml",
            "Jenkinsfile",
        ] {
            assert!(starts(path), "{path}");
        }
    }

    #[test]
    fn list_has_the_form_that_names_are_compared_in() {
        for place in PLACES.iter().flat_map(|(_, places)| *places) {
            assert_eq!(folded_names(place.as_bytes()).join("/"), *place);
        }
    }

    #[test]
    fn ordinary_files_start_nothing() {
        for path in [
            "",
            "README.md",
            "config",
            "hooks/pre-commit",
            ".git",
            ".git/HEAD",
            ".git/objects/ab/cd",
            ".git/modules/lib/HEAD",
            ".gitignore",
            ".github/CODEOWNERS",
            ".cargo/registry",
            "modules/config",
            "src/claude/settings.json",
            "Makefile",
            "...",
        ] {
            assert!(!starts(path), "{path}");
        }
    }

    #[test]
    fn lenient_file_systems_are_taken_into_account() {
        for path in [
            ".GIT/hooks/x",
            ".Git/Config",
            ".git./hooks/x",
            ".git /config",
            ".git::$INDEX_ALLOCATION/config",
            "GIT~1/config",
            ".g\u{200c}it/config",
            ".\u{feff}envrc",
            ".zſhrc",
            ".git//config",
            "./.git/./config",
            ".git/../.git/hooks/x",
            "x/../.git/hooks/x",
            ".git/objects/../hooks/x",
            ".MCP.JSON.",
            "jenkinsfile",
        ] {
            assert!(starts(path), "{path}");
        }
        assert!(!starts(".git/hooks/../HEAD"));
        assert!(starts_programs(b".git/hooks/\xff").is_some());
        assert!(starts_programs(b".g\xffit/hooks").is_none());
    }

    #[test]
    fn folders_above_a_place_are_known() {
        for (path, expected) in [
            (".git", true),
            ("sub/.GitHub", true),
            (".cargo", true),
            (".claude", false),
            ("src", false),
            ("", false),
        ] {
            assert_eq!(may_contain_starters(path.as_bytes()), expected, "{path}");
        }
    }
}
