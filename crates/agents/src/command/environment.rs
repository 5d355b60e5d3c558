//! Which of Segno's own environment variables a program gets.

use std::env;
use std::ffi::{OsStr, OsString};

use tokio::process::Command;

/// Variables that programs need to find files and to speak the user's language. None of them is a
/// key.
const LISTED: [&str; 14] = [
    "HOME",
    "LANG",
    "LANGUAGE",
    "LOGNAME",
    "NODE_EXTRA_CA_CERTS",
    "PATH",
    // A Segno that a spec starts as a server needs the same home.
    "SEGNO_HOME",
    "SHELL",
    "SSL_CERT_DIR",
    "SSL_CERT_FILE",
    "TERM",
    "TMPDIR",
    "TZ",
    "USER",
];

/// Variables of the vendors of agents. An agent of unknown vendor gets all of them, with their keys.
pub(crate) const VENDORS: [&str; 6] = [
    "ANTHROPIC_*",
    "CLAUDE_*",
    "CODEX_*",
    "GEMINI_*",
    "GOOGLE_*",
    "OPENAI_*",
];

/// Which environment variables the programs of agents get: all except those whose names look like
/// those of secrets. Of these they get their vendor's own, and those that are passed by name.
#[derive(Debug, Clone)]
pub struct AgentEnvironment {
    /// Whether a variable of this name looks like a secret.
    pub looks_secret: fn(&str) -> bool,
    /// Names of variables that are passed all the same; a name may end in `*`.
    pub pass: Vec<String>,
}

impl AgentEnvironment {
    /// An environment from which nothing is withheld.
    pub fn whole() -> Self {
        Self {
            looks_secret: |_| false,
            pass: Vec::new(),
        }
    }

    /// Whether an agent of unknown vendor does not get the variable.
    pub fn withholds(&self, name: &str) -> bool {
        self.withholds_from(name, &VENDORS, &[])
    }

    fn withholds_from(&self, name: &str, vendor: &[&str], spec: &[String]) -> bool {
        let own = self.pass.iter().chain(spec).map(String::as_str);
        let mut passed = vendor.iter().copied().chain(own);
        (self.looks_secret)(name) && !passed.any(|pattern| matches(name, pattern))
    }

    /// What a program inherits that may have the variables of `vendor`, and those that the spec
    /// passes.
    pub(crate) fn for_program(&self, vendor: &[&str], spec: &[String]) -> Inherit {
        let names = env::vars_os().map(|(name, _)| name);
        // A name that is not text is none that a person gave to a secret.
        let withheld = |name: &OsString| {
            name.to_str()
                .is_some_and(|name| self.withholds_from(name, vendor, spec))
        };
        Inherit::Without(names.filter(withheld).collect())
    }
}

/// Whether `pattern` is this name, or its beginning and a `*`.
fn matches(name: &str, pattern: &str) -> bool {
    match pattern.strip_suffix('*') {
        Some(beginning) => name.starts_with(beginning),
        None => name == pattern,
    }
}

/// Which of Segno's own environment variables a program inherits.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) enum Inherit {
    /// All except these.
    Without(Vec<OsString>),
    /// Those that contain no keys: locations, locale and user.
    Listed,
    /// Only `PATH`.
    Path,
}

impl Inherit {
    /// Restricts what a program inherits.
    pub(crate) fn apply(&self, command: &mut Command) {
        if let Inherit::Without(withheld) = self {
            for name in withheld {
                command.env_remove(name);
            }
        } else {
            command.env_clear();
            command.envs(env::vars_os().filter(|(name, _)| self.includes(name)));
        }
    }

    fn includes(&self, name: &OsStr) -> bool {
        match self {
            Inherit::Without(withheld) => !withheld.iter().any(|withheld| withheld == name),
            Inherit::Listed => is_listed(name),
            Inherit::Path => name == "PATH",
        }
    }
}

fn is_listed(name: &OsStr) -> bool {
    let folder = name.to_str().and_then(|name| name.strip_prefix("XDG_"));
    let is_folder =
        |name: &str| name.ends_with("_HOME") || name.ends_with("_DIR") || name.ends_with("_DIRS");
    LISTED.iter().any(|listed| name == OsStr::new(listed))
        || name.as_encoded_bytes().starts_with(b"LC_")
        || folder.is_some_and(is_folder)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn agents_get_their_vendors_secrets_and_passed_ones() {
        let environment = AgentEnvironment {
            looks_secret: |name| name.ends_with("_KEY") || name.ends_with("_TOKEN"),
            pass: vec!["NPM_TOKEN".into(), "TEAM_*".into()],
        };
        let spec = ["DEPLOY_KEY".to_owned()];
        for (name, of_claude, of_any) in [
            ("PATH", false, false),
            ("JAVA_HOME", false, false),
            ("HTTPS_PROXY", false, false),
            ("ANTHROPIC_API_KEY", false, false),
            ("OPENAI_API_KEY", true, false),
            ("GITHUB_TOKEN", true, true),
            ("NPM_TOKEN", false, false),
            ("NPM_TOKEN_KEY", true, true),
            ("TEAM_A_TOKEN", false, false),
            ("DEPLOY_KEY", false, true),
        ] {
            let claude = environment.withholds_from(name, &["ANTHROPIC_*"], &spec);
            assert_eq!(
                (claude, environment.withholds(name)),
                (of_claude, of_any),
                "{name}"
            );
            assert!(!AgentEnvironment::whole().withholds(name));
        }
    }

    #[test]
    fn keys_are_not_inherited() {
        for (name, expected) in [
            ("PATH", true),
            ("LC_ALL", true),
            ("XDG_CONFIG_HOME", true),
            ("XDG_RUNTIME_DIR", true),
            ("XDG_SESSION_COOKIE", false),
            ("SEGNO_HOME", true),
            ("SEGNO_PASSPHRASE", false),
            ("ANTHROPIC_API_KEY", false),
            ("GITHUB_TOKEN", false),
            ("LD_PRELOAD", false),
            ("SSH_AUTH_SOCK", false),
            ("HTTPS_PROXY", false),
        ] {
            assert_eq!(
                Inherit::Listed.includes(OsStr::new(name)),
                expected,
                "{name}"
            );
            assert_eq!(Inherit::Path.includes(OsStr::new(name)), name == "PATH");
        }
    }
}
