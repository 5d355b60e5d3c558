//! What makes an answer of a program's output.

use std::fs::OpenOptions;

use segno_core::agent::{Driver, ErrorKind};
use segno_core::digest::Digest;
use segno_core::usage::Usage;

use crate::world::{Heard, World, command, runtime, sh, until};

#[test]
fn the_prompt_is_who_the_agent_is_and_then_what_it_is_asked() {
    let mut world = World::new();
    world.input = "why?".to_owned();
    assert_eq!(world.ask(&command(&["cat"])).unwrap().text, "why?");
    world.system = "be brief".to_owned();
    let answer = world.ask(&command(&["cat"])).unwrap();
    assert_eq!(answer.text, "be brief\n\nwhy?");
    assert_eq!(answer.usage, Usage::default());
}

#[test]
fn only_the_last_newline_is_not_part_of_the_answer() {
    let world = World::new();
    for (script, text) in [
        ("printf 'a\\n\\n'", "a\n"),
        ("printf 'a\\r\\n'", "a"),
        ("printf ' a '", " a "),
        ("true", ""),
    ] {
        assert_eq!(world.ask_sh(script).unwrap().text, text, "{script}");
    }
}

#[test]
fn bytes_that_are_not_text_do_not_cost_the_answer() {
    let answer = World::new().ask_sh("printf 'a\\377b\\000c\\303'");
    assert_eq!(answer.unwrap().text, "a\u{FFFD}b\0c\u{FFFD}");
}

#[test]
fn what_is_heard_on_the_way_makes_up_the_answer() {
    let world = World::new();
    let heard = Heard::default();
    let driver = sh("printf 'caf\\303'; printf '\\251 '; printf end");
    let answer = runtime().block_on(driver.ask(world.request(), &heard));
    assert_eq!(answer.unwrap().text, "café end");
    assert_eq!(heard.text.lock().unwrap().concat(), "café end");
    assert!(heard.usage.lock().unwrap().is_empty());
}

#[test]
fn arguments_reach_the_program_as_they_are() {
    let odd = ["a b", "$HOME", "; exit 1", "", "--", "\u{1F3B5}\n"];
    let mut argv = vec!["printf", "%s|"];
    argv.extend(odd);
    let answer = World::new().ask(&command(&argv)).unwrap();
    assert_eq!(answer.text, odd.join("|") + "|");
}

#[test]
fn the_agent_knows_where_it_is_and_for_whom_it_works() {
    let mut world = World::new();
    world.attempt = 3;
    let script = "pwd -P; for v in SESSION RUN STEP ATTEMPT STEP_ID; do printenv SEGNO_$v; done";
    let folder = world.folder().canonicalize().unwrap();
    let expected = format!(
        "{}\n{}\n7\nsteps/0\n3\n{}",
        folder.display(),
        world.session(),
        Digest::of(b"key")
    );
    assert_eq!(world.ask_sh(script).unwrap().text, expected);
}

#[test]
fn the_agent_holds_its_own_three_pipes_and_nothing_of_ours() {
    let world = World::new();
    let mut options = OpenOptions::new();
    let path = world.folder().join("secret");
    let _held = options.append(true).create(true).open(path).unwrap();
    let listing = world.ask_sh("cd /proc/self/fd && readlink * | grep -v '^/proc/'");
    let listing = listing.unwrap().text;
    let own = listing.lines().filter(|line| line.starts_with("pipe:"));
    assert!(own.count() >= 3, "{listing}");
    assert!(!listing.contains("secret"), "{listing}");
    assert!(!listing.contains("socket:"), "{listing}");
}

#[test]
fn a_prompt_of_ten_megabytes_arrives_whole() {
    let mut world = World::new();
    world.input = "0123456789".repeat(1 << 20);
    let answer = world.ask(&command(&["cat"])).unwrap();
    assert!(answer.text == world.input);
}

#[test]
fn an_agent_may_leave_its_prompt_unread() {
    let mut world = World::new();
    world.input = "x".repeat(10 << 20);
    assert_eq!(world.ask_sh("echo done").unwrap().text, "done");
    assert_eq!(world.ask_sh("exec <&-; echo done").unwrap().text, "done");
}

#[test]
fn closing_stdout_is_not_yet_an_answer() {
    let world = World::new();
    let script = "echo early; exec >&- 2>&-; : >closed
        while [ ! -e go ]; do sleep 0.01; done; exit 3";
    let (driver, heard) = (sh(script), Heard::default());
    let error = std::thread::scope(|scope| {
        scope.spawn(|| {
            until("stdout is closed", || world.has("closed"));
            world.touch("go");
        });
        runtime().block_on(driver.ask(world.request(), &heard))
    })
    .unwrap_err();
    assert_eq!(error.kind, ErrorKind::Crashed);
    assert_eq!(error.message, "sh ended with exit code 3");
}
