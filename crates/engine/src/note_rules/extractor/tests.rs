use proptest::prelude::*;
use segno_core::conversation::Part;
use segno_core::journal::{NotesWritten, Seq};
use segno_core::note::{MAX_ITEMS, MAX_TEXT, Progress, Resolution};
use segno_core::time::Timestamp;
use segno_core::usage::Usage;
use serde_json::{Value, json};

use super::*;

fn call(id: &str, name: &str, input: Value) -> ConversationItem {
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

fn answer(id: &str, text: &str, outcome: Outcome) -> ConversationItem {
    ConversationItem::new(ItemContent::Result(Answer {
        id: id.into(),
        parts: vec![Part::Text { text: text.into() }],
        outcome,
    }))
}

/// A reader, and the fold of its notes.
#[derive(Default)]
struct Fixture {
    reader: NoteExtractor,
    handoff: Handoff,
    calls: u64,
}

impl Fixture {
    fn feed(&mut self, entry: &ConversationItem) -> Vec<Note> {
        let found = self.reader.read(entry);
        for (source, written) in found.clone() {
            self.calls += 1;
            let event = NotesWritten {
                source,
                by: "x".into(),
                path: None,
                notes: vec![written],
                read_to: None,
                usage: Usage::default(),
            };
            self.handoff.add(&event, Seq(self.calls), Timestamp(0));
        }
        found.into_iter().map(|(_, written)| written.note).collect()
    }

    fn tool(&mut self, name: &str, input: Value, text: &str, outcome: Outcome) -> Vec<Note> {
        self.calls += 1;
        let id = format!("call-{}", self.calls);
        assert_eq!(self.feed(&call(&id, name, input)), []);
        self.feed(&answer(&id, text, outcome))
    }

    /// A command that ended with this status, as Claude Code reports it.
    fn shell(&mut self, command: &str, status: i32, text: &str) -> Vec<Note> {
        let input = json!({"command": command, "description": "x"});
        match status {
            0 => self.tool("Bash", input, text, Outcome::Succeeded),
            _ => self.tool(
                "Bash",
                input,
                &format!("Exit code {status}\n{text}"),
                Outcome::Failed,
            ),
        }
    }

    fn phase(&self) -> Option<Phase> {
        Some(self.handoff.tests.as_ref()?.note.phase)
    }

    fn open(&self) -> Vec<&str> {
        let open = self.handoff.errors.active();
        let open = open.filter(|kept| kept.note.resolution == Resolution::Unresolved);
        open.filter_map(|kept| kept.note.subject.as_deref())
            .collect()
    }

    /// The run is lost, and another starts.
    fn crash(&mut self) {
        self.reader = NoteExtractor::new(&self.handoff);
    }
}

const RED: &str = include_str!("../../../tests/golden/runners/cargo-red.txt");
const GREEN: &str = include_str!("../../../tests/golden/runners/cargo-green.txt");
const BROKEN: &str = include_str!("../../../tests/golden/runners/cargo-broken.txt");

#[test]
fn phase_depends_on_the_previous_run_across_crashes() {
    for crashes in [false, true] {
        let mut fixture = Fixture::default();
        let steps = [
            (0, GREEN, Phase::Unknown),
            (0, GREEN, Phase::Refactor),
            (101, RED, Phase::Red),
            (101, BROKEN, Phase::Red),
            (0, GREEN, Phase::Green),
            (0, GREEN, Phase::Refactor),
            (101, BROKEN, Phase::Unknown),
        ];
        for (status, text, phase) in steps {
            fixture.shell("cargo test", status, text);
            assert_eq!(fixture.phase(), Some(phase), "{text}");
            if crashes {
                fixture.crash();
            }
        }
    }
}

#[test]
fn failed_test_run_lists_failures_and_its_call() {
    let mut fixture = Fixture::default();
    fixture.shell("cd rs && cargo test 2>&1", 101, RED);
    let tests = fixture.handoff.tests.clone().unwrap();
    assert_eq!(tests.source, Source::Rule);
    assert_eq!(tests.call.as_deref(), Some("call-1"));
    assert_eq!(tests.note.command, "cd rs && cargo test 2>&1");
    assert_eq!(tests.note.failing, ["tests::adds"]);
    assert_eq!((tests.note.passed, tests.note.failed), (Some(1), Some(1)));
    assert!(
        tests
            .note
            .summary
            .starts_with("test result: FAILED. 1 passed")
    );
    assert_eq!(fixture.open(), ["cargo test"]);
    fixture.shell("cargo test", 0, GREEN);
    assert_eq!(fixture.open(), [""; 0]);
    assert_eq!(
        fixture.handoff.errors.count, 1,
        "it is the same error, fixed"
    );
}

#[test]
fn only_test_commands_produce_test_notes() {
    let mut fixture = Fixture::default();
    for line in [
        "cat log.txt",
        "echo 'cargo test'",
        "cat <<EOF\ncargo test\nEOF",
    ] {
        assert_eq!(fixture.shell(line, 0, RED), [], "{line}");
        assert_eq!(fixture.shell(line, 0, GREEN), [], "{line}");
    }
    let read = json!({"file_path": "log.txt"});
    assert_eq!(fixture.tool("Read", read, RED, Outcome::Succeeded), []);
    // A result without a call is ignored.
    assert_eq!(fixture.feed(&answer("stray", RED, Outcome::Failed)), []);
}

#[test]
fn failed_tool_is_never_a_clean_test_run() {
    let mut fixture = Fixture::default();
    fixture.shell("cargo test && cargo clippy", 101, GREEN);
    assert_eq!(fixture.phase(), Some(Phase::Unknown));
    assert_eq!(fixture.open(), ["cargo test && cargo clippy"]);
    // Failures are visible although the status is that of `tail`.
    fixture.shell("cargo test 2>&1 | tail -30", 0, RED);
    assert_eq!(fixture.phase(), Some(Phase::Red));
    fixture.shell(
        "cargo test 2>&1 | grep result",
        0,
        "test result: ok. 9 passed; 0 failed; x",
    );
    assert_eq!(
        fixture.phase(),
        Some(Phase::Red),
        "what is filtered proves nothing"
    );
}

#[test]
fn error_is_noted_once_and_again_when_fixed() {
    let mut fixture = Fixture::default();
    let text = "src/a.c:1: error: x\nmake: *** [all] Error 1";
    assert_eq!(fixture.shell("make all", 2, text).len(), 1);
    assert_eq!(fixture.shell("cd . && make all", 2, text), []);
    fixture.crash();
    assert_eq!(fixture.shell("make all", 2, text), []);
    let kept = &fixture.handoff.errors.notes[0];
    assert_eq!(
        (kept.source, kept.note.kind.as_str()),
        (Source::Rule, "command failed")
    );
    assert_eq!(kept.note.text, text);
    let fixed = fixture.shell("make all", 0, "done");
    let [Note::Error(error)] = fixed.as_slice() else {
        panic!("{fixed:?}");
    };
    assert_eq!(
        (error.resolution, error.text.as_str()),
        (Resolution::Fixed, text)
    );
    assert_eq!(fixture.shell("make all", 0, "done"), []);
    assert_eq!(
        fixture.handoff.errors.notes[0].note.resolution,
        Resolution::Fixed
    );
}

#[test]
fn masked_status_neither_hides_nor_fixes_an_error() {
    let mut fixture = Fixture::default();
    fixture.shell(
        "cargo build 2>&1 | tail -3",
        0,
        "error: could not compile `x`",
    );
    assert_eq!(fixture.open(), ["cargo build"]);
    fixture.shell("cargo build || true", 0, "error[E0425]: cannot find");
    assert_eq!(fixture.open(), ["cargo build"]);
    fixture.shell(
        "cargo build 2>&1 | tail -3",
        0,
        "    Finished `dev` profile",
    );
    assert_eq!(fixture.open(), [""; 0]);
    fixture.shell("./deploy.sh", 1, "no");
    fixture.shell("./deploy.sh | tail -1", 0, "no");
    assert_eq!(fixture.open(), ["./deploy.sh"]);
}

#[test]
fn empty_search_is_no_error_and_a_denial_is_one() {
    let mut fixture = Fixture::default();
    for line in ["grep -r nothing .", "test -f x", "diff a b", "rg x | head"] {
        assert_eq!(fixture.shell(line, 1, ""), [], "{line}");
    }
    assert_eq!(
        fixture
            .shell("grep -r x nowhere", 2, "grep: nowhere: No such file")
            .len(),
        1
    );
    let said = "Claude requested permissions to write to /w/a, but you haven't granted it yet.";
    fixture.tool(
        "Write",
        json!({"file_path": "/w/a", "content": ""}),
        said,
        Outcome::Failed,
    );
    let kept = fixture.handoff.errors.notes.last().unwrap();
    assert_eq!(kept.note.kind, "denied");
    assert_eq!(
        (kept.source, kept.note.subject.as_deref()),
        (Source::Driver, Some("Write /w/a"))
    );
    assert_eq!(
        fixture.handoff.files, [""; 0],
        "what was denied is not written"
    );
    fixture.tool(
        "Write",
        json!({"file_path": "/w/a", "content": ""}),
        "written",
        Outcome::Succeeded,
    );
    assert_eq!(fixture.handoff.files, ["/w/a"]);
    assert_eq!(fixture.open(), ["grep -r x nowhere"]);
}

#[test]
fn sub_agents_report_files_but_no_todo_lists() {
    let mut fixture = Fixture::default();
    let list =
        json!({"todos": [{"content": "a", "status": "in_progress", "activeForm": "doing a"}]});
    let below = |entry: ConversationItem| ConversationItem {
        thread: Thread::Agent("sub".into()),
        ..entry
    };
    fixture.feed(&below(call("s1", "TodoWrite", list.clone())));
    assert_eq!(
        fixture.feed(&below(answer("s1", "ok", Outcome::Succeeded))),
        []
    );
    fixture.feed(&below(call("s2", "Edit", json!({"file_path": "b"}))));
    assert_eq!(
        fixture
            .feed(&below(answer("s2", "ok", Outcome::Succeeded)))
            .len(),
        1
    );
    assert_eq!(
        fixture
            .tool("TodoWrite", list.clone(), "ok", Outcome::Succeeded)
            .len(),
        1
    );
    assert_eq!(
        fixture.tool("TodoWrite", list, "ok", Outcome::Succeeded),
        []
    );
    let kept = fixture.handoff.list.clone().unwrap();
    assert_eq!(kept.note.items[0].progress, Progress::InProgress);
    let plan = json!({"plan": [{"step": "c", "status": "pending"}]});
    let unknown = "unsupported call: update_plan";
    assert_eq!(
        fixture.tool("update_plan", plan, unknown, Outcome::Unknown),
        []
    );
    fixture.crash();
    let plan = AssistantPart::Raw {
        value: json!({"type": "plan", "entries": [{"content": "b", "status": "pending"}]}),
    };
    fixture.feed(&ConversationItem::new(ItemContent::Assistant {
        message: None,
        model: None,
        parts: vec![plan],
        usage: None,
    }));
    assert_eq!(fixture.handoff.list.unwrap().note.items[0].text, "b");
    assert_eq!(fixture.handoff.files, ["b"]);
}

#[test]
fn side_branches_are_not_read() {
    let mut reader = NoteExtractor::default();
    reader.read(&call("c", "Bash", json!({"command": "cargo test"})));
    let side = ConversationItem {
        branch: Branch::Side,
        ..answer("c", RED, Outcome::Failed)
    };
    assert_eq!(reader.read(&side), []);
}

#[test]
fn reader_memory_is_bounded() {
    let mut fixture = Fixture::default();
    let long = "error: x\n".repeat(70_000);
    for n in 0..1000 {
        let command = format!("make {n} {}", "y".repeat(2000));
        fixture
            .reader
            .read(&call(&n.to_string(), "Bash", json!({"command": command})));
    }
    assert_eq!(fixture.reader.open.len(), OPEN);
    for n in 990..1000 {
        let notes = fixture.feed(&answer(&n.to_string(), &long, Outcome::Failed));
        for note in notes {
            assert_eq!(note.clone().truncated(), note, "it is short already");
        }
    }
    let names = (0..9999).map(|n| format!("test t{n} ... FAILED"));
    let names = names.collect::<Vec<_>>().join(
        "
",
    );
    fixture.shell("cargo test", 1, &names);
    assert_eq!(fixture.handoff.tests.unwrap().note.failing.len(), MAX_ITEMS);
}

fn any_text() -> impl Strategy<Value = String> {
    let pieces = prop::sample::select(vec![
        RED,
        GREEN,
        "test result: ok. ",
        "FAILED",
        "\x1b[",
        "\x1b]",
        "\r",
        "\n",
        "1 failed, ",
        " in 1s",
        "Summary [",
        "] 3 tests run: ",
        "(",
        "Exit code ",
        "--- FAIL: ",
        "ok  \t",
        "Tests:  ",
        "#",
        "\u{202e}",
        "é",
        "'",
        "\"",
        "<<",
        "$(",
        "`",
        "| tail",
        "cargo test",
        "bash -c ",
        "&& ",
        "\\",
    ]);
    let pieces = pieces.prop_map(str::to_owned);
    let piece = prop_oneof![pieces, any::<String>()];
    prop::collection::vec(piece, 0..12).prop_map(|pieces| pieces.concat())
}

proptest! {
    #[test]
    fn any_conversation_yields_bounded_notes(
        said in prop::collection::vec((0_u8..6, any_text(), any_text(), 0_u8..3), 0..8)
    ) {
        let mut reader = NoteExtractor::default();
        for (tool, command, text, outcome) in said {
            let (name, input) = match tool {
                0 => ("Bash", json!({"command": command})),
                1 => ("shell", json!({"command": ["bash", "-lc", command]})),
                2 => ("apply_patch", json!(command)),
                3 => ("TaskCreate", json!({"subject": command})),
                4 => ("update_plan", json!({"plan": [{"step": command, "status": "pending"}]})),
                _ => (command.as_str(), json!({"path": text})),
            };
            let outcome = [Outcome::Succeeded, Outcome::Failed, Outcome::Unknown][outcome as usize];
            reader.read(&call("c", name, input));
            for (_, written) in reader.read(&answer("c", &text, outcome)) {
                let mut note = written.note.clone();
                prop_assert_eq!(&note.clone().truncated(), &note);
                note.for_each_text(|text| assert!(text.chars().count() <= MAX_TEXT));
            }
        }
    }

    #[test]
    fn displayed_file_is_never_a_test_run(text in any_text(), name in "[a-z./-]{1,12}") {
        let mut reader = NoteExtractor::default();
        let found = [
            ("Bash", json!({"command": format!("cat {name}")})),
            ("Bash", json!({"command": format!("head -50 '{name}' | tail -20")})),
            ("Read", json!({"file_path": name})),
        ];
        for (tool, input) in found {
            for outcome in [Outcome::Succeeded, Outcome::Failed] {
                reader.read(&call("c", tool, input.clone()));
                let found = reader.read(&answer("c", &text, outcome));
                let tests = found.iter().any(|(_, written)| matches!(written.note, Note::Tests(_)));
                prop_assert!(!tests, "{:?}", found);
            }
        }
    }
}
