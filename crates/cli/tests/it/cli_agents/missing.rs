//! Agents that resume from a transcript that lacks some of what the journal has are told exactly that.

use segno_testkit::model::{Call, Role, Turn};

use super::*;

/// A command that waits until a test kills it.
fn slow(name: &str) -> Call {
    Call::checked(
        &format!("echo {name} >> \"$SIGNS\"; sleep 2 && touch {name}.txt"),
        &format!("test -e {name}.txt"),
    )
}

/// The turn whose answer begins with `text` and makes this call.
fn turn(text: &str, call: Call) -> Turn {
    Turn::say(text).call(call)
}

/// One command runs twice, and says the same twice.
fn script() -> Script {
    Script::new(
        "twice",
        [
            turn("One.", Call::shell("echo first-result")),
            turn("Two.", Call::shell("echo same-result")),
            turn("Three.", Call::shell("echo same-result")),
            turn("Four.", Call::shell("echo last-result")),
            turn("Five.", slow("slow-a")),
            turn("Six.", slow("slow-b")),
            Turn::say("All is done."),
        ],
    )
}

/// The number of the last turn.
const LAST: usize = 6;

fn kill_during(fixture: &Fixture, mut child: Child, command: &str) {
    wait_until("the slow command runs and is written down", || {
        let started = fixture.agent_sandbox.started_commands();
        started.iter().any(|name| name == command)
            && fixture.is_persisted("task", &format!("touch {command}.txt"))
    });
    child.kill().unwrap();
    wait_for_output(child);
    wait_until("nothing runs", || {
        fixture.agent_sandbox.processes().is_empty()
    });
}

/// A run that was killed in the middle of the first slow command.
fn killed(agent: Agent) -> Fixture {
    let fixture = Fixture::with(agent, script());
    kill_during(&fixture, fixture.start(), "slow-a");
    fixture
}

/// Starts a resume and kills it in the middle of the second slow command.
fn kill_resume(fixture: &Fixture) {
    let mut command = fixture.command(&["resume", "task"]);
    command.stdout(Stdio::piped()).stderr(Stdio::piped());
    kill_during(fixture, command.spawn().unwrap(), "slow-b");
}

/// Resumes to the end with the strategy that the plan announces.
fn resume_with(fixture: &Fixture, strategy: &str) {
    let plan = fixture.segno(&["resume", "task", "--dry-run", "--json"]);
    let plan = plan.expect_success();
    assert_eq!(plan.json()[0]["steps"][0]["strategy"], strategy, "{plan:?}");
    fixture.segno(&["resume", "task"]).expect_success();
    let opened = fixture.opened();
    assert_eq!(opened.last().unwrap().1, strategy, "{opened:?}");
}

/// What the model was told to be missing in its transcript, each time, as the request for the last turn
/// has it.
fn told(fixture: &Fixture) -> Vec<String> {
    let sent = conversation(&fixture.server.request("twice", LAST).unwrap());
    let texts = sent.iter().filter_map(|part| match part {
        Part::Text(Role::User, text) => Some(text.as_str()),
        _ => None,
    });
    let block = |text: &str| {
        let (_, rest) = text.split_once("----- begin missing ")?;
        let (block, _) = rest.split_once("----- end missing ")?;
        Some(block.to_owned())
    };
    texts.filter_map(block).collect()
}

/// How many calls and results with each of these words a text has.
fn assert_counts(agent: Agent, text: &str, expected: &[(&str, usize)]) {
    for (words, count) in expected {
        let found = text.matches(words).count();
        assert_eq!(found, *count, "{agent:?} {words}: {text}");
    }
}

/// The transcript up to the turn `turn`.
fn cut_before(transcript: &[u8], turn: usize) -> Vec<u8> {
    let lines = transcript.split_inclusive(|byte| *byte == b'\n');
    let tag = format!("[twice:{turn}]");
    let kept = lines.take_while(|line| !String::from_utf8_lossy(line).contains(&tag));
    kept.collect::<Vec<_>>().concat()
}

#[test]
fn whole_transcript_lacks_nothing() {
    for agent in Agent::ALL {
        let fixture = killed(agent);
        resume_with(&fixture, "native");
        assert_eq!(told(&fixture), [""; 0], "{agent:?}");
    }
}

#[test]
fn agent_is_told_what_a_cut_transcript_lacks() {
    for agent in Agent::ALL {
        for (strategy, rest) in [("native", ""), ("repaired", "{\"type\":\"ev")] {
            let fixture = killed(agent);
            fixture.damage(|transcript| [&cut_before(transcript, 2), rest.as_bytes()].concat());
            resume_with(&fixture, strategy);
            let told = told(&fixture);
            assert_eq!(told.len(), 1, "{agent:?} {told:?}");
            assert_counts(
                agent,
                &told[0],
                &[
                    ("One.", 0),
                    ("echo first-result", 0),
                    ("Two.", 0),
                    ("Three.", 1),
                    ("echo same-result", 1),
                    ("[tool result] same-result", 1),
                    ("Four.", 1),
                    ("echo last-result", 1),
                    ("[tool result] last-result", 1),
                    ("touch slow-a.txt", 1),
                    ("outcome of this tool call is unknown", 1),
                ],
            );
        }
    }
}

#[test]
fn agent_is_told_what_an_older_checkpoint_lacks() {
    for agent in Agent::ALL {
        let fixture = killed(agent);
        let words = ["checkpoint", "create", "task"];
        fixture.segno(&words).expect_success();
        kill_resume(&fixture);
        std::fs::remove_file(fixture.transcript()).unwrap();
        resume_with(&fixture, "restored");
        let told = told(&fixture);
        assert_eq!(told.len(), 1, "{agent:?} {told:?}");
        assert_counts(
            agent,
            &told[0],
            &[
                ("echo same-result", 0),
                ("last-result", 0),
                ("Six.", 1),
                ("touch slow-b.txt", 1),
            ],
        );
        // The first slow command was checked after the kill, with its result.
        assert!(told[0].contains("test -e slow-a.txt"), "{agent:?} {told:?}");
    }
}

#[test]
fn agent_is_told_once_what_its_transcript_lacks() {
    for agent in Agent::ALL {
        let fixture = killed(agent);
        fixture.damage(|transcript| cut_before(transcript, 2));
        kill_resume(&fixture);
        resume_with(&fixture, "native");
        let told = told(&fixture);
        assert_eq!(told.len(), 1, "{agent:?} {told:?}");
    }
}

/// Agents write the parts of a message one by one: a kill may come between the thinking and the text.
#[test]
fn text_is_told_if_only_its_thinking_was_written() {
    for agent in Agent::ALL {
        let turns = [
            turn("One.", Call::shell("echo first-result")),
            turn("Two.", slow("slow-a")).thinking("Something slow comes next."),
            Turn::say("All is done."),
        ];
        let fixture = Fixture::with(agent, Script::new("twice", turns));
        kill_during(&fixture, fixture.start(), "slow-a");
        fixture.damage(|transcript| {
            let left = cut_before(transcript, 1);
            assert!(String::from_utf8_lossy(&left).contains("Something slow"));
            left
        });
        resume_with(&fixture, "native");
        let paid = fixture.server.paid_turns("twice");
        assert_eq!(paid, [0, 1, 2], "{agent:?}: what was told is not asked for");
    }
}
