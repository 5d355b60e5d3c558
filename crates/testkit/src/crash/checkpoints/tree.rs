//! A small workspace with every kind of file, and the edits from one checkpoint to the next.

use std::fs;
use std::os::unix::fs::{PermissionsExt, symlink};
use std::path::Path;
use std::process::Command;

use crate::clock::Seeded;
use crate::sandbox::{Sandbox, run_to_end};

/// Long enough to be split into several chunks.
const LARGE: usize = 1_200_000;

/// Creates the workspace (generation 0) or edits it.
pub(super) fn next_generation(sandbox: &Sandbox, generation: u64) {
    if generation == 0 {
        make(sandbox);
    } else {
        edit(sandbox, generation);
    }
    let repository = sandbox.work().join("repository");
    fs::write(repository.join("tracked"), format!("{generation}\n")).unwrap();
    git(sandbox, &repository, &["add", "."]);
    let message = format!("generation {generation}");
    git(sandbox, &repository, &["commit", "-q", "-m", &message]);
    fs::write(
        repository.join("tracked"),
        format!("{generation}, not committed\n"),
    )
    .unwrap();
}

fn make(sandbox: &Sandbox) {
    let work = sandbox.work();
    for folder in ["notes", "empty", "deep/and/empty", "closed", "repository"] {
        fs::create_dir_all(work.join(folder)).unwrap();
    }
    fs::write(work.join("large"), noise(LARGE, 1)).unwrap();
    for number in 0..6 {
        fs::write(work.join(format!("notes/{number}")), text(number)).unwrap();
    }
    fs::write(
        work.join("closed/inside"),
        "in a folder that nobody may write to\n",
    )
    .unwrap();
    fs::write(work.join("nothing"), "").unwrap();
    sandbox.write_script("program", "#!/bin/sh\ntrue\n");
    set_mode(&work.join("notes/5"), 0o600);
    fs::hard_link(work.join("notes/0"), work.join("twin")).unwrap();
    symlink("notes/1", work.join("link")).unwrap();
    symlink("nowhere", work.join("loose")).unwrap();
    symlink("../outside/file", work.join("away")).unwrap();
    let repository = work.join("repository");
    git(sandbox, &repository, &["init", "-q", "--template="]);
    set_mode(&work.join("closed"), 0o555);
}

/// Each generation edits a long and a short file a little, and changes the kind of one path.
fn edit(sandbox: &Sandbox, generation: u64) {
    let work = sandbox.work();
    let mut large = fs::read(work.join("large")).unwrap();
    let middle = large.len() / 2;
    large.splice(middle..middle, noise(100, generation));
    fs::write(work.join("large"), large).unwrap();
    let note = work.join(format!("notes/{}", generation % 3));
    let mut edited = fs::read_to_string(&note).unwrap();
    edited.insert_str(200, &format!("edited in generation {generation}\n"));
    fs::write(&note, edited).unwrap();
    fs::write(
        work.join(format!("new-{generation}")),
        text(100 + generation),
    )
    .unwrap();
    // Most of what this generation adds is deleted later, and a little stays: a pack to rewrite.
    fs::write(
        work.join(format!("burden-{generation}")),
        noise(40_000, 7 * generation),
    )
    .unwrap();
    let _ = fs::remove_file(work.join(format!("burden-{}", generation - 1)));
    let changing = work.join("changing");
    match generation % 3 {
        0 => {
            fs::remove_file(&changing).unwrap();
            symlink("notes", &changing).unwrap();
        }
        1 => {
            let _ = fs::remove_file(&changing);
            fs::create_dir(&changing).unwrap();
            fs::write(changing.join("inside"), "a folder for now\n").unwrap();
        }
        _ => {
            fs::remove_dir_all(&changing).unwrap();
            fs::write(&changing, "a file for now\n").unwrap();
            set_mode(&changing, 0o640);
        }
    }
    let _ = fs::remove_file(work.join("link"));
    symlink(format!("notes/{}", generation % 6), work.join("link")).unwrap();
    let mode = if generation % 2 == 1 { 0o700 } else { 0o755 };
    set_mode(&work.join("program"), mode);
}

/// Runs git without the user's configuration.
pub(super) fn git(sandbox: &Sandbox, folder: &Path, words: &[&str]) {
    run_to_end(git_command(sandbox, folder, words)).expect_success();
}

pub(super) fn git_command(sandbox: &Sandbox, folder: &Path, words: &[&str]) -> Command {
    let mut command = Command::new("git");
    sandbox.set_env(&mut command);
    command.args([
        "-c",
        "user.name=x",
        "-c",
        "user.email=x@y",
        "-c",
        "gc.auto=0",
    ]);
    command.arg("-C").arg(folder).args(words);
    command
}

fn set_mode(path: &Path, mode: u32) {
    fs::set_permissions(path, fs::Permissions::from_mode(mode)).unwrap();
}

/// Bytes that do not compress, the same for the same seed.
pub(super) fn noise(length: usize, seed: u64) -> Vec<u8> {
    use segno_core::ports::Random;
    let mut bytes = vec![0; length];
    Seeded::new(seed).fill(&mut bytes);
    bytes
}

/// Lines that do not compress well.
pub(super) fn text(seed: u64) -> String {
    let lines = noise(1500, seed);
    let line = |bytes: &[u8]| {
        let words = bytes.iter().map(|byte| format!("{byte:x} "));
        words.collect::<String>() + "\n"
    };
    lines.chunks(20).map(line).collect()
}
