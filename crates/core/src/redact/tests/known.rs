use std::borrow::Cow;

use serde_json::json;

use super::super::Redactor;
use super::{HEX, LETTERS, chance};

fn with(environment: &[(&str, &str)]) -> Redactor {
    Redactor::new(
        environment
            .iter()
            .map(|(name, value)| ((*name).to_owned(), (*value).to_owned())),
    )
}

#[test]
fn known_values_are_hidden_in_every_spelling_under_one_placeholder() {
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
fn equal_values_have_one_name_whatever_the_order() {
    let (one, two) = (("A_KEY", "abcdefgh1234"), ("B_KEY", "abcdefgh1234"));
    let text = "abcdefgh1234";
    assert_eq!(
        with(&[one, two]).redact(text),
        with(&[two, one]).redact(text)
    );
}

#[test]
fn a_value_cannot_hide_in_the_name_of_a_placeholder() {
    let redactor = with(&[("MY_TOKEN", "abcdefgh1234")]);
    let redacted = redactor.redact("[secret:abcdefgh1234:012345]").into_owned();
    assert!(!redacted.contains("abcdefgh1234"), "{redacted}");
}

#[test]
fn a_value_that_names_a_variable_does_not_break_placeholders() {
    let redactor = with(&[
        ("MY_GITHUB_TOKEN", "abcdefgh1234"),
        ("WHICH_TOKEN", "MY_GITHUB_TOKEN"),
    ]);
    let once = redactor.redact("abcdefgh1234").into_owned();
    assert_eq!(redactor.redact(&once), once);
}

#[test]
fn json_is_redacted_in_values_and_keys_and_by_the_names_of_members() {
    let redactor = with(&[("MY_TOKEN", "abcdefgh1234")]);
    let (id, key) = (chance(LETTERS, 40), chance(HEX, 16));
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
fn two_spellings_of_one_key_both_stay_in_an_object() {
    let redactor = with(&[("MY_TOKEN", "abcdefgh/1234")]);
    let mut value = json!({"abcdefgh/1234": 1, "abcdefgh%2F1234": 2});
    redactor.redact_json(&mut value);
    assert_eq!(value.as_object().map(serde_json::Map::len), Some(2));
}

#[test]
fn debug_shows_how_many_and_never_what() {
    let redactor = with(&[("MY_TOKEN", "abcdefgh1234")]);
    assert_eq!(format!("{redactor:?}"), "Redactor { known: 1, .. }");
}

#[test]
fn text_without_secrets_is_borrowed() {
    let redactor = with(&[("MY_TOKEN", "abcdefgh1234")]);
    assert!(matches!(redactor.redact("nothing here"), Cow::Borrowed(_)));
    assert!(matches!(redactor.redact(""), Cow::Borrowed(_)));
}
