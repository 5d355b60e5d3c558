//! Which names say that their value is secret.

/// How surely a name means a secret.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Weight {
    /// `password`, `api_key`: nearly everything below it is one.
    Strong,
    /// `token`, `secret`, `auth`: also words of parsers, clusters and protocols.
    Weak,
}

/// Words that make a variable's name secret when they are one of its parts.
#[rustfmt::skip]
const PARTS: [&str; 18] = [
    "key", "keys", "token", "tokens", "secret", "secrets", "password", "passwd", "passphrase",
    "pwd", "pass", "credential", "credentials", "creds", "auth", "private", "cookie", "dsn",
];

/// Endings that do the same without a mark before them, as in `PGPASSWORD` and `authtoken`.
const ENDINGS: [&str; 6] = [
    "password",
    "passwd",
    "token",
    "secret",
    "apikey",
    "accesskey",
];

/// A name that ends in one of these is about a secret and does not hold it.
#[rustfmt::skip]
const ABOUT: [&str; 26] = [
    "name", "type", "mode", "method", "algorithm", "alg", "path", "file", "dir", "host", "port",
    "domain", "region", "provider", "prefix", "header", "ttl", "expiry", "sock", "enabled",
    "server", "endpoint", "url", "uri", "length", "count",
];

/// Words before `key` that make it a key to something.
#[rustfmt::skip]
const KEYS_TO: [&str; 17] = [
    "api", "access", "secret", "private", "account", "shared", "signing", "encryption", "master",
    "service", "storage", "auth", "admin", "app", "application", "subscription", "deploy",
];

/// Words before `token` that make it a bookmark: losing one would lose an agent's place.
#[rustfmt::skip]
const BOOKMARKS: [&str; 12] = [
    "next", "page", "continuation", "sync", "cursor", "pagination", "resume", "start", "end",
    "change", "skip", "previous",
];

/// The words of a name in small letters: split at marks, and where a small letter or digit meets
/// a capital. Numbers at the end are dropped (`PASSWORD_2`).
fn words(name: &str) -> Vec<String> {
    let mut words = vec![String::new()];
    let mut before = ' ';
    for letter in name.chars() {
        let hump = letter.is_ascii_uppercase() && !before.is_ascii_uppercase();
        if !letter.is_ascii_alphanumeric() || hump {
            words.push(String::new());
        }
        if let (true, Some(word)) = (letter.is_ascii_alphanumeric(), words.last_mut()) {
            word.push(letter.to_ascii_lowercase());
        }
        before = letter;
    }
    if let Some(last) = words.last_mut() {
        last.truncate(
            last.trim_end_matches(|digit: char| digit.is_ascii_digit())
                .len(),
        );
    }
    words.retain(|word| !word.is_empty());
    words
}

/// Whether an environment variable of this name holds a secret.
pub(super) fn is_secret_variable(name: &str) -> bool {
    let words = words(name);
    let about = words
        .last()
        .is_some_and(|last| ABOUT.contains(&last.as_str()));
    !about
        && words.iter().any(|word| {
            PARTS.contains(&word.as_str()) || ENDINGS.iter().any(|ending| word.ends_with(ending))
        })
}

/// What a name in a text says about its value: how surely it is secret, and which family.
pub(super) fn judge(name: &str) -> Option<(Weight, &'static str)> {
    if !may_be_secret(name) {
        return None;
    }
    let words = words(name);
    let (last, before) = words.split_last()?;
    let before = before.last().map_or("", String::as_str);
    let ends = |endings: &[&str]| endings.iter().any(|ending| last.ends_with(ending));
    if ends(&["password", "passwd", "passphrase", "passcode"]) || last == "pwd" {
        return Some((Weight::Strong, "password"));
    }
    if last == "key" && before == "access" && words.iter().any(|word| word == "secret") {
        return Some((Weight::Strong, "aws-secret-key"));
    }
    if (last == "key" && KEYS_TO.contains(&before))
        || ends(&[
            "apikey",
            "secretkey",
            "accesskey",
            "privatekey",
            "accountkey",
            "authkey",
        ])
    {
        return Some((Weight::Strong, "api-key"));
    }
    if last == "key" && before != "public" && name.bytes().all(|byte| !byte.is_ascii_lowercase()) {
        return (words.len() > 1).then_some((Weight::Weak, "key"));
    }
    if ends(&["token"]) {
        return (!BOOKMARKS.contains(&before)).then_some((Weight::Weak, "token"));
    }
    if ends(&["secret"]) {
        return Some((Weight::Weak, "secret"));
    }
    matches!(
        last.as_str(),
        "credential" | "credentials" | "auth" | "cookie"
    )
    .then_some((Weight::Weak, "credential"))
}

/// A quick look at the end of the name; nearly all names are done with here.
fn may_be_secret(name: &str) -> bool {
    let name =
        name.trim_end_matches(|mark: char| mark.is_ascii_digit() || mark == '_' || mark == '-');
    let bytes = name.as_bytes();
    [
        "word",
        "asswd",
        "phrase",
        "passcode",
        "pwd",
        "key",
        "token",
        "secret",
        "credential",
        "credentials",
        "auth",
        "cookie",
    ]
    .iter()
    .any(|ending| {
        bytes.len() >= ending.len()
            && bytes[bytes.len() - ending.len()..].eq_ignore_ascii_case(ending.as_bytes())
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn variables_are_judged_by_the_parts_of_their_names() {
        for name in [
            "GITHUB_TOKEN",
            "PGPASSWORD",
            "aws.secret",
            "npm_config__authToken",
            "SENTRY_DSN",
            "API_KEY_2",
            "OPENAI_API_KEY",
            "AWS_ACCESS_KEY_ID",
        ] {
            assert!(is_secret_variable(name), "{name}");
        }
        for name in [
            "PATH",
            "KEYBOARD",
            "TOKENIZERS_PARALLELISM",
            "GIT_AUTHOR_NAME",
            "MONKEY",
            "SSH_AUTH_SOCK",
            "SECRET_NAME",
            "GOPRIVATE",
            "XAUTHORITY",
            "",
        ] {
            assert!(!is_secret_variable(name), "{name}");
        }
    }

    #[test]
    fn names_in_text_are_judged_by_how_they_end() {
        for name in [
            "password",
            "DB_PASSWORD",
            "apiKey",
            "api-key",
            "AccountKey",
            "SharedAccessKey",
            "userPwd",
            "password2",
        ] {
            assert_eq!(
                judge(name).map(|found| found.0),
                Some(Weight::Strong),
                "{name}"
            );
        }
        for name in [
            "token",
            "client_secret",
            "STRIPE_KEY",
            "_auth",
            "_authToken",
            "FOO_TOKEN",
        ] {
            assert_eq!(
                judge(name).map(|found| found.0),
                Some(Weight::Weak),
                "{name}"
            );
        }
        for name in [
            "key",
            "cache_key",
            "public_key",
            "PUBLIC_KEY",
            "nextPageToken",
            "max_tokens",
            "tokenizer",
            "secretName",
            "password_hash",
            "monkey",
            "sword",
        ] {
            assert_eq!(judge(name), None, "{name}");
        }
        assert_eq!(
            judge("aws_secret_access_key"),
            Some((Weight::Strong, "aws-secret-key"))
        );
    }
}
