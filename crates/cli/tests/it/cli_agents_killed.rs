//! Kills CLI agents at random moments (P6, P7, P11), and resumes one conversation twice at once
//! (P3). The kills are a sample of what `crash --segno PATH --part agents` does in full;
//! `SEGNO_CRASH_SEED` draws another sample.

#![expect(
    clippy::disallowed_methods,
    clippy::print_stdout,
    reason = "a test damages the records of programs as anything might, and one that fails shows its seed and its strikes"
)]

#[cfg(feature = "failpoints")]
use segno_testkit::crash::Counted;
use segno_testkit::crash::agents::{
    Run, StepFixture, Strike, StrikeSignal, Tally, attempt_all, explain, strikes, strikes_again,
};
use segno_testkit::crash::sample;
use segno_testkit::model::{Call, Part, Purpose, Role, Script, Turn, conversation, standard};
use segno_testkit::programs::Agent;
use segno_testkit::sandbox::wait_until;
use serde_json::Value;

use crate::segno;

/// How many kills a test draws for each agent.
const SAMPLE: usize = 4;

fn scene(agent: Agent, script: Script) -> StepFixture {
    StepFixture::new(segno(), agent, script)
}

fn seed() -> u64 {
    let seed = std::env::var("SEGNO_CRASH_SEED").map_or(1, |seed| seed.parse().unwrap());
    println!("SEGNO_CRASH_SEED={seed}");
    seed
}

/// Strikes, two at a time. Returns the totals, and what was wrong.
fn strike_all(strikes: &[Strike]) -> (Tally, Vec<String>) {
    let outcomes = attempt_all(segno(), strikes, 2, |outcome| {
        println!(
            "{} {:?} {:?}",
            outcome.strike, outcome.hit, outcome.strategies
        );
    });
    let tally: Tally = outcomes.iter().collect();
    println!("{tally}");
    let wrong = outcomes.iter().filter(|outcome| !outcome.is_good());
    (tally, wrong.map(explain).collect())
}

fn survive(agent: Agent) {
    let seed = seed();
    let all = StrikeSignal::ALL.into_iter();
    let all = all.flat_map(|blow| strikes(agent, blow, 30, seed));
    let drawn = sample(all.collect(), SAMPLE, seed);
    let (tally, wrong) = strike_all(&drawn);
    assert!(tally.is_good(), "{tally}\n{}", wrong.join("\n"));
    assert!(tally.hits + 1 >= SAMPLE as u64, "too many misses: {tally}");
}

/// Kills both agents at work, and kills them again during the resume.
#[test]
fn killed_resume_can_be_resumed() {
    let seed = seed();
    let all = Agent::ALL.into_iter();
    let all = all.flat_map(|agent| strikes_again(agent, 30, seed));
    let (tally, wrong) = strike_all(&sample(all.collect(), SAMPLE, seed));
    assert_eq!(wrong, [""; 0]);
    assert!(tally.count("struck again") > 0, "{tally}");
}

/// A fixed sample: each obstacle, and the guard of each agent, alone and with segno.
#[test]
fn obstacles_are_no_reason_to_give_a_conversation_up() {
    let sample = [
        "claude/segno/kill/slow:100~no-program",
        "codex/segno/kill/slow:100~held",
        "claude/segno-and-guard/kill/slow:100~home-renamed",
        "codex/segno-and-guard/kill/slow:100~no-key",
        "claude/guard/kill/between-5:50",
        "codex/guard/kill/slow:100",
        // Codex looks for the conversation where its home was before.
        "codex/segno/kill/count:130~home-renamed",
    ];
    let sample = sample.map(|words| words.parse().unwrap());
    let (tally, wrong) = strike_all(&sample);
    assert_eq!(wrong, [""; 0], "{tally}");
    assert_eq!(tally.count("intact conversations given up"), 0);
    assert_eq!(tally.count("two agents at once"), 0);
    assert_eq!(tally.count("strategies otherwise"), 0);
    assert_eq!(tally.count("obstacles met"), 5);
    assert!(tally.count("strategies as announced") >= 4, "{tally}");
}

/// Kills Segno while it repairs a transcript, restores one, or writes one for another agent.
#[test]
#[cfg(feature = "failpoints")]
fn transcript_is_whole_after_segno_is_killed_writing_it() {
    use segno_testkit::crash::transcripts::{attempt_all, trials};
    let drawn = sample(trials(), SAMPLE, seed());
    let outcomes = attempt_all(segno(), &drawn, 2, |outcome| println!("{}", outcome.trial));
    let wrong: Vec<String> = outcomes
        .iter()
        .filter(|outcome| !outcome.violations().is_empty())
        .map(explain)
        .collect();
    assert_eq!(wrong, [""; 0]);
}

#[test]
fn claude_code_resumes_wherever_it_is_killed() {
    survive(Agent::Claude);
}

#[test]
fn codex_resumes_wherever_it_is_killed() {
    survive(Agent::Codex);
}

/// The journal's events of one kind.
fn events(scene: &StepFixture, kind: &str) -> Vec<Value> {
    let journal = scene.journal().into_iter();
    let own = journal.filter(|(known, _)| known == kind);
    own.map(|(_, body)| body).collect()
}

/// Kills Segno in the middle of the slow command, once everything before it is in the journal and
/// in the transcript, and waits until no process is left.
fn killed_mid_command(agent: Agent) -> StepFixture {
    let scene = scene(agent, standard());
    let mut run = scene.start_task();
    let slow = "slow".to_owned();
    // The agent may ask again for a turn that is not written yet.
    assert!(scene.wait_until(
        &mut run,
        |_| scene.agent_sandbox.started_commands().contains(&slow)
            && scene.is_persisted("task", "sleep 1")
    ));
    drop(run);
    assert_eq!(scene.orphans(), Vec::<u32>::new());
    scene
}

#[test]
fn transcript_without_the_prompt_is_not_resumed() {
    for agent in Agent::ALL {
        let scene = killed_mid_command(agent);
        let opened = events(&scene, "agent_opened");
        let id = opened[0]["native"].as_str().unwrap();
        let path = agent.transcript_path(&scene.agent_sandbox, id).unwrap();
        // The file that a program leaves when it is killed right after it has named its
        // conversation.
        let transcript = std::fs::read_to_string(&path).unwrap();
        let lines = transcript.split_inclusive('\n');
        let begun = lines.take_while(|line| !line.contains("[script:standard]"));
        std::fs::write(&path, begun.collect::<String>()).unwrap();
        scene.segno(&["resume", "task"]).expect_success();
        let opened = events(&scene, "agent_opened");
        assert_eq!(opened.len(), 2, "{agent:?} {opened:?}");
        assert_eq!(opened[1]["rung"], "compiled", "{agent:?}");
        let sent = conversation(&scene.server.request("standard", 8).unwrap());
        let asked = sent.iter().any(|part| {
            matches!(part, Part::Text(Role::User, text) if text.contains("Do the task. [script:standard]"))
        });
        assert!(asked, "{agent:?} {sent:?}");
        assert_eq!(
            scene.server.paid_turns("standard"),
            [0, 1, 2, 3, 4, 5, 6, 7, 8],
            "{agent:?}"
        );
    }
}

#[test]
fn second_of_two_concurrent_resumes_is_refused() {
    let turns = [
        Turn::say("I begin.").call(Call::write("a.txt", "a\n")),
        Turn::say("I am done.").held(),
    ];
    let scene = scene(Agent::Claude, Script::new("held", turns));
    let mut run = scene.start_task();
    assert!(
        scene.wait_until(&mut run, |_| scene.server.is_held("held", 1)
            && scene.is_persisted("task", "a.txt"))
    );
    drop(run);
    assert_eq!(scene.orphans(), Vec::<u32>::new());
    let asked = || {
        let answers = scene.server.answers();
        let last = answers
            .iter()
            .filter(|answer| matches!(answer.purpose, Purpose::Turn { turn: 1, .. }));
        last.count()
    };
    assert_eq!(asked(), 1);
    let mut resumes = [(); 2].map(|()| scene.start(&["resume", "task"]));
    // The server holds the model's answer back, so a resume that ends now was refused.
    wait_until("one of them asks, and one has ended", || {
        asked() == 2 && resumes.iter_mut().any(Run::has_ended)
    });
    let [one, other] = &mut resumes;
    let (refused, running) = if one.has_ended() {
        (one, other)
    } else {
        (other, one)
    };
    assert_eq!(refused.wait().code(), Some(21), "{}", refused.stderr());
    let holder = format!("process {} on ", running.id());
    for words in ["[S0107]", "hint:", &holder] {
        assert!(refused.stderr().contains(words), "{}", refused.stderr());
    }
    assert!(!running.has_ended());
    scene.server.release("held", 1);
    assert!(running.wait().success(), "{}", running.stderr());
    assert_eq!(asked(), 2, "nobody else asked");
    let opened = events(&scene, "agent_opened");
    assert_eq!(opened.len(), 2, "{opened:?}");
    assert_eq!(opened[0]["native"], opened[1]["native"]);
    assert_eq!(events(&scene, "step_finished").len(), 1);
}
