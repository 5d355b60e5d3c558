//! Notes that rules derive while real agents work: test results, errors, todos, files.

use super::*;
use segno_testkit::model::{Call, Turn};
use serde_json::json;

/// Prints the output of a test run: it fails until a file exists.
const TESTS: &str = "if [ -f fixed ]; then echo '2 passed in 0.01s'; exit 0; fi
echo 'FAILED test_purse.py::test_adds - assert 0 == 4'
echo '1 failed, 1 passed in 0.01s'
exit 1
";

/// Calls that use the agent's own todo list, if its program has one: this Codex offers none to this
/// model.
fn todo_calls(agent: Agent) -> [Call; 2] {
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

/// An agent that writes tests, runs them, and fixes what fails.
fn purse(agent: Agent) -> Fixture {
    let [create, update] = todo_calls(agent);
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
    Fixture::with(agent, Script::new("purse", turns).without_repairs())
}

impl Fixture {
    fn command_with_todo_tools(&self, words: &[&str]) -> std::process::Command {
        let mut command = self.command(words);
        // Without this, Claude Code offers its todo list only to some models.
        command.env("CLAUDE_CODE_ENABLE_TODO_TOOLS", "1");
        command
    }

    fn notes(&self) -> Vec<Value> {
        let listed = self.segno(&["note", "list", "task", "--json"]);
        listed.expect_success().json()
    }
}

/// The notes of one type.
fn of_type<'a>(notes: &'a [Value], kind: &str) -> Vec<&'a Value> {
    let own = notes.iter().filter(|note| !note["note"][kind].is_null());
    own.collect()
}

#[test]
fn notes_carry_their_evidence_and_survive_a_kill() {
    for agent in [Agent::Claude, Agent::Codex] {
        let fixture = purse(agent);
        let mut command =
            fixture.command_with_todo_tools(&["run", fixture.spec.to_str().unwrap(), "--json"]);
        command.stdout(Stdio::piped()).stderr(Stdio::piped());
        let child = command.spawn().unwrap();
        wait_until("the model is about to mend it", || {
            fixture.server.is_held("purse", 5)
        });
        wait_until("the failing tests are written down", || {
            let written = fixture.events("memos_written");
            let noted = written
                .iter()
                .any(|event| event.to_string().contains("test_adds"));
            noted && fixture.is_persisted("task", "test_adds")
        });
        fixture.kill(child);

        let notes = fixture.notes();
        let tests = of_type(&notes, "tests");
        assert_eq!(tests.len(), 1, "{agent:?} {notes:#?}");
        let run = &tests[0]["note"]["tests"];
        assert_eq!(run["phase"], "red");
        assert_eq!(run["failing"], json!(["test_purse.py::test_adds"]));
        assert_eq!((&run["passed"], &run["failed"]), (&json!(1), &json!(1)));
        assert_eq!(
            (&tests[0]["source"], &tests[0]["by"]),
            (&json!("rule"), &json!("segno"))
        );
        let errors = of_type(&notes, "error");
        assert_eq!(errors.len(), 1, "{agent:?} {errors:#?}");
        assert_eq!(errors[0]["note"]["error"]["resolution"], "unresolved");
        assert_eq!(errors[0]["note"]["error"]["subject"], "sh test.sh");
        assert_eq!(errors[0]["call"], tests[0]["call"], "one call tells both");
        if agent == Agent::Claude {
            let list = of_type(&notes, "todos");
            let items = json!([{"text": "mend the purse", "progress": "in_progress"}]);
            assert_eq!(list[0]["note"]["todos"]["items"], items, "{list:?}");
            assert_eq!(list[0]["source"], "driver");
        }
        let files = of_type(&notes, "files")[0].to_string();
        assert!(files.contains("test.sh"), "{agent:?} {files}");
        let written = fixture.events("memos_written");
        let mut all = written
            .iter()
            .flat_map(|event| event["memos"].as_array().unwrap());
        let found = all.find(|note| !note["memo"]["files"].is_null());
        assert!(found.unwrap()["call"].is_string(), "{agent:?} {written:?}");
        let calls: String = fixture
            .events("agent_said")
            .iter()
            .map(Value::to_string)
            .collect();
        let call = tests[0]["call"].as_str().unwrap();
        assert!(calls.contains(call), "{agent:?} {call}");

        fixture.server.release("purse", 5);
        let mut resume = fixture.command_with_todo_tools(&["resume", "task"]);
        resume.stdout(Stdio::null()).stderr(Stdio::null());
        assert!(resume.status().unwrap().success());
        let notes = fixture.notes();
        let tests = &of_type(&notes, "tests")[0]["note"]["tests"];
        assert_eq!(
            (&tests["phase"], &tests["passed"]),
            (&json!("green"), &json!(2))
        );
        let errors = of_type(&notes, "error");
        assert_eq!(errors.len(), 1, "{agent:?} {errors:#?}");
        assert_eq!(errors[0]["note"]["error"]["resolution"], "fixed");
        let written = fixture.events("memos_written");
        let red = written
            .iter()
            .filter(|event| event.to_string().contains("\"red\""));
        assert_eq!(red.count(), 1, "{agent:?}: nothing is noted twice");
        fixture.wait_until_idle();
    }
}
