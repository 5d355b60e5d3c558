//! What a repair changes, and what it does not.

use std::io::Cursor;

use proptest::prelude::*;
use segno_agents::transcript::{Limits, Reason, Repair, TranscriptFormat};
use segno_core::conversation::{
    Branch, ConversationItem, ItemContent, Outcome, UNKNOWN_OUTCOME, plain_text,
};

use crate::transcripts_reading::{golden, one, read};

pub(crate) fn repair(native: TranscriptFormat, text: &[u8]) -> (Vec<u8>, Repair) {
    let mut repaired = Vec::new();
    let done = native.repair(Cursor::new(text), &mut repaired).unwrap();
    (repaired, done)
}

/// Whether the entry answers a call with an unknown outcome.
fn closes(entry: &ConversationItem) -> bool {
    matches!(&entry.content, ItemContent::Result(answer) if plain_text(&answer.parts) == UNKNOWN_OUTCOME)
}

/// Invariants of every repair.
fn sound(native: TranscriptFormat, repaired: &[u8]) {
    let (again, done) = repair(native, repaired);
    assert!(done.is_unchanged(), "{done:?}");
    assert!(
        again == repaired,
        "a repair of a repaired transcript changed it"
    );
    let report = native.examine(Cursor::new(repaired)).unwrap();
    assert_eq!(report.broken().count(), 0);
    assert!(!report.is_torn());
    assert_eq!(report.summary.unanswered.len() as u64, done.left_open);
}

#[test]
fn healthy_transcript_is_unchanged() {
    for (native, name, text) in golden().filter(|(_, name, _)| *name != "killed") {
        let (repaired, done) = repair(native, text);
        assert!(done.is_unchanged(), "{name}: {done:?}");
        assert!(repaired == text, "{name} changed");
    }
}

#[test]
fn open_call_gets_an_unknown_outcome() {
    for native in [TranscriptFormat::ClaudeCode, TranscriptFormat::Codex] {
        let text = one(native, "killed");
        let (repaired, done) = repair(native, text);
        assert_eq!(done.closed.len(), 1);
        let (entries, damage) = read(native, &repaired);
        assert_eq!(damage, []);
        let answer = entries.iter().find(|entry| closes(entry)).unwrap();
        assert_eq!(answer.branch, Branch::Current);
        let ItemContent::Result(said) = &answer.content else {
            unreachable!()
        };
        assert_eq!(said.id, done.closed[0].id);
        if native == TranscriptFormat::ClaudeCode {
            assert_eq!(said.outcome, Outcome::Failed);
        }
        sound(native, &repaired);
        // Every original line is still there, in its order.
        let mut lines = repaired.split_inclusive(|&byte| byte == b'\n');
        assert!(
            text.split_inclusive(|&byte| byte == b'\n')
                .all(|old| lines.any(|new| new == old))
        );
    }
}

#[test]
fn inserted_record_matches_its_neighbours() {
    let (repaired, _) = repair(
        TranscriptFormat::ClaudeCode,
        one(TranscriptFormat::ClaudeCode, "killed"),
    );
    let lines: Vec<_> = repaired.split(|&byte| byte == b'\n').collect();
    let added = lines
        .iter()
        .position(|line| line.windows(15).any(|w| w == b"outcome of this"))
        .unwrap();
    assert!(lines[added].starts_with(b"{\"parentUuid\":"));
    let [call, answer] = [added - 1, added]
        .map(|at| serde_json::from_slice::<serde_json::Value>(lines[at]).unwrap());
    assert_eq!(answer["parentUuid"], call["uuid"]);
    for field in [
        "sessionId",
        "cwd",
        "version",
        "timestamp",
        "isSidechain",
        "userType",
        "gitBranch",
    ] {
        assert_eq!(answer[field], call[field], "{field}");
    }
    let (repaired, _) = repair(
        TranscriptFormat::Codex,
        one(TranscriptFormat::Codex, "killed"),
    );
    let lines: Vec<_> = repaired
        .trim_ascii_end()
        .split(|&byte| byte == b'\n')
        .collect();
    let ordinals = lines.iter().map(|line| {
        serde_json::from_slice::<serde_json::Value>(line).unwrap()["ordinal"]
            .as_u64()
            .unwrap()
    });
    assert!(ordinals.is_sorted_by(|a, b| a < b));
}

#[test]
fn dropped_line_keeps_the_history_linked() {
    let text = one(TranscriptFormat::ClaudeCode, "three");
    let lines: Vec<_> = text.split_inclusive(|&byte| byte == b'\n').collect();
    let (whole, _) = read(TranscriptFormat::ClaudeCode, text);
    for broken in 0..lines.len() {
        let mut with = lines.clone();
        with[broken] = b"\x00garbage\n";
        let (repaired, done) = repair(TranscriptFormat::ClaudeCode, &with.concat());
        assert_eq!(done.dropped.len(), 1);
        assert_eq!(done.dropped[0].reason, Reason::Nul);
        assert_eq!(done.dropped[0].at.line, broken as u64 + 1);
        sound(TranscriptFormat::ClaudeCode, &repaired);
        let (entries, damage) = read(TranscriptFormat::ClaudeCode, &repaired);
        assert_eq!(damage, [], "line {broken}");
        assert!(entries.iter().all(|entry| entry.branch == Branch::Current));
        let kept = entries.iter().filter(|entry| whole.contains(entry)).count();
        assert!(
            kept >= whole.len() - 1,
            "line {broken}: {kept} of {}",
            whole.len()
        );
    }
}

/// Claude Code resumes the newest leaf, so a clock that jumped must not make the inserted result
/// one.
#[test]
fn closing_an_old_call_does_not_change_the_branch() {
    let record = |uuid: &str, parent: &str, year: &str, rest: &str| {
        format!(
            "{{\"parentUuid\":{parent},\"uuid\":\"{uuid}\",\"timestamp\":\"{year}-11-15T07:00:00.000Z\",{rest}}}\n"
        )
    };
    let call = r#""type":"assistant","message":{"id":"m","content":[{"type":"tool_use","id":"1","name":"Bash","input":{}}]}"#;
    let text = [
        record("a", "null", "2099", call),
        record(
            "b",
            "\"a\"",
            "2026",
            r#""type":"user","message":{"content":"go on"}"#,
        ),
        record(
            "c",
            "\"b\"",
            "2026",
            r#""type":"assistant","message":{"id":"n","content":"done"}"#,
        ),
    ]
    .concat();
    let (repaired, done) = repair(TranscriptFormat::ClaudeCode, text.as_bytes());
    assert_eq!(done.closed.len(), 1);
    sound(TranscriptFormat::ClaudeCode, &repaired);
    let (entries, _) = read(TranscriptFormat::ClaudeCode, &repaired);
    assert!(
        entries.iter().all(|entry| entry.branch == Branch::Current),
        "{entries:#?}"
    );
    assert_eq!(entries.len(), 4);
}

#[test]
fn call_before_an_odd_record_stays_open() {
    let text = String::from_utf8(one(TranscriptFormat::ClaudeCode, "sub-agent").to_vec()).unwrap();
    let odd = text.replace("\"is_error\":false", "\"is_error\":\"no\"");
    assert_ne!(odd, text);
    let (repaired, done) = repair(TranscriptFormat::ClaudeCode, odd.as_bytes());
    assert_eq!((done.closed.len(), done.left_open), (0, 1));
    assert!(repaired == odd.as_bytes());
}

#[test]
fn duplicate_record_is_closed_once() {
    let text = one(TranscriptFormat::ClaudeCode, "forked");
    let lines: Vec<_> = text.split_inclusive(|&byte| byte == b'\n').collect();
    for twice in 0..lines.len() {
        let mut with = lines.clone();
        with.push(lines[twice]);
        let (repaired, done) = repair(TranscriptFormat::ClaudeCode, &with.concat());
        assert!(done.is_unchanged(), "line {twice}: {done:?}");
        assert!(repaired == with.concat());
    }
}

#[test]
fn replacement_record_has_the_right_parent() {
    let text = one(TranscriptFormat::ClaudeCode, "killed-and-resumed");
    let lines: Vec<_> = text.split_inclusive(|&byte| byte == b'\n').collect();
    // A record that occurs again later counts there, so its predecessor precedes the inserted
    // record.
    for (broken, twice) in (1..lines.len()).map(|line| (line, line - 1)) {
        let mut with = lines.clone();
        with[broken] = b"garbage\n";
        with.push(lines[twice]);
        let (repaired, _) = repair(TranscriptFormat::ClaudeCode, &with.concat());
        sound(TranscriptFormat::ClaudeCode, &repaired);
    }
}

#[test]
fn removed_records_need_no_repair() {
    let text = one(TranscriptFormat::ClaudeCode, "three");
    let lines = text.split_inclusive(|&byte| byte == b'\n');
    let cut: Vec<u8> = lines
        .filter(|line| !line.windows(12).any(|w| w == b"\"attachment\""))
        .flatten()
        .copied()
        .collect();
    let (repaired, done) = repair(TranscriptFormat::ClaudeCode, &cut);
    assert!(done.is_unchanged(), "{done:?}");
    assert!(repaired == cut);
}

#[test]
fn call_before_a_too_long_line_stays_open() {
    let limits = Limits {
        line: 4096,
        ..Limits::default()
    };
    for native in [TranscriptFormat::ClaudeCode, TranscriptFormat::Codex] {
        let mut text = one(native, "killed").to_vec();
        let long = format!("{{\"type\":\"user\",\"x\":\"{}\"}}", "x".repeat(10_000));
        text.extend_from_slice(long.as_bytes());
        let mut repaired = Vec::new();
        let done = native
            .repair_within(Cursor::new(&text), &mut repaired, limits)
            .unwrap();
        assert_eq!((done.closed.len(), done.left_open), (0, 1));
        assert!(done.ended);
        text.push(b'\n');
        assert!(repaired == text);
    }
}

/// A kill can leave any prefix of the file. Of the longer ones, every thirteenth is tried.
#[test]
fn every_prefix_is_repaired_to_a_conversation_prefix() {
    for (native, name, text) in golden().filter(|(_, name, _)| *name != "forked") {
        let (whole, _) = read(native, text);
        let step = if text.len() < 10_000 { 1 } else { 13 };
        for cut in (0..=text.len()).step_by(step) {
            let (repaired, _) = repair(native, &text[..cut]);
            let (entries, damage) = read(native, &repaired);
            assert_eq!(damage, [], "{name} cut at {cut}");
            let said: Vec<_> = entries.iter().filter(|entry| !closes(entry)).collect();
            assert!(said.len() <= whole.len());
            assert!(
                said.iter()
                    .zip(&whole)
                    .all(|(a, b)| a.content == b.content && a.id == b.id),
                "{name} cut at {cut}"
            );
            if cut % 97 == 0 || text[..cut].ends_with(b"\n") {
                sound(native, &repaired);
            }
        }
    }
}

#[test]
fn every_prefix_of_a_forked_transcript_is_repaired() {
    let text = one(TranscriptFormat::ClaudeCode, "forked");
    for cut in (0..=text.len()).step_by(131) {
        let (repaired, _) = repair(TranscriptFormat::ClaudeCode, &text[..cut]);
        sound(TranscriptFormat::ClaudeCode, &repaired);
    }
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(64))]

    #[test]
    fn random_bytes_yield_no_entries(bytes in proptest::collection::vec(any::<u8>(), 0..2000)) {
        for native in [TranscriptFormat::ClaudeCode, TranscriptFormat::Codex] {
            let (entries, _) = read(native, &bytes);
            let raw = entries.iter().all(|entry| matches!(entry.content, ItemContent::Raw { .. }));
            prop_assert!(raw);
            let (repaired, _) = repair(native, &bytes);
            sound(native, &repaired);
        }
    }

    #[test]
    fn repair_keeps_its_invariants(
        which in 0..9_usize,
        hits in proptest::collection::vec((any::<prop::sample::Index>(), any::<u8>()), 1..12),
    ) {
        let (native, _, text) = golden().nth(which).unwrap();
        let mut text = text.to_vec();
        for (at, byte) in hits {
            let at = at.index(text.len());
            text[at] = byte;
        }
        let (repaired, _) = repair(native, &text);
        sound(native, &repaired);
    }
}
