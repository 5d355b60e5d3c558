//! Generated secrets in realistic places, and harmless text that looks similar, to measure redaction.
//!
//! The same seed always gives the same corpus. Nothing here knows how secrets are searched: the kinds
//! follow the formats that vendors and tools document, the places what agents read and print. Keys are
//! random, and assembled at run time so that this source does not trigger secret scanners.

mod contexts;
mod draw;
mod encodings;
mod harmless;
mod keys;
mod places;

use draw::Draw;

/// A piece of a secret of this length that remains in the output is a leak.
const PIECE: usize = 8;

/// A text, and the secrets in it.
#[derive(Debug)]
pub(crate) struct Sample {
    /// What it is, for the list of failures.
    pub(crate) kind: String,
    pub(crate) text: String,
    /// The secrets as `text` spells them, without prefixes that are the same in every key.
    bodies: Vec<String>,
}

impl Sample {
    fn new(kind: impl Into<String>, text: impl Into<String>, body: impl Into<String>) -> Self {
        Self {
            kind: kind.into(),
            text: text.into(),
            bodies: vec![body.into()],
        }
    }

    /// Whether `output` still contains a piece of a secret, possibly broken over lines.
    pub(crate) fn leaks_into(&self, output: &str) -> bool {
        let joined = without_line_breaks(output);
        self.bodies.iter().any(|body| {
            let body: Vec<char> = without_line_breaks(body).chars().collect();
            let pieces = body.windows(PIECE.min(body.len()));
            pieces
                .map(String::from_iter)
                .any(|piece| joined.contains(&piece))
        })
    }
}

/// What is put before and after a secret, or into its middle.
const BESIDE: [&str; 16] = [
    "x", "7", "-", "_", ".", "/", ":", "=", "\"", "'", "`", "(", "\\", " ", "\n", "@",
];

impl Sample {
    /// The text with its secret, or in a harmless text its longest word, altered in one respect each.
    pub(crate) fn altered(&self) -> Vec<String> {
        let words = self.text.split_whitespace();
        let longest = words.max_by_key(|word| word.len()).unwrap_or_default();
        let body = match self.bodies.first().map(String::as_str) {
            None | Some("") => longest,
            Some(body) => body,
        };
        let Some((before, after)) = self.text.split_once(body) else {
            return Vec::new();
        };
        let characters: Vec<char> = body.chars().collect();
        let part = |range: std::ops::Range<usize>| String::from_iter(&characters[range]);
        let (length, half) = (characters.len(), characters.len() / 2);
        let mut bodies = vec![
            part(0..length.saturating_sub(1)),
            part(1.min(length)..length),
            part(0..half),
            part(0..8.min(length)),
            part(0..5.min(length)),
            part(0..3.min(length)),
            format!("{body}{body}"),
            format!("{body}{body}{body}{body}"),
            body.to_lowercase(),
            body.to_uppercase(),
            body.replace(|c: char| c.is_ascii_digit(), "x"),
            body.replace(|c: char| c.is_ascii_alphabetic(), "5"),
            body.replace(['-', '_', '.', '/', ':', '=', '+'], "k"),
        ];
        for other in BESIDE {
            bodies.push(format!("{other}{body}"));
            bodies.push(format!("{body}{other}"));
            bodies.push(format!("{other}{body}{other}"));
            bodies.push(part(0..half) + other + &part(half..length));
        }
        let altered = bodies.into_iter();
        altered
            .map(|body| format!("{before}{body}{after}"))
            .collect()
    }
}

fn without_line_breaks(text: &str) -> String {
    ["\\r", "\\n", "\r", "\n"]
        .into_iter()
        .fold(text.to_owned(), |text, line_break| {
            text.replace(line_break, "")
        })
}

/// A corpus for one seed.
#[derive(Debug)]
pub(crate) struct Corpus {
    /// The variables whose values are known secrets.
    pub(crate) environment: Vec<(String, String)>,
    pub(crate) secrets: Vec<Sample>,
    pub(crate) harmless: Vec<Sample>,
}

impl Corpus {
    /// `count` texts with secrets and as many harmless ones.
    pub(crate) fn new(seed: u64, count: usize) -> Self {
        let draw = Draw::new(seed);
        let environment = encodings::environment(&draw);
        let secrets = (0..count)
            .map(|index| match index % 4 {
                0 => encodings::sample(&draw, &environment),
                1 => keys::sample(&draw),
                2 => keys::assigned(&draw),
                _ => contexts::sample(&draw),
            })
            .collect();
        Self {
            secrets,
            harmless: (0..count).map(|_| harmless::sample(&draw)).collect(),
            environment,
        }
    }
}
