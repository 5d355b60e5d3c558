use std::borrow::Cow;

use serde_json::json;

use super::super::{Redactor, encoding};
use super::{HEX, LETTERS, random_text};

fn with(environment: &[(&str, &str)]) -> Redactor {
    Redactor::new(
        environment
            .iter()
            .map(|(name, value)| ((*name).to_owned(), (*value).to_owned())),
    )
}

#[test]
fn known_values_are_hidden_in_every_encoding() {
    let redactor = with(&[("MY_TOKEN", "pa ss\"wo/rd\\9")]);
    let placeholder = redactor.redact("pa ss\"wo/rd\\9").into_owned();
    assert!(placeholder.starts_with("[secret:MY_TOKEN:"));
    for spelling in [
        r#"pa ss\"wo/rd\\9"#,
        r#"pa ss\\\"wo/rd\\\\9"#,
        "pa%20ss%22wo%2Frd%5C9",
        "pa%20ss%22wo%2frd%5c9",
        "pa+ss%22wo%2Frd%5C9",
        "cGEgc3Mid28vcmRcOQ==",
        "cGEgc3Mid28vcmRcOQ",
        r#"pa ss\"wo\/rd\\9"#,
        r"\u0070\u0061\u0020\u0073\u0073\u0022\u0077\u006f\u002f\u0072\u0064\u005c\u0039",
        r"pa\u0020ss\u0022wo\u002Frd\u005C9",
        r"\\u0070a ss\\u0022wo/rd\\u005c9",
        "%70%61%20%73%73%22%77%6F%2F%72%64%5C%39",
        "pa%2520ss%2522wo%252Frd%255C9",
        "pa ss&quot;wo&#x2F;rd&#92;9",
        r"\x70\x61\x20\x73\x73\x22\x77\x6f\x2f\x72\x64\x5c\x39",
        "70612073732277 6f2f72645c39"
            .split(' ')
            .collect::<String>()
            .as_str(),
        "70612073732277 6F2F72645C39"
            .split(' ')
            .collect::<String>()
            .as_str(),
    ] {
        assert_eq!(
            redactor.redact(&format!("x{spelling}y")),
            format!("x{placeholder}y")
        );
    }
}

#[test]
fn hex_bytes_may_be_separated() {
    let redactor = with(&[("MY_TOKEN", "S3CR3T-value")]);
    let placeholder = redactor.redact("S3CR3T-value").into_owned();
    for separator in [":", " ", "-"] {
        let bytes: Vec<_> = b"S3CR3T-value"
            .iter()
            .map(|byte| format!("{byte:02x}"))
            .collect();
        let text = format!("[{}]", bytes.join(separator));
        assert_eq!(redactor.redact(&text), format!("[{placeholder}]"));
    }
}

#[test]
fn base64_may_be_wrapped_and_part_of_a_longer_text() {
    let secret = random_text(LETTERS, 90);
    let redactor = with(&[("MY_TOKEN", &secret)]);
    for before in [
        "",
        "user:",
        "a longer text that precedes the secret by some words, ",
    ] {
        let encoded = encoding::base64(format!("{before}{secret} and after").as_bytes());
        let core = &encoding::base64_cores(&secret)[before.len() % 3];
        assert!(encoded.contains(core));
        for (columns, line_break) in [
            (1000, ""),
            (64, "\n"),
            (76, "\r\n"),
            (64, "\\n"),
            (76, "\n  "),
        ] {
            let lines: Vec<_> = encoded
                .as_bytes()
                .chunks(columns)
                .map(String::from_utf8_lossy)
                .collect();
            let redacted = redactor.redact(&lines.join(line_break)).into_owned();
            assert!(redacted.contains("[secret:MY_TOKEN:"), "{redacted}");
            let joined = redacted.replace(line_break, "");
            assert!(
                !core
                    .as_bytes()
                    .windows(8)
                    .any(|piece| joined.contains(&*String::from_utf8_lossy(piece))),
                "{redacted}"
            );
        }
    }
}

#[test]
fn values_are_found_across_windows() {
    let redactor = with(&[("MY_TOKEN", "S3CR3T/value")]);
    let spelled = r"S3CR3T\u002fvalue";
    for before in [256 * 1024 - 9, 256 * 1024, 256 * 1024 - 200] {
        let text = format!("{}{spelled} {spelled}", "a ".repeat(before / 2));
        assert!(!redactor.redact(&text).contains("value"), "{before}");
    }
}

#[test]
fn overlapping_values_leave_nothing() {
    let redactor = with(&[
        ("A_KEY", "abcdefgh1234"),
        ("B_KEY", "1234ijklmnop"),
        ("C_KEY", "abcdefgh"),
    ]);
    let a = redactor.redact("abcdefgh1234").into_owned();
    let b = redactor.redact("1234ijklmnop").into_owned();
    assert_eq!(redactor.redact("abcdefgh1234ijklmnop"), format!("{a}{b}"));
    assert_eq!(redactor.redact("_abcdefgh1234_"), format!("_{a}_"));
}

#[test]
fn equal_values_have_one_label_in_any_order() {
    let (one, two) = (("A_KEY", "abcdefgh1234"), ("B_KEY", "abcdefgh1234"));
    let text = "abcdefgh1234";
    assert_eq!(
        with(&[one, two]).redact(text),
        with(&[two, one]).redact(text)
    );
}

#[test]
fn value_cannot_hide_in_a_placeholder_label() {
    let redactor = with(&[("MY_TOKEN", "abcdefgh1234")]);
    let redacted = redactor.redact("[secret:abcdefgh1234:012345]").into_owned();
    assert!(!redacted.contains("abcdefgh1234"), "{redacted}");
}

#[test]
fn value_equal_to_a_variable_name_keeps_placeholders() {
    let redactor = with(&[
        ("MY_GITHUB_TOKEN", "abcdefgh1234"),
        ("WHICH_TOKEN", "MY_GITHUB_TOKEN"),
    ]);
    let once = redactor.redact("abcdefgh1234").into_owned();
    assert_eq!(redactor.redact(&once), once);
}

#[test]
fn json_values_keys_and_named_members_are_redacted() {
    let redactor = with(&[("MY_TOKEN", "abcdefgh1234")]);
    let (id, key) = (random_text(LETTERS, 40), random_text(HEX, 16));
    let mut value = json!({
        "abcdefgh1234": 1, "list": ["x abcdefgh1234", true, null, 7], "password": "hunter2",
        "nested": {"api_key": key, "max_tokens": 5}, "id": id, "data": id,
    });
    redactor.redact_json(&mut value);
    let text = value.to_string();
    for secret in ["abcdefgh1234", "hunter2", &key] {
        assert!(!text.contains(secret), "{text}");
    }
    assert_eq!(value["id"], id);
    assert_ne!(value["data"], id);
    assert_eq!(value["nested"]["max_tokens"], 5);
    let once = value.clone();
    redactor.redact_json(&mut value);
    assert_eq!(value, once);
}

#[test]
fn two_encodings_of_one_json_key_are_both_kept() {
    let redactor = with(&[("MY_TOKEN", "abcdefgh/1234")]);
    let mut value = json!({"abcdefgh/1234": 1, "abcdefgh%2F1234": 2});
    redactor.redact_json(&mut value);
    assert_eq!(value.as_object().map(serde_json::Map::len), Some(2));
}

#[test]
fn debug_output_shows_only_the_count() {
    let redactor = with(&[("MY_TOKEN", "abcdefgh1234")]);
    assert_eq!(format!("{redactor:?}"), "Redactor { known: 1, .. }");
}

#[test]
fn text_without_secrets_is_borrowed() {
    let redactor = with(&[("MY_TOKEN", "abcdefgh1234")]);
    assert!(matches!(redactor.redact("nothing here"), Cow::Borrowed(_)));
    assert!(matches!(redactor.redact(""), Cow::Borrowed(_)));
}
