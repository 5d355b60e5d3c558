//! Secrets after options, in commands, headers, addresses, queries and sentences.

use super::{HEX, LETTERS, assert_hidden, assert_untouched, random_text};

#[test]
fn options_lose_their_value() {
    let (long, hex) = (random_text(LETTERS, 30), random_text(HEX, 32));
    for (before, value, after, label) in [
        (
            "tool --password ",
            "Tr0ub4dor&3"[..9].to_owned(),
            " --port 80",
            "password",
        ),
        ("tool --token=", long.clone(), "", "token"),
        ("tool --token \"", long.clone(), "\"", "token"),
        (
            "[\"tool\", \"--api-key\", \"",
            hex.clone(),
            "\"]",
            "api-key",
        ),
        ("ENV DD_API_KEY ", hex.clone(), "\n", "api-key"),
        ("git config user.password ", long.clone(), "", "password"),
        (
            "- name: DB_PASSWORD\n  value: ",
            "p4ss-w0rd!".to_owned(),
            "\n",
            "password",
        ),
        (
            "<password>",
            "p4ss-w0rd!".to_owned(),
            "</password>",
            "password",
        ),
        ("const API_KEY: &str = \"", hex.clone(), "\";", "api-key"),
    ] {
        assert_hidden(&format!("{before}{value}{after}"), &value, label);
    }
}

#[test]
fn commands_lose_their_passwords() {
    let password = "s9fish-X2";
    for (before, after) in [
        ("curl -u me:", " https://example.com/"),
        ("curl -s -ume:", " https://example.com/"),
        ("curl --user 'me:", "' https://example.com/"),
        ("subprocess.run([\"curl\", \"-u\", \"me:", "\", url])"),
        ("mysql -u root -p", " app"),
        ("mysql -u root -p'", "' app"),
        ("sshpass -p ", " ssh me@host"),
        ("docker login -u me -p ", " example.com"),
        ("sudo docker login -u me -p=", ""),
        ("redis-cli -a ", " ping"),
        ("openssl rsa -passin pass:", " -in a"),
        ("htpasswd -b file me ", ""),
        ("$ 7z x -p", " a.7z\n"),
    ] {
        assert_hidden(&format!("{before}{password}{after}"), password, "password");
    }
}

#[test]
fn netrc_entries_lose_their_password() {
    for line_break in [" ", "\n  ", "\\n"] {
        let before = ["machine example.com", "login me", "password "].join(line_break);
        assert_hidden(&format!("{before}hunter2x\n"), "hunter2x", "password");
    }
}

#[test]
fn any_authorization_scheme_loses_its_token() {
    let token = random_text(LETTERS, 28);
    for (before, after) in [
        ("Authorization: Token ", "\r\n"),
        ("authorization: token ", "' https://example.com/"),
        ("\"Authorization\": \"ApiKey ", "\""),
        ("Set(\"Authorization\", \"GenieKey ", "\")"),
        ("Authorization: ", "\n"),
    ] {
        assert_hidden(&format!("{before}{token}{after}"), &token, "auth-token");
    }
}

#[test]
fn addresses_and_queries_lose_their_secrets() {
    let (token, hex) = (random_text(LETTERS, 32), random_text(HEX, 64));
    for (before, value, after, label) in [
        (
            "https://",
            token.as_str(),
            "@example.com/a.git",
            "url-password",
        ),
        ("redis://:", "s9fish-X2", "@cache:6379", "url-password"),
        (
            "https%3A%2F%2Fme%3A",
            "s9fish-X2",
            "%40example.com%2Fa",
            "url-password",
        ),
        (
            "https://example.com/a?se=1&sig=",
            &token,
            "&sp=r",
            "url-secret",
        ),
        (
            "https://example.com/a?X-Amz-Signature=",
            &hex,
            "&x=1",
            "url-secret",
        ),
        ("GET /items?key=", &token, "&page=2", "key"),
        ("https://example.com/cb?code=", &token, "", "url-secret"),
    ] {
        assert_hidden(&format!("{before}{value}{after}"), value, label);
    }
}

#[test]
fn random_values_in_sentences_are_hidden() {
    let token = random_text(LETTERS, 28);
    for (before, after) in [
        ("the API key is ", "."),
        ("Your access token: ", "\n"),
        ("token ", " was accepted"),
        ("Here is my key:\n", "\n"),
        ("key: ", ""),
    ] {
        let text = format!("{before}{token}{after}");
        let redacted = super::plain().redact(&text).into_owned();
        assert!(
            redacted.starts_with(&format!("{before}[secret:")),
            "{redacted}"
        );
        assert!(redacted.ends_with(&format!("]{after}")), "{redacted}");
    }
}

#[test]
fn keys_without_a_prefix_are_hidden_by_their_form() {
    let (hex, letters) = (random_text(HEX, 64), random_text(LETTERS, 64));
    for (value, label) in [
        (
            format!("{}-{}-{}", &hex[..32], &hex[..8], &hex[8..16]),
            "api-key",
        ),
        (format!("{}-us12", &hex[..32]), "api-key"),
        (format!("{}{}", ["S", "K"].concat(), &hex[..32]), "api-key"),
        (format!("123456789:AA{}", &letters[..33]), "telegram-token"),
        (
            format!("{}.atlasv1.{}", &letters[..14], letters),
            "terraform-token",
        ),
        (format!("a1B8Q~{}", &letters[..34]), "azure-secret"),
    ] {
        assert_hidden(&format!("use \"{value}\" now"), &value, label);
    }
    let token = &hex[..32];
    let account = format!("AC{}", &hex[32..]);
    assert_hidden(
        &format!("Client(\"{account}\", \"{token}\")"),
        token,
        "twilio-token",
    );
    assert_untouched(&format!("account {account} and digest"));
}

#[test]
fn options_and_sentences_without_a_secret_stay() {
    for text in [
        "tool login [--token TOKEN] [--password PASSWORD] -u USER",
        "-p, --password <PASSWORD>  The password of the server",
        "curl -u \"$USER:$PASSWORD\" https://example.com/",
        "curl -u user:password https://example.com/",
        "mysql -u root -p app",
        "mkdir -p src/report && cp -p a b",
        "docker run -p 8080:80 -u 1000:1000 nginx",
        "docker login --password-stdin < token.txt",
        "machine example.com login me password $PASSWORD",
        "Authorization: Token <token>",
        "Authorization: Token ${TOKEN}",
        "Authorization header is required for this endpoint",
        "the password is required",
        "I passed the token identifier to the parser",
        "https://user@example.com/",
        "https%3A%2F%2Fexample.com%2Fpath%40v1",
        "?page=2&key=name&sig=none",
        "cache hit for key a8f5f167f44f4964e6c998dee827110c",
        "key 123e4567-e89b-12d3-a456-426614174000 not found",
        "the key 01ARZ3NDEKTSV4RRFFQ69G5FAV is free",
        "nextPageToken: \"XkXyXXvu12kaCziRMajafiY9\"",
        "token=b\"x\"",
    ] {
        assert_untouched(text);
    }
}
