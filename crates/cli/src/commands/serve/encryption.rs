//! How connections to a server are encrypted.

use std::path::{Path, PathBuf};
use std::sync::Arc;

use segno_core::ports::Disk;
use segno_server::listen::tls::{Source, Tls};

use super::addresses::Addresses;
use crate::failure::Failure;

#[derive(Debug, clap::Args)]
pub(super) struct Encryption {
    /// Encrypt connections with a certificate that is made once for this home
    #[arg(long, value_name = "KIND", value_parser = ["self-signed"], conflicts_with_all = ["tls_cert", "behind_https"])]
    tls: Option<String>,
    /// Encrypt connections with the certificate in this PEM file, followed by those that vouch for
    /// it
    #[arg(
        long,
        value_name = "FILE",
        requires = "tls_key",
        conflicts_with = "behind_https"
    )]
    tls_cert: Option<PathBuf>,
    /// The PEM file with the certificate's key
    #[arg(long, value_name = "FILE", requires = "tls_cert")]
    tls_key: Option<PathBuf>,
    /// Browsers reach the server by HTTPS, through a proxy that decrypts it
    #[arg(long)]
    behind_https: bool,
}

impl Encryption {
    /// Whether tokens and cookies travel encrypted.
    pub(super) fn is_encrypted(&self) -> bool {
        self.tls.is_some() || self.tls_cert.is_some() || self.behind_https
    }

    pub(super) fn has_proxy(&self) -> bool {
        self.behind_https
    }

    /// The certificate, if the server has one.
    pub(super) fn load(
        &self,
        folder: &Path,
        addresses: &Addresses,
        disk: &Arc<dyn Disk>,
    ) -> Result<Option<Tls>, Failure> {
        let source = match (&self.tls, &self.tls_cert, &self.tls_key) {
            (Some(_), ..) => Source::SelfSigned {
                file: folder.join("tls.pem"),
                names: addresses.certificate_names(),
            },
            (None, Some(certificate), Some(key)) => Source::Files {
                certificate: certificate.clone(),
                key: key.clone(),
            },
            _ => return Ok(None),
        };
        Ok(Some(Tls::load(source, Arc::clone(disk))?))
    }
}
