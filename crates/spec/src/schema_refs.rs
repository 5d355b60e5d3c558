//! Refuses JSON schemas whose references a validator cannot follow within bounds.
//!
//! A validator that applies a schema to a value also applies what the schema refers to to the same
//! value. A cycle of such applications never ends, and a long chain of them overflows the stack. So
//! both are looked for before a validator is built. References to other documents are refused:
//! nothing is fetched.

use std::collections::HashMap;

use serde_json::Value;

/// The longest chain of schemas that apply to the same value.
const LONGEST_CHAIN: usize = 64;

/// What is known about a schema during the search.
#[derive(Clone, Copy)]
enum Visit {
    /// It is being visited: reaching it again closes a cycle.
    Open,
    /// How many schemas the longest chain from it has.
    Done(usize),
}

/// Whether the schema has references. One without them is as deep as its text.
pub(super) fn has_references(schema: &Value) -> bool {
    match schema {
        Value::Object(fields) => {
            let is_reference = |key: &String| key.starts_with('$') && key.ends_with("ef");
            fields.keys().any(is_reference) || fields.values().any(has_references)
        }
        Value::Array(items) => items.iter().any(has_references),
        _ => false,
    }
}

/// Checks all references of a schema.
pub(super) fn check(root: &Value) -> Result<(), String> {
    let mut visits = HashMap::new();
    for schema in subschemas(root) {
        let has_own_base = schema.get("$id").is_some_and(Value::is_string);
        if has_own_base && !std::ptr::eq(schema, root) {
            return Err("has an `$id` inside, where references would be relative to it".to_owned());
        }
        chain(root, schema, 0, &mut visits)?;
    }
    Ok(())
}

/// The schema and everything in it that may be a schema.
fn subschemas(root: &Value) -> Vec<&Value> {
    let (mut found, mut ahead) = (Vec::new(), vec![root]);
    while let Some(value) = ahead.pop() {
        match value {
            Value::Object(fields) => {
                found.push(value);
                ahead.extend(fields.values());
            }
            Value::Array(items) => ahead.extend(items),
            _ => {}
        }
    }
    found
}

/// The length of the longest chain of schemas that apply to the same value as `schema`.
fn chain<'a>(
    root: &'a Value,
    schema: &'a Value,
    depth: usize,
    visits: &mut HashMap<*const Value, Visit>,
) -> Result<usize, String> {
    let too_long = || format!("has a chain of more than {LONGEST_CHAIN} references");
    match visits.get(&std::ptr::from_ref(schema)) {
        Some(Visit::Done(length)) if depth + length > LONGEST_CHAIN => return Err(too_long()),
        Some(Visit::Done(length)) => return Ok(*length),
        Some(Visit::Open) => {
            return Err("refers to itself without going into the value: it never ends".to_owned());
        }
        None => {}
    }
    if depth >= LONGEST_CHAIN {
        return Err(too_long());
    }
    visits.insert(std::ptr::from_ref(schema), Visit::Open);
    let mut longest = 0;
    for next in applied_to_same(root, schema)? {
        longest = longest.max(chain(root, next, depth + 1, visits)?);
    }
    visits.insert(std::ptr::from_ref(schema), Visit::Done(longest + 1));
    Ok(longest + 1)
}

/// The schemas that a schema applies to the value that it is applied to itself.
fn applied_to_same<'a>(root: &'a Value, schema: &'a Value) -> Result<Vec<&'a Value>, String> {
    let Value::Object(fields) = schema else {
        return Ok(Vec::new());
    };
    let mut found = Vec::new();
    for (key, value) in fields {
        match (key.as_str(), value) {
            ("$ref" | "$dynamicRef" | "$recursiveRef", Value::String(reference)) => {
                found.extend(target(root, reference)?);
            }
            ("allOf" | "anyOf" | "oneOf", Value::Array(schemas)) => found.extend(schemas),
            ("not" | "if" | "then" | "else", schema) => found.push(schema),
            ("dependentSchemas" | "dependencies", Value::Object(schemas)) => {
                found.extend(schemas.values());
            }
            _ => {}
        }
    }
    Ok(found)
}

/// The schema that a reference names; `None` if it is the schema of schemas, or does not exist,
/// which the validator reports.
fn target<'a>(root: &'a Value, reference: &str) -> Result<Option<&'a Value>, String> {
    let known = "://json-schema.org/";
    if reference.contains(known) {
        return Ok(None);
    }
    let Some(place) = reference.strip_prefix('#') else {
        return Err(format!(
            "refers to another document, `{reference}`, which Segno does not fetch"
        ));
    };
    if place.contains('%') {
        return Err(format!(
            "has an encoded reference, `{reference}`; write it without `%`"
        ));
    }
    if place.is_empty() || place.starts_with('/') {
        return Ok(root.pointer(place));
    }
    let is_named = |schema: &&Value| {
        ["$anchor", "$dynamicAnchor"]
            .iter()
            .any(|key| schema.get(key).and_then(Value::as_str) == Some(place))
    };
    Ok(subschemas(root).into_iter().find(is_named))
}
