//! Tokenizes HTML in one pass, as tolerantly as browsers do.

/// A token of a page.
#[derive(Debug, PartialEq, Eq)]
pub(super) enum Token<'a> {
    /// A start tag.
    Open(Tag<'a>),
    /// An end tag, by its name.
    Close(String),
    /// Text, with entities not yet decoded.
    Text(&'a str),
}

/// A start tag.
#[derive(Debug, PartialEq, Eq)]
pub(super) struct Tag<'a> {
    /// In lower case.
    pub(super) name: String,
    attributes: &'a str,
}

/// The tokens of a page. The content of scripts and styles is skipped.
pub(super) struct Tokens<'a> {
    rest: &'a str,
}

impl<'a> Tokens<'a> {
    pub(super) fn of(page: &'a str) -> Self {
        Self { rest: page }
    }

    /// Skips everything up to and including `end`, or all that is left.
    fn skip_past(&mut self, end: &str) {
        self.rest = match self.rest.find(end) {
            Some(at) => &self.rest[at + end.len()..],
            None => "",
        };
    }

    /// Skips everything up to the end tag of `name`.
    fn skip_to_close(&mut self, name: &str) {
        let mut from = 0;
        while let Some(at) = self.rest[from..].find("</") {
            let start = from + at + 2;
            let found = self.rest.as_bytes().get(start..start + name.len());
            if found.is_some_and(|found| found.eq_ignore_ascii_case(name.as_bytes())) {
                self.rest = &self.rest[start - 2..];
                return;
            }
            from = start;
        }
        self.rest = "";
    }

    /// The tag at the front, without its brackets. A tag that is not closed is the rest of the
    /// page.
    fn tag(&mut self) -> &'a str {
        let mut quote = None;
        let end = self.rest.bytes().position(|byte| {
            match quote {
                Some(open) if open == byte => quote = None,
                None if byte == b'>' => return true,
                None if byte == b'"' || byte == b'\'' => quote = Some(byte),
                _ => {}
            }
            false
        });
        let (tag, rest) = match end {
            Some(end) => (&self.rest[1..end], &self.rest[end + 1..]),
            None => ("", ""),
        };
        self.rest = rest;
        tag
    }
}

impl<'a> Iterator for Tokens<'a> {
    type Item = Token<'a>;

    fn next(&mut self) -> Option<Token<'a>> {
        loop {
            let after = self.rest.strip_prefix('<').unwrap_or_default();
            let is_letter = |text: &str| text.starts_with(|c: char| c.is_ascii_alphabetic());
            if self.rest.is_empty() {
                return None;
            } else if after.starts_with("!--") {
                self.skip_past("-->");
            } else if after.starts_with(['!', '?']) {
                self.skip_past(">");
            } else if after.strip_prefix('/').is_some_and(is_letter) {
                let name = self.tag().trim_start_matches('/');
                return Some(Token::Close(name_of(name).0));
            } else if is_letter(after) {
                let (name, attributes) = name_of(self.tag());
                if matches!(name.as_str(), "script" | "style") {
                    self.skip_to_close(&name);
                    continue;
                }
                return Some(Token::Open(Tag { name, attributes }));
            } else {
                // A bracket that begins no tag is text.
                let from = usize::from(self.rest.starts_with('<'));
                let end = self.rest[from..].find('<').map(|at| at + from);
                let (text, rest) = self.rest.split_at(end.unwrap_or(self.rest.len()));
                self.rest = rest;
                return Some(Token::Text(text));
            }
        }
    }
}

fn name_of(tag: &str) -> (String, &str) {
    let end = tag.find(|c: char| c.is_ascii_whitespace() || c == '/');
    let (name, rest) = tag.split_at(end.unwrap_or(tag.len()));
    (name.to_ascii_lowercase(), rest)
}

impl Tag<'_> {
    /// The value of an attribute.
    pub(super) fn get(&self, wanted: &str) -> Option<String> {
        let between = |c: char| c.is_ascii_whitespace() || c == '/';
        let mut rest = self.attributes.trim_start_matches(between);
        while !rest.is_empty() {
            let end = rest
                .find(|c: char| between(c) || c == '=')
                .unwrap_or(rest.len());
            // A leading equals sign is part of the name.
            let (name, after) = rest.split_at(end.max(1));
            rest = after.trim_start();
            let mut value = "";
            if let Some(after) = rest.strip_prefix('=') {
                (value, rest) = value_of(after.trim_start());
            }
            if name.eq_ignore_ascii_case(wanted) {
                return Some(decode_entities(value));
            }
            rest = rest.trim_start_matches(between);
        }
        None
    }

    /// Whether it has this class.
    pub(super) fn has_class(&self, class: &str) -> bool {
        let classes = self.get("class").unwrap_or_default();
        classes.split_whitespace().any(|word| word == class)
    }
}

/// A value, quoted or not, and the rest.
fn value_of(text: &str) -> (&str, &str) {
    for quote in ['"', '\''] {
        if let Some(inside) = text.strip_prefix(quote) {
            return inside.split_once(quote).unwrap_or((inside, ""));
        }
    }
    let end = text.find(|c: char| c.is_ascii_whitespace());
    text.split_at(end.unwrap_or(text.len()))
}

/// Decodes entities.
pub(super) fn decode_entities(text: &str) -> String {
    let mut out = String::with_capacity(text.len());
    let mut rest = text;
    while let Some(at) = rest.find('&') {
        out.push_str(&rest[..at]);
        rest = &rest[at..];
        let end = rest.bytes().take(12).position(|byte| byte == b';');
        let character = end.and_then(|end| entity(&rest[1..end]));
        if let (Some(character), Some(end)) = (character, end) {
            out.push(character);
            rest = &rest[end + 1..];
        } else {
            out.push('&');
            rest = &rest[1..];
        }
    }
    out.push_str(rest);
    out
}

fn entity(name: &str) -> Option<char> {
    if let Some(number) = name.strip_prefix('#') {
        let code = match number.strip_prefix(['x', 'X']) {
            Some(hex) => u32::from_str_radix(hex, 16),
            None => number.parse(),
        };
        return char::from_u32(code.ok()?).filter(|c| !c.is_control() || c.is_whitespace());
    }
    Some(match name {
        "amp" => '&',
        "lt" => '<',
        "gt" => '>',
        "quot" => '"',
        "apos" => '\'',
        "nbsp" => ' ',
        "ndash" => '–',
        "mdash" => '—',
        "hellip" => '…',
        "lsquo" => '‘',
        "rsquo" => '’',
        "ldquo" => '“',
        "rdquo" => '”',
        "laquo" => '«',
        "raquo" => '»',
        "bull" => '•',
        "middot" => '·',
        "copy" => '©',
        "reg" => '®',
        "trade" => '™',
        "euro" => '€',
        "pound" => '£',
        "deg" => '°',
        "times" => '×',
        _ => return None,
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    fn shown(page: &str) -> String {
        let tokens = Tokens::of(page).map(|token| match token {
            Token::Open(tag) => format!("+{}", tag.name),
            Token::Close(name) => format!("-{name}"),
            Token::Text(text) => format!("'{text}'"),
        });
        tokens.collect::<Vec<_>>().join(" ")
    }

    #[test]
    fn html_is_tokenized_like_in_browsers() {
        for (page, expected) in [
            ("a<b>c</b>", "'a' +b 'c' -b"),
            ("<BR/><Br />", "+br +br"),
            ("1 < 2 <3", "'1 ' '< 2 ' '<3'"),
            ("<!doctype html><!-- <p> -->x", "'x'"),
            ("<script>if (a</b) '<p>'</SCRIPT >x", "-script 'x'"),
            ("<style>p > a {}</style>", "-style"),
            ("<script>never closed <p>", ""),
            ("<a title='>' href=x>y", "+a 'y'"),
            ("<a title='>never closed", "+"),
            ("x<!--", "'x'"),
            ("</p", "-"),
            ("<", "'<'"),
            ("</>", "'</>'"),
            ("für<p>€", "'für' +p '€'"),
        ] {
            assert_eq!(shown(page), expected, "{page}");
        }
    }

    #[test]
    fn attributes_are_found_in_any_quoting() {
        for (page, expected) in [
            (r#"<a href="x y">"#, Some("x y")),
            ("<a href='x'>", Some("x")),
            ("<a href=x/y>", Some("x/y")),
            ("<a HREF = x>", Some("x")),
            ("<a href>", Some("")),
            ("<a nohref='x' href=\"a&amp;b\">", Some("a&b")),
            ("<a data-href=x>", None),
            ("<a title='href=x'>", None),
            ("<a = href=x>", Some("x")),
            ("<a href='x>", None),
        ] {
            let tag = match Tokens::of(page).next() {
                Some(Token::Open(tag)) => tag,
                other => panic!("{page}: {other:?}"),
            };
            assert_eq!(tag.get("href").as_deref(), expected, "{page}");
        }
    }

    #[test]
    fn known_entities_are_decoded() {
        for (text, expected) in [
            ("a &amp; b &lt;c&gt;", "a & b <c>"),
            ("&#65;&#x42;&#X43;", "ABC"),
            ("&amp;lt;", "&lt;"),
            ("AT&T; &unknown; &", "AT&T; &unknown; &"),
            (
                "&#0;&#27;&#xD800;&#99999999;",
                "&#0;&#27;&#xD800;&#99999999;",
            ),
            ("&ü;&é", "&ü;&é"),
        ] {
            assert_eq!(decode_entities(text), expected, "{text}");
        }
    }
}
