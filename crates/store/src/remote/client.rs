//! Opens the object store of a remote, when it is used for the first time.

use std::path::Path as File;
use std::time::Duration;

use object_store::aws::{AmazonS3, AmazonS3Builder, AmazonS3ConfigKey};
use object_store::local::LocalFileSystem;
use object_store::{ClientOptions, ObjectStore, RetryConfig};
use segno_core::remote::Error;

use super::ObjectRemote;
use super::address::Address;
use super::fault::Fault;

/// The connection timeout.
const CONNECT: Duration = Duration::from_secs(10);

/// The timeout of one request, which transfers at most one part.
const REQUEST: Duration = Duration::from_mins(1);

/// The object store at an address.
pub(super) enum Client {
    Bucket(Box<AmazonS3>),
    Folder(LocalFileSystem),
}

impl Client {
    pub(super) fn store(&self) -> &dyn ObjectStore {
        match self {
            Client::Bucket(bucket) => &**bucket,
            Client::Folder(folder) => folder,
        }
    }
}

impl ObjectRemote {
    pub(super) fn client(&self) -> Result<&Client, Error> {
        if let Some(client) = self.client.get() {
            return Ok(client);
        }
        let client = match &self.address {
            Address::Folder(folder) => self.folder(folder)?,
            Address::Bucket { bucket, .. } => self.bucket(bucket)?,
        };
        Ok(self.client.get_or_init(|| client))
    }

    fn folder(&self, folder: &File) -> Result<Client, Error> {
        // The folder is not created: if a share is not mounted there, that would hide it.
        if !folder.is_dir() {
            return Err(self.error("", Fault::NoPlace));
        }
        let opened = LocalFileSystem::new_with_prefix(folder);
        let opened = opened.map_err(|error| self.error("", error.into()))?;
        Ok(Client::Folder(opened.with_fsync(true)))
    }

    fn bucket(&self, bucket: &str) -> Result<Client, Error> {
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
        // Retries happen in our own code, which can tell a lost answer from a refusal.
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
            // No request was sent yet: the environment variables must be wrong.
            Fault::Permanent(reason) => self.error("", Fault::Denied(reason)),
            fault => self.error("", fault),
        })?;
        Ok(Client::Bucket(Box::new(built)))
    }
}

/// Converts an error of opening, where only faults are returned.
pub(super) fn as_fault(error: Error) -> Fault {
    match error {
        Error::NoSuchRemote { .. } => Fault::NoPlace,
        Error::Denied { reason, .. } => Fault::Denied(reason),
        other => Fault::Permanent(other.to_string()),
    }
}
