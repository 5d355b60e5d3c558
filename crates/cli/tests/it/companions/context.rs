//! Contexts that fill up: how full they are is known from the first run on, and what is done then.

use segno_testkit::model::{Call, Script, Turn, Usage, files};
use segno_testkit::programs::Agent;
use segno_testkit::sandbox::{until, wait};

use super::Set;

/// A script in which the second answer fills the context. The third is held back: whoever is to be
/// relieved before it does not come to its end first, however slow the machine is. It is held back
/// among its words, so that nobody hears how little it takes before the fresh conversation has it.
fn filling(input: u64) -> Script {
    let full = Usage {
        input,
        cached: 0,
        output: 50,
    };
    Script::new(
        "filling",
        [
            Turn::say("One.").call(Call::write("one.txt", "one\n")),
            Turn::say("Two.")
                .call(Call::write("two.txt", "two\n"))
                .using(full),
            Turn::say("And now comes the third, which is the last one of them.")
                .call(Call::write("three.txt", "three\n"))
                .held(),
            Turn::say("Done with all three."),
        ],
    )
}

impl Set {
    /// An agent whose context the second answer fills, by its program's own figures.
    fn filled(agent: Agent) -> Self {
        match agent {
            Agent::Claude => {
                let set = Self::with(agent, filling(18_000));
                set.sandbox
                    .configure("[claude-code]\npermissions = \"all\"\ncontext_window = 20000\n");
                set
            }
            // It says itself that 258,400 fit.
            Agent::Codex => Self::with(agent, filling(225_000)),
        }
    }

    fn say(&self, more: &str) {
        let spec = std::fs::read_to_string(&self.spec).unwrap();
        std::fs::write(&self.spec, format!("{spec}{more}\n")).unwrap();
    }

    /// An agent that is ended between two turns may have asked for the next one already.
    fn pays_at_most_one_call_again(&self) {
        let mut paid = self.server.paid("filling");
        let all = paid.len();
        paid.dedup();
        assert_eq!(paid, [0, 1, 2, 3]);
        assert!(all <= 5, "{all} calls for 4 turns");
    }

    /// How full the context was said to be, in hundredths.
    fn percents(&self) -> Vec<u64> {
        let said = self.journal("agent_said");
        let gauges = said.iter().map(|entry| &entry["context"]);
        let percent = |gauge: &serde_json::Value| {
            Some(gauge["used"].as_u64()? * 100 / gauge["window"].as_u64()?)
        };
        gauges.filter_map(percent).collect()
    }

    /// Runs it to its end. All three files are there then, in two conversations.
    fn is_relieved(&self) {
        let child = self.start();
        until("the third turn is held back", || {
            self.server.holds("filling", 2)
        });
        until("a fresh conversation goes on", || self.opened().len() == 2);
        self.server.release("filling", 2);
        let said = wait(child).good();
        assert!(said.stdout.contains("Done with all three."), "{said:?}");
        assert!(
            said.stdout.contains("% of the agent's context is used"),
            "{said:?}"
        );
        let rungs: Vec<String> = self.opened().into_iter().map(|(_, rung)| rung).collect();
        assert_eq!(rungs, ["-", "compiled"], "{:?}", self.agent);
        let files = files(&self.stage.work());
        let names: Vec<&str> = files.keys().map(String::as_str).collect();
        assert_eq!(names, ["one.txt", "three.txt", "two.txt"]);
        self.pays_at_most_one_call_again();
    }
}

#[test]
fn an_agent_whose_context_is_nearly_full_is_relieved_by_a_fresh_conversation() {
    for agent in [Agent::Claude, Agent::Codex] {
        let set = Set::filled(agent);
        set.is_relieved();
        let most = set.percents().into_iter().max();
        assert!(most >= Some(85), "{agent:?} {most:?}");
    }
}

#[test]
fn a_session_can_be_paused_when_the_context_is_nearly_full() {
    for agent in [Agent::Claude, Agent::Codex] {
        let set = Set::filled(agent);
        set.say("continuity: {context_full: pause}");
        set.segno(&["run", set.spec.to_str().unwrap()]).refused(
            20,
            &["% of the agent's context is used", "segno resume task"],
        );
        let shown = set.segno(&["sessions", "show", "task", "--json"]).good();
        let gauge = &shown.json()[0]["conversations"][0]["context"].clone();
        assert!(gauge["percent"].as_u64() >= Some(85), "{agent:?} {gauge}");
        let status = set.segno(&["status", "--json"]).good();
        assert_eq!(&status.json()[0]["contexts"]["steps/0"], gauge);
        let plan = set.segno(&["resume", "task", "--plan"]).good();
        assert!(
            plan.stdout
                .contains(&format!("compiled ({})", set.agent.provider())),
            "{plan:?}"
        );
        set.server.release("filling", 2);
        let said = set.segno(&["resume", "task"]).good();
        assert!(said.stdout.contains("Done with all three."), "{said:?}");
        set.pays_at_most_one_call_again();
    }
}

#[test]
fn the_window_of_a_known_model_holds_in_its_first_run() {
    let set = Set::with(Agent::Claude, filling(180_000));
    let spec = std::fs::read_to_string(&set.spec).unwrap();
    let spec = spec.replace(
        "provider: claude-code",
        "provider: claude-code, model_id: claude-sonnet-4-5",
    );
    std::fs::write(&set.spec, spec).unwrap();
    set.is_relieved();
}

#[test]
fn the_window_that_a_program_told_is_known_to_the_steps_after() {
    let set = Set::with(Agent::Claude, filling(18_000));
    let spec = std::fs::read_to_string(&set.spec).unwrap();
    // Nobody here has heard of this model; Claude Code says that a million fit.
    let spec = spec.replace(
        "provider: claude-code",
        "provider: claude-code, model_id: claude-stranger-9",
    );
    let step = "{agent: worker, input: \"Do the task. [script:filling]\"}";
    let spec = spec.replace(step, &format!("{step}, {step}"));
    std::fs::write(&set.spec, spec).unwrap();
    set.server.release("filling", 2);
    set.segno(&["run", set.spec.to_str().unwrap()]).good();
    let of_step = |step: &str| {
        let said = set.journal("agent_said");
        let own = said.into_iter().filter(|entry| entry["path"] == step);
        let mut gauges = own.filter_map(|entry| entry.get("context").cloned());
        gauges.next().unwrap()["window"].clone()
    };
    assert_eq!(of_step("steps/0"), serde_json::Value::Null);
    assert_eq!(of_step("steps/1"), 1_000_000);
}
