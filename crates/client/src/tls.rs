//! Trusts one certificate, by its fingerprint, instead of those of the machine.

use std::fmt::Write;
use std::sync::{Arc, Mutex, PoisonError};

use rustls::client::danger::{HandshakeSignatureValid, ServerCertVerified, ServerCertVerifier};
use rustls::crypto::{CryptoProvider, verify_tls12_signature, verify_tls13_signature};
use rustls::pki_types::{CertificateDer, ServerName, UnixTime};
use rustls::{ClientConfig, DigitallySignedStruct, Error, SignatureScheme};

/// Checks the certificate of a server.
#[derive(Debug)]
pub(crate) struct Pinned {
    provider: Arc<CryptoProvider>,
    /// SHA-256 of the trusted certificate, as hexadecimal digits without colons.
    trusted: String,
    /// That of the certificate that the server last had.
    seen: Arc<Mutex<Option<String>>>,
}

/// A configuration that trusts the certificate with this fingerprint and no other one. The
/// fingerprint of the certificate that the server has is written to `seen`.
pub(crate) fn config(
    fingerprint: &str,
    seen: Arc<Mutex<Option<String>>>,
) -> Result<ClientConfig, Error> {
    let provider = Arc::new(rustls::crypto::ring::default_provider());
    let verifier = Pinned {
        provider: Arc::clone(&provider),
        trusted: plain(fingerprint),
        seen,
    };
    let builder =
        ClientConfig::builder_with_provider(provider).with_safe_default_protocol_versions()?;
    let mut config = builder
        .dangerous()
        .with_custom_certificate_verifier(Arc::new(verifier))
        .with_no_client_auth();
    config.alpn_protocols = vec![b"http/1.1".to_vec()];
    Ok(config)
}

/// The digits of a fingerprint.
pub(crate) fn plain(fingerprint: &str) -> String {
    let digits = fingerprint.chars().filter(char::is_ascii_hexdigit);
    digits.map(|digit| digit.to_ascii_uppercase()).collect()
}

/// SHA-256 of a certificate, as browsers show it.
fn fingerprint(certificate: &CertificateDer<'_>) -> String {
    let digest = ring::digest::digest(&ring::digest::SHA256, certificate);
    let mut text = String::new();
    for (index, byte) in digest.as_ref().iter().enumerate() {
        let colon = if index == 0 { "" } else { ":" };
        let _ = write!(text, "{colon}{byte:02X}");
    }
    text
}

impl ServerCertVerifier for Pinned {
    fn verify_server_cert(
        &self,
        certificate: &CertificateDer<'_>,
        _: &[CertificateDer<'_>],
        _: &ServerName<'_>,
        _: &[u8],
        _: UnixTime,
    ) -> Result<ServerCertVerified, Error> {
        let found = fingerprint(certificate);
        let is_trusted = plain(&found) == self.trusted;
        *self.seen.lock().unwrap_or_else(PoisonError::into_inner) = Some(found);
        if is_trusted {
            return Ok(ServerCertVerified::assertion());
        }
        Err(Error::General(
            "the certificate has another fingerprint".to_owned(),
        ))
    }

    fn verify_tls12_signature(
        &self,
        message: &[u8],
        certificate: &CertificateDer<'_>,
        signed: &DigitallySignedStruct,
    ) -> Result<HandshakeSignatureValid, Error> {
        let algorithms = &self.provider.signature_verification_algorithms;
        verify_tls12_signature(message, certificate, signed, algorithms)
    }

    fn verify_tls13_signature(
        &self,
        message: &[u8],
        certificate: &CertificateDer<'_>,
        signed: &DigitallySignedStruct,
    ) -> Result<HandshakeSignatureValid, Error> {
        let algorithms = &self.provider.signature_verification_algorithms;
        verify_tls13_signature(message, certificate, signed, algorithms)
    }

    fn supported_verify_schemes(&self) -> Vec<SignatureScheme> {
        let algorithms = &self.provider.signature_verification_algorithms;
        algorithms.supported_schemes()
    }
}
