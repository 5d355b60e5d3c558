//! Tools that show lines of a file: the first, the last, those that match.

use std::fmt::Write;

use regex::RegexBuilder;
use segno_core::tool::EffectClass;
use serde_json::Value;

use super::{BuiltinTool, CallContext, Run, flag, number, text};

/// A pattern that compiles to more bytes than this is refused.
const MAX_REGEX_SIZE: usize = 1 << 20;

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
    run: Run::Sync(|input, context| {
        let pattern = text(input, "pattern");
        matches(
            input,
            context,
            pattern,
            flag(input, "ignore_case", false),
            number(input, "context_lines", 3),
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
    run: Run::Sync(|input, context| {
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
    run: Run::Sync(|input, context| {
        let file = context.files.read(text(input, "path"))?;
        let lines = file.lines().enumerate().take(number(input, "lines", 10));
        Ok(numbered(lines.map(|(n, line)| (n, line, ' '))))
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
    run: Run::Sync(|input, context| {
        let file = context.files.read(text(input, "path"))?;
        let skipped = file
            .lines()
            .count()
            .saturating_sub(number(input, "lines", 10));
        let lines = file.lines().enumerate().skip(skipped);
        Ok(numbered(lines.map(|(n, line)| (n, line, ' '))))
    }),
};

fn matches(
    input: &Value,
    context: &CallContext<'_>,
    pattern: &str,
    ignore_case: bool,
    around: usize,
    max_matches: usize,
) -> Result<String, String> {
    let regex = RegexBuilder::new(pattern)
        .case_insensitive(ignore_case)
        .size_limit(MAX_REGEX_SIZE)
        .build()
        .map_err(|error| error.to_string())?;
    let file = context.files.read(text(input, "path"))?;
    let lines: Vec<&str> = file.lines().collect();
    let found: Vec<usize> = (0..lines.len())
        .filter(|n| regex.is_match(lines[*n]))
        .take(max_matches)
        .collect();
    if found.is_empty() {
        return Ok("no line matches".to_owned());
    }
    let near = |n: usize| found.iter().any(|hit| n.abs_diff(*hit) <= around);
    let shown = (0..lines.len()).filter(|n| near(*n)).map(|n| {
        let mark = if found.binary_search(&n).is_ok() {
            '>'
        } else {
            ' '
        };
        (n, lines[n], mark)
    });
    Ok(numbered(shown))
}

fn numbered<'a>(lines: impl Iterator<Item = (usize, &'a str, char)>) -> String {
    let mut out = String::new();
    for (n, line, mark) in lines {
        let _ = writeln!(out, "{mark}{:>5} | {line}", n + 1);
    }
    out
}
