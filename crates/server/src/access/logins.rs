//! One-time codes with which a browser logs in.
//!
//! `segno open` creates a code in the home, and the browser exchanges it for a cookie. The file of
//! a code is named by its digest. Who renames the file first has used the code; nobody else can.

use std::io;
use std::path::PathBuf;
use std::time::Duration;

use segno_core::digest::Digest;
use segno_core::ports::Access;
use segno_core::time::Timestamp;
use serde::{Deserialize, Serialize};

use super::{CreatedToken, Error, Scope, TokenKind, Tokens, is_hex, random_hex};

/// How long a code can be used.
const VALID: Duration = Duration::from_mins(5);
/// How long a browser stays logged in.
pub const BROWSER_LIFETIME: Duration = Duration::from_hours(30 * 24);

const DIGITS: usize = 32;
const MAX_BYTES: u64 = 4 << 10;

#[derive(Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
struct Code {
    v: u32,
    scope: Scope,
    expires_at_ms: i64,
}

/// The one-time codes of a home.
#[derive(Clone)]
pub struct Logins {
    tokens: Tokens,
}

impl Logins {
    /// The codes beside these tokens.
    pub fn new(tokens: Tokens) -> Self {
        Self { tokens }
    }

    /// Creates a code that a browser can exchange once for a token of this scope.
    pub fn create(&self, scope: Scope) -> Result<String, Error> {
        let tokens = &self.tokens;
        self.remove_expired();
        let code = random_hex::<{ DIGITS / 2 }>(&*tokens.random);
        let body = Code {
            v: 1,
            scope,
            expires_at_ms: tokens.clock.now().after(VALID).0,
        };
        let body = serde_json::to_vec(&body).expect("a code of plain values");
        let (folder, path) = (self.files(), self.file(&code));
        tokens
            .disk
            .create_folder(&folder, Access::Private)
            .and_then(|()| tokens.disk.create(&path, &body, Access::Private))
            .map_err(|reason| Error::Unusable { path, reason })?;
        Ok(code)
    }

    /// Exchanges a code for the token of a browser; `None` if the code is not valid. Of several
    /// callers exactly one receives a token.
    pub fn exchange(&self, code: &str) -> Result<Option<CreatedToken>, Error> {
        if !is_hex(code, DIGITS) {
            return Ok(None);
        }
        let tokens = &self.tokens;
        let path = self.file(code);
        let used = self
            .files()
            .join(format!("{}.used", random_hex::<8>(&*tokens.random)));
        match tokens.disk.rename(&path, &used) {
            Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(None),
            Err(reason) => return Err(Error::Unusable { path, reason }),
            Ok(()) => {}
        }
        let read = tokens.disk.read(&used, MAX_BYTES);
        let _ = tokens.disk.remove(&used);
        let body = read.map_err(|reason| Error::Unusable { path, reason })?;
        let Ok(Code {
            v: 1,
            scope,
            expires_at_ms,
        }) = serde_json::from_slice(&body)
        else {
            return Ok(None);
        };
        if tokens.clock.now() >= Timestamp(expires_at_ms) {
            return Ok(None);
        }
        let created = tokens.create("browser", TokenKind::Browser, scope, Some(BROWSER_LIFETIME));
        created.map(Some)
    }

    /// Removes the files of codes that can no longer be used, as far as that works.
    fn remove_expired(&self) {
        let tokens = &self.tokens;
        let now = tokens.clock.now();
        for path in tokens.disk.list(&self.files()).unwrap_or_default() {
            let body = tokens.disk.read(&path, MAX_BYTES).unwrap_or_default();
            let code = serde_json::from_slice::<Code>(&body);
            if !code.is_ok_and(|code| now < Timestamp(code.expires_at_ms)) {
                let _ = tokens.disk.remove(&path);
            }
        }
    }

    fn files(&self) -> PathBuf {
        self.tokens.folder.join("logins")
    }

    fn file(&self, code: &str) -> PathBuf {
        self.files().join(Digest::of(code.as_bytes()).to_string())
    }
}
