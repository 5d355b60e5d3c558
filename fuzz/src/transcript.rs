//! Properties of `segno_agents::transcript`.

use std::io::Cursor;

use segno_agents::transcript::{Damage, Item, Limits, Relocation, Span, Target, TranscriptFormat};
use segno_core::conversation::turns::Loss;
use segno_core::conversation::{ConversationItem, ItemContent, UNKNOWN_OUTCOME, plain_text};
use segno_core::model::messages::to_messages;
use segno_core::time::Timestamp;

/// Byte strings with a meaning in transcripts.
pub const WORDS: &[&[u8]] = &[
    b"\"type\":\"user\",",
    b"\"parentUuid\":null,",
    b"\"isSidechain\":true,",
    b"\"isCompactSummary\":true,",
    b"\"tool_result\"",
];

const SESSION: &str = "aaaaaaaa-0000-4000-8000-00000000000b";

/// Panics if a property is violated.
pub fn check(native: TranscriptFormat, bytes: &[u8]) {
    // The limits vary with the input, so that they are tested, too.
    let limits = match bytes.len() % 4 {
        0 => Limits {
            line: 600,
            records: 12,
        },
        1 => Limits {
            line: 4096,
            ..Limits::default()
        },
        _ => Limits::default(),
    };
    let (entries, damage) = read(native, bytes, limits);
    check_spans(bytes, &entries, &damage);
    check_repair(native, bytes, limits, &entries);
    check_move(native, bytes);
    check_write(
        &entries
            .into_iter()
            .map(|(entry, _)| entry)
            .collect::<Vec<_>>(),
    );
}

fn read(
    native: TranscriptFormat,
    bytes: &[u8],
    limits: Limits,
) -> (Vec<(ConversationItem, Span)>, Vec<Damage>) {
    let (mut entries, mut damage) = (Vec::new(), Vec::new());
    for item in native
        .read_within(Cursor::new(bytes), limits)
        .expect("reading from memory does not fail")
    {
        match item.expect("reading from memory does not fail") {
            Item::Entry { entry, at } => entries.push((entry, at)),
            Item::Damage(found) => damage.push(found),
        }
    }
    (entries, damage)
}

/// Every span is a line of the file.
fn check_spans(bytes: &[u8], entries: &[(ConversationItem, Span)], damage: &[Damage]) {
    let spans = entries
        .iter()
        .map(|(_, at)| at)
        .chain(damage.iter().map(|found| &found.at));
    for at in spans {
        let (start, length) = (index(at.offset), index(at.length));
        let line = &bytes[start..start + length];
        assert!(!line.contains(&b'\n') && !line.is_empty());
        assert!(start == 0 || bytes[start - 1] == b'\n');
        assert!(start + length == bytes.len() || bytes[start + length] == b'\n');
    }
}

fn index(number: u64) -> usize {
    usize::try_from(number).expect("the length fits into memory")
}

/// A repair keeps everything readable, adds only its own records, and is idempotent.
fn check_repair(
    native: TranscriptFormat,
    bytes: &[u8],
    limits: Limits,
    before: &[(ConversationItem, Span)],
) {
    let mut once = Vec::new();
    let done = native
        .repair_within(Cursor::new(bytes), &mut once, limits)
        .expect("writing to memory does not fail");
    if done.is_unchanged() {
        assert!(once == bytes, "a healthy transcript changed");
    }
    let mut twice = Vec::new();
    let again = native
        .repair_within(Cursor::new(&once), &mut twice, limits)
        .expect("writing to memory does not fail");
    assert!(again.is_unchanged(), "{again:?} after {done:?}");
    assert!(once == twice, "a repaired transcript changed");
    let report = native
        .examine_within(Cursor::new(&once), limits)
        .expect("reading from memory does not fail");
    assert!(!report.is_torn());
    assert_eq!(report.broken().count(), 0);
    let open = report.summary.unanswered.len() as u64 + report.summary.unanswered_unlisted;
    assert_eq!(open, done.left_open);
    let (after, _) = read(native, &once, limits);
    assert_eq!(without_repairs(before), without_repairs(&after));
}

/// The conversation without the records that a repair may add.
fn without_repairs(entries: &[(ConversationItem, Span)]) -> Vec<&ItemContent> {
    let added = |said: &ItemContent| match said {
        ItemContent::Result(answer) => plain_text(&answer.parts) == UNKNOWN_OUTCOME,
        ItemContent::Raw { record } => record == "system/informational",
        _ => false,
    };
    let said = entries.iter().map(|(entry, _)| &entry.content);
    said.filter(|said| !added(said)).collect()
}

/// A move changes no byte that it does not have to.
fn check_move(native: TranscriptFormat, bytes: &[u8]) {
    let rehome = |from: &str, to: &str, session: Option<&str>| {
        let target = Relocation {
            from: from.into(),
            to: to.into(),
            session: session.map(str::to_owned),
        };
        let mut made = Vec::new();
        let moved = native
            .relocate(Cursor::new(bytes), &mut made, &target)
            .expect("writing to memory does not fail");
        (made, moved)
    };
    let (same, _) = rehome("/home/user/project", "/home/user/project", None);
    assert!(same == bytes, "a move to the same place changed something");
    let (made, moved) = rehome("/home/user/project", "/srv/\"x\"", Some(SESSION));
    if moved.folders + moved.sessions == 0 {
        assert!(made == bytes);
    }
    let said = |bytes: &[u8]| {
        let (entries, _) = read(native, bytes, Limits::default());
        let said = entries
            .into_iter()
            .map(|(entry, _)| (entry.when, entry.branch, entry.content));
        said.collect::<Vec<_>>()
    };
    assert_eq!(said(bytes), said(&made));
}

/// Every conversation can be written for every agent, and read back completely.
fn check_write(entries: &[ConversationItem]) {
    let target = Target {
        session: SESSION.into(),
        cwd: "/srv".into(),
        model: "m".into(),
        now: Timestamp(1_794_738_089_007),
    };
    for native in [TranscriptFormat::ClaudeCode, TranscriptFormat::Codex] {
        let mut made = Vec::new();
        native
            .write(entries, &target, &mut made)
            .expect("writing to memory does not fail");
        let (back, damage) = read(native, &made, Limits::default());
        assert_eq!(damage, []);
        let back: Vec<_> = back.into_iter().map(|(entry, _)| entry).collect();
        let (messages, losses) = to_messages(&back);
        for loss in [Loss::Unanswered, Loss::StrayResult, Loss::SideBranch] {
            assert_eq!(losses.count(loss), 0, "{loss:?}");
        }
        let mut again = Vec::new();
        native
            .write(&back, &target, &mut again)
            .expect("writing to memory does not fail");
        let (back, _) = read(native, &again, Limits::default());
        let back: Vec<_> = back.into_iter().map(|(entry, _)| entry).collect();
        assert_eq!(to_messages(&back).0, messages);
    }
}
