//! Finds what an agent's transcript lacks of what the journal has: programs report what they do before
//! they write it, a transcript may be cut, and a stored copy may be older than the journal.

use std::collections::{HashMap, HashSet};

use segno_core::cli_agent::{KnownItems, TranscriptFiles, TranscriptState};
use segno_core::conversation::analysis::Unanswered;
use segno_core::conversation::contents::compare;
use segno_core::conversation::{AssistantPart, ConversationItem, ItemContent};

use super::context::lines;

/// How many of the newest entries are compared with a transcript that is short.
const MIN_COMPARED: usize = 64;

/// What the journal has of a conversation.
#[derive(Clone, Copy)]
pub(crate) struct Reported<'a> {
    /// All entries, oldest first.
    pub(crate) entries: &'a [ConversationItem],
    /// The index from which on entries belong to the program's conversation, or follow it.
    pub(crate) own: usize,
    /// The index from which on entries belong to other conversations.
    pub(crate) left: Option<usize>,
    /// Tool calls without a result.
    pub(crate) unanswered: &'a [Unanswered],
}

/// What an agent that resumes its own conversation must be told of it.
#[derive(Debug, Default, PartialEq)]
pub(crate) struct Missing {
    /// The entries that are not in the transcript.
    pub(crate) entries: Vec<ConversationItem>,
    /// The calls whose outcome neither the transcript nor the journal has.
    pub(crate) unanswered: Vec<Unanswered>,
}

/// Compares the journal with the transcript to resume from. `files` has the contents of reported items,
/// if the transcript's items are recognized by them.
pub(crate) fn find_missing(
    reported: Reported<'_>,
    record: Option<&TranscriptState>,
    files: Option<&dyn TranscriptFiles>,
) -> Missing {
    let Reported { entries, own, .. } = reported;
    let (said, others) = entries.split_at(reported.left.unwrap_or(entries.len()));
    let (before, own) = said.split_at(own.min(said.len()));
    let difference = match record.and_then(|record| record.known.as_ref()) {
        Some(KnownItems::Ids(ids)) => compare_ids(ids, own),
        Some(KnownItems::Contents(known)) => files.map(|files| {
            let entries = own;
            let (before, own) = (files.contents(before), files.contents(own));
            let compared = compare(known, &before, &own);
            let is_compared = own.iter().map(Option::is_some).collect();
            Difference {
                is_missing: complete(compared.missing, is_compared, entries),
                answered: compared.answered,
            }
        }),
        None => None,
    };
    let unanswered = unanswered(reported.unanswered, record, own, difference.as_ref());
    let flags = difference.map(|difference| difference.is_missing);
    let mut flags = flags.unwrap_or_else(|| vec![false; own.len()]);
    if let Some(record) = record {
        drop_announced(&record.announced, own, &mut flags);
    }
    let own = own.iter().zip(flags);
    let missing = own.filter_map(|(entry, missing)| missing.then_some(entry));
    Missing {
        entries: missing.chain(others).cloned().collect(),
        unanswered,
    }
}

/// The difference between a transcript and the entries of its conversation.
struct Difference {
    /// Whether each entry is missing in the transcript.
    is_missing: Vec<bool>,
    /// The transcript's ids of calls that have a result in the journal only.
    answered: HashSet<String>,
}

/// Compares ids. `None` if the transcript has other ids: then it says nothing about what is missing.
fn compare_ids(ids: &[String], own: &[ConversationItem]) -> Option<Difference> {
    // A result has the id of its call, so the number of occurrences counts.
    let count = |id: &str| ids.iter().filter(|known| *known == id).count();
    let mut reported = own.iter().flat_map(|entry| entry.content.ids());
    if !ids.is_empty() && !reported.any(|id| count(&id) > 0) {
        return None;
    }
    let compared = own.len().min(ids.len().max(MIN_COMPARED));
    let compared = own.len() - compared..own.len();
    let mut is_missing = vec![false; own.len()];
    let mut is_compared = vec![false; own.len()];
    for index in compared {
        let content = &own[index].content;
        let least = match content {
            ItemContent::Result(_) => 2,
            _ => 1,
        };
        is_compared[index] = content.ids().next().is_some();
        is_missing[index] = content.ids().any(|id| count(&id) < least);
    }
    let answers = own.iter().filter_map(|entry| match &entry.content {
        ItemContent::Result(answer) => Some(answer.id.clone()),
        _ => None,
    });
    Some(Difference {
        is_missing: complete(is_missing, is_compared, own),
        answered: answers.collect(),
    })
}

/// Adds what belongs to missing entries. What cannot be compared is as lost as what follows it, and a
/// result says nothing without its call.
fn complete(
    mut is_missing: Vec<bool>,
    is_compared: Vec<bool>,
    own: &[ConversationItem],
) -> Vec<bool> {
    let mut followed = false;
    let entries = is_missing.iter_mut().zip(is_compared).rev();
    for (missing, compared) in entries {
        if compared {
            followed = *missing;
        } else {
            *missing = followed;
        }
    }
    let mut lost: HashSet<&str> = HashSet::new();
    for (entry, missing) in own.iter().zip(&mut is_missing).rev() {
        match &entry.content {
            ItemContent::Result(answer) if *missing => {
                lost.insert(&answer.id);
            }
            _ => *missing |= calls(entry).any(|call| lost.remove(call)),
        }
    }
    is_missing
}

/// Drops what an earlier message in the transcript has announced as missing.
fn drop_announced(announced: &[String], own: &[ConversationItem], is_missing: &mut [bool]) {
    if announced.is_empty() {
        return;
    }
    let mut used: HashMap<String, usize> = HashMap::new();
    let mut is_announced = |line: String| {
        let times = announced.iter().map(|text| text.matches(&line).count());
        let times: usize = times.sum();
        let used = used.entry(line).or_default();
        *used += 1;
        *used <= times
    };
    let mut known: HashSet<&str> = HashSet::new();
    for (entry, missing) in own.iter().zip(is_missing).filter(|(_, missing)| **missing) {
        if let ItemContent::Result(answer) = &entry.content {
            *missing = !known.remove(answer.id.as_str());
            continue;
        }
        let lines = lines(entry);
        if !lines.is_empty() && lines.into_iter().all(&mut is_announced) {
            known.extend(calls(entry));
            *missing = false;
        }
    }
}

/// The calls with unknown outcome, from the program's transcript and from the events it reported: each
/// may have what the other lacks.
fn unanswered(
    reported: &[Unanswered],
    record: Option<&TranscriptState>,
    own: &[ConversationItem],
    difference: Option<&Difference>,
) -> Vec<Unanswered> {
    let Some(recorded) = record.and_then(|record| record.unanswered.as_ref()) else {
        return reported.to_vec();
    };
    // The same call may have another id in the transcript.
    let Some(difference) = difference else {
        return recorded.clone();
    };
    let is_open = |call: &&Unanswered| !difference.answered.contains(&call.id);
    let mut all: Vec<Unanswered> = recorded.iter().filter(is_open).cloned().collect();
    let entries = own.iter().zip(&difference.is_missing);
    let present = entries.filter(|(_, missing)| !**missing);
    let present: HashSet<&str> = present.flat_map(|(entry, _)| calls(entry)).collect();
    let is_missing = |call: &&Unanswered| !present.contains(call.id.as_str());
    all.extend(reported.iter().filter(is_missing).cloned());
    all
}

/// The ids of an entry's calls.
fn calls(entry: &ConversationItem) -> impl Iterator<Item = &str> {
    let parts = match &entry.content {
        ItemContent::Assistant { parts, .. } => parts.as_slice(),
        _ => &[],
    };
    parts.iter().filter_map(|part| match part {
        AssistantPart::Call(call) => Some(call.id.as_str()),
        _ => None,
    })
}

#[cfg(test)]
mod tests {
    use segno_core::cli_agent::Health;
    use segno_core::conversation::Thread;
    use serde_json::Value;

    use super::*;
    use crate::resume::context::history;
    use crate::resume::conversation::tests::{call, result, text};

    fn record(ids: Option<&[&str]>, unanswered: &[&str]) -> TranscriptState {
        let ids = ids.map(|ids| ids.iter().map(ToString::to_string).collect());
        TranscriptState {
            bytes: 0,
            health: Health::Intact,
            unanswered: Some(unanswered.iter().map(|id| open(id)).collect()),
            known: ids.map(KnownItems::Ids),
            announced: Vec::new(),
            message_usage: Vec::new(),
            total_usage: None,
        }
    }

    fn open(id: &str) -> Unanswered {
        Unanswered {
            id: id.into(),
            name: "Bash".into(),
            input: Some(Value::Null),
            thread: Thread::Main,
            record: None,
        }
    }

    fn reported(entries: &[ConversationItem], left: Option<usize>) -> Reported<'_> {
        Reported {
            entries,
            own: 0,
            left,
            unanswered: &[],
        }
    }

    #[test]
    fn missing_entries_include_text_before_lost_calls() {
        let said = [
            text("one"),
            call("a"),
            result("a"),
            text("two"),
            call("b"),
            result("b"),
            text("three"),
        ];
        for (ids, from) in [
            (Some(&["a", "a", "b", "b"][..]), said.len()..said.len()),
            (Some(&["a", "a"]), 3..6),
            (Some(&[]), 0..6),
            // Foreign ids, and no ids.
            (Some(&["x", "y"]), 0..0),
            (None, 0..0),
        ] {
            let record = record(ids, &[]);
            let missing = find_missing(reported(&said, None), Some(&record), None);
            assert_eq!(missing.entries, said[from.clone()], "{ids:?}");
            // What another conversation added is missing, too.
            let both = [&said[..], &[text("four")]].concat();
            let missing = find_missing(reported(&both, Some(said.len())), Some(&record), None);
            let expected = [&said[from], &[text("four")]].concat();
            assert_eq!(missing.entries, expected, "{ids:?}");
        }
    }

    #[test]
    fn text_is_missing_if_only_its_thinking_was_written() {
        let part = |part| {
            ConversationItem::new(ItemContent::Assistant {
                message: Some("m".into()),
                model: None,
                parts: vec![part],
                usage: None,
            })
        };
        let thinking = part(AssistantPart::Thinking {
            text: "hm".into(),
            seal: None,
        });
        let text = part(AssistantPart::Text { text: "one".into() });
        let said = [thinking, text];
        for (ids, from) in [(&["m"][..], 1), (&["m", "m", "m/text"], 2)] {
            let record = record(Some(ids), &[]);
            let missing = find_missing(reported(&said, None), Some(&record), None);
            assert_eq!(missing.entries, said[from..], "{ids:?}");
        }
    }

    #[test]
    fn lost_result_is_told_with_its_call() {
        let said = [text("one"), call("a"), result("a"), text("two"), call("b")];
        let record = record(Some(&["a", "b"]), &["a", "b"]);
        let open_calls = [open("b"), open("c")];
        let reported = Reported {
            unanswered: &open_calls,
            ..reported(&said, None)
        };
        let missing = find_missing(reported, Some(&record), None);
        assert_eq!(missing.entries, said[1..3]);
        // The journal has the result of `a`, and the transcript lacks `c`.
        assert_eq!(missing.unanswered, open_calls);
    }

    #[test]
    fn what_was_announced_before_is_not_missing() {
        let said = [text("one"), call("a"), result("a"), call("a"), result("a")];
        let all = find_missing(reported(&said, None), Some(&record(Some(&[]), &[])), None);
        assert_eq!(all.entries, said);
        let mut record = record(Some(&[]), &[]);
        record.announced = vec![history(&said[..3])];
        let missing = find_missing(reported(&said, None), Some(&record), None);
        assert_eq!(missing.entries, said[3..]);
        record.announced.push(history(&said[3..]));
        let missing = find_missing(reported(&said, None), Some(&record), None);
        assert_eq!(missing.entries, []);
    }
}
