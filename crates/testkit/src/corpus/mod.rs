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
pub struct Sample {
    /// What it is, for the list of failures.
    pub kind: String,
    pub text: String,
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
    pub fn leaks_into(&self, output: &str) -> bool {
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

fn without_line_breaks(text: &str) -> String {
    ["\\r", "\\n", "\r", "\n"]
        .into_iter()
        .fold(text.to_owned(), |text, line_break| {
            text.replace(line_break, "")
        })
}

/// A corpus for one seed.
#[derive(Debug)]
pub struct Corpus {
    /// The variables whose values are known secrets.
    pub environment: Vec<(String, String)>,
    pub secrets: Vec<Sample>,
    pub harmless: Vec<Sample>,
}

impl Corpus {
    /// `count` texts with secrets and as many harmless ones.
    pub fn new(seed: u64, count: usize) -> Self {
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
