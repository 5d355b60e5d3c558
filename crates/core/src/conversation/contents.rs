//! Finds the items that a transcript lacks by comparing what items contain, for agents that give the
//! same item one id in their stream and another one in their transcript.
//!
//! The comparison depends on the number of equal items, not on their order: parallel calls end in any
//! order, and a transcript may contain more than was reported. What is not certain counts as present:
//! an agent is not told that it lacks something that it has.

use std::collections::{HashMap, HashSet};

use super::Outcome;
use crate::digest::Digest;

/// How many of the newest contents of a transcript are compared.
pub const MAX_CONTENTS: usize = 1 << 16;

/// What an item contains, in a form that does not depend on where it was read.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Content {
    /// A text of the model.
    Text(Digest),
    /// A tool call.
    Call {
        /// Its id, which links it with its result and means nothing elsewhere.
        id: String,
        /// The tool and its arguments.
        call: Digest,
    },
    /// The result of a call.
    Result {
        /// The call's id.
        id: String,
        text: Digest,
        outcome: Outcome,
    },
}

/// The difference between what was reported and what a transcript contains.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Difference {
    /// Whether each reported item is missing in the transcript.
    pub missing: Vec<bool>,
    /// The transcript's ids of the calls that have no result there although one was reported.
    pub answered: HashSet<String>,
}

/// A call with its result.
struct CallPair {
    at: usize,
    result_at: Option<usize>,
    id: String,
    call: Digest,
    result: Option<(Digest, Outcome)>,
}

/// Compares the contents `known` of a transcript with those that were reported. `earlier` is what
/// precedes the reported items: the transcript may begin with it. If the transcript has contents, and
/// none of them was reported or is earlier, it says nothing about what is missing.
pub fn compare(
    known: &[Content],
    earlier: &[Option<Content>],
    reported: &[Option<Content>],
) -> Difference {
    let mut difference = Difference {
        missing: reported.iter().map(Option::is_some).collect(),
        answered: HashSet::new(),
    };
    let matched = match_texts(known, reported, &mut difference)
        | match_calls(known, reported, &mut difference);
    if !known.is_empty() && !matched && !occurs(known, earlier) {
        difference.missing.fill(false);
    }
    // The oldest contents of a very long transcript are not compared.
    if known.len() >= MAX_CONTENTS {
        let first = reported.iter().zip(&difference.missing);
        let first = first.take_while(|(content, missing)| content.is_none() || **missing);
        let count = first.count();
        difference.missing[..count].fill(false);
    }
    difference
}

/// Matches equal texts, oldest first. Returns whether any matched.
fn match_texts(
    known: &[Content],
    reported: &[Option<Content>],
    difference: &mut Difference,
) -> bool {
    let mut left: HashMap<Digest, usize> = HashMap::new();
    for content in known {
        if let Content::Text(text) = content {
            *left.entry(*text).or_default() += 1;
        }
    }
    let mut matched = false;
    for (content, missing) in reported.iter().zip(&mut difference.missing) {
        if let Some(Content::Text(text)) = content
            && let Some(count) = left.get_mut(text).filter(|count| **count > 0)
        {
            *count -= 1;
            (*missing, matched) = (false, true);
        }
    }
    matched
}

/// Matches calls with the same tool and arguments, those with the best evidence first. Returns whether
/// any matched.
fn match_calls(
    known: &[Content],
    reported: &[Option<Content>],
    difference: &mut Difference,
) -> bool {
    let known = pair(known.iter().map(Some));
    let mut left: HashMap<Digest, Vec<&CallPair>> = HashMap::new();
    for call in &known {
        left.entry(call.call).or_default().push(call);
    }
    let mut open = pair(reported.iter().map(Option::as_ref));
    let mut matched = false;
    let rules: [fn(&CallPair, &CallPair) -> bool; 5] = [
        has_same_result,
        has_like_result,
        |reported, known| reported.result.is_none() && known.result.is_none(),
        |reported, _| reported.result.is_none(),
        |_, known| known.result.is_none(),
    ];
    for matches in rules {
        open.retain(|call| {
            let candidates = left.get_mut(&call.call);
            let Some(candidates) = candidates else {
                return true;
            };
            let Some(found) = candidates.iter().position(|known| matches(call, known)) else {
                return true;
            };
            let found = candidates.remove(found);
            matched = true;
            difference.missing[call.at] = false;
            if found.result.is_none() && call.result.is_some() {
                difference.answered.insert(found.id.clone());
            } else if let Some(at) = call.result_at {
                difference.missing[at] = false;
            }
            false
        });
    }
    // A result without a call cannot be compared.
    let calls: HashSet<usize> = pair(reported.iter().map(Option::as_ref))
        .iter()
        .filter_map(|call| call.result_at)
        .collect();
    for (at, content) in reported.iter().enumerate() {
        if matches!(content, Some(Content::Result { .. })) && !calls.contains(&at) {
            difference.missing[at] = false;
        }
    }
    matched
}

fn has_same_result(reported: &CallPair, known: &CallPair) -> bool {
    match (reported.result, known.result) {
        (Some((text, _)), Some((other, _))) => text == other && has_like_result(reported, known),
        _ => false,
    }
}

/// Whether both have a result, which may be shortened in one of them, and the outcomes do not
/// contradict each other.
fn has_like_result(reported: &CallPair, known: &CallPair) -> bool {
    match (reported.result, known.result) {
        (Some((_, outcome)), Some((_, other))) => {
            outcome == other || [outcome, other].contains(&Outcome::Unknown)
        }
        _ => false,
    }
}

/// The calls, each with its result. Ids may repeat: a result belongs to the newest call.
fn pair<'a>(contents: impl Iterator<Item = Option<&'a Content>>) -> Vec<CallPair> {
    let mut calls: Vec<CallPair> = Vec::new();
    let mut newest: HashMap<&str, usize> = HashMap::new();
    for (at, content) in contents.enumerate() {
        match content {
            Some(Content::Call { id, call }) => {
                newest.insert(id, calls.len());
                calls.push(CallPair {
                    at,
                    result_at: None,
                    id: id.clone(),
                    call: *call,
                    result: None,
                });
            }
            Some(Content::Result { id, text, outcome }) => {
                if let Some(call) = newest.get(id.as_str()) {
                    let call = &mut calls[*call];
                    (call.result_at, call.result) = (Some(at), Some((*text, *outcome)));
                }
            }
            Some(Content::Text(_)) | None => {}
        }
    }
    calls
}

/// Whether any of these contents is known.
fn occurs(known: &[Content], contents: &[Option<Content>]) -> bool {
    let key = |content: &Content| match content {
        Content::Text(text) => Some(*text),
        Content::Call { call, .. } => Some(*call),
        Content::Result { .. } => None,
    };
    let known: HashSet<Digest> = known.iter().filter_map(key).collect();
    let mut keys = contents.iter().flatten().filter_map(key);
    keys.any(|key| known.contains(&key))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn digest(text: &str) -> Digest {
        Digest::of(text.as_bytes())
    }

    /// Contents from words: `hello` is a text, `1?ls` a call, `1=out` its result, `1!out` its failure.
    fn contents(words: &str) -> Vec<Content> {
        let content = |word: &str| {
            let split = |sign| {
                let (id, rest): (&str, &str) = word.split_once(sign)?;
                Some((id.to_owned(), digest(rest)))
            };
            if let Some((id, call)) = split('?') {
                return Content::Call { id, call };
            }
            for (sign, outcome) in [
                ('=', Outcome::Succeeded),
                ('!', Outcome::Failed),
                ('~', Outcome::Unknown),
            ] {
                if let Some((id, text)) = split(sign) {
                    return Content::Result { id, text, outcome };
                }
            }
            Content::Text(digest(word))
        };
        words.split_whitespace().map(content).collect()
    }

    /// The missing ones of the reported words.
    fn missing(known: &str, earlier: &str, reported: &str) -> String {
        let some = |words| contents(words).into_iter().map(Some).collect::<Vec<_>>();
        let difference = compare(&contents(known), &some(earlier), &some(reported));
        let words = reported.split_whitespace().zip(difference.missing);
        let missing = words.filter_map(|(word, missing)| missing.then_some(word));
        missing.collect::<Vec<_>>().join(" ")
    }

    #[test]
    fn items_are_found_by_content_under_other_ids() {
        let reported = "one 1?ls 1=a two 2?cat 2=b three";
        for (known, expected) in [
            ("one x?ls x=a two y?cat y=b three", ""),
            ("one x?ls x=a two y?cat", "2=b three"),
            ("one x?ls x=a two", "2?cat 2=b three"),
            ("one x?ls", "1=a two 2?cat 2=b three"),
            ("one", "1?ls 1=a two 2?cat 2=b three"),
            ("", reported),
            // The end of a result may be cut, and its outcome may be unknown.
            ("one x?ls x~cut two y?cat y=b three", ""),
            // Other contents than any that was reported say nothing.
            ("other x?other x=a", ""),
        ] {
            assert_eq!(missing(known, "", reported), expected, "{known}");
        }
    }

    #[test]
    fn equal_calls_are_counted() {
        let reported = "1?ls 1=a 2?ls 2=a 3?ls 3=b";
        for (known, expected) in [
            ("x?ls x=a y?ls y=a z?ls z=b", ""),
            // In any order.
            ("y?ls x?ls z?ls z=b y=a x=a", ""),
            ("x?ls x=a y?ls y=a", "3?ls 3=b"),
            ("x?ls x=a", "2?ls 2=a 3?ls 3=b"),
            ("z?ls z=b", "1?ls 1=a 2?ls 2=a"),
            ("x?ls x=a y?ls", "2=a 3?ls 3=b"),
        ] {
            assert_eq!(missing(known, "", reported), expected, "{known}");
        }
    }

    #[test]
    fn failed_attempt_does_not_hide_a_lost_success() {
        assert_eq!(missing("x?patch x!no", "", "1?patch 1=done"), "");
        let known = "text x?patch x!no";
        let reported = "text 1?patch 1=done";
        assert_eq!(missing(known, "", reported), "1?patch 1=done");
        assert_eq!(
            missing(&format!("{known} y?patch y=done"), "", reported),
            ""
        );
    }

    #[test]
    fn transcript_that_begins_with_earlier_items_lacks_all_others() {
        assert_eq!(missing("before", "before", "one 1?ls 1=a"), "one 1?ls 1=a");
    }

    #[test]
    fn reported_result_answers_an_open_call() {
        let some = |words| contents(words).into_iter().map(Some).collect::<Vec<_>>();
        let difference = compare(&contents("x?ls y?cat"), &[], &some("1?ls 1=a 2?cat"));
        assert_eq!(difference.answered, HashSet::from(["x".to_owned()]));
        assert_eq!(difference.missing, [false, true, false]);
    }
}
