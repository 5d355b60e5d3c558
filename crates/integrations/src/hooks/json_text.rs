//! JSON as people write it in settings files, with comments and trailing commas. Every value has
//! its byte range, so that one value can be changed and no other byte.

use std::ops::Range;

use jsonc_parser::ast;
use jsonc_parser::common::Ranged;
use jsonc_parser::tokens::{Token, TokenAndRange};
use jsonc_parser::{CollectOptions, CommentCollectionStrategy, ParseOptions, parse_to_ast};
use serde::de::IgnoredAny;

/// A parsed file.
#[derive(Debug)]
pub(super) struct Document {
    pub(super) root: Item,
    /// The ranges of all comments, in order.
    comments: Vec<Range<usize>>,
    /// The first comment or trailing comma.
    deviation: Option<(usize, &'static str)>,
}

/// A value and its byte range.
#[derive(Debug, Clone, PartialEq)]
pub(super) struct Item {
    pub(super) place: Place,
    pub(super) value: Value,
}

/// The byte range of an item or a member.
#[derive(Debug, Clone, PartialEq)]
pub(super) struct Place {
    pub(super) at: Range<usize>,
    /// The position of the comma after it, if there is one.
    pub(super) comma: Option<usize>,
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
    pub(super) place: Place,
    pub(super) item: Item,
}

/// Parses JSON. Only comments and trailing commas are allowed beyond the standard.
pub(super) fn parse(text: &str) -> Result<Document, String> {
    if text.starts_with('\u{feff}') {
        return Err("it starts with a byte order mark".into());
    }
    let collect = CollectOptions {
        comments: CommentCollectionStrategy::AsTokens,
        tokens: true,
    };
    let options = ParseOptions {
        allow_comments: true,
        allow_trailing_commas: true,
        allow_loose_object_property_names: false,
        allow_missing_commas: false,
        allow_single_quoted_strings: false,
        allow_hexadecimal_numbers: false,
        allow_unary_plus_numbers: false,
        allow_bare_decimal_point_numbers: false,
        allow_non_finite_numbers: false,
        allow_extended_string_escapes: false,
    };
    let invalid = |error: &dyn std::fmt::Display| format!("it is not valid JSON: {error}");
    let parsed = parse_to_ast(text, &collect, &options).map_err(|error| invalid(&error))?;
    let (Some(root), Some(tokens)) = (parsed.value, parsed.tokens) else {
        return Err("it is empty".into());
    };
    let is_comment = |token: &TokenAndRange| {
        matches!(token.token, Token::CommentLine(_) | Token::CommentBlock(_))
    };
    let (comments, tokens): (Vec<_>, Vec<_>) = tokens.into_iter().partition(is_comment);
    let comments: Vec<Range<usize>> = comments.iter().map(range).collect();
    let tokens = Tokens(tokens);
    // The library accepts more than the standard in some places; serde_json decides.
    let trailing = tokens.trailing_commas();
    let strict = blank(text, comments.iter().chain(&trailing));
    serde_json::from_str::<IgnoredAny>(&strict).map_err(|error| invalid(&error))?;
    let first = |ranges: &[Range<usize>], what| ranges.first().map(|one| (one.start, what));
    let deviation = first(&comments, "comment")
        .into_iter()
        .chain(first(&trailing, "trailing comma"))
        .min();
    Ok(Document {
        root: tokens.item(root),
        comments,
        deviation,
    })
}

/// Replaces ranges by spaces, so that positions stay the same.
fn blank<'a>(text: &str, ranges: impl Iterator<Item = &'a Range<usize>>) -> String {
    let mut bytes = text.as_bytes().to_vec();
    for at in ranges {
        for byte in &mut bytes[at.clone()] {
            if *byte != b'\n' {
                *byte = b' ';
            }
        }
    }
    String::from_utf8(bytes).expect("whole characters were replaced")
}

fn range(of: &impl Ranged) -> Range<usize> {
    of.start()..of.end()
}

/// The tokens of a file without comments, in order.
struct Tokens<'a>(Vec<TokenAndRange<'a>>);

impl Tokens<'_> {
    fn trailing_commas(&self) -> Vec<Range<usize>> {
        let trailing = self.0.windows(2).filter(|pair| {
            let ends = matches!(pair[1].token, Token::CloseBrace | Token::CloseBracket);
            ends && matches!(pair[0].token, Token::Comma)
        });
        trailing.map(|pair| range(&pair[0])).collect()
    }

    fn item(&self, value: ast::Value) -> Item {
        let place = self.place(range(&value));
        let value = match value {
            ast::Value::Object(object) => {
                let members = object.properties.into_iter().map(|property| Member {
                    place: self.place(range(&property)),
                    name: property.name.into_string(),
                    item: self.item(property.value),
                });
                Value::Object(members.collect())
            }
            ast::Value::Array(array) => {
                let items = array.elements.into_iter().map(|item| self.item(item));
                Value::Array(items.collect())
            }
            ast::Value::StringLit(text) => Value::Text(text.value.into_owned()),
            _ => Value::Other,
        };
        Item { place, value }
    }

    fn place(&self, at: Range<usize>) -> Place {
        let next = self.0.partition_point(|token| token.start() < at.end);
        let comma = self.0.get(next).and_then(|token| {
            let is_comma = matches!(token.token, Token::Comma);
            is_comma.then(|| token.start())
        });
        Place { at, comma }
    }
}

impl Document {
    /// The comments inside a range.
    pub(super) fn comments(&self, at: &Range<usize>) -> impl Iterator<Item = &Range<usize>> {
        let inside = |comment: &&Range<usize>| at.start <= comment.start && comment.end <= at.end;
        self.comments.iter().filter(inside)
    }

    /// Describes the first thing that is not standard JSON, if there is one.
    pub(super) fn deviation(&self, text: &str) -> Option<String> {
        let (at, what) = self.deviation.as_ref()?;
        let line = text[..*at].matches('\n').count() + 1;
        Some(format!("line {line} has a {what}"))
    }
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

    /// The places of the members or items.
    pub(super) fn places(&self) -> Vec<Place> {
        match &self.value {
            Value::Object(members) => members.iter().map(|one| one.place.clone()).collect(),
            Value::Array(items) => items.iter().map(|one| one.place.clone()).collect(),
            _ => Vec::new(),
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

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_value_has_its_byte_range() {
        let text = " {\"a\" : [1, \"x,]}\\\"\", {},],\r\n// \"no\": {\n\"h\\u006foks\":{\"b\":null /* , */ , \"c\":-1.5e3}}\n";
        let document = parse(text).unwrap();
        let root = &document.root;
        let list = root.member("a").unwrap();
        let shown: Vec<&str> = list
            .item
            .places()
            .into_iter()
            .map(|place| &text[place.at])
            .collect();
        assert_eq!(shown, ["1", "\"x,]}\\\"\"", "{}"]);
        assert!(list.item.places().iter().all(|place| place.comma.is_some()));
        let inner = root.member("hooks").unwrap();
        assert_eq!(inner.place.comma, None);
        assert!(text[inner.place.at.clone()].starts_with("\"h\\u006f"));
        let b = inner.item.member("b").unwrap();
        assert_eq!(&text[b.place.at.clone()], "\"b\":null");
        assert!(text[b.place.comma.unwrap()..].starts_with(", \"c\""));
        assert_eq!(
            document.deviation(text).unwrap(),
            "line 1 has a trailing comma"
        );
    }

    #[test]
    fn invalid_json_is_refused() {
        for text in [
            "",
            "// only a comment",
            "{",
            "{} x",
            "\u{feff}{}",
            "{'a':1}",
            "{a:1}",
            "{\"a\":1,,}",
            "{,}",
            "[,]",
            "{\"a\" 1}",
            "{\"a\":1 \"b\":2}",
            "{\"a\":0x1}",
            "{\"a\":01}",
            "{\"a\":+1}",
            "{\"a\":.5}",
            "{\"a\":NaN}",
            "{\"a\":\"\t\"}",
            "{\"a\":\"\\x41\"}",
            "/* open {}",
            "\u{a0}{}",
        ] {
            assert!(parse(text).is_err(), "{text:?}");
        }
        for open in ["[", "{\"a\":", "[//\n", "{\"a\":[/**/"] {
            assert!(parse(&open.repeat(100_000)).is_err());
        }
        let deep = |depth: usize| "[".repeat(depth) + &"]".repeat(depth);
        assert!(parse(&deep(100)).is_ok());
        assert!(parse(&deep(100_000)).is_err());
    }
}
