//! The edges of the rules: the longest and shortest values, and what differs from a secret in one
//! respect only.

use super::super::{assignment, shape};
use super::{HEX, LETTERS, assert_hidden, assert_untouched, plain, random_text};

#[test]
fn assigned_values_have_a_longest_length_and_gap() {
    let value = random_text(LETTERS, 12) + "!9";
    for blanks in [0, 1, 11] {
        let gap = " ".repeat(blanks);
        assert_hidden(&format!("password={gap}{value}"), &value, "password");
    }
    assert_untouched(&format!("password={}word-and-word", " ".repeat(13)));
    let longest = random_text(LETTERS, 600);
    let (fits, long) = longest.split_at(assignment::LONGEST_VALUE);
    assert!(!long.is_empty());
    assert_hidden(&format!("password={fits}"), fits, "password");
    assert_untouched(&format!("password={longest}"));
}

#[test]
fn quoted_arguments_are_one_argument() {
    for password in ["k9,Zp4w!", "k9|Zp4w!", "k9`Zp4w!"] {
        assert_hidden(
            &format!("mysql -u root -p'{password}' app"),
            password,
            "password",
        );
        assert_hidden(
            &format!("curl -u 'me:{password}' https://example.com/"),
            password,
            "password",
        );
    }
}

#[test]
fn keyed_formats_need_each_of_their_parts() {
    let (hex, eight) = (random_text(HEX, 32), random_text(HEX, 8));
    let mailgun = format!("{hex}-{eight}-{eight}");
    assert_eq!(hidden(&mailgun), vec![mailgun.clone()]);
    let id = format!("M{}", random_text(LETTERS, 25));
    let discord = format!("{id}.{}.{}", &hex[..6], random_text(LETTERS, 27));
    assert_eq!(hidden(&discord), vec![discord.clone()]);
    // A word in the place of the first part, and a part that is too long.
    let name = "MemberOfTheOuterModuleName";
    assert_untouched(&format!(
        "{name}.{}.{}",
        &hex[..6],
        "and_all_of_the_rest_of_it_here"
    ));
}

/// The parts of a text that redaction replaces.
fn hidden(text: &str) -> Vec<String> {
    let redacted = plain().redact(text).into_owned();
    if redacted == text {
        return Vec::new();
    }
    let (start, end) = (
        redacted.find('[').expect("a placeholder begins"),
        redacted.rfind(']').expect("a placeholder ends"),
    );
    let tail = redacted.len() - end - 1;
    vec![text[start..text.len() - tail].to_owned()]
}

#[test]
fn names_get_a_word_instead_of_a_placeholder() {
    let key = ["gh", "p_"].concat() + &random_text(LETTERS, 36);
    let name = format!("deploy-{key}");
    assert_eq!(
        plain().redact_name(&format!("deploy {key}")),
        "deploy secret"
    );
    assert_eq!(plain().redact_name("deploy-of-docs"), "deploy-of-docs");
    assert!(!plain().redact_name(&name).contains(&key[4..]));
}

#[test]
fn uuid_has_its_dashes_in_their_places() {
    let uuid = "0f8fad5b-d9cb-469f-a165-70867728950e";
    assert!(shape::is_uuid(uuid));
    for other in [
        "0f8fad5b-d9cb-469f-a165-70867728950",
        "0f8fad5b-d9cb-469f-a165-70867728950e0",
        "0f8fad5bad9cb-469f-a165-70867728950e",
        "0f8fad5b-d9cb-469f-a165-70867728950g",
        "-f8fad5b-d9cb-469f-a165-70867728950e",
    ] {
        assert!(!shape::is_uuid(other), "{other}");
    }
}

#[test]
fn signed_tokens_need_all_of_their_parts() {
    let (header, body) = (
        ["ey", "JhbGciOiJIUzI1NiJ9"].concat(),
        ["ey", "JzdWIiOiIxMjM0In0"].concat(),
    );
    let signature = random_text(LETTERS, 20);
    let token = format!("{header}.{body}.{signature}");
    assert_hidden(&format!("got {token} back"), &token, "jwt");
    for other in [
        format!("{header}.{body}"),
        format!("{header}.{body}.short"),
        format!("{header}.eyJ.the-names-of-things"),
        format!("{header}.the_body_of_it.the_names_of_it"),
    ] {
        assert_untouched(&format!("got {other} back"));
    }
    let encrypted = format!("{header}..{signature}.{signature}.{signature}");
    assert_hidden(&format!("got {encrypted} back"), &encrypted, "jwt");
}

#[test]
fn schemes_are_not_their_tokens() {
    for text in [
        "Authorization: token the-name-of-the-variable-here",
        "authorization: scheme some_descriptive_name_of_it",
        "Bearer authenticationmechanism",
        "Bearer AUTHENTICATION_TOKEN_2",
        "Bearer authorization-header-of-version-2",
    ] {
        assert_untouched(text);
    }
    let token = random_text(LETTERS, 24) + "7";
    assert_hidden(
        &format!("Authorization: token {token}"),
        &token,
        "auth-token",
    );
    let digest = random_text(HEX, 20);
    assert_hidden(
        &format!("Authorization: token {digest}"),
        &digest,
        "auth-token",
    );
    assert_hidden(&format!("Bearer {token}"), &token, "bearer-token");
}

#[test]
fn number_of_a_bot_ends_where_the_path_begins() {
    let (number, rest) = ("1234567890", random_text(LETTERS, 33));
    let token = format!("{number}:AA{rest}");
    let text = format!("https://api.telegram.org/bot{token}/getMe");
    assert_hidden(&text, &token, "telegram-token");
    assert_untouched(&format!(
        "https://api.telegram.org/bot12x4567890:AA{}",
        &rest[..20]
    ));
}

#[test]
fn entities_of_any_length_are_decoded() {
    let key = ["gh", "p_"].concat() + &random_text(LETTERS, 36);
    for entity in ["&#x000067;", "&#x67;", "&#0000103;", "&#103;"] {
        let spelled = key.replacen('g', entity, 1);
        let redactor = super::Redactor::new([("API_TOKEN".to_owned(), key.clone())]);
        let redacted = redactor.redact(&spelled).into_owned();
        assert!(!redacted.contains(&key[4..]), "{entity}: {redacted}");
    }
}

#[test]
fn tokens_of_our_own_server_are_secrets() {
    let token = format!("segno_{}_{}", &random_text(HEX, 16), &random_text(HEX, 64));
    assert_hidden(&format!("with {token} it works"), &token, "segno-token");
    assert_untouched("segno_run_started_by_the_first_command");
}
