//! The figures that Codex writes into its rollout while it works. On its stdout it tells them only when
//! a turn is over, which may be hours later.
//!
//! A look reads what was added since the last one, within bounds, and believes whole lines alone. What
//! cannot be read is passed over: the figures are worth a look, and no failure.
#![expect(
    clippy::disallowed_methods,
    reason = "a rollout lies where Codex puts it, and is read while it grows"
)]

use std::fs::File;
use std::io::{Read, Seek, SeekFrom};
use std::path::{Path, PathBuf};

use segno_core::companion::Gauge;
use segno_core::usage::Usage;
use serde_json::Value;

use crate::record;
use crate::transcript::{Native, Object, parse, text};

/// How often a rollout is looked for that is not there yet.
const MOST_SEARCHES: u32 = 20;
/// How much is read in one look.
const MOST: usize = 8 << 20;
/// Lines with figures are short.
const LONGEST_LINE: usize = 64 << 10;

/// What a thread has taken, as far as its rollout tells.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub(super) struct Figures {
    /// How full the model's context is.
    pub(super) context: Option<Gauge>,
    /// What the whole thread has taken.
    pub(super) total: Option<Usage>,
}

/// The end of a rollout that grows.
pub(super) struct Tail {
    home: PathBuf,
    searches: u32,
    file: Option<File>,
    /// A line whose end is not there yet; `None` while one is passed over that is too long.
    line: Option<Vec<u8>>,
    window: Option<u64>,
    figures: Figures,
}

impl Tail {
    /// Of a thread that has begun, or will: Codex keeps it below `home`.
    pub(super) fn new(home: &Path) -> Self {
        Self {
            home: home.to_owned(),
            searches: 0,
            file: None,
            line: Some(Vec::new()),
            window: None,
            figures: Figures::default(),
        }
    }

    /// Passes over what a thread has already.
    pub(super) fn skip(&mut self, id: &str) {
        self.open(id);
        if let Some(file) = &mut self.file
            && file.seek(SeekFrom::End(0)).is_err()
        {
            self.file = None;
        }
    }

    /// The newest figures of a thread.
    pub(super) fn look(&mut self, id: &str) -> Figures {
        self.open(id);
        let Some(file) = &mut self.file else {
            return self.figures;
        };
        let mut added = Vec::new();
        // What comes after it is read by the next look.
        let read = file.take(MOST as u64).read_to_end(&mut added);
        if read.is_ok() {
            self.take(&added, id);
        }
        self.figures
    }

    fn open(&mut self, id: &str) {
        if self.file.is_none() && self.searches < MOST_SEARCHES {
            self.searches += 1;
            let path = record::find(Native::Codex, &self.home, id);
            self.file = path.and_then(|path| File::open(path).ok());
        }
    }

    /// What was read so far.
    #[cfg(feature = "probe")]
    pub(super) fn figures(&self) -> Figures {
        self.figures
    }

    pub(super) fn take(&mut self, added: &[u8], id: &str) {
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
                self.count(&line, id);
            }
        }
    }

    fn count(&mut self, line: &[u8], id: &str) {
        let speaks = std::str::from_utf8(line)
            .is_ok_and(|line| line.contains("token_") || line.contains("model_context_window"));
        let Some(record) = speaks.then(|| parse(line).ok()).flatten() else {
            return;
        };
        let Some(payload) = record.get("payload").and_then(Value::as_object) else {
            return;
        };
        // What an agent below this one takes is not in this one's context.
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
        let used = last.and_then(|last| Some(taken(&last)?.tokens()));
        let used = used.or_else(|| Some(self.figures.context?.used));
        self.figures = Figures {
            context: used.map(|used| Gauge {
                used,
                window: self.window,
            }),
            total: total.and_then(|total| taken(&total)).or(self.figures.total),
        };
    }
}

/// What was taken: the whole input, with what came from a cache, and the output.
fn taken(usage: &Object) -> Option<Usage> {
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

    /// A home with an empty rollout.
    fn home() -> (tempfile::TempDir, File) {
        let home = tempfile::tempdir().unwrap();
        let day = home.path().join("sessions/2026/11/16");
        std::fs::create_dir_all(&day).unwrap();
        let name = format!("rollout-2026-11-16T04-34-58-{ID}.jsonl");
        let file = File::create(day.join(name)).unwrap();
        (home, file)
    }

    fn counted(last: u64, total: u64) -> String {
        format!(
            r#"{{"type":"event_msg","payload":{{"type":"token_count","info":{{"total_token_usage":{{"input_tokens":{total},"output_tokens":9}},"last_token_usage":{{"input_tokens":{last},"cached_input_tokens":5,"output_tokens":2}},"model_context_window":1000}}}}}}"#
        ) + "\n"
    }

    fn recorded(thread: &str, last: u64) -> String {
        format!(
            r#"{{"type":"token_usage_record","payload":{{"thread_id":"{thread}","usage":{{"input_tokens":{last},"output_tokens":2}},"thread_token_usage":{{"input_tokens":{last},"output_tokens":9}}}}}}"#
        ) + "\n"
    }

    fn used(figures: Figures) -> Option<(u64, Option<u64>)> {
        figures.context.map(|gauge| (gauge.used, gauge.window))
    }

    #[test]
    fn the_newest_figures_are_read_while_the_rollout_grows() {
        let (home, mut file) = home();
        let mut tail = Tail::new(home.path());
        assert_eq!(tail.look(ID), Figures::default());
        file.write_all(counted(98, 98).as_bytes()).unwrap();
        let figures = tail.look(ID);
        assert_eq!(used(figures), Some((100, Some(1000))));
        assert_eq!(figures.total.unwrap().input_tokens, 98);
        // Half a line says nothing yet.
        let (first, rest) = (&counted(198, 300)[..80], &counted(198, 300)[80..]);
        file.write_all(first.as_bytes()).unwrap();
        assert_eq!(tail.look(ID), figures);
        file.write_all(rest.as_bytes()).unwrap();
        assert_eq!(used(tail.look(ID)), Some((200, Some(1000))));
        // The other record of the same, which has no window of its own.
        file.write_all(recorded(ID, 298).as_bytes()).unwrap();
        assert_eq!(used(tail.look(ID)), Some((300, Some(1000))));
        assert_eq!(tail.look(ID).total.unwrap().input_tokens, 298);
    }

    #[test]
    fn what_cannot_be_read_or_is_of_another_thread_is_passed_over() {
        let (home, mut file) = home();
        let mut tail = Tail::new(home.path());
        let long = format!("{{\"token_\": \"{}\"}}\n", "x".repeat(LONGEST_LINE * 3));
        let other = recorded("another", 700);
        for line in [
            long.as_str(),
            &other,
            "not json token_count\n",
            "{\"payload\": {\"usage\": {\"input_tokens\": -1, \"output_tokens\": 1}}, \"token_\": 1}\n",
            "\n",
        ] {
            file.write_all(line.as_bytes()).unwrap();
            assert_eq!(
                tail.look(ID),
                Figures::default(),
                "{}",
                &line[..line.len().min(60)]
            );
        }
        file.write_all(b"\xff\xfetoken_\n").unwrap();
        file.write_all(counted(98, 98).as_bytes()).unwrap();
        assert_eq!(used(tail.look(ID)), Some((100, Some(1000))));
    }

    #[test]
    fn a_rollout_that_appears_later_is_found_and_one_that_never_does_is_let_be() {
        let empty = tempfile::tempdir().unwrap();
        let mut tail = Tail::new(empty.path());
        for _ in 0..50 {
            assert_eq!(tail.look(ID), Figures::default());
        }
        assert_eq!(tail.searches, MOST_SEARCHES);
        let (home, mut file) = home();
        let mut tail = Tail::new(home.path());
        file.write_all(counted(98, 98).as_bytes()).unwrap();
        tail.skip(ID);
        assert_eq!(tail.look(ID), Figures::default(), "that was before");
        file.write_all(counted(198, 98).as_bytes()).unwrap();
        assert_eq!(used(tail.look(ID)), Some((200, Some(1000))));
    }
}
