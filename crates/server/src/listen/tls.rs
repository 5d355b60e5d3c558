//! Encrypts connections.
//!
//! The certificate is in files of the user, or was made once for this home and signed by itself; then
//! its fingerprint tells a client that it is the right one. A reload changes what new connections
//! use; one that fails changes nothing.

use std::fmt::Write;
use std::io;
use std::path::{Path, PathBuf};
use std::sync::{Arc, PoisonError, RwLock};

use rustls::ServerConfig;
use rustls::crypto::ring::default_provider;
use rustls::pki_types::pem::PemObject;
use rustls::pki_types::{CertificateDer, PrivateKeyDer};
use segno_core::error::{Diagnose, Diagnosis, Kind};
use segno_core::ports::{Access, Disk, replace_file};
use tokio::io::{AsyncRead, AsyncWrite};
use tokio_rustls::TlsAcceptor;
use tokio_rustls::server::TlsStream;

/// Certificates and keys are much smaller.
const MAX_BYTES: u64 = 1 << 20;

/// Why connections cannot be encrypted.
#[derive(Debug, thiserror::Error)]
pub enum Error {
    #[error("{} cannot be read: {reason}", .path.display())]
    Unreadable { path: PathBuf, reason: io::Error },
    #[error("{} cannot be used for TLS: {reason}", .path.display())]
    Unusable { path: PathBuf, reason: String },
    #[error("a certificate cannot be made: {reason}")]
    NotMade { reason: String },
}

impl Diagnose for Error {
    fn diagnosis(&self) -> Diagnosis {
        match self {
            Self::Unreadable { .. } => Diagnosis::new(Kind::Unavailable, "F0201"),
            Self::Unusable { .. } => Diagnosis::new(Kind::Invalid, "N0124").hint(
                "both files must be PEM: the certificates with the server's first, and its key",
            ),
            Self::NotMade { .. } => Diagnosis::new(Kind::Internal, "N0124"),
        }
    }
}

/// Where a certificate and its key are.
#[derive(Debug, Clone)]
pub enum Source {
    Files {
        certificate: PathBuf,
        key: PathBuf,
    },
    /// One file with both, which is made with these host names and addresses if it is absent.
    SelfSigned {
        file: PathBuf,
        names: Vec<String>,
    },
}

/// Encrypts connections. Clones share the certificate.
#[derive(Clone)]
pub struct Tls {
    source: Source,
    disk: Arc<dyn Disk>,
    current: Arc<RwLock<Current>>,
}

#[derive(Clone)]
struct Current {
    config: Arc<ServerConfig>,
    fingerprint: String,
}

impl Tls {
    /// Reads the certificate, or makes it.
    pub fn load(source: Source, disk: Arc<dyn Disk>) -> Result<Self, Error> {
        if let Source::SelfSigned { file, names } = &source {
            create_missing(file, names, &*disk)?;
        }
        let current = read(&source, &*disk)?;
        Ok(Self {
            source,
            disk,
            current: Arc::new(RwLock::new(current)),
        })
    }

    /// Reads the certificate again, for new connections.
    pub fn reload(&self) -> Result<(), Error> {
        let new = read(&self.source, &*self.disk)?;
        *self.current.write().unwrap_or_else(PoisonError::into_inner) = new;
        Ok(())
    }

    /// SHA-256 of the certificate, as browsers show it.
    pub fn fingerprint(&self) -> String {
        self.now().fingerprint
    }

    pub fn is_self_signed(&self) -> bool {
        matches!(self.source, Source::SelfSigned { .. })
    }

    /// Encrypts a connection.
    pub(super) async fn accept<S: AsyncRead + AsyncWrite + Unpin>(
        &self,
        stream: S,
    ) -> io::Result<TlsStream<S>> {
        TlsAcceptor::from(self.now().config).accept(stream).await
    }

    fn now(&self) -> Current {
        let current = self.current.read().unwrap_or_else(PoisonError::into_inner);
        current.clone()
    }
}

fn create_missing(file: &Path, names: &[String], disk: &dyn Disk) -> Result<(), Error> {
    match disk.read(file, MAX_BYTES) {
        Err(error) if error.kind() == io::ErrorKind::NotFound => {}
        // What is there is used, or refused when it is read.
        _ => return Ok(()),
    }
    let made = rcgen::generate_simple_self_signed(names);
    let made = made.map_err(|error| Error::NotMade {
        reason: error.to_string(),
    })?;
    let both = format!("{}{}", made.signing_key.serialize_pem(), made.cert.pem());
    let draft = file.with_extension("draft");
    let written = replace_file(disk, &draft, file, both.as_bytes(), Access::Private, |_| {});
    written.map_err(|reason| Error::Unreadable {
        path: file.to_owned(),
        reason,
    })
}

fn read(source: &Source, disk: &dyn Disk) -> Result<Current, Error> {
    let (certificate, key) = match source {
        Source::Files { certificate, key } => (certificate, key),
        Source::SelfSigned { file, .. } => (file, file),
    };
    let read = |path: &Path| {
        disk.read(path, MAX_BYTES)
            .map_err(|reason| Error::Unreadable {
                path: path.to_owned(),
                reason,
            })
    };
    let unusable = |path: &Path, reason: String| Error::Unusable {
        path: path.to_owned(),
        reason,
    };
    let chain: Result<Vec<_>, _> = CertificateDer::pem_slice_iter(&read(certificate)?).collect();
    let chain = chain.map_err(|error| unusable(certificate, error.to_string()))?;
    let Some(first) = chain.first() else {
        return Err(unusable(certificate, "it has no certificate".to_owned()));
    };
    let fingerprint = fingerprint(first);
    let pem = read(key)?;
    let private = PrivateKeyDer::from_pem_slice(&pem);
    let private = private.map_err(|error| unusable(key, error.to_string()))?;
    let config = ServerConfig::builder_with_provider(Arc::new(default_provider()))
        .with_safe_default_protocol_versions()
        .and_then(|builder| {
            builder
                .with_no_client_auth()
                .with_single_cert(chain, private)
        });
    let mut config = config.map_err(|error| unusable(certificate, error.to_string()))?;
    config.alpn_protocols = vec![b"http/1.1".to_vec()];
    Ok(Current {
        config: Arc::new(config),
        fingerprint,
    })
}

fn fingerprint(certificate: &CertificateDer<'_>) -> String {
    let digest = ring::digest::digest(&ring::digest::SHA256, certificate);
    let mut text = String::new();
    for (index, byte) in digest.as_ref().iter().enumerate() {
        let colon = if index == 0 { "" } else { ":" };
        let _ = write!(text, "{colon}{byte:02X}");
    }
    text
}
