//! Chats with the real Claude Code and the real Codex, against models that answer from a script.

use std::ops::Deref;

use segno_testkit::model::{Call, Part, Role, Script, Turn, conversation};
use segno_testkit::programs::{Agent, Program, Workshop};
use segno_testkit::sandbox::{Said, until};

use crate::segno;

/// Agents' programs, and what their models say to the messages of a chat.
struct Room(Workshop);

impl Deref for Room {
    type Target = Workshop;

    fn deref(&self) -> &Workshop {
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

impl Room {
    /// One exchange in a new chat called `talk`.
    fn opened_with(agent: Agent, message: &str) -> Self {
        let room = Self(Workshop::new(segno(), scripts(), "all"));
        let words = ["chat", "--agent", agent.word(), "--name", "talk", message];
        room.segno(&words).good();
        room
    }

    fn say(&self, message: &str) -> Said {
        self.segno(&["chat", "--session", "talk", message])
    }

    /// What people said to the model, as it was sent for the first turn of a script.
    fn heard(&self, script: &str) -> Vec<String> {
        let sent = conversation(&self.server.request(script, 0).unwrap());
        let words = sent.into_iter().filter_map(|part| match part {
            Part::Text(Role::User, text) => Some(text),
            _ => None,
        });
        words.collect()
    }

    /// The names of the conversations, and how each exchange came to its own.
    fn conversations(&self) -> (Vec<String>, Vec<String>) {
        self.opened("talk").into_iter().unzip()
    }
}

#[test]
fn a_program_goes_on_with_its_own_conversation_from_message_to_message() {
    for agent in Agent::ALL {
        let room = Room::opened_with(agent, ONE);
        let said = room.say(THREE).good();
        assert!(said.stdout.contains("That is all."), "{said:?}");
        assert!(!said.stderr.contains("cannot simply go on"), "{said:?}");
        let (names, rungs) = room.conversations();
        assert_eq!(names[0], names[1], "{agent:?}");
        assert_eq!(rungs, ["-", "native"]);
        // What was said is in the program's own record, and is not told again.
        let heard = room.heard("three");
        assert!(heard.iter().any(|text| text.contains(ONE)), "{heard:?}");
        let last = heard.last().unwrap();
        assert!(last.contains(THREE) && !last.contains("Ada"), "{last}");
        let shown = room.segno(&["sessions", "show", "talk", "--json"]).good();
        let chat = &shown.json()[0]["chat"];
        assert_eq!(chat["turns"], 3, "{agent:?} {chat}");
        assert_eq!(chat["tool_calls"], 1, "{agent:?} {chat}");
        assert_eq!(chat["native"], names[0].as_str());
        assert!(chat["usage"]["input_tokens"].as_u64() > Some(0), "{chat}");
        assert_eq!(
            std::fs::read_to_string(room.stage.work().join("looked")).unwrap(),
            "looked\n"
        );
        room.is_quiet();
    }
}

#[test]
fn a_program_that_has_lost_its_record_is_told_what_was_said() {
    for agent in Agent::ALL {
        let room = Room::opened_with(agent, ONE);
        let (names, _) = room.conversations();
        std::fs::remove_file(agent.record(&room.stage, &names[0]).unwrap()).unwrap();
        let said = room.say(THREE).good();
        assert!(said.stdout.contains("That is all."), "{said:?}");
        let warned = said
            .stderr
            .contains(&format!("conversation {} of", names[0]))
            && said.stderr.contains("cannot simply go on");
        assert!(warned, "{said:?}");
        let (names, rungs) = room.conversations();
        assert_ne!(names[0], names[1], "{agent:?}");
        assert_eq!(rungs, ["-", "compiled"]);
        let last = room.heard("three").pop().unwrap();
        for words in [ONE, "I look first.", "echo looked", "You are Ada.", THREE] {
            assert!(last.contains(words), "{agent:?} {words}: {last}");
        }
        // The next one goes on with the new conversation.
        room.say("Once more. [script:three]").good();
        let (names, rungs) = room.conversations();
        assert_eq!((&names[1], rungs[2].as_str()), (&names[2], "native"));
    }
}

#[test]
fn what_is_cleared_is_forgotten_by_the_program_too() {
    for agent in Agent::ALL {
        let room = Room::opened_with(agent, ONE);
        room.segno(&["chat", "--session", "talk", "--clear"]).good();
        let shown = room.segno(&["sessions", "show", "talk", "--json"]).good();
        assert!(shown.json()[0]["chat"]["native"].is_null());
        room.say(THREE).good();
        let (names, rungs) = room.conversations();
        assert_ne!(names[0], names[1], "{agent:?}");
        assert_eq!(rungs, ["-", "-"]);
        let heard = room.heard("three").join("\n");
        assert!(heard.contains(THREE) && !heard.contains("Ada"), "{heard}");
    }
}

/// A room whose second message is killed in the middle of a command.
fn struck(agent: Agent) -> Room {
    let room = Room::opened_with(agent, ONE);
    let child = room.start(&["chat", "--session", "talk", TWO]);
    until("the slow command runs and is written down", || {
        room.stage.work().join("begun").exists() && room.written_down("talk", "sleep 1")
    });
    room.kill(child);
    room
}

#[test]
fn a_killed_exchange_goes_on_in_the_conversation_that_it_was_in() {
    for agent in Agent::ALL {
        let room = struck(agent);
        let said = room.segno(&["resume", "talk"]).good();
        assert!(said.stdout.contains("It is done."), "{said:?}");
        let (names, rungs) = room.conversations();
        assert!(names.iter().all(|name| *name == names[0]), "{names:?}");
        assert_eq!(rungs, ["-", "native", "native"]);
        assert_eq!(room.server.paid("one"), [0, 1], "{agent:?}");
        assert_eq!(room.server.paid("two"), [0, 1], "{agent:?}");
        let ended = room.entries("talk", "exchange_ended");
        assert_eq!(ended.len(), 2);
        assert_eq!(ended[1]["ending"], "end_turn");
        // Nothing is paid for twice, however often it is resumed.
        room.segno(&["resume", "talk"]).good();
        assert_eq!(room.server.paid("two"), [0, 1]);
        room.is_quiet();
    }
}

#[test]
fn a_killed_exchange_whose_record_is_lost_is_told_all_that_was_said() {
    for agent in Agent::ALL {
        let room = struck(agent);
        let (names, _) = room.conversations();
        std::fs::remove_file(agent.record(&room.stage, &names[0]).unwrap()).unwrap();
        let said = room.segno(&["resume", "talk"]).good();
        assert!(said.stdout.contains("It is done."), "{said:?}");
        let (_, rungs) = room.conversations();
        assert_eq!(rungs, ["-", "native", "compiled"]);
        assert_eq!(room.server.paid("one"), [0, 1], "{agent:?}");
        let sent = conversation(&room.server.request("two", 1).unwrap());
        let told = format!("{sent:?}");
        for words in ["I am Ada.", "You are Ada.", "Do it.", "sleep 1"] {
            assert!(told.contains(words), "{agent:?} {words}: {told}");
        }
    }
}

#[test]
fn something_else_can_be_said_after_a_kill() {
    for agent in Agent::ALL {
        let room = struck(agent);
        let said = room.say(THREE).good();
        assert!(said.stdout.contains("That is all."), "{said:?}");
        let ended = room.entries("talk", "exchange_ended");
        let endings: Vec<_> = ended.iter().map(|entry| &entry["ending"]).collect();
        assert_eq!(endings, ["end_turn", "left", "end_turn"]);
        assert_eq!(ended[1]["tool_calls"], 1, "{ended:?}");
        let sent = conversation(&room.server.request("three", 0).unwrap());
        let told = format!("{sent:?}");
        for words in ["I am Ada.", "Do it.", "sleep 1", "And now?"] {
            assert!(told.contains(words), "{agent:?} {words}: {told}");
        }
    }
}

#[test]
fn a_program_is_ended_when_its_model_has_answered_as_often_as_it_may() {
    for agent in Agent::ALL {
        let room = Room(Workshop::new(segno(), scripts(), "all"));
        let words = ["chat", "--agent", agent.word(), "--name", "talk"];
        let said = room
            .segno(&[&words[..], &["--max-turns", "1", ONE]].concat())
            .good();
        assert!(said.stdout.contains("I look first."), "{said:?}");
        assert!(said.stderr.contains("answered 1 time,"), "{said:?}");
        assert_eq!(
            room.entries("talk", "exchange_ended")[0]["ending"],
            "max_turns"
        );
        room.is_quiet();
        let said = room.say(THREE).good();
        assert!(said.stdout.contains("That is all."), "{said:?}");
        let sent = conversation(&room.server.request("three", 0).unwrap());
        assert!(
            format!("{sent:?}").contains("echo looked"),
            "{agent:?} {sent:?}"
        );
    }
}

#[test]
fn an_agent_of_the_client_protocol_goes_on_with_its_session() {
    let workshop = Workshop::new(segno(), scripts(), "all");
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
    let said = workshop
        .segno(&["chat", "--spec", spec, "--name", "talk", ONE])
        .good();
    assert!(said.stdout.contains("You are Ada."), "{said:?}");
    let said = workshop.segno(&["chat", "--session", "talk", THREE]).good();
    assert!(said.stdout.contains("That is all."), "{said:?}");
    let (names, rungs): (Vec<_>, Vec<_>) = workshop.opened("talk").into_iter().unzip();
    assert_eq!(names[0], names[1]);
    assert_eq!(rungs, ["-", "native"]);
}
