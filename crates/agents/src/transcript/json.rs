//! Strict parsing of JSON from outside.

use std::fmt;

use serde::de::{Deserialize, Deserializer, Error, MapAccess, SeqAccess, Visitor};
use serde_json::error::Category;
use serde_json::{Map, Number, Value};

use super::Reason;

pub(crate) type Object = Map<String, Value>;

/// The deepest nesting that is parsed.
const DEPTH: usize = 120;

pub(crate) fn parse(line: &[u8]) -> Result<Object, Reason> {
    if line.contains(&0) {
        return Err(Reason::Nul);
    }
    if std::str::from_utf8(line).is_err() {
        return Err(Reason::NotUtf8);
    }
    if depth(line) > DEPTH {
        return Err(Reason::TooDeep);
    }
    match read(line) {
        // JavaScript writes a lone surrogate if it cut a text within a character.
        Err(Reason::NotJson) => {
            replace_lone_surrogates(line).map_or(Err(Reason::NotJson), |replaced| read(&replaced))
        }
        other => other,
    }
}

fn read(line: &[u8]) -> Result<Object, Reason> {
    match serde_json::from_slice(line) {
        Ok(Strict(Value::Object(object))) => Ok(object),
        Ok(_) => Err(Reason::NotAnObject),
        Err(error) if error.classify() == Category::Data => Err(Reason::DuplicateKey),
        Err(_) => Err(Reason::NotJson),
    }
}

/// The deepest nesting, counting brackets outside of strings.
fn depth(line: &[u8]) -> usize {
    let (mut depth, mut deepest, mut at) = (0_usize, 0, 0);
    while at < line.len() {
        match line[at] {
            b'"' => at = text_end(line, at) - 1,
            b'{' | b'[' => {
                depth += 1;
                deepest = deepest.max(depth);
            }
            b'}' | b']' => depth = depth.saturating_sub(1),
            _ => {}
        }
        at += 1;
    }
    deepest
}

/// The end of the string that begins at `at`: after its closing quote, or at the end of the line.
pub(super) fn text_end(line: &[u8], at: usize) -> usize {
    let mut at = at + 1;
    while at < line.len() {
        match line[at] {
            b'\\' => at += 2,
            b'"' => return at + 1,
            _ => at += 1,
        }
    }
    line.len()
}

/// Replaces every lone surrogate (`\ud83d` alone) by U+FFFD; `None` if there is none.
fn replace_lone_surrogates(line: &[u8]) -> Option<Vec<u8>> {
    let mut replaced = line.to_vec();
    let (mut at, mut changed) = (0, false);
    while at < line.len() {
        if line[at] != b'\\' {
            at += 1;
            continue;
        }
        match (utf16_unit(line, at), utf16_unit(line, at + 6)) {
            (Some(0xD800..=0xDBFF), Some(0xDC00..=0xDFFF)) => at += 12,
            (Some(0xD800..=0xDFFF), _) => {
                replaced[at..at + 6].copy_from_slice(b"\\ufffd");
                changed = true;
                at += 6;
            }
            _ => at += 2,
        }
    }
    changed.then_some(replaced)
}

/// The code unit of a `\uXXXX` at this position.
fn utf16_unit(line: &[u8], at: usize) -> Option<u16> {
    let digits = line.get(at..at + 6)?.strip_prefix(b"\\u")?;
    let digits = std::str::from_utf8(digits).ok()?;
    let plain = digits.bytes().all(|digit| digit.is_ascii_hexdigit());
    plain.then(|| u16::from_str_radix(digits, 16).ok())?
}

/// A value in which no object has the same key twice.
struct Strict(Value);

impl<'de> Deserialize<'de> for Strict {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        deserializer.deserialize_any(Strictly).map(Self)
    }
}

struct Strictly;

impl<'de> Visitor<'de> for Strictly {
    type Value = Value;

    fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("JSON")
    }

    fn visit_unit<E>(self) -> Result<Value, E> {
        Ok(Value::Null)
    }

    fn visit_bool<E>(self, value: bool) -> Result<Value, E> {
        Ok(Value::Bool(value))
    }

    fn visit_u64<E>(self, value: u64) -> Result<Value, E> {
        Ok(Value::Number(value.into()))
    }

    fn visit_i64<E>(self, value: i64) -> Result<Value, E> {
        Ok(Value::Number(value.into()))
    }

    fn visit_f64<E>(self, value: f64) -> Result<Value, E> {
        Ok(Number::from_f64(value).map_or(Value::Null, Value::Number))
    }

    fn visit_str<E>(self, value: &str) -> Result<Value, E> {
        Ok(Value::String(value.to_owned()))
    }

    fn visit_seq<A: SeqAccess<'de>>(self, mut list: A) -> Result<Value, A::Error> {
        let mut values = Vec::new();
        while let Some(Strict(value)) = list.next_element()? {
            values.push(value);
        }
        Ok(Value::Array(values))
    }

    fn visit_map<A: MapAccess<'de>>(self, mut members: A) -> Result<Value, A::Error> {
        let mut object = Object::new();
        while let Some((key, Strict(value))) = members.next_entry::<String, _>()? {
            if object.insert(key, value).is_some() {
                return Err(A::Error::custom("duplicate key"));
            }
        }
        Ok(Value::Object(object))
    }
}

/// The member `key`, if it is a string.
pub(crate) fn text<'a>(object: &'a Object, key: &str) -> Option<&'a str> {
    object.get(key).and_then(Value::as_str)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn json_errors_are_distinguished() {
        let deep = format!("{}{}", "[".repeat(10_000), "]".repeat(10_000));
        for (line, reason) in [
            (&b"{\"a\":1"[..], Reason::NotJson),
            (b"\xEF\xBB\xBF{}", Reason::NotJson),
            (b"{\"a\":\"\xFF\"}", Reason::NotUtf8),
            (b"{\"a\":\0}", Reason::Nul),
            (b"[1]", Reason::NotAnObject),
            (b"{\"a\":{\"b\":1,\"b\":1}}", Reason::DuplicateKey),
            (b"{\"a\":1}{\"b\":2}", Reason::NotJson),
            (b"{\"a\":1e999}", Reason::NotJson),
            (deep.as_bytes(), Reason::TooDeep),
        ] {
            let shown = String::from_utf8_lossy(line);
            assert_eq!(parse(line), Err(reason), "{shown:.40}");
        }
    }

    #[test]
    fn lone_surrogate_becomes_a_replacement_character() {
        let line = br#"{"a":"\ud83d","b":"\\ud83d","c":"\ud83d\ude00","d":"\udc00x"}"#;
        let object = parse(line).unwrap();
        let read: Vec<_> = object.values().filter_map(Value::as_str).collect();
        assert_eq!(read, ["\u{fffd}", "\\ud83d", "\u{1f600}", "\u{fffd}x"]);
    }
}
