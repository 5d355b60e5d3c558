//! Reading transcripts of real runs, and broken ones.

use std::io::Cursor;

use segno_agents::transcript::{Damage, Item, Limits, Reason, TranscriptFormat, VersionSupport};
use segno_core::conversation::{
    AssistantPart, Branch, ConversationItem, ItemContent, Notice, Origin, Outcome, Thread, Tokens,
    plain_text,
};

pub(crate) const CLAUDE: &[(&str, &[u8])] = &[
    (
        "three",
        include_bytes!("../golden/claude_code/transcripts/three.jsonl"),
    ),
    (
        "killed",
        include_bytes!("../golden/claude_code/transcripts/killed.jsonl"),
    ),
    (
        "killed-and-resumed",
        include_bytes!("../golden/claude_code/transcripts/killed-and-resumed.jsonl"),
    ),
    (
        "interrupted",
        include_bytes!("../golden/claude_code/transcripts/interrupted.jsonl"),
    ),
    (
        "forked",
        include_bytes!("../golden/claude_code/transcripts/forked.jsonl"),
    ),
    (
        "sub-agent",
        include_bytes!("../golden/claude_code/transcripts/sub-agent.jsonl"),
    ),
];

pub(crate) const CODEX: &[(&str, &[u8])] = &[
    (
        "three",
        include_bytes!("../golden/codex/transcripts/three.jsonl"),
    ),
    (
        "killed",
        include_bytes!("../golden/codex/transcripts/killed.jsonl"),
    ),
    (
        "interrupted",
        include_bytes!("../golden/codex/transcripts/interrupted.jsonl"),
    ),
];

/// Every golden transcript with its agent.
pub(crate) fn golden() -> impl Iterator<Item = (TranscriptFormat, &'static str, &'static [u8])> {
    let claude = CLAUDE
        .iter()
        .map(|(name, text)| (TranscriptFormat::ClaudeCode, *name, *text));
    claude.chain(
        CODEX
            .iter()
            .map(|(name, text)| (TranscriptFormat::Codex, *name, *text)),
    )
}

pub(crate) fn one(native: TranscriptFormat, name: &str) -> &'static [u8] {
    golden()
        .find(|(of, called, _)| *of == native && *called == name)
        .unwrap()
        .2
}

/// The entries and the damage of a transcript.
pub(crate) fn read(native: TranscriptFormat, text: &[u8]) -> (Vec<ConversationItem>, Vec<Damage>) {
    read_within(native, text, Limits::default())
}

pub(crate) fn read_within(
    native: TranscriptFormat,
    text: &[u8],
    limits: Limits,
) -> (Vec<ConversationItem>, Vec<Damage>) {
    let (mut entries, mut damage) = (Vec::new(), Vec::new());
    for item in native.read_within(Cursor::new(text), limits).unwrap() {
        match item.unwrap() {
            Item::Entry { entry, .. } => entries.push(entry),
            Item::Damage(found) => damage.push(found),
        }
    }
    (entries, damage)
}

/// One line for each entry of the current branch.
fn script(entries: &[ConversationItem]) -> Vec<String> {
    let current = entries
        .iter()
        .filter(|entry| entry.branch == Branch::Current);
    current.flat_map(|entry| line(&entry.content)).collect()
}

fn line(said: &ItemContent) -> Vec<String> {
    match said {
        ItemContent::User {
            origin: Origin::User,
            parts,
        } => vec![format!("user: {}", plain_text(parts))],
        ItemContent::Assistant { parts, .. } => parts
            .iter()
            .map(|part| match part {
                AssistantPart::Text { text } => format!("model: {text}"),
                AssistantPart::Thinking { text, seal } => {
                    format!("thinks: {text} ({})", seal.as_deref().unwrap_or("open"))
                }
                AssistantPart::Call(call) => format!("calls: {} {}", call.name, call.input),
                AssistantPart::Raw { value } => format!("raw: {value}"),
            })
            .collect(),
        ItemContent::Result(answer) => {
            let text = plain_text(&answer.parts);
            let end = text.trim_end().lines().last().unwrap_or_default();
            vec![format!("tool, {:?}: {end}", answer.outcome)]
        }
        ItemContent::Notice { notice, text } => vec![format!("{notice:?}: {text}")],
        ItemContent::Compaction { summary, .. } => vec![format!("summary: {summary:?}")],
        ItemContent::User { .. } | ItemContent::Usage { .. } | ItemContent::Raw { .. } => vec![],
    }
}

#[test]
fn claude_code_run_is_read() {
    let (entries, damage) = read(
        TranscriptFormat::ClaudeCode,
        one(TranscriptFormat::ClaudeCode, "three"),
    );
    assert_eq!(damage, []);
    assert_eq!(
        script(&entries),
        [
            "user: t [[script:three]]",
            "thinks: A file is needed. (c2NyaXB0ZWQ=)",
            "model: I will create the file.",
            r#"calls: Write {"content":"alpha\nbeta\n","file_path":"/home/user/project/hello.txt"}"#,
            "tool, Succeeded: File created successfully at: /home/user/project/hello.txt (file state is current in your context — no need to Read it back)",
            "model: Now I edit it.",
            r#"calls: Read {"file_path":"/home/user/project/hello.txt"}"#,
            "tool, Succeeded: 3",
            r#"calls: Edit {"file_path":"/home/user/project/hello.txt","new_string":"gamma","old_string":"beta","replace_all":false}"#,
            "tool, Succeeded: The file /home/user/project/hello.txt has been updated successfully. (file state is current in your context — no need to Read it back)",
            "model: Check it in the shell.",
            r#"calls: Bash {"command":"cat hello.txt && pwd","description":"scripted command"}"#,
            "tool, Succeeded: /home/user/project",
            "model: Done: hello.txt now says alpha, gamma.",
        ]
    );
}

#[test]
fn codex_run_is_read() {
    let (entries, damage) = read(
        TranscriptFormat::Codex,
        one(TranscriptFormat::Codex, "three"),
    );
    assert_eq!(damage, []);
    assert_eq!(
        script(&entries),
        [
            "user: t [[script:three]]",
            "thinks: A file is needed. (c2NyaXB0ZWQ=)",
            "model: I will create the file.",
            r#"calls: apply_patch "*** Begin Patch\n*** Add File: hello.txt\n+alpha\n+beta\n*** End Patch\n""#,
            "tool, Unknown: A hello.txt",
            "model: Now I edit it.",
            r#"calls: exec_command {"cmd":"cat /home/user/project/hello.txt"}"#,
            "tool, Unknown: beta",
            r#"calls: apply_patch "*** Begin Patch\n*** Update File: hello.txt\n@@\n-beta\n+gamma\n*** End Patch\n""#,
            "tool, Unknown: M hello.txt",
            "model: Check it in the shell.",
            r#"calls: exec_command {"cmd":"cat hello.txt && pwd"}"#,
            "tool, Unknown: /home/user/project",
            "model: Done: hello.txt now says alpha, gamma.",
        ]
    );
    let usage = entries.iter().rev().find_map(|entry| match entry.content {
        ItemContent::Usage { last, total } => Some((last, total)),
        _ => None,
    });
    let tokens = |input, output| Tokens {
        input,
        output,
        ..Tokens::default()
    };
    assert_eq!(usage, Some((tokens(10_158, 20), Some(tokens(49_249, 220)))));
}

/// What the model was sent after two resumes at once: the request contains the branch of B.
#[test]
fn branch_with_the_newest_leaf_is_current() {
    let (entries, damage) = read(
        TranscriptFormat::ClaudeCode,
        one(TranscriptFormat::ClaudeCode, "forked"),
    );
    assert_eq!(damage, []);
    let said = script(&entries);
    let prompts: Vec<_> = said
        .iter()
        .filter(|line| line.starts_with("user:"))
        .collect();
    assert_eq!(
        prompts,
        [
            "user: Make [[script:three]]",
            "user: B [[script:three]]",
            "user: after [[script:say]]"
        ]
    );
    let side: Vec<_> = entries
        .iter()
        .filter(|entry| entry.branch == Branch::Side)
        .collect();
    assert_eq!(side.len(), 14);
    assert!(
        matches!(&side[0].content, ItemContent::User { parts, .. } if plain_text(parts).starts_with("A "))
    );
}

#[test]
fn interruption_is_a_notice_and_no_prompt() {
    let (entries, _) = read(
        TranscriptFormat::ClaudeCode,
        one(TranscriptFormat::ClaudeCode, "interrupted"),
    );
    let notices = entries.iter().filter_map(|entry| match &entry.content {
        ItemContent::Notice { notice, .. } => Some(*notice),
        _ => None,
    });
    let notices: Vec<_> = notices.collect();
    assert_eq!(notices, [Notice::Interrupted]);
    let failed = entries.iter().any(
        |entry| matches!(&entry.content, ItemContent::Result(answer) if answer.outcome == Outcome::Failed),
    );
    assert!(failed);
    let (entries, _) = read(
        TranscriptFormat::Codex,
        one(TranscriptFormat::Codex, "interrupted"),
    );
    assert!(entries.iter().any(|entry| matches!(&entry.content, ItemContent::Notice { notice: Notice::Interrupted, text } if text == "interrupted")));
    assert!(
        script(&entries)
            .iter()
            .all(|line| !line.contains("turn_aborted"))
    );
}

#[test]
fn a_sub_agent_has_its_own_thread() {
    let (entries, damage) = read(
        TranscriptFormat::ClaudeCode,
        one(TranscriptFormat::ClaudeCode, "sub-agent"),
    );
    assert_eq!(damage, []);
    let thread = Thread::Agent("a4d8174631386ba1f".into());
    assert!(
        entries
            .iter()
            .all(|entry| entry.thread == thread && entry.branch == Branch::Current)
    );
    assert_eq!(script(&entries).len(), 5);
}

#[test]
fn results_of_parallel_calls_are_on_the_branch() {
    let record = |uuid: &str, parent: &str, rest: &str| {
        let parent = if parent.is_empty() {
            "null".into()
        } else {
            format!("\"{parent}\"")
        };
        format!(
            "{{\"parentUuid\":{parent},\"uuid\":\"{uuid}\",\"timestamp\":\"2026-11-15T07:00:00.000Z\",{rest}}}\n"
        )
    };
    let call = |id: &str| {
        format!(
            r#""type":"assistant","message":{{"id":"m","content":[{{"type":"tool_use","id":"{id}","name":"Bash","input":{{}}}}]}}"#
        )
    };
    let result = |id: &str| {
        format!(
            r#""type":"user","message":{{"content":[{{"type":"tool_result","tool_use_id":"{id}","content":"x"}}]}}"#
        )
    };
    let text = [
        record("u", "", r#""type":"user","message":{"content":"go"}"#),
        record("a", "u", &call("1")),
        record("b", "a", &call("2")),
        record("ra", "a", &result("1")),
        record("rb", "b", &result("2")),
        record(
            "end",
            "ra",
            r#""type":"assistant","message":{"id":"n","content":"done"}"#,
        ),
    ]
    .concat();
    let (entries, damage) = read(TranscriptFormat::ClaudeCode, text.as_bytes());
    assert_eq!(damage, []);
    assert_eq!(entries.len(), 6);
    assert!(
        entries.iter().all(|entry| entry.branch == Branch::Current),
        "{entries:#?}"
    );
}

#[test]
fn broken_lines_are_reported_and_the_rest_is_read() {
    let deep = format!("{{\"x\":{}1{}}}", "[".repeat(5000), "]".repeat(5000));
    let bad: [(&[u8], Reason); 8] = [
        (b"garbage", Reason::NotJson),
        (b"{\"type\":\"us", Reason::NotJson),
        (b"{\"type\":\"user\xC3\x28\"}", Reason::NotUtf8),
        (b"\0\0\0\0", Reason::Nul),
        (b"17", Reason::NotAnObject),
        (deep.as_bytes(), Reason::TooDeep),
        (
            b"{\"type\":\"user\",\"type\":\"assistant\"}",
            Reason::DuplicateKey,
        ),
        (
            b"{\"type\":\"compacted\",\"payload\":[]}",
            Reason::Shape("payload"),
        ),
    ];
    let lines: Vec<_> = one(TranscriptFormat::Codex, "three")
        .split_inclusive(|&byte| byte == b'\n')
        .collect();
    let (whole, _) = read(TranscriptFormat::Codex, &lines.concat());
    for (line, reason) in bad {
        let mut text = lines[..9].concat();
        let offset = text.len() as u64;
        text.extend_from_slice(line);
        text.push(b'\n');
        text.extend_from_slice(&lines[9..].concat());
        let (mut entries, damage) = read(TranscriptFormat::Codex, &text);
        assert_eq!(damage.len(), 1, "{reason}: {damage:?}");
        let at = damage[0].at;
        assert_eq!(damage[0].reason, reason);
        assert_eq!(
            (at.line, at.offset, at.length),
            (10, offset, line.len() as u64)
        );
        entries.retain(|entry| !matches!(&entry.content, ItemContent::Raw { record } if record == "unreadable" || record == "compacted"));
        assert_eq!(entries, whole, "{reason}");
    }
}

#[test]
fn unexpected_shapes_are_reported() {
    let claude = |rest: &str| format!("{{\"uuid\":\"u\",{rest}}}\n");
    for (rest, field) in [
        (r#""type":"user","message":7"#, "message"),
        (r#""type":"user","message":{"content":7}"#, "content"),
        (r#""type":"user","message":{"content":[7]}"#, "content"),
        (
            r#""type":"user","message":{"content":[{"type":"tool_result","tool_use_id":7}]}"#,
            "tool_use_id",
        ),
        (
            r#""type":"user","message":{"content":[{"type":"tool_result","tool_use_id":"a","is_error":"no"}]}"#,
            "is_error",
        ),
        (
            r#""type":"assistant","message":{"content":[{"type":"tool_use","id":"a","name":"b"}]}"#,
            "input",
        ),
        (
            r#""type":"assistant","message":{"content":[],"usage":{"input_tokens":-1}}"#,
            "usage",
        ),
    ] {
        let (entries, damage) = read(TranscriptFormat::ClaudeCode, claude(rest).as_bytes());
        assert_eq!(damage[0].reason, Reason::Shape(field), "{rest}");
        assert!(
            matches!(
                entries[..],
                [ConversationItem {
                    content: ItemContent::Raw { .. },
                    ..
                }]
            ),
            "{rest}"
        );
    }
    let (entries, damage) = read(
        TranscriptFormat::ClaudeCode,
        b"{\"type\":\"of-tomorrow\"}\n",
    );
    assert_eq!(damage, []);
    assert!(matches!(&entries[0].content, ItemContent::Raw { record } if record == "of-tomorrow"));
}

#[test]
fn records_before_a_broken_line_are_kept() {
    let text = one(TranscriptFormat::ClaudeCode, "three");
    let mut lines: Vec<_> = text.split_inclusive(|&byte| byte == b'\n').collect();
    let call = lines
        .iter()
        .position(|line| line.windows(10).any(|w| w == b"\"tool_use\""))
        .unwrap();
    lines[call] = b"{\"type\":\"assi\n";
    let (entries, damage) = read(TranscriptFormat::ClaudeCode, &lines.concat());
    let reasons: Vec<_> = damage.iter().map(|damage| damage.reason).collect();
    assert_eq!(reasons, [Reason::NotJson, Reason::LostParent]);
    assert!(entries.iter().all(|entry| entry.branch == Branch::Current));
}

#[test]
fn branches_are_unknown_beyond_the_record_limit() {
    let limits = Limits {
        records: 10,
        ..Limits::default()
    };
    let (entries, _) = read_within(
        TranscriptFormat::ClaudeCode,
        one(TranscriptFormat::ClaudeCode, "three"),
        limits,
    );
    assert!(entries.iter().any(|entry| entry.branch == Branch::Unknown));
    assert!(entries.iter().all(|entry| entry.branch != Branch::Side));
}

#[test]
fn untested_version_is_read_like_the_newest() {
    let text = String::from_utf8(one(TranscriptFormat::ClaudeCode, "three").to_vec()).unwrap();
    let newer = text.replace("2.1.325", "3.0.0");
    for (text, adapted) in [
        (text, VersionSupport::Known("2.1.325".into())),
        (newer, VersionSupport::Untested("3.0.0".into())),
        ("{}\n".into(), VersionSupport::Unreported),
    ] {
        let mut reader = TranscriptFormat::ClaudeCode
            .read(Cursor::new(text))
            .unwrap();
        assert!(reader.by_ref().all(|item| item.is_ok()));
        assert_eq!(reader.adapted(), adapted);
    }
}
