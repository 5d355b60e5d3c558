//! Tests of `segno agents import`, which turns conversations that CLI agents started on their own into
//! sessions. They use the real binary with the real Claude Code and the real Codex, and hand-made
//! transcripts with awkward content.

#![expect(
    clippy::disallowed_methods,
    reason = "a test copies, damages and deletes the records of programs as anything might"
)]

use std::fs;
use std::io::Write;
use std::ops::Deref;
use std::path::{Path, PathBuf};
use std::process::Command;

use segno_testkit::model::{
    ModelServer, Part, Role, Script, Turn, conversation, files, standard, standard_files,
};
use segno_testkit::programs::{Agent, AgentFixture, AgentSandbox};
use segno_testkit::sandbox::{ProcessOutput, Sandbox, run_to_end, wait_for_output, wait_until};
use serde_json::{Value, json};

use crate::{sandbox, segno};

/// The scripts of the messages that follow the task.
const FURTHER: [&str; 5] = ["alpha", "beta", "gamma", "delta", "epsilon"];

/// A conversation that a CLI agent started without Segno.
struct Fixture {
    agent: Agent,
    workshop: AgentFixture,
    id: String,
}

impl Deref for Fixture {
    type Target = AgentFixture;

    fn deref(&self) -> &AgentFixture {
        &self.workshop
    }
}

impl Fixture {
    /// Starts a conversation without Segno and kills the agent in the middle of a command.
    fn killed(agent: Agent) -> Self {
        let script = standard();
        let prompt = format!("Do the task. {}", script.marker());
        let further =
            FURTHER.map(|name| Script::new(name, [Turn::say(&format!("Answer {name}."))]));
        let server = ModelServer::scripted([script].into_iter().chain(further));
        let stage = AgentSandbox::new(&server);
        let mut running = agent.start(&stage, &prompt);
        let first = running.read_until(|line| agent.session_id_in(line).is_some());
        let id = agent.session_id_in(&first).unwrap();
        wait_until("the slow command runs and is written down", || {
            stage.started_commands().contains(&"slow".to_owned())
                && agent.read_transcript(&stage, &id).contains("sleep 1")
        });
        running.kill();
        wait_until("what it started is over", || stage.processes().is_empty());
        Self {
            agent,
            workshop: AgentFixture::with_agents(segno(), stage, server, "all"),
            id,
        }
    }

    fn import(&self, words: &[&str]) -> ProcessOutput {
        self.segno(&[&["agents", "import", self.agent.cli_name()], words].concat())
    }

    /// Asserts that the files are those of an undisturbed run and that the model received the whole
    /// history.
    fn assert_done(&self, work: &Path) {
        assert_eq!(files(work), standard_files(), "{:?}", self.agent);
        let (paid, mended) = (
            self.server.paid_turns("standard"),
            self.server.repaired_turns("standard"),
        );
        assert_eq!(
            paid,
            [0, 1, 2, 3, 4, 5, 6, 7, 8],
            "{:?} mended {mended:?}",
            self.agent
        );
        let sent = conversation(&self.server.request("standard", 8).unwrap());
        let texts: Vec<String> = sent
            .into_iter()
            .filter_map(|part| match part {
                Part::Text(Role::Assistant, text) => Some(text),
                _ => None,
            })
            .collect();
        for words in [
            "I begin with a plan.",
            "One line was wrong.",
            "Two at once.",
        ] {
            let found = texts.iter().any(|text| text.contains(words));
            assert!(found, "{:?} {words}: {texts:?}", self.agent);
        }
    }
}

/// The bodies of all events of one kind in an exported session.
fn events_of_kind(bundle: &ProcessOutput, kind: &str) -> Vec<Value> {
    let records = bundle.stdout.lines();
    let records = records.map(|line| serde_json::from_str(line).unwrap());
    let records = records.filter(|record: &Value| record["kind"] == kind);
    let body = |record: Value| serde_json::from_str(record["body"].as_str().unwrap()).unwrap();
    records.map(body).collect()
}

#[test]
fn imported_conversation_resumes_natively() {
    for agent in Agent::ALL {
        let fixture = Fixture::killed(agent);
        let imported = fixture
            .import(&[&fixture.id, "--json"])
            .expect_success()
            .json()
            .remove(0);
        assert_eq!(imported["outcome"], "new", "{imported}");
        assert_eq!(imported["conversation"], fixture.id, "{imported}");
        assert_eq!(imported["damage"], json!([]), "{imported}");
        let session = imported["session"].as_str().unwrap();
        let shown = fixture.segno(&["show", session, "--json"]).expect_success();
        let shown = shown.json().remove(0);
        assert_eq!(shown["session_kind"], "agent", "{shown}");
        assert_eq!(shown["status"], "paused", "{shown}");
        let again = fixture
            .import(&[&fixture.id, "--json"])
            .expect_success()
            .json()
            .remove(0);
        assert_eq!(again["outcome"], "unchanged", "{again}");
        let resumed = fixture.segno(&["resume", session]).expect_success();
        assert!(!resumed.stderr.contains("cannot be read"), "{resumed:?}");
        fixture.assert_done(&fixture.agent_sandbox.work());
        let opened = fixture.conversations(session);
        let expected =
            [("-"), ("native")].map(|strategy| (fixture.id.clone(), strategy.to_owned()));
        assert_eq!(opened, expected, "{agent:?}");
        let left = fixture
            .import(&[&fixture.id, "--json"])
            .expect_success()
            .json()
            .remove(0);
        assert_eq!(left["outcome"], "unchanged", "{agent:?} {left}");
    }
}

/// A user adopts a conversation, continues it with Segno and with the agent itself, in any order,
/// and the session has everything once and in order.
#[test]
fn imported_conversation_continues_here_and_there() {
    for agent in Agent::ALL {
        let fixture = Fixture::killed(agent);
        let imported = fixture.import(&[&fixture.id, "--json"]).expect_success();
        let session = imported.json()[0]["session"].as_str().unwrap().to_owned();
        fixture.segno(&["resume", &session]).expect_success();
        let ask = |name: &str| format!("Question {name} [script:{name}]");
        // A resume with a message, and a chat: both natively.
        let words = ["resume", &session, "--message", &ask("alpha")];
        fixture.segno(&words).expect_success();
        let words = ["chat", "--session", &session, &ask("beta")];
        let answered = fixture.segno(&words).expect_success();
        assert!(answered.stdout.contains("Answer beta."), "{answered:?}");
        let outcome = |fixture: &Fixture| {
            let imported = fixture.import(&[&fixture.id, "--json"]).expect_success();
            imported.json()[0]["outcome"].as_str().unwrap().to_owned()
        };
        assert_eq!(outcome(&fixture), "unchanged", "{agent:?}");
        // The user continues in the agent's own program.
        let resume = |name: &str| {
            let stage = &fixture.agent_sandbox;
            let (status, _) = agent.resume(stage, &fixture.id, &ask(name)).read_to_end();
            assert!(status.success(), "{agent:?}");
        };
        resume("gamma");
        assert_eq!(outcome(&fixture), "updated", "{agent:?}");
        assert_eq!(outcome(&fixture), "unchanged", "{agent:?}");
        // Nobody imports this one: the next message does.
        resume("delta");
        let words = ["chat", "--session", &session, &ask("epsilon")];
        let answered = fixture.segno(&words).expect_success();
        assert!(
            answered.stderr.contains("continued elsewhere"),
            "{answered:?}"
        );
        assert_eq!(outcome(&fixture), "unchanged", "{agent:?}");
        let (names, strategies): (Vec<_>, Vec<_>) =
            fixture.conversations(&session).into_iter().unzip();
        assert!(names.iter().all(|name| *name == fixture.id), "{names:?}");
        assert!(
            strategies[1..].iter().all(|it| it == "native"),
            "{strategies:?}"
        );
        let records = fixture.journal_records(&session);
        let text: Vec<String> = records.iter().map(|(_, body)| body.to_string()).collect();
        let place = |words: &str, kind: &str| {
            let has =
                |(at, (of, _)): &(usize, &(String, Value))| of == kind && text[*at].contains(words);
            let found: Vec<usize> = records
                .iter()
                .enumerate()
                .filter(has)
                .map(|it| it.0)
                .collect();
            assert_eq!(found.len(), 1, "{agent:?} {kind} {words}: {text:#?}");
            found[0]
        };
        let places: Vec<usize> = FURTHER
            .iter()
            .flat_map(|name| {
                let asked = place(&format!("Question {name} "), "step_started");
                [asked, place(&format!("Answer {name}."), "agent_said")]
            })
            .collect();
        assert!(places.is_sorted(), "{agent:?} {places:?}");
        let shown = fixture
            .segno(&["show", &session, "--json"])
            .expect_success();
        let shown = shown.json().remove(0);
        assert_eq!(shown["status"], "paused", "{shown}");
        assert_eq!(shown["chat"]["messages"], 6, "{shown}");
        assert_eq!(shown["chat"]["answers"], 6, "{shown}");
        fixture.wait_until_idle();
    }
}

#[test]
fn deleted_transcript_is_restored_from_the_imported_copy() {
    for agent in Agent::ALL {
        let fixture = Fixture::killed(agent);
        let record = agent
            .transcript_path(&fixture.agent_sandbox, &fixture.id)
            .unwrap();
        let imported = fixture.import(&["--all", "--json"]).expect_success().json();
        assert_eq!(imported.len(), 1, "{imported:?}");
        let session = imported[0]["session"].as_str().unwrap();
        fs::remove_file(&record).unwrap();
        fixture
            .segno(&["doctor", "--gc", "--grace-hours", "0"])
            .expect_success();
        let resumed = fixture.segno(&["resume", session]).expect_success();
        let strategy = fixture.conversations(session).pop().unwrap().1;
        assert_eq!(strategy, "restored", "{agent:?} {resumed:?}");
        fixture.assert_done(&fixture.agent_sandbox.work());
    }
}

#[test]
fn copied_transcript_resumes_on_another_machine() {
    for agent in Agent::ALL {
        let fixture = Fixture::killed(agent);
        let record = agent
            .transcript_path(&fixture.agent_sandbox, &fixture.id)
            .unwrap();
        let copy = fixture.sandbox.work().join("copy.jsonl");
        fs::copy(&record, &copy).unwrap();
        // Another home and another folder, with the files that exist so far.
        let there = AgentSandbox::new(&fixture.server);
        for (name, text) in files(&fixture.agent_sandbox.work()) {
            let path = there.work().join(name);
            fs::create_dir_all(path.parent().unwrap()).unwrap();
            fs::write(path, text).unwrap();
        }
        let run = |words: &[&str]| run_to_end(fixture.command_on(&there, words)).expect_success();
        let (from, into) = (copy.to_str().unwrap(), there.work());
        let into = into.to_str().unwrap();
        let output = run(&[
            "agents",
            "import",
            agent.cli_name(),
            from,
            "--folder",
            into,
            "--json",
        ]);
        let session = output.json()[0]["session"].as_str().unwrap().to_owned();
        run(&["resume", &session]);
        fixture.assert_done(&there.work());
        assert_eq!(
            fixture.conversations(&session).pop().unwrap().1,
            "restored",
            "{agent:?}"
        );
        assert!(agent.transcript_path(&there, &fixture.id).is_some());
    }
}

#[test]
fn fork_of_an_import_gets_its_own_conversation() {
    for agent in Agent::ALL {
        let fixture = Fixture::killed(agent);
        let imported = fixture
            .import(&[&fixture.id, "--json"])
            .expect_success()
            .json()
            .remove(0);
        let session = imported["session"].as_str().unwrap();
        fixture
            .segno(&["fork", session, "--name", "other"])
            .expect_success();
        let record = agent
            .transcript_path(&fixture.agent_sandbox, &fixture.id)
            .unwrap();
        let before = fs::read(&record).unwrap();
        fixture.segno(&["resume", "other"]).expect_success();
        assert_eq!(
            files(&fixture.agent_sandbox.work()),
            standard_files(),
            "{agent:?}"
        );
        let opened = fixture.conversations("other");
        let strategies: Vec<&str> = opened
            .iter()
            .map(|(_, strategy)| strategy.as_str())
            .collect();
        assert_eq!(strategies, ["-", "restored"], "{agent:?}");
        assert!(opened.iter().all(|(id, _)| *id != fixture.id), "{opened:?}");
        assert!(
            fs::read(&record).unwrap() == before,
            "the first is untouched"
        );
        let sent = conversation(&fixture.server.request("standard", 8).unwrap());
        let known = sent.iter().any(
            |part| matches!(part, Part::Text(Role::Assistant, text) if text.contains("I begin with a plan.")),
        );
        assert!(known, "{agent:?}: what was said is the conversation");
    }
}

/// A hand-made Claude Code transcript below its own home.
struct Forged {
    sandbox: Sandbox,
    file: PathBuf,
}

const ID: &str = "5e550000-0000-4000-8000-00000000000a";

impl Forged {
    fn new() -> Self {
        let sandbox = sandbox();
        let folder = sandbox.work().join(".claude/projects/-work");
        fs::create_dir_all(&folder).unwrap();
        let file = folder.join(format!("{ID}.jsonl"));
        let forged = Self { sandbox, file };
        forged.append_turns(0..4);
        forged
    }

    /// Appends turns in which the user and the model alternate.
    fn append_turns(&self, turns: std::ops::Range<u32>) {
        let lines: String = turns.map(|turn| self.line(turn)).collect();
        self.append(&lines);
    }

    fn line(&self, turn: u32) -> String {
        let record = |number: u32| format!("00000000-0000-4000-8000-{number:012}");
        let parent = turn.checked_sub(1).map(record);
        let message = if turn.is_multiple_of(2) {
            json!({"role": "user", "content": format!("Tell me of Turnip {turn}, please.")})
        } else {
            json!({
                "id": format!("msg_{turn}"), "type": "message", "role": "assistant",
                "model": "claude-test", "stop_reason": "end_turn",
                "content": [{"type": "text", "text": format!("A turnip is a root, number {turn}.")}],
                "usage": {"input_tokens": 100, "cache_read_input_tokens": 10, "cache_creation_input_tokens": 0, "output_tokens": 7},
            })
        };
        let kind = if turn.is_multiple_of(2) {
            "user"
        } else {
            "assistant"
        };
        let line = json!({
            "type": kind, "uuid": record(turn), "parentUuid": parent, "sessionId": ID,
            "cwd": self.sandbox.work(), "version": "2.1.325", "isSidechain": false,
            "timestamp": format!("2026-11-15T10:00:{turn:02}.000Z"), "message": message,
        });
        format!("{line}\n")
    }

    fn append(&self, text: &str) {
        let mut options = fs::OpenOptions::new();
        let mut file = options.create(true).append(true).open(&self.file).unwrap();
        file.write_all(text.as_bytes()).unwrap();
    }

    fn command(&self, words: &[&str]) -> Command {
        let mut command = self.sandbox.command(words);
        command.env("HOME", self.sandbox.work());
        command
    }

    fn segno(&self, words: &[&str]) -> ProcessOutput {
        run_to_end(self.command(words))
    }

    fn import(&self) -> Value {
        let output = self
            .segno(&["agents", "import", "claude", "--all", "--json"])
            .expect_success();
        let mut lines = output.json();
        assert_eq!(lines.len(), 1, "{lines:?}");
        lines.remove(0)
    }

    /// The messages in the session's journal: the user's, and then the agent's.
    fn messages(&self) -> Vec<Value> {
        let session = self.import()["session"].as_str().unwrap().to_owned();
        let exported = self.segno(&["sessions", "export", &session, "-o", "-"]);
        let exported = exported.expect_success();
        let sent = events_of_kind(&exported, "step_started").into_iter();
        let sent = sent.filter(|event| event["attempt"] == 1);
        let said = events_of_kind(&exported, "agent_said").into_iter();
        let said = said.flat_map(|event| {
            let entries = event["entries"].as_str().unwrap();
            serde_json::from_str::<Vec<Value>>(entries).unwrap()
        });
        sent.map(|event| event["input"].clone())
            .chain(said)
            .collect()
    }

    fn shown(&self) -> Value {
        self.shown_by_id("Tell-me")
    }

    fn shown_by_id(&self, session: &str) -> Value {
        let output = self.segno(&["show", session, "--json"]);
        output.expect_success().json().remove(0)
    }
}

#[test]
fn import_appends_only_new_messages() {
    let forged = Forged::new();
    assert_eq!(forged.import()["outcome"], "new");
    assert_eq!(forged.import()["outcome"], "unchanged");
    assert_eq!(forged.shown()["usage"]["output_tokens"], 14);
    forged.append_turns(4..6);
    let dry = forged
        .segno(&["agents", "import", "claude", ID, "--dry-run"])
        .expect_success();
    assert!(dry.stdout.contains("would update"), "{dry:?}");
    let updated = forged.import();
    assert_eq!(
        (&updated["outcome"], &updated["items"]),
        (&json!("updated"), &json!(2))
    );
    assert_eq!(forged.import()["outcome"], "unchanged");
    assert_eq!(forged.messages().len(), 6);
    let shown = forged.shown();
    assert_eq!(
        shown["usage"]["output_tokens"], 21,
        "each message counts once"
    );
    assert_eq!(shown["usage"]["input_tokens"], 330);
    assert_eq!(shown["run"], 2);
    // Segno reports a rewritten file and keeps what it imported before.
    let text = fs::read_to_string(&forged.file).unwrap();
    fs::write(&forged.file, text.replace("root", "boot")).unwrap();
    let left = forged.import();
    assert_eq!(left["outcome"], "skipped", "{left}");
    assert!(
        left["reason"].as_str().unwrap().contains("changed"),
        "{left}"
    );
    fs::write(&forged.file, forged.line(0)).unwrap();
    assert!(
        forged.import()["reason"]
            .as_str()
            .unwrap()
            .contains("shorter")
    );
    assert_eq!(forged.messages().len(), 6);
}

#[test]
fn damaged_transcript_is_imported_as_far_as_readable() {
    let forged = Forged::new();
    forged.append("{\"type\":\"assistant\",\0\0\0\n");
    forged.append_turns(4..6);
    let torn = forged.line(6);
    forged.append(&torn[..40]);
    let imported = forged.import();
    let damage = imported["damage"].as_array().unwrap();
    assert_eq!(damage.len(), 2, "{imported}");
    assert!(
        damage[0].as_str().unwrap().contains("NUL bytes"),
        "{imported}"
    );
    assert!(
        damage[1].as_str().unwrap().contains("line is incomplete"),
        "{imported}"
    );
    assert_eq!(imported["items"], 6);
    // The torn line was only half written; its rest follows.
    forged.append(&torn[40..]);
    assert_eq!(forged.import()["items"], 1);
    assert_eq!(forged.messages().len(), 7);
}

#[test]
fn unreadable_transcript_does_not_block_the_others() {
    let forged = Forged::new();
    let beside = |name: &str| forged.file.with_file_name(format!("{name}.jsonl"));
    fs::write(
        beside("5e550000-0000-4000-8000-00000000000b"),
        b"\xff\xfe no\n",
    )
    .unwrap();
    fs::write(beside("5e550000-0000-4000-8000-00000000000c"), "").unwrap();
    fs::write(beside("agent-1234"), forged.line(0)).unwrap();
    let output = forged.segno(&["agents", "import", "claude", "--all", "--json"]);
    assert_eq!(output.code(), 12, "{output:?}");
    let lines = output.json();
    let outcomes: Vec<_> = lines.iter().map(|line| line["outcome"].clone()).collect();
    assert_eq!(
        outcomes,
        [json!("new"), Value::Null, json!("empty")],
        "{lines:?}"
    );
    let problem = lines[1]["problem"].as_str().unwrap();
    assert!(problem.contains("no record can be read"), "{problem}");
    let output = forged.segno(&["agents", "import", "claude", "none-such", "--json"]);
    assert_eq!(output.code(), 2, "{output:?}");
}

#[test]
fn concurrent_imports_create_one_session() {
    let forged = Forged::new();
    let words = ["agents", "import", "claude", ID, "--json"];
    let start = || {
        let mut command = forged.command(&words);
        command.stdout(std::process::Stdio::piped());
        command.spawn().unwrap()
    };
    for round in 0..5 {
        let both = [start(), start(), start()];
        for child in both {
            let output = wait_for_output(child).expect_success();
            let outcome = output.json()[0]["outcome"].clone();
            assert!(outcome != "empty", "round {round}: {output:?}");
        }
        assert_eq!(forged.import()["outcome"], "unchanged", "round {round}");
        assert_eq!(forged.messages().len(), 4 + 2 * round as usize);
        forged.append_turns(4 + 2 * round..6 + 2 * round);
    }
    let listed = forged
        .segno(&["sessions", "list", "--all", "--json"])
        .expect_success();
    assert_eq!(listed.json().len(), 1, "{listed:?}");
}

#[test]
fn transcript_copy_lives_as_long_as_its_session() {
    let forged = Forged::new();
    let session = forged.import()["session"].as_str().unwrap().to_owned();
    let run_gc = || {
        let old = std::time::SystemTime::UNIX_EPOCH + std::time::Duration::from_hours(400_000);
        for head in fs::read_dir(forged.sandbox.home().join("snapshots/heads")).unwrap() {
            let head = fs::File::open(head.unwrap().path()).unwrap();
            head.set_modified(old).unwrap();
        }
        let output = forged
            .segno(&["doctor", "--gc", "--grace-hours", "0", "--json"])
            .expect_success();
        output.json()[0]["snapshots"].as_u64().unwrap()
    };
    assert_eq!(run_gc(), 0);
    forged
        .segno(&["sessions", "delete", &session])
        .expect_success();
    assert_eq!(run_gc(), 0, "it is in the trash");
    let left = forged.import();
    assert!(left["reason"].as_str().unwrap().contains("trash"), "{left}");
    forged
        .segno(&["sessions", "restore", &session])
        .expect_success();
    assert_eq!(run_gc(), 0);
    forged
        .segno(&["sessions", "delete", &session])
        .expect_success();
    forged
        .segno(&["sessions", "trash", "--empty", "--yes"])
        .expect_success();
    assert_eq!(run_gc(), 1, "nobody needs it any more");
    assert_eq!(
        forged.import()["outcome"],
        "new",
        "and it can be adopted again"
    );
}

#[test]
fn search_finds_imported_messages_newest_first() {
    let forged = Forged::new();
    forged.import();
    let find = |words: &[&str]| {
        let output = forged.segno(&[&["search"], words, &["--json"]].concat());
        output.expect_success().json()
    };
    let finds = find(&["TURNIP"]);
    let found: Vec<_> = finds
        .iter()
        .map(|find| {
            (
                find["who"].as_str().unwrap(),
                find["snippet"].as_str().unwrap(),
            )
        })
        .collect();
    assert_eq!(
        found,
        [
            ("agent", "A turnip is a root, number 3."),
            ("user", "Tell me of Turnip 2, please."),
            ("agent", "A turnip is a root, number 1."),
            ("user", "Tell me of Turnip 0, please."),
        ]
    );
    assert_eq!(finds[0]["at"], "2026-11-15T10:00:03.000Z");
    assert_eq!(finds[0]["agent"], "claude-code");
    assert_eq!(finds[1]["at"], "2026-11-15T10:00:02.000Z");
    assert_eq!(find(&["turnip", "--limit", "2"]).len(), 2);
    assert_eq!(find(&["turnip", "--agent", "codex"]).len(), 0);
    assert_eq!(
        find(&["number 3", "--agent", "claude-code", "--all"]).len(),
        1
    );
    let elsewhere = forged.sandbox.work().join("elsewhere");
    fs::create_dir(&elsewhere).unwrap();
    let mut command = forged.command(&["search", "turnip"]);
    command.current_dir(&elsewhere);
    let output = run_to_end(command).expect_success();
    assert!(
        output.stdout.starts_with("no matches; `--all`"),
        "{output:?}"
    );
    let conversation = forged.shown()["conversations"][0].clone();
    assert_eq!(conversation["conversation"], ID, "{conversation}");
    assert_eq!(conversation["context"]["used"], 117, "{conversation}");
    assert_eq!(
        conversation["last_message"], "A turnip is a root, number 3.",
        "{conversation}"
    );
    let output = forged.segno(&["show", "Tell-me"]).expect_success();
    assert!(
        output
            .stdout
            .contains("message    A turnip is a root, number 3."),
        "{output:?}"
    );
    let listed = forged.segno(&["sessions", "list"]).expect_success();
    assert!(listed.stdout.contains("agent"), "{listed:?}");
}

#[test]
fn killed_import_continues_where_it_stopped() {
    let forged = Forged::new();
    // Long enough that the import needs several commits.
    let long = "x".repeat(300_000);
    for turn in 4..44 {
        let line = forged.line(turn);
        forged.append(
            &line
                .replace("please", &format!("please {long}"))
                .replace("a root", &format!("a root {long}")),
        );
    }
    // A run starts with five or six events; the events after them hold messages.
    for kill in 0..3 {
        let before = event_count(&forged);
        let mut child = forged.command(&["agents", "import", "claude", ID]);
        let mut child = child.stdout(std::process::Stdio::null()).spawn().unwrap();
        wait_until("something that was said is written down", || {
            event_count(&forged) >= before + 8
        });
        assert!(
            child.try_wait().unwrap().is_none(),
            "kill {kill} came too late"
        );
        child.kill().unwrap();
        child.wait().unwrap();
    }
    assert_eq!(forged.import()["outcome"], "updated");
    let found = forged.segno(&["search", "turnip", "--limit", "100", "--json"]);
    let mut times: Vec<String> = found
        .expect_success()
        .json()
        .iter()
        .map(|find| find["at"].as_str().unwrap().to_owned())
        .collect();
    assert_eq!(times.len(), 44, "{times:?}");
    times.dedup();
    assert_eq!(times.len(), 44, "nothing is there twice");
    assert_eq!(forged.shown()["usage"]["output_tokens"], 7 * 22);
}

/// The number of events in the only session.
fn event_count(forged: &Forged) -> u64 {
    let listed = forged.segno(&["sessions", "list", "--all", "--json"]);
    let events = listed
        .json()
        .first()
        .and_then(|line| line["events"].as_u64());
    events.unwrap_or(0)
}

#[test]
fn imported_sessions_have_the_times_of_their_conversations() {
    let forged = Forged::new();
    // A conversation that began a day earlier.
    let earlier = fs::read_to_string(&forged.file).unwrap();
    let earlier = earlier.replace("2026-11-15T", "2026-11-14T");
    let other = ID.replace("00a", "00b");
    let file = forged.file.with_file_name(format!("{other}.jsonl"));
    fs::write(file, earlier.replace(ID, &other)).unwrap();
    forged
        .segno(&["agents", "import", "claude", "--all"])
        .expect_success();
    let listed = forged.segno(&["sessions", "list", "--all", "--json"]);
    let listed = listed.expect_success().json();
    let times: Vec<_> = listed
        .iter()
        .map(|line| ["created_at", "updated_at"].map(|key| line[key].as_str().unwrap()))
        .collect();
    assert_eq!(
        times,
        [
            ["2026-11-15T10:00:00.000Z", "2026-11-15T10:00:03.000Z"],
            ["2026-11-14T10:00:00.000Z", "2026-11-14T10:00:03.000Z"],
        ],
        "newest first"
    );
    let shown = forged.shown_by_id(listed[0]["session"].as_str().unwrap());
    assert_eq!(shown["chat"]["last_message_at"], "2026-11-15T10:00:03.000Z");
    let status = forged.segno(&["status"]).expect_success();
    let expected = "no running or interrupted sessions\n2 imported conversations not shown: `segno sessions list --all`\n";
    assert_eq!(status.stdout, expected);
    // Age alone does not move them to the trash.
    let cleaned = forged.segno(&["sessions", "cleanup", "--max-age-days", "0"]);
    assert_eq!(
        cleaned.expect_success().stdout,
        "nothing is old enough to be deleted\n"
    );
}
