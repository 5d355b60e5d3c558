//! JSON with the places of its parts, so that one can be changed and no other byte.

use std::ops::Range;

/// A value and where it stands.
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
    /// A number, or one of the three words.
    Other,
}

/// A member of an object.
#[derive(Debug, Clone, PartialEq)]
pub(super) struct Member {
    pub(super) name: String,
    /// From its name to the end of its value.
    pub(super) at: Range<usize>,
    pub(super) item: Item,
}

/// Reads JSON, as strictly as the standard has it.
pub(super) fn read(text: &str) -> Result<Item, String> {
    // Whatever is no JSON, or nested too deeply, is refused here; below it can be relied upon.
    serde_json::from_str::<serde_json::Value>(text)
        .map_err(|error| format!("it is not valid JSON: {error}"))?;
    let mut reader = Reader { text, at: 0 };
    Ok(reader.item())
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

    /// The member of that name: the last, as programs read it, if there are several.
    pub(super) fn member(&self, name: &str) -> Option<&Member> {
        self.members()?
            .iter()
            .rev()
            .find(|member| member.name == name)
    }

    /// The text of the member of that name.
    pub(super) fn text(&self, name: &str) -> Option<&str> {
        match &self.member(name)?.item.value {
            Value::Text(text) => Some(text),
            _ => None,
        }
    }
}

struct Reader<'a> {
    text: &'a str,
    at: usize,
}

impl Reader<'_> {
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

    /// The byte here; at the very end one that ends everything.
    fn byte(&self) -> u8 {
        *self.text.as_bytes().get(self.at).unwrap_or(&b'}')
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_part_is_found_where_it_stands() {
        let text =
            " {\"a\" : [1, \"x,]}\\\"\", {}],\r\n\"h\\u006foks\":{\"b\":null , \"c\":-1.5e3}}\n";
        let root = read(text).unwrap();
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
    fn what_is_no_json_is_refused_however_it_is_broken() {
        for text in [
            "",
            "{",
            "{\"a\":1,}",
            "// c\n{}",
            "{} x",
            "\u{feff}{}",
            "{'a':1}",
        ] {
            assert!(read(text).is_err(), "{text:?}");
        }
        assert!(read(&"[".repeat(100_000)).is_err());
        assert_eq!(read("7").unwrap().at, 0..1);
    }
}
