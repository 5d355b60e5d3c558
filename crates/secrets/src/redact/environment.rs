//! The secrets of this process and of a workflow: which values are worth replacing everywhere.

use std::collections::{BTreeMap, BTreeSet};

use super::known::{Known, SHORTEST};
use super::{name, placeholder, shape};

/// From this length on even a value of letters only counts as a secret. A shorter one is more likely a
/// word that the text also uses.
const SHORTEST_WORD: usize = 12;

/// Collects the secrets from `environment`. `is_safe` tells whether a label can appear in a placeholder
/// without being treated as a secret itself.
pub(super) fn from_environment(
    environment: impl IntoIterator<Item = (String, String)>,
    is_safe: impl Fn(&str) -> bool,
) -> Known {
    // Equal values get one label, whatever the order of the environment.
    let mut labels: BTreeMap<String, String> = BTreeMap::new();
    for (variable, value) in environment {
        for secret in secrets(&variable, value.trim()) {
            add_label(&mut labels, secret, &variable, &is_safe);
        }
    }
    Known::of(&labels)
}

/// Treats these values as secrets, whatever they look like.
pub(super) fn from_declared(secrets: &[(String, String)], is_safe: impl Fn(&str) -> bool) -> Known {
    let mut labels = BTreeMap::new();
    for (name, value) in secrets {
        if value.chars().count() >= SHORTEST {
            add_label(&mut labels, value, name, &is_safe);
        }
    }
    Known::of(&labels)
}

fn add_label(
    labels: &mut BTreeMap<String, String>,
    secret: &str,
    variable: &str,
    is_safe: impl Fn(&str) -> bool,
) {
    let mut label = placeholder::label(variable);
    if !is_safe(&label) {
        label = placeholder::label("");
    }
    labels
        .entry(secret.to_owned())
        .and_modify(|known| *known = label.clone().min(known.clone()))
        .or_insert(label);
}

/// The secrets in the value of one variable: the value itself, if the name marks it as secret, and a
/// password inside a URL under any name.
fn secrets<'a>(variable: &str, value: &'a str) -> BTreeSet<&'a str> {
    let mut secrets = BTreeSet::new();
    let address = value.split_once("://").map(|(_, rest)| {
        let authority = rest.split(['/', '?', '#']).next().unwrap_or(rest);
        authority.rsplit_once('@').map(|(login, _)| login)
    });
    if let Some(Some((_, password))) = address.map(|login| login?.split_once(':'))
        && is_worth_hiding(password)
    {
        secrets.insert(password);
    }
    // A URL without credentials is public.
    let public = address == Some(None);
    if name::is_secret_variable(variable) && !public && is_worth_hiding(value) {
        secrets.insert(value);
    }
    secrets
}

/// Whether replacing every occurrence of `value` protects more than it destroys.
fn is_worth_hiding(value: &str) -> bool {
    let length = value.chars().count();
    let word = value.bytes().all(|byte| byte.is_ascii_alphabetic())
        && value.bytes().skip(1).all(|byte| byte.is_ascii_lowercase());
    let repeated = value
        .chars()
        .all(|announcement| value.starts_with(announcement));
    let shortest = if word { SHORTEST_WORD } else { SHORTEST };
    let harmless = repeated
        || shape::is_common_word(value)
        || shape::is_numeric(value)
        || shape::is_rooted_path(value);
    length >= shortest && !harmless
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn harmless_values_are_not_collected() {
        for (variable, value) in [
            ("AUTH_MODE", "development"),
            ("MY_TOKEN", "production"),
            ("MY_TOKEN", "short"),
            ("MAX_TOKENS", "123456789"),
            ("MY_KEY", "/home/me/.ssh/id_ed25519"),
            ("AUTH_SERVICE", "https://login.example.com/oauth2"),
            ("DB_PASSWORD", "postgres"),
            ("DB_PASSWORD", "sunshine"),
            ("DB_PASSWORD", "----------------"),
            ("EDITOR", "a8f5f167f44f4964e6c998"),
            ("MY_TOKEN", ""),
        ] {
            assert!(secrets(variable, value).is_empty(), "{variable}={value}");
        }
    }

    #[test]
    fn url_credentials_are_collected_under_any_name() {
        let value = format!("postgres://me:{}@db/app", "s3cr3t-value");
        assert_eq!(
            secrets("DATABASE_URL", &value),
            BTreeSet::from(["s3cr3t-value"])
        );
        assert_eq!(secrets("MY_DSN", &value).len(), 2);
    }
}
