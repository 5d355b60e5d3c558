//! Signatures of webhooks: HMAC-SHA256 of the time and the body, so that a receiver can refuse
//! forged and old requests.

use std::fmt::Write;

use ring::hmac;
use segno_core::time::Timestamp;

/// The value of the header `Segno-Signature`: `t=SECONDS,v1=HEX`, where the HMAC covers
/// `SECONDS.BODY`.
pub(super) fn header(secret: &str, at: Timestamp, body: &str) -> String {
    let seconds = at.0.div_euclid(1000);
    let key = hmac::Key::new(hmac::HMAC_SHA256, secret.as_bytes());
    let tag = hmac::sign(&key, format!("{seconds}.{body}").as_bytes());
    let mut header = format!("t={seconds},v1=");
    for byte in tag.as_ref() {
        let _ = write!(header, "{byte:02x}");
    }
    header
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Computed by Python's `hmac`.
    #[test]
    fn signature_is_hmac_sha256_of_time_and_body() {
        assert_eq!(
            header("sesame", Timestamp(1_700_000_000_999), "{\"v\":1}"),
            "t=1700000000,v1=80b50f23bc5d974989b8299aa976cc93dfd57f1df170d8285ea8df2ad3ee1371"
        );
    }
}
