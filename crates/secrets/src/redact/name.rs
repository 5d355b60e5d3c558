//! Decides which names mark their value as secret.

/// How certain it is that a name means a secret.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Confidence {
    /// `password`, `api_key`: nearly every value is one.
    Strong,
    /// `token`, `secret`, `auth`: also words of parsers, clusters and protocols.
    Weak,
    /// `key`: of a service, or of a map. Only a random value is one.
    Hint,
    /// `sig`, `code`: a secret in the query of an address.
    Parameter,
}

/// Words that make a variable's name secret when they are one of its parts.
#[rustfmt::skip]
const PARTS: [&str; 18] = [
    "key", "keys", "token", "tokens", "secret", "secrets", "password", "passwd", "passphrase",
    "pwd", "pass", "credential", "credentials", "creds", "auth", "private", "cookie", "dsn",
];

/// Suffixes that do the same without a separator before them, as in `PGPASSWORD` and `authtoken`.
const ENDINGS: [&str; 6] = [
    "password",
    "passwd",
    "token",
    "secret",
    "apikey",
    "accesskey",
];

/// A name that ends in one of these describes a secret and does not contain it.
#[rustfmt::skip]
const DESCRIPTIVE_SUFFIXES: [&str; 26] = [
    "name", "type", "mode", "method", "algorithm", "alg", "path", "file", "dir", "host", "port",
    "domain", "region", "provider", "prefix", "header", "ttl", "expiry", "sock", "enabled",
    "server", "endpoint", "url", "uri", "length", "count",
];

/// Words before `key` that make it a key to a service.
#[rustfmt::skip]
const KEY_QUALIFIERS: [&str; 17] = [
    "api", "access", "secret", "private", "account", "shared", "signing", "encryption", "master",
    "service", "storage", "auth", "admin", "app", "application", "subscription", "deploy",
];

/// Words before `token` that make it a bookmark: losing one would lose an agent's position.
#[rustfmt::skip]
const BOOKMARKS: [&str; 12] = [
    "next", "page", "continuation", "sync", "cursor", "pagination", "resume", "start", "end",
    "change", "skip", "previous",
];

/// Words before `key` that make it one of a table, a map or a pair.
#[rustfmt::skip]
const PUBLIC_KEYS: [&str; 14] = [
    "public", "primary", "foreign", "cache", "sort", "partition", "row", "object", "idempotency",
    "group", "map", "host", "index", "unique",
];

/// Parameters of an address that grant access.
#[rustfmt::skip]
const PARAMETERS: [&str; 7] = [
    "sig", "signature", "code", "hmac", "hash_key", "assertion", "ticket",
];

/// What the name of a parameter in the query of an address says about its value.
pub(super) fn classify_parameter(name: &str) -> Option<(Confidence, &'static str)> {
    let name = name.to_ascii_lowercase();
    let grants = PARAMETERS.contains(&name.as_str()) || name.ends_with("-signature");
    grants.then_some((Confidence::Parameter, "url-secret"))
}

/// The words of a name in lowercase: split at separators, and where a lowercase letter or digit precedes
/// an uppercase letter. Numbers at the end are dropped (`PASSWORD_2`).
fn words(name: &str) -> Vec<String> {
    let mut words = vec![String::new()];
    let mut before = ' ';
    for announcement in name.chars() {
        let hump = announcement.is_ascii_uppercase() && !before.is_ascii_uppercase();
        if !announcement.is_ascii_alphanumeric() || hump {
            words.push(String::new());
        }
        if let (true, Some(word)) = (announcement.is_ascii_alphanumeric(), words.last_mut()) {
            word.push(announcement.to_ascii_lowercase());
        }
        before = announcement;
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

/// Variables in which a shell keeps its folder; their names end like those of passwords.
const FOLDERS: [&str; 2] = ["PWD", "OLDPWD"];

/// Whether an environment variable of this name contains a secret.
pub fn is_secret_variable(name: &str) -> bool {
    if FOLDERS.contains(&name) {
        return false;
    }
    let words = words(name);
    let descriptive = words
        .last()
        .is_some_and(|last| DESCRIPTIVE_SUFFIXES.contains(&last.as_str()));
    !descriptive
        && words.iter().any(|word| {
            PARTS.contains(&word.as_str()) || ENDINGS.iter().any(|ending| word.ends_with(ending))
        })
}

/// Whether `name` is a bookmark in a list, such as `nextPageToken`.
pub(super) fn is_bookmark(name: &str) -> bool {
    let words = words(name);
    matches!(words.as_slice(), [.., before, last]
        if last == "token" && BOOKMARKS.contains(&before.as_str()))
}

/// What a name in a text says about its value: how certainly it is secret, and its label.
pub(super) fn classify(name: &str) -> Option<(Confidence, &'static str)> {
    if !may_be_secret(name) {
        return None;
    }
    let words = words(name);
    let (last, before) = words.split_last()?;
    let before = before.last().map_or("", String::as_str);
    let ends = |endings: &[&str]| endings.iter().any(|ending| last.ends_with(ending));
    if ends(&["password", "passwd", "passphrase", "passcode"]) || last == "pwd" || last == "pass" {
        return Some((Confidence::Strong, "password"));
    }
    if last == "key" && before == "access" && words.iter().any(|word| word == "secret") {
        return Some((Confidence::Strong, "aws-secret-key"));
    }
    if (last == "key" && KEY_QUALIFIERS.contains(&before))
        || ends(&[
            "apikey",
            "secretkey",
            "accesskey",
            "privatekey",
            "accountkey",
            "authkey",
        ])
    {
        return Some((Confidence::Strong, "api-key"));
    }
    if last == "key" && before != "public" && name.bytes().all(|byte| !byte.is_ascii_lowercase()) {
        return (words.len() > 1).then_some((Confidence::Weak, "key"));
    }
    if last == "key" {
        return (!PUBLIC_KEYS.contains(&before)).then_some((Confidence::Hint, "key"));
    }
    if ends(&["token"]) {
        return (!BOOKMARKS.contains(&before)).then_some((Confidence::Weak, "token"));
    }
    if ends(&["secret"]) {
        return Some((Confidence::Weak, "secret"));
    }
    matches!(
        last.as_str(),
        "credential" | "credentials" | "auth" | "cookie"
    )
    .then_some((Confidence::Weak, "credential"))
}

/// A quick check of the name's end, which rejects nearly all names.
fn may_be_secret(name: &str) -> bool {
    let name =
        name.trim_end_matches(|mark: char| mark.is_ascii_digit() || mark == '_' || mark == '-');
    let bytes = name.as_bytes();
    [
        "word",
        "asswd",
        "phrase",
        "passcode",
        "pass",
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
    fn variables_are_classified_by_their_name_parts() {
        for name in [
            "GITHUB_TOKEN",
            "PGPASSWORD",
            "aws.secret",
            "npm_config__authToken",
            "SENTRY_DSN",
            "API_KEY_2",
            "OPENAI_API_KEY",
            "AWS_ACCESS_KEY_ID",
            "DB_PWD",
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
            "PWD",
            "OLDPWD",
            "",
        ] {
            assert!(!is_secret_variable(name), "{name}");
        }
    }

    #[test]
    fn names_in_text_are_classified_by_their_suffix() {
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
                classify(name).map(|found| found.0),
                Some(Confidence::Strong),
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
                classify(name).map(|found| found.0),
                Some(Confidence::Weak),
                "{name}"
            );
        }
        for name in ["key", "licenseKey", "deploy key"] {
            let found = classify(name).map(|found| found.0);
            assert!(
                matches!(found, Some(Confidence::Hint | Confidence::Strong)),
                "{name}"
            );
        }
        for name in [
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
            assert_eq!(classify(name), None, "{name}");
        }
        assert_eq!(
            classify("aws_secret_access_key"),
            Some((Confidence::Strong, "aws-secret-key"))
        );
    }
}
