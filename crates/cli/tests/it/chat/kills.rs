//! Chats that are killed in the middle of an answer, and concurrent messages.

use segno_testkit::sandbox::{run_to_end, wait_until};

use super::{commanded, events, open, say, shown};
use crate::commands::{Live, until_gone};

/// An agent that waits for the file `go` before it answers the second message.
const WAITS: &str =
    "if [ $number = 1 ]; then\n  echo $$ > agent.pid\n  while [ ! -e go ]; do sleep 0.01; done\nfi";

/// A chat whose answer to the second message is in flight.
fn answering(sandbox: &segno_testkit::sandbox::Sandbox) -> (Live, String) {
    open(sandbox, "first").expect_success();
    let live = Live::start(sandbox, &["chat", "--session", "talk", "second"]);
    wait_until("the agent waits", || {
        sandbox.read("agent.pid").ends_with('\n')
    });
    (live, sandbox.read("agent.pid").trim().to_owned())
}

#[test]
fn resume_answers_only_the_killed_exchange() {
    let sandbox = commanded(WAITS);
    let (live, pid) = answering(&sandbox);
    live.kill();
    until_gone(&pid);
    assert_eq!(shown(&sandbox)["status"], "interrupted");
    sandbox.write("go", "");
    let output = sandbox.segno(&["resume", "talk"]).expect_success();
    assert_eq!(output.stdout, "answer 1\n");
    assert_eq!(sandbox.calls(), ["messages/0", "messages/1", "messages/1"]);
    assert!(sandbox.read("asked-1").contains("[user] first"));
    assert_eq!(shown(&sandbox)["chat"]["messages"], 2);
    // An answered message is not asked again, no matter how often the chat is resumed.
    sandbox.segno(&["resume", "talk"]).expect_success();
    assert_eq!(sandbox.calls().len(), 3);
}

#[test]
fn new_message_abandons_a_killed_exchange_but_keeps_its_text() {
    let sandbox = commanded(WAITS);
    let (live, pid) = answering(&sandbox);
    live.kill();
    until_gone(&pid);
    assert_eq!(say(&sandbox, "third").expect_success().stdout, "answer 2\n");
    assert_eq!(sandbox.calls(), ["messages/0", "messages/1", "messages/2"]);
    let asked = sandbox.read("asked-2");
    let broken = asked.find("[user] second\n[user] (The answer to this message was interrupted");
    assert!(broken.is_some(), "{asked}");
    let endings = events(&sandbox, "exchange_ended");
    let endings: Vec<_> = endings.iter().map(|event| &event["ending"]).collect();
    assert_eq!(endings, ["end_turn", "left", "end_turn"]);
    sandbox.segno(&["resume", "talk"]).expect_success();
    assert_eq!(sandbox.calls().len(), 3, "what was left stays left");
}

#[test]
fn second_of_two_concurrent_messages_is_refused() {
    let sandbox = commanded(WAITS);
    let (live, _) = answering(&sandbox);
    say(&sandbox, "third").refused(21, &["is running in process"]);
    sandbox.segno(&["resume", "talk"]).refused(21, &[]);
    sandbox.write("go", "");
    assert_eq!(live.finish().expect_success().stdout, "answer 1\n");
    assert_eq!(sandbox.calls(), ["messages/0", "messages/1"]);
}

#[test]
fn chat_is_consistent_wherever_it_is_killed() {
    for point in [
        "step.before_effect",
        "step.after_effect",
        "run.before_end",
        "run.after_end",
    ] {
        let sandbox = commanded("");
        open(&sandbox, "first").expect_success();
        let mut command = sandbox.command(&["chat", "--session", "talk", "second"]);
        command.env("SEGNO_FAILPOINT", point);
        assert!(run_to_end(command).crashed(), "{point}");
        let before = sandbox.calls().len();
        sandbox.segno(&["resume", "talk"]).expect_success();
        let shown = shown(&sandbox);
        assert_eq!(shown["status"], "paused", "{point}");
        assert_eq!(shown["chat"]["messages"], 2, "{point}");
        assert_eq!(shown["chat"]["answers"], 2, "{point}");
        assert_eq!(shown["chat"]["turns"], 2, "{point}");
        let more = sandbox.calls().len() - before;
        let answered = point.starts_with("run.");
        assert_eq!(more, usize::from(!answered), "{point}");
        assert_eq!(say(&sandbox, "third").expect_success().stdout, "answer 2\n");
        sandbox.segno(&["doctor"]).expect_success();
    }
}

#[test]
fn chat_killed_before_its_first_message_accepts_messages() {
    let sandbox = commanded("");
    let words = ["chat", "--spec", "bot.yaml", "--name", "talk", "first"];
    let mut command = sandbox.command(&words);
    command.env("SEGNO_FAILPOINT", "session.after_create");
    assert!(run_to_end(command).crashed());
    assert_eq!(sandbox.calls().len(), 0);
    sandbox.segno(&["resume", "talk"]).expect_success();
    assert_eq!(say(&sandbox, "hello").expect_success().stdout, "answer 0\n");
}
