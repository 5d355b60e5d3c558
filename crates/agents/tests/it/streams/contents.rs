//! What Codex reports, compared with its rollouts by content.

use std::io::Cursor;
use std::path::PathBuf;
use std::sync::Mutex;

use segno_agents::transcript::TranscriptFormat;
use segno_core::agent::{Event, Listener};
use segno_core::cli_agent::CliAgentKind;
use segno_core::conversation::ConversationItem;
use segno_core::conversation::contents::{Content, compare};

use super::{fake, way};
use crate::fixture::{Fixture, read, runtime};

/// The reported items.
#[derive(Default)]
struct ItemLog(Mutex<Vec<ConversationItem>>);

impl Listener for ItemLog {
    fn on_event(&self, event: Event<'_>) {
        if let Event::Item(item) = event {
            self.0.lock().unwrap().push(item.clone());
        }
    }
}

fn golden(name: &str) -> PathBuf {
    let folder = PathBuf::from(env!("CARGO_MANIFEST_DIR")).join("tests/golden/codex/0.166.0");
    folder.join(name)
}

/// What a recorded run reported.
fn reported(name: &str) -> Vec<Option<Content>> {
    let path = golden(&format!("{name}.stream.jsonl"));
    let (fixture, log) = (Fixture::new(), ItemLog::default());
    let script = format!("cat > /dev/null; cat '{}'", path.display());
    let codex = fake(&fixture, CliAgentKind::Codex, &script);
    let way = way(CliAgentKind::Codex);
    let _ = runtime().block_on(codex.ask(fixture.request(), way, &log));
    let items = log.0.into_inner().unwrap();
    TranscriptFormat::Codex.reported_contents(&items)
}

fn contents(rollout: &[u8]) -> Vec<Content> {
    let contents = TranscriptFormat::Codex.contents(Cursor::new(rollout));
    contents.unwrap().unwrap()
}

#[test]
fn rollouts_lack_nothing_that_was_reported() {
    for name in [
        "normal",
        "killed",
        "resumed",
        "sigint",
        "sigterm",
        "compacted",
        "limited",
        "too-long",
    ] {
        let rollout = read(golden(&format!("{name}.rollout.jsonl")));
        let reported = reported(name);
        assert!(reported.iter().any(Option::is_some), "{name}");
        let difference = compare(&contents(&rollout), &[], &reported);
        assert!(!difference.missing.contains(&true), "{name} {difference:?}");
    }
}

#[test]
fn cut_rollout_lacks_exactly_what_was_cut() {
    let rollout = read(golden("normal.rollout.jsonl"));
    let reported = reported("normal");
    let all = contents(&rollout).len();
    let lines: Vec<&[u8]> = rollout.split_inclusive(|byte| *byte == b'\n').collect();
    let mut lacking = Vec::new();
    for end in 0..=lines.len() {
        let known = contents(&lines[..end].concat());
        let difference = compare(&known, &[], &reported);
        let missing = difference.missing.iter().filter(|missing| **missing);
        assert_eq!(missing.count(), all - known.len(), "cut after line {end}");
        lacking.push(all - known.len());
    }
    lacking.dedup();
    // Nine texts, nine calls and nine results.
    assert_eq!(lacking, (0..=27).rev().collect::<Vec<_>>());
}
