//! Writing a conversation of one agent as the transcript of another.

use std::io;

use proptest::prelude::*;
use segno_agents::transcript::{Target, TranscriptFormat, Written};
use segno_core::conversation::turns::{Loss, Losses, turns};
use segno_core::conversation::{
    Answer, AssistantPart, Branch, ConversationItem, Image, ItemContent, Origin, Outcome, Part,
};
use segno_core::model::Message;
use segno_core::model::messages::to_messages;
use segno_core::time::Timestamp;
use segno_core::tool::ToolCall;
use serde_json::json;

use crate::transcripts_reading::{golden, one, read};
use crate::transcripts_repairing::repair;

fn target() -> Target {
    Target {
        session: "aaaaaaaa-0000-4000-8000-00000000000b".into(),
        cwd: "/home/user/project".into(),
        model: "model-x".into(),
        now: Timestamp(1_794_738_089_007),
    }
}

fn write(native: TranscriptFormat, entries: &[ConversationItem]) -> (Vec<u8>, Written) {
    let mut text = Vec::new();
    let written = native.write(entries, &target(), &mut text).unwrap();
    (text, written)
}

/// Invariants of every written transcript.
fn taken_whole(native: TranscriptFormat, text: &[u8]) -> Vec<ConversationItem> {
    let (entries, damage) = read(native, text);
    assert_eq!(damage, []);
    assert!(entries.iter().all(|entry| entry.branch == Branch::Current));
    let (repaired, done) = repair(native, text);
    assert!(done.is_unchanged(), "{done:?}");
    assert!(repaired == text);
    entries
}

#[test]
fn written_transcript_keeps_the_conversation() {
    for (from, name, text) in golden().filter(|(_, name, _)| *name != "sub-agent") {
        let (entries, _) = read(from, text);
        let (before, _) = to_messages(&entries);
        for native in [TranscriptFormat::ClaudeCode, TranscriptFormat::Codex] {
            let (made, written) = write(native, &entries);
            assert_eq!(
                usize::try_from(written.records).unwrap(),
                made.split_inclusive(|&byte| byte == b'\n').count()
            );
            let (after, losses) = to_messages(&taken_whole(native, &made));
            assert_eq!(losses.count(Loss::Unanswered), 0);
            let said = |messages: &[Message]| messages.iter().map(shape).collect::<Vec<_>>();
            assert_eq!(
                said(&after),
                said(&before),
                "{name} of {from:?} to {native:?}"
            );
        }
    }
}

/// A message without what a target may have to change: the form of an input, and error flags.
fn shape(message: &Message) -> String {
    match message {
        Message::User { text } => format!("user: {text}"),
        Message::Assistant { parts } => format!(
            "model: {}",
            parts
                .iter()
                .map(|part| match part {
                    segno_core::model::Part::Text { text } => format!("{text};"),
                    segno_core::model::Part::Call(call) => {
                        let input = call.input.get("input").unwrap_or(&call.input);
                        format!("{} {} {input};", call.id, call.name)
                    }
                    segno_core::model::Part::Raw { value } => value.to_string(),
                })
                .collect::<String>()
        ),
        Message::Tools { results } => {
            let said = results
                .iter()
                .map(|result| [&*result.id, ": ", &result.output, ";"].concat());
            said.collect()
        }
    }
}

#[test]
fn losses_are_reported() {
    let (entries, _) = read(
        TranscriptFormat::ClaudeCode,
        one(TranscriptFormat::ClaudeCode, "forked"),
    );
    let (_, written) = write(TranscriptFormat::Codex, &entries);
    let count = |loss| written.losses.count(loss);
    assert_eq!(count(Loss::Thinking), 2);
    assert_eq!(count(Loss::SideBranch), 14);
    assert!(count(Loss::Record) > 0 && count(Loss::Model) > 0);
    let (entries, _) = read(
        TranscriptFormat::ClaudeCode,
        one(TranscriptFormat::ClaudeCode, "killed"),
    );
    let (_, written) = write(TranscriptFormat::Codex, &entries);
    assert_eq!(written.losses.count(Loss::Unanswered), 1);
}

fn call(id: &str, name: &str, input: serde_json::Value) -> ConversationItem {
    ConversationItem::new(ItemContent::Assistant {
        message: None,
        model: None,
        parts: vec![AssistantPart::Call(ToolCall {
            id: id.into(),
            name: name.into(),
            input,
        })],
        usage: None,
    })
}

fn result(id: &str, parts: Vec<Part>) -> ConversationItem {
    ConversationItem::new(ItemContent::Result(Answer {
        id: id.into(),
        parts,
        outcome: Outcome::Succeeded,
    }))
}

fn text(text: &str) -> Part {
    Part::Text { text: text.into() }
}

#[test]
fn unsupported_call_becomes_quoted_text() {
    let entries = [
        call("odd id!", "look", json!({})),
        result("odd id!", vec![text("seen")]),
        call("b", "näme with spaces", json!({"x": 1})),
        result("b", vec![text("done")]),
        call("c", "look", json!([1])),
    ];
    for native in [TranscriptFormat::ClaudeCode, TranscriptFormat::Codex] {
        let (made, written) = write(native, &entries);
        let (messages, _) = to_messages(&taken_whole(native, &made));
        assert_eq!(written.losses.count(Loss::CallQuoted), 2);
        assert_eq!(written.losses.count(Loss::CallChanged), 1);
        let said: Vec<_> = messages.iter().map(shape).collect();
        assert!(
            said[0].starts_with("model: call_") && said[0].ends_with(" look {};"),
            "{said:?}"
        );
        assert!(said[1].ends_with(": seen;"));
        assert_eq!(said[2], "model: [Tool call] näme with spaces: {\"x\":1};");
        assert_eq!(
            said[3],
            "user: [Result of the tool call näme with spaces]\ndone"
        );
        assert_eq!(said[4], "model: [Tool call] look: [1];");
        assert!(said[5].contains("outcome of this tool call is unknown"));
    }
}

#[test]
fn missing_images_are_described() {
    let picture = |content| Part::Image {
        media_type: "image/png".into(),
        content,
    };
    let inline = picture(Image::Inline("aGk=".into()));
    let gone = picture(Image::External {
        digest: segno_core::digest::Digest::of(b""),
        size: 9,
    });
    let user = ConversationItem::new(ItemContent::User {
        origin: Origin::User,
        parts: vec![text("see"), inline.clone(), gone],
    });
    let entries = [
        user,
        call("a", "look", json!({})),
        result("a", vec![inline.clone()]),
    ];
    for native in [TranscriptFormat::ClaudeCode, TranscriptFormat::Codex] {
        let (made, written) = write(native, &entries);
        assert_eq!(written.losses.count(Loss::Image), 1);
        let back = taken_whole(native, &made);
        let pictures = back.iter().flat_map(|entry| match &entry.content {
            ItemContent::User { parts, .. } => parts.clone(),
            ItemContent::Result(answer) => answer.parts.clone(),
            _ => vec![],
        });
        assert_eq!(pictures.filter(|part| *part == inline).count(), 2);
    }
}

#[test]
fn write_refuses_an_invalid_session_id() {
    let wrong = Target {
        session: "--resume".into(),
        ..target()
    };
    let error = TranscriptFormat::Codex
        .write(&[], &wrong, &mut Vec::new())
        .unwrap_err();
    assert_eq!(error.kind(), io::ErrorKind::InvalidInput);
}

fn any_text() -> impl Strategy<Value = String> {
    "[ -~äß\u{1F600}\n\t\"\\\\]{0,12}".prop_map(|text| format!("w{text}"))
}

fn any_said() -> impl Strategy<Value = ConversationItem> {
    let ids = || "[a-d]";
    let said = prop_oneof![
        any_text().prop_map(|words| ItemContent::User {
            origin: Origin::User,
            parts: vec![text(&words)]
        }),
        any_text().prop_map(|text| ItemContent::Assistant {
            message: None,
            model: None,
            parts: vec![AssistantPart::Text { text }],
            usage: None
        }),
        (ids(), any_text()).prop_map(|(id, value)| ItemContent::Assistant {
            message: None,
            model: None,
            parts: vec![AssistantPart::Call(ToolCall {
                id,
                name: "look".into(),
                input: json!({"at": value})
            })],
            usage: None,
        }),
        (ids(), any_text(), any::<bool>()).prop_map(|(id, words, failed)| ItemContent::Result(
            Answer {
                id,
                parts: vec![text(&words)],
                outcome: if failed {
                    Outcome::Failed
                } else {
                    Outcome::Succeeded
                },
            }
        )),
    ];
    (said, proptest::option::of(0..1_800_000_000_000_i64)).prop_map(|(said, when)| {
        ConversationItem {
            when: when.map(Timestamp),
            ..ConversationItem::new(said)
        }
    })
}

proptest! {
    #[test]
    fn written_transcript_reads_back(entries in proptest::collection::vec(any_said(), 0..16)) {
        let (expected, _) = to_messages(&entries);
        let (made, _) = write(TranscriptFormat::ClaudeCode, &entries);
        let (back, losses) = to_messages(&taken_whole(TranscriptFormat::ClaudeCode, &made));
        prop_assert_eq!(&back, &expected);
        prop_assert_eq!(losses, Losses::default());

        // A rollout does not record whether a call succeeded.
        let (made, _) = write(TranscriptFormat::Codex, &entries);
        let (back, _) = to_messages(&taken_whole(TranscriptFormat::Codex, &made));
        let said = |messages: &[Message]| messages.iter().map(shape).collect::<Vec<_>>();
        prop_assert_eq!(said(&back), said(&expected));
    }

    #[test]
    fn writing_twice_gives_the_same_transcript(entries in proptest::collection::vec(any_said(), 0..16)) {
        for native in [TranscriptFormat::ClaudeCode, TranscriptFormat::Codex] {
            let (made, _) = write(native, &entries);
            let (entries, _) = read(native, &made);
            let (again, _) = write(native, &entries);
            prop_assert!(made == again, "{}\n{}", String::from_utf8_lossy(&made), String::from_utf8_lossy(&again));
            prop_assert_eq!(turns(&entries).0.is_empty(), entries.iter().all(|entry| matches!(entry.content, ItemContent::Raw { .. })));
        }
    }
}
