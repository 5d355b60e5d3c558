//! The conditions of a graph's edges: expressions that are true or false. An undefined name is
//! false, not an error.

use minijinja::value::{Kwargs, Rest};
use minijinja::{Environment, Error, ErrorKind, State, UndefinedBehavior, Value};

use super::{FUEL, budget, filters};

/// The expression of a condition, without braces; `None` for `else`, which is always true.
pub fn condition(text: &str) -> Option<&str> {
    let text = text.trim();
    if text.eq_ignore_ascii_case("else") {
        return None;
    }
    let inside = text
        .strip_prefix("{{")
        .and_then(|text| text.strip_suffix("}}"));
    let inside = inside.map_or(text, str::trim);
    if inside.eq_ignore_ascii_case("else") {
        return None;
    }
    Some(inside)
}

pub(super) fn environment() -> Environment<'static> {
    let mut environment = Environment::new();
    environment.set_undefined_behavior(UndefinedBehavior::Lenient);
    environment.set_fuel(Some(FUEL));
    environment.set_debug(true);
    environment.set_unknown_method_callback(filters::method);
    filters::add_to(&mut environment);
    budget::add_to(&mut environment);
    environment.add_filter("search", search);
    environment.add_test("search", search);
    environment.add_filter("default", default);
    environment.add_function("len", len);
    environment.add_function("int", int);
    environment.add_function("float", float);
    environment.add_function("str", |value: &Value| value.to_string());
    environment.add_function("bool", |value: &Value| value.is_true());
    environment.add_function("list", |value: &Value| {
        budget::check_call("list", std::slice::from_ref(value))?;
        Ok::<_, Error>(value.try_iter()?.collect::<Vec<_>>())
    });
    environment
}

/// Whether the pattern matches; unlike `regex_search`, it is case-sensitive.
fn search(state: &mut State<'_, '_>, value: &Value, pattern: &str) -> Result<bool, Error> {
    budget::read(state, value)?;
    let regex = regex::RegexBuilder::new(pattern)
        .size_limit(filters::MOST_REGEX_BYTES)
        .build()
        .map_err(|error| Error::new(ErrorKind::InvalidOperation, error.to_string()))?;
    Ok(regex.is_match(&value.to_string()))
}

/// The value, or `other` if it is undefined or none.
#[expect(
    clippy::needless_pass_by_value,
    reason = "the signature that a filter must have"
)]
fn default(
    value: &Value,
    other: Option<Value>,
    rest: Rest<Value>,
    named: Kwargs,
) -> Result<Value, Error> {
    let also = named.get::<Option<bool>>("boolean")?.unwrap_or_default()
        || rest.first().is_some_and(Value::is_true);
    named.assert_all_used()?;
    let missing = value.is_undefined() || value.is_none() || also && !value.is_true();
    Ok(if missing {
        other.unwrap_or_else(|| Value::from(""))
    } else {
        value.clone()
    })
}

fn len(value: &Value) -> Result<usize, Error> {
    value.len().ok_or_else(|| {
        let message = format!("a {} has no length", value.kind());
        Error::new(ErrorKind::InvalidOperation, message)
    })
}

fn int(value: &Value) -> Result<i64, Error> {
    let text = value.to_string();
    let number = text.trim().parse::<i64>().ok();
    #[expect(
        clippy::cast_possible_truncation,
        reason = "truncates as Python's int() does"
    )]
    let cut = || {
        f64::try_from(value.clone())
            .ok()
            .map(|number| number as i64)
    };
    number.or_else(cut).ok_or_else(|| {
        Error::new(
            ErrorKind::InvalidOperation,
            format!("`{text}` is not a number"),
        )
    })
}

fn float(value: &Value) -> Result<f64, Error> {
    let text = value.to_string();
    text.trim().parse().map_err(|_| {
        Error::new(
            ErrorKind::InvalidOperation,
            format!("`{text}` is not a number"),
        )
    })
}

#[cfg(test)]
mod tests {
    use super::condition;

    #[test]
    fn braces_are_optional_and_else_is_always_true() {
        assert_eq!(condition("{{ a == 1 }}"), Some("a == 1"));
        assert_eq!(condition(" a "), Some("a"));
        assert_eq!(condition("ELSE"), None);
        assert_eq!(condition("{{ else }}"), None);
    }
}
