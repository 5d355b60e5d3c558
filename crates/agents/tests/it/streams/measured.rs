//! However much a program writes, no more than a bounded part of it is held.

use std::process::Command;

use segno_core::companion::Program;

use super::asked;
use crate::world::read;

/// What the longest line that is looked into may take, and a test besides: in MiB.
const MOST: u64 = 200;

/// A line of 200 MB in the middle, and then an answer.
const LONG_LINE: &str = r#"
echo "$BEGIN"
printf '{"type":"x","a":"'; head -c 200000000 /dev/zero | tr '\0' x; echo '"}'
echo "$REST""#;
/// The same as the last line, without an end.
const LONG_END: &str = r#"
echo "$BEGIN"; echo "$REST"
printf '{"type":"x","a":"'; head -c 200000000 /dev/zero | tr '\0' x"#;
/// 200 MB of complaints.
const COMPLAINTS: &str = r#"
echo "$BEGIN"
head -c 200000000 /dev/zero | tr '\0' y >&2
echo "$REST""#;
/// A million lines.
const MANY: &str = r#"
echo "$BEGIN"
yes '{"type":"of_tomorrow","x":[1,2,3]}' | head -n 1000000
echo "$REST""#;

const CLAUDE: [&str; 2] = [
    r#"{"type":"system","subtype":"init","session_id":"00000000-0000-4000-8000-000000000001"}"#,
    r#"{"type":"result","subtype":"success","is_error":false,"result":"done","session_id":"00000000-0000-4000-8000-000000000001"}"#,
];
const CODEX: [&str; 2] = [
    r#"{"type":"thread.started","thread_id":"00000000-0000-7000-8000-000000000001"}"#,
    "{\"type\":\"item.completed\",\"item\":{\"id\":\"i\",\"type\":\"agent_message\",\"text\":\"done\"}}\n{\"type\":\"turn.completed\"}",
];

/// Asks a program, and says how much memory that took at most, in MiB, and whether it answered. Run in
/// a process of its own.
#[test]
#[ignore = "only a part of the tests of memory"]
fn measure() {
    let script = std::env::var("SEGNO_TEST_SCRIPT").unwrap();
    let program = match std::env::var("SEGNO_TEST_AGENT").unwrap().as_str() {
        "codex" => Program::Codex,
        _ => Program::ClaudeCode,
    };
    let (answer, _) = asked(program, &script);
    let status = String::from_utf8(read("/proc/self/status")).unwrap();
    let high = status
        .lines()
        .find_map(|line| line.strip_prefix("VmHWM:"))
        .unwrap();
    let kib: u64 = high.trim().trim_end_matches(" kB").parse().unwrap();
    let ended = answer.map_or_else(|error| error.message, |answer| answer.text);
    println!("MEASURED {} {ended}", kib / 1024);
}

fn measured(program: Program, script: &str) -> (u64, String) {
    let [begin, rest] = match program {
        Program::ClaudeCode => CLAUDE,
        _ => CODEX,
    };
    let output = Command::new(std::env::current_exe().unwrap())
        .args([
            "streams::measured::measure",
            "--exact",
            "--ignored",
            "--nocapture",
        ])
        .env("SEGNO_TEST_SCRIPT", script)
        .env("SEGNO_TEST_AGENT", program.as_str())
        .env("BEGIN", begin)
        .env("REST", rest)
        .output()
        .unwrap();
    let said = String::from_utf8_lossy(&output.stdout);
    let line = said.lines().find_map(|line| line.split("MEASURED ").nth(1));
    let (mib, ended) = line.unwrap().split_once(' ').unwrap();
    (mib.parse().unwrap(), ended.to_owned())
}

#[test]
fn memory_is_bounded_whatever_is_written() {
    for program in [Program::ClaudeCode, Program::Codex] {
        for (what, script, expected) in [
            ("a long line", LONG_LINE, "done"),
            ("a long last line", LONG_END, "1 line after its"),
            ("complaints", COMPLAINTS, "done"),
            ("many lines", MANY, "done"),
        ] {
            let (mib, ended) = measured(program, script);
            assert!(ended.contains(expected), "{program} {what}: {ended}");
            assert!(mib < MOST, "{program} {what}: {mib} MiB");
        }
    }
}
