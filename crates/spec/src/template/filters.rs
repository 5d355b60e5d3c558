//! The filters of the format, where Jinja2's differ or are missing.

use std::io;
use std::sync::Mutex;

use minijinja::value::{ArgType, Kwargs, Rest};
use minijinja::{Environment, Error, ErrorKind, State, Value};
use regex::{Regex, RegexBuilder};
use serde::Serialize;
use serde_json::ser::{Formatter, PrettyFormatter, Serializer};

use super::budget;

/// A compiled regular expression.
pub(super) const MOST_REGEX_BYTES: usize = 1 << 20;

/// A JSON text that a template makes of a value.
const MOST_JSON_BYTES: usize = 64 * 1024 * 1024;

pub(super) fn add_to(environment: &mut Environment<'static>) {
    environment.add_filter("\0length", minijinja::filters::length);
    environment.add_filter("\0trim", minijinja::filters::trim);
    environment.add_filter("\0replace", minijinja::filters::replace);
    environment.add_filter("\0indent", minijinja::filters::indent);
    environment.add_filter("\0batch", minijinja::filters::batch);
    environment.add_filter("\0slice", minijinja::filters::slice);
    environment.add_filter("\0split", minijinja::filters::split);
    environment.add_filter("\0list", minijinja::filters::list);
    environment.add_filter("\0join", minijinja::filters::join);
    environment.add_filter("\0format", minijinja::filters::format);
    for (name, original) in budget::CHECKED_FILTERS {
        environment.add_filter(
            name,
            move |state: &mut State<'_, '_>, given: Rest<Argument>| {
                let arguments: Vec<Value> =
                    given.0.into_iter().map(|argument| argument.0).collect();
                if let Some(value) = arguments.first() {
                    budget::read(state, value)?;
                }
                budget::check_call(name, &arguments)?;
                state.apply_filter(original, &arguments)
            },
        );
    }
    environment.add_filter("truncate", truncate);
    environment.add_filter("tojson", tojson);
    environment.add_filter("title", |value: &Value| {
        Ok::<_, Error>(title(&text(value)?))
    });
    let last = Mutex::new(None);
    let search_text = move |state: &mut State<'_, '_>, value: &Value, pattern: &str| {
        let text = text(value)?;
        budget::read(state, value)?;
        let regex = compiled(&last, pattern)?;
        Ok::<_, Error>(search(&regex, &text))
    };
    environment.add_filter("regex_search", search_text);
}

fn text(value: &Value) -> Result<String, Error> {
    if value.is_undefined() {
        return Err(ErrorKind::UndefinedError.into());
    }
    Ok(value.to_string())
}

/// Shortens to `n` characters including a final `...`.
#[expect(
    clippy::needless_pass_by_value,
    reason = "the signature that a filter must have"
)]
fn truncate(value: &Value, n: Option<usize>, named: Kwargs) -> Result<String, Error> {
    let mut text = text(value)?;
    let n = match n {
        Some(n) => Some(n),
        None => match named.get("n")? {
            Some(n) => Some(n),
            None => named.get("length")?,
        },
    };
    named.assert_all_used()?;
    let n = n.unwrap_or(100);
    if text.char_indices().nth(n).is_some() {
        let kept = text.char_indices().nth(n.saturating_sub(3));
        text.truncate(kept.map_or(0, |(end, _)| end));
        text.push_str("...");
    }
    Ok(text)
}

/// Handles methods that minijinja does not know: those of Python.
pub(super) fn method(
    state: &mut State<'_, '_>,
    value: &Value,
    name: &str,
    arguments: &[Value],
) -> Result<Value, Error> {
    if let ("title", Some(text), []) = (name, value.as_str(), arguments) {
        return Ok(Value::from(title(text)));
    }
    let all: Vec<Value> = [value].into_iter().chain(arguments).cloned().collect();
    budget::read(state, value)?;
    budget::check_call(name, &all)?;
    minijinja_contrib::pycompat::unknown_method_callback(state, value, name, arguments)
}

/// Like Python's `str.title`: a letter is upper case unless it follows another letter.
fn title(text: &str) -> String {
    let mut out = String::with_capacity(text.len());
    let mut within = false;
    for c in text.chars() {
        let cased = c.is_uppercase() || c.is_lowercase();
        if cased && within {
            out.extend(c.to_lowercase());
        } else {
            out.extend(c.to_uppercase());
        }
        within = cased;
    }
    out
}

/// JSON for agents and files. Unlike Jinja2's filter, it does not escape HTML: a prompt should show
/// `<`, not `\u003c`.
#[expect(
    clippy::needless_pass_by_value,
    reason = "the signature that a filter must have"
)]
fn tojson(value: &Value, indent: Option<usize>, named: Kwargs) -> Result<String, Error> {
    if value.is_undefined() {
        return Err(ErrorKind::UndefinedError.into());
    }
    let indent = match indent {
        Some(indent) => Some(indent),
        None => named.get::<Option<usize>>("indent")?,
    };
    named.assert_all_used()?;
    let mut bytes = Bounded(Vec::new());
    let written = match indent {
        None => value.serialize(&mut Serializer::with_formatter(&mut bytes, Spaced)),
        Some(width) => {
            let spaces = b" ".repeat(width.min(16));
            let pretty = PrettyFormatter::with_indent(&spaces);
            value.serialize(&mut Serializer::with_formatter(&mut bytes, pretty))
        }
    };
    let failed = |message: String| Error::new(ErrorKind::BadSerialization, message);
    written.map_err(|error| failed(error.to_string()).with_source(error))?;
    String::from_utf8(bytes.0).map_err(|error| failed(error.to_string()))
}

/// A writer that fails when a text gets too long.
struct Bounded(Vec<u8>);

impl io::Write for Bounded {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        if self.0.len() + bytes.len() > MOST_JSON_BYTES {
            return Err(io::ErrorKind::FileTooLarge.into());
        }
        self.0.extend_from_slice(bytes);
        Ok(bytes.len())
    }

    fn flush(&mut self) -> io::Result<()> {
        Ok(())
    }
}

/// Any argument of a filter, also the named ones, which come last as one value.
struct Argument(Value);

impl<'a> ArgType<'a> for Argument {
    type Output = Self;

    fn from_value(value: Option<&'a Value>) -> Result<Self, Error> {
        let value = value.ok_or_else(|| Error::from(ErrorKind::MissingArgument))?;
        Ok(Self(value.clone()))
    }
}

/// `{"a": [1, 2]}`: a space after each comma and colon, as Python writes it.
struct Spaced;

impl Formatter for Spaced {
    fn begin_array_value<W: ?Sized + io::Write>(
        &mut self,
        out: &mut W,
        first: bool,
    ) -> io::Result<()> {
        out.write_all(if first { b"" } else { b", " })
    }

    fn begin_object_key<W: ?Sized + io::Write>(
        &mut self,
        out: &mut W,
        first: bool,
    ) -> io::Result<()> {
        out.write_all(if first { b"" } else { b", " })
    }

    fn begin_object_value<W: ?Sized + io::Write>(&mut self, out: &mut W) -> io::Result<()> {
        out.write_all(b": ")
    }
}

/// Caches the last pattern: a filter in a loop mostly has the same one each time.
fn compiled(last: &Mutex<Option<Regex>>, pattern: &str) -> Result<Regex, Error> {
    let mut last = last
        .lock()
        .unwrap_or_else(std::sync::PoisonError::into_inner);
    if let Some(regex) = last.as_ref()
        && regex.as_str() == pattern
    {
        return Ok(regex.clone());
    }
    let regex = RegexBuilder::new(pattern)
        .case_insensitive(true)
        .size_limit(MOST_REGEX_BYTES)
        .build()
        .map_err(|error| Error::new(ErrorKind::InvalidOperation, error.to_string()))?;
    *last = Some(regex.clone());
    Ok(regex)
}

/// The first group of the first match; empty if there is none.
fn search(regex: &Regex, text: &str) -> String {
    let found = regex.captures(text).and_then(|groups| groups.get(1));
    found.map_or_else(String::new, |found| found.as_str().to_owned())
}
