//! Determines which records of a transcript are on the current branch.
//!
//! The current branch is the path from the newest leaf back to the root. Two kinds of records are
//! beside that path and still belong to it: parallel calls, of which only one can be followed, and
//! their results. A record whose parent is missing (its line was broken or removed) is linked to
//! the record before it in the file, so that nothing before a broken line is lost.

use std::collections::HashSet;
use std::io::{self, Read, Seek};

use segno_core::conversation::{Branch, Thread};
use segno_core::digest::Digest;
use segno_core::time::Timestamp;
use serde_json::Value;

use super::record::{first_answered_call, thread};
use crate::transcript::{Content, Lines, Object, text};

#[derive(Debug)]
pub(crate) struct Tree {
    /// By line number; `None` if there are more records than the limit.
    current: Option<BitSet>,
    linked: BitSet,
    /// The lines whose parent is missing, each with the line that replaces the parent.
    lost: Vec<(u32, u32)>,
    /// The line in which the branch ends, and its timestamp.
    leaf: Option<(u64, Option<Timestamp>)>,
}

/// The latest timestamp that a result may have without becoming the end of another branch.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum LatestResultTime {
    /// The call's own.
    AsCalled,
    /// Any earlier one.
    Before(Timestamp),
    /// It must have no timestamp.
    Timeless,
}

/// How often the records beside the branch are searched.
const MAX_PASSES: usize = 8;

/// The links of a record.
#[derive(Debug, Clone, Copy)]
struct Node {
    id: u64,
    /// 0 if it has none.
    parent: u64,
    /// Groups records: the message of an assistant record; for a result, its call and parent.
    key: u64,
    when: i64,
    line: u32,
    kind: NodeKind,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum NodeKind {
    Assistant,
    Answer,
    Other,
}

impl Tree {
    /// Reads all records once.
    pub(crate) fn build<R: Read + Seek>(lines: &mut Lines<R>, limit: usize) -> io::Result<Self> {
        let mut main = Vec::new();
        let mut side = Vec::new();
        let mut too_many = false;
        while let Some(found) = lines.next()? {
            let Content::Record(record) = lines.content(found) else {
                continue;
            };
            let Ok(line) = u32::try_from(found.at.line) else {
                too_many = true;
                break;
            };
            let Some(node) = node(&record, line) else {
                continue;
            };
            too_many = main.len() + side.len() == limit;
            if too_many {
                break;
            }
            match thread(&record) {
                Thread::Main => main.push(node),
                Thread::Agent(_) => side.push(node),
            }
        }
        if too_many {
            return Ok(Self {
                current: None,
                linked: BitSet::default(),
                lost: Vec::new(),
                leaf: None,
            });
        }
        // A sub-agent's own file contains only its thread, which is the main one there.
        let nodes = if main.is_empty() { side } else { main };
        Ok(Self::of(nodes))
    }

    /// The branch of a record. Records of other threads are not on any branch here and count as
    /// current.
    pub(crate) fn branch(&self, line: u64) -> Branch {
        match &self.current {
            None => Branch::Unknown,
            Some(current) if current.has(line) || !self.linked.has(line) => Branch::Current,
            Some(_) => Branch::Side,
        }
    }

    /// The line that replaces the missing parent of the record in `line`.
    pub(crate) fn replacement_parent(&self, line: u64) -> Option<u64> {
        let line = u32::try_from(line).ok()?;
        let at = self.lost.binary_search_by_key(&line, |(lost, _)| *lost);
        Some(u64::from(self.lost[at.ok()?].1))
    }

    /// The latest timestamp that a result of a call in this line may have; `None` if it could
    /// become the end of the branch.
    pub(crate) fn latest_result_time(&self, line: u64) -> Option<LatestResultTime> {
        match self.leaf {
            Some((leaf, _)) if leaf == line => Some(LatestResultTime::AsCalled),
            _ if !self.linked.has(line) => Some(LatestResultTime::AsCalled),
            Some((_, Some(when))) => Some(LatestResultTime::Before(when)),
            Some((leaf, None)) => (line < leaf).then_some(LatestResultTime::Timeless),
            None => Some(LatestResultTime::AsCalled),
        }
    }

    fn of(mut nodes: Vec<Node>) -> Self {
        let mut linked = BitSet::default();
        for node in &nodes {
            linked.set(u64::from(node.line));
        }
        drop_repeated(&mut nodes);
        let nodes = &nodes[..];
        let order = IdIndex::of(nodes);
        let mut tree = Self {
            current: Some(BitSet::default()),
            linked,
            lost: Vec::new(),
            leaf: None,
        };
        let mut current = BitSet::default();
        let mut missing = HashSet::new();
        let mut at = leaf(nodes, &order);
        tree.leaf = at.map(|at| {
            let when = Some(Timestamp(nodes[at].when)).filter(|when| when.0 != i64::MIN);
            (u64::from(nodes[at].line), when)
        });
        while let Some(here) = at {
            if !current.set(u64::from(nodes[here].line)) {
                break;
            }
            at = match nodes[here].parent {
                0 => None,
                parent => order.find(nodes, parent).or_else(|| {
                    let before = here.checked_sub(1)?;
                    if current.has(u64::from(nodes[before].line)) {
                        return None;
                    }
                    tree.lost.push((nodes[here].line, nodes[before].line));
                    missing.insert(parent);
                    Some(before)
                }),
            };
        }
        tree.lost.sort_unstable();
        add_siblings(nodes, &order, &missing, &mut current);
        tree.current = Some(current);
        tree
    }
}

fn node(record: &Object, line: u32) -> Option<Node> {
    let id = hash(text(record, "uuid")?);
    let message = record.get("message");
    let parent = text(record, "parentUuid").or_else(|| text(record, "logicalParentUuid"));
    let (kind, key) = match text(record, "type") {
        Some("assistant") => {
            let id = message.and_then(|message| message.get("id"));
            (NodeKind::Assistant, id.and_then(Value::as_str).map(hash))
        }
        Some("user") => match first_answered_call(record) {
            Some(call) => {
                let from = parent.unwrap_or_default();
                (NodeKind::Answer, Some(hash(&format!("{call} of {from}"))))
            }
            None => (NodeKind::Other, None),
        },
        _ => (NodeKind::Other, None),
    };
    Some(Node {
        id,
        parent: parent.map_or(0, hash),
        key: key.unwrap_or_default(),
        when: text(record, "timestamp")
            .and_then(Timestamp::parse)
            .map_or(i64::MIN, |when| when.0),
        line,
        kind,
    })
}

/// Short, so that a million of them fit into memory; a collision is not to be expected.
fn hash(text: &str) -> u64 {
    let digest = Digest::of(text.as_bytes());
    let first = digest
        .as_bytes()
        .first_chunk()
        .expect("a digest has 32 bytes");
    u64::from_le_bytes(*first)
}

/// The nodes sorted by id, to find parents.
struct IdIndex(Vec<u32>);

impl IdIndex {
    fn of(nodes: &[Node]) -> Self {
        let mut order: Vec<u32> = (0..).take(nodes.len()).collect();
        order.sort_unstable_by_key(|&at| (nodes[at as usize].id, at));
        Self(order)
    }

    fn find(&self, nodes: &[Node], id: u64) -> Option<usize> {
        let after = self.0.partition_point(|&at| nodes[at as usize].id <= id);
        let at = *self.0.get(after.checked_sub(1)?)? as usize;
        (nodes[at].id == id).then_some(at)
    }
}

/// Keeps the last of several nodes with one id, as Claude Code does.
fn drop_repeated(nodes: &mut Vec<Node>) {
    let order = IdIndex::of(nodes);
    let repeated = order.0.windows(2).filter(|pair| {
        let [one, next] = [pair[0], pair[1]].map(|at| nodes[at as usize].id);
        one == next
    });
    let mut dropped = BitSet::default();
    let mut any = false;
    for pair in repeated {
        any |= dropped.set(u64::from(pair[0]));
    }
    if any {
        let mut at = 0..;
        nodes.retain(|_| at.next().is_none_or(|at| !dropped.has(at)));
    }
}

/// The newest node without a child; of two with the same timestamp, the later one in the file.
fn leaf(nodes: &[Node], order: &IdIndex) -> Option<usize> {
    let mut followed = BitSet::default();
    for node in nodes {
        if let Some(parent) = order.find(nodes, node.parent) {
            followed.set(parent as u64);
        }
    }
    let leaves = (0..nodes.len()).filter(|&at| !followed.has(at as u64));
    leaves
        .max_by_key(|&at| (nodes[at].when, at))
        // Cyclic links leave no leaf.
        .or(nodes.len().checked_sub(1))
}

/// Adds the records that belong to the branch beside the path: the other calls of a message on it,
/// and the results of calls on it that have no other result. A record whose parent is the same
/// missing record as on the branch belongs to the branch.
fn add_siblings(nodes: &[Node], order: &IdIndex, missing: &HashSet<u64>, current: &mut BitSet) {
    let on = |current: &BitSet, node: &Node| current.has(u64::from(node.line));
    // Searches the keys of records beside the branch, of which there are fewer.
    let off_branch = nodes
        .iter()
        .filter(|node| !on(current, node) && node.kind != NodeKind::Other);
    let mut wanted: Vec<_> = off_branch.map(|node| (node.key, false)).collect();
    wanted.sort_unstable();
    wanted.dedup();
    for node in nodes.iter().filter(|node| on(current, node)) {
        if let Ok(at) = wanted.binary_search_by_key(&node.key, |(key, _)| *key) {
            wanted[at].1 |= node.kind != NodeKind::Other;
        }
    }
    let present = |key: u64| {
        let at = wanted.binary_search_by_key(&key, |(key, _)| *key);
        key != 0 && at.is_ok_and(|at| wanted[at].1)
    };
    // A record comes after its parent, unless lines were reordered.
    for _ in 0..MAX_PASSES {
        let mut changed = false;
        for node in nodes {
            let follows = match order.find(nodes, node.parent) {
                Some(parent) => on(current, &nodes[parent]),
                None => missing.contains(&node.parent),
            };
            if !follows || on(current, node) {
                continue;
            }
            let belongs = match node.kind {
                NodeKind::Assistant => present(node.key),
                NodeKind::Answer => !present(node.key),
                NodeKind::Other => false,
            };
            changed |= belongs && current.set(u64::from(node.line));
        }
        if !changed {
            break;
        }
    }
}

/// A set of small numbers.
#[derive(Debug, Default)]
struct BitSet(Vec<u64>);

impl BitSet {
    fn has(&self, number: u64) -> bool {
        let word = usize::try_from(number / 64)
            .ok()
            .and_then(|at| self.0.get(at));
        word.is_some_and(|word| word >> (number % 64) & 1 == 1)
    }

    /// Returns whether it is new.
    fn set(&mut self, number: u64) -> bool {
        let Ok(at) = usize::try_from(number / 64) else {
            return false;
        };
        if at >= self.0.len() {
            self.0.resize(at + 1, 0);
        }
        let new = !self.has(number);
        self.0[at] |= 1 << (number % 64);
        new
    }
}
