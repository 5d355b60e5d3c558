//! Sessions that are resumed elsewhere: in a renamed folder, and on another machine.

use std::path::Path;

use segno_testkit::programs::AgentSandbox;
use segno_testkit::sandbox::run_to_end;

use super::*;

/// A session whose first step is done and that was killed in the middle of its second step, which a
/// CLI agent executes.
fn killed(agent: Agent) -> Fixture {
    let fixture = Fixture::new(agent);
    let spec = std::fs::read_to_string(&fixture.spec).unwrap();
    let counting = "agents: {counter: {prompt: You count., provider: command, command: [sh, -c, 'cat > /dev/null; echo counted >> \"$SIGNS\"; echo one']}, ";
    let spec = spec
        .replace("agents: {", counting)
        .replace("steps: [", "steps: [{agent: counter, input: Count.}, ");
    std::fs::write(&fixture.spec, spec).unwrap();
    fixture.kill_mid_command()
}

/// How many times commands left this sign.
fn signs(fixture: &Fixture, sign: &str) -> usize {
    let signs = fixture.agent_sandbox.started_commands();
    signs.iter().filter(|known| *known == sign).count()
}

/// Asserts that the request for the model's last turn holds the earlier work as real calls and
/// results, not as text about them.
fn assert_sent_as_calls(fixture: &Fixture) {
    let sent = conversation(&fixture.server.request("standard", 8).unwrap());
    let calls = sent.into_iter().filter_map(|part| match part {
        Part::Call(_, _, input) => Some(input),
        _ => None,
    });
    let calls = calls.collect::<Vec<_>>().join("\n");
    for words in ["mkdir -p src", "gamma", "delta", "sleep 1"] {
        assert!(
            calls.contains(words),
            "{:?} {words}: {calls}",
            fixture.agent
        );
    }
}

/// Resumes in a folder to the end with this strategy, after checking that the plan announces it.
fn assert_resumes_in(fixture: &Fixture, folder: &Path, strategy: &str, before: &Path) {
    let within = |words: &[&str]| {
        let mut command = fixture.command(words);
        command.current_dir(folder);
        run_to_end(command)
    };
    let plan = within(&["resume", "--dry-run", "--json"]).expect_success();
    let step = &plan.json()[0]["steps"][0];
    assert_eq!(step["strategy"], strategy, "{:?} {plan:?}", fixture.agent);
    assert_eq!(step["moved_from"], before.to_str().unwrap(), "{plan:?}");
    within(&["resume"]).expect_success();
    assert_eq!(files(folder), standard_files(), "{:?}", fixture.agent);
    wait_until("nothing runs", || {
        fixture.agent_sandbox.processes().is_empty()
    });
    let opened = fixture.events("agent_opened");
    assert_eq!(opened.len(), 2, "{:?} {opened:?}", fixture.agent);
    assert_eq!(opened[0]["native"], opened[1]["native"]);
    assert_eq!(fixture.opened()[1].1, strategy, "{:?}", fixture.agent);
    assert_eq!(opened[1]["folder"], folder.to_str().unwrap());
    let (paid, mended) = (
        fixture.server.paid_turns("standard"),
        fixture.server.repaired_turns("standard"),
    );
    assert_eq!(
        paid,
        [0, 1, 2, 3, 4, 5, 6, 7, 8],
        "{:?} mended {mended:?}",
        fixture.agent
    );
    let finished = fixture.events("step_finished");
    let paths: Vec<&Value> = finished.iter().map(|event| &event["path"]).collect();
    assert_eq!(
        paths,
        ["steps/0", "steps/1"],
        "no finished step is repeated"
    );
    assert_sent_as_calls(fixture);
    let prompt = fixture.user_messages();
    let moved = format!(
        "it was {}, and is now {}.",
        before.display(),
        folder.display()
    );
    assert!(prompt.contains(&moved), "{:?} {prompt}", fixture.agent);
    assert!(!before.exists(), "nobody worked where it was");
    fixture.segno(&["doctor"]).expect_success();
}

#[test]
fn agent_resumes_its_conversation_in_a_renamed_folder() {
    for agent in [Agent::Claude, Agent::Codex] {
        let fixture = killed(agent);
        let (before, folder) = (
            fixture.agent_sandbox.work(),
            fixture.agent_sandbox.root().join("renamed"),
        );
        std::fs::rename(&before, &folder).unwrap();
        let mut command = fixture.command(&["sessions", "move", "task", "."]);
        command.current_dir(&folder);
        run_to_end(command).expect_success();
        assert_resumes_in(&fixture, &folder, "native", &before);
        for done in ["counted", "place"] {
            assert_eq!(signs(&fixture, done), 1, "{agent:?} {done}");
        }
    }
}

#[test]
fn agent_resumes_its_conversation_on_another_machine() {
    for agent in [Agent::Claude, Agent::Codex] {
        let first = killed(agent);
        let before = first.agent_sandbox.work();
        let out = tempfile::tempdir().unwrap();
        let bundle = out.path().join("task.bundle");
        let bundle_path = bundle.to_str().unwrap();
        let words = [
            "sessions",
            "export",
            "task",
            "--bundle",
            "-o",
            bundle_path,
            "--json",
        ];
        let output = first.segno(&words).expect_success();
        assert_eq!(
            output.json()[0]["conversations"].as_array().unwrap().len(),
            1
        );
        assert!(!output.stderr.contains("no record"), "{output:?}");
        // The first machine is gone: its home, its sessions, its folders.
        let Fixture { workshop, spec, .. } = first;
        let AgentFixture {
            server,
            agent_sandbox: stage,
            sandbox,
        } = workshop;
        drop((stage, sandbox));
        assert!(!before.exists());
        let stage = AgentSandbox::new(&server);
        let second = Fixture {
            agent,
            workshop: AgentFixture::with_agents(segno(), stage, server, "all"),
            spec,
        };
        let folder = second.agent_sandbox.work();
        let into = ["--into", folder.to_str().unwrap(), "--json"];
        let words = [&["sessions", "import", bundle_path][..], &into].concat();
        let output = second.segno(&words).expect_success();
        let output = &output.json()[0];
        assert_eq!(output["workspace"], folder.to_str().unwrap(), "{output}");
        assert_eq!(output["status"], "interrupted");
        assert_resumes_in(&second, &folder, "restored", &before);
        for done in ["counted", "place"] {
            assert_eq!(signs(&second, done), 0, "{agent:?} {done}");
        }
        // A second import changes nothing that was done since.
        second.segno(&words).refused(17, &["[S0113]"]);
        assert_eq!(files(&folder), standard_files());
    }
}
