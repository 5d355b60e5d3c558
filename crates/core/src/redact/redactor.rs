//! Runs the finders and writes the placeholders.

use std::borrow::Cow;
use std::fmt;
use std::iter::once;

use serde_json::{Map, Value};

use super::environment::Known;
use super::piece::{Hit, Piece};
use super::{assignment, entropy, families, personal, placeholder};

/// What one finder hides can bring out something for another, so they take turns. Ordinary text
/// needs one round and a second to be sure; the limit keeps the time linear for hostile text.
const ROUNDS: usize = 8;

/// Replaces secrets in text by placeholders. Knows the secrets of the environment it was made
/// with, and never shows them.
#[derive(Clone)]
pub struct Redactor {
    known: Known,
    /// Secrets that a workflow declares.
    declared: Known,
    /// Whether personal data is replaced too.
    personal: bool,
}

impl Redactor {
    /// Learns the values of those variables whose name or content says that they are secret.
    pub fn new(environment: impl IntoIterator<Item = (String, String)>) -> Self {
        let blank = Self {
            known: Known::default(),
            declared: Known::default(),
            personal: false,
        };
        Self {
            known: Known::learn(environment, |label| blank.is_inert(label)),
            ..blank
        }
    }

    /// The same, and it also knows these secrets by name, and personal data if asked.
    pub fn knowing(&self, secrets: &[(String, String)], personal: bool) -> Self {
        let inert = |label: &str| self.is_inert(label);
        Self {
            known: self.known.clone(),
            declared: Known::take(secrets, inert),
            personal,
        }
    }

    fn is_inert(&self, label: &str) -> bool {
        self.search(label, None).is_empty()
    }

    /// `text` with a placeholder for each secret; borrowed if there was none.
    pub fn redact<'a>(&self, text: &'a str) -> Cow<'a, str> {
        self.redact_value_of(text, None)
    }

    /// Redacts every string in `value`, the keys of objects included. Keys are also read as names:
    /// what stands under `password` is hidden, what stands under `signature` is not random.
    pub fn redact_json(&self, value: &mut Value) {
        self.redact_member(None, value);
    }

    fn redact_member(&self, name: Option<&str>, value: &mut Value) {
        match value {
            Value::String(text) => {
                let judged = name.and_then(|name| assignment::replacement(name, text));
                // What the finders know gets its own name; the member's name is the last resort.
                if let Cow::Owned(redacted) = self.redact_value_of(text, name) {
                    *text = redacted;
                } else if let Some(placeholder) = judged {
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
            // Two spellings of one secret must not push each other out.
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

    /// Everything that is closed in `text`, in order and apart from each other.
    fn search(&self, text: &str, name: Option<&str>) -> Vec<Hit> {
        // A secret in the place of a placeholder's name would be carried through the door.
        let mut hits: Vec<Hit> = placeholder::all(text)
            .filter(|(_, label)| self.is_inert(label))
            .map(|(range, _)| Hit {
                range,
                replacement: None,
            })
            .collect();
        for _ in 0..ROUNDS {
            let before = hits.len();
            look(text, name, &mut hits, |piece, found| {
                self.known.find(piece, found);
            });
            look(text, name, &mut hits, |piece, found| {
                self.declared.find(piece, found);
            });
            if self.personal {
                look(text, name, &mut hits, personal::find);
            }
            look(text, name, &mut hits, families::find);
            look(text, name, &mut hits, assignment::find);
            look(text, name, &mut hits, entropy::find);
            if hits.len() == before {
                break;
            }
        }
        hits
    }
}

/// Gives every part of `text` that is still open to one finder.
fn look(
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
