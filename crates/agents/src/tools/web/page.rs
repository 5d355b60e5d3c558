//! A page as text that reads well: headings, links, lists and code as Markdown has them.

use std::fmt::Write;

use reqwest::Url;

use super::markup::{Piece, Pieces, Tag, decoded};

/// Lists and quotes that are nested deeper are shown like this deep.
const DEEPEST: usize = 8;

/// Elements of which nothing is to be read.
const DROPPED: [&str; 7] = [
    "svg", "template", "noscript", "iframe", "canvas", "audio", "video",
];

/// The text of a page that came from `base`.
pub(super) fn readable(page: &str, base: &Url) -> String {
    let mut writer = Writer::default();
    let mut dropped: Option<(String, usize)> = None;
    for piece in Pieces::of(page) {
        if let Some((name, depth)) = &mut dropped {
            match &piece {
                Piece::Open(tag) if tag.name == *name => *depth += 1,
                Piece::Close(closed) if closed == name => *depth -= 1,
                _ => {}
            }
            if *depth == 0 {
                dropped = None;
            }
            continue;
        }
        match piece {
            Piece::Text(text) => writer.words(&decoded(text)),
            Piece::Open(tag) if DROPPED.contains(&tag.name.as_str()) => {
                dropped = Some((tag.name, 1));
            }
            Piece::Open(tag) => writer.open(&tag, base),
            Piece::Close(name) => writer.close(&name),
        }
    }
    writer.end_link();
    writer.end_code();
    writer.out.trim().to_owned()
}

/// What was written, and what comes before the next word.
#[derive(Default)]
struct Writer {
    out: String,
    /// How many line ends are due.
    gap: usize,
    /// Whether a space is due.
    space: bool,
    /// What the next line begins with, after a gap.
    mark: String,
    /// The lists that are open: the number of the next item, if they have numbers.
    lists: Vec<Option<usize>>,
    quotes: usize,
    is_code: bool,
    /// The link that is open: where its words begin, and where it leads.
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
                self.lines(2);
                self.raw("```");
                self.out.push('\n');
                self.is_code = true;
            }
            "code" | "kbd" | "samp" if !self.is_code => self.raw("`"),
            "ul" | "menu" => self.list(None),
            "ol" => self.list(Some(1)),
            "li" => self.item(),
            "blockquote" => {
                self.lines(2);
                self.quotes += 1;
            }
            "tr" => {
                self.lines(1);
                self.row = false;
            }
            "td" | "th" => {
                if self.row {
                    self.raw(" |");
                    self.space = true;
                }
                self.row = true;
            }
            "hr" => {
                self.lines(2);
                self.raw("---");
                self.lines(2);
            }
            "br" if self.is_code => self.out.push('\n'),
            "br" | "dt" | "dd" | "option" => self.lines(1),
            name if is_block(name) => self.lines(2),
            _ => {}
        }
    }

    fn close(&mut self, name: &str) {
        match name {
            "title" | "h1" | "h2" | "h3" | "h4" | "h5" | "h6" => {
                self.mark.clear();
                self.lines(2);
            }
            "a" => self.end_link(),
            "pre" => self.end_code(),
            "code" | "kbd" | "samp" if !self.is_code => {
                self.space = false;
                self.raw("`");
            }
            "ul" | "menu" | "ol" => {
                self.lists.pop();
                self.lines(2);
            }
            "li" => {
                self.mark.clear();
                self.lines(1);
            }
            "tr" => self.lines(1),
            "blockquote" => {
                self.quotes = self.quotes.saturating_sub(1);
                self.lines(2);
            }
            name if is_block(name) => self.lines(2),
            _ => {}
        }
    }

    /// So many line ends are due, unless more are already. Lists have no empty lines.
    fn lines(&mut self, count: usize) {
        let count = if self.lists.is_empty() { count } else { 1 };
        // In an item, its mark comes first, whatever else it begins with.
        if self.mark.is_empty() && !self.is_code {
            self.gap = self.gap.max(count);
        }
    }

    fn heading(&mut self, level: usize) {
        self.lines(2);
        self.mark.push_str(&"#".repeat(level));
        self.mark.push(' ');
    }

    fn list(&mut self, number: Option<usize>) {
        self.lines(2);
        self.lists.push(number);
    }

    fn item(&mut self) {
        // An item without a word leaves no mark.
        self.mark.clear();
        self.lines(1);
        let depth = self.lists.len().saturating_sub(1).min(DEEPEST);
        self.mark = "  ".repeat(depth);
        match self.lists.last_mut() {
            Some(Some(number)) => {
                let _ = write!(self.mark, "{number}. ");
                *number += 1;
            }
            _ => self.mark.push_str("- "),
        }
    }

    /// Words, with their white space made one, except in code.
    fn words(&mut self, text: &str) {
        if self.is_code {
            self.out.push_str(text);
            return;
        }
        for (number, word) in text.split(char::is_whitespace).enumerate() {
            self.space |= number > 0;
            if !word.is_empty() {
                self.raw(word);
            }
        }
    }

    /// Writes something after what is due before it.
    fn raw(&mut self, text: &str) {
        self.settle();
        self.out.push_str(text);
    }

    fn settle(&mut self) {
        if self.gap > 0 || self.out.is_empty() {
            let count = if self.out.is_empty() { 0 } else { self.gap };
            self.out.extend(std::iter::repeat_n('\n', count));
            self.out.push_str(&"> ".repeat(self.quotes.min(DEEPEST)));
        } else if self.space && !self.out.ends_with(char::is_whitespace) {
            self.out.push(' ');
        }
        self.out.push_str(&std::mem::take(&mut self.mark));
        self.gap = 0;
        self.space = false;
    }

    fn end_code(&mut self) {
        if self.is_code {
            self.is_code = false;
            if !self.out.ends_with('\n') {
                self.out.push('\n');
            }
            self.out.push_str("```");
            self.lines(2);
        }
    }

    fn begin_link(&mut self, tag: &Tag<'_>, base: &Url) {
        self.end_link();
        let target = tag.get("href").and_then(|href| target(&href, base));
        if let Some(target) = target.filter(|_| !self.is_code) {
            self.settle();
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
            self.raw(&format!("![{}]({source})", words.join(" ")));
        }
    }
}

/// Where a link leads, if it leads to another page.
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
        assert_eq!(readable(page, &base), expected, "{page}");
    }

    #[test]
    fn a_page_reads_as_a_person_would_read_it() {
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
    fn only_links_to_pages_are_links() {
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
    fn a_broken_page_is_read_as_far_as_it_goes() {
        assert_reads("", "");
        assert_reads("just words", "just words");
        assert_reads("</ul></li></a></pre></blockquote>x", "x");
        assert_reads("<pre>open", "```\nopen\n```");
        assert_reads("<li>lone", "- lone");
        assert_reads("<ul><li></li><li>x</ul>", "- x");
        assert_reads("<h1></h1><p>x", "x");
    }

    #[test]
    fn deep_nesting_costs_little() {
        let page = "<ul><li>x<blockquote>".repeat(20_000);
        let base = Url::parse("https://example.com/").unwrap();
        assert!(readable(&page, &base).len() < page.len() * 3);
    }
}
