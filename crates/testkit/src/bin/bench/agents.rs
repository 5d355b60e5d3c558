//! (g) CLI agents as steps: the real Claude Code and the real Codex do the same task as a step of
//! `segno run` and without segno, with the same arguments and environment; and the cost of a hook.

use std::io::Write;
use std::process::{Command, Stdio};
use std::time::{Duration, Instant};

use segno_testkit::model::{Call, Script, Turn};
use segno_testkit::programs::{Agent, AgentFixture};

use crate::disk::Disk;
use crate::figures::{Bar, Row, Samples, Table, millis};
use crate::{Plan, log_progress};

/// How long the model takes to answer: no time, and about as long as a real short answer takes.
const PAUSES: [Duration; 2] = [Duration::ZERO, Duration::from_millis(300)];

/// The system prompt, as segno sends it.
const SYSTEM: &str = "You do tasks.";

/// How many times a hook is started.
const HOOKS: usize = 200;

pub(crate) fn measure(plan: &Plan, disk: &mut Disk, table: &mut Table) {
    for agent in Agent::ALL {
        for pause in PAUSES {
            steps(plan, agent, pause, McpServer::Off, disk, table);
        }
        steps(plan, agent, PAUSES[1], McpServer::On, disk, table);
    }
    hooks(plan, disk, table);
}

/// Whether the agent gets Segno's MCP server: a program of its own that it starts and asks for its
/// tools, before its first turn.
#[derive(Clone, Copy, PartialEq)]
enum McpServer {
    On,
    Off,
}

/// The agent writes a file, runs a command and says that it is done.
fn script(pause: Duration) -> Script {
    let turns = [
        Turn::say("I begin.").call(Call::write("a.txt", "a\n")),
        Turn::say("I look.").call(Call::shell("cat a.txt")),
        Turn::say("I am done."),
    ];
    Script::new("bench", turns).late(pause)
}

fn steps(
    plan: &Plan,
    agent: Agent,
    pause: Duration,
    mcp: McpServer,
    disk: &mut Disk,
    table: &mut Table,
) {
    let script = script(pause);
    let prompt = format!("Do the task. {}", script.marker());
    let marker = script.marker();
    let workshop = AgentFixture::new(&plan.segno, [script], "all");
    if mcp == McpServer::Off {
        let section = |name| format!("[{name}]\npermissions = \"all\"\nmcp = false\n");
        let sections = ["claude-code", "codex"].map(section);
        workshop.sandbox.configure(&sections.concat());
    }
    let spec = workshop.write_task(&format!("provider: {}", agent.provider()), &marker);
    let words = ["run", spec.to_str().unwrap()];
    // The first run of each creates files that the later runs find.
    timed(workshop.command(&words), "");
    run_bare(&workshop, agent, &prompt, 0);
    let (mut with_segno, mut without_segno, mut added) =
        (Samples::default(), Samples::default(), Samples::default());
    for round in 1..=plan.rounds() {
        disk.probe();
        // They alternate, and each of them is first equally often.
        let (with, without) = if round % 2 == 0 {
            let with = timed(workshop.command(&words), "");
            (with, run_bare(&workshop, agent, &prompt, round))
        } else {
            let without = run_bare(&workshop, agent, &prompt, round);
            (timed(workshop.command(&words), ""), without)
        };
        with_segno.push(with);
        without_segno.push(without);
        added.push(with - without);
    }
    let with = match mcp {
        McpServer::On => ", with Segno's MCP server",
        McpServer::Off => "",
    };
    let what = format!(
        "{agent:?}, 3 turns, model latency {} ms{with}",
        pause.as_millis()
    );
    let row = Row::pair("g", what, "ms", with_segno, without_segno);
    // What the agent itself does with one more server is not Segno's time.
    table.add(match mcp {
        McpServer::On => row,
        McpServer::Off => row.bar(Bar::AtMost(1.02)),
    });
    table.add(Row::single("g", "  overhead per run", "ms", added));
}

/// Runs the CLI agent without segno, with the arguments that segno uses.
fn run_bare(workshop: &AgentFixture, agent: Agent, prompt: &str, round: usize) -> f64 {
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
            timed(agent_command(workshop, agent, &words), prompt)
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
            timed(agent_command(workshop, agent, &words), &asked)
        }
    }
}

/// A command that starts the agent by the same name as segno: the name may refer to a script that
/// starts another program, and that takes time, too.
fn agent_command(workshop: &AgentFixture, agent: Agent, words: &[&str]) -> Command {
    let mut command = Command::new(agent.cli_name());
    command.args(words).env_clear();
    let environment = workshop.agent_sandbox.environment().iter();
    command.envs(environment.map(|(name, value)| (name, value)));
    command.current_dir(workshop.agent_sandbox.work());
    command
}

/// Runs a process with this input on stdin; returns how long it took, in milliseconds.
fn timed(mut command: Command, input: &str) -> f64 {
    command.stdin(Stdio::piped());
    command.stdout(Stdio::null()).stderr(Stdio::null());
    let begun = Instant::now();
    let mut child = command.spawn().unwrap();
    let mut stdin = child.stdin.take().unwrap();
    // A process that does not read its input may have ended already.
    let _ = stdin.write_all(input.as_bytes());
    drop(stdin);
    let ended = child.wait().unwrap();
    let elapsed = millis(begun.elapsed());
    if !ended.success() {
        log_progress(&format!("warning: {command:?} exited with {ended}"));
    }
    elapsed
}

/// A hook that leaves its note, compared with a process that does nothing.
fn hooks(plan: &Plan, disk: &mut Disk, table: &mut Table) {
    let workshop = AgentFixture::new(&plan.segno, [], "all");
    let home = workshop.sandbox.home();
    let transcript = workshop
        .agent_sandbox
        .home()
        .join(".claude/projects/x/y.jsonl");
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
    let late = (hook.quantile(0.95), nothing.quantile(0.95));
    table.add(Row::pair(
        "g",
        "one hook, compared with /bin/true",
        "ms",
        hook,
        nothing,
    ));
    table.note(format!(
        "95th percentile of {HOOKS} hooks: {:.1} ms; of /bin/true: {:.1} ms",
        late.0, late.1
    ));
}
