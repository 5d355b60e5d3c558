//! Replaces secrets in text before it is written anywhere (P12).
//!
//! Four finders search a text, one after the other; a later finder skips what an earlier one has found:
//!
//! 1. `known`: the exact values of this process's secrets (`environment`), in any encoding;
//! 2. `families` and `structured`: keys with a vendor's prefix, private key blocks, credentials in
//!    headers and URLs;
//! 3. `assignment`, `mention`, `command`: values that a name, an option or a command marks as secret
//!    (`password=…`, `"api_key": "…"`, `--token …`, `curl -u user:…`);
//! 4. `entropy`: long random tokens without another explanation.
//!
//! If a workflow asks for it, `personal` searches for personal data after the first finder.
//!
//! A secret becomes `[secret:NAME:xxxxxx]`. The digits depend only on the secret, so that equal secrets
//! stay equal and a redacted transcript can still be followed. Finders skip placeholders, and they run
//! until they find nothing more: redaction is idempotent.
//!
//! A false positive destroys the user's work; a false negative may be caught by another finder. So only
//! the first finder is strict; the later ones keep what an agent may need again. Each exclusion is in
//! its finder with its reason, and `tests::ordinary` contains text that must stay unchanged.

mod assignment;
mod command;
mod encoding;
mod entropy;
mod environment;
mod families;
mod known;
mod mention;
mod name;
mod personal;
mod piece;
mod placeholder;
mod prefix;
mod redactor;
mod shape;
mod structured;
#[cfg(test)]
mod tests;
mod view;

pub use name::is_secret_variable;
pub use redactor::Redactor;
