//! Chats that are killed in the middle of an answer, and two at once.

use segno_testkit::sandbox::{finish, until};

use super::{commanded, entries, open, say, shown};
use crate::commands::{Live, until_gone};

/// An agent that waits for the file `go` when it answers the second message.
const WAITS: &str =
    "if [ $number = 1 ]; then\n  echo $$ > agent.pid\n  while [ ! -e go ]; do sleep 0.01; done\nfi";

/// A chat whose second message is being answered.
fn answering(sandbox: &segno_testkit::sandbox::Sandbox) -> (Live, String) {
    open(sandbox, "first").good();
    let live = Live::start(sandbox, &["chat", "--session", "talk", "second"]);
    until("the agent waits", || {
        sandbox.read("agent.pid").ends_with('\n')
    });
    (live, sandbox.read("agent.pid").trim().to_owned())
}

#[test]
fn a_killed_exchange_is_answered_by_a_resume_and_nothing_before_it_is_asked_again() {
    let sandbox = commanded(WAITS);
    let (live, pid) = answering(&sandbox);
    live.kill();
    until_gone(&pid);
    assert_eq!(shown(&sandbox)["status"], "interrupted");
    sandbox.write("go", "");
    let said = sandbox.segno(&["resume", "talk"]).good();
    assert_eq!(said.stdout, "answer 1\n");
    assert_eq!(sandbox.calls(), ["messages/0", "messages/1", "messages/1"]);
    assert!(sandbox.read("asked-1").contains("[user] first"));
    assert_eq!(shown(&sandbox)["chat"]["messages"], 2);
    // What is answered is not asked again, however often it is resumed.
    sandbox.segno(&["resume", "talk"]).good();
    assert_eq!(sandbox.calls().len(), 3);
}

#[test]
fn a_killed_exchange_is_left_when_something_else_is_said_and_its_words_are_not_lost() {
    let sandbox = commanded(WAITS);
    let (live, pid) = answering(&sandbox);
    live.kill();
    until_gone(&pid);
    assert_eq!(say(&sandbox, "third").good().stdout, "answer 2\n");
    assert_eq!(sandbox.calls(), ["messages/0", "messages/1", "messages/2"]);
    let asked = sandbox.read("asked-2");
    let broken = asked.find("[user] second\n[user] (The answer to this message was broken off");
    assert!(broken.is_some(), "{asked}");
    let endings = entries(&sandbox, "exchange_ended");
    let endings: Vec<_> = endings.iter().map(|entry| &entry["ending"]).collect();
    assert_eq!(endings, ["end_turn", "left", "end_turn"]);
    sandbox.segno(&["resume", "talk"]).good();
    assert_eq!(sandbox.calls().len(), 3, "what was left stays left");
}

#[test]
fn of_two_messages_at_once_one_is_refused() {
    let sandbox = commanded(WAITS);
    let (live, _) = answering(&sandbox);
    say(&sandbox, "third").refused(21, &["is being run by process"]);
    sandbox.segno(&["resume", "talk"]).refused(21, &[]);
    sandbox.write("go", "");
    assert_eq!(live.finish().good().stdout, "answer 1\n");
    assert_eq!(sandbox.calls(), ["messages/0", "messages/1"]);
}

#[test]
fn a_chat_is_whole_wherever_it_is_killed() {
    for point in [
        "step.before_effect",
        "step.after_effect",
        "run.before_end",
        "run.after_end",
    ] {
        let sandbox = commanded("");
        open(&sandbox, "first").good();
        let mut command = sandbox.command(&["chat", "--session", "talk", "second"]);
        command.env("SEGNO_FAILPOINT", point);
        assert!(finish(command).crashed(), "{point}");
        let before = sandbox.calls().len();
        sandbox.segno(&["resume", "talk"]).good();
        let shown = shown(&sandbox);
        assert_eq!(shown["status"], "paused", "{point}");
        assert_eq!(shown["chat"]["messages"], 2, "{point}");
        assert_eq!(shown["chat"]["answers"], 2, "{point}");
        assert_eq!(shown["chat"]["turns"], 2, "{point}");
        let more = sandbox.calls().len() - before;
        let answered = point.starts_with("run.");
        assert_eq!(more, usize::from(!answered), "{point}");
        assert_eq!(say(&sandbox, "third").good().stdout, "answer 2\n");
        sandbox.segno(&["doctor"]).good();
    }
}

#[test]
fn a_chat_that_is_killed_before_anything_was_said_takes_messages() {
    let sandbox = commanded("");
    let words = ["chat", "--spec", "bot.yaml", "--name", "talk", "first"];
    let mut command = sandbox.command(&words);
    command.env("SEGNO_FAILPOINT", "session.after_create");
    assert!(finish(command).crashed());
    assert_eq!(sandbox.calls().len(), 0);
    sandbox.segno(&["resume", "talk"]).good();
    assert_eq!(say(&sandbox, "hello").good().stdout, "answer 0\n");
}
