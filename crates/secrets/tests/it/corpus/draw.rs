//! Random choices and values.

use std::cell::Cell;

pub(super) const LETTERS: &str = "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz";
pub(super) const ALPHANUMERIC: &str =
    "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789";
pub(super) const BASE36: &str = "abcdefghijklmnopqrstuvwxyz0123456789";
pub(super) const UPPER36: &str = "ABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789";
pub(super) const BASE32: &str = "ABCDEFGHIJKLMNOPQRSTUVWXYZ234567";
pub(super) const BECH32: &str = "QPZRY9X8GF2TVDW0S3JN54KHCE6MUA7L";
pub(super) const CROCKFORD: &str = "0123456789ABCDEFGHJKMNPQRSTVWXYZ";
pub(super) const BASE64: &str = "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789+/";
pub(super) const URL_SAFE: &str =
    "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789-_";
pub(super) const HEX: &str = "0123456789abcdef";
pub(super) const DIGITS: &str = "0123456789";
/// What password generators use, without characters that end a value in every format.
pub(super) const PASSWORD: &str =
    "ABCDEFGHJKLMNPQRSTUVWXYZabcdefghijkmnpqrstuvwxyz23456789!#%*+-.=^_~";

const WORDS: [&str; 40] = [
    "account", "answer", "archive", "branch", "buffer", "bundle", "cache", "client", "cluster",
    "command", "config", "context", "cursor", "database", "deploy", "driver", "editor", "engine",
    "event", "filter", "handler", "index", "journal", "kernel", "layout", "manager", "message",
    "module", "network", "object", "parser", "pattern", "query", "render", "report", "schema",
    "server", "stream", "template", "worker",
];

/// Random choices that are the same for the same seed.
pub(super) struct Draw(Cell<u64>);

impl Draw {
    pub(super) fn new(seed: u64) -> Self {
        Self(Cell::new(seed))
    }

    /// A number below `bound`.
    pub(super) fn below(&self, bound: usize) -> usize {
        usize::try_from(self.next() % (bound.max(1) as u64)).unwrap()
    }

    /// The next number of splitmix64.
    fn next(&self) -> u64 {
        self.0.set(self.0.get().wrapping_add(0x9E37_79B9_7F4A_7C15));
        let mut mixed = self.0.get();
        mixed = (mixed ^ (mixed >> 30)).wrapping_mul(0xBF58_476D_1CE4_E5B9);
        mixed = (mixed ^ (mixed >> 27)).wrapping_mul(0x94D0_49BB_1331_11EB);
        mixed ^ (mixed >> 31)
    }

    pub(super) fn between(&self, least: usize, most: usize) -> usize {
        least + self.below(most - least + 1)
    }

    pub(super) fn flip(&self) -> bool {
        self.below(2) == 0
    }

    pub(super) fn one<T: Copy>(&self, of: &[T]) -> T {
        of[self.below(of.len())]
    }

    /// `length` characters of an ASCII alphabet.
    pub(super) fn text(&self, alphabet: &str, length: usize) -> String {
        let alphabet = alphabet.as_bytes();
        (0..length)
            .map(|_| char::from(self.one(alphabet)))
            .collect()
    }

    pub(super) fn bytes(&self, length: usize) -> Vec<u8> {
        (0..length)
            .map(|_| u8::try_from(self.below(256)).unwrap())
            .collect()
    }

    pub(super) fn hex(&self, length: usize) -> String {
        self.text(HEX, length)
    }

    pub(super) fn mixed(&self, length: usize) -> String {
        self.text(ALPHANUMERIC, length)
    }

    pub(super) fn word(&self) -> &'static str {
        self.one(&WORDS)
    }

    /// `count` words, with `separator` between them.
    pub(super) fn words(&self, count: usize, separator: &str) -> String {
        let words: Vec<_> = (0..count).map(|_| self.word()).collect();
        words.join(separator)
    }

    pub(super) fn uuid(&self) -> String {
        [8, 4, 4, 4, 12].map(|length| self.hex(length)).join("-")
    }

    pub(super) fn host(&self) -> String {
        format!("{}.{}.example.com", self.word(), self.word())
    }
}
