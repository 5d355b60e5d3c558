//! What a render may build: bytes of new values, and work on existing ones.
//!
//! The engine counts instructions, but one instruction can build a text of any length, and a value
//! can contain another one many times. So compiled code is [instrumented](super::instrument): it
//! calls the functions of this module where it builds or reads values. Each function returns its
//! argument, or an error if a limit is reached. A limit is checked before the engine allocates,
//! except where the engine's own limit on one operation (100 MB) comes first.

use std::collections::BTreeMap;
use std::fmt::{self, Write};

use minijinja::value::{Tuple, ValueKind};
use minijinja::{Environment, Error, ErrorKind, State, Value};

use super::MOST_BYTES;

/// All values that a render builds, also those that it drops.
pub(super) const MOST_BUILT: usize = 256 * 1024 * 1024;

/// One value, with everything in it written out as often as it occurs.
pub(super) const MOST_WEIGHT: usize = 32 * 1024 * 1024;

/// All texts that a render reads, in bytes; a few seconds.
const MOST_WORK: usize = 1024 * 1024 * 1024;

/// A text that is split into parts, each of which is a value.
const LONGEST_SPLIT: usize = 8 * 1024 * 1024;

/// A value without a text: a number, or the place in a list.
pub(super) const SMALL: usize = 16;

/// A value whose content is unknown, such as an earlier step.
const OPAQUE: usize = 4 * 1024;

pub(super) const BUILDS_TOO_MUCH: &str = "builds too much";
pub(super) const WORKS_TOO_MUCH: &str = "works too much";
pub(super) const WRITES_TOO_MUCH: &str = "writes too much";

/// The names of the functions. A template cannot name, and so not replace, them.
pub(super) const COMPARE: &str = "\0compare";
pub(super) const TEXT: &str = "\0text";
pub(super) const ADD: &str = "\0add";
pub(super) const BUILT: &str = "\0built";
pub(super) const EMIT: &str = "\0emit";
pub(super) const CAPTURE: &str = "\0capture";
pub(super) const RAW: &str = "\0raw";

/// What a render has used.
#[derive(Debug, Default)]
struct Used {
    built: usize,
    work: usize,
    emitted: usize,
}

pub(super) fn add_to(environment: &mut Environment<'static>) {
    environment.remove_global("debug");
    environment.add_function(COMPARE, |state: &mut State<'_, '_>, value: Value| {
        let weight = weigh(state, &value)?;
        work(state, weight)?;
        Ok::<_, Error>(value)
    });
    environment.add_function(TEXT, |state: &mut State<'_, '_>, value: Value| {
        let size = text_len(&value)?;
        build(state, size)?;
        Ok::<_, Error>(value)
    });
    environment.add_function(ADD, |state: &mut State<'_, '_>, value: Value| {
        if let Some(text) = value.as_str() {
            build(state, text.len())?;
        }
        Ok::<_, Error>(value)
    });
    environment.add_function(BUILT, built);
    environment.add_function(EMIT, |state: &mut State<'_, '_>, value: Value| {
        let size = text_len(&value)?;
        emit(state, size)?;
        Ok::<_, Error>(value)
    });
    environment.add_function(CAPTURE, |state: &mut State<'_, '_>, value: Value| {
        let size = text_len(&value)?;
        build(state, size)?;
        Ok::<_, Error>(value)
    });
    environment.add_function(RAW, |state: &mut State<'_, '_>, size: usize| {
        build(state, size)
    });
}

/// Checks a value that an operation has built. A lazy sequence becomes a list, so that its weight is
/// known wherever it is used.
fn built(state: &mut State<'_, '_>, value: Value) -> Result<Value, Error> {
    match value.kind() {
        ValueKind::String => {
            build(state, value.as_str().map_or(SMALL, str::len))?;
            Ok(value)
        }
        ValueKind::Iterable => {
            let Some(length) = value.len() else {
                return Ok(value);
            };
            build(state, length.saturating_mul(SMALL))?;
            let list = Value::from(value.try_iter()?.collect::<Vec<_>>());
            weigh(state, &list)?;
            Ok(list)
        }
        ValueKind::Seq | ValueKind::Map => {
            let length = value.len().unwrap_or_default();
            build(state, length.saturating_mul(SMALL))?;
            weigh(state, &value)?;
            Ok(value)
        }
        _ => Ok(value),
    }
}

fn used<'a>(state: &'a mut State<'_, '_>) -> &'a mut Used {
    state.get_or_insert_extension_with(Used::default)
}

fn exceeded(what: &'static str) -> Error {
    Error::new(ErrorKind::InvalidOperation, what)
}

fn work(state: &mut State<'_, '_>, size: usize) -> Result<(), Error> {
    let used = used(state);
    used.work = used.work.saturating_add(size);
    if used.work > MOST_WORK {
        return Err(exceeded(WORKS_TOO_MUCH));
    }
    Ok(())
}

fn build(state: &mut State<'_, '_>, size: usize) -> Result<(), Error> {
    let used = used(state);
    used.built = used.built.saturating_add(size);
    if used.built > MOST_BUILT {
        return Err(exceeded(BUILDS_TOO_MUCH));
    }
    Ok(())
}

fn emit(state: &mut State<'_, '_>, size: usize) -> Result<(), Error> {
    let used = used(state);
    used.emitted = used.emitted.saturating_add(size);
    if used.emitted > MOST_BYTES {
        return Err(exceeded(WRITES_TOO_MUCH));
    }
    Ok(())
}

/// Adds up what is in a value, as often as it occurs in it.
fn weigh(state: &mut State<'_, '_>, value: &Value) -> Result<usize, Error> {
    let (mut weight, mut nodes) = (0_usize, 0_usize);
    // Not recursive: a list in a list in a list would overflow the stack.
    let mut ahead = vec![value.clone()];
    while let Some(value) = ahead.pop() {
        nodes += 1;
        weight = weight.saturating_add(SMALL);
        if let Some(text) = value.as_str() {
            weight = weight.saturating_add(text.len());
        } else if let Some(list) = value.downcast_object_ref::<Vec<Value>>() {
            ahead.extend(list.iter().cloned());
        } else if let Some(tuple) = value.downcast_object_ref::<Tuple>() {
            ahead.extend(tuple.iter().cloned());
        } else if let Some(map) = value.downcast_object_ref::<BTreeMap<Value, Value>>() {
            for (key, value) in map {
                ahead.extend([key.clone(), value.clone()]);
            }
        } else if value.as_object().is_some() {
            weight = weight.saturating_add(OPAQUE);
        }
        if weight.saturating_add(ahead.len() * SMALL) > MOST_WEIGHT {
            return Err(exceeded(BUILDS_TOO_MUCH));
        }
    }
    work(state, nodes * SMALL)?;
    Ok(weight)
}

/// Counts a text that a filter or method reads.
pub(super) fn read(state: &mut State<'_, '_>, value: &Value) -> Result<(), Error> {
    work(state, value.as_str().map_or(SMALL, str::len))
}

/// How long the text of a value is; an error if it is longer than any value may be.
fn text_len(value: &Value) -> Result<usize, Error> {
    if let Some(text) = value.as_str() {
        return Ok(text.len());
    }
    if matches!(value.kind(), ValueKind::Undefined | ValueKind::Invalid) {
        // The operation that follows reports it.
        return Ok(0);
    }
    let mut counter = Counter(0);
    match write!(counter, "{value}") {
        Ok(()) => Ok(counter.0),
        Err(_) => Err(exceeded(BUILDS_TOO_MUCH)),
    }
}

/// Counts bytes, up to the weight that a value may have.
struct Counter(usize);

impl Write for Counter {
    fn write_str(&mut self, text: &str) -> fmt::Result {
        self.0 += text.len();
        if self.0 > MOST_WEIGHT {
            return Err(fmt::Error);
        }
        Ok(())
    }
}

/// Refuses a result of this length before it is built.
fn fits(size: Option<usize>) -> Result<(), Error> {
    match size {
        Some(size) if size <= MOST_WEIGHT => Ok(()),
        _ => Err(exceeded(BUILDS_TOO_MUCH)),
    }
}

/// Checks the arguments of a filter or method whose result can be much larger than they are. The
/// first argument is the value that it is applied to.
pub(super) fn check_call(name: &str, arguments: &[Value]) -> Result<(), Error> {
    let text = |at: usize| arguments.get(at).and_then(Value::as_str);
    let number = |value: &Value| usize::try_from(value.clone()).ok();
    match name {
        "replace" => {
            if let (Some(text), Some(from), Some(to)) = (text(0), text(1), text(2)) {
                let matches = match from {
                    "" => text.len() + 1,
                    from => text.matches(from).count(),
                };
                fits(
                    matches
                        .checked_mul(to.len())
                        .and_then(|more| more.checked_add(text.len())),
                )?;
            }
        }
        "indent" => {
            let lines = text(0).map_or(1, |text| text.matches('\n').count() + 1);
            let widths = arguments.iter().skip(1).filter_map(number);
            fits(lines.checked_mul(widths.max().unwrap_or(4)))?;
        }
        "batch" | "slice" => {
            let counts = arguments.iter().skip(1).filter_map(number);
            fits(counts.max().unwrap_or(0).checked_mul(SMALL * 4))?;
        }
        "split" | "list" | "lines" | "splitlines" => {
            fits(text(0).map_or(Some(0), |text| {
                (text.len() <= LONGEST_SPLIT).then_some(text.len())
            }))?;
        }
        "join" => {
            // As a method, the separator comes first.
            let list = arguments.iter().position(|value| value.as_str().is_none());
            let Some(list) = list.map(|at| &arguments[at]) else {
                return Ok(());
            };
            let longest = arguments
                .iter()
                .filter_map(Value::as_str)
                .map(str::len)
                .max();
            let Ok(items) = list.try_iter() else {
                return Ok(());
            };
            let mut total = 0_usize;
            for item in items {
                total = total
                    .saturating_add(text_len(&item)?)
                    .saturating_add(longest.unwrap_or(0));
                fits(Some(total))?;
            }
        }
        "format" => {
            let Some(format) = text(0) else {
                return Ok(());
            };
            let mut longest = widest(format);
            for value in &arguments[1..] {
                // A width may be an argument, too.
                let width = number(value).unwrap_or(0);
                longest = longest.max(text_len(value)?).max(width);
            }
            let fields = format.matches(['%', '{']).count();
            fits(
                fields
                    .checked_mul(longest)
                    .and_then(|more| more.checked_add(format.len())),
            )?;
        }
        _ => {}
    }
    Ok(())
}

/// The largest number in a text.
fn widest(text: &str) -> usize {
    let runs = text.split(|c: char| !c.is_ascii_digit());
    let runs = runs.filter(|run| !run.is_empty());
    runs.map(|run| run.parse().unwrap_or(usize::MAX))
        .max()
        .unwrap_or(0)
}

/// The filters that [`check_call`] checks, under the names that templates do not use.
pub(super) const CHECKED_FILTERS: [(&str, &str); 11] = [
    ("length", "\0length"),
    ("count", "\0length"),
    ("trim", "\0trim"),
    ("replace", "\0replace"),
    ("indent", "\0indent"),
    ("batch", "\0batch"),
    ("slice", "\0slice"),
    ("split", "\0split"),
    ("list", "\0list"),
    ("join", "\0join"),
    ("format", "\0format"),
];
