//! The secrets of this process: exact values, in every spelling they are likely to be met.

use std::collections::{BTreeMap, BTreeSet, HashMap};

use regex::Regex;

use super::piece::{Hit, Piece};
use super::{encoding, families, name, placeholder, shape};

/// Shorter values occur by chance, and hiding them would eat ordinary words.
const SHORTEST: usize = 8;

/// From here on even a value of nothing but letters is taken for a secret. A shorter one is more
/// likely a word that the text uses too.
const SHORTEST_WORD: usize = 12;

/// One spelling of a secret.
#[derive(Clone)]
struct Form {
    text: String,
    placeholder: String,
}

/// The values to hide, found by their first letters and then compared in full. That keeps the
/// search small however long the values are.
#[derive(Clone, Default)]
pub(super) struct Known {
    heads: Option<Regex>,
    forms: HashMap<String, Vec<Form>>,
    values: usize,
}

impl Known {
    /// Takes what is secret from `environment`. `inert` says whether a name can stand in a
    /// placeholder without being taken for a secret itself.
    pub(super) fn learn(
        environment: impl IntoIterator<Item = (String, String)>,
        inert: impl Fn(&str) -> bool,
    ) -> Self {
        // Equal values have one name, whatever the order of the environment.
        let mut labels: BTreeMap<String, String> = BTreeMap::new();
        for (variable, value) in environment {
            for secret in secrets(&variable, value.trim()) {
                name_it(&mut labels, secret, &variable, &inert);
            }
        }
        Self::of(&labels)
    }

    /// Takes these for secrets, whatever they look like.
    pub(super) fn take(secrets: &[(String, String)], inert: impl Fn(&str) -> bool) -> Self {
        let mut labels = BTreeMap::new();
        for (name, value) in secrets {
            if value.chars().count() >= SHORTEST {
                name_it(&mut labels, value, name, &inert);
            }
        }
        Self::of(&labels)
    }

    /// `labels` are the names of values.
    fn of(labels: &BTreeMap<String, String>) -> Self {
        let mut known = Self {
            values: labels.len(),
            ..Self::default()
        };
        for (value, label) in labels {
            for text in spellings(value) {
                // A value that is itself the name of a variable or family would be found in
                // placeholders, and is no secret.
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
            // The longest that fits wins; of equal spellings the first by name, always the same.
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

    /// How many values are known.
    pub(super) fn count(&self) -> usize {
        self.values
    }

    /// Finds the known values in `piece`. Where two overlap, the first is hidden whole and of the
    /// second what is left, so that nothing of either stays.
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

fn name_it(
    labels: &mut BTreeMap<String, String>,
    secret: &str,
    variable: &str,
    inert: impl Fn(&str) -> bool,
) {
    let mut label = placeholder::label(variable);
    if !inert(&label) {
        label = placeholder::label("");
    }
    labels
        .entry(secret.to_owned())
        .and_modify(|known| *known = label.clone().min(known.clone()))
        .or_insert(label);
}

/// What is secret in the value of one variable: the value, if the name says so, and a password
/// inside an address under any name.
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
    // An address without a login is public.
    let public = address == Some(None);
    if name::is_secret_variable(variable) && !public && is_worth_hiding(value) {
        secrets.insert(value);
    }
    secrets
}

/// Whether hiding every occurrence of `value` protects more than it destroys.
fn is_worth_hiding(value: &str) -> bool {
    let length = value.chars().count();
    let word = value.bytes().all(|byte| byte.is_ascii_alphabetic())
        && value.bytes().skip(1).all(|byte| byte.is_ascii_lowercase());
    let repeated = value.chars().all(|letter| value.starts_with(letter));
    let shortest = if word { SHORTEST_WORD } else { SHORTEST };
    let harmless = repeated
        || shape::is_common_word(value)
        || shape::is_numeric(value)
        || shape::is_rooted_path(value);
    length >= shortest && !harmless
}

/// `value` as it appears in text, in JSON, in JSON inside JSON, in addresses and in base64.
fn spellings(value: &str) -> BTreeSet<String> {
    let json = encoding::json(value);
    let percent = encoding::percent(value, "-_.~");
    let base64 = encoding::base64(value.as_bytes());
    let padded = format!("{base64}{}", "=".repeat((4 - base64.len() % 4) % 4));
    let mut spellings = BTreeSet::from([
        value.to_owned(),
        encoding::json(&json),
        json,
        // As browsers and as older libraries write it.
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

/// `%2F` as `%2f`.
fn lower_escapes(percent: &str) -> String {
    let mut escape = 0;
    percent
        .chars()
        .map(|letter| {
            escape = if letter == '%' {
                3_u8
            } else {
                escape.saturating_sub(1)
            };
            if escape > 0 {
                letter.to_ascii_lowercase()
            } else {
                letter
            }
        })
        .collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_only_looks_secret_is_not_learned() {
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
    fn a_login_in_an_address_is_learned_under_any_name() {
        let value = format!("postgres://me:{}@db/app", "s3cr3t-value");
        assert_eq!(
            secrets("DATABASE_URL", &value),
            BTreeSet::from(["s3cr3t-value"])
        );
        assert_eq!(secrets("MY_DSN", &value).len(), 2);
    }

    #[test]
    fn escapes_are_lowered_and_nothing_else() {
        assert_eq!(lower_escapes("AB%2FCD%3D"), "AB%2fCD%3d");
    }
}
