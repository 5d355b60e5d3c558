//! Sessions that go on elsewhere: in a folder that was renamed, and on another machine.

use std::path::Path;

use segno_testkit::programs::Stage;
use segno_testkit::sandbox::finish;

use super::*;

/// A session whose first step is done, and that was killed in the middle of its second, an agent's.
fn killed(agent: Agent) -> Set {
    let set = Set::new(agent);
    let spec = std::fs::read_to_string(&set.spec).unwrap();
    let counting = "agents: {counter: {prompt: You count., provider: command, command: [sh, -c, 'cat > /dev/null; echo counted >> \"$SIGNS\"; echo one']}, ";
    let spec = spec
        .replace("agents: {", counting)
        .replace("steps: [", "steps: [{agent: counter, input: Count.}, ");
    std::fs::write(&set.spec, spec).unwrap();
    set.struck()
}

/// How often commands left a sign.
fn signs(set: &Set, sign: &str) -> usize {
    let signs = set.stage.signs();
    signs.iter().filter(|known| *known == sign).count()
}

/// What the model was sent for its last turn has what was done before as calls and answers of its own,
/// not as words about them.
fn was_really_sent(set: &Set) {
    let sent = conversation(&set.server.request("standard", 8).unwrap());
    let calls = sent.into_iter().filter_map(|part| match part {
        Part::Call(_, _, input) => Some(input),
        _ => None,
    });
    let calls = calls.collect::<Vec<_>>().join("\n");
    for words in ["mkdir -p src", "gamma", "delta", "sleep 1"] {
        assert!(calls.contains(words), "{:?} {words}: {calls}", set.agent);
    }
}

/// Resumes in a folder by this rung, as the plan says before, to the end.
fn goes_on_in(set: &Set, folder: &Path, rung: &str, before: &Path) {
    let within = |words: &[&str]| {
        let mut command = set.command(words);
        command.current_dir(folder);
        finish(command)
    };
    let plan = within(&["resume", "--plan", "--json"]).good();
    let step = &plan.json()[0]["steps"][0];
    assert_eq!(step["rung"], rung, "{:?} {plan:?}", set.agent);
    assert_eq!(step["moved_from"], before.to_str().unwrap(), "{plan:?}");
    within(&["resume"]).good();
    assert_eq!(files(folder), standard_files(), "{:?}", set.agent);
    until("nothing runs", || set.stage.processes().is_empty());
    let opened = set.journal("agent_opened");
    assert_eq!(opened.len(), 2, "{:?} {opened:?}", set.agent);
    assert_eq!(opened[0]["native"], opened[1]["native"]);
    assert_eq!(opened[1]["rung"], rung, "{:?}", set.agent);
    assert_eq!(opened[1]["folder"], folder.to_str().unwrap());
    let (paid, mended) = (set.server.paid("standard"), set.server.mended("standard"));
    assert_eq!(
        paid,
        [0, 1, 2, 3, 4, 5, 6, 7, 8],
        "{:?} mended {mended:?}",
        set.agent
    );
    let finished = set.journal("step_finished");
    let paths: Vec<&Value> = finished.iter().map(|entry| &entry["path"]).collect();
    assert_eq!(
        paths,
        ["steps/0", "steps/1"],
        "no finished step is repeated"
    );
    was_really_sent(set);
    let told = set.told();
    let moved = format!("it was {}, and is {}.", before.display(), folder.display());
    assert!(told.contains(&moved), "{:?} {told}", set.agent);
    assert!(!before.exists(), "nobody worked where it was");
    set.segno(&["doctor"]).good();
}

#[test]
fn an_agent_whose_folder_was_renamed_goes_on_with_its_own_conversation() {
    for agent in [Agent::Claude, Agent::Codex] {
        let set = killed(agent);
        let (before, folder) = (set.stage.work(), set.stage.root().join("renamed"));
        std::fs::rename(&before, &folder).unwrap();
        let mut command = set.command(&["sessions", "move", "task", "."]);
        command.current_dir(&folder);
        finish(command).good();
        goes_on_in(&set, &folder, "native", &before);
        for done in ["counted", "place"] {
            assert_eq!(signs(&set, done), 1, "{agent:?} {done}");
        }
    }
}

#[test]
fn an_agent_goes_on_with_its_own_conversation_on_another_machine() {
    for agent in [Agent::Claude, Agent::Codex] {
        let first = killed(agent);
        let before = first.stage.work();
        let out = tempfile::tempdir().unwrap();
        let bundle = out.path().join("task.bundle");
        let place = bundle.to_str().unwrap();
        let words = [
            "sessions", "export", "task", "--bundle", "-o", place, "--json",
        ];
        let said = first.segno(&words).good();
        assert_eq!(said.json()[0]["conversations"].as_array().unwrap().len(), 1);
        assert!(!said.stderr.contains("no record"), "{said:?}");
        // The first machine is gone: its home, its sessions, its folders.
        let Set { workshop, spec, .. } = first;
        let Workshop {
            server,
            stage,
            sandbox,
        } = workshop;
        drop((stage, sandbox));
        assert!(!before.exists());
        let stage = Stage::new(&server);
        let second = Set {
            agent,
            workshop: Workshop::around(segno(), stage, server, "all"),
            spec,
        };
        let folder = second.stage.work();
        let into = ["--into", folder.to_str().unwrap(), "--json"];
        let words = [&["sessions", "import", place][..], &into].concat();
        let said = second.segno(&words).good();
        let said = &said.json()[0];
        assert_eq!(said["workspace"], folder.to_str().unwrap(), "{said}");
        assert_eq!(said["status"], "interrupted");
        goes_on_in(&second, &folder, "rehomed", &before);
        for done in ["counted", "place"] {
            assert_eq!(signs(&second, done), 0, "{agent:?} {done}");
        }
        // Once more changes nothing of what was done since.
        second.segno(&words).refused(17, &["[S0113]"]);
        assert_eq!(files(&folder), standard_files());
    }
}
