//! Conversations that agents left behind, adopted as sessions: by the real binary, from the real Claude
//! Code and the real Codex, and from transcripts that are made up to be awkward.

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
    ModelServer, Part, Role, conversation, files, standard, standard_files,
};
use segno_testkit::programs::{Agent, Stage, Workshop};
use segno_testkit::sandbox::{Said, Sandbox, finish, until, wait};
use serde_json::{Value, json};

use crate::{sandbox, segno};

/// A conversation that an agent began by itself.
struct Set {
    agent: Agent,
    workshop: Workshop,
    id: String,
}

impl Deref for Set {
    type Target = Workshop;

    fn deref(&self) -> &Workshop {
        &self.workshop
    }
}

impl Set {
    /// A conversation that the agent began by itself, and that was killed in the middle of a command.
    fn killed(agent: Agent) -> Self {
        let script = standard();
        let prompt = format!("Do the task. {}", script.marker());
        let server = ModelServer::scripted([script]);
        let stage = Stage::new(&server);
        let mut running = agent.start(&stage, &prompt);
        let first = running.until(|line| agent.named(line).is_some());
        let id = agent.named(&first).unwrap();
        until("the slow command runs and is written down", || {
            stage.signs().contains(&"slow".to_owned())
                && agent.kept(&stage, &id).contains("sleep 1")
        });
        running.kill();
        until("what it started is over", || stage.processes().is_empty());
        Self {
            agent,
            workshop: Workshop::around(segno(), stage, server, "all"),
            id,
        }
    }

    fn import(&self, words: &[&str]) -> Said {
        self.segno(&[&["import", self.agent.word()], words].concat())
    }

    /// Everything is as an undisturbed run leaves it, and the model was sent the whole history.
    fn is_done(&self, work: &Path) {
        assert_eq!(files(work), standard_files(), "{:?}", self.agent);
        let (paid, mended) = (self.server.paid("standard"), self.server.mended("standard"));
        assert_eq!(
            paid,
            [0, 1, 2, 3, 4, 5, 6, 7, 8],
            "{:?} mended {mended:?}",
            self.agent
        );
        let sent = conversation(&self.server.request("standard", 8).unwrap());
        let said: Vec<String> = sent
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
            let found = said.iter().any(|text| text.contains(words));
            assert!(found, "{:?} {words}: {said:?}", self.agent);
        }
    }
}

/// What a bundle has of one kind of entries.
fn journal(bundle: &Said, kind: &str) -> Vec<Value> {
    let records = bundle.stdout.lines();
    let records = records.map(|line| serde_json::from_str(line).unwrap());
    let records = records.filter(|record: &Value| record["kind"] == kind);
    let body = |record: Value| serde_json::from_str(record["body"].as_str().unwrap()).unwrap();
    records.map(body).collect()
}

#[test]
fn a_conversation_that_an_agent_began_alone_is_adopted_and_goes_on_natively() {
    for agent in Agent::ALL {
        let set = Set::killed(agent);
        let adopted = set.import(&[&set.id, "--json"]).good().json().remove(0);
        assert_eq!(adopted["outcome"], "new", "{adopted}");
        assert_eq!(adopted["native"], set.id, "{adopted}");
        assert_eq!(adopted["damage"], json!([]), "{adopted}");
        let session = adopted["session"].as_str().unwrap();
        let shown = set.segno(&["sessions", "show", session, "--json"]).good();
        let shown = shown.json().remove(0);
        assert_eq!(shown["session_kind"], "agent", "{shown}");
        assert_eq!(shown["status"], "paused", "{shown}");
        let again = set.import(&[&set.id, "--json"]).good().json().remove(0);
        assert_eq!(again["outcome"], "unchanged", "{again}");
        let resumed = set.segno(&["resume", session]).good();
        assert!(!resumed.stderr.contains("cannot be read"), "{resumed:?}");
        set.is_done(&set.stage.work());
        let opened = set.opened(session);
        let expected = [("-"), ("native")].map(|rung| (set.id.clone(), rung.to_owned()));
        assert_eq!(opened, expected, "{agent:?}");
        let left = set.import(&[&set.id, "--json"]).good().json().remove(0);
        assert_eq!(left["outcome"], "left", "{left}");
    }
}

#[test]
fn a_transcript_that_its_program_deleted_comes_back_from_the_copy() {
    for agent in Agent::ALL {
        let set = Set::killed(agent);
        let record = agent.record(&set.stage, &set.id).unwrap();
        let adopted = set.import(&["--all", "--json"]).good().json();
        assert_eq!(adopted.len(), 1, "{adopted:?}");
        let session = adopted[0]["session"].as_str().unwrap();
        fs::remove_file(&record).unwrap();
        set.segno(&["gc", "--grace-hours", "0"]).good();
        let resumed = set.segno(&["resume", session]).good();
        let rung = set.opened(session).pop().unwrap().1;
        assert_eq!(rung, "rehomed", "{agent:?} {resumed:?}");
        set.is_done(&set.stage.work());
    }
}

#[test]
fn a_copied_transcript_goes_on_on_a_new_machine() {
    for agent in Agent::ALL {
        let set = Set::killed(agent);
        let record = agent.record(&set.stage, &set.id).unwrap();
        let copy = set.sandbox.work().join("copy.jsonl");
        fs::copy(&record, &copy).unwrap();
        // Another home, another folder, with the files that were made so far.
        let there = Stage::new(&set.server);
        for (name, text) in files(&set.stage.work()) {
            let path = there.work().join(name);
            fs::create_dir_all(path.parent().unwrap()).unwrap();
            fs::write(path, text).unwrap();
        }
        let run = |words: &[&str]| finish(set.command_on(&there, words)).good();
        let (from, into) = (copy.to_str().unwrap(), there.work());
        let into = into.to_str().unwrap();
        let said = run(&["import", agent.word(), from, "--folder", into, "--json"]);
        let session = said.json()[0]["session"].as_str().unwrap().to_owned();
        run(&["resume", &session]);
        set.is_done(&there.work());
        assert_eq!(
            set.opened(&session).pop().unwrap().1,
            "rehomed",
            "{agent:?}"
        );
        assert!(agent.record(&there, &set.id).is_some());
    }
}

#[test]
fn a_fork_of_an_adopted_conversation_is_one_of_its_own() {
    for agent in Agent::ALL {
        let set = Set::killed(agent);
        let adopted = set.import(&[&set.id, "--json"]).good().json().remove(0);
        let session = adopted["session"].as_str().unwrap();
        set.segno(&["sessions", "fork", session, "--name", "other"])
            .good();
        let record = agent.record(&set.stage, &set.id).unwrap();
        let before = fs::read(&record).unwrap();
        set.segno(&["resume", "other"]).good();
        assert_eq!(files(&set.stage.work()), standard_files(), "{agent:?}");
        let opened = set.opened("other");
        let rungs: Vec<&str> = opened.iter().map(|(_, rung)| rung.as_str()).collect();
        assert_eq!(rungs, ["-", "rehomed"], "{agent:?}");
        assert!(opened.iter().all(|(id, _)| *id != set.id), "{opened:?}");
        assert!(
            fs::read(&record).unwrap() == before,
            "the first is untouched"
        );
        let sent = conversation(&set.server.request("standard", 8).unwrap());
        let known = sent.iter().any(
            |part| matches!(part, Part::Text(Role::Assistant, text) if text.contains("I begin with a plan.")),
        );
        assert!(known, "{agent:?}: what was said is the conversation");
    }
}

/// A transcript of Claude Code that is made up, below a home of its own.
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
        forged.say(0..4);
        forged
    }

    /// A person and the model speak in turns.
    fn say(&self, turns: std::ops::Range<u32>) {
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

    fn segno(&self, words: &[&str]) -> Said {
        finish(self.command(words))
    }

    fn import(&self) -> Value {
        let said = self.segno(&["import", "claude", "--all", "--json"]).good();
        let mut lines = said.json();
        assert_eq!(lines.len(), 1, "{lines:?}");
        lines.remove(0)
    }

    /// What the session has of what was said.
    fn said(&self) -> Vec<Value> {
        let session = self.import()["session"].as_str().unwrap().to_owned();
        let exported = self.segno(&["sessions", "export", &session, "-o", "-"]);
        let events = journal(&exported.good(), "agent_said");
        let entries = events
            .iter()
            .map(|event| event["entries"].as_str().unwrap());
        entries
            .flat_map(|entries| serde_json::from_str::<Vec<Value>>(entries).unwrap())
            .collect()
    }

    fn shown(&self) -> Value {
        let said = self.segno(&["sessions", "show", "Tell-me", "--json"]);
        said.good().json().remove(0)
    }
}

#[test]
fn only_what_is_new_in_a_transcript_is_added() {
    let forged = Forged::new();
    assert_eq!(forged.import()["outcome"], "new");
    assert_eq!(forged.import()["outcome"], "unchanged");
    assert_eq!(forged.shown()["usage"]["output_tokens"], 14);
    forged.say(4..6);
    let dry = forged.segno(&["import", "claude", ID, "--dry-run"]).good();
    assert!(dry.stdout.contains("would bring up to date"), "{dry:?}");
    let updated = forged.import();
    assert_eq!(
        (&updated["outcome"], &updated["entries"]),
        (&json!("updated"), &json!(2))
    );
    assert_eq!(forged.import()["outcome"], "unchanged");
    assert_eq!(forged.said().len(), 6);
    let shown = forged.shown();
    assert_eq!(
        shown["usage"]["output_tokens"], 21,
        "each message counts once"
    );
    assert_eq!(shown["usage"]["input_tokens"], 330);
    assert_eq!(shown["run"], 2);
    // A file that was rewritten is told, and what was adopted stays.
    let text = fs::read_to_string(&forged.file).unwrap();
    fs::write(&forged.file, text.replace("root", "boot")).unwrap();
    let left = forged.import();
    assert_eq!(left["outcome"], "left", "{left}");
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
    assert_eq!(forged.said().len(), 6);
}

#[test]
fn a_damaged_transcript_is_adopted_as_far_as_it_can_be_read() {
    let forged = Forged::new();
    forged.append("{\"type\":\"assistant\",\0\0\0\n");
    forged.say(4..6);
    let torn = forged.line(6);
    forged.append(&torn[..40]);
    let adopted = forged.import();
    let damage = adopted["damage"].as_array().unwrap();
    assert_eq!(damage.len(), 2, "{adopted}");
    assert!(
        damage[0].as_str().unwrap().contains("bytes of zero"),
        "{adopted}"
    );
    assert!(
        damage[1].as_str().unwrap().contains("ends in its middle"),
        "{adopted}"
    );
    assert_eq!(adopted["entries"], 6);
    // The torn line was only on its way.
    forged.append(&torn[40..]);
    assert_eq!(forged.import()["entries"], 1);
    assert_eq!(forged.said().len(), 7);
}

#[test]
fn one_that_nobody_can_read_does_not_keep_the_others_away() {
    let forged = Forged::new();
    let beside = |name: &str| forged.file.with_file_name(format!("{name}.jsonl"));
    fs::write(
        beside("5e550000-0000-4000-8000-00000000000b"),
        b"\xff\xfe no\n",
    )
    .unwrap();
    fs::write(beside("5e550000-0000-4000-8000-00000000000c"), "").unwrap();
    fs::write(beside("agent-1234"), forged.line(0)).unwrap();
    let said = forged.segno(&["import", "claude", "--all", "--json"]);
    assert_eq!(said.code(), 12, "{said:?}");
    let lines = said.json();
    let outcomes: Vec<_> = lines.iter().map(|line| line["outcome"].clone()).collect();
    assert_eq!(
        outcomes,
        [json!("new"), Value::Null, json!("empty")],
        "{lines:?}"
    );
    let problem = lines[1]["problem"].as_str().unwrap();
    assert!(problem.contains("none of it can be read"), "{problem}");
    let said = forged.segno(&["import", "claude", "none-such", "--json"]);
    assert_eq!(said.code(), 2, "{said:?}");
}

#[test]
fn two_imports_at_once_adopt_a_transcript_once() {
    let forged = Forged::new();
    let words = ["import", "claude", ID, "--json"];
    let start = || {
        let mut command = forged.command(&words);
        command.stdout(std::process::Stdio::piped());
        command.spawn().unwrap()
    };
    for round in 0..5 {
        let both = [start(), start(), start()];
        for child in both {
            let said = wait(child).good();
            let outcome = said.json()[0]["outcome"].clone();
            assert!(outcome != "empty", "round {round}: {said:?}");
        }
        assert_eq!(forged.import()["outcome"], "unchanged", "round {round}");
        assert_eq!(forged.said().len(), 4 + 2 * round as usize);
        forged.say(4 + 2 * round..6 + 2 * round);
    }
    let listed = forged
        .segno(&["sessions", "list", "--all", "--json"])
        .good();
    assert_eq!(listed.json().len(), 1, "{listed:?}");
}

#[test]
fn the_copy_of_a_transcript_stays_for_as_long_as_its_session_does() {
    let forged = Forged::new();
    let session = forged.import()["session"].as_str().unwrap().to_owned();
    let swept = || {
        let old = std::time::SystemTime::UNIX_EPOCH + std::time::Duration::from_hours(400_000);
        for head in fs::read_dir(forged.sandbox.home().join("snapshots/heads")).unwrap() {
            let head = fs::File::open(head.unwrap().path()).unwrap();
            head.set_modified(old).unwrap();
        }
        let said = forged.segno(&["gc", "--grace-hours", "0", "--json"]).good();
        said.json()[0]["snapshots"].as_u64().unwrap()
    };
    assert_eq!(swept(), 0);
    forged.segno(&["sessions", "delete", &session]).good();
    assert_eq!(swept(), 0, "it is in the trash");
    let left = forged.import();
    assert!(left["reason"].as_str().unwrap().contains("trash"), "{left}");
    forged.segno(&["sessions", "restore", &session]).good();
    assert_eq!(swept(), 0);
    forged.segno(&["sessions", "delete", &session]).good();
    forged
        .segno(&["sessions", "trash", "--empty", "--yes"])
        .good();
    assert_eq!(swept(), 1, "nobody needs it any more");
    assert_eq!(
        forged.import()["outcome"],
        "new",
        "and it can be adopted again"
    );
}

#[test]
fn what_was_said_is_found_newest_first_and_shown() {
    let forged = Forged::new();
    forged.import();
    let find = |words: &[&str]| {
        let said = forged.segno(&[&["sessions", "search"], words, &["--json"]].concat());
        said.good().json()
    };
    let finds = find(&["TURNIP"]);
    let told: Vec<_> = finds
        .iter()
        .map(|find| {
            (
                find["who"].as_str().unwrap(),
                find["snippet"].as_str().unwrap(),
            )
        })
        .collect();
    assert_eq!(
        told[1..],
        [
            ("agent", "A turnip is a root, number 3."),
            ("person", "Tell me of Turnip 2, please."),
            ("agent", "A turnip is a root, number 1."),
            ("person", "Tell me of Turnip 0, please."),
        ]
    );
    assert_eq!(told[0].0, "question", "when it was adopted");
    assert_eq!(finds[1]["at"], "2026-11-15T10:00:03.000Z");
    assert_eq!(finds[1]["agent"], "claude-code");
    assert_eq!(find(&["turnip", "--limit", "2"]).len(), 2);
    assert_eq!(find(&["turnip", "--agent", "codex"]).len(), 0);
    assert_eq!(
        find(&["number 3", "--agent", "claude-code", "--all"]).len(),
        1
    );
    let elsewhere = forged.sandbox.work().join("elsewhere");
    fs::create_dir(&elsewhere).unwrap();
    let mut command = forged.command(&["sessions", "search", "turnip"]);
    command.current_dir(&elsewhere);
    let said = finish(command).good();
    assert!(
        said.stdout.starts_with("nothing found; `--all`"),
        "{said:?}"
    );
    let talk = forged.shown()["conversations"][0].clone();
    assert_eq!(talk["native"], ID, "{talk}");
    assert_eq!(talk["context"]["used"], 117, "{talk}");
    assert_eq!(
        talk["last_words"], "A turnip is a root, number 3.",
        "{talk}"
    );
    let said = forged.segno(&["sessions", "show", "Tell-me"]).good();
    assert!(
        said.stdout
            .contains("last words A turnip is a root, number 3."),
        "{said:?}"
    );
    let listed = forged.segno(&["sessions", "list"]).good();
    assert!(listed.stdout.contains("agent"), "{listed:?}");
}

#[test]
fn an_import_that_is_killed_goes_on_where_it_was() {
    let forged = Forged::new();
    // Long enough to be written in several commits.
    let long = "x".repeat(300_000);
    for turn in 4..44 {
        let line = forged.line(turn);
        forged.append(
            &line
                .replace("please", &format!("please {long}"))
                .replace("a root", &format!("a root {long}")),
        );
    }
    // A run opens with five or six entries; what comes after them is what was said.
    for kill in 0..3 {
        let before = entries(&forged);
        let mut child = forged.command(&["import", "claude", ID]);
        let mut child = child.stdout(std::process::Stdio::null()).spawn().unwrap();
        until("something that was said is written down", || {
            entries(&forged) >= before + 8
        });
        assert!(
            child.try_wait().unwrap().is_none(),
            "kill {kill} came too late"
        );
        child.kill().unwrap();
        child.wait().unwrap();
    }
    assert_eq!(forged.import()["outcome"], "updated");
    let found = forged.segno(&["sessions", "search", "turnip", "--limit", "100", "--json"]);
    let mut said: Vec<String> = found
        .good()
        .json()
        .iter()
        .filter(|find| find["who"] != "question")
        .map(|find| find["at"].as_str().unwrap().to_owned())
        .collect();
    assert_eq!(said.len(), 44, "{said:?}");
    said.dedup();
    assert_eq!(said.len(), 44, "nothing is there twice");
    assert_eq!(forged.shown()["usage"]["output_tokens"], 7 * 22);
}

/// How many entries the one session has.
fn entries(forged: &Forged) -> u64 {
    let listed = forged.segno(&["sessions", "list", "--all", "--json"]);
    let entries = listed
        .json()
        .first()
        .and_then(|line| line["entries"].as_u64());
    entries.unwrap_or(0)
}
