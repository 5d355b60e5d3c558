//! The script in which tests kill agents: it writes and edits files and runs commands; one command
//! is slow, and one turn makes two calls at once.

use std::collections::BTreeMap;
use std::fs;
use std::path::Path;

use super::script::{Call, Script, Turn};

/// A command that appends a line to `log.txt` when it is done, so that a second execution shows,
/// and a line outside of the workspace when it starts, so that a test knows when.
fn logged(line: &str, work: &str) -> Call {
    let begun = format!("echo {line} >> \"${{SIGNS:-/dev/null}}\"");
    Call::checked(
        &format!("{begun}; {work} && echo {line} >> log.txt"),
        &format!("grep -qx {line} log.txt"),
    )
}

/// The script, called `standard`: nine turns, the last without a call.
pub fn standard() -> Script {
    let turns = [
        Turn::say("I begin with a plan.")
            .thinking("First it must be clear what is wanted.")
            .call(Call::write(
                "plan.md",
                "# Plan\n\n- [ ] build\n- [ ] check\n",
            )),
        Turn::say("A place to work in.").call(logged("place", "mkdir -p src")),
        Turn::say("The first part.").call(Call::write("src/part.txt", "alpha\nbeta\ngamma\n")),
        Turn::say("One line was wrong.").call(Call::edit("src/part.txt", "beta", "delta")),
        Turn::say("This takes a while.").call(logged("slow", "sleep 1")),
        Turn::say("Two at once.")
            .call(Call::write("docs/one.txt", "one\n"))
            .call(Call::write("docs/two.txt", "two\n")),
        Turn::say("The plan is done.").call(Call::edit("plan.md", "- [ ] build", "- [x] build")),
        Turn::say("I count what there is.")
            .thinking("Three files should be there.")
            .call(logged(
                "count",
                "cat src/*.txt docs/*.txt | wc -l > count.txt",
            )),
        Turn::say("Done: the plan, three files and a count."),
    ];
    Script::new("standard", turns)
}

/// The files that an undisturbed run of the standard script leaves.
pub fn standard_files() -> BTreeMap<String, String> {
    let files = [
        ("count.txt", "5\n"),
        ("docs/one.txt", "one\n"),
        ("docs/two.txt", "two\n"),
        ("log.txt", "place\nslow\ncount\n"),
        ("plan.md", "# Plan\n\n- [x] build\n- [ ] check\n"),
        ("src/part.txt", "alpha\ndelta\ngamma\n"),
    ];
    let owned = |(path, text): (&str, &str)| (path.to_owned(), text.to_owned());
    files.into_iter().map(owned).collect()
}

/// All files below a folder with their content, by relative path; without drafts.
pub fn files(folder: &Path) -> BTreeMap<String, String> {
    let mut found = all(folder);
    found.retain(|name, _| !is_draft(name));
    found
}

/// How many drafts are left below a folder.
pub fn drafts(folder: &Path) -> usize {
    all(folder).keys().filter(|name| is_draft(name)).count()
}

/// Whether a file is a draft of Claude Code: it writes `NAME.tmp.PID.RANDOM` first and renames it,
/// and leaves it behind when it is killed in between.
fn is_draft(name: &str) -> bool {
    let Some((_, rest)) = name.rsplit_once(".tmp.") else {
        return false;
    };
    let Some((process, random)) = rest.split_once('.') else {
        return false;
    };
    process.parse::<u32>().is_ok() && random.bytes().all(|byte| byte.is_ascii_hexdigit())
}

fn all(folder: &Path) -> BTreeMap<String, String> {
    let mut found = BTreeMap::new();
    let mut folders = vec![folder.to_owned()];
    while let Some(next) = folders.pop() {
        for entry in fs::read_dir(&next).unwrap().flatten() {
            let path = entry.path();
            if path.is_dir() {
                folders.push(path);
            } else {
                let name = path.strip_prefix(folder).unwrap().display().to_string();
                let text = fs::read(&path).unwrap();
                found.insert(name, String::from_utf8_lossy(&text).into_owned());
            }
        }
    }
    found
}
