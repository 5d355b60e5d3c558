//! Tokens, one file each.
//!
//! A token is `segno_ID_SECRET`. Its file `tokens/ID.json` has the name, the scope and a digest of
//! the whole token, never the token itself. The file decides: once it is removed, the token is
//! refused by every process.

use std::io;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::Duration;

use segno_core::digest::Digest;
use segno_core::ports::{Access, Clock, Disk, Random};
use segno_core::time::Timestamp;
use serde::{Deserialize, Serialize};

use super::{Error, Scope, is_hex, random_hex};

const PREFIX: &str = "segno_";
/// Digits of an id.
const ID: usize = 16;
/// Digits of a secret: 256 bits, which nobody guesses.
const SECRET: usize = 64;
/// A token file is much smaller.
const MAX_BYTES: u64 = 64 << 10;
const MAX_NAME: usize = 64;

/// What a token is for.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum TokenKind {
    /// Made by a user for a program.
    Api,
    /// The cookie of a browser that logged in.
    Browser,
}

/// A token as it is stored.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct TokenRecord {
    v: u32,
    pub id: String,
    pub name: String,
    pub kind: TokenKind,
    pub scope: Scope,
    digest: Digest,
    /// Milliseconds since 1970.
    created_at_ms: i64,
    expires_at_ms: Option<i64>,
}

impl TokenRecord {
    pub fn created_at(&self) -> Timestamp {
        Timestamp(self.created_at_ms)
    }

    pub fn expires_at(&self) -> Option<Timestamp> {
        self.expires_at_ms.map(Timestamp)
    }
}

/// A new token, which is shown once.
pub struct CreatedToken {
    pub text: String,
    pub record: TokenRecord,
}

/// The tokens of a home.
#[derive(Clone)]
pub struct Tokens {
    pub(super) folder: PathBuf,
    pub(super) disk: Arc<dyn Disk>,
    pub(super) clock: Arc<dyn Clock>,
    pub(super) random: Arc<dyn Random>,
}

impl Tokens {
    /// The tokens below `folder`, the server's folder in the home.
    pub fn new(
        folder: PathBuf,
        disk: Arc<dyn Disk>,
        clock: Arc<dyn Clock>,
        random: Arc<dyn Random>,
    ) -> Self {
        Self {
            folder,
            disk,
            clock,
            random,
        }
    }

    /// The server's folder.
    pub(crate) fn place(&self) -> (&Path, Arc<dyn Disk>) {
        (&self.folder, Arc::clone(&self.disk))
    }

    /// Creates a token. Durable when it returns.
    pub fn create(
        &self,
        name: &str,
        kind: TokenKind,
        scope: Scope,
        lifetime: Option<Duration>,
    ) -> Result<CreatedToken, Error> {
        let length = name.chars().count();
        if length == 0 || length > MAX_NAME || name.chars().any(char::is_control) {
            return Err(Error::InvalidName);
        }
        if kind == TokenKind::Api && self.list()?.iter().any(|token| token.name == name) {
            let name = name.to_owned();
            return Err(Error::NameTaken { name });
        }
        let id = random_hex::<{ ID / 2 }>(&*self.random);
        let text = format!(
            "{PREFIX}{id}_{}",
            random_hex::<{ SECRET / 2 }>(&*self.random)
        );
        let now = self.clock.now();
        let record = TokenRecord {
            v: 1,
            name: name.to_owned(),
            kind,
            scope,
            digest: Digest::of(text.as_bytes()),
            created_at_ms: now.0,
            expires_at_ms: lifetime.map(|lifetime| now.after(lifetime).0),
            id,
        };
        let folder = self.files();
        let file = self.file(&record.id);
        let body = serde_json::to_vec(&record).expect("a record of plain values");
        let written = self
            .disk
            .create_folder(&folder, Access::Private)
            .and_then(|()| self.disk.create(&file, &body, Access::Private))
            .and_then(|()| self.disk.sync_folder(&folder));
        match written {
            Ok(()) => Ok(CreatedToken { text, record }),
            Err(reason) => Err(Error::Unusable { path: file, reason }),
        }
    }

    /// All tokens, oldest first, without expired ones of browsers.
    pub fn list(&self) -> Result<Vec<TokenRecord>, Error> {
        let folder = self.files();
        let files = self.disk.list(&folder).map_err(|reason| Error::Unusable {
            path: folder,
            reason,
        })?;
        let mut records = Vec::new();
        for file in files {
            let name = file.file_name().and_then(|name| name.to_str());
            let id = name.and_then(|name| name.strip_suffix(".json"));
            let Some(id) = id.filter(|id| is_hex(id, ID)) else {
                continue;
            };
            // One that was revoked meanwhile is absent.
            records.extend(self.read(id)?);
        }
        let now = self.clock.now();
        let valid = |record: &TokenRecord| record.expires_at().is_none_or(|at| now < at);
        records.retain(|record| record.kind == TokenKind::Api || valid(record));
        records.sort_by(|a, b| (a.created_at_ms, &a.id).cmp(&(b.created_at_ms, &b.id)));
        Ok(records)
    }

    /// Revokes a token by its id or its name. It is refused from now on.
    pub fn revoke(&self, reference: &str) -> Result<TokenRecord, Error> {
        let found = self.list()?.into_iter();
        let mut found = found.filter(|token| token.id == reference || token.name == reference);
        let Some(record) = found.next() else {
            return Err(Error::NoSuchToken {
                reference: reference.to_owned(),
            });
        };
        let file = self.file(&record.id);
        self.disk
            .remove(&file)
            .and_then(|()| self.disk.sync_folder(&self.files()))
            .map_err(|reason| Error::Unusable { path: file, reason })?;
        Ok(record)
    }

    /// The record of a token that is valid now; `None` for any other text.
    pub fn verify(&self, text: &str) -> Result<Option<TokenRecord>, Error> {
        let parts = text.strip_prefix(PREFIX).and_then(|it| it.split_once('_'));
        let Some((id, secret)) = parts else {
            return Ok(None);
        };
        if !is_hex(id, ID) || !is_hex(secret, SECRET) {
            return Ok(None);
        }
        let now = self.clock.now();
        let record = self.read(id)?;
        Ok(record.filter(|record| {
            record.digest == Digest::of(text.as_bytes())
                && record.expires_at().is_none_or(|at| now < at)
        }))
    }

    fn read(&self, id: &str) -> Result<Option<TokenRecord>, Error> {
        let path = self.file(id);
        let body = match self.disk.read(&path, MAX_BYTES) {
            Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(None),
            Err(reason) => return Err(Error::Unusable { path, reason }),
            Ok(body) => body,
        };
        let damaged = |reason: String| Error::Damaged {
            path: path.clone(),
            reason,
        };
        let record: TokenRecord =
            serde_json::from_slice(&body).map_err(|error| damaged(error.to_string()))?;
        if record.v != 1 || record.id != id {
            return Err(damaged("it does not describe this token".to_owned()));
        }
        Ok(Some(record))
    }

    fn files(&self) -> PathBuf {
        self.folder.join("tokens")
    }

    fn file(&self, id: &str) -> PathBuf {
        self.files().join(format!("{id}.json"))
    }
}
