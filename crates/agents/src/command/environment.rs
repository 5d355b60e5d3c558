//! Which of Segno's own environment variables a program gets.

use std::ffi::OsStr;

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

/// Which of Segno's own environment variables a program inherits.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Inherit {
    All,
    /// Those that contain no keys: locations, locale and user.
    Listed,
    /// Only `PATH`.
    Path,
}

impl Inherit {
    /// Restricts what a program inherits.
    pub(crate) fn apply(self, command: &mut Command) {
        if self != Inherit::All {
            command.env_clear();
            command.envs(std::env::vars_os().filter(|(name, _)| self.includes(name)));
        }
    }

    fn includes(self, name: &OsStr) -> bool {
        match self {
            Inherit::All => true,
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
            assert!(Inherit::All.includes(OsStr::new(name)));
            assert_eq!(Inherit::Path.includes(OsStr::new(name)), name == "PATH");
        }
    }
}
