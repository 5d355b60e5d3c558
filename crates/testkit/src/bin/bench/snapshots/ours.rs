//! Segno itself: the real binary, its own home, and a completed session.

use std::path::{Path, PathBuf};
use std::process::Command;

use segno_testkit::sandbox::Sandbox;
use serde_json::Value;

use crate::Plan;
use crate::snapshots::process::run;
use crate::snapshots::tool::{Bulk, Repeat, SnapshotTool, Time};

#[derive(Default)]
pub(crate) struct Segno {
    binary: PathBuf,
    /// The home and the spec; `None` before the first store.
    sandbox: Option<Sandbox>,
    tree: PathBuf,
    /// The latest checkpoint.
    latest: String,
}

impl Segno {
    pub(crate) fn new(plan: &Plan) -> Self {
        Self {
            binary: plan.segno.clone(),
            ..Self::default()
        }
    }

    pub(crate) fn home(&self) -> PathBuf {
        self.sandbox().home()
    }

    /// The time of a process that only prints its version.
    pub(crate) fn version(&self) -> Time {
        run(self.command(&["--version"])).map(|ran| ran.time)
    }

    /// Verifies every checkpoint, not only the latest.
    pub(crate) fn verify_all(&self) -> Time {
        run(self.command(&["checkpoint", "verify"])).map(|ran| ran.time)
    }

    fn sandbox(&self) -> &Sandbox {
        self.sandbox.as_ref().expect("`begin` runs first")
    }

    /// A command that runs the binary in the tree.
    fn command(&self, words: &[&str]) -> Command {
        let mut command = self.sandbox().command(words);
        command.current_dir(&self.tree);
        command
    }
}

impl SnapshotTool for Segno {
    fn name(&self) -> String {
        "segno".into()
    }

    fn repeat(&self) -> Repeat {
        Repeat::Several
    }

    fn bulk(&self) -> Bulk {
        Bulk::EveryRound
    }

    /// Uses the folder of the sandbox instead of `store`.
    fn begin(&mut self, tree: &Path, _: &Path) -> Result<(), String> {
        let sandbox = Sandbox::new(&self.binary);
        let answers = sandbox.write("answers.yaml", "default: {text: done}\n");
        let spec = sandbox.write(
            "kept.yaml",
            &format!(
                "version: 0\nname: kept\nruntime: {{provider: scripted, script: {}}}\nagents: {{a: {{prompt: Answer.}}}}\npattern: {{type: chain, config: {{steps: [{{agent: a, input: begin}}]}}}}\n",
                answers.display()
            ),
        );
        tree.clone_into(&mut self.tree);
        // An earlier home is not deleted: freeing thousands of inodes would slow down the next tool
        // that writes files.
        if let Some(before) = self.sandbox.replace(sandbox) {
            std::mem::forget(before);
        }
        run(self.command(&["run", spec.to_str().expect("the benchmark's path is UTF-8")]))
            .map(|_| ())
    }

    fn snapshot(&mut self, tree: &Path) -> Time {
        let ran = run(self
            .snapshot_command(tree)
            .expect("segno takes a snapshot in one process"))?;
        let created: Value =
            serde_json::from_str(&ran.stdout).map_err(|error| error.to_string())?;
        let latest = created["checkpoint"].as_str().unwrap_or_default();
        latest.clone_into(&mut self.latest);
        for list in ["skipped_files", "excluded_files", "unstable_files"] {
            assert_eq!(
                created[list],
                serde_json::json!([]),
                "{list}: nothing is excluded"
            );
        }
        Ok(ran.time)
    }

    fn restore(&mut self, into: &Path) -> Time {
        run(self
            .restore_command(into)
            .expect("segno takes a snapshot in one process"))
        .map(|ran| ran.time)
    }

    fn restore_in_place(&mut self, _: &Path) -> Option<Time> {
        let words = ["checkpoint", "restore", &self.latest, "--exact", "--json"];
        Some(run(self.command(&words)).map(|ran| ran.time))
    }

    fn verify(&mut self) -> Time {
        run(self.command(&["checkpoint", "verify", &self.latest])).map(|ran| ran.time)
    }

    fn store(&self) -> PathBuf {
        self.home().join("snapshots")
    }

    fn snapshot_command(&self, _: &Path) -> Option<Command> {
        Some(self.command(&["checkpoint", "create", "--json"]))
    }

    fn restore_command(&self, into: &Path) -> Option<Command> {
        let into = into.to_str()?;
        Some(self.command(&["checkpoint", "restore", &self.latest, "--into", into]))
    }
}
