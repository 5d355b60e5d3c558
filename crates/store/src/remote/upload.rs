//! Uploads objects to a remote.

use std::path::Path as File;

use object_store::multipart::{MultipartStore, PartId};
use object_store::path::Path;
use object_store::{MultipartId, ObjectStoreExt, PutMode, PutPayload};
use segno_core::remote::{Error, Put};

use super::client::{Client, as_fault};
use super::fault::Fault;
use super::{ObjectRemote, PART_LENGTH, file};

impl ObjectRemote {
    /// Puts bytes that are in memory.
    pub(super) async fn put(
        &self,
        path: &Path,
        bytes: PutPayload,
        mode: PutMode,
    ) -> Result<Put, Fault> {
        let store = self.client().map_err(as_fault)?.store();
        let put = || async {
            let options = mode.clone().into();
            match store.put_opts(path, bytes.clone(), options).await {
                Ok(_) => Ok(Put::New),
                Err(error) => match Fault::from(error) {
                    // Servers also answer this while another client creates the object, which may
                    // still fail.
                    Fault::Exists => match self.length(path).await? {
                        Some(_) => Ok(Put::Exists),
                        None => Err(Fault::Transient("another client is creating it".to_owned())),
                    },
                    fault => Err(fault),
                },
            }
        };
        match self.retry(put).await {
            // Then the second client replaces the object. Every name determines the content of its
            // object, so the content is the same.
            Err(Fault::Unconditional) if mode == PutMode::Create => {
                if self.length(path).await?.is_some() {
                    return Ok(Put::Exists);
                }
                Box::pin(self.put(path, bytes, PutMode::Overwrite)).await
            }
            other => other,
        }
    }

    /// Puts a file whose content is determined by its name.
    pub(super) async fn send(&self, name: &str, file: &File) -> Result<Put, Error> {
        let path = self.path(name)?;
        let length = file::length(file)?;
        let to_error = |fault| self.error(name, fault);
        if length <= PART_LENGTH {
            let bytes = PutPayload::from(file::read(file, 0, length).await?);
            let put = self.put(&path, bytes.clone(), PutMode::Create).await;
            if put.map_err(to_error)? == Put::New {
                return Ok(Put::New);
            }
            if self.length(&path).await.map_err(to_error)? == Some(length) {
                return Ok(Put::Exists);
            }
            // The existing object is not what its name says, and was never usable.
            let put = self.put(&path, bytes, PutMode::Overwrite).await;
            return put.map_err(to_error);
        }
        // A multipart upload cannot be conditional. Checking first saves the work, and if another
        // client was faster, it uploaded the same bytes.
        if self.length(&path).await.map_err(to_error)? == Some(length) {
            return Ok(Put::Exists);
        }
        match self.client()? {
            Client::Bucket(bucket) => {
                self.send_to_bucket(name, &**bucket, &path, file, length)
                    .await?;
            }
            Client::Folder(folder) => {
                self.send_to_folder(name, folder, &path, file, length)
                    .await?;
            }
        }
        match self.length(&path).await.map_err(to_error)? {
            Some(found) if found == length => Ok(Put::New),
            Some(_) => Err(self.damaged(name, "its length differs from the uploaded data")),
            None => Err(self.damaged(name, "it was uploaded but does not exist")),
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
        let id = self.retry(begin).await;
        let id = id.map_err(|fault| self.error(name, fault))?;
        let sent = self.send_parts(name, bucket, path, &id, file, length).await;
        if sent.is_err() {
            // If this fails too, the leftover parts take space, but are invisible.
            let _ = bucket.abort_multipart(path, &id).await;
        }
        sent
    }

    async fn send_parts(
        &self,
        name: &str,
        bucket: &dyn MultipartStore,
        path: &Path,
        id: &MultipartId,
        file: &File,
        length: u64,
    ) -> Result<(), Error> {
        let to_error = |fault| self.error(name, fault);
        let mut parts: Vec<PartId> = Vec::new();
        let mut at = 0;
        while at < length {
            let to = length.min(at + PART_LENGTH);
            let bytes = PutPayload::from(file::read(file, at, to - at).await?);
            let number = parts.len();
            let part = || async { Ok(bucket.put_part(path, id, number, bytes.clone()).await?) };
            parts.push(self.retry(part).await.map_err(to_error)?);
            at = to;
        }
        let join = || async {
            bucket.complete_multipart(path, id, parts.clone()).await?;
            Ok(())
        };
        match self.retry(join).await {
            // The upload was completed, and the answer was lost: then there is nothing left to
            // complete.
            Err(Fault::Missing) if self.length(path).await.map_err(to_error)? == Some(length) => {
                Ok(())
            }
            other => other.map_err(to_error),
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
        let to_error = |error: object_store::Error| self.error(name, error.into());
        let mut upload = folder.put_multipart(path).await.map_err(to_error)?;
        let mut at = 0;
        while at < length {
            let to = length.min(at + PART_LENGTH);
            let bytes = file::read(file, at, to - at).await;
            let put = match bytes {
                Ok(bytes) => upload.put_part(bytes.into()).await.map_err(to_error),
                Err(error) => Err(error),
            };
            if let Err(error) = put {
                let _ = upload.abort().await;
                return Err(error);
            }
            at = to;
        }
        upload.complete().await.map_err(to_error)?;
        Ok(())
    }
}
