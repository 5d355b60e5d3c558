//! However much a program writes, memory stays bounded.

use std::process::Command;

use segno_core::cli_agent::CliAgentKind;

use super::run_script;
use crate::fixture::read;

/// What the longest parsed line and the test itself may use, in MiB.
const MOST: u64 = 200;

/// A line of 200 MB in the middle, and then an answer.
const LONG_LINE: &str = r#"
echo "$BEGIN"
printf '{"type":"x","a":"'; head -c 200000000 /dev/zero | tr '\0' x; echo '"}'
echo "$REST""#;
/// The same as the last line, without a newline.
const LONG_END: &str = r#"
echo "$BEGIN"; echo "$REST"
printf '{"type":"x","a":"'; head -c 200000000 /dev/zero | tr '\0' x"#;
/// 200 MB on stderr.
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

/// Runs a program, and prints the peak memory in MiB and whether it answered. Runs in a process of
/// its own.
#[test]
#[ignore = "only a part of the tests of memory"]
fn measure() {
    let script = std::env::var("SEGNO_TEST_SCRIPT").unwrap();
    let program = match std::env::var("SEGNO_TEST_AGENT").unwrap().as_str() {
        "codex" => CliAgentKind::Codex,
        _ => CliAgentKind::ClaudeCode,
    };
    let (answer, _) = run_script(program, &script);
    let status = String::from_utf8(read("/proc/self/status")).unwrap();
    let high = status
        .lines()
        .find_map(|line| line.strip_prefix("VmHWM:"))
        .unwrap();
    let kib: u64 = high.trim().trim_end_matches(" kB").parse().unwrap();
    let ended = answer.map_or_else(|error| error.message, |answer| answer.text);
    println!("MEASURED {} {ended}", kib / 1024);
}

fn measured(program: CliAgentKind, script: &str) -> (u64, String) {
    let [begin, rest] = match program {
        CliAgentKind::ClaudeCode => CLAUDE,
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
fn memory_is_bounded_for_any_output() {
    for program in [CliAgentKind::ClaudeCode, CliAgentKind::Codex] {
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
