//! Summarizes a stream of conversation items without holding it in memory (P10).

use std::collections::{BTreeMap, BTreeSet, HashSet, VecDeque};

use serde::Serialize;

use super::{
    AssistantPart, Branch, ConversationItem, ItemContent, Origin, Thread, Tokens, plain_text,
};
use crate::digest::Digest;
use crate::time::Timestamp;
use crate::tool::ToolCall;

/// How many unanswered calls are listed; further calls are only counted.
const LISTED_CALLS: usize = 1024;
/// The maximum length of a listed call's input, in bytes of JSON.
const LISTED_INPUT: usize = 64 << 10;
/// How many answered calls are remembered, at 32 bytes each.
const ANSWERED: usize = 1 << 16;
/// The maximum length of a listed call's id and name.
const LISTED_NAME: usize = 1024;
/// How many changed files are listed; further files are only counted.
const LISTED_FILES: usize = 4096;
/// How many recent messages are remembered to merge the items of one message.
const RECENT_MESSAGES: usize = 1024;
/// The maximum length of a title, in characters.
const TITLE: usize = 120;

/// The summary of a conversation.
#[derive(Debug, Clone, Default, PartialEq, Serialize)]
pub struct Summary {
    /// The number of items of every kind.
    pub entries: u64,
    /// The first line of the first user message, shortened.
    pub title: Option<String>,
    /// The earliest timestamp.
    pub first: Option<Timestamp>,
    /// The latest timestamp.
    pub last: Option<Timestamp>,
    /// The model of the last message in the main thread.
    pub model: Option<String>,
    /// The size of the context after the last response in the main thread.
    pub context: Option<u64>,
    /// All tokens, each message counted once; side branches and sub-agents included, since they were
    /// paid for.
    pub usage: Tokens,
    /// How many times the history was replaced by a summary.
    pub compactions: u64,
    /// Calls on the current branch with an unknown outcome.
    pub unanswered: Vec<Unanswered>,
    /// At least how many further unanswered calls there are.
    pub unanswered_unlisted: u64,
    /// The files that tool calls on the current branch wanted to change.
    pub files: BTreeSet<String>,
    /// The number of changes to further files that are not listed.
    pub files_unlisted: u64,
    /// The number of items on abandoned branches.
    pub side: u64,
}

/// A tool call without a result.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct Unanswered {
    /// The call's id.
    pub id: String,
    /// The tool's name.
    pub name: String,
    /// The call's input; `None` if it is too long to be listed.
    pub input: Option<serde_json::Value>,
    pub thread: Thread,
    /// The id of the transcript record that contains the call.
    pub record: Option<String>,
}

/// Summarizes items one by one.
#[derive(Debug, Default)]
pub struct Analysis {
    summary: Summary,
    open: BTreeMap<Digest, (u64, Unanswered)>,
    /// Answered calls: a record may occur twice in a file, and a result before its call.
    answered: HashSet<Digest>,
    /// The most recently counted messages, so that a repeated message replaces itself.
    counted: VecDeque<((Thread, String), Tokens)>,
    messages: Tokens,
    totals: BTreeMap<Thread, Tokens>,
}

impl Analysis {
    pub fn new() -> Self {
        Self::default()
    }

    /// Adds one item.
    pub fn add(&mut self, entry: &ConversationItem) {
        self.summary.entries += 1;
        self.time(entry.when);
        let current = entry.branch != Branch::Side;
        if !current {
            self.summary.side += 1;
        }
        let main = entry.thread == Thread::Main;
        match &entry.content {
            ItemContent::User { origin, parts } => {
                if current && main && *origin == Origin::User && self.summary.title.is_none() {
                    self.summary.title = title(&plain_text(parts));
                }
            }
            ItemContent::Assistant {
                message,
                model,
                parts,
                usage,
            } => {
                if current && main && usage.is_some() {
                    self.summary.model.clone_from(model);
                    self.summary.context = usage.map(Tokens::sum);
                }
                if let Some(usage) = usage {
                    self.count(&entry.thread, message.as_deref(), *usage);
                }
                for part in parts {
                    if let (AssistantPart::Call(call), true) = (part, current) {
                        self.call(entry, call);
                    }
                }
            }
            ItemContent::Result(answer) => {
                if current {
                    let call = Digest::of(answer.id.as_bytes());
                    self.open.remove(&call);
                    if self.answered.len() < ANSWERED {
                        self.answered.insert(call);
                    }
                }
            }
            ItemContent::Compaction { summary, after, .. } => {
                self.summary.compactions += u64::from(summary.is_some());
                if let (true, true, Some(after)) = (current, main, after) {
                    self.summary.context = Some(*after);
                }
            }
            ItemContent::Usage { last, total } => {
                if current && main {
                    self.summary.context = Some(last.sum());
                }
                match total {
                    Some(total) => {
                        self.totals.insert(entry.thread.clone(), *total);
                    }
                    None => self.messages += *last,
                }
            }
            ItemContent::Notice { .. } | ItemContent::Raw { .. } => {}
        }
    }

    /// All tokens so far, each message counted once.
    pub fn usage(&self) -> Tokens {
        let totals = self.totals.values();
        totals.fold(self.messages, |sum, total| sum + *total)
    }

    /// The size of the context after the newest response in the main thread.
    pub fn context(&self) -> Option<u64> {
        self.summary.context
    }

    /// Returns the summary.
    pub fn finish(mut self) -> Summary {
        self.summary.usage = self.usage();
        let mut open: Vec<_> = self.open.into_values().collect();
        open.sort_by_key(|(order, _)| *order);
        self.summary.unanswered = open.into_iter().map(|(_, call)| call).collect();
        self.summary
    }

    fn time(&mut self, when: Option<Timestamp>) {
        if let Some(when) = when {
            let first = self.summary.first.get_or_insert(when);
            *first = when.min(*first);
            let last = self.summary.last.get_or_insert(when);
            *last = when.max(*last);
        }
    }

    /// Counts a message once, however many items it is split into: the last one has the final usage.
    fn count(&mut self, thread: &Thread, message: Option<&str>, usage: Tokens) {
        let Some(message) = message else {
            self.messages += usage;
            return;
        };
        let known = self
            .counted
            .iter()
            .rposition(|((of, id), _)| of == thread && id == message);
        if let Some((_, before)) = known.and_then(|at| self.counted.remove(at)) {
            self.messages = Tokens {
                input: self.messages.input.saturating_sub(before.input),
                cache_read: self.messages.cache_read.saturating_sub(before.cache_read),
                cache_write: self.messages.cache_write.saturating_sub(before.cache_write),
                output: self.messages.output.saturating_sub(before.output),
            };
        }
        self.messages += usage;
        if self.counted.len() == RECENT_MESSAGES {
            self.counted.pop_front();
        }
        self.counted
            .push_back(((thread.clone(), message.to_owned()), usage));
    }

    fn call(&mut self, entry: &ConversationItem, call: &ToolCall) {
        for file in changed_files(call) {
            if self.summary.files.len() < LISTED_FILES {
                self.summary.files.insert(file.to_owned());
            } else if !self.summary.files.contains(file) {
                self.summary.files_unlisted += 1;
            }
        }
        let key = Digest::of(call.id.as_bytes());
        if self.answered.contains(&key) {
            return;
        }
        let long = call.id.len().max(call.name.len()) > LISTED_NAME;
        if long || self.open.len() == LISTED_CALLS {
            self.summary.unanswered_unlisted += 1;
            return;
        }
        let short = call.input.to_string().len() <= LISTED_INPUT;
        let unanswered = Unanswered {
            id: call.id.clone(),
            name: call.name.clone(),
            input: short.then(|| call.input.clone()),
            thread: entry.thread.clone(),
            record: entry.id.clone(),
        };
        self.open.insert(key, (self.summary.entries, unanswered));
    }
}

/// The first non-empty line, shortened.
fn title(text: &str) -> Option<String> {
    let line = text.lines().map(str::trim).find(|line| !line.is_empty())?;
    let mut title: String = line.chars().take(TITLE).collect();
    if title.len() < line.len() {
        title.push('…');
    }
    Some(title)
}

/// The files that a call wants to change, as far as its input names them.
fn changed_files(call: &ToolCall) -> Vec<&str> {
    let field = |name: &str| call.input.get(name).and_then(serde_json::Value::as_str);
    match call.name.as_str() {
        "Write" | "Edit" | "MultiEdit" => field("file_path").into_iter().collect(),
        "NotebookEdit" => field("notebook_path").into_iter().collect(),
        "apply_patch" => {
            let patch = call.input.as_str().or_else(|| field("input"));
            patch.map(patched_files).unwrap_or_default()
        }
        _ => Vec::new(),
    }
}

fn patched_files(patch: &str) -> Vec<&str> {
    const HEADS: [&str; 4] = [
        "*** Add File: ",
        "*** Update File: ",
        "*** Delete File: ",
        "*** Move to: ",
    ];
    let head = |line| HEADS.iter().find_map(|head| str::strip_prefix(line, head));
    patch.lines().filter_map(head).map(str::trim).collect()
}

#[cfg(test)]
mod tests {
    use super::super::{Answer, Outcome, Part};
    use super::*;
    use serde_json::json;

    fn assistant(message: &str, parts: Vec<AssistantPart>, output: u64) -> ConversationItem {
        ConversationItem::new(ItemContent::Assistant {
            message: Some(message.into()),
            model: Some("m".into()),
            parts,
            usage: Some(Tokens {
                input: 100,
                cache_read: 10,
                cache_write: 1,
                output,
            }),
        })
    }

    fn call(id: &str, name: &str, input: serde_json::Value) -> AssistantPart {
        AssistantPart::Call(ToolCall {
            id: id.into(),
            name: name.into(),
            input,
        })
    }

    fn summary(entries: &[ConversationItem]) -> Summary {
        let mut analysis = Analysis::new();
        entries.iter().for_each(|entry| analysis.add(entry));
        analysis.finish()
    }

    #[test]
    fn split_message_is_counted_once_with_final_usage() {
        let summary = summary(&[
            assistant("a", vec![], 1),
            assistant("b", vec![], 5),
            assistant("a", vec![], 50),
        ]);
        assert_eq!(summary.usage.output, 55);
        assert_eq!(summary.usage.input, 200);
        assert_eq!(summary.context, Some(161));
    }

    #[test]
    fn side_branch_calls_do_not_count_as_unanswered() {
        let write = json!({"file_path": "/a"});
        let mut side = assistant("x", vec![call("left", "Bash", json!({}))], 1);
        side.branch = Branch::Side;
        let summary = summary(&[
            assistant("a", vec![call("1", "Write", write.clone())], 1),
            assistant(
                "a",
                vec![call(
                    "2",
                    "apply_patch",
                    json!("*** Begin Patch\n*** Add File: b\n"),
                )],
                1,
            ),
            side,
            ConversationItem::new(ItemContent::Result(Answer {
                id: "2".into(),
                parts: vec![],
                outcome: Outcome::Unknown,
            })),
        ]);
        let open: Vec<_> = summary.unanswered.iter().map(|call| &*call.id).collect();
        assert_eq!(open, ["1"]);
        assert_eq!(summary.unanswered[0].input, Some(write));
        assert_eq!(summary.side, 1);
        let files: Vec<_> = summary.files.iter().collect();
        assert_eq!(files, ["/a", "b"]);
    }

    #[test]
    fn title_is_the_first_user_message() {
        let said = |origin, text: &str| {
            let parts = vec![Part::Text { text: text.into() }];
            ConversationItem::new(ItemContent::User { origin, parts })
        };
        let summary = summary(&[
            said(Origin::CliAgent, "environment"),
            said(Origin::User, "\n  fix the parser \nand more"),
            said(Origin::User, "later"),
        ]);
        assert_eq!(summary.title.as_deref(), Some("fix the parser"));
    }

    #[test]
    fn listed_calls_and_files_are_bounded() {
        let many: Vec<_> = (0..3000)
            .map(|n| {
                let input = json!({"file_path": format!("/{n}"), "content": "x".repeat(100_000)});
                assistant("a", vec![call(&n.to_string(), "Write", input)], 1)
            })
            .collect();
        let summary = summary(&many);
        assert_eq!(summary.unanswered.len(), LISTED_CALLS);
        assert_eq!(summary.unanswered_unlisted, 3000 - LISTED_CALLS as u64);
        assert_eq!(summary.unanswered[0].input, None);
    }
}
