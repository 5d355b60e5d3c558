//! Other systems with the same work, through `bench/peers/run`.

use std::path::Path;
use std::process::{Command, Stdio};

use serde_json::Value;

/// The result of one round of a peer.
pub(crate) struct Peer {
    pub(crate) name: String,
    /// Whether a step's result is on the disk when the next step starts.
    pub(crate) durable: bool,
    pub(crate) ms_per_step: f64,
}

/// Runs one round of every peer. For a peer that cannot run here, it returns the reason.
pub(crate) fn round(steps: usize, folder: &Path) -> (Vec<Peer>, Vec<String>) {
    let script = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../bench/peers/run");
    let output = Command::new("python3")
        .arg(script)
        .arg(steps.to_string())
        .arg(folder)
        .args(["--rounds", "1"])
        .stderr(Stdio::null())
        .output()
        .unwrap();
    let (mut peers, mut reasons) = (Vec::new(), Vec::new());
    for line in String::from_utf8_lossy(&output.stdout).lines() {
        let line: Value = serde_json::from_str(line).unwrap();
        let name = line["peer"].as_str().unwrap_or_default().to_owned();
        match line["ms_per_step"].as_f64() {
            Some(ms_per_step) => peers.push(Peer {
                name,
                durable: line["durable"].as_bool().unwrap_or_default(),
                ms_per_step,
            }),
            None => reasons.push(format!("{name} was not measured: {}", line["error"])),
        }
    }
    if !output.status.success() {
        reasons.push(format!("bench/peers/run exited with {}", output.status));
    }
    (peers, reasons)
}
