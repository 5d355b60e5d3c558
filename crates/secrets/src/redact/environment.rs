//! The secrets of this process: exact values, in every encoding in which they are likely to appear.

use std::collections::{BTreeMap, BTreeSet, HashMap};

use regex::Regex;

use super::piece::{Hit, Piece};
use super::{encoding, families, name, placeholder, shape};

/// Shorter values occur by accident, and replacing them would destroy ordinary words.
const SHORTEST: usize = 8;

/// From this length on even a value of letters only counts as a secret. A shorter one is more likely a
/// word that the text also uses.
const SHORTEST_WORD: usize = 12;

/// One encoding of a secret.
#[derive(Clone)]
struct Form {
    text: String,
    placeholder: String,
}

/// The values to replace, found by their first letters and then compared in full. That keeps the search
/// cheap however long the values are.
#[derive(Clone, Default)]
pub(super) struct Known {
    heads: Option<Regex>,
    forms: HashMap<String, Vec<Form>>,
    values: usize,
}

impl Known {
    /// Collects the secrets from `environment`. `is_safe` tells whether a label can appear in a
    /// placeholder without being treated as a secret itself.
    pub(super) fn from_environment(
        environment: impl IntoIterator<Item = (String, String)>,
        is_safe: impl Fn(&str) -> bool,
    ) -> Self {
        // Equal values get one label, whatever the order of the environment.
        let mut labels: BTreeMap<String, String> = BTreeMap::new();
        for (variable, value) in environment {
            for secret in secrets(&variable, value.trim()) {
                add_label(&mut labels, secret, &variable, &is_safe);
            }
        }
        Self::of(&labels)
    }

    /// Treats these values as secrets, whatever they look like.
    pub(super) fn from_declared(
        secrets: &[(String, String)],
        is_safe: impl Fn(&str) -> bool,
    ) -> Self {
        let mut labels = BTreeMap::new();
        for (name, value) in secrets {
            if value.chars().count() >= SHORTEST {
                add_label(&mut labels, value, name, &is_safe);
            }
        }
        Self::of(&labels)
    }

    /// `labels` maps values to their labels.
    fn of(labels: &BTreeMap<String, String>) -> Self {
        let mut known = Self {
            values: labels.len(),
            ..Self::default()
        };
        for (value, label) in labels {
            for text in spellings(value) {
                // A value that equals the name of a variable or family would match inside of
                // placeholders, and is not a secret.
                let named = |label: &str| format!("[secret:{label}:").contains(&text);
                if !labels.values().any(|label| named(label)) && !families::labels().any(named) {
                    known.add(Form {
                        placeholder: placeholder::of(label, value),
                        text,
                    });
                }
            }
        }
        known.finish();
        known
    }

    fn add(&mut self, form: Form) {
        let head: String = form.text.chars().take(SHORTEST).collect();
        self.forms.entry(head).or_default().push(form);
    }

    fn finish(&mut self) {
        for forms in self.forms.values_mut() {
            // The longest match wins; of equal encodings the first by name, which makes the choice
            // deterministic.
            forms.sort_by(|a, b| {
                (b.text.len(), &a.placeholder).cmp(&(a.text.len(), &b.placeholder))
            });
        }
        let mut heads: Vec<String> = self.forms.keys().map(|head| regex::escape(head)).collect();
        heads.sort_unstable();
        self.heads = (!heads.is_empty()).then(|| {
            regex::RegexBuilder::new(&heads.join("|"))
                .size_limit(usize::MAX)
                .build()
                .expect("escaped literals are a pattern, and its size is not limited")
        });
    }

    pub(super) fn count(&self) -> usize {
        self.values
    }

    /// Finds the known values in `piece`. Where two overlap, the first is replaced as a whole, and of
    /// the second the rest, so that nothing of either remains.
    pub(super) fn find(&self, piece: &Piece<'_>, hits: &mut Vec<Hit>) {
        let Some(heads) = &self.heads else { return };
        let (mut at, mut hidden) = (0, 0);
        while let Some(head) = heads.find_at(piece.text, at) {
            let rest = &piece.text[head.start()..];
            let forms = self.forms.get(head.as_str()).map_or(&[][..], Vec::as_slice);
            if let Some(form) = forms.iter().find(|form| rest.starts_with(&form.text)) {
                let end = head.start() + form.text.len();
                if end > hidden {
                    let range = head.start().max(hidden)..end;
                    hits.push(piece.replace(range, form.placeholder.clone()));
                    hidden = end;
                }
            }
            at = head.start() + rest.chars().next().map_or(1, char::len_utf8);
        }
    }
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

/// `value` as it appears in text, in JSON, in JSON inside JSON, in URLs and in base64.
fn spellings(value: &str) -> BTreeSet<String> {
    let json = encoding::json(value);
    let percent = encoding::percent(value, "-_.~");
    let base64 = encoding::base64(value.as_bytes());
    let padded = format!("{base64}{}", "=".repeat((4 - base64.len() % 4) % 4));
    let mut spellings = BTreeSet::from([
        value.to_owned(),
        encoding::json(&json),
        json,
        // As browsers and as older libraries encode it.
        encoding::percent(value, "-_.~!'()*"),
        percent.replace("%20", "+"),
        lower_escapes(&percent),
        percent,
    ]);
    for text in encoding::base64_cores(value)
        .into_iter()
        .chain([base64, padded])
    {
        spellings.insert(encoding::url_safe(&text));
        spellings.insert(text);
    }
    spellings.retain(|text| text.chars().count() >= SHORTEST);
    spellings
}

/// Converts `%2F` to `%2f`.
fn lower_escapes(percent: &str) -> String {
    let mut escape = 0;
    percent
        .chars()
        .map(|announcement| {
            escape = if announcement == '%' {
                3_u8
            } else {
                escape.saturating_sub(1)
            };
            if escape > 0 {
                announcement.to_ascii_lowercase()
            } else {
                announcement
            }
        })
        .collect()
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

    #[test]
    fn only_percent_escapes_are_lowercased() {
        assert_eq!(lower_escapes("AB%2FCD%3D"), "AB%2fCD%3d");
    }
}
