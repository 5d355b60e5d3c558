//! Chats with the real Claude Code and the real Codex, against models that answer from a script.

use std::ops::Deref;

use segno_testkit::model::{Call, Part, Role, Script, Turn, conversation};
use segno_testkit::programs::{Agent, AgentFixture, Program};
use segno_testkit::sandbox::{ProcessOutput, wait_until};

use crate::segno;

/// CLI agents, and the scripts with which their models answer the messages of a chat.
struct ChatFixture(AgentFixture);

impl Deref for ChatFixture {
    type Target = AgentFixture;

    fn deref(&self) -> &AgentFixture {
        &self.0
    }
}

fn scripts() -> [Script; 3] {
    let slow = "touch begun; sleep 1; echo slept >> slept";
    [
        Script::new(
            "one",
            [
                Turn::say("I look first.").call(Call::shell("echo looked >> looked")),
                Turn::say("You are Ada."),
            ],
        ),
        Script::new(
            "two",
            [
                Turn::say("Now slowly.").call(Call::shell(slow)),
                Turn::say("It is done."),
            ],
        ),
        Script::new("three", [Turn::say("That is all.")]),
    ]
}

const ONE: &str = "I am Ada. [script:one]";
const TWO: &str = "Do it. [script:two]";
const THREE: &str = "And now? [script:three]";

impl ChatFixture {
    /// A fixture with one exchange in a new chat called `talk`.
    fn opened_with(agent: Agent, message: &str) -> Self {
        let fixture = Self(AgentFixture::new(segno(), scripts(), "all"));
        let words = [
            "chat",
            "--agent",
            agent.cli_name(),
            "--name",
            "talk",
            message,
        ];
        fixture.segno(&words).expect_success();
        fixture
    }

    fn say(&self, message: &str) -> ProcessOutput {
        self.segno(&["chat", "--session", "talk", message])
    }

    /// The user messages in the request for the first turn of a script.
    fn user_messages(&self, script: &str) -> Vec<String> {
        let sent = conversation(&self.server.request(script, 0).unwrap());
        let words = sent.into_iter().filter_map(|part| match part {
            Part::Text(Role::User, text) => Some(text),
            _ => None,
        });
        words.collect()
    }

    /// The ids of the conversations, and the resume strategy of each exchange.
    fn conversations(&self) -> (Vec<String>, Vec<String>) {
        self.deref().conversations("talk").into_iter().unzip()
    }
}

#[test]
fn agent_continues_its_own_conversation_across_messages() {
    for agent in Agent::ALL {
        let fixture = ChatFixture::opened_with(agent, ONE);
        let output = fixture.say(THREE).expect_success();
        assert!(output.stdout.contains("That is all."), "{output:?}");
        assert!(
            !output.stderr.contains("cannot be resumed natively"),
            "{output:?}"
        );
        let (names, strategies) = fixture.conversations();
        assert_eq!(names[0], names[1], "{agent:?}");
        assert_eq!(strategies, ["-", "native"]);
        // The program's own transcript holds the history, so the new prompt does not repeat it.
        let messages = fixture.user_messages("three");
        assert!(
            messages.iter().any(|text| text.contains(ONE)),
            "{messages:?}"
        );
        let last = messages.last().unwrap();
        assert!(last.contains(THREE) && !last.contains("Ada"), "{last}");
        let shown = fixture.segno(&["show", "talk", "--json"]).expect_success();
        let chat = &shown.json()[0]["chat"];
        assert_eq!(chat["turns"], 3, "{agent:?} {chat}");
        assert_eq!(chat["tool_calls"], 1, "{agent:?} {chat}");
        assert_eq!(chat["conversation"], names[0].as_str());
        assert!(chat["usage"]["input_tokens"].as_u64() > Some(0), "{chat}");
        assert_eq!(
            std::fs::read_to_string(fixture.agent_sandbox.work().join("looked")).unwrap(),
            "looked\n"
        );
        fixture.wait_until_idle();
    }
}

#[test]
fn agent_without_its_transcript_receives_the_history() {
    for agent in Agent::ALL {
        let fixture = ChatFixture::opened_with(agent, ONE);
        let (names, _) = fixture.conversations();
        std::fs::remove_file(
            agent
                .transcript_path(&fixture.agent_sandbox, &names[0])
                .unwrap(),
        )
        .unwrap();
        let output = fixture.say(THREE).expect_success();
        assert!(output.stdout.contains("That is all."), "{output:?}");
        let warned = output
            .stderr
            .contains(&format!("conversation {} of", names[0]))
            && output.stderr.contains("cannot be resumed natively");
        assert!(warned, "{output:?}");
        let (names, strategies) = fixture.conversations();
        assert_ne!(names[0], names[1], "{agent:?}");
        assert_eq!(strategies, ["-", "summarized"]);
        let last = fixture.user_messages("three").pop().unwrap();
        for words in [ONE, "I look first.", "echo looked", "You are Ada.", THREE] {
            assert!(last.contains(words), "{agent:?} {words}: {last}");
        }
        // The next message continues the new conversation.
        fixture.say("Once more. [script:three]").expect_success();
        let (names, strategies) = fixture.conversations();
        assert_eq!((&names[1], strategies[2].as_str()), (&names[2], "native"));
    }
}

#[test]
fn clear_starts_a_new_conversation() {
    for agent in Agent::ALL {
        let fixture = ChatFixture::opened_with(agent, ONE);
        fixture
            .segno(&["chat", "--session", "talk", "--clear"])
            .expect_success();
        let shown = fixture.segno(&["show", "talk", "--json"]).expect_success();
        assert!(shown.json()[0]["chat"]["conversation"].is_null());
        fixture.say(THREE).expect_success();
        let (names, strategies) = fixture.conversations();
        assert_ne!(names[0], names[1], "{agent:?}");
        assert_eq!(strategies, ["-", "-"]);
        let messages = fixture.user_messages("three").join("\n");
        assert!(
            messages.contains(THREE) && !messages.contains("Ada"),
            "{messages}"
        );
    }
}

/// A fixture whose second message was killed in the middle of a command.
fn killed_mid_command(agent: Agent) -> ChatFixture {
    let fixture = ChatFixture::opened_with(agent, ONE);
    let child = fixture.start(&["chat", "--session", "talk", TWO]);
    wait_until("the slow command runs and is written down", || {
        fixture.agent_sandbox.work().join("begun").exists()
            && fixture.is_persisted("talk", "sleep 1")
    });
    fixture.kill(child);
    fixture
}

#[test]
fn killed_exchange_resumes_its_conversation() {
    for agent in Agent::ALL {
        let fixture = killed_mid_command(agent);
        let output = fixture.segno(&["resume", "talk"]).expect_success();
        assert!(output.stdout.contains("It is done."), "{output:?}");
        let (names, strategies) = fixture.conversations();
        assert!(names.iter().all(|name| *name == names[0]), "{names:?}");
        assert_eq!(strategies, ["-", "native", "native"]);
        assert_eq!(fixture.server.paid_turns("one"), [0, 1], "{agent:?}");
        assert_eq!(fixture.server.paid_turns("two"), [0, 1], "{agent:?}");
        let ended = fixture.events("talk", "exchange_ended");
        assert_eq!(ended.len(), 2);
        assert_eq!(ended[1]["ending"], "end_turn");
        // Nothing is paid for twice, no matter how often the chat is resumed.
        fixture.segno(&["resume", "talk"]).expect_success();
        assert_eq!(fixture.server.paid_turns("two"), [0, 1]);
        fixture.wait_until_idle();
    }
}

#[test]
fn killed_exchange_without_transcript_receives_the_history() {
    for agent in Agent::ALL {
        let fixture = killed_mid_command(agent);
        let (names, _) = fixture.conversations();
        std::fs::remove_file(
            agent
                .transcript_path(&fixture.agent_sandbox, &names[0])
                .unwrap(),
        )
        .unwrap();
        let output = fixture.segno(&["resume", "talk"]).expect_success();
        assert!(output.stdout.contains("It is done."), "{output:?}");
        let (_, strategies) = fixture.conversations();
        assert_eq!(strategies, ["-", "native", "summarized"]);
        assert_eq!(fixture.server.paid_turns("one"), [0, 1], "{agent:?}");
        let sent = conversation(&fixture.server.request("two", 1).unwrap());
        let sent = format!("{sent:?}");
        for words in ["I am Ada.", "You are Ada.", "Do it.", "sleep 1"] {
            assert!(sent.contains(words), "{agent:?} {words}: {sent}");
        }
    }
}

#[test]
fn new_message_is_accepted_after_a_kill() {
    for agent in Agent::ALL {
        let fixture = killed_mid_command(agent);
        let output = fixture.say(THREE).expect_success();
        assert!(output.stdout.contains("That is all."), "{output:?}");
        let ended = fixture.events("talk", "exchange_ended");
        let endings: Vec<_> = ended.iter().map(|entry| &entry["ending"]).collect();
        assert_eq!(endings, ["end_turn", "left", "end_turn"]);
        assert_eq!(ended[1]["tool_calls"], 1, "{ended:?}");
        let sent = conversation(&fixture.server.request("three", 0).unwrap());
        let sent = format!("{sent:?}");
        let unknown = "The outcome of these tool calls is unknown";
        for words in ["I am Ada.", "Do it.", "sleep 1", unknown, "And now?"] {
            assert!(sent.contains(words), "{agent:?} {words}: {sent}");
        }
    }
}

#[test]
fn max_turns_ends_the_cli_agent() {
    for agent in Agent::ALL {
        let fixture = ChatFixture(AgentFixture::new(segno(), scripts(), "all"));
        let words = ["chat", "--agent", agent.cli_name(), "--name", "talk"];
        let output = fixture
            .segno(&[&words[..], &["--max-turns", "1", ONE]].concat())
            .expect_success();
        assert!(output.stdout.contains("I look first."), "{output:?}");
        assert!(output.stderr.contains("limit of 1 turn"), "{output:?}");
        assert_eq!(
            fixture.events("talk", "exchange_ended")[0]["ending"],
            "max_turns"
        );
        fixture.wait_until_idle();
        let output = fixture.say(THREE).expect_success();
        assert!(output.stdout.contains("That is all."), "{output:?}");
        let sent = conversation(&fixture.server.request("three", 0).unwrap());
        assert!(
            format!("{sent:?}").contains("echo looked"),
            "{agent:?} {sent:?}"
        );
    }
}

#[test]
fn acp_agent_continues_its_session() {
    let workshop = AgentFixture::new(segno(), scripts(), "all");
    let words = Program::ClaudeAcp.words();
    let words: Vec<String> = words
        .iter()
        .map(|word| format!("{:?}", word.display().to_string()))
        .collect();
    let spec = workshop.sandbox.write(
        "bot.yaml",
        &format!(
            "version: 0\nname: bot\nruntime: {{provider: acp, command: [{}]}}\nagents: {{bot: {{prompt: You help.}}}}\npattern: {{type: chain, config: {{steps: [{{agent: bot, input: hi}}]}}}}\n",
            words.join(", ")
        ),
    );
    let spec = spec.to_str().unwrap();
    let output = workshop
        .segno(&["chat", "--spec", spec, "--name", "talk", ONE])
        .expect_success();
    assert!(output.stdout.contains("You are Ada."), "{output:?}");
    let output = workshop
        .segno(&["chat", "--session", "talk", THREE])
        .expect_success();
    assert!(output.stdout.contains("That is all."), "{output:?}");
    let (names, strategies): (Vec<_>, Vec<_>) = workshop.conversations("talk").into_iter().unzip();
    assert_eq!(names[0], names[1]);
    assert_eq!(strategies, ["-", "native"]);
}
