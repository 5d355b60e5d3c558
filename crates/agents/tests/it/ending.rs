//! Nothing that an agent started outlives its attempt.

use segno_core::agent::Driver;

use crate::world::{Heard, World, runtime, sh, until, write};

/// A family that does what it can to stay: deaf to every signal that can be ignored, in other
/// sessions and groups, orphaned twice over, holding the pipes.
const STUBBORN: &str = "
    trap '' TERM HUP INT QUIT PIPE
    setsid sh -c 'trap \"\" TERM HUP; : >a; sleep 1000; :' &
    (setsid sh -c '(setsid sh -c \": >b; sleep 1000; :\" &) ; : >c; sleep 1000; :' &)
    (sleep 1000 &)
    while [ ! -e a ] || [ ! -e b ] || [ ! -e c ]; do sleep 0.01; done
";
/// How many they are when the agent sleeps too: the warden, four shells and a sleeper for each of
/// them, and one sleeper without a shell.
const FAMILY: usize = 10;

fn until_complete(world: &World) {
    until("the family is complete", || world.living().len() >= FAMILY);
}

#[test]
fn a_dropped_attempt_leaves_nothing() {
    let world = World::new();
    let (driver, heard) = (sh(&format!("{STUBBORN} sleep 1000; :")), Heard::default());
    let runtime = runtime();
    let there = World::lent(world.folder());
    runtime.block_on(async {
        let complete = tokio::task::spawn_blocking(move || until_complete(&there));
        tokio::select! {
            result = driver.ask(world.request(), &heard) => panic!("ended: {result:?}"),
            seen = complete => seen.unwrap(),
        }
    });
    // Nobody runs the runtime any more: the end does not depend on anyone waiting for it.
    drop(runtime);
    until("the family is gone", || world.living().is_empty());
}

#[test]
fn a_finished_attempt_leaves_nothing() {
    let world = World::new();
    let answer = world.ask_sh(&format!("{STUBBORN} echo answer"));
    assert_eq!(answer.unwrap().text, "answer");
    world.assert_empty();
}

#[test]
fn a_failed_attempt_leaves_nothing() {
    let world = World::new();
    assert!(world.ask_sh(&format!("{STUBBORN} kill -9 $$")).is_err());
    world.assert_empty();
}

#[test]
fn a_child_that_holds_stdout_does_not_hold_the_answer() {
    let world = World::new();
    let answer = world.ask_sh("sleep 1000 & echo answer");
    assert_eq!(answer.unwrap().text, "answer");
    world.assert_empty();
}

#[test]
fn a_process_that_hops_from_session_to_session_is_caught() {
    let world = World::new();
    let hop = b": >>hopped; setsid sh hop.sh & exit 0";
    write(&world.folder().join("hop.sh"), hop);
    let script = "sh hop.sh; while [ ! -e hopped ]; do :; done; echo answer";
    assert_eq!(world.ask_sh(script).unwrap().text, "answer");
    world.assert_empty();
}

#[test]
fn many_attempts_at_once_do_not_hold_each_other_open() {
    // Each attempt's pipes and socket must not leak into agents that start at the same time.
    let world = World::new();
    let (slow, quick) = (
        sh("while [ ! -e go ]; do sleep 0.01; done"),
        sh("cat; echo hi"),
    );
    let heard = Heard::default();
    runtime().block_on(async {
        let all = async {
            for _ in 0..10 {
                let (a, b) = tokio::join!(
                    quick.ask(world.request(), &heard),
                    quick.ask(world.request(), &heard)
                );
                assert_eq!(
                    (a.unwrap().text, b.unwrap().text),
                    ("hi".into(), "hi".into())
                );
            }
            world.touch("go");
        };
        let (held, ()) = tokio::join!(slow.ask(world.request(), &heard), all);
        assert_eq!(held.unwrap().text, "");
    });
    world.assert_empty();
}
