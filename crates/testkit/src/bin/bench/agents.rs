//! (g) Agents' programs as steps: the real Claude Code and the real Codex do the same as a step of
//! `segno run` and started bare, with the same arguments and environment; and what a hook costs.

use std::io::Write;
use std::process::{Command, Stdio};
use std::time::{Duration, Instant};

use segno_testkit::model::{Call, Script, Turn};
use segno_testkit::programs::{Agent, Workshop};

use crate::disk::Disk;
use crate::figures::{Bar, Row, Samples, Table, millis};
use crate::{Plan, tell};

/// What a model takes for an answer: nothing, and about as long as a short one really does.
const PAUSES: [Duration; 2] = [Duration::ZERO, Duration::from_millis(300)];

/// What is asked, as segno asks it.
const SYSTEM: &str = "You do tasks.";

/// How often a hook is started.
const HOOKS: usize = 200;

pub(crate) fn measure(plan: &Plan, disk: &mut Disk, table: &mut Table) {
    for agent in Agent::ALL {
        for pause in PAUSES {
            steps(plan, agent, pause, disk, table);
        }
    }
    hooks(plan, disk, table);
}

/// A file is written, a command is run, and the agent says that it is done.
fn script(pause: Duration) -> Script {
    let turns = [
        Turn::say("I begin.").call(Call::write("a.txt", "a\n")),
        Turn::say("I look.").call(Call::shell("cat a.txt")),
        Turn::say("I am done."),
    ];
    Script::new("bench", turns).late(pause)
}

fn steps(plan: &Plan, agent: Agent, pause: Duration, disk: &mut Disk, table: &mut Table) {
    let script = script(pause);
    let prompt = format!("Do the task. {}", script.marker());
    let marker = script.marker();
    let workshop = Workshop::new(&plan.segno, [script], "all");
    let spec = workshop.task(&format!("provider: {}", agent.provider()), &marker);
    let words = ["run", spec.to_str().unwrap()];
    // The first one of each makes what the later ones find.
    timed(workshop.command(&words), "");
    bare(&workshop, agent, &prompt, 0);
    let (mut own, mut alone, mut added) =
        (Samples::default(), Samples::default(), Samples::default());
    for round in 1..=plan.rounds() {
        disk.probe();
        // In turns, and each of them first as often as the other.
        let (with, without) = if round % 2 == 0 {
            let with = timed(workshop.command(&words), "");
            (with, bare(&workshop, agent, &prompt, round))
        } else {
            let without = bare(&workshop, agent, &prompt, round);
            (timed(workshop.command(&words), ""), without)
        };
        own.push(with);
        alone.push(without);
        added.push(with - without);
    }
    let what = format!(
        "{agent:?}, 3 turns, a model that takes {} ms",
        pause.as_millis()
    );
    table.add(Row::pair("g", what, "ms", own, alone).bar(Bar::AtMost(1.02)));
    table.add(Row::lone("g", "  added to each run", "ms", added));
}

/// The program itself, as segno starts it.
fn bare(workshop: &Workshop, agent: Agent, prompt: &str, round: usize) -> f64 {
    let id = format!("--session-id=be0c0000-0000-4000-8000-{round:012}");
    let system = format!("--append-system-prompt={SYSTEM}");
    match agent {
        Agent::Claude => {
            let words = [
                "-p",
                "--output-format=stream-json",
                "--verbose",
                &id,
                "--permission-mode=bypassPermissions",
                &system,
            ];
            timed(alone(workshop, agent, &words), prompt)
        }
        Agent::Codex => {
            let words = [
                "exec",
                "--json",
                "--skip-git-repo-check",
                "--dangerously-bypass-approvals-and-sandbox",
                "-",
            ];
            let asked = format!("{SYSTEM}\n\n{prompt}");
            timed(alone(workshop, agent, &words), &asked)
        }
    }
}

/// The program by the name by which segno finds it: what lies behind the name may be a script that
/// starts another program, and that takes its time, too.
fn alone(workshop: &Workshop, agent: Agent, words: &[&str]) -> Command {
    let mut command = Command::new(agent.word());
    command.args(words).env_clear();
    let environment = workshop.stage.environment().iter();
    command.envs(environment.map(|(name, value)| (name, value)));
    command.current_dir(workshop.stage.work());
    command
}

/// How long a process takes that is told something, in milliseconds.
fn timed(mut command: Command, input: &str) -> f64 {
    command.stdin(Stdio::piped());
    command.stdout(Stdio::null()).stderr(Stdio::null());
    let begun = Instant::now();
    let mut child = command.spawn().unwrap();
    let mut stdin = child.stdin.take().unwrap();
    // One that does not read has nothing to be told.
    let _ = stdin.write_all(input.as_bytes());
    drop(stdin);
    let ended = child.wait().unwrap();
    let taken = millis(begun.elapsed());
    if !ended.success() {
        tell(&format!("warning: {command:?} ended with {ended}"));
    }
    taken
}

/// A hook that leaves its note, beside a process that does nothing.
fn hooks(plan: &Plan, disk: &mut Disk, table: &mut Table) {
    let workshop = Workshop::new(&plan.segno, [], "all");
    let home = workshop.sandbox.home();
    let transcript = workshop.stage.home().join(".claude/projects/x/y.jsonl");
    let event = serde_json::json!({
        "session_id": "be0c0000-0000-4000-8000-000000000001",
        "transcript_path": transcript,
        "hook_event_name": "Stop",
    });
    let (event, home) = (event.to_string(), home.to_str().unwrap().to_owned());
    let (mut hook, mut nothing) = (Samples::default(), Samples::default());
    disk.probe();
    for _ in 0..HOOKS {
        hook.push(timed(
            workshop.command(&["__hook", "claude", &home]),
            &event,
        ));
        nothing.push(timed(Command::new("/bin/true"), ""));
    }
    let late = (hook.at(0.95), nothing.at(0.95));
    table.add(Row::pair(
        "g",
        "a hook, beside /bin/true",
        "ms",
        hook,
        nothing,
    ));
    table.note(format!(
        "of {HOOKS} hooks, 95 in 100 took at most {:.1} ms; of /bin/true, {:.1} ms",
        late.0, late.1
    ));
}
