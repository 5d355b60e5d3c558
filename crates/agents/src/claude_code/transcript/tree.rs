//! Which records of a transcript are on the current branch.
//!
//! The current branch is the way back from the newest leaf. Two things lie beside that way and are
//! still part of it: calls that were made at once, of which only one can be followed, and their
//! answers. A record that follows one which is not there (its line was broken, or left out) goes on
//! with the record before it in the file, so that nothing before a broken line is lost.

use std::collections::HashSet;
use std::io::{self, Read, Seek};

use segno_core::conversation::{Branch, Thread};
use segno_core::digest::Digest;
use segno_core::time::Timestamp;
use serde_json::Value;

use super::record::{answered, thread};
use crate::transcript::{Content, Lines, Object, moment, text};

/// The current branch of a transcript.
#[derive(Debug)]
pub(crate) struct Tree {
    /// By line number; `None` if there are more records than are followed.
    current: Option<Bits>,
    linked: Bits,
    /// The lines whose parent is not there, each with the line that it goes on with.
    lost: Vec<(u32, u32)>,
    /// The line that the branch ends in, and its time.
    leaf: Option<(u64, Option<Timestamp>)>,
}

/// How new an answer to a call may be, so that it does not become the end of another branch.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Newest {
    /// As new as the call.
    AsCalled,
    /// Older than this.
    Before(Timestamp),
    /// It must not say when it was.
    Timeless,
}

/// How often what lies beside the branch is looked through.
const PASSES: usize = 8;

/// A record, as much as its links need.
#[derive(Debug, Clone, Copy)]
struct Node {
    id: u64,
    /// 0 if it has none.
    parent: u64,
    /// What it belongs to: for a model's record its message, for an answer its call in the record
    /// that it follows.
    key: u64,
    when: i64,
    line: u32,
    sort: Sort,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Sort {
    Assistant,
    Answer,
    Other,
}

impl Tree {
    /// Reads all records once.
    pub(crate) fn grow<R: Read + Seek>(lines: &mut Lines<R>, most: usize) -> io::Result<Self> {
        let mut main = Vec::new();
        let mut side = Vec::new();
        let mut many = false;
        while let Some(found) = lines.next()? {
            let Content::Record(record) = lines.content(found) else {
                continue;
            };
            let Ok(line) = u32::try_from(found.at.line) else {
                many = true;
                break;
            };
            let Some(node) = node(&record, line) else {
                continue;
            };
            many = main.len() + side.len() == most;
            if many {
                break;
            }
            match thread(&record) {
                Thread::Main => main.push(node),
                Thread::Agent(_) => side.push(node),
            }
        }
        if many {
            return Ok(Self {
                current: None,
                linked: Bits::default(),
                lost: Vec::new(),
                leaf: None,
            });
        }
        // A sub-agent's own file has nothing but its thread, which is the main one there.
        let nodes = if main.is_empty() { side } else { main };
        Ok(Self::of(nodes))
    }

    /// Where a record stands. One of another thread is followed by its own program only.
    pub(crate) fn branch(&self, line: u64) -> Branch {
        match &self.current {
            None => Branch::Unknown,
            Some(current) if current.has(line) || !self.linked.has(line) => Branch::Current,
            Some(_) => Branch::Side,
        }
    }

    /// The line that a record goes on with which follows one that is not there.
    pub(crate) fn instead(&self, line: u64) -> Option<u64> {
        let line = u32::try_from(line).ok()?;
        let at = self.lost.binary_search_by_key(&line, |(lost, _)| *lost);
        Some(u64::from(self.lost[at.ok()?].1))
    }

    /// How new an answer to a call in this line may be; `None` if it cannot be told apart from the
    /// end of the branch.
    pub(crate) fn newest(&self, line: u64) -> Option<Newest> {
        match self.leaf {
            Some((leaf, _)) if leaf == line => Some(Newest::AsCalled),
            _ if !self.linked.has(line) => Some(Newest::AsCalled),
            Some((_, Some(when))) => Some(Newest::Before(when)),
            Some((leaf, None)) => (line < leaf).then_some(Newest::Timeless),
            None => Some(Newest::AsCalled),
        }
    }

    fn of(mut nodes: Vec<Node>) -> Self {
        let mut linked = Bits::default();
        for node in &nodes {
            linked.set(u64::from(node.line));
        }
        drop_repeated(&mut nodes);
        let nodes = &nodes[..];
        let order = Order::of(nodes);
        let mut tree = Self {
            current: Some(Bits::default()),
            linked,
            lost: Vec::new(),
            leaf: None,
        };
        let mut current = Bits::default();
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
        adopt(nodes, &order, &missing, &mut current);
        tree.current = Some(current);
        tree
    }
}

fn node(record: &Object, line: u32) -> Option<Node> {
    let id = hash(text(record, "uuid")?);
    let message = record.get("message");
    let parent = text(record, "parentUuid").or_else(|| text(record, "logicalParentUuid"));
    let (sort, key) = match text(record, "type") {
        Some("assistant") => {
            let id = message.and_then(|message| message.get("id"));
            (Sort::Assistant, id.and_then(Value::as_str).map(hash))
        }
        Some("user") => match answered(record) {
            Some(call) => {
                let from = parent.unwrap_or_default();
                (Sort::Answer, Some(hash(&format!("{call} of {from}"))))
            }
            None => (Sort::Other, None),
        },
        _ => (Sort::Other, None),
    };
    Some(Node {
        id,
        parent: parent.map_or(0, hash),
        key: key.unwrap_or_default(),
        when: text(record, "timestamp")
            .and_then(moment)
            .map_or(i64::MIN, |when| when.0),
        line,
        sort,
    })
}

/// Short, so that a million of them fit; two of them alike are not to be expected.
fn hash(text: &str) -> u64 {
    let digest = Digest::of(text.as_bytes());
    let first = digest
        .as_bytes()
        .first_chunk()
        .expect("a digest has 32 bytes");
    u64::from_le_bytes(*first)
}

/// The nodes by their id, so that a parent is found.
struct Order(Vec<u32>);

impl Order {
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

/// Leaves the last of several nodes of one id, as the program does.
fn drop_repeated(nodes: &mut Vec<Node>) {
    let order = Order::of(nodes);
    let repeated = order.0.windows(2).filter(|pair| {
        let [one, next] = [pair[0], pair[1]].map(|at| nodes[at as usize].id);
        one == next
    });
    let mut dropped = Bits::default();
    let mut any = false;
    for pair in repeated {
        any |= dropped.set(u64::from(pair[0]));
    }
    if any {
        let mut at = 0..;
        nodes.retain(|_| at.next().is_none_or(|at| !dropped.has(at)));
    }
}

/// The newest node that none follows; of two that are as new, the later one.
fn leaf(nodes: &[Node], order: &Order) -> Option<usize> {
    let mut followed = Bits::default();
    for node in nodes {
        if let Some(parent) = order.find(nodes, node.parent) {
            followed.set(parent as u64);
        }
    }
    let leaves = (0..nodes.len()).filter(|&at| !followed.has(at as u64));
    leaves
        .max_by_key(|&at| (nodes[at].when, at))
        // Links in a circle leave no leaf.
        .or(nodes.len().checked_sub(1))
}

/// Takes in what belongs to the branch beside the way back: the other calls of a message on it,
/// and the answers to calls on it that have no other.
/// What follows a record that is not there, as the branch does, follows the branch.
fn adopt(nodes: &[Node], order: &Order, missing: &HashSet<u64>, current: &mut Bits) {
    let on = |current: &Bits, node: &Node| current.has(u64::from(node.line));
    // What could belong to it is looked for on it, since there is less of that.
    let beside = nodes
        .iter()
        .filter(|node| !on(current, node) && node.sort != Sort::Other);
    let mut wanted: Vec<_> = beside.map(|node| (node.key, false)).collect();
    wanted.sort_unstable();
    wanted.dedup();
    for node in nodes.iter().filter(|node| on(current, node)) {
        if let Ok(at) = wanted.binary_search_by_key(&node.key, |(key, _)| *key) {
            wanted[at].1 |= node.sort != Sort::Other;
        }
    }
    let present = |key: u64| {
        let at = wanted.binary_search_by_key(&key, |(key, _)| *key);
        key != 0 && at.is_ok_and(|at| wanted[at].1)
    };
    // A record comes after the one that it follows, unless lines were moved about.
    for _ in 0..PASSES {
        let mut changed = false;
        for node in nodes {
            let follows = match order.find(nodes, node.parent) {
                Some(parent) => on(current, &nodes[parent]),
                None => missing.contains(&node.parent),
            };
            if !follows || on(current, node) {
                continue;
            }
            let belongs = match node.sort {
                Sort::Assistant => present(node.key),
                Sort::Answer => !present(node.key),
                Sort::Other => false,
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
struct Bits(Vec<u64>);

impl Bits {
    fn has(&self, number: u64) -> bool {
        let word = usize::try_from(number / 64)
            .ok()
            .and_then(|at| self.0.get(at));
        word.is_some_and(|word| word >> (number % 64) & 1 == 1)
    }

    /// Whether it is new.
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
