//! Killing the process guard leaves no agent behind, and never lets two work at once.

use segno_testkit::model::{Call, Script, Turn};
use segno_testkit::programs::{Agent, AgentFixture};
use segno_testkit::sandbox::{wait_for_output, wait_until};

use super::Fixture;
use crate::segno;

/// A script whose command outlives everything that does not end it, the first time.
fn endless() -> Script {
    let endless = "test -e begun && exit; touch begun; setsid sleep 1000 & sleep 1000";
    let turns = [
        Turn::say("I begin.").call(Call::shell(endless)),
        Turn::say("I am done."),
    ];
    Script::new("endless", turns)
}

/// A fixture in the middle of the endless command.
fn in_command(agent: Agent) -> (Fixture, std::process::Child) {
    let fixture = Fixture::with(agent, endless());
    let child = fixture.start();
    wait_until("the command runs and is written down", || {
        fixture.agent_sandbox.work().join("begun").exists()
            && fixture.is_persisted("task", "setsid sleep")
    });
    (fixture, child)
}

/// The step continued in the agent's own conversation.
fn assert_resumed_natively(fixture: &Fixture, agent: Agent) {
    let opened = fixture.opened();
    let expected = (opened[0].0.clone(), "native".to_owned());
    assert_eq!(opened[1], expected, "{agent:?}");
}

#[test]
fn killed_guard_leaves_nothing_while_segno_runs() {
    for agent in Agent::ALL {
        let (fixture, child) = in_command(agent);
        let before = fixture.agent_sandbox.processes();
        fixture.agent_sandbox.kill_guards();
        // The attempt fails, everything of it ends, and the next attempt continues.
        let output = wait_for_output(child);
        assert!(output.status.success(), "{agent:?} {output:?}");
        let left = fixture.agent_sandbox.processes();
        assert!(
            left.iter().all(|pid| !before.contains(pid)),
            "{agent:?} {left:?}"
        );
        fixture.wait_until_idle();
        assert_resumed_natively(&fixture, agent);
    }
}

#[test]
fn agent_dies_with_a_guard_that_is_killed_with_segno() {
    for agent in Agent::ALL {
        let (fixture, mut child) = in_command(agent);
        fixture.agent_sandbox.kill_guards_after(&mut child);
        // Nobody is left to end the tree. The kernel ends the agent; its command stays.
        wait_until("the agent is gone", || {
            fixture.agent_sandbox.programs(agent).is_empty()
        });
        let left = fixture.agent_sandbox.processes();
        assert!(
            !left.is_empty(),
            "{agent:?}: the commands do not see the end of the guard"
        );
        let output = fixture.segno(&["resume", "task"]).expect_success();
        let told = "ended what an earlier run left behind";
        assert!(output.stderr.contains(told), "{agent:?} {output:?}");
        fixture.wait_until_idle();
        assert_resumed_natively(&fixture, agent);
    }
}

#[test]
fn command_that_left_its_session_ends_before_the_step_runs_again() {
    let workshop = AgentFixture::new(segno(), [endless()], "all");
    let script = "#!/bin/sh\ncat >/dev/null\ntest -e begun && echo done && exit\nsetsid sleep 1000 &\ntouch begun\nsleep 1000\n";
    let program = workshop.sandbox.write_script("worker", script);
    let spec = workshop.write_task(
        &format!(
            "provider: command, command: [{:?}]",
            program.display().to_string()
        ),
        "",
    );
    let mut child = workshop.start(&["run", spec.to_str().unwrap()]);
    wait_until("the command runs", || {
        workshop.agent_sandbox.work().join("begun").exists()
    });
    workshop.agent_sandbox.kill_guards_after(&mut child);
    let output = workshop.segno(&["resume", "task"]).expect_success();
    assert!(output.stdout.contains("done"), "{output:?}");
    workshop.wait_until_idle();
}
