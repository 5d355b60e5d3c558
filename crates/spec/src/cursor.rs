//! Walks the values of a spec and collects all problems.
//!
//! A reader does not stop at a problem: it reports the problem and continues with a placeholder (an
//! empty text, the first choice). This is safe because `parse` returns a workflow only if no
//! problem was reported, and it lets one pass find all problems.

use std::cell::{OnceCell, RefCell};
use std::fmt::Display;
use std::ops::RangeInclusive;

use serde_json::Value;

use super::node::{Entry, Node, Tree};
use super::problem::{Fault, Problem, nearest};
use super::security::Guardrails;
use super::tools::DeclaredTools;
use crate::template::{self, Templates};

/// Names become parts of paths, which must stay readable.
const LONGEST_NAME: usize = 128;

/// What all readers share: the collected problems, the template engine, and the declarations of
/// earlier blocks that later blocks are checked against.
#[derive(Default)]
pub(super) struct ParseState {
    pub(super) problems: RefCell<Vec<Problem>>,
    pub(super) declared: OnceCell<DeclaredTools>,
    pub(super) guardrails: OnceCell<Guardrails>,
    templates: Templates,
}

/// A value of a spec with its JSON pointer and line.
#[derive(Clone)]
pub(super) struct Cursor<'a> {
    state: &'a ParseState,
    node: &'a Node,
    pointer: String,
    line: usize,
}

impl<'a> Cursor<'a> {
    pub(super) fn root(state: &'a ParseState, node: &'a Node) -> Self {
        let line = node.line;
        let pointer = String::new();
        Self {
            state,
            node,
            pointer,
            line,
        }
    }

    fn inside(&self, key: &str, line: usize, node: &'a Node) -> Self {
        let key = key.replace('~', "~0").replace('/', "~1");
        Self {
            state: self.state,
            node,
            pointer: format!("{}/{key}", self.pointer),
            line,
        }
    }

    fn report(&self, fault: Fault, message: String, nearest: Option<String>) {
        self.state.problems.borrow_mut().push(Problem {
            pointer: self.pointer.clone(),
            line: Some(self.line),
            message,
            nearest,
            fault,
        });
    }

    /// The tools that the spec declares; empty until `tools` is read.
    pub(super) fn declared(&self) -> &'a DeclaredTools {
        self.state.declared.get_or_init(DeclaredTools::default)
    }

    pub(super) fn guardrails(&self) -> &'a Guardrails {
        self.state.guardrails.get_or_init(Guardrails::default)
    }

    /// Reports that the format does not allow this value.
    pub(super) fn invalid(&self, message: impl Into<String>) {
        self.report(Fault::Invalid, message.into(), None);
    }

    /// Reports a word that is not in `known`, with the most similar known word.
    pub(super) fn unknown<'k>(
        &self,
        message: impl Into<String>,
        word: &str,
        known: impl IntoIterator<Item = &'k str>,
    ) {
        self.report(Fault::Invalid, message.into(), nearest(word, known));
    }

    /// Reports that this version does not support this value.
    pub(super) fn unsupported(&self, message: impl Into<String>) {
        self.report(Fault::Unsupported, message.into(), None);
    }

    fn expected(&self, what: &str) {
        self.invalid(format!("must be {what}, not {}", self.found()));
    }

    /// The value, as an error message describes it.
    fn found(&self) -> String {
        match &self.node.tree {
            Tree::Scalar(Value::Null) => "nothing".to_owned(),
            Tree::Scalar(Value::String(text)) => format!("the text {:?}", shortened(text)),
            Tree::Scalar(value) => value.to_string(),
            Tree::List(_) => "a list".to_owned(),
            Tree::Map(_) => "a mapping".to_owned(),
        }
    }

    pub(super) fn json(&self) -> Value {
        self.node.to_json()
    }

    pub(super) fn text(&self) -> String {
        if let Tree::Scalar(Value::String(text)) = &self.node.tree {
            text.clone()
        } else {
            self.expected("a text");
            String::new()
        }
    }

    pub(super) fn single_line(&self) -> String {
        let text = self.text();
        if matches!(&self.node.tree, Tree::Scalar(Value::String(text)) if text.is_empty()) {
            self.invalid("must not be empty");
        }
        if text.chars().any(char::is_control) {
            self.invalid("must not contain control characters");
        }
        text
    }

    /// A text that compiles as a template.
    pub(super) fn template(&self) -> String {
        let text = self.text();
        if let Err(error) = self.state.templates.check(&text) {
            self.invalid(format!("template: {error}"));
        }
        text
    }

    /// A condition: an expression, or `None` if it is always true.
    pub(super) fn condition(&self) -> Option<String> {
        let text = self.text();
        let condition = template::condition(&text);
        if let Some(condition) = condition
            && let Err(error) = self.state.templates.check_condition(condition)
        {
            self.invalid(format!("condition: {error}"));
        }
        condition.map(str::to_owned)
    }

    /// A name: letters, digits and `. _ : -`.
    pub(super) fn identifier(&self) -> String {
        let name = self.single_line();
        if !name.is_empty() {
            self.check_name(&name);
        }
        name
    }

    fn check_name(&self, name: &str) {
        let allowed = |c: char| c.is_ascii_alphanumeric() || "._:-".contains(c);
        if name.is_empty() || !name.chars().all(allowed) {
            self.invalid("a name consists of letters, digits and `. _ : -`");
        } else if name.len() > LONGEST_NAME {
            self.invalid(format!("a name has at most {LONGEST_NAME} characters"));
        }
    }

    pub(super) fn integer(&self, range: RangeInclusive<u32>) -> u32 {
        let value = match &self.node.tree {
            Tree::Scalar(value) => value.as_u64().and_then(|value| u32::try_from(value).ok()),
            _ => None,
        };
        value
            .filter(|value| range.contains(value))
            .unwrap_or_else(|| {
                self.expected(&format!("a whole number {}", bounds(&range, &u32::MAX)));
                *range.start()
            })
    }

    pub(super) fn count(&self, least: u64) -> u64 {
        let value = match &self.node.tree {
            Tree::Scalar(value) => value.as_u64(),
            _ => None,
        };
        value.filter(|value| *value >= least).unwrap_or_else(|| {
            self.expected(&format!("a whole number from {least}"));
            least
        })
    }

    pub(super) fn number(&self, range: &RangeInclusive<f64>) -> f64 {
        let value = match &self.node.tree {
            Tree::Scalar(value) => value.as_f64(),
            _ => None,
        };
        value
            .filter(|value| range.contains(value))
            .unwrap_or_else(|| {
                self.expected(&format!("a number {}", bounds(range, &f64::INFINITY)));
                *range.start()
            })
    }

    pub(super) fn scalar(&self) -> Value {
        match &self.node.tree {
            Tree::Scalar(value) if !value.is_null() => value.clone(),
            _ => {
                self.expected("a text, a number or a boolean");
                Value::Null
            }
        }
    }

    pub(super) fn boolean(&self) -> bool {
        if let Tree::Scalar(Value::Bool(value)) = &self.node.tree {
            return *value;
        }
        self.expected("true or false");
        false
    }

    pub(super) fn choice<T: Copy>(&self, choices: &[(&str, T)]) -> T {
        let words = || choices.iter().map(|(word, _)| *word);
        if let Tree::Scalar(Value::String(text)) = &self.node.tree {
            if let Some((_, value)) = choices.iter().find(|(word, _)| word == text) {
                return *value;
            }
            let message = format!(
                "must be one of {}, not `{}`",
                quoted(words()),
                shortened(text)
            );
            self.unknown(message, text, words());
        } else {
            self.expected(&format!("one of {}", quoted(words())));
        }
        choices[0].1
    }

    /// The items of a list; reports fewer than `least`.
    pub(super) fn list(&self, least: usize) -> Vec<Cursor<'a>> {
        let Tree::List(items) = &self.node.tree else {
            self.expected("a list");
            return Vec::new();
        };
        if items.len() < least {
            self.invalid(format!("must have {least} or more items"));
        }
        let cursors = items.iter().enumerate();
        cursors
            .map(|(n, item)| self.inside(&n.to_string(), item.line, item))
            .collect()
    }

    /// The entries of a mapping with arbitrary keys.
    pub(super) fn entries(&self) -> Vec<(&'a str, Cursor<'a>)> {
        let Tree::Map(entries) = &self.node.tree else {
            self.expected("a mapping");
            return Vec::new();
        };
        let cursor = |entry: &'a Entry| self.inside(&entry.key, entry.line, &entry.node);
        entries
            .iter()
            .map(|entry| (entry.key.as_str(), cursor(entry)))
            .collect()
    }

    /// The keys of a mapping; none for other values.
    pub(super) fn keys(&self) -> Vec<&'a str> {
        match &self.node.tree {
            Tree::Map(entries) => entries.iter().map(|entry| entry.key.as_str()).collect(),
            _ => Vec::new(),
        }
    }

    pub(super) fn identifier_entries(&self) -> Vec<(&'a str, Cursor<'a>)> {
        let entries = self.entries();
        for (key, cursor) in &entries {
            cursor.check_name(key);
        }
        entries
    }

    pub(super) fn is_text(&self, word: &str) -> bool {
        matches!(&self.node.tree, Tree::Scalar(Value::String(text)) if text == word)
    }

    pub(super) fn is_map(&self) -> bool {
        matches!(self.node.tree, Tree::Map(_))
    }

    /// Whether this mapping has `key`; works before its keys are checked.
    pub(super) fn has(&self, key: &str) -> bool {
        self.keys().contains(&key)
    }

    /// Whether this is an empty list or mapping. It requests nothing, so accepting it ignores
    /// nothing.
    pub(super) fn is_empty_collection(&self) -> bool {
        match &self.node.tree {
            Tree::List(items) => items.is_empty(),
            Tree::Map(entries) => entries.is_empty(),
            Tree::Scalar(_) => false,
        }
    }
}

/// `from 0 to 2`, or `from 1` without an upper bound.
fn bounds<T: Display + PartialEq>(range: &RangeInclusive<T>, unbounded: &T) -> String {
    if range.end() == unbounded {
        format!("from {}", range.start())
    } else {
        format!("from {} to {}", range.start(), range.end())
    }
}

/// Formats as `` `a`, `b` ``.
pub(super) fn quoted<'a>(words: impl IntoIterator<Item = &'a str>) -> String {
    let words: Vec<_> = words.into_iter().map(|word| format!("`{word}`")).collect();
    words.join(", ")
}

/// The first 40 characters of a text, for messages.
pub(super) fn shortened(text: &str) -> String {
    match text.char_indices().nth(40) {
        Some((end, _)) => format!("{}…", &text[..end]),
        None => text.to_owned(),
    }
}
