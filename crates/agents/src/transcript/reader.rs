//! Reads a transcript, entry by entry.

use std::collections::VecDeque;
use std::io::{self, Read, Seek};

use segno_core::conversation::{Branch, ConversationItem, ItemContent};

use super::claude_code::{LatestResultTime, Tree};
use super::damage::Severity;
use super::version::{VersionSupport, choose_adapter};
use super::{
    Adapter, Content, Damage, Facts, Found, Limits, Lines, Object, Reason, Span, TranscriptFormat,
    text,
};

/// What a transcript contains, in the order of the file.
#[derive(Debug, Clone, PartialEq)]
pub enum Item {
    /// A part of the conversation.
    Entry {
        entry: ConversationItem,
        /// The line that contains it.
        at: Span,
    },
    /// A line that could not be read as expected.
    Damage(Damage),
}

/// Reads a transcript: an iterator over [`Item`]s.
#[derive(Debug)]
pub struct Reader<R> {
    adapters: &'static [Adapter],
    lines: Lines<R>,
    tree: Option<Tree>,
    adapter: &'static Adapter,
    facts: Facts,
    records: u64,
    bytes: u64,
    ready: VecDeque<Item>,
}

impl<R: Read + Seek> Reader<R> {
    pub(super) fn new(native: TranscriptFormat, source: R, limits: Limits) -> io::Result<Self> {
        let mut lines = Lines::new(source, limits.line)?;
        let tree = match native {
            TranscriptFormat::ClaudeCode => Some(Tree::build(&mut lines, limits.records)?),
            TranscriptFormat::Codex => None,
        };
        lines.rewind()?;
        Ok(Self::of(native.adapters(), lines, tree))
    }

    /// Reads the lines of a program whose records are not linked.
    pub(super) fn unlinked(adapters: &'static [Adapter], source: R) -> io::Result<Self> {
        let lines = Lines::new(source, Limits::default().line)?;
        Ok(Self::of(adapters, lines, None))
    }

    fn of(adapters: &'static [Adapter], lines: Lines<R>, tree: Option<Tree>) -> Self {
        let (adapter, _) = choose_adapter(adapters, None);
        Self {
            adapters,
            lines,
            tree,
            adapter,
            facts: Facts::default(),
            records: 0,
            bytes: 0,
            ready: VecDeque::new(),
        }
    }

    /// Starts again at the beginning. The current branch is already known.
    pub(super) fn restart(&mut self) -> io::Result<()> {
        self.lines.rewind()?;
        (self.adapter, _) = choose_adapter(self.adapters, None);
        self.facts = Facts::default();
        (self.records, self.bytes) = (0, 0);
        self.ready.clear();
        Ok(())
    }

    /// What is known of the session so far.
    pub fn facts(&self) -> &Facts {
        &self.facts
    }

    /// The number of records read so far.
    pub fn records(&self) -> u64 {
        self.records
    }

    /// The number of bytes read so far.
    pub fn bytes(&self) -> u64 {
        self.bytes
    }

    /// How well the version reported so far is known.
    pub fn adapted(&self) -> VersionSupport {
        choose_adapter(self.adapters, self.facts.version.as_deref()).1
    }

    /// The line that replaces the missing parent of the record in `line`.
    pub(super) fn replacement_parent(&self, line: u64) -> Option<u64> {
        self.tree.as_ref()?.replacement_parent(line)
    }

    /// The latest timestamp that a result of a call in this line may have.
    pub(super) fn latest_result_time(&self, line: u64) -> Option<LatestResultTime> {
        match &self.tree {
            Some(tree) => tree.latest_result_time(line),
            None => Some(LatestResultTime::AsCalled),
        }
    }

    /// Reads the next line and queues its items.
    fn advance(&mut self) -> io::Result<Option<()>> {
        let Some(found) = self.lines.next()? else {
            return Ok(None);
        };
        self.bytes = found.at.offset + found.at.length + u64::from(found.ended);
        match self.lines.content(found) {
            Content::Blank => {}
            Content::Unreadable(reason) => self.unreadable(found.at, reason),
            Content::Record(object) => self.record(found, &object),
        }
        Ok(Some(()))
    }

    fn record(&mut self, found: Found, object: &Object) {
        self.records += 1;
        let at = found.at;
        let before = self.facts.version.clone();
        let branch = self.branch(at, object);
        let reading = (self.adapter.read)(object, &mut self.facts);
        if self.facts.version != before {
            (self.adapter, _) = choose_adapter(self.adapters, self.facts.version.as_deref());
        }
        let lost = self.replacement_parent(at.line).is_some();
        let reasons = [
            reading.shape.map(Reason::Shape),
            lost.then_some(Reason::LostParent),
            (!found.ended).then_some(Reason::NoNewline),
        ];
        for reason in reasons.into_iter().flatten() {
            self.ready.push_back(Item::Damage(Damage { at, reason }));
        }
        for mut entry in reading.entries {
            entry.branch = branch;
            self.ready.push_back(Item::Entry { entry, at });
        }
    }

    /// Only records with an id are linked; the others belong to the file as a whole.
    fn branch(&self, at: Span, object: &Object) -> Branch {
        match &self.tree {
            Some(tree) if text(object, "uuid").is_some() => tree.branch(at.line),
            _ => Branch::Current,
        }
    }

    fn unreadable(&mut self, at: Span, reason: Reason) {
        self.ready.push_back(Item::Damage(Damage { at, reason }));
        if reason.severity() == Severity::Opaque {
            let record = "unreadable".to_owned();
            let entry = ConversationItem::new(ItemContent::Raw { record });
            self.ready.push_back(Item::Entry { entry, at });
        }
    }
}

impl<R: Read + Seek> Iterator for Reader<R> {
    type Item = io::Result<Item>;

    fn next(&mut self) -> Option<Self::Item> {
        loop {
            if let Some(item) = self.ready.pop_front() {
                return Some(Ok(item));
            }
            match self.advance() {
                Ok(Some(())) => {}
                Ok(None) => return None,
                Err(error) => return Some(Err(error)),
            }
        }
    }
}
