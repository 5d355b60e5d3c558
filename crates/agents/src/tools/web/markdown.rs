//! Renders a page as Markdown: headings, links, lists and code.

use std::fmt::Write;

use reqwest::Url;

use super::html::{Tag, Token, Tokens, decode_entities};

/// Lists and quotes that are nested deeper are indented like this depth.
const MAX_DEPTH: usize = 8;

/// The longest text, in bytes. A page can ask for more: every link repeats the address of the page.
const MAX_TEXT: usize = 4 << 20;

const CUT: &str = "\n\n[cut: the page has more text]";

/// Elements whose content is dropped.
const DROPPED_ELEMENTS: [&str; 7] = [
    "svg", "template", "noscript", "iframe", "canvas", "audio", "video",
];

/// The text of a page that came from `base`.
pub(super) fn to_markdown(page: &str, base: &Url) -> String {
    let mut writer = Writer::default();
    let mut dropped: Option<(String, usize)> = None;
    for token in Tokens::of(page) {
        if writer.out.len() > MAX_TEXT {
            writer
                .out
                .truncate(writer.out.floor_char_boundary(MAX_TEXT));
            return writer.out + CUT;
        }
        if let Some((name, depth)) = &mut dropped {
            match &token {
                Token::Open(tag) if tag.name == *name => *depth += 1,
                Token::Close(closed) if closed == name => *depth -= 1,
                _ => {}
            }
            if *depth == 0 {
                dropped = None;
            }
            continue;
        }
        match token {
            Token::Text(text) => writer.write_text(&decode_entities(text)),
            Token::Open(tag) if DROPPED_ELEMENTS.contains(&tag.name.as_str()) => {
                dropped = Some((tag.name, 1));
            }
            Token::Open(tag) => writer.open(&tag, base),
            Token::Close(name) => writer.close(&name),
        }
    }
    writer.end_link();
    writer.end_code();
    writer.out.trim().to_owned()
}

/// The output, and what must precede the next word.
#[derive(Default)]
struct Writer {
    out: String,
    /// How many newlines precede the next word.
    newlines: usize,
    /// Whether a space precedes the next word.
    space: bool,
    /// The prefix of the next line, after the newlines.
    prefix: String,
    /// The open lists: the number of the next item, if they are numbered.
    lists: Vec<Option<usize>>,
    quotes: usize,
    is_code: bool,
    /// The open link: where its text begins, and its target.
    link: Option<(usize, String)>,
    /// Whether a cell of this row was written.
    row: bool,
}

impl Writer {
    fn open(&mut self, tag: &Tag<'_>, base: &Url) {
        match tag.name.as_str() {
            "title" | "h1" => self.heading(1),
            "h2" => self.heading(2),
            "h3" => self.heading(3),
            "h4" => self.heading(4),
            "h5" => self.heading(5),
            "h6" => self.heading(6),
            "a" => self.begin_link(tag, base),
            "img" => self.image(tag, base),
            "pre" if !self.is_code => {
                self.require_newlines(2);
                self.write_inline("```");
                self.out.push('\n');
                self.is_code = true;
            }
            "code" | "kbd" | "samp" if !self.is_code => self.write_inline("`"),
            "ul" | "menu" => self.list(None),
            "ol" => self.list(Some(1)),
            "li" => self.item(),
            "blockquote" => {
                self.require_newlines(2);
                self.quotes += 1;
            }
            "tr" => {
                self.require_newlines(1);
                self.row = false;
            }
            "td" | "th" => {
                if self.row {
                    self.write_inline(" |");
                    self.space = true;
                }
                self.row = true;
            }
            "hr" => {
                self.require_newlines(2);
                self.write_inline("---");
                self.require_newlines(2);
            }
            "br" if self.is_code => self.out.push('\n'),
            "br" | "dt" | "dd" | "option" => self.require_newlines(1),
            name if is_block(name) => self.require_newlines(2),
            _ => {}
        }
    }

    fn close(&mut self, name: &str) {
        match name {
            "title" | "h1" | "h2" | "h3" | "h4" | "h5" | "h6" => {
                self.prefix.clear();
                self.require_newlines(2);
            }
            "a" => self.end_link(),
            "pre" => self.end_code(),
            "code" | "kbd" | "samp" if !self.is_code => {
                self.space = false;
                self.write_inline("`");
            }
            "ul" | "menu" | "ol" => {
                self.lists.pop();
                self.require_newlines(2);
            }
            "li" => {
                self.prefix.clear();
                self.require_newlines(1);
            }
            "tr" => self.require_newlines(1),
            "blockquote" => {
                self.quotes = self.quotes.saturating_sub(1);
                self.require_newlines(2);
            }
            name if is_block(name) => self.require_newlines(2),
            _ => {}
        }
    }

    /// Requires so many newlines, unless more are required already. Lists have no empty lines.
    fn require_newlines(&mut self, count: usize) {
        let count = if self.lists.is_empty() { count } else { 1 };
        // In a list item, its prefix comes first, whatever else it begins with.
        if self.prefix.is_empty() && !self.is_code {
            self.newlines = self.newlines.max(count);
        }
    }

    fn heading(&mut self, level: usize) {
        self.require_newlines(2);
        self.prefix.push_str(&"#".repeat(level));
        self.prefix.push(' ');
    }

    fn list(&mut self, number: Option<usize>) {
        self.require_newlines(2);
        self.lists.push(number);
    }

    fn item(&mut self) {
        // An empty item leaves no prefix.
        self.prefix.clear();
        self.require_newlines(1);
        let depth = self.lists.len().saturating_sub(1).min(MAX_DEPTH);
        self.prefix = "  ".repeat(depth);
        match self.lists.last_mut() {
            Some(Some(number)) => {
                let _ = write!(self.prefix, "{number}. ");
                *number += 1;
            }
            _ => self.prefix.push_str("- "),
        }
    }

    /// Writes words with collapsed white space, except in code.
    fn write_text(&mut self, text: &str) {
        if self.is_code {
            self.out.push_str(text);
            return;
        }
        for (number, word) in text.split(char::is_whitespace).enumerate() {
            self.space |= number > 0;
            if !word.is_empty() {
                self.write_inline(word);
            }
        }
    }

    /// Writes `text` after the pending newlines, space and prefix.
    fn write_inline(&mut self, text: &str) {
        self.flush_pending();
        self.out.push_str(text);
    }

    fn flush_pending(&mut self) {
        if self.newlines > 0 || self.out.is_empty() {
            let count = if self.out.is_empty() {
                0
            } else {
                self.newlines
            };
            self.out.extend(std::iter::repeat_n('\n', count));
            self.out.push_str(&"> ".repeat(self.quotes.min(MAX_DEPTH)));
        } else if self.space && !self.out.ends_with(char::is_whitespace) {
            self.out.push(' ');
        }
        self.out.push_str(&std::mem::take(&mut self.prefix));
        self.newlines = 0;
        self.space = false;
    }

    fn end_code(&mut self) {
        if self.is_code {
            self.is_code = false;
            if !self.out.ends_with('\n') {
                self.out.push('\n');
            }
            self.out.push_str("```");
            self.require_newlines(2);
        }
    }

    fn begin_link(&mut self, tag: &Tag<'_>, base: &Url) {
        self.end_link();
        let target = tag.get("href").and_then(|href| target(&href, base));
        if let Some(target) = target.filter(|_| !self.is_code) {
            self.flush_pending();
            self.link = Some((self.out.len(), target));
        }
    }

    fn end_link(&mut self) {
        let Some((start, target)) = self.link.take() else {
            return;
        };
        let words = self.out.split_off(start);
        let words: Vec<&str> = words.split_whitespace().collect();
        if !words.is_empty() {
            let _ = write!(self.out, "[{}]({target})", words.join(" "));
        }
    }

    fn image(&mut self, tag: &Tag<'_>, base: &Url) {
        let words = tag.get("alt").unwrap_or_default();
        let words: Vec<&str> = words.split_whitespace().collect();
        let source = tag.get("src").and_then(|source| target(&source, base));
        if let (false, Some(source)) = (words.is_empty() || self.is_code, source) {
            self.write_inline(&format!("![{}]({source})", words.join(" ")));
        }
    }
}

/// The URL of a link, if it leads to another page.
fn target(href: &str, base: &Url) -> Option<String> {
    if href.trim_start().starts_with('#') {
        return None;
    }
    let target = base.join(href).ok()?;
    matches!(target.scheme(), "http" | "https").then(|| target.to_string())
}

fn is_block(name: &str) -> bool {
    matches!(
        name,
        "p" | "div"
            | "section"
            | "article"
            | "header"
            | "footer"
            | "main"
            | "aside"
            | "nav"
            | "table"
            | "form"
            | "fieldset"
            | "figure"
            | "figcaption"
            | "dl"
            | "details"
            | "summary"
            | "body"
            | "head"
            | "address"
    )
}

#[cfg(test)]
mod tests {
    use super::*;

    #[track_caller]
    fn assert_reads(page: &str, expected: &str) {
        let base = Url::parse("https://example.com/docs/").unwrap();
        assert_eq!(to_markdown(page, &base), expected, "{page}");
    }

    #[test]
    fn page_becomes_markdown() {
        let page = "<!DOCTYPE html><html><head><title>The  page</title>
            <style>p { color: red }</style><script>alert('<p>no</p>')</script></head>
            <body><nav><a href='/'>Home</a></nav>
            <h2 class=x>First &amp; last</h2>
            <p>Some <b>bold</b>, <a href=\"more.html?a=1&amp;b=2\">a <i>link</i></a>
            and <code>let x = 1;</code>.</p>
            <ul><li>one<li><p>two</p><ol><li>deep</li><li>deeper</li></ol></ul>
            <pre><code>fn main() {\n    run();\n}</code></pre>
            <blockquote><p>Said.</p><p>Done.</p></blockquote>
            <table><tr><th>a</th><th>b</th></tr><tr><td>1</td><td>2</td></tr></table>
            <svg><title>no</title><text>no</text></svg><p>End<br>of it.</p>";
        assert_reads(
            page,
            "# The page\n\n[Home](https://example.com/)\n\n## First & last\n\n\
             Some bold, [a link](https://example.com/docs/more.html?a=1&b=2) and `let x = 1;`.\n\n\
             - one\n- two\n  1. deep\n  2. deeper\n\n\
             ```\nfn main() {\n    run();\n}\n```\n\n\
             > Said.\n\n> Done.\n\na | b\n1 | 2\n\nEnd\nof it.",
        );
    }

    #[test]
    fn only_http_links_become_links() {
        assert_reads("<a href='#top'>up</a>", "up");
        assert_reads("<a href='javascript:x()'>do</a>", "do");
        assert_reads("<a name=x>named</a>", "named");
        assert_reads("<a href='x'> </a>y", "y");
        assert_reads(
            "<a href=x>one<a href=//other/>two",
            "[one](https://example.com/docs/x)[two](https://other/)",
        );
        assert_reads(
            "<img src=a.png alt='A  dog'>",
            "![A dog](https://example.com/docs/a.png)",
        );
        assert_reads("<img src='data:x' alt=dog><img src=x>", "");
    }

    #[test]
    fn broken_html_still_becomes_markdown() {
        assert_reads("", "");
        assert_reads("just words", "just words");
        assert_reads("</ul></li></a></pre></blockquote>x", "x");
        assert_reads("<pre>open", "```\nopen\n```");
        assert_reads("<li>lone", "- lone");
        assert_reads("<ul><li></li><li>x</ul>", "- x");
        assert_reads("<h1></h1><p>x", "x");
    }

    #[test]
    fn hostile_pages_stay_small() {
        let base = Url::parse("https://example.com/").unwrap();
        let row = format!("<tr>{}</tr>", "<td>cell".repeat(100));
        for (page, at_most) in [
            ("<div>".repeat(100_000) + "x", 1),
            ("<b><i><font>".repeat(100_000) + "x", 1),
            ("<ul><li>x".repeat(100_000), 2_000_000),
            ("<blockquote>x".repeat(100_000), 2_000_000),
            ("<table><tr><td>".repeat(100_000) + "x", 1),
            ("<h6>".repeat(100_000) + "x", 700_001),
            ("<".repeat(10 << 20), MAX_TEXT + CUT.len() + 1),
            ("<a ".repeat(1 << 20), 0),
            ("<a href=x>".repeat(100_000), 0),
            (
                "<p>words <b>bold <a href=x>link <li>".repeat(40_000),
                4_000_000,
            ),
            (format!("<table>{}", row.repeat(1500)), 1_100_000),
            ("&amp;&#65;&unknown;&".repeat(100_000), 1_200_000),
            ("&".repeat(2 << 20), 2 << 20),
            ("<!--".repeat(500_000), 0),
            ("<script></".repeat(200_000), 0),
            (format!("<a {} href=x>y", "a=b ".repeat(500_000)), 26),
        ] {
            let text = to_markdown(&page, &base);
            let shown = &page[..page.floor_char_boundary(40)];
            assert!(text.len() <= at_most, "{shown}: {}", text.len());
        }
    }

    #[test]
    fn long_text_is_cut() {
        let long = format!("https://example.com/{}/", "x".repeat(4000));
        let base = Url::parse(&long).unwrap();
        let text = to_markdown(&"<a href=y>ü</a>".repeat(20_000), &base);
        assert_eq!(text.len(), MAX_TEXT + CUT.len());
        assert!(text.starts_with("[ü](https://example.com/xxx"));
        assert!(text.ends_with(CUT));
        let page = "ü".repeat(MAX_TEXT / 2);
        assert_eq!(to_markdown(&page, &base), page);
    }
}
