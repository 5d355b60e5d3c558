//! The target for the search for secrets: everything that is stored passes through it.

use std::sync::LazyLock;

use segno_secrets::redact::Redactor;

use crate::seeds;
use crate::target::Target;

/// A secret that the environment names.
const KNOWN: &str = "S3cr\u{e9}t-v4lue/Zq7+X";

/// Secrets in the places where they are found. None is real.
const EXAMPLES: &str = r#"password = "correct horse 9!"
curl -u admin:Zx9wQ2mL7 -H 'Authorization: Token 0a1b2c3d4e5f60718293a4b5c6d7e8f901234567' https://h/x?sig=AbC123dEf456
{"client_secret": "q8Yt3LmN0pRs6VwX", "id": 7}
machine h login u password Hq7Lw2Zx
the token is 8fKq2LmZ0pRs6VwXyT3nB5cD
"#;

/// Text in which secrets can be.
pub const REDACT: Target = Target {
    name: "redact",
    seeds: || {
        let mut seeds = seeds::files("crates/agents/tests/golden/claude_code/transcripts", ".jsonl");
        seeds.push(EXAMPLES.as_bytes().to_vec());
        seeds
    },
    dictionary: &[
        KNOWN.as_bytes(),
        b"password=",
        b"--token ",
        b"\"api_key\": \"",
        b"Authorization: Bearer ",
        b"://u:p@h/",
        b"curl -u a:",
        b"AKIA",
        b"ghp_",
        b"eyJ",
        b"-----BEGIN PRIVATE KEY-----",
        b"-----END PRIVATE KEY-----",
        b"[secret:A:012345]",
        b"\\u0053",
        b"%53",
        b"&#x53;",
        b"\\x53",
        b"UzNjcsOpdC12NGx1ZS9acTcrWA==",
        b"5333",
    ],
    fix_checksums: |_, _| (),
    check,
};

static REDACTOR: LazyLock<Redactor> =
    LazyLock::new(|| Redactor::new([("SOME_TOKEN".to_owned(), KNOWN.to_owned())]));

/// A known secret never remains, and what was redacted once stays as it is.
fn check(bytes: &[u8]) {
    let text = String::from_utf8_lossy(bytes);
    let once = REDACTOR.redact(&text);
    assert!(!once.contains(KNOWN));
    assert_eq!(REDACTOR.redact(&once), once, "redacting twice changes more");
    if let Ok(mut value) = serde_json::from_str::<serde_json::Value>(&text) {
        REDACTOR.redact_json(&mut value);
        let again = value.clone();
        REDACTOR.redact_json(&mut value);
        assert_eq!(value, again);
        assert!(!value.to_string().contains(KNOWN));
    }
}
