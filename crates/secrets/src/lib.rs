//! Secrets: found and replaced in text before it is written, and files that only a key opens.
//!
//! [`redact`] removes secrets from text before it reaches the journal, a log or an agent (P12).
//! [`cipher`] encrypts files, and [`key`] stores the key. Nothing here knows sessions or stores; which
//! text is redacted and which file is encrypted is up to the callers.

#[cfg(test)]
mod freed_memory;

pub mod cipher;
pub mod key;
pub mod redact;

pub use zeroize::Zeroizing;
