//! Takes secrets out of text before it is written anywhere (P12).
//!
//! Four finders look at a text, one after the other; what one has found is closed to the next:
//!
//! 1. `environment`: the exact values of this process's secrets, however they are encoded;
//! 2. `families` and `structured`: keys that carry their maker's mark, private key blocks,
//!    credentials in headers and addresses;
//! 3. `assignment`: values that a name calls secret (`password=…`, `"api_key": "…"`);
//! 4. `entropy`: long random tokens that nothing explains.
//!
//! Where a workflow asks for it, `personal` looks for personal data after the first.
//!
//! A secret becomes `[secret:NAME:xxxxxx]`. The digits depend on the secret alone, so that equal
//! secrets stay equal and a redacted transcript can still be followed. Placeholders are closed to
//! every finder, and the finders run until they find nothing: redacting twice changes nothing.
//!
//! A false alarm destroys somebody's work, a miss may be caught by another finder. So only the
//! first finder is strict; the later ones leave alone what an agent may need again. Each exclusion
//! stands in its finder with its reason, and `tests::ordinary` holds what must pass untouched.

mod assignment;
mod encoding;
mod entropy;
mod environment;
mod families;
mod mark;
mod name;
mod personal;
mod piece;
mod placeholder;
mod redactor;
mod shape;
mod structured;
#[cfg(test)]
mod tests;

pub use redactor::Redactor;
