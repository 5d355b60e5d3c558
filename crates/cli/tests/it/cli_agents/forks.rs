//! Forks of sessions whose agents are in the middle of a step: the files and the conversation of a
//! checkpoint, without anything that came later.

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};

use segno_testkit::model::{Call, ModelRequest, Role, Turn};

use super::*;

/// Four files, one after the other. The server holds the third and the fourth turn until they are
/// released.
fn stages() -> Script {
    Script::new(
        "stages",
        [
            Turn::say("One is first.").call(Call::write("one.txt", "one\n")),
            Turn::say("Two comes next.").call(Call::write("two.txt", "two\n")),
            Turn::say("Three follows.")
                .call(Call::write("three.txt", "three\n"))
                .held(),
            Turn::say("Four ends it.")
                .call(Call::write("four.txt", "four\n"))
                .held(),
            Turn::say("All four are there."),
        ],
    )
}

fn number_files(names: &[&str]) -> BTreeMap<String, String> {
    let file = |name: &&str| (format!("{name}.txt"), format!("{name}\n"));
    names.iter().map(file).collect()
}

/// A session that was killed before the fourth file, with a checkpoint from before the third.
struct Past {
    fixture: Fixture,
    checkpoint: String,
    /// The agent's transcript, and its content when no process was left.
    transcript: (PathBuf, Vec<u8>),
    journal: Vec<Value>,
    /// How many requests the model had received.
    asked: usize,
}

/// Whether the agent's transcript has this many tool results. An agent writes its words before the
/// call and its result, and asks again for what it did not write.
fn has_results(fixture: &Fixture, count: usize) -> bool {
    let marker = match fixture.agent {
        Agent::Claude => r#""type":"tool_result""#,
        Agent::Codex => r#"call_output""#,
    };
    let transcript = std::fs::read_to_string(fixture.transcript()).unwrap_or_default();
    transcript.matches(marker).count() >= count
}

impl Past {
    fn new(agent: Agent) -> Self {
        let fixture = Fixture::with(agent, stages());
        let mut child = fixture.start();
        wait_until("the third file is asked for", || {
            fixture.server.is_held("stages", 2)
                && fixture.is_persisted("task", "Two comes next.")
                && has_results(&fixture, 2)
        });
        let created = fixture
            .segno(&["checkpoint", "create", "task", "--json"])
            .expect_success();
        let checkpoint = created.json()[0]["checkpoint"].as_str().unwrap().to_owned();
        fixture.server.release("stages", 2);
        wait_until("the fourth file is asked for", || {
            fixture.server.is_held("stages", 3)
                && fixture.is_persisted("task", "Three follows.")
                && has_results(&fixture, 3)
        });
        child.kill().unwrap();
        wait_for_output(child);
        wait_until("nothing runs", || {
            fixture.agent_sandbox.processes().is_empty()
        });
        fixture.server.release("stages", 3);
        let path = fixture.transcript();
        let transcript = std::fs::read(&path).unwrap();
        Self {
            checkpoint,
            transcript: (path, transcript),
            journal: fixture.logs("task"),
            asked: fixture.server.requests().len(),
            fixture,
        }
    }

    /// Asserts that the session and its transcript are unchanged.
    fn assert_untouched(&self) {
        let (path, transcript) = &self.transcript;
        assert!(
            std::fs::read(path).unwrap() == *transcript,
            "{:?}",
            self.fixture.agent
        );
        assert_eq!(
            self.fixture.logs("task"),
            self.journal,
            "{:?}",
            self.fixture.agent
        );
    }

    /// Asserts that the session itself resumes as if it had not been forked.
    fn assert_resumes(&self) {
        let fixture = &self.fixture;
        fixture.segno(&["resume", "task"]).expect_success();
        assert_eq!(
            fixture.opened().last().unwrap().1,
            "native",
            "{:?}",
            fixture.agent
        );
        let all = number_files(&["one", "two", "three", "four"]);
        assert_eq!(
            files(&fixture.agent_sandbox.work()),
            all,
            "{:?}",
            fixture.agent
        );
    }

    /// The agent's id of the conversation.
    fn native(&self) -> String {
        self.fixture.opened().pop().unwrap().0
    }

    /// The requests to the model since then that are about the task.
    fn asked_since(&self) -> Vec<ModelRequest> {
        let asked = self.fixture.server.requests().split_off(self.asked);
        let is_about = |asked: &ModelRequest| asked.body.to_string().contains("One is first.");
        asked.into_iter().filter(is_about).collect()
    }

    /// Asserts that the fork continued the conversation as it was at the checkpoint, under another
    /// id.
    fn assert_resumed_from_checkpoint(&self, copy: &str) {
        let agent = self.fixture.agent;
        let opened = self.fixture.workshop.conversations(copy);
        let (id, strategy) = opened.last().unwrap();
        assert_eq!(strategy, "restored", "{agent:?} {opened:?}");
        let (native, asked) = (self.native(), self.asked_since());
        assert_ne!(*id, native);
        assert_eq!(asked.len(), 3, "{agent:?}: from the third turn on");
        let first = conversation(&asked[0]);
        let has_said = |words: &str| {
            first.iter().any(
                |part| matches!(part, Part::Text(Role::Assistant, text) if text.contains(words)),
            )
        };
        assert!(
            has_said("One is first.") && has_said("Two comes next."),
            "{first:#?}"
        );
        let calls = first.iter().filter(|part| matches!(part, Part::Call(..)));
        assert_eq!(calls.count(), 2, "{agent:?}: calls stay calls");
        for asked in &asked {
            let body = asked.body.to_string();
            assert!(!body.contains(&native), "{agent:?}: the other name");
        }
        let body = asked[0].body.to_string();
        // The text before the third file came before the checkpoint; the file itself came after it.
        for later in ["three.txt", "Four ends it."] {
            assert!(!body.contains(later), "{agent:?} {later}: {first:#?}");
        }
        assert!(body.contains("this is a fork"), "{agent:?} {first:#?}");
    }
}

impl Fixture {
    fn logs(&self, session: &str) -> Vec<Value> {
        self.segno(&["logs", session, "--json"])
            .expect_success()
            .json()
    }

    fn names(&self) -> Vec<String> {
        let listed = self
            .segno(&["sessions", "list", "--all", "--json"])
            .expect_success();
        let name = |line: &Value| line["name"].as_str().unwrap().to_owned();
        let mut names: Vec<String> = listed.json().iter().map(name).collect();
        names.sort();
        names
    }
}

fn text(path: &Path) -> &str {
    path.to_str().unwrap()
}

#[test]
fn fork_has_the_files_and_conversation_of_its_checkpoint() {
    for agent in [Agent::Claude, Agent::Codex] {
        let past = Past::new(agent);
        let fixture = &past.fixture;
        let fork = ["fork", "task", "--from", &past.checkpoint, "--json"];
        let made = fixture.segno(&fork).expect_success().json().remove(0);
        assert_eq!(made["name"], "task-fork");
        let folder = fixture.agent_sandbox.root().join("work-task-fork");
        assert_eq!(made["workspace"], text(&folder));
        assert_eq!(files(&folder), number_files(&["one", "two"]), "{agent:?}");
        past.assert_untouched();
        let plan = fixture
            .segno(&["resume", "task-fork", "--dry-run", "--json"])
            .expect_success();
        assert_eq!(
            plan.json()[0]["steps"][0]["strategy"],
            "restored",
            "{plan:?}"
        );
        let output = fixture.segno(&["resume", "task-fork"]).expect_success();
        assert!(output.stdout.contains("All four are there."), "{output:?}");
        let all = number_files(&["one", "two", "three", "four"]);
        assert_eq!(files(&folder), all, "{agent:?}");
        let left = number_files(&["one", "two", "three"]);
        assert_eq!(
            files(&fixture.agent_sandbox.work()),
            left,
            "{agent:?}: the other folder"
        );
        past.assert_resumed_from_checkpoint("task-fork");
        past.assert_untouched();
        past.assert_resumes();
        fixture.segno(&["doctor"]).expect_success();
    }
}

#[test]
fn concurrent_forks_do_not_disturb_each_other() {
    for agent in [Agent::Claude, Agent::Codex] {
        let past = Past::new(agent);
        let fixture = &past.fixture;
        let folders = ["left", "right"].map(|name| fixture.agent_sandbox.root().join(name));
        let start = |folder: &PathBuf| {
            let from = past.checkpoint.as_str();
            let words = ["resume", "task", "--from", from, "--into", text(folder)];
            let mut command = fixture.command(&words);
            command.stdout(Stdio::piped()).stderr(Stdio::piped());
            command.spawn().unwrap()
        };
        let both = folders.each_ref().map(start);
        for child in both {
            let output = wait_for_output(child);
            assert!(output.status.success(), "{agent:?} {output:?}");
        }
        let all = number_files(&["one", "two", "three", "four"]);
        for folder in &folders {
            assert_eq!(files(folder), all, "{agent:?}");
        }
        assert_eq!(fixture.names(), ["task", "task-fork", "task-fork-2"]);
        let ids: Vec<String> = ["task", "task-fork", "task-fork-2"]
            .iter()
            .map(|name| fixture.workshop.conversations(name).pop().unwrap().0)
            .collect();
        assert!(
            ids[0] != ids[1] && ids[1] != ids[2] && ids[0] != ids[2],
            "{ids:?}"
        );
        past.assert_untouched();
        past.assert_resumes();
    }
}

#[test]
fn resume_from_a_checkpoint_saves_the_files_it_replaces() {
    for agent in [Agent::Claude, Agent::Codex] {
        let past = Past::new(agent);
        let fixture = &past.fixture;
        let back = ["resume", "task", "--from", &past.checkpoint];
        let plan = fixture.segno(&[&back[..], &["--dry-run", "--json"]].concat());
        let plan = plan.expect_success().json().remove(0);
        assert_eq!(plan["kind"], "fork_plan");
        assert_eq!(plan["steps"][0]["strategy"], "restored", "{plan}");
        assert_eq!(
            plan["replaced"]["removed"],
            serde_json::json!(["three.txt"])
        );
        assert_eq!(fixture.names(), ["task"], "a plan does nothing");
        assert_eq!(
            files(&fixture.agent_sandbox.work()),
            number_files(&["one", "two", "three"])
        );
        let output = fixture.segno(&[&back[..], &["--message", "Mind the gap."]].concat());
        let output = output.expect_success();
        assert!(
            output.stdout.contains("forked task into task-fork"),
            "{output:?}"
        );
        assert!(
            output.stdout.contains("saved the previous files"),
            "{output:?}"
        );
        assert!(output.stdout.contains("All four are there."), "{output:?}");
        past.assert_resumed_from_checkpoint("task-fork");
        assert!(
            past.asked_since()[0]
                .body
                .to_string()
                .contains("Mind the gap.")
        );
        past.assert_untouched();
        past.assert_resumes();
    }
}

#[test]
fn fork_in_the_same_folder_gets_its_own_conversation() {
    for agent in [Agent::Claude, Agent::Codex] {
        let past = Past::new(agent);
        let fixture = &past.fixture;
        let output = fixture
            .segno(&["resume", "task", "--fork"])
            .expect_success();
        assert!(
            output.stdout.contains("forked task into task-fork"),
            "{output:?}"
        );
        assert!(output.stdout.contains("All four are there."), "{output:?}");
        let (id, strategy) = fixture.workshop.conversations("task-fork").pop().unwrap();
        assert_eq!(strategy, "restored", "{agent:?}");
        assert_ne!(id, past.native());
        assert_eq!(
            past.asked_since().len(),
            2,
            "{agent:?}: from the fourth turn on"
        );
        let all = number_files(&["one", "two", "three", "four"]);
        assert_eq!(files(&fixture.agent_sandbox.work()), all, "{agent:?}");
        past.assert_untouched();
    }
}

#[test]
fn fork_can_be_handed_to_another_agent() {
    let past = Past::new(Agent::Claude);
    let fixture = &past.fixture;
    let from = past.checkpoint.as_str();
    let folder = fixture.agent_sandbox.root().join("handed");
    let words = [
        "resume",
        "task",
        "--from",
        from,
        "--into",
        text(&folder),
        "--agent",
        "codex",
    ];
    fixture.segno(&words).expect_success();
    let (_, strategy) = fixture.workshop.conversations("task-fork").pop().unwrap();
    assert_eq!(strategy, "handoff");
    assert_eq!(
        files(&folder),
        number_files(&["one", "two", "three", "four"])
    );
    past.assert_untouched();
}

#[test]
fn fork_without_a_transcript_gets_resume_context() {
    for agent in [Agent::Claude, Agent::Codex] {
        let fixture = Fixture::killed(agent);
        std::fs::remove_file(fixture.transcript()).unwrap();
        let folder = fixture.agent_sandbox.root().join("apart");
        let fork = ["resume", "task", "--fork", "--into", text(&folder)];
        fixture.segno(&fork).expect_success();
        let opened = fixture.workshop.conversations("task-fork");
        assert_eq!(opened.len(), 1, "{opened:?}");
        assert_eq!(opened[0].1, "summarized", "{agent:?}");
        assert_eq!(files(&folder), standard_files(), "{agent:?}");
        let prompt = fixture.user_messages();
        let old = format!("it was {}, and is", fixture.agent_sandbox.work().display());
        for words in ["A place to work in. [standard:1]", "mkdir -p src", &old] {
            assert!(prompt.contains(words), "{agent:?} {words}: {prompt}");
        }
    }
}

#[test]
fn fork_needs_nothing_of_its_original() {
    for agent in [Agent::Claude, Agent::Codex] {
        let past = Past::new(agent);
        let fixture = &past.fixture;
        let folder = fixture.agent_sandbox.root().join("apart");
        let from = past.checkpoint.as_str();
        let fork = ["fork", "task", "--from", from, "--into", text(&folder)];
        fixture.segno(&fork).expect_success();
        fixture
            .segno(&["sessions", "delete", "task", "--permanent", "--yes"])
            .expect_success();
        std::fs::remove_file(&past.transcript.0).unwrap();
        std::fs::remove_dir_all(fixture.sandbox.home().join("checkpoints")).unwrap();
        let old = std::time::SystemTime::UNIX_EPOCH + std::time::Duration::from_hours(400_000);
        for head in std::fs::read_dir(fixture.sandbox.home().join("snapshots/heads")).unwrap() {
            let head = std::fs::File::open(head.unwrap().path()).unwrap();
            head.set_modified(old).unwrap();
        }
        let gc = fixture
            .segno(&["doctor", "--gc", "--grace-hours", "0", "--json"])
            .expect_success();
        assert!(gc.json()[0]["snapshots"].as_u64().unwrap() > 0, "{gc:?}");
        fixture.segno(&["resume", "task-fork"]).expect_success();
        assert_eq!(
            fixture.workshop.conversations("task-fork").pop().unwrap().1,
            "restored",
            "{agent:?}"
        );
        assert_eq!(
            files(&folder),
            number_files(&["one", "two", "three", "four"])
        );
    }
}

/// Kills a fork at every failpoint, and repeats the command.
#[test]
#[cfg(feature = "failpoints")]
fn killed_fork_of_a_checkpoint_can_be_repeated() {
    use segno_core::fault::Point;
    let past = Past::new(Agent::Claude);
    let fixture = &past.fixture;
    let strategy = |name: &str| {
        let plan = fixture
            .segno(&["resume", name, "--dry-run", "--json"])
            .expect_success();
        plan.json()[0]["steps"][0]["strategy"]
            .as_str()
            .unwrap()
            .to_owned()
    };
    let (mut kills, mut made) = (0, 0);
    for point in Point::ALL {
        for visit in 1.. {
            let name = format!("{}-{visit}", point.name());
            let folder = fixture.agent_sandbox.root().join(&name);
            let from = past.checkpoint.as_str();
            let into = text(&folder);
            let fork = [
                "fork", "task", "--from", from, "--into", into, "--name", &name,
            ];
            let mut command = fixture.command(&fork);
            command.env("SEGNO_FAILPOINT", format!("{}:{visit}", point.name()));
            let crashed = segno_testkit::sandbox::run_to_end(command).crashed();
            kills += usize::from(crashed);
            if fixture.names().contains(&name) {
                made += 1;
            } else {
                fixture.segno(&fork).expect_success();
            }
            assert_eq!(files(&folder), number_files(&["one", "two"]), "{name}");
            assert_eq!(strategy(&name), "restored", "{name}");
            fixture
                .segno(&["sessions", "delete", &name, "--permanent", "--yes"])
                .expect_success();
            if !crashed {
                break;
            }
        }
    }
    assert!(
        kills >= 10 && made > Point::ALL.len(),
        "{kills} kills, {made} made"
    );
    past.assert_untouched();
    fixture.segno(&["doctor"]).expect_success();
}
