use proptest::prelude::*;
use serde_json::{Value, json};

use super::super::{Redactor, encoding};
use super::plain;

/// Fragments for texts that come close to every rule.
fn fragments() -> impl Strategy<Value = String> {
    let fragment = prop_oneof![
        4 => "[ -~]{0,30}",
        2 => "[A-Za-z0-9+/_=-]{20,60}",
        1 => "\\PC{0,10}",
        3 => prop::sample::select(vec![
            "password=", "\"token\": \"", "\"", "\n", " ", "\\n", "://u:", "@h", "Bearer ", "Basic ", "sk-", "ghp_",
            "AKIA", "eyJ", ".", "-----BEGIN PRIVATE KEY-----", "-----END PRIVATE KEY-----",
            "[secret:", "[secret:A:012345]", ":012345]", "S3CR3T-value", "T-value-2nd", "sha512-", "base64,",
        ]).prop_map(str::to_owned),
    ];
    prop::collection::vec(fragment, 0..12).prop_map(|parts| parts.concat())
}

fn with(value: &str) -> Redactor {
    Redactor::new([("SOME_TOKEN".to_owned(), value.to_owned())])
}

proptest! {
    #[test]
    fn redacting_twice_changes_nothing(text in fragments()) {
        let redactor = Redactor::new([
            ("ONE_TOKEN".to_owned(), "S3CR3T-value".to_owned()),
            ("TWO_TOKEN".to_owned(), "T-value-2nd".to_owned()),
        ]);
        let once = redactor.redact(&text).into_owned();
        prop_assert_eq!(redactor.redact(&once), once.as_str());
        let mut value = json!({"password": text.clone(), "list": [text.clone()], text: "x"});
        redactor.redact_json(&mut value);
        let again = value.clone();
        redactor.redact_json(&mut value);
        prop_assert_eq!(value, again);
    }

    #[test]
    fn known_secrets_never_survive(
        secret in "[A-Za-z][A-Za-z0-9!#%&*+=?^_~é\"\\\\$-]{11,40}",
        before in fragments(),
        after in fragments(),
    ) {
        let redactor = with(&secret);
        let text = format!("{before}{secret}{after}");
        prop_assert!(!redactor.redact(&text).contains(&secret));
        let line = json!({"a": [text.clone()], text.clone(): 1}).to_string();
        let redacted = redactor.redact(&line).into_owned();
        if let Ok(value) = serde_json::from_str::<Value>(&redacted) {
            prop_assert!(!strings(&value).contains(&secret));
        }
        prop_assert!(!redacted.contains(&secret));
        let mut value = json!({"a": [text.clone()], text: 1});
        redactor.redact_json(&mut value);
        prop_assert!(!strings(&value).contains(&secret));
    }

    #[test]
    fn encodings_of_known_secrets_never_survive(
        secret in "[A-Za-z][A-Za-z0-9!#%&/<'*+=?^_~é\"\\\\ $-]{11,40}",
        before in "[ -~]{0,20}",
        after in "[ -~]{0,20}",
        choices in prop::collection::vec(0_u8..4, 160),
        columns in prop::sample::select(vec![64_usize, 76]),
    ) {
        let secret = secret.trim();
        prop_assume!(secret.len() >= 12);
        let redactor = with(secret);
        // Every byte in a spelling of its own, in one family of escapes.
        let in_code = spelled(secret, &choices, |byte, choice| match choice {
            0 => format!("\\x{byte:02x}"),
            1 => format!("\\u{byte:04X}"),
            _ => format!("\\{}", char::from(byte)),
        });
        let in_address = spelled(secret, &choices, |byte, choice| match choice {
            0 | 1 => format!("%{byte:02x}"),
            _ => format!("%{byte:02X}"),
        });
        let encoded = encoding::base64(format!("{before}{secret}{after}").as_bytes());
        let lines: Vec<_> = encoded.as_bytes().chunks(columns).map(String::from_utf8_lossy).collect();
        let wrapped = lines.join("\n");
        for text in [in_code, in_address, encoding::hex(secret), encoded, wrapped] {
            let text = format!("see ({text}).");
            let redacted = redactor.redact(&text).into_owned();
            prop_assert!(redacted.contains("[secret:SOME_TOKEN:"), "{} -> {}", text, redacted);
            prop_assert_eq!(redactor.redact(&redacted), redacted.as_str());
        }
    }

    #[test]
    fn words_and_punctuation_pass_untouched(text in "([a-z]{1,12}[ .,;()\n]{1,2}){0,40}") {
        prop_assert_eq!(plain().redact(&text), text.as_str());
    }

    #[test]
    fn hexadecimal_of_any_length_passes_untouched(text in "[0-9a-f]{1,300}|[0-9A-Fa-f]{1,300}") {
        prop_assert_eq!(plain().redact(&text), text.as_str());
    }
}

/// `text` with some of its ASCII bytes, and all that are not letters, escaped.
fn spelled(text: &str, choices: &[u8], escape: impl Fn(u8, u8) -> String) -> String {
    let spell = |(index, c): (usize, char)| match (u8::try_from(c), choices[index]) {
        (Ok(byte), 3) if byte.is_ascii_alphanumeric() => c.to_string(),
        // Some letters are escapes after a backslash.
        (Ok(byte), choice) if byte.is_ascii_alphanumeric() => escape(byte, choice % 2),
        (Ok(byte), choice) if byte.is_ascii() => escape(byte, choice),
        _ => c.to_string(),
    };
    text.chars().enumerate().map(spell).collect()
}

/// All strings of `value`, keys included, concatenated.
fn strings(value: &Value) -> String {
    match value {
        Value::String(text) => format!("{text}\n"),
        Value::Array(members) => members.iter().map(strings).collect(),
        Value::Object(members) => members
            .iter()
            .flat_map(|(name, member)| [name.clone(), "\n".to_owned(), strings(member)])
            .collect(),
        _ => String::new(),
    }
}
