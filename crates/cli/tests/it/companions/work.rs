//! Plans that the real Claude Code and the real Codex work through: a conversation and a commit for each
//! task.

use std::fs;
use std::path::Path;
use std::process::Command;

use segno_testkit::model::{Call, Role, Turn};
use segno_testkit::sandbox::finish;
use serde_json::json;

use super::*;

const CREW: &str = "\
version: 0
name: crew
runtime: {provider: PROVIDER}
agents:
  worker: {prompt: You do tasks.}
  reviewer: {prompt: You review., provider: command, command: [REVIEW]}
pattern: {type: chain, config: {steps: [{agent: worker}]}}
";

fn git(folder: &Path, words: &[&str]) -> String {
    let mut command = Command::new("git");
    command.current_dir(folder).args(words);
    finish(command).good().stdout
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

/// What people said to the model for a turn of a script.
fn told(set: &Workshop, script: &str, turn: usize) -> String {
    let sent = conversation(&set.server.request(script, turn).unwrap());
    let words = sent.into_iter().filter_map(|part| match part {
        Part::Text(Role::User, text) => Some(text),
        _ => None,
    });
    words.collect::<Vec<_>>().join("\n")
}

/// A repository that a person can commit in, where the agents are started.
fn repository(set: &Workshop) -> PathBuf {
    let repository = set.stage.work();
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

/// A repository with a plan of two tasks, one for each script, and what is typed to work through it.
struct Ground {
    set: Workshop,
    repository: PathBuf,
    words: Vec<String>,
}

impl Ground {
    fn new(provider: &str, scripts: [Script; 2]) -> Self {
        let markers = scripts.each_ref().map(Script::marker);
        let set = Workshop::new(segno(), scripts, "all");
        let repository = repository(&set);
        let review = set.sandbox.script(
            "review.sh",
            "#!/bin/sh\ncat > /dev/null\necho '{\"approved\": true}'\n",
        );
        let crew = CREW.replace("PROVIDER", provider);
        let crew = crew.replace("REVIEW", review.to_str().unwrap());
        let crew = set.sandbox.write("crew.yaml", &crew);
        let plan = format!(
            "Write two files.\n\n- [ ] T1: Write the first\n  {}\n- [ ] T2: Write the second (after T1)\n  {}\n",
            markers[0], markers[1]
        );
        let plan = set.sandbox.write("PLAN.md", &plan);
        let words = [
            "work",
            plan.to_str().unwrap(),
            "--spec",
            crew.to_str().unwrap(),
        ];
        let more = ["--name", "job", "--pause-after", "1"];
        let words = words.iter().chain(&more).map(ToString::to_string);
        Self {
            repository,
            words: words.collect(),
            set,
        }
    }

    /// Works on the first task, and pauses then.
    fn begin(&self) {
        let words: Vec<&str> = self.words.iter().map(String::as_str).collect();
        self.set.segno(&words).refused(130, &["R0102"]);
        self.set.is_quiet();
    }
}

#[test]
fn claude_code_works_through_a_plan_with_a_conversation_and_a_commit_for_each_task() {
    works_through_a_plan("claude-code");
}

#[test]
fn codex_works_through_a_plan_with_a_conversation_and_a_commit_for_each_task() {
    works_through_a_plan("codex");
}

fn works_through_a_plan(provider: &str) {
    let (one, two) = (writes("one"), writes("two"));
    let markers = [one.marker(), two.marker()];
    let ground = Ground::new(provider, [one, two]);
    ground.begin();
    let (set, repository) = (&ground.set, &ground.repository);
    assert_eq!(set.server.paid("one"), [0, 1]);
    assert_eq!(set.server.paid("two"), Vec::<usize>::new());
    set.segno(&["resume", "job"]).good();
    set.is_quiet();
    // What is done is not asked again, and each task has a conversation of its own.
    assert_eq!(set.server.paid("one"), [0, 1]);
    assert_eq!(set.server.paid("two"), [0, 1]);
    let opened = set.opened("job");
    assert_eq!(opened.len(), 2, "{opened:?}");
    assert_ne!(opened[0].0, opened[1].0);
    let told = told(set, "two", 0);
    assert!(
        told.contains("- [x] T1: Write the first\n- [ ] T2: Write the second (after T1)"),
        "{told}"
    );
    assert!(told.contains("Write two files.") && told.contains("Commit nothing yourself"));
    assert!(!told.contains(&markers[0]), "{told}");
    // A commit for each, and nothing in the person's folder.
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
fn claude_code_plans_and_works_and_codex_sends_back_and_approves() {
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
    let set = Workshop::new(segno(), [plan, first, no, mend, yes], "edit");
    let repository = repository(&set);
    let words = ["work", &issue, "--agent", "claude", "--reviewer", "codex"];
    let said = set.segno(&[&words[..], &["--yes", "--name", "job"]].concat());
    said.good();
    set.is_quiet();
    for (script, turns) in [
        ("plan", &[0][..]),
        ("first", &[0, 1]),
        ("no", &[0]),
        ("mend", &[0, 1]),
        ("yes", &[0]),
    ] {
        assert_eq!(set.server.paid(script), turns, "{script}");
    }
    // Who plans has no tools to change files with, and who works has.
    for (script, edits) in [("plan", false), ("first", true)] {
        let body = set.server.request(script, 0).unwrap().body;
        let tools = body["tools"].as_array().unwrap();
        let has = |name: &str| tools.iter().any(|tool| tool["name"] == name);
        assert!(has("Read"), "{script}");
        assert_eq!((has("Write"), has("Edit")), (edits, edits), "{script}");
    }
    // Who reviews is another program, is shown what is there, and may not change it.
    for (script, text) in [("no", "+sun"), ("yes", "+moon")] {
        let request = set.server.request(script, 0).unwrap();
        assert!(request.path.ends_with("/responses"), "{}", request.path);
        assert!(told(&set, script, 0).contains(text), "{script}");
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
fn claude_code_changes_nothing_where_it_only_reviews_whatever_it_may_do_elsewhere() {
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
    let set = Workshop::new(segno(), [work, review.heedless()], "all");
    let repository = repository(&set);
    let plan = set.sandbox.write("PLAN.md", &plan);
    let words = ["work", plan.to_str().unwrap(), "--agent", "claude"];
    set.segno(&[&words[..], &["--name", "job"]].concat()).good();
    set.is_quiet();
    assert_eq!(set.server.paid("review"), [0, 1]);
    let names = ["ls-tree", "--name-only", "segno/job"];
    assert_eq!(git(&repository, &names), "file.txt\n");
    assert!(!repository.join("mine.txt").exists());
}

/// A run of tests, as far as its words go.
const TESTS: &str = "echo 'FAILED test_purse.py::test_adds - assert 0 == 4'
echo '1 failed, 1 passed in 0.01s'
exit 1
";

#[test]
fn whoever_does_the_next_task_is_told_what_was_decided_and_what_fails() {
    let noted = |tool: &str, input: Value| Call::served("segno", tool, input);
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
    let ground = Ground::new("claude-code", [one.heedless(), writes("two")]);
    ground.begin();
    let set = &ground.set;
    let shown = set.segno(&["context", "job"]).good().stdout;
    for words in [
        "1 of 2 done",
        "- [x] **T1** Write the first",
        "next: **T2** Write the second",
        "Use SQLite Why: one file is enough (agent: worker)",
    ] {
        assert!(shown.contains(words), "{words}\n{shown}");
    }
    set.segno(&["resume", "job"]).good();
    set.is_quiet();
    assert_eq!(set.server.paid("one"), [0, 1, 2, 3, 4]);
    assert_eq!(set.server.paid("two"), [0, 1]);
    let sent = set.server.request("two", 0).unwrap().body.to_string();
    let (_, brief) = sent.split_once("----- begin context").unwrap();
    let (brief, _) = brief.split_once("----- end context").unwrap();
    for words in [
        "Use SQLite Why: one file is enough",
        "[unresolved] error: the linker fails",
        "phase: red",
        "- fails: test_purse.py::test_adds",
    ] {
        assert!(brief.contains(words), "{words}\n{brief}");
    }
    assert!(brief.len() < 6000 * 3, "{}", brief.len());
    assert!(sent.contains("Do task T2 of a plan"), "{sent}");
    assert!(sent.contains("- [x] T1: Write the first"), "{sent}");
}
