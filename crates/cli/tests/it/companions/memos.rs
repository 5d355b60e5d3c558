//! What is learnt by rule while real agents work: tests, errors, things to do, files.

use super::*;
use segno_testkit::model::{Call, Turn};
use serde_json::json;

/// A run of tests, as far as its words go: it fails until there is a file.
const TESTS: &str = "if [ -f fixed ]; then echo '2 passed in 0.01s'; exit 0; fi
echo 'FAILED test_purse.py::test_adds - assert 0 == 4'
echo '1 failed, 1 passed in 0.01s'
exit 1
";

/// The agent's own list, where its program has one: this Codex offers none to this model.
fn lists(agent: Agent) -> [Call; 2] {
    let raw = |name: &str, input: Value| Call::Raw {
        name: name.into(),
        input,
    };
    match agent {
        Agent::Claude => [
            raw(
                "TaskCreate",
                json!({"subject": "mend the purse", "description": "It loses coins."}),
            ),
            raw(
                "TaskUpdate",
                json!({"taskId": "1", "status": "in_progress"}),
            ),
        ],
        Agent::Codex => [Call::shell("true"), Call::shell("true")],
    }
}

/// Writes tests, runs them, and mends what fails.
fn purse(agent: Agent) -> Set {
    let [create, update] = lists(agent);
    let turns = [
        Turn::say("First the tests.").call(Call::write("test.sh", TESTS)),
        Turn::say("A list.").call(create),
        Turn::say("I begin.").call(update),
        Turn::say("Do they run?").call(Call::shell("sh test.sh")),
        Turn::say("Is it anywhere?").call(Call::shell("grep -r nowhere test.sh")),
        Turn::say("I mend it.")
            .call(Call::write("fixed", "yes\n"))
            .held(),
        Turn::say("Again.").call(Call::shell("sh test.sh")),
        Turn::say("The purse is whole."),
    ];
    Set::with(agent, Script::new("purse", turns).heedless())
}

impl Set {
    fn with_lists(&self, words: &[&str]) -> std::process::Command {
        let mut command = self.command(words);
        // Otherwise Claude Code offers its list to some models only.
        command.env("CLAUDE_CODE_ENABLE_TODO_TOOLS", "1");
        command
    }

    fn memos(&self) -> Vec<Value> {
        let listed = self.segno(&["note", "list", "task", "--json"]);
        listed.good().json()
    }
}

/// The memos of one sort.
fn of<'a>(memos: &'a [Value], sort: &str) -> Vec<&'a Value> {
    let own = memos.iter().filter(|memo| !memo["memo"][sort].is_null());
    own.collect()
}

#[test]
fn what_an_agent_does_is_noted_with_its_evidence_and_a_kill_takes_none_of_it() {
    for agent in [Agent::Claude, Agent::Codex] {
        let set = purse(agent);
        let mut command = set.with_lists(&["run", set.spec.to_str().unwrap(), "--json"]);
        command.stdout(Stdio::piped()).stderr(Stdio::piped());
        let child = command.spawn().unwrap();
        until("the model is about to mend it", || {
            set.server.holds("purse", 5)
        });
        until("the failing tests are written down", || {
            let written = set.journal("memos_written");
            let noted = written
                .iter()
                .any(|event| event.to_string().contains("test_adds"));
            noted && set.written_down("task", "test_adds")
        });
        set.kill(child);

        let memos = set.memos();
        let tests = of(&memos, "tests");
        assert_eq!(tests.len(), 1, "{agent:?} {memos:#?}");
        let run = &tests[0]["memo"]["tests"];
        assert_eq!(run["phase"], "red");
        assert_eq!(run["failing"], json!(["test_purse.py::test_adds"]));
        assert_eq!((&run["passed"], &run["failed"]), (&json!(1), &json!(1)));
        assert_eq!(
            (&tests[0]["source"], &tests[0]["by"]),
            (&json!("rule"), &json!("segno"))
        );
        let errors = of(&memos, "error");
        assert_eq!(errors.len(), 1, "{agent:?} {errors:#?}");
        assert_eq!(errors[0]["memo"]["error"]["resolution"], "unresolved");
        assert_eq!(errors[0]["memo"]["error"]["subject"], "sh test.sh");
        assert_eq!(errors[0]["call"], tests[0]["call"], "one call tells both");
        if agent == Agent::Claude {
            let list = of(&memos, "todos");
            let items = json!([{"text": "mend the purse", "progress": "in_progress"}]);
            assert_eq!(list[0]["memo"]["todos"]["items"], items, "{list:?}");
            assert_eq!(list[0]["source"], "driver");
        }
        let files = of(&memos, "files")[0].to_string();
        assert!(files.contains("test.sh"), "{agent:?} {files}");
        let written = set.journal("memos_written");
        let mut all = written
            .iter()
            .flat_map(|event| event["memos"].as_array().unwrap());
        let told = all.find(|memo| !memo["memo"]["files"].is_null());
        assert!(told.unwrap()["call"].is_string(), "{agent:?} {written:?}");
        let calls: String = set
            .journal("agent_said")
            .iter()
            .map(Value::to_string)
            .collect();
        let call = tests[0]["call"].as_str().unwrap();
        assert!(calls.contains(call), "{agent:?} {call}");

        set.server.release("purse", 5);
        let mut resume = set.with_lists(&["resume", "task"]);
        resume.stdout(Stdio::null()).stderr(Stdio::null());
        assert!(resume.status().unwrap().success());
        let memos = set.memos();
        let tests = &of(&memos, "tests")[0]["memo"]["tests"];
        assert_eq!(
            (&tests["phase"], &tests["passed"]),
            (&json!("green"), &json!(2))
        );
        let errors = of(&memos, "error");
        assert_eq!(errors.len(), 1, "{agent:?} {errors:#?}");
        assert_eq!(errors[0]["memo"]["error"]["resolution"], "fixed");
        let written = set.journal("memos_written");
        let red = written
            .iter()
            .filter(|event| event.to_string().contains("\"red\""));
        assert_eq!(red.count(), 1, "{agent:?}: nothing is noted twice");
        set.is_quiet();
    }
}
