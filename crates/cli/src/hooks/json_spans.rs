//! A JSON parser that keeps the byte range of every value, so that one value can be changed and no
//! other byte.

use std::ops::Range;

/// A value and its byte range.
#[derive(Debug, Clone, PartialEq)]
pub(super) struct Item {
    pub(super) at: Range<usize>,
    pub(super) value: Value,
}

#[derive(Debug, Clone, PartialEq)]
pub(super) enum Value {
    Object(Vec<Member>),
    Array(Vec<Item>),
    Text(String),
    /// A number, `true`, `false` or `null`.
    Other,
}

#[derive(Debug, Clone, PartialEq)]
pub(super) struct Member {
    pub(super) name: String,
    /// From the start of its name to the end of its value.
    pub(super) at: Range<usize>,
    pub(super) item: Item,
}

/// Parses strict JSON.
pub(super) fn parse(text: &str) -> Result<Item, String> {
    // serde_json refuses invalid and too deeply nested input here, so the parser below can rely on
    // valid JSON.
    serde_json::from_str::<serde_json::Value>(text)
        .map_err(|error| format!("it is not valid JSON: {error}"))?;
    let mut parser = Parser { text, at: 0 };
    Ok(parser.item())
}

impl Item {
    pub(super) fn members(&self) -> Option<&[Member]> {
        match &self.value {
            Value::Object(members) => Some(members),
            _ => None,
        }
    }

    pub(super) fn items(&self) -> Option<&[Item]> {
        match &self.value {
            Value::Array(items) => Some(items),
            _ => None,
        }
    }

    /// Finds a member by name. If there are several, the last one counts, as in most parsers.
    pub(super) fn member(&self, name: &str) -> Option<&Member> {
        self.members()?
            .iter()
            .rev()
            .find(|member| member.name == name)
    }

    /// Finds a member by name and returns its value, if it is a string.
    pub(super) fn text(&self, name: &str) -> Option<&str> {
        match &self.member(name)?.item.value {
            Value::Text(text) => Some(text),
            _ => None,
        }
    }
}

struct Parser<'a> {
    text: &'a str,
    at: usize,
}

impl Parser<'_> {
    fn item(&mut self) -> Item {
        self.space();
        let start = self.at;
        let value = match self.byte() {
            b'{' => Value::Object(self.list(b'}', Self::member)),
            b'[' => Value::Array(self.list(b']', Self::item)),
            b'"' => Value::Text(self.string()),
            _ => {
                while !b",]} \t\r\n".contains(&self.byte()) {
                    self.at += 1;
                }
                Value::Other
            }
        };
        Item {
            at: start..self.at,
            value,
        }
    }

    fn list<T>(&mut self, end: u8, mut part: impl FnMut(&mut Self) -> T) -> Vec<T> {
        let mut parts = Vec::new();
        self.at += 1;
        self.space();
        while self.byte() != end {
            parts.push(part(self));
            self.space();
            self.at += usize::from(self.byte() == b',');
            self.space();
        }
        self.at += 1;
        parts
    }

    fn member(&mut self) -> Member {
        self.space();
        let start = self.at;
        let name = self.string();
        self.space();
        self.at += 1;
        let item = self.item();
        Member {
            name,
            at: start..self.at,
            item,
        }
    }

    fn string(&mut self) -> String {
        let start = self.at;
        self.at += 1;
        while self.byte() != b'"' {
            self.at += 1 + usize::from(self.byte() == b'\\');
        }
        self.at += 1;
        serde_json::from_str(&self.text[start..self.at]).expect("the whole was read before")
    }

    fn space(&mut self) {
        while self.at < self.text.len() && b" \t\r\n".contains(&self.byte()) {
            self.at += 1;
        }
    }

    /// The current byte. At the end of the text `}`, which ends every loop.
    fn byte(&self) -> u8 {
        *self.text.as_bytes().get(self.at).unwrap_or(&b'}')
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_value_has_its_byte_range() {
        let text =
            " {\"a\" : [1, \"x,]}\\\"\", {}],\r\n\"h\\u006foks\":{\"b\":null , \"c\":-1.5e3}}\n";
        let root = parse(text).unwrap();
        assert_eq!(&text[root.at.clone()], text.trim());
        let list = &root.member("a").unwrap().item;
        let shown: Vec<&str> = list
            .items()
            .unwrap()
            .iter()
            .map(|item| &text[item.at.clone()])
            .collect();
        assert_eq!(shown, ["1", "\"x,]}\\\"\"", "{}"]);
        let inner = root.member("hooks").unwrap();
        assert!(text[inner.at.clone()].starts_with("\"h\\u006f"));
        assert_eq!(
            &text[inner.item.member("c").unwrap().item.at.clone()],
            "-1.5e3"
        );
        assert_eq!(
            &text[inner.item.member("b").unwrap().at.clone()],
            "\"b\":null"
        );
    }

    #[test]
    fn invalid_json_is_refused() {
        for text in [
            "",
            "{",
            "{\"a\":1,}",
            "// c\n{}",
            "{} x",
            "\u{feff}{}",
            "{'a':1}",
        ] {
            assert!(parse(text).is_err(), "{text:?}");
        }
        assert!(parse(&"[".repeat(100_000)).is_err());
        assert_eq!(parse("7").unwrap().at, 0..1);
    }
}
