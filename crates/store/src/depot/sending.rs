//! Objects on their way into a depot.

use std::path::Path as File;

use object_store::multipart::{MultipartStore, PartId};
use object_store::path::Path;
use object_store::{MultipartId, ObjectStoreExt, PutMode, PutPayload};
use segno_core::depot::{Error, Put};

use super::door::{Door, lost};
use super::fault::Fault;
use super::{PIECE, Warehouse, file};

impl Warehouse {
    /// Puts bytes that are at hand.
    pub(super) async fn put(
        &self,
        path: &Path,
        bytes: PutPayload,
        mode: PutMode,
    ) -> Result<Put, Fault> {
        let store = self.door().map_err(lost)?.store();
        let put = || async {
            let options = mode.clone().into();
            match store.put_opts(path, bytes.clone(), options).await {
                Ok(_) => Ok(Put::New),
                Err(error) => match Fault::from(error) {
                    // Servers say this also while another one is making it, who may yet fail.
                    Fault::Exists => match self.length(path).await? {
                        Some(_) => Ok(Put::Exists),
                        None => Err(Fault::Passing("another one makes it right now".to_owned())),
                    },
                    fault => Err(fault),
                },
            }
        };
        match self.patiently(put).await {
            // Then whoever comes second replaces what is there. Every name that is created says what
            // belongs under it, so that is the same again.
            Err(Fault::Unconditional) if mode == PutMode::Create => {
                if self.length(path).await?.is_some() {
                    return Ok(Put::Exists);
                }
                Box::pin(self.put(path, bytes, PutMode::Overwrite)).await
            }
            other => other,
        }
    }

    /// Puts a file whose name says what is in it.
    pub(super) async fn send(&self, name: &str, file: &File) -> Result<Put, Error> {
        let path = self.path(name)?;
        let length = file::length(file)?;
        let told = |fault| self.error(name, fault);
        if length <= PIECE {
            let bytes = PutPayload::from(file::read(file, 0, length).await?);
            let put = self.put(&path, bytes.clone(), PutMode::Create).await;
            if put.map_err(told)? == Put::New {
                return Ok(Put::New);
            }
            if self.length(&path).await.map_err(told)? == Some(length) {
                return Ok(Put::Exists);
            }
            // What is there is not what its name says, and never was of use.
            let put = self.put(&path, bytes, PutMode::Overwrite).await;
            return put.map_err(told);
        }
        // Pieces cannot be joined only if there is nothing yet. Looking first spares the work, and if
        // another one was faster, it joined the same bytes.
        if self.length(&path).await.map_err(told)? == Some(length) {
            return Ok(Put::Exists);
        }
        match self.door()? {
            Door::Bucket(bucket) => {
                self.send_to_bucket(name, &**bucket, &path, file, length)
                    .await?;
            }
            Door::Folder(folder) => {
                self.send_to_folder(name, folder, &path, file, length)
                    .await?;
            }
        }
        match self.length(&path).await.map_err(told)? {
            Some(found) if found == length => Ok(Put::New),
            Some(_) => Err(self.damaged(name, "it is not as long as what was sent")),
            None => Err(self.damaged(name, "it was sent, and is not there")),
        }
    }

    async fn send_to_bucket(
        &self,
        name: &str,
        bucket: &dyn MultipartStore,
        path: &Path,
        file: &File,
        length: u64,
    ) -> Result<(), Error> {
        let begin = || async { Ok(bucket.create_multipart(path).await?) };
        let id = self.patiently(begin).await;
        let id = id.map_err(|fault| self.error(name, fault))?;
        let sent = self
            .send_pieces(name, bucket, path, &id, file, length)
            .await;
        if sent.is_err() {
            // What is left behind if this fails too takes room, and nobody sees it.
            let _ = bucket.abort_multipart(path, &id).await;
        }
        sent
    }

    async fn send_pieces(
        &self,
        name: &str,
        bucket: &dyn MultipartStore,
        path: &Path,
        id: &MultipartId,
        file: &File,
        length: u64,
    ) -> Result<(), Error> {
        let told = |fault| self.error(name, fault);
        let mut parts: Vec<PartId> = Vec::new();
        let mut at = 0;
        while at < length {
            let to = length.min(at + PIECE);
            let bytes = PutPayload::from(file::read(file, at, to - at).await?);
            let number = parts.len();
            let piece = || async { Ok(bucket.put_part(path, id, number, bytes.clone()).await?) };
            parts.push(self.patiently(piece).await.map_err(told)?);
            at = to;
        }
        let join = || async {
            bucket.complete_multipart(path, id, parts.clone()).await?;
            Ok(())
        };
        match self.patiently(join).await {
            // It was joined, and the answer was lost: then there is nothing left to join.
            Err(Fault::Missing) if self.length(path).await.map_err(told)? == Some(length) => Ok(()),
            other => other.map_err(told),
        }
    }

    async fn send_to_folder(
        &self,
        name: &str,
        folder: &object_store::local::LocalFileSystem,
        path: &Path,
        file: &File,
        length: u64,
    ) -> Result<(), Error> {
        let told = |error: object_store::Error| self.error(name, error.into());
        let mut upload = folder.put_multipart(path).await.map_err(told)?;
        let mut at = 0;
        while at < length {
            let to = length.min(at + PIECE);
            let bytes = file::read(file, at, to - at).await;
            let put = match bytes {
                Ok(bytes) => upload.put_part(bytes.into()).await.map_err(told),
                Err(error) => Err(error),
            };
            if let Err(error) = put {
                let _ = upload.abort().await;
                return Err(error);
            }
            at = to;
        }
        upload.complete().await.map_err(told)?;
        Ok(())
    }
}
