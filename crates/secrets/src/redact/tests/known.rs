use std::borrow::Cow;

use serde_json::json;

use super::super::Redactor;
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
    ] {
        assert_eq!(
            redactor.redact(&format!("x{spelling}y")),
            format!("x{placeholder}y")
        );
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
