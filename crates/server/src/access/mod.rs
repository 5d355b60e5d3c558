//! Who may use the API: tokens, and one-time codes with which a browser gets one.

mod logins;
mod tokens;

pub use logins::{BROWSER_LIFETIME, Logins};
pub use tokens::{CreatedToken, TokenKind, TokenRecord, Tokens};

use std::io;
use std::path::PathBuf;

use segno_core::error::{Diagnose, Diagnosis, Kind};
use segno_core::ports::Random;
use serde::{Deserialize, Serialize};

/// What a token permits; each scope includes the ones before it.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Scope {
    /// Read sessions and follow them.
    Read,
    /// Start, pause, resume, cancel and answer sessions; write notes; create and restore checkpoints.
    Operate,
    /// Also manage the server and its tokens.
    Admin,
}

impl Scope {
    pub const ALL: [Self; 3] = [Self::Read, Self::Operate, Self::Admin];

    pub const fn as_str(self) -> &'static str {
        match self {
            Self::Read => "read",
            Self::Operate => "operate",
            Self::Admin => "admin",
        }
    }
}

/// Why a token or a code could not be created, listed or revoked.
#[derive(Debug, thiserror::Error)]
pub enum Error {
    #[error("{} cannot be used: {reason}", .path.display())]
    Unusable { path: PathBuf, reason: io::Error },
    #[error("{} is damaged: {reason}", .path.display())]
    Damaged { path: PathBuf, reason: String },
    #[error("there is no token `{reference}`")]
    NoSuchToken { reference: String },
    #[error("the name `{name}` is taken by another token")]
    NameTaken { name: String },
    #[error("the name of a token has 1 to 64 characters, without control characters")]
    InvalidName,
}

impl Diagnose for Error {
    fn diagnosis(&self) -> Diagnosis {
        match self {
            Self::Unusable { .. } => Diagnosis::new(Kind::Unavailable, "F0201"),
            Self::Damaged { path, .. } => Diagnosis::new(Kind::Damaged, "N0109").hint(format!(
                "remove {}; the user of this token needs a new one",
                path.display()
            )),
            Self::NoSuchToken { .. } => {
                Diagnosis::new(Kind::NotFound, "N0108").hint("`segno token list` lists all tokens")
            }
            Self::NameTaken { name } => Diagnosis::new(Kind::Conflict, "N0108").hint(format!(
                "choose another name, or `segno token revoke {name}` first"
            )),
            Self::InvalidName => Diagnosis::new(Kind::Invalid, "N0108"),
        }
    }
}

/// `N` unpredictable bytes in hexadecimal digits.
fn random_hex<const N: usize>(random: &dyn Random) -> String {
    use std::fmt::Write;
    let mut bytes = [0; N];
    random.fill(&mut bytes);
    bytes.iter().fold(String::new(), |mut text, byte| {
        let _ = write!(text, "{byte:02x}");
        text
    })
}

/// Whether a text is exactly `length` lowercase hexadecimal digits, so that it can be part of a path.
fn is_hex(text: &str, length: usize) -> bool {
    text.len() == length && text.bytes().all(|b| matches!(b, b'0'..=b'9' | b'a'..=b'f'))
}
