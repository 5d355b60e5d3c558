//! Opening what is at an address, when it is used for the first time.

use std::path::Path as File;
use std::time::Duration;

use object_store::aws::{AmazonS3, AmazonS3Builder, AmazonS3ConfigKey};
use object_store::local::LocalFileSystem;
use object_store::{ClientOptions, ObjectStore, RetryConfig};
use segno_core::depot::Error;

use super::Warehouse;
use super::address::Address;
use super::fault::Fault;

/// How long a connection may take.
const CONNECT: Duration = Duration::from_secs(10);

/// How long one request may take, which has at most one piece.
const REQUEST: Duration = Duration::from_mins(1);

/// What is behind an address.
pub(super) enum Door {
    Bucket(Box<AmazonS3>),
    Folder(LocalFileSystem),
}

impl Door {
    pub(super) fn store(&self) -> &dyn ObjectStore {
        match self {
            Door::Bucket(bucket) => &**bucket,
            Door::Folder(folder) => folder,
        }
    }
}

impl Warehouse {
    pub(super) fn door(&self) -> Result<&Door, Error> {
        if let Some(door) = self.door.get() {
            return Ok(door);
        }
        let door = match &self.address {
            Address::Folder(folder) => self.folder(folder)?,
            Address::Bucket { bucket, .. } => self.bucket(bucket)?,
        };
        Ok(self.door.get_or_init(|| door))
    }

    fn folder(&self, folder: &File) -> Result<Door, Error> {
        // It is not made: where a share should be mounted, that would hide that it is not.
        if !folder.is_dir() {
            return Err(self.error("", Fault::NoPlace));
        }
        let opened = LocalFileSystem::new_with_prefix(folder);
        let opened = opened.map_err(|error| self.error("", error.into()))?;
        Ok(Door::Folder(opened.with_fsync(true)))
    }

    fn bucket(&self, bucket: &str) -> Result<Door, Error> {
        let _ = rustls::crypto::ring::default_provider().install_default();
        let mut builder = AmazonS3Builder::new();
        let mut is_plain = false;
        for (name, value) in &self.variables {
            if let Ok(key) = name.to_ascii_lowercase().parse::<AmazonS3ConfigKey>() {
                let is_endpoint = matches!(
                    key,
                    AmazonS3ConfigKey::Endpoint | AmazonS3ConfigKey::S3Endpoint
                );
                is_plain |= is_endpoint && value.starts_with("http://");
                builder = builder.with_config(key, value);
            }
        }
        let options = ClientOptions::new()
            .with_connect_timeout(CONNECT)
            .with_timeout(REQUEST)
            .with_allow_http(is_plain);
        // Tried again here, where a lost answer can be told from a refusal.
        let once = RetryConfig {
            max_retries: 0,
            ..RetryConfig::default()
        };
        let built = builder
            .with_bucket_name(bucket)
            .with_client_options(options)
            .with_retry(once)
            .with_disable_bulk_delete(true)
            .build();
        let built = built.map_err(|error| match Fault::from(error) {
            // Nothing was asked yet: what is wrong is what the environment says.
            Fault::Lasting(reason) => self.error("", Fault::Denied(reason)),
            fault => self.error("", fault),
        })?;
        Ok(Door::Bucket(Box::new(built)))
    }
}

/// A door that could not be opened, where only faults are passed on.
pub(super) fn lost(error: Error) -> Fault {
    match error {
        Error::NoPlace { .. } => Fault::NoPlace,
        Error::Denied { reason, .. } => Fault::Denied(reason),
        other => Fault::Lasting(other.to_string()),
    }
}
