//! Copies of sessions whose agents are in the middle of something: the files and the conversation of a
//! checkpoint, together and apart from everything that came later.

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};

use segno_testkit::model::{Asked, Call, Role, Turn};

use super::*;

/// Four files, one after the other. The third and the fourth wait until they are let go of.
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

fn numbers(names: &[&str]) -> BTreeMap<String, String> {
    let file = |name: &&str| (format!("{name}.txt"), format!("{name}\n"));
    names.iter().map(file).collect()
}

/// A session that was killed before the fourth file, with a checkpoint from before the third.
struct Past {
    set: Set,
    checkpoint: String,
    /// The program's record, and what it was when everything was still.
    record: (PathBuf, Vec<u8>),
    journal: Vec<Value>,
    /// How often the model had been asked.
    asked: usize,
}

impl Past {
    fn new(agent: Agent) -> Self {
        let set = Set::with(agent, stages());
        let mut child = set.start();
        until("the third file is asked for", || {
            set.server.holds("stages", 2) && set.written_down("task", "Two comes next.")
        });
        let taken = set
            .segno(&["checkpoint", "create", "task", "--json"])
            .good();
        let checkpoint = taken.json()[0]["checkpoint"].as_str().unwrap().to_owned();
        set.server.release("stages", 2);
        until("the fourth file is asked for", || {
            set.server.holds("stages", 3) && set.written_down("task", "Three follows.")
        });
        child.kill().unwrap();
        wait(child);
        until("nothing runs", || set.stage.processes().is_empty());
        set.server.release("stages", 3);
        let path = set.record();
        let record = std::fs::read(&path).unwrap();
        Self {
            checkpoint,
            record: (path, record),
            journal: set.logs("task"),
            asked: set.server.asked().len(),
            set,
        }
    }

    /// The session is as it was, and so is what its program has of it.
    fn is_untouched(&self) {
        let (path, record) = &self.record;
        assert!(
            std::fs::read(path).unwrap() == *record,
            "{:?}",
            self.set.agent
        );
        assert_eq!(self.set.logs("task"), self.journal, "{:?}", self.set.agent);
    }

    /// The session itself goes on as if nothing had been made of it.
    fn goes_on(&self) {
        let set = &self.set;
        set.segno(&["resume", "task"]).good();
        assert_eq!(set.opened().last().unwrap().1, "native", "{:?}", set.agent);
        let all = numbers(&["one", "two", "three", "four"]);
        assert_eq!(files(&set.stage.work()), all, "{:?}", set.agent);
    }

    /// The name that the agent's program had for the conversation.
    fn native(&self) -> String {
        self.set.opened().pop().unwrap().0
    }

    /// What the model was asked since, in conversations that are about the task.
    fn asked_since(&self) -> Vec<Asked> {
        let asked = self.set.server.asked().split_off(self.asked);
        let is_about = |asked: &Asked| asked.body.to_string().contains("One is first.");
        asked.into_iter().filter(is_about).collect()
    }

    /// The copy went on with the conversation as it was at the checkpoint, under another name.
    fn was_told_the_past(&self, copy: &str) {
        let agent = self.set.agent;
        let opened = self.set.workshop.opened(copy);
        let (id, rung) = opened.last().unwrap();
        assert_eq!(rung, "rehomed", "{agent:?} {opened:?}");
        let (native, asked) = (self.native(), self.asked_since());
        assert_ne!(*id, native);
        assert_eq!(asked.len(), 3, "{agent:?}: from the third turn on");
        let first = conversation(&asked[0]);
        let said = |words: &str| {
            first.iter().any(
                |part| matches!(part, Part::Text(Role::Assistant, text) if text.contains(words)),
            )
        };
        assert!(
            said("One is first.") && said("Two comes next."),
            "{first:#?}"
        );
        let calls = first.iter().filter(|part| matches!(part, Part::Call(..)));
        assert_eq!(calls.count(), 2, "{agent:?}: calls stay calls");
        for asked in &asked {
            let body = asked.body.to_string();
            assert!(!body.contains(&native), "{agent:?}: the other name");
        }
        let body = asked[0].body.to_string();
        // The words before the third file were heard before the checkpoint; the file came after it.
        for later in ["three.txt", "Four ends it."] {
            assert!(!body.contains(later), "{agent:?} {later}: {first:#?}");
        }
        assert!(
            body.contains("this is a copy of it"),
            "{agent:?} {first:#?}"
        );
    }
}

impl Set {
    fn logs(&self, session: &str) -> Vec<Value> {
        self.segno(&["logs", session, "--json"]).good().json()
    }

    fn names(&self) -> Vec<String> {
        let listed = self.segno(&["sessions", "list", "--all", "--json"]).good();
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
fn a_copy_of_a_checkpoint_has_its_files_and_its_conversation_and_nothing_later() {
    for agent in [Agent::Claude, Agent::Codex] {
        let past = Past::new(agent);
        let set = &past.set;
        let fork = [
            "sessions",
            "fork",
            "task",
            "--from",
            &past.checkpoint,
            "--json",
        ];
        let made = set.segno(&fork).good().json().remove(0);
        assert_eq!(made["name"], "task-fork");
        let folder = set.stage.root().join("work-task-fork");
        assert_eq!(made["workspace"], text(&folder));
        assert_eq!(files(&folder), numbers(&["one", "two"]), "{agent:?}");
        past.is_untouched();
        let plan = set
            .segno(&["resume", "task-fork", "--plan", "--json"])
            .good();
        assert_eq!(plan.json()[0]["steps"][0]["rung"], "rehomed", "{plan:?}");
        let said = set.segno(&["resume", "task-fork"]).good();
        assert!(said.stdout.contains("All four are there."), "{said:?}");
        let all = numbers(&["one", "two", "three", "four"]);
        assert_eq!(files(&folder), all, "{agent:?}");
        let left = numbers(&["one", "two", "three"]);
        assert_eq!(
            files(&set.stage.work()),
            left,
            "{agent:?}: the other folder"
        );
        past.was_told_the_past("task-fork");
        past.is_untouched();
        past.goes_on();
        set.segno(&["doctor"]).good();
    }
}

#[test]
fn copies_of_one_session_go_on_at_once_and_do_not_disturb_each_other() {
    for agent in [Agent::Claude, Agent::Codex] {
        let past = Past::new(agent);
        let set = &past.set;
        let folders = ["left", "right"].map(|name| set.stage.root().join(name));
        let start = |folder: &PathBuf| {
            let from = past.checkpoint.as_str();
            let words = ["resume", "task", "--from", from, "--into", text(folder)];
            let mut command = set.command(&words);
            command.stdout(Stdio::piped()).stderr(Stdio::piped());
            command.spawn().unwrap()
        };
        let both = folders.each_ref().map(start);
        for child in both {
            let said = wait(child);
            assert!(said.status.success(), "{agent:?} {said:?}");
        }
        let all = numbers(&["one", "two", "three", "four"]);
        for folder in &folders {
            assert_eq!(files(folder), all, "{agent:?}");
        }
        assert_eq!(set.names(), ["task", "task-fork", "task-fork-2"]);
        let ids: Vec<String> = ["task", "task-fork", "task-fork-2"]
            .iter()
            .map(|name| set.workshop.opened(name).pop().unwrap().0)
            .collect();
        assert!(
            ids[0] != ids[1] && ids[1] != ids[2] && ids[0] != ids[2],
            "{ids:?}"
        );
        past.is_untouched();
        past.goes_on();
    }
}

#[test]
fn a_resume_from_a_checkpoint_brings_the_files_back_and_keeps_what_they_replace() {
    for agent in [Agent::Claude, Agent::Codex] {
        let past = Past::new(agent);
        let set = &past.set;
        let back = ["resume", "task", "--from", &past.checkpoint];
        let plan = set.segno(&[&back[..], &["--plan", "--json"]].concat());
        let plan = plan.good().json().remove(0);
        assert_eq!(plan["kind"], "fork_plan");
        assert_eq!(plan["steps"][0]["rung"], "rehomed", "{plan}");
        assert_eq!(
            plan["replaced"]["removed"],
            serde_json::json!(["three.txt"])
        );
        assert_eq!(set.names(), ["task"], "a plan does nothing");
        assert_eq!(files(&set.stage.work()), numbers(&["one", "two", "three"]));
        let said = set.segno(&[&back[..], &["--say", "Mind the gap."]].concat());
        let said = said.good();
        assert!(
            said.stdout.contains("forked task into task-fork"),
            "{said:?}"
        );
        assert!(
            said.stdout.contains("what was there before is kept"),
            "{said:?}"
        );
        assert!(said.stdout.contains("All four are there."), "{said:?}");
        past.was_told_the_past("task-fork");
        assert!(
            past.asked_since()[0]
                .body
                .to_string()
                .contains("Mind the gap.")
        );
        past.is_untouched();
        past.goes_on();
    }
}

#[test]
fn a_copy_in_the_same_folder_goes_on_with_a_conversation_of_its_own() {
    for agent in [Agent::Claude, Agent::Codex] {
        let past = Past::new(agent);
        let set = &past.set;
        let said = set.segno(&["resume", "task", "--fork"]).good();
        assert!(
            said.stdout.contains("forked task into task-fork"),
            "{said:?}"
        );
        assert!(said.stdout.contains("All four are there."), "{said:?}");
        let (id, rung) = set.workshop.opened("task-fork").pop().unwrap();
        assert_eq!(rung, "rehomed", "{agent:?}");
        assert_ne!(id, past.native());
        assert_eq!(
            past.asked_since().len(),
            2,
            "{agent:?}: from the fourth turn on"
        );
        let all = numbers(&["one", "two", "three", "four"]);
        assert_eq!(files(&set.stage.work()), all, "{agent:?}");
        past.is_untouched();
    }
}

#[test]
fn a_copy_can_be_handed_to_another_agent() {
    let past = Past::new(Agent::Claude);
    let set = &past.set;
    let from = past.checkpoint.as_str();
    let folder = set.stage.root().join("handed");
    let words = [
        "resume",
        "task",
        "--from",
        from,
        "--into",
        text(&folder),
        "--with",
        "codex",
    ];
    set.segno(&words).good();
    let (_, rung) = set.workshop.opened("task-fork").pop().unwrap();
    assert_eq!(rung, "other");
    assert_eq!(files(&folder), numbers(&["one", "two", "three", "four"]));
    past.is_untouched();
}

#[test]
fn a_copy_without_a_record_is_told_what_was_said() {
    for agent in [Agent::Claude, Agent::Codex] {
        let set = Set::killed(agent);
        std::fs::remove_file(set.record()).unwrap();
        let folder = set.stage.root().join("apart");
        let fork = ["resume", "task", "--fork", "--into", text(&folder)];
        set.segno(&fork).good();
        let opened = set.workshop.opened("task-fork");
        assert_eq!(opened.len(), 1, "{opened:?}");
        assert_eq!(opened[0].1, "compiled", "{agent:?}");
        assert_eq!(files(&folder), standard_files(), "{agent:?}");
        let told = set.told();
        let old = format!("it was {}, and is", set.stage.work().display());
        for words in ["A place to work in. [standard:1]", "mkdir -p src", &old] {
            assert!(told.contains(words), "{agent:?} {words}: {told}");
        }
    }
}

#[test]
fn a_copy_needs_nothing_of_the_other_any_more() {
    for agent in [Agent::Claude, Agent::Codex] {
        let past = Past::new(agent);
        let set = &past.set;
        let folder = set.stage.root().join("apart");
        let from = past.checkpoint.as_str();
        let fork = [
            "sessions",
            "fork",
            "task",
            "--from",
            from,
            "--into",
            text(&folder),
        ];
        set.segno(&fork).good();
        set.segno(&["sessions", "delete", "task", "--now", "--yes"])
            .good();
        std::fs::remove_file(&past.record.0).unwrap();
        std::fs::remove_dir_all(set.sandbox.home().join("checkpoints")).unwrap();
        let old = std::time::SystemTime::UNIX_EPOCH + std::time::Duration::from_hours(400_000);
        for head in std::fs::read_dir(set.sandbox.home().join("snapshots/heads")).unwrap() {
            let head = std::fs::File::open(head.unwrap().path()).unwrap();
            head.set_modified(old).unwrap();
        }
        let swept = set.segno(&["gc", "--grace-hours", "0", "--json"]).good();
        assert!(
            swept.json()[0]["snapshots"].as_u64().unwrap() > 0,
            "{swept:?}"
        );
        set.segno(&["resume", "task-fork"]).good();
        assert_eq!(
            set.workshop.opened("task-fork").pop().unwrap().1,
            "rehomed",
            "{agent:?}"
        );
        assert_eq!(files(&folder), numbers(&["one", "two", "three", "four"]));
    }
}

/// Kills a fork wherever it can be killed, and asks for the same again.
#[test]
#[cfg(feature = "failpoints")]
fn a_fork_of_a_checkpoint_that_is_killed_can_be_repeated() {
    use segno_core::fault::Point;
    let past = Past::new(Agent::Claude);
    let set = &past.set;
    let rung = |name: &str| {
        let plan = set.segno(&["resume", name, "--plan", "--json"]).good();
        plan.json()[0]["steps"][0]["rung"]
            .as_str()
            .unwrap()
            .to_owned()
    };
    let (mut kills, mut made) = (0, 0);
    for point in Point::ALL {
        for visit in 1.. {
            let name = format!("{}-{visit}", point.name());
            let folder = set.stage.root().join(&name);
            let from = past.checkpoint.as_str();
            let into = text(&folder);
            let fork = [
                "sessions", "fork", "task", "--from", from, "--into", into, "--name", &name,
            ];
            let mut command = set.command(&fork);
            command.env("SEGNO_FAILPOINT", format!("{}:{visit}", point.name()));
            let crashed = segno_testkit::sandbox::finish(command).crashed();
            kills += usize::from(crashed);
            if set.names().contains(&name) {
                made += 1;
            } else {
                set.segno(&fork).good();
            }
            assert_eq!(files(&folder), numbers(&["one", "two"]), "{name}");
            assert_eq!(rung(&name), "rehomed", "{name}");
            set.segno(&["sessions", "delete", &name, "--now", "--yes"])
                .good();
            if !crashed {
                break;
            }
        }
    }
    assert!(
        kills >= 10 && made > Point::ALL.len(),
        "{kills} kills, {made} made"
    );
    past.is_untouched();
    set.segno(&["doctor"]).good();
}
