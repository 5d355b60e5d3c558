//! Runs the finders and writes the placeholders.

use std::borrow::Cow;
use std::fmt;
use std::iter::once;

use serde_json::{Map, Value};

use super::known::Known;
use super::piece::{Hit, Piece};
use super::{assignment, entropy, environment, families, mention, personal, placeholder};

/// A replacement by one finder can expose a match for another, so they run in rounds. Ordinary text
/// needs one round and a second to confirm; the limit keeps the time linear for hostile text.
const ROUNDS: usize = 8;

/// Replaces secrets in text by placeholders. Knows the secrets of the environment that it was created
/// with, and never prints them.
#[derive(Clone)]
pub struct Redactor {
    known: Known,
    /// Secrets that a workflow declares.
    declared: Known,
    /// Whether personal data is replaced, too.
    personal: bool,
}

impl Redactor {
    /// Collects the values of environment variables whose name or content marks them as secret.
    pub fn new(environment: impl IntoIterator<Item = (String, String)>) -> Self {
        let blank = Self {
            known: Known::default(),
            declared: Known::default(),
            personal: false,
        };
        Self {
            known: environment::from_environment(environment, |label| blank.is_safe_label(label)),
            ..blank
        }
    }

    /// A redactor that also knows these secrets by name, and replaces personal data if asked.
    pub fn with_secrets(&self, secrets: &[(String, String)], personal: bool) -> Self {
        let is_safe = |label: &str| self.is_safe_label(label);
        Self {
            known: self.known.clone(),
            declared: environment::from_declared(secrets, is_safe),
            personal,
        }
    }

    fn is_safe_label(&self, label: &str) -> bool {
        self.search(label, None).is_empty()
    }

    /// Returns `text` with a placeholder for each secret; borrowed if there is none.
    pub fn redact<'a>(&self, text: &'a str) -> Cow<'a, str> {
        self.redact_value_of(text, None)
    }

    /// Returns `text` with the word `secret` for each secret, for names that cannot contain
    /// placeholders.
    pub fn redact_name<'a>(&self, text: &'a str) -> Cow<'a, str> {
        match self.redact(text) {
            Cow::Owned(redacted) => Cow::Owned(placeholder::replace_all(&redacted, "secret")),
            unchanged @ Cow::Borrowed(_) => unchanged,
        }
    }

    /// Redacts every string in `value`, object keys included. Keys also count as names: a value under
    /// `password` is replaced, a value under `signature` is not treated as random.
    pub fn redact_json(&self, value: &mut Value) {
        self.redact_member(None, value);
    }

    fn redact_member(&self, name: Option<&str>, value: &mut Value) {
        match value {
            Value::String(text) => {
                let by_name = name.and_then(|name| assignment::replacement(name, text));
                // A finder's own placeholder takes precedence over the member's name.
                if let Cow::Owned(redacted) = self.redact_value_of(text, name) {
                    *text = redacted;
                } else if let Some(placeholder) = by_name {
                    *text = placeholder;
                }
            }
            Value::Array(members) => {
                for member in members {
                    self.redact_member(name, member);
                }
            }
            Value::Object(members) => {
                for (name, member) in members.iter_mut() {
                    self.redact_member(Some(name), member);
                }
                self.redact_names(members);
            }
            Value::Null | Value::Bool(_) | Value::Number(_) => {}
        }
    }

    fn redact_names(&self, members: &mut Map<String, Value>) {
        let owned = |name: &String| matches!(self.redact(name), Cow::Owned(_));
        if !members.keys().any(owned) {
            return;
        }
        for (name, member) in std::mem::take(members) {
            let mut name = self.redact(&name).into_owned();
            // Two encodings of one secret must not overwrite each other.
            while members.contains_key(&name) {
                name.push('+');
            }
            members.insert(name, member);
        }
    }

    fn redact_value_of<'a>(&self, text: &'a str, name: Option<&str>) -> Cow<'a, str> {
        let hits = self.search(text, name);
        if hits.iter().all(|hit| hit.replacement.is_none()) {
            return Cow::Borrowed(text);
        }
        let mut redacted = String::with_capacity(text.len());
        let mut from = 0;
        for hit in hits {
            redacted.push_str(&text[from..hit.range.start]);
            redacted.push_str(
                hit.replacement
                    .as_deref()
                    .unwrap_or(&text[hit.range.clone()]),
            );
            from = hit.range.end;
        }
        redacted.push_str(&text[from..]);
        Cow::Owned(redacted)
    }

    /// All hits and placeholders in `text`, in order and without overlap.
    fn search(&self, text: &str, name: Option<&str>) -> Vec<Hit> {
        // A secret inside of a placeholder's label would otherwise pass unredacted.
        let mut hits: Vec<Hit> = placeholder::all(text)
            .filter(|(_, label)| self.is_safe_label(label))
            .map(|(range, _)| Hit {
                range,
                replacement: None,
            })
            .collect();
        for _ in 0..ROUNDS {
            let before = hits.len();
            run_finder(text, name, &mut hits, |piece, found| {
                self.known.find(piece, found);
            });
            run_finder(text, name, &mut hits, |piece, found| {
                self.declared.find(piece, found);
            });
            if self.personal {
                run_finder(text, name, &mut hits, personal::find);
            }
            run_finder(text, name, &mut hits, families::find);
            run_finder(text, name, &mut hits, assignment::find);
            run_finder(text, name, &mut hits, mention::find);
            run_finder(text, name, &mut hits, entropy::find);
            if hits.len() == before {
                break;
            }
        }
        hits
    }
}

/// Passes every part of `text` without a hit to one finder.
fn run_finder(
    text: &str,
    name: Option<&str>,
    hits: &mut Vec<Hit>,
    find: impl Fn(&Piece<'_>, &mut Vec<Hit>),
) {
    let mut found = Vec::new();
    let mut from = 0;
    let closed = hits.iter().map(|hit| hit.range.clone());
    for hit in closed.chain(once(text.len()..text.len())) {
        if from < hit.start {
            let piece = Piece {
                text: &text[from..hit.start],
                offset: from,
                cut_before: from > 0,
                cut_after: hit.start < text.len(),
                name,
            };
            find(&piece, &mut found);
        }
        from = hit.end;
    }
    if !found.is_empty() {
        hits.append(&mut found);
        hits.sort_by_key(|hit| hit.range.start);
    }
}

impl fmt::Debug for Redactor {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Redactor")
            .field("known", &self.known.count())
            .finish_non_exhaustive()
    }
}
