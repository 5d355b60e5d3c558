//! Looking at everything after a disturbance, and again after the deed was repeated.

use std::collections::BTreeMap;
use std::fs;

use super::deed::Deed;
use super::ground::{Ground, Standing};
use crate::crash::trial::Wrong;
use crate::picture::Picture;
use crate::sandbox::Said;

/// What was seen so far.
pub(super) struct Watch<'a> {
    pub(super) ground: &'a Ground,
    /// What each checkpoint should come back as, also those that came since.
    known: BTreeMap<String, Picture>,
    /// The checkpoints as they were last listed.
    pub(super) seen: Standing,
    pub(super) wrongs: Vec<Wrong>,
}

impl<'a> Watch<'a> {
    pub(super) fn new(ground: &'a Ground) -> Self {
        Self {
            ground,
            known: ground.pictures.clone(),
            seen: ground.start.clone(),
            wrongs: Vec::new(),
        }
    }

    pub(super) fn damage(&mut self, what: String) {
        self.wrongs.push(Wrong::Damage(what));
    }

    pub(super) fn loss(&mut self, what: String) {
        self.wrongs.push(Wrong::Loss(what));
    }

    pub(super) fn stuck(&mut self, what: String) {
        self.wrongs.push(Wrong::Stuck(what));
    }

    /// Nothing is damaged, nothing that was there is gone, and whatever is listed comes back. Those
    /// that were not known before are of `newcomer`.
    pub(super) fn look(&mut self, newcomer: &Picture) {
        self.examine();
        let seen = match self.ground.standing() {
            Ok(seen) => seen,
            Err(problem) => return self.damage(problem),
        };
        self.compare_standing(&seen);
        for id in &seen.listed {
            self.bring_back(id, newcomer);
        }
        self.seen = seen;
        self.look_around();
    }

    /// P4, P9: nothing is damaged.
    pub(super) fn examine(&mut self) {
        for words in [&["doctor"][..], &["checkpoint", "verify"]] {
            let said = self.ground.sandbox.segno(words);
            if !said.status.success() {
                self.damage(format!("{words:?}: {}", told(&said)));
            }
        }
    }

    /// From now on this checkpoint is one of `picture`.
    pub(super) fn expect(&mut self, id: &str, picture: &Picture) {
        self.known.insert(id.to_owned(), picture.clone());
    }

    /// All of these are listed, and come back.
    pub(super) fn bring_back_all(&mut self, checkpoints: &[String]) {
        for id in checkpoints {
            self.bring_back(id, &Picture::default());
        }
    }

    /// P8: checkpoints go only where that was asked for.
    fn compare_standing(&mut self, seen: &Standing) {
        let start = &self.ground.start;
        if !seen.listed.is_disjoint(&seen.pruned) {
            self.damage(format!("listed and let go of at once: {seen:?}"));
        }
        let mut needed = start.all();
        if self.ground.deed == Deed::Gc {
            needed.retain(|id| !self.ground.taken[1..3].contains(id));
        }
        let gone: Vec<&String> = needed
            .iter()
            .filter(|id| !seen.all().contains(*id))
            .collect();
        if !gone.is_empty() {
            self.loss(format!("checkpoints are gone: {gone:?}"));
        }
        let may_move = matches!(self.ground.deed, Deed::Prune | Deed::Undo);
        let unlisted: Vec<&String> = start.listed.difference(&seen.listed).collect();
        if !may_move && !unlisted.is_empty() {
            self.loss(format!("no longer listed: {unlisted:?}"));
        }
    }

    /// P4, P5: a listed checkpoint comes back as its files were.
    fn bring_back(&mut self, id: &str, newcomer: &Picture) {
        let place = self.ground.beside("looked");
        let words = ["checkpoint", "restore", id, "--into", "../looked"];
        let said = self.ground.sandbox.segno(&words);
        if said.status.success() {
            let expected = self.known.entry(id.to_owned());
            let expected = expected.or_insert_with(|| newcomer.clone());
            if let Some(differences) = Picture::of(&place).differences(expected) {
                self.loss(format!("{id} comes back otherwise: {differences}"));
            }
        } else {
            self.loss(format!("{id} does not come back: {}", told(&said)));
        }
        let _ = fs::remove_dir_all(place);
    }

    /// P5: nothing but the target has changed.
    fn look_around(&mut self) {
        for (name, picture) in &self.ground.folders {
            if self.ground.deed.target() == Some(*name) {
                continue;
            }
            let now = Picture::of(&self.ground.beside(name));
            if let Some(differences) = now.differences(picture) {
                self.damage(format!("{name} was changed: {differences}"));
            }
        }
    }

    /// P5: the target has old and new files, each whole, and what it has lost can be had back.
    pub(super) fn look_at_target(&mut self) {
        let Some((place, old, new)) = self.ground.aim() else {
            return;
        };
        let now = Picture::of(&place);
        for wrong in now.between(&old, new) {
            self.damage(wrong);
        }
        let is_rescued = self.seen.listed.len() > self.ground.start.listed.len();
        if now.has_lost(&old) && !is_rescued {
            self.loss("files were replaced and not kept".to_owned());
        }
    }

    /// Had back, those that were let go of are whole as well (P8).
    pub(super) fn have_back(&mut self, newcomer: &Picture) {
        if self.seen.pruned.is_empty() {
            return;
        }
        let said = self
            .ground
            .sandbox
            .segno(&["checkpoint", "prune", "--undo"]);
        if !said.status.success() {
            self.stuck(format!("cannot be had back: {}", told(&said)));
            return;
        }
        let all = self.seen.all();
        self.look(newcomer);
        if self.seen.listed != all {
            let seen = &self.seen;
            let what = format!("had back {seen:?} instead of {all:?}");
            self.loss(what);
        }
    }
}

pub(super) fn told(said: &Said) -> String {
    let stdout: String = said.stdout.chars().take(2000).collect();
    format!("{}\n{stdout}{}", said.status, said.stderr)
}
