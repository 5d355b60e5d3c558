use crate::redact::Redactor;

fn with_personal_data() -> Redactor {
    Redactor::new([]).with_secrets(&[], true)
}

#[test]
fn personal_data_is_replaced_on_request() {
    for (sort, text) in [
        ("email", "ada.lovelace+notes@mail.example.co.uk"),
        ("ssn", "078-05-1120"),
        ("card", "4111 1111 1111 1111"),
        ("card", "378282246310005"),
        ("iban", "GB82 WEST 1234 5698 7654 32"),
        ("phone", "+44 20 7946 0958"),
        ("phone", "(555) 123-4567"),
        ("phone", "555-123-4567"),
    ] {
        let sentence = format!("Write to {text}, please.");
        let redacted = with_personal_data().redact(&sentence).into_owned();
        assert!(
            redacted.starts_with(&format!("Write to [secret:{sort}:")),
            "{redacted}"
        );
        assert!(redacted.ends_with("], please."), "{redacted}");
        assert_eq!(with_personal_data().redact(&redacted), redacted);
        assert_eq!(
            Redactor::new([]).redact(&sentence),
            sentence,
            "only if asked"
        );
    }
}

#[test]
fn other_numbers_and_names_stay() {
    for text in [
        "4111 1111 1111 1112",
        "2026-11-15T16:11:03Z took 1731686400000 ms",
        "v1.2.3 at 192.168.0.1:8080",
        "GB83 WEST 1234 5698 7654 32",
        "user@localhost and @decorator",
        "call 112 or 1-2-3",
    ] {
        assert_eq!(with_personal_data().redact(text), text);
    }
}

#[test]
fn declared_secrets_are_always_hidden() {
    let secrets = [("DOOR".to_owned(), "sunshine".to_owned())];
    let redactor = Redactor::new([]).with_secrets(&secrets, false);
    let redacted = redactor.redact("the word is sunshine").into_owned();
    assert!(
        redacted.starts_with("the word is [secret:DOOR:"),
        "{redacted}"
    );
}
