//! Plans that the real Claude Code and the real Codex work through: one conversation and one commit
//! for each task.

use std::fs;
use std::path::Path;
use std::process::Command;

use segno_testkit::model::{Call, Role, Turn};
use segno_testkit::sandbox::run_to_end;
use serde_json::json;

use super::*;

const SPEC: &str = "\
version: 0
name: roles
runtime: {provider: PROVIDER}
agents:
  worker: {prompt: You do tasks.}
  reviewer: {prompt: You review., provider: command, command: [REVIEW]}
pattern: {type: chain, config: {steps: [{agent: worker}]}}
";

fn git(folder: &Path, words: &[&str]) -> String {
    let mut command = Command::new("git");
    command.current_dir(folder).args(words);
    run_to_end(command).expect_success().stdout
}

/// A task that writes one file.
fn writes(name: &str) -> Script {
    let file = format!("{name}.txt");
    Script::new(
        name,
        [
            Turn::say(&format!("I write {file}.")).call(Call::write(&file, &format!("{name}\n"))),
            Turn::say(&format!("The file {file} is there.")),
        ],
    )
}

/// The user messages that the model received for a turn of a script.
fn user_messages(workshop: &AgentFixture, script: &str, turn: usize) -> String {
    let sent = conversation(&workshop.server.request(script, turn).unwrap());
    let words = sent.into_iter().filter_map(|part| match part {
        Part::Text(Role::User, text) => Some(text),
        _ => None,
    });
    words.collect::<Vec<_>>().join("\n")
}

/// A repository with a committer identity, in the folder where the agents start.
pub(super) fn repository(workshop: &AgentFixture) -> PathBuf {
    let repository = workshop.agent_sandbox.work();
    for words in [
        &["init", "-q", "-b", "main"][..],
        &["config", "user.name", "Ada"],
        &["config", "user.email", "ada@example.org"],
        &["commit", "-q", "--allow-empty", "-m", "Begin"],
    ] {
        git(&repository, words);
    }
    repository
}

/// A repository with a plan of two tasks, one for each script, and the arguments that work through
/// it.
struct PlanFixture {
    workshop: AgentFixture,
    repository: PathBuf,
    words: Vec<String>,
}

impl PlanFixture {
    fn new(provider: &str, scripts: [Script; 2]) -> Self {
        let markers = scripts.each_ref().map(Script::marker);
        let workshop = AgentFixture::new(segno(), scripts, "all");
        let repository = repository(&workshop);
        let review = workshop.sandbox.write_script(
            "review.sh",
            "#!/bin/sh\ncat > /dev/null\necho '{\"approved\": true}'\n",
        );
        let spec = SPEC.replace("PROVIDER", provider);
        let spec = spec.replace("REVIEW", review.to_str().unwrap());
        let spec = workshop.sandbox.write("crew.yaml", &spec);
        let plan = format!(
            "Write two files.\n\n- [ ] T1: Write the first\n  {}\n- [ ] T2: Write the second (after T1)\n  {}\n",
            markers[0], markers[1]
        );
        let plan = workshop.sandbox.write("PLAN.md", &plan);
        let words = [
            "work",
            plan.to_str().unwrap(),
            "--spec",
            spec.to_str().unwrap(),
        ];
        let more = ["--name", "job", "--pause-after", "1"];
        let words = words.iter().chain(&more).map(ToString::to_string);
        Self {
            repository,
            words: words.collect(),
            workshop,
        }
    }

    /// Works on the first task, then pauses.
    fn run_first_task(&self) {
        let words: Vec<&str> = self.words.iter().map(String::as_str).collect();
        self.workshop.segno(&words).refused(130, &["R0102"]);
        self.workshop.wait_until_idle();
    }
}

#[test]
fn claude_code_commits_each_task_of_a_plan() {
    assert_commits_each_task("claude-code");
}

#[test]
fn codex_commits_each_task_of_a_plan() {
    assert_commits_each_task("codex");
}

fn assert_commits_each_task(provider: &str) {
    let (one, two) = (writes("one"), writes("two"));
    let markers = [one.marker(), two.marker()];
    let fixture = PlanFixture::new(provider, [one, two]);
    fixture.run_first_task();
    let (workshop, repository) = (&fixture.workshop, &fixture.repository);
    assert_eq!(workshop.server.paid_turns("one"), [0, 1]);
    assert_eq!(workshop.server.paid_turns("two"), Vec::<usize>::new());
    workshop.segno(&["resume", "job"]).expect_success();
    workshop.wait_until_idle();
    // A finished task is not asked again, and each task has its own conversation.
    assert_eq!(workshop.server.paid_turns("one"), [0, 1]);
    assert_eq!(workshop.server.paid_turns("two"), [0, 1]);
    let opened = workshop.conversations("job");
    assert_eq!(opened.len(), 2, "{opened:?}");
    assert_ne!(opened[0].0, opened[1].0);
    let prompt = user_messages(workshop, "two", 0);
    assert!(
        prompt.contains("- [x] T1: Write the first\n- [ ] T2: Write the second (after T1)"),
        "{prompt}"
    );
    assert!(prompt.contains("Write two files.") && prompt.contains("Do not commit:"));
    assert!(!prompt.contains(&markers[0]), "{prompt}");
    // One commit for each task, and no file in the user's folder.
    let log = git(
        repository,
        &["log", "--format=%s", "--name-only", "main..segno/job"],
    );
    assert_eq!(
        log,
        "T2: Write the second\n\ntwo.txt\nT1: Write the first\n\none.txt\n"
    );
    let body = git(repository, &["log", "-1", "--format=%b", "segno/job"]);
    assert!(body.starts_with("The file two.txt is there."), "{body}");
    let files = fs::read_dir(repository).unwrap();
    let names: Vec<_> = files.map(|file| file.unwrap().file_name()).collect();
    assert_eq!(names, [".git"]);
}

#[test]
fn claude_code_works_and_codex_reviews() {
    let say = Turn::say;
    let verdict = |name: &str, words: &str| Script::new(name, [say(words)]);
    let no = verdict(
        "no",
        "{\"approved\": false, \"severity\": \"major\", \"comments\": [\"It must say moon. [script:mend]\"]}",
    );
    let yes = verdict("yes", "{\"approved\": true}");
    let work = |name: &str, text: &str, review: &Script| {
        let report = format!("It says {text}. {}", review.marker());
        let file = Call::write("file.txt", &format!("{text}\n"));
        Script::new(name, [say("I write.").call(file), say(&report)])
    };
    let (first, mend) = (work("first", "sun", &no), work("mend", "moon", &yes));
    let list = format!("- [ ] T1: Write the file\n  {}", first.marker());
    let plan = Script::new("plan", [say(&list)]);
    let issue = format!("The file is missing. {}", plan.marker());
    let workshop = AgentFixture::new(segno(), [plan, first, no, mend, yes], "edit");
    let repository = repository(&workshop);
    let words = ["work", &issue, "--agent", "claude", "--reviewer", "codex"];
    let output = workshop.segno(&[&words[..], &["--yes", "--name", "job"]].concat());
    output.expect_success();
    workshop.wait_until_idle();
    for (script, turns) in [
        ("plan", &[0][..]),
        ("first", &[0, 1]),
        ("no", &[0]),
        ("mend", &[0, 1]),
        ("yes", &[0]),
    ] {
        assert_eq!(workshop.server.paid_turns(script), turns, "{script}");
    }
    // The planner has no tools that change files; the worker has.
    for (script, edits) in [("plan", false), ("first", true)] {
        let body = workshop.server.request(script, 0).unwrap().body;
        let tools = body["tools"].as_array().unwrap();
        let has = |name: &str| tools.iter().any(|tool| tool["name"] == name);
        assert!(has("Read"), "{script}");
        assert_eq!((has("Write"), has("Edit")), (edits, edits), "{script}");
    }
    // The reviewer is another program, sees the changes, and may not change anything.
    for (script, text) in [("no", "+sun"), ("yes", "+moon")] {
        let request = workshop.server.request(script, 0).unwrap();
        assert!(request.path.ends_with("/responses"), "{}", request.path);
        assert!(
            user_messages(&workshop, script, 0).contains(text),
            "{script}"
        );
        let body = request.body.to_string();
        assert!(
            body.contains("read-only") && !body.contains("workspace-write"),
            "{script}"
        );
    }
    let log = git(&repository, &["log", "--format=%s", "main..segno/job"]);
    assert_eq!(log, "T1: Write the file\n");
    let file = git(&repository, &["show", "segno/job:file.txt"]);
    assert_eq!(file, "moon\n");
}

#[test]
fn claude_code_as_reviewer_changes_no_files() {
    let review = Script::new(
        "review",
        [
            Turn::say("I know better.").call(Call::write("mine.txt", "mine\n")),
            Turn::say("{\"approved\": true}"),
        ],
    );
    let work = Script::new(
        "work",
        [
            Turn::say("I write.").call(Call::write("file.txt", "file\n")),
            Turn::say(&format!("It is there. {}", review.marker())),
        ],
    );
    let plan = format!("- [ ] T1: Write the file\n  {}\n", work.marker());
    let workshop = AgentFixture::new(segno(), [work, review.without_repairs()], "all");
    let repository = repository(&workshop);
    let plan = workshop.sandbox.write("PLAN.md", &plan);
    let words = ["work", plan.to_str().unwrap(), "--agent", "claude"];
    workshop
        .segno(&[&words[..], &["--name", "job"]].concat())
        .expect_success();
    workshop.wait_until_idle();
    assert_eq!(workshop.server.paid_turns("review"), [0, 1]);
    let names = ["ls-tree", "--name-only", "segno/job"];
    assert_eq!(git(&repository, &names), "file.txt\n");
    assert!(!repository.join("mine.txt").exists());
}

/// Prints the output of a test run.
const TESTS: &str = "echo 'FAILED test_purse.py::test_adds - assert 0 == 4'
echo '1 failed, 1 passed in 0.01s'
exit 1
";

#[test]
fn next_task_receives_decisions_and_failing_tests() {
    let noted = |tool: &str, input: Value| Call::mcp_tool("segno", tool, input);
    let one = Script::new(
        "one",
        [
            Turn::say("I decide.").call(noted(
                "record_decision",
                json!({"text": "Use SQLite", "why": "one file is enough"}),
            )),
            Turn::say("That fails.")
                .call(noted("record_error", json!({"text": "the linker fails"}))),
            Turn::say("The tests.").call(Call::write("test.sh", TESTS)),
            Turn::say("Do they pass?").call(Call::shell("sh test.sh")),
            Turn::say("The first is done, and a test fails."),
        ],
    );
    let fixture = PlanFixture::new("claude-code", [one.without_repairs(), writes("two")]);
    fixture.run_first_task();
    let workshop = &fixture.workshop;
    let shown = workshop.segno(&["context", "job"]).expect_success().stdout;
    for words in [
        "1 of 2 done",
        "- [x] **T1** Write the first",
        "next: **T2** Write the second",
        "Use SQLite Why: one file is enough (agent: worker)",
    ] {
        assert!(shown.contains(words), "{words}\n{shown}");
    }
    workshop.segno(&["resume", "job"]).expect_success();
    workshop.wait_until_idle();
    assert_eq!(workshop.server.paid_turns("one"), [0, 1, 2, 3, 4]);
    assert_eq!(workshop.server.paid_turns("two"), [0, 1]);
    let sent = workshop.server.request("two", 0).unwrap().body.to_string();
    let (_, context) = sent.split_once("----- begin context").unwrap();
    let (context, _) = context.split_once("----- end context").unwrap();
    for words in [
        "Use SQLite Why: one file is enough",
        "[unresolved] error: the linker fails",
        "phase: red",
        "- fails: test_purse.py::test_adds",
    ] {
        assert!(context.contains(words), "{words}\n{context}");
    }
    assert!(context.len() < 6000 * 3, "{}", context.len());
    assert!(sent.contains("Do task T2 of a plan"), "{sent}");
    assert!(sent.contains("- [x] T1: Write the first"), "{sent}");
}
