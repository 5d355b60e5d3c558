//! Checks everything after a disturbance, and again after the command was repeated.

use std::collections::BTreeMap;
use std::fs;

use super::fixture::{CheckpointList, Fixture};
use super::operation::Operation;
use crate::crash::trial::Violation;
use crate::sandbox::ProcessOutput;
use crate::tree_state::TreeState;

/// What was found so far.
pub(super) struct Checker<'a> {
    pub(super) fixture: &'a Fixture,
    /// The expected content of each checkpoint, including those created since.
    known: BTreeMap<String, TreeState>,
    /// The checkpoints as they were last listed.
    pub(super) seen: CheckpointList,
    pub(super) wrongs: Vec<Violation>,
}

impl<'a> Checker<'a> {
    pub(super) fn new(fixture: &'a Fixture) -> Self {
        Self {
            fixture,
            known: fixture.expected_states.clone(),
            seen: fixture.start.clone(),
            wrongs: Vec::new(),
        }
    }

    pub(super) fn damage(&mut self, what: String) {
        self.wrongs.push(Violation::Damage(what));
    }

    pub(super) fn loss(&mut self, what: String) {
        self.wrongs.push(Violation::Loss(what));
    }

    pub(super) fn stuck(&mut self, what: String) {
        self.wrongs.push(Violation::Stuck(what));
    }

    /// Checks that nothing is damaged, nothing is lost, and every listed checkpoint can be
    /// restored. Checkpoints that were not known before must contain `new_checkpoint`.
    pub(super) fn check(&mut self, new_checkpoint: &TreeState) {
        self.check_damage();
        let seen = match self.fixture.list_checkpoints() {
            Ok(seen) => seen,
            Err(problem) => return self.damage(problem),
        };
        self.check_list(&seen);
        for id in &seen.listed {
            self.check_restore(id, new_checkpoint);
        }
        self.seen = seen;
        self.check_other_folders();
    }

    /// P4, P9: nothing is damaged.
    pub(super) fn check_damage(&mut self) {
        for words in [&["doctor"][..], &["checkpoint", "verify"]] {
            let said = self.fixture.sandbox.segno(words);
            if !said.status.success() {
                self.damage(format!("{words:?}: {}", describe(&said)));
            }
        }
    }

    /// Expects this checkpoint to contain `tree_state` from now on.
    pub(super) fn expect(&mut self, id: &str, tree_state: &TreeState) {
        self.known.insert(id.to_owned(), tree_state.clone());
    }

    /// Checks that all of these can be restored.
    pub(super) fn check_restores(&mut self, checkpoints: &[String]) {
        for id in checkpoints {
            self.check_restore(id, &TreeState::default());
        }
    }

    /// P8: checkpoints are deleted only where that was asked for.
    fn check_list(&mut self, seen: &CheckpointList) {
        let start = &self.fixture.start;
        if !seen.listed.is_disjoint(&seen.pruned) {
            self.damage(format!("both listed and pruned: {seen:?}"));
        }
        let mut needed = start.all();
        if self.fixture.operation == Operation::Gc {
            needed.retain(|id| !self.fixture.created[1..3].contains(id));
        }
        let gone: Vec<&String> = needed
            .iter()
            .filter(|id| !seen.all().contains(*id))
            .collect();
        if !gone.is_empty() {
            self.loss(format!("checkpoints are missing: {gone:?}"));
        }
        let may_move = matches!(self.fixture.operation, Operation::Prune | Operation::Undo);
        let unlisted: Vec<&String> = start.listed.difference(&seen.listed).collect();
        if !may_move && !unlisted.is_empty() {
            self.loss(format!("no longer listed: {unlisted:?}"));
        }
    }

    /// P4, P5: a listed checkpoint restores its files unchanged.
    fn check_restore(&mut self, id: &str, new_checkpoint: &TreeState) {
        let folder = self.fixture.beside("looked");
        let words = ["checkpoint", "restore", id, "--into", "../looked"];
        let said = self.fixture.sandbox.segno(&words);
        if said.status.success() {
            let expected = self.known.entry(id.to_owned());
            let expected = expected.or_insert_with(|| new_checkpoint.clone());
            if let Some(differences) = TreeState::of(&folder).differences(expected) {
                self.loss(format!("{id} is restored differently: {differences}"));
            }
        } else {
            self.loss(format!("{id} cannot be restored: {}", describe(&said)));
        }
        let _ = fs::remove_dir_all(folder);
    }

    /// P5: nothing but the target has changed.
    fn check_other_folders(&mut self) {
        for (name, tree_state) in &self.fixture.folders {
            if self.fixture.operation.target() == Some(*name) {
                continue;
            }
            let now = TreeState::of(&self.fixture.beside(name));
            if let Some(differences) = now.differences(tree_state) {
                self.damage(format!("{name} was changed: {differences}"));
            }
        }
    }

    /// P5: the target has old and new files, each complete, and what it has lost can be restored.
    pub(super) fn check_target(&mut self) {
        let Some((folder, old, new)) = self.fixture.target_states() else {
            return;
        };
        let now = TreeState::of(&folder);
        for wrong in now.unexpected_between(&old, new) {
            self.damage(wrong);
        }
        let is_rescued = self.seen.listed.len() > self.fixture.start.listed.len();
        if now.has_lost(&old) && !is_rescued {
            self.loss("files were replaced without a rescue checkpoint".to_owned());
        }
    }

    /// P8: pruned checkpoints are complete after the prune is undone.
    pub(super) fn check_undone_prune(&mut self, new_checkpoint: &TreeState) {
        if self.seen.pruned.is_empty() {
            return;
        }
        let said = self
            .fixture
            .sandbox
            .segno(&["checkpoint", "prune", "--undo"]);
        if !said.status.success() {
            self.stuck(format!("the prune cannot be undone: {}", describe(&said)));
            return;
        }
        let all = self.seen.all();
        self.check(new_checkpoint);
        if self.seen.listed != all {
            let seen = &self.seen;
            let what = format!("the undo restored {seen:?} instead of {all:?}");
            self.loss(what);
        }
    }
}

pub(super) fn describe(said: &ProcessOutput) -> String {
    let stdout: String = said.stdout.chars().take(2000).collect();
    format!("{}\n{stdout}{}", said.status, said.stderr)
}
