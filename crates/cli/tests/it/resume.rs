//! A chain that is killed and resumed.

use segno_testkit::sandbox::{Sandbox, wait_for_output, wait_until};

use crate::sandbox;

#[test]
fn resume_repeats_no_finished_step() {
    let sandbox = sandbox();
    sandbox.command_chain(
        5,
        "while [ \"$SEGNO_STEP\" = steps/3 ] && [ ! -e go ]; do sleep 0.01; done",
    );
    let mut child = sandbox.start(&["run", "chain.yaml"]);
    wait_until("the fourth step is in flight", || {
        sandbox.calls().len() == 4
    });
    child.kill().unwrap();
    child.wait().unwrap();
    sandbox.write("go", "");
    let output = sandbox.segno(&["resume"]).expect_success();
    assert_eq!(
        sandbox.calls(),
        [
            "steps/0", "steps/1", "steps/2", "steps/3", "steps/3", "steps/4"
        ]
    );
    assert_eq!(output.stdout, "answer of steps/4\n");
    assert_eq!(sandbox.read("artifacts/out.txt"), "answer of steps/4");
    assert!(
        output
            .stderr
            .contains("resumed: 3 of 5 steps were already done"),
        "{}",
        output.stderr
    );
    sandbox.segno(&["doctor"]).expect_success();
}

/// Counts the processes that work in the sandbox, except Segno's own.
fn sandbox_processes(sandbox: &Sandbox) -> usize {
    let processes = std::fs::read_dir("/proc").unwrap().flatten();
    let works_here = |entry: &std::fs::DirEntry| {
        entry
            .path()
            .join("cwd")
            .read_link()
            .is_ok_and(|folder| folder == sandbox.work())
    };
    processes.filter(works_here).count()
}

#[test]
fn a_killed_run_leaves_no_process_behind() {
    let sandbox = sandbox();
    // A process tree that does what it can to survive: deaf to signals, in its own sessions,
    // orphaned.
    sandbox.command_chain(
        1,
        "trap '' TERM HUP INT QUIT PIPE
         setsid sh -c 'trap \"\" TERM HUP; : > one; sleep 1000; :' &
         (setsid sh -c '(setsid sh -c \": > two; sleep 1000; :\" &); : > three; sleep 1000; :' &)
         sleep 1000",
    );
    let mut child = sandbox.start(&["run", "chain.yaml"]);
    let grown = ["one", "two", "three"].map(|name| sandbox.work().join(name));
    wait_until("the family is complete", || {
        grown.iter().all(|file| file.exists())
    });
    assert!(
        sandbox_processes(&sandbox) >= 8,
        "{}",
        sandbox_processes(&sandbox)
    );
    child.kill().unwrap();
    child.wait().unwrap();
    wait_until("the family is gone", || sandbox_processes(&sandbox) == 0);
}

#[test]
fn completed_session_cannot_be_resumed() {
    let sandbox = sandbox();
    sandbox.scripted_chain(2, 0);
    let child = sandbox.start(&["run", "chain.yaml", "--name", "done"]);
    wait_for_output(child).expect_success();
    sandbox
        .segno(&["resume", "done"])
        .refused(17, &["done", "completed", "[S0108]", "hint:"]);
    assert_eq!(sandbox.calls().len(), 2);
}
