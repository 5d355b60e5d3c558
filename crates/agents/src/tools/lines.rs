//! Tools that show lines of a file: the first, the last, those that match.
//!
//! Work and output are bounded: a line is searched and shown up to a limit, and what is cut is said.

use std::collections::VecDeque;
use std::fmt::Write;

use regex::RegexBuilder;
use segno_core::tool::EffectClass;
use serde_json::Value;

use super::{BuiltinTool, FileContext, Run, flag, number, text};

/// A pattern that compiles to more bytes than this is refused.
const MAX_REGEX_SIZE: usize = 1 << 20;

/// The longest pattern, in bytes.
const MAX_PATTERN: usize = 4096;

/// How many bytes of a line are searched. The search takes time in proportion to this and to the
/// size of the pattern.
const MAX_SEARCHED: usize = 32 << 10;

/// How many lines are shown before and after a match.
const MAX_CONTEXT: usize = 1000;

/// How many bytes of a line, and of all lines, are shown.
const MAX_SHOWN_LINE: usize = 16 << 10;
const MAX_SHOWN: usize = 128 << 10;

const PATH: (&str, &str, bool, &str) = (
    "path",
    "string",
    true,
    "path of the file, relative to the workspace",
);

pub(super) const GREP: BuiltinTool = BuiltinTool {
    name: "grep",
    description: "Shows the lines of a file that match a regular expression, with surrounding lines.",
    class: EffectClass::ReadOnly,
    params: &[
        ("pattern", "string", true, "a regular expression"),
        PATH,
        (
            "context_lines",
            "integer",
            false,
            "lines shown before and after each match (default: 3)",
        ),
        (
            "ignore_case",
            "boolean",
            false,
            "ignore case (default: false)",
        ),
        (
            "max_matches",
            "integer",
            false,
            "maximum number of matches (default: 100)",
        ),
    ],
    run: Run::Files(|input, context| {
        let pattern = text(input, "pattern");
        matches(
            input,
            context,
            pattern,
            flag(input, "ignore_case", false),
            number(input, "context_lines", 3).min(MAX_CONTEXT),
            number(input, "max_matches", 100),
        )
    }),
};

pub(super) const SEARCH: BuiltinTool = BuiltinTool {
    name: "search",
    description: "Shows the lines of a file that contain a text.",
    class: EffectClass::ReadOnly,
    params: &[
        ("query", "string", true, "the text to search for"),
        PATH,
        (
            "is_regex",
            "boolean",
            false,
            "treat the text as a regular expression (default: false)",
        ),
        (
            "ignore_case",
            "boolean",
            false,
            "ignore case (default: true)",
        ),
        (
            "max_matches",
            "integer",
            false,
            "maximum number of matches (default: 50)",
        ),
    ],
    run: Run::Files(|input, context| {
        let query = text(input, "query");
        let pattern = if flag(input, "is_regex", false) {
            query.to_owned()
        } else {
            regex::escape(query)
        };
        matches(
            input,
            context,
            &pattern,
            flag(input, "ignore_case", true),
            0,
            number(input, "max_matches", 50),
        )
    }),
};

pub(super) const HEAD: BuiltinTool = BuiltinTool {
    name: "head",
    description: "Shows the first lines of a file.",
    class: EffectClass::ReadOnly,
    params: &[
        PATH,
        ("lines", "integer", false, "number of lines (default: 10)"),
    ],
    run: Run::Files(|input, context| {
        let file = context.files.read(text(input, "path"))?;
        let mut listing = Listing::default();
        let lines = file.lines().enumerate().take(number(input, "lines", 10));
        for (n, line) in lines {
            listing.push(n, line, ' ');
            if listing.is_cut {
                break;
            }
        }
        Ok(listing.finish("more lines follow"))
    }),
};

pub(super) const TAIL: BuiltinTool = BuiltinTool {
    name: "tail",
    description: "Shows the last lines of a file.",
    class: EffectClass::ReadOnly,
    params: &[
        PATH,
        ("lines", "integer", false, "number of lines (default: 10)"),
    ],
    run: Run::Files(|input, context| {
        let file = context.files.read(text(input, "path"))?;
        let count = file.lines().count();
        let mut lines = VecDeque::new();
        let mut bytes = 0;
        for (n, line) in (0..count)
            .rev()
            .zip(file.lines().rev())
            .take(number(input, "lines", 10))
        {
            bytes += row(n, line, ' ').len();
            if bytes > MAX_SHOWN {
                break;
            }
            lines.push_front((n, line));
        }
        let mut listing = Listing {
            is_cut: bytes > MAX_SHOWN,
            ..Listing::default()
        };
        lines
            .iter()
            .for_each(|(n, line)| listing.add(&row(*n, line, ' ')));
        Ok(listing.finish("earlier lines are not shown"))
    }),
};

fn matches(
    input: &Value,
    context: &FileContext<'_>,
    pattern: &str,
    ignore_case: bool,
    around: usize,
    max_matches: usize,
) -> Result<String, String> {
    if pattern.is_empty() {
        return Err("the text to search for is empty: it would match every line".to_owned());
    }
    if pattern.len() > MAX_PATTERN {
        return Err(format!("the pattern is longer than {MAX_PATTERN} bytes"));
    }
    let regex = RegexBuilder::new(pattern)
        .case_insensitive(ignore_case)
        .size_limit(MAX_REGEX_SIZE)
        .build()
        .map_err(|error| error.to_string())?;
    let file = context.files.read(text(input, "path"))?;
    let mut listing = Listing::default();
    let mut before: VecDeque<(usize, &str)> = VecDeque::new();
    let (mut found, mut after, mut long) = (0, 0, 0_usize);
    for (n, line) in file.lines().enumerate() {
        context.cancellation.check()?;
        let searched = start(line, MAX_SEARCHED);
        long += usize::from(searched.len() < line.len());
        if found < max_matches && regex.is_match(searched) {
            found += 1;
            for (n, line) in before.drain(..) {
                listing.push(n, line, ' ');
            }
            listing.push(n, line, '>');
            after = around;
        } else if after > 0 {
            after -= 1;
            listing.push(n, line, ' ');
        } else if found == max_matches {
            break;
        } else {
            before.push_back((n, line));
            if before.len() > around {
                before.pop_front();
            }
        }
        if listing.is_cut {
            break;
        }
    }
    let mut output = match found {
        0 => "no line matches".to_owned(),
        _ => listing.finish("more lines match or follow"),
    };
    if long > 0 {
        let _ = write!(
            output,
            "\n[{long} long lines were searched only in their first {MAX_SEARCHED} bytes]"
        );
    }
    Ok(output)
}

/// Numbered lines, up to a limit.
#[derive(Default)]
struct Listing {
    text: String,
    is_cut: bool,
}

impl Listing {
    /// Adds a line, unless there is no room for it; then nothing more is added.
    fn push(&mut self, n: usize, line: &str, mark: char) {
        let row = row(n, line, mark);
        self.is_cut |= self.text.len() + row.len() > MAX_SHOWN;
        if !self.is_cut {
            self.add(&row);
        }
    }

    fn add(&mut self, row: &str) {
        self.text.push_str(row);
    }

    fn finish(mut self, what: &str) -> String {
        if self.is_cut {
            let _ = writeln!(self.text, "[cut: {what}]");
        }
        self.text
    }
}

fn row(n: usize, line: &str, mark: char) -> String {
    let shown = start(line, MAX_SHOWN_LINE);
    let mut row = format!("{mark}{:>5} | {shown}", n + 1);
    if shown.len() < line.len() {
        let _ = write!(row, " [cut: the line has {} bytes]", line.len());
    }
    row.push('\n');
    row
}

/// At most the first `limit` bytes of a text.
fn start(text: &str, limit: usize) -> &str {
    &text[..text.floor_char_boundary(limit)]
}
