use super::super::{encoding, families};
use super::{HEX, LETTERS, assert_hidden, assert_untouched, plain, random_text};

#[test]
fn prefixed_keys_are_hidden_and_lookalikes_stay() {
    let table = [
        ("anthropic-key", ["sk-", "ant-api03-"].concat(), LETTERS, 95),
        ("openai-key", ["sk-", "proj-"].concat(), LETTERS, 48),
        ("openai-key", ["s", "k-"].concat(), LETTERS, 48),
        ("openai-key", ["sk-or", "-v1-"].concat(), HEX, 64),
        ("github-token", ["gh", "p_"].concat(), LETTERS, 36),
        ("github-token", ["gh", "o_"].concat(), LETTERS, 36),
        ("github-token", ["gh", "s_"].concat(), LETTERS, 36),
        ("github-token", ["github_", "pat_"].concat(), LETTERS, 82),
        ("gitlab-token", ["gl", "pat-"].concat(), LETTERS, 20),
        (
            "aws-key-id",
            ["AK", "IA"].concat(),
            "ABCDEFGHIJKLMNOPQRSTUVWXYZ234567",
            16,
        ),
        ("google-key", ["AI", "za"].concat(), LETTERS, 35),
        ("slack-token", ["xo", "xb-"].concat(), LETTERS, 40),
        ("stripe-key", ["sk_", "live_"].concat(), LETTERS, 24),
        ("npm-token", ["np", "m_"].concat(), LETTERS, 36),
        ("pypi-token", ["pypi-", "AgE"].concat(), LETTERS, 120),
        ("huggingface-token", ["h", "f_"].concat(), LETTERS, 34),
    ];
    for (label, mark, alphabet, length) in table {
        let key = format!("{mark}{}", random_text(alphabet, length));
        for (before, after) in [
            ("", ""),
            ("use ", "."),
            ("\"", "\","),
            ("(", ")"),
            (r"line\n", " x"),
            ("a=", "&b=1"),
        ] {
            assert_hidden(&format!("{before}{key}{after}"), &key, label);
        }
        assert_untouched(&format!("the mark {mark} alone"));
        assert_untouched(&format!("{mark}{}", "x".repeat(length)));
        assert_untouched(&format!("{mark}short1"));
    }
}

#[test]
fn words_that_contain_a_prefix_stay() {
    for text in [
        "task-runner-for-many-things-2024",
        "sk-learn-some-kebab-case-name-2",
        "disk-usage",
        "npm_config_registry npm_lifecycle_event",
        "hf_transfer",
        "glow-pat",
        "AIzawa",
        "https://example.com/eyJ",
        "Bearer authentication is required",
        "Basic authentication with a realm",
        "basic understanding",
        "bearer tokens expire",
        "postgres://localhost:5432/app",
        "https://user@host/path",
        "http://[::1]:80/@x",
        "postgres://postgres:postgres@localhost/app",
        "redis://:${REDIS_PASSWORD}@cache:6379",
        "mysql://user:password@db/app",
        r"://([^:]+):([^@]+)@",
        "https://{user}:{pass}@host",
        "-----BEGIN PUBLIC KEY-----",
        "-----BEGIN PRIVATE KEY----- is the first line of a key",
        "https://hooks.slack.com/services/",
        "Authorization: Bearer $TOKEN",
        "Authorization: Bearer <your-token-goes-here-1>",
    ] {
        assert_untouched(text);
    }
    // The key from Amazon's own documentation.
    assert_untouched(&["AKIA", "IOSFODNN7", "EXAMPLE"].concat());
}

#[test]
fn signed_tokens_are_hidden_completely() {
    let part = |json: &str| encoding::url_safe(&encoding::base64(json.as_bytes()));
    let token = format!(
        "{}.{}.{}",
        part(r#"{"alg":"HS256","typ":"JWT"}"#),
        part(r#"{"sub":"1234567890","name":"J"}"#),
        random_text(LETTERS, 43)
    );
    assert_hidden(&format!("cookie {token}."), &token, "jwt");
    assert_hidden(&format!("Authorization: Bearer {token}"), &token, "jwt");
    assert_untouched(&token[..token.rfind('.').unwrap()]);
}

#[test]
fn private_keys_are_hidden_as_a_block() {
    let (begin, end) = (
        ["-----BEGIN RSA PRIV", "ATE KEY-----"].concat(),
        ["-----END RSA PRIV", "ATE KEY-----"].concat(),
    );
    let line = random_text(LETTERS, 64);
    for (block, rest) in [
        (format!("{begin}\n{line}\n{line}\n{end}"), "\nafter it"),
        (format!(r"{begin}\n{line}\n{line}\n{end}"), r"\n"),
        (
            format!("{begin}\nProc-Type: 4,ENCRYPTED\nDEK-Info: AES-128-CBC,00\n\n{line}\n{end}"),
            "",
        ),
        (format!("{begin}\r\n    {line}\r\n    {end}"), "\r\n"),
        (format!("{begin}\n{line}\n{line}"), "\n[cut off]"),
    ] {
        assert_hidden(&format!("key: \n{block}{rest}"), &block, "private-key");
    }
}

#[test]
fn headers_and_urls_lose_only_the_credential() {
    let token = random_text(LETTERS, 32);
    assert_hidden(
        &format!("Authorization: Bearer {token}\r\n"),
        &token,
        "bearer-token",
    );
    assert_hidden(
        &format!(r#"{{"Authorization":"bearer {token}"}}"#),
        &token,
        "bearer-token",
    );
    let login = encoding::base64(b"user:swordfish-9");
    assert_hidden(
        &format!("Authorization: Basic {login}"),
        &login,
        "basic-login",
    );
    let password = "s9-fish~x";
    for (before, after) in [
        ("postgres://app:", "@db:5432/app"),
        ("https://me:", "@host/path?x=1"),
        ("\"amqps://u:", "@h\""),
    ] {
        assert_hidden(
            &format!("{before}{password}{after}"),
            password,
            "url-password",
        );
    }
    let path = format!("services/T00000001/B00000002/{}", random_text(LETTERS, 24));
    assert_hidden(
        &format!("https://hooks.slack.com/{path} now"),
        &path,
        "webhook",
    );
}

#[test]
fn key_has_one_placeholder_in_every_context() {
    let key = format!("{}{}", ["gh", "p_"].concat(), random_text(LETTERS, 36));
    let alone = plain().redact(&key).into_owned();
    for context in [
        "Bearer KEY",
        "https://x-access-token:KEY@github.com/a/b",
        "export GITHUB_TOKEN=KEY",
        "\"token\": \"KEY\"",
    ] {
        let text = context.replace("KEY", &key);
        assert_eq!(plain().redact(&text), context.replace("KEY", &alone));
    }
}

#[test]
fn assigned_secrets_lose_their_value_and_keep_their_name() {
    let (hex, long) = (random_text(HEX, 32), random_text(LETTERS, 20));
    for (before, value, after, label) in [
        ("password=", "hunter2", "", "password"),
        ("password: ", "hunter2", "\n", "password"),
        ("\"password\": \"", "Tr0ub4dor&3", "\",", "password"),
        (
            "\\\"db_password\\\":\\\"",
            "Tr0ub4dor&3",
            "\\\"}",
            "password",
        ),
        (
            "Server=db;User Id=me;Password=",
            "p9!kd2",
            ";Encrypt=true",
            "password",
        ),
        (
            "DefaultEndpointsProtocol=https;AccountName=me;AccountKey=",
            &long,
            ";",
            "api-key",
        ),
        ("\"api_key\": \"", &hex, "\"", "api-key"),
        ("X-Api-Key: ", &hex, "\r\n", "api-key"),
        ("?api_key=", &long, "&page=2", "api-key"),
        ("export FOO_TOKEN=", &long, "", "token"),
        ("client_secret: '", &hex, "'", "secret"),
        ("const apiKey = `", &long, "`;", "api-key"),
        ("password := \"", "p4ssw0rd-x!", "\"", "password"),
        (":secret => \"", &long, "\"", "secret"),
        ("//registry.example.org/:_authToken=", &long, "", "token"),
        ("aws_secret_access_key = ", &long, "", "aws-secret-key"),
    ] {
        assert_hidden(&format!("{before}{value}{after}"), value, label);
    }
}

#[test]
fn family_labels_are_not_secrets() {
    for label in families::labels() {
        assert_untouched(&format!("{label} secret={label}"));
    }
}
