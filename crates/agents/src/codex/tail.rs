//! Reads the token counts that Codex writes into its rollout while it works. On its stdout it
//! reports them only at the end of a turn, which may be hours later.
//!
//! Each call reads what was appended since the last one, within limits, and parses only complete
//! lines. Lines that cannot be parsed are skipped: token counts are informational, and never a
//! reason to fail.
#![expect(
    clippy::disallowed_methods,
    reason = "a rollout is in Codex's own folder and is read while it grows"
)]

use std::fs::File;
use std::io::{Read, Seek, SeekFrom};
use std::path::{Path, PathBuf};

use segno_core::usage::ContextUsage;
use segno_core::usage::Usage;
use serde_json::Value;

use crate::transcript::{Object, TranscriptFormat, parse, text};
use crate::transcript_files;

/// How often a rollout that does not exist yet is searched.
const MAX_SEARCHES: u32 = 100;
/// How many bytes one call reads.
const MAX_READ: usize = 8 << 20;
/// Lines with token counts are short.
const LONGEST_LINE: usize = 64 << 10;

/// The token counts of a thread, as far as its rollout contains them.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub(super) struct TokenCounts {
    /// The context usage.
    pub(super) context: Option<ContextUsage>,
    /// The usage of the whole thread.
    pub(super) total: Option<Usage>,
}

/// The end of a growing rollout.
pub(super) struct Tail {
    home: PathBuf,
    searches: u32,
    file: Option<File>,
    /// A line whose newline has not been written yet; `None` while a line that is too long is
    /// skipped.
    line: Option<Vec<u8>>,
    window: Option<u64>,
    counts: TokenCounts,
}

impl Tail {
    /// A thread that has started or will start; Codex keeps its rollout below `home`.
    pub(super) fn new(home: &Path) -> Self {
        Self {
            home: home.to_owned(),
            searches: 0,
            file: None,
            line: Some(Vec::new()),
            window: None,
            counts: TokenCounts::default(),
        }
    }

    /// Skips what the rollout already contains.
    pub(super) fn skip(&mut self, id: &str) {
        self.open(id);
        if let Some(file) = &mut self.file
            && file.seek(SeekFrom::End(0)).is_err()
        {
            self.file = None;
        }
    }

    /// Reads the newest token counts of a thread.
    pub(super) fn read_new(&mut self, id: &str) -> TokenCounts {
        self.open(id);
        let Some(file) = &mut self.file else {
            return self.counts;
        };
        let mut added = Vec::new();
        // The next call reads what comes after the limit.
        let read = file.take(MAX_READ as u64).read_to_end(&mut added);
        if read.is_ok() {
            self.push(&added, id);
        }
        self.counts
    }

    fn open(&mut self, id: &str) {
        if self.file.is_none() && self.searches < MAX_SEARCHES {
            self.searches += 1;
            let path = transcript_files::find(TranscriptFormat::Codex, &self.home, id);
            let path = path.ok().flatten();
            self.file = path.and_then(|path| File::open(path).ok());
        }
    }

    /// The token counts read so far.
    #[cfg(feature = "probe")]
    pub(super) fn counts(&self) -> TokenCounts {
        self.counts
    }

    pub(super) fn push(&mut self, added: &[u8], id: &str) {
        for piece in added.split_inclusive(|byte| *byte == b'\n') {
            if let Some(line) = &mut self.line {
                line.extend_from_slice(piece);
                if line.len() > LONGEST_LINE {
                    self.line = None;
                }
            }
            if piece.ends_with(b"\n")
                && let Some(line) = self.line.replace(Vec::new())
            {
                self.parse_line(&line, id);
            }
        }
    }

    fn parse_line(&mut self, line: &[u8], id: &str) {
        let has_counts = std::str::from_utf8(line)
            .is_ok_and(|line| line.contains("token_") || line.contains("model_context_window"));
        let Some(record) = has_counts.then(|| parse(line).ok()).flatten() else {
            return;
        };
        let Some(payload) = record.get("payload").and_then(Value::as_object) else {
            return;
        };
        // A sub-agent's usage is not in this thread's context.
        if text(payload, "thread_id").is_some_and(|thread| thread != id) {
            return;
        }
        let part = |of: &Object, key: &str| of.get(key).and_then(Value::as_object).cloned();
        let info = part(payload, "info").unwrap_or_default();
        for of in [payload, &info] {
            let window = of.get("model_context_window").and_then(Value::as_u64);
            self.window = window.or(self.window);
        }
        let last = part(payload, "usage").or_else(|| part(&info, "last_token_usage"));
        let total =
            part(payload, "thread_token_usage").or_else(|| part(&info, "total_token_usage"));
        let used = last.and_then(|last| Some(parse_usage(&last)?.tokens()));
        let used = used.or_else(|| Some(self.counts.context?.used));
        self.counts = TokenCounts {
            context: used.map(|used| ContextUsage {
                used,
                window: self.window,
            }),
            total: total
                .and_then(|total| parse_usage(&total))
                .or(self.counts.total),
        };
    }
}

/// The whole input, including cached tokens, and the output.
fn parse_usage(usage: &Object) -> Option<Usage> {
    let number = |key| usage.get(key).and_then(Value::as_u64);
    Some(Usage {
        input_tokens: number("input_tokens")?,
        output_tokens: number("output_tokens")?,
        ..Usage::default()
    })
}

#[cfg(test)]
mod tests {
    use std::io::Write;

    use super::*;

    const ID: &str = "01a1e2a3-099f-75c2-8f70-8c3498b2dec8";

    /// A home folder with an empty rollout.
    fn home() -> (tempfile::TempDir, File) {
        let home = tempfile::tempdir().unwrap();
        let day = home.path().join("sessions/2026/11/16");
        std::fs::create_dir_all(&day).unwrap();
        let name = format!("rollout-2026-11-16T04-34-58-{ID}.jsonl");
        let file = File::create(day.join(name)).unwrap();
        (home, file)
    }

    fn token_count_line(last: u64, total: u64) -> String {
        format!(
            r#"{{"type":"event_msg","payload":{{"type":"token_count","info":{{"total_token_usage":{{"input_tokens":{total},"output_tokens":9}},"last_token_usage":{{"input_tokens":{last},"cached_input_tokens":5,"output_tokens":2}},"model_context_window":1000}}}}}}"#
        ) + "\n"
    }

    fn usage_record_line(thread: &str, last: u64) -> String {
        format!(
            r#"{{"type":"token_usage_record","payload":{{"thread_id":"{thread}","usage":{{"input_tokens":{last},"output_tokens":2}},"thread_token_usage":{{"input_tokens":{last},"output_tokens":9}}}}}}"#
        ) + "\n"
    }

    fn used(counts: TokenCounts) -> Option<(u64, Option<u64>)> {
        counts
            .context
            .map(|context_usage| (context_usage.used, context_usage.window))
    }

    #[test]
    fn token_counts_are_read_while_the_rollout_grows() {
        let (home, mut file) = home();
        let mut tail = Tail::new(home.path());
        assert_eq!(tail.read_new(ID), TokenCounts::default());
        file.write_all(token_count_line(98, 98).as_bytes()).unwrap();
        let counts = tail.read_new(ID);
        assert_eq!(used(counts), Some((100, Some(1000))));
        assert_eq!(counts.total.unwrap().input_tokens, 98);
        // An incomplete line is not parsed yet.
        let (first, rest) = (
            &token_count_line(198, 300)[..80],
            &token_count_line(198, 300)[80..],
        );
        file.write_all(first.as_bytes()).unwrap();
        assert_eq!(tail.read_new(ID), counts);
        file.write_all(rest.as_bytes()).unwrap();
        assert_eq!(used(tail.read_new(ID)), Some((200, Some(1000))));
        // The other record type for the same counts; it has no window.
        file.write_all(usage_record_line(ID, 298).as_bytes())
            .unwrap();
        assert_eq!(used(tail.read_new(ID)), Some((300, Some(1000))));
        assert_eq!(tail.read_new(ID).total.unwrap().input_tokens, 298);
    }

    #[test]
    fn unreadable_and_foreign_lines_are_skipped() {
        let (home, mut file) = home();
        let mut tail = Tail::new(home.path());
        let long = format!("{{\"token_\": \"{}\"}}\n", "x".repeat(LONGEST_LINE * 3));
        let other = usage_record_line("another", 700);
        for line in [
            long.as_str(),
            &other,
            "not json token_count\n",
            "{\"payload\": {\"usage\": {\"input_tokens\": -1, \"output_tokens\": 1}}, \"token_\": 1}\n",
            "\n",
        ] {
            file.write_all(line.as_bytes()).unwrap();
            assert_eq!(
                tail.read_new(ID),
                TokenCounts::default(),
                "{}",
                &line[..line.len().min(60)]
            );
        }
        file.write_all(b"\xff\xfetoken_\n").unwrap();
        file.write_all(token_count_line(98, 98).as_bytes()).unwrap();
        assert_eq!(used(tail.read_new(ID)), Some((100, Some(1000))));
    }

    #[test]
    fn search_for_a_missing_rollout_is_limited() {
        let empty = tempfile::tempdir().unwrap();
        let mut tail = Tail::new(empty.path());
        for _ in 0..2 * MAX_SEARCHES {
            assert_eq!(tail.read_new(ID), TokenCounts::default());
        }
        assert_eq!(tail.searches, MAX_SEARCHES);
        let (home, mut file) = home();
        let mut tail = Tail::new(home.path());
        file.write_all(token_count_line(98, 98).as_bytes()).unwrap();
        tail.skip(ID);
        assert_eq!(tail.read_new(ID), TokenCounts::default(), "that was before");
        file.write_all(token_count_line(198, 98).as_bytes())
            .unwrap();
        assert_eq!(used(tail.read_new(ID)), Some((200, Some(1000))));
    }
}
