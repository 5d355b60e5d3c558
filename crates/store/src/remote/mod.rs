//! Remotes: objects in an S3 bucket, or in one of a compatible server, or in a mounted folder.
//!
//! The contract is in `segno_core::remote`, and every test of it runs against both. Transient errors
//! are retried with growing, jittered delays, for at most two minutes.

mod address;
mod client;
mod download;
mod encrypted;
mod fault;
mod file;
mod retry;
mod upload;

use std::path::Path as File;
use std::sync::{Arc, OnceLock};

use futures_util::TryStreamExt;
use object_store::path::Path;
use object_store::{ObjectMeta, ObjectStoreExt, PutMode};
use segno_core::ports::{Clock, Random};
use segno_core::remote::{Error, Object, Put, Remote, Reply, is_object_name};
use segno_core::time::Timestamp;

pub use encrypted::{EncryptedRemote, FindKey};

use address::Address;
use client::{Client, as_fault};
use fault::Fault;

/// Longer objects are transferred in parts of this length.
const PART_LENGTH: u64 = 8 * 1024 * 1024;

/// A remote at a URL.
pub struct ObjectRemote {
    url: String,
    address: Address,
    /// The environment variables that configure the access.
    variables: Vec<(String, String)>,
    clock: Arc<dyn Clock>,
    random: Arc<dyn Random>,
    client: OnceLock<Client>,
}

impl ObjectRemote {
    /// The remote at `url`. Nothing is opened or requested before the first use. Only `variables`
    /// that begin with `AWS_` are used.
    pub fn new(
        url: &str,
        variables: impl IntoIterator<Item = (String, String)>,
        clock: Arc<dyn Clock>,
        random: Arc<dyn Random>,
    ) -> Result<Self, Error> {
        let is_ours = |(name, _): &(String, String)| name.starts_with("AWS_");
        Ok(Self {
            url: url.trim_end_matches('/').to_owned(),
            address: Address::parse(url)?,
            variables: variables.into_iter().filter(is_ours).collect(),
            clock,
            random,
            client: OnceLock::new(),
        })
    }

    /// The full name of an object, with the prefix.
    fn path(&self, name: &str) -> Result<Path, Error> {
        let wrong = || Error::Name(name.to_owned());
        if !is_object_name(name) {
            return Err(wrong());
        }
        let whole = match &self.address {
            Address::Bucket { prefix, .. } if !prefix.is_empty() => format!("{prefix}/{name}"),
            _ => name.to_owned(),
        };
        Path::parse(whole).map_err(|_| wrong())
    }

    /// The object with a full name; `None` if that lacks the prefix.
    fn object(&self, meta: &ObjectMeta) -> Option<Object> {
        let whole = meta.location.as_ref();
        let name = match &self.address {
            Address::Bucket { prefix, .. } if !prefix.is_empty() => {
                whole.strip_prefix(prefix.as_str())?.strip_prefix('/')?
            }
            _ => whole,
        };
        Some(Object {
            name: name.to_owned(),
            length: meta.size,
            at: Timestamp(meta.last_modified.timestamp_millis()),
        })
    }

    fn error(&self, name: &str, fault: Fault) -> Error {
        let place = self.url.clone();
        match fault {
            Fault::Missing => Error::Missing {
                place,
                object: name.to_owned(),
            },
            Fault::NoPlace => Error::NoSuchRemote { place },
            Fault::Denied(reason) => Error::Denied { place, reason },
            Fault::Transient(reason) | Fault::Unreachable(reason) | Fault::Permanent(reason) => {
                Error::Unavailable { place, reason }
            }
            Fault::Exists | Fault::Unconditional => Error::Unavailable {
                place,
                reason: format!("it cannot create {name}"),
            },
        }
    }

    fn damaged(&self, name: &str, reason: &str) -> Error {
        Error::Damaged {
            place: self.url.clone(),
            object: name.to_owned(),
            reason: reason.to_owned(),
        }
    }

    /// The length of an object; `None` if it does not exist.
    async fn length(&self, path: &Path) -> Result<Option<u64>, Fault> {
        let store = self.client().map_err(as_fault)?.store();
        let head = || async { Ok(store.head(path).await?.size) };
        match self.retry(head).await {
            Ok(length) => Ok(Some(length)),
            Err(Fault::Missing) => Ok(None),
            Err(fault) => Err(fault),
        }
    }
}

impl Remote for ObjectRemote {
    fn url(&self) -> &str {
        &self.url
    }

    fn list<'a>(&'a self, folder: &'a str) -> Reply<'a, Vec<Object>> {
        Box::pin(async move {
            let prefix = match (folder, &self.address) {
                ("", Address::Folder(_)) => None,
                ("", Address::Bucket { prefix, .. }) => Path::parse(prefix).ok(),
                (folder, _) => Some(self.path(folder)?),
            };
            let store = self.client()?.store();
            let list = || async {
                let found: Vec<ObjectMeta> = store.list(prefix.as_ref()).try_collect().await?;
                Ok(found)
            };
            let found = self.retry(list).await.map_err(|fault| match fault {
                Fault::Missing => self.error(folder, Fault::NoPlace),
                fault => self.error(folder, fault),
            })?;
            let mut objects: Vec<Object> =
                found.iter().filter_map(|meta| self.object(meta)).collect();
            objects.sort_by(|left, right| left.name.cmp(&right.name));
            Ok(objects)
        })
    }

    fn read<'a>(&'a self, name: &'a str, limit: u64) -> Reply<'a, Vec<u8>> {
        Box::pin(async move {
            let path = self.path(name)?;
            let store = self.client()?.store();
            let get = || async {
                let got = store.get(&path).await?;
                let length = got.meta.size;
                if length > limit {
                    return Ok(None);
                }
                let bytes = got.bytes().await?;
                if bytes.len() as u64 == length {
                    Ok(Some(Vec::from(bytes)))
                } else {
                    Err(Fault::Transient("a response was cut off".to_owned()))
                }
            };
            let got = self.retry(get).await;
            let got = got.map_err(|fault| self.error(name, fault))?;
            got.ok_or_else(|| self.damaged(name, "it is too long"))
        })
    }

    fn create<'a>(&'a self, name: &'a str, bytes: Vec<u8>) -> Reply<'a, Put> {
        Box::pin(async move {
            let path = self.path(name)?;
            let put = self.put(&path, bytes.into(), PutMode::Create).await;
            put.map_err(|fault| self.error(name, fault))
        })
    }

    fn upload<'a>(&'a self, name: &'a str, file: &'a File) -> Reply<'a, Put> {
        Box::pin(self.send(name, file))
    }

    fn download<'a>(&'a self, name: &'a str, length: u64, file: &'a File) -> Reply<'a, ()> {
        Box::pin(async move {
            let path = self.path(name)?;
            self.fetch(name, &path, length, file).await
        })
    }

    fn delete<'a>(&'a self, name: &'a str) -> Reply<'a, ()> {
        Box::pin(async move {
            let path = self.path(name)?;
            let store = self.client()?.store();
            let delete = || async { Ok(store.delete(&path).await?) };
            match self.retry(delete).await {
                Ok(()) | Err(Fault::Missing) => Ok(()),
                Err(fault) => Err(self.error(name, fault)),
            }
        })
    }
}
