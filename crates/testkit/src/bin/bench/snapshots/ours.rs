//! Segno itself: the real binary, a home of its own, and a session that is done.

use std::path::{Path, PathBuf};
use std::process::Command;

use segno_testkit::sandbox::Sandbox;
use serde_json::Value;

use crate::Plan;
use crate::snapshots::keeper::{Bulk, Keeper, Repeat, Time};
use crate::snapshots::process::run;

#[derive(Default)]
pub(crate) struct Segno {
    binary: PathBuf,
    /// The home and the spec; none before the first store.
    sandbox: Option<Sandbox>,
    tree: PathBuf,
    /// The checkpoint that was taken last.
    kept: String,
}

impl Segno {
    pub(crate) fn new(plan: &Plan) -> Self {
        Self {
            binary: plan.segno.clone(),
            ..Self::default()
        }
    }

    /// The folder with everything that Segno keeps.
    pub(crate) fn home(&self) -> PathBuf {
        self.sandbox().home()
    }

    /// The time of a process that only tells its version.
    pub(crate) fn version(&self) -> Time {
        run(self.command(&["--version"])).map(|ran| ran.time)
    }

    /// Every checkpoint, not only the newest.
    pub(crate) fn verify_all(&self) -> Time {
        run(self.command(&["checkpoint", "verify"])).map(|ran| ran.time)
    }

    fn sandbox(&self) -> &Sandbox {
        self.sandbox.as_ref().expect("`begin` comes first")
    }

    /// The binary, started in the tree.
    fn command(&self, words: &[&str]) -> Command {
        let mut command = self.sandbox().command(words);
        command.current_dir(&self.tree);
        command
    }
}

impl Keeper for Segno {
    fn name(&self) -> String {
        "segno".into()
    }

    fn repeat(&self) -> Repeat {
        Repeat::Several
    }

    fn bulk(&self) -> Bulk {
        Bulk::EveryRound
    }

    /// The folder of the sandbox is used instead of `store`.
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
        // An earlier home is left where it is: freeing thousands of inodes slows down whoever
        // writes files next.
        if let Some(before) = self.sandbox.replace(sandbox) {
            std::mem::forget(before);
        }
        run(self.command(&["run", spec.to_str().expect("our own path is text")])).map(|_| ())
    }

    fn keep(&mut self, tree: &Path) -> Time {
        let ran = run(self.keeping(tree).expect("it is one process"))?;
        let taken: Value = serde_json::from_str(&ran.stdout).map_err(|error| error.to_string())?;
        let kept = taken["checkpoint"].as_str().unwrap_or_default();
        kept.clone_into(&mut self.kept);
        for list in ["skipped_files", "left_out_files", "unstable_files"] {
            assert_eq!(
                taken[list],
                serde_json::json!([]),
                "{list}: everything is kept"
            );
        }
        Ok(ran.time)
    }

    fn restore(&mut self, into: &Path) -> Time {
        run(self.restoring(into).expect("it is one process")).map(|ran| ran.time)
    }

    fn undo(&mut self, _: &Path) -> Option<Time> {
        let words = ["checkpoint", "restore", &self.kept, "--exact", "--json"];
        Some(run(self.command(&words)).map(|ran| ran.time))
    }

    fn verify(&mut self) -> Time {
        run(self.command(&["checkpoint", "verify", &self.kept])).map(|ran| ran.time)
    }

    fn store(&self) -> PathBuf {
        self.home().join("snapshots")
    }

    fn keeping(&self, _: &Path) -> Option<Command> {
        Some(self.command(&["checkpoint", "create", "--json"]))
    }

    fn restoring(&self, into: &Path) -> Option<Command> {
        let into = into.to_str()?;
        Some(self.command(&["checkpoint", "restore", &self.kept, "--into", into]))
    }
}
