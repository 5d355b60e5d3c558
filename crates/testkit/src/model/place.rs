//! Where in which script a request stands. Decided from the request alone, so that it does not
//! matter how many processes, machines, vendors or servers the conversation went through.
//!
//! Every answer ends with a tag, `[name:3]`, which survives where ids do not: in summaries, in
//! other vendors' transcripts, in quoted text. The last tag after the last marker says what was
//! answered last.

use super::history::{Outcome, Part, Role, conversation};
use super::http::Asked;
use super::script::Script;

/// How often the same turn is mended before the script goes on.
const MENDS: usize = 3;

/// What a request is for.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Purpose {
    /// The next answer of a script.
    Turn {
        /// The script.
        script: String,
        /// Which of its turns, from 0.
        turn: usize,
        /// How it is answered.
        manner: Manner,
    },
    /// A summary of the conversation, so that it fits again.
    Summary {
        /// The script, if one was named.
        script: Option<String>,
    },
    /// Something that the agent asks for itself, such as a title.
    Side,
    /// No request to a model: a look whether the server is there, a count of tokens.
    Probe,
    /// A conversation that names no script of this server.
    Unscripted,
}

/// How a turn is answered.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Manner {
    /// As the script says.
    Plain,
    /// As the script says, by a model that was interrupted and looks before it acts.
    Careful,
    /// Not the next turn: the calls of this one failed or have no known outcome, and the model
    /// brings about what they should have.
    Mending,
}

/// How the requests for summaries of both vendors are known.
const SUMMARIES: [&str; 3] = [
    "create a detailed summary",
    "CONTEXT CHECKPOINT COMPACTION",
    "handoff summary",
];

/// What a request is for.
pub(super) fn purpose(asked: &Asked, scripts: &[Script]) -> Purpose {
    let path = asked.path.split('?').next().unwrap_or_default();
    let models = ["/messages", "/responses", "/chat/completions"];
    if asked.method != "POST" || !models.iter().any(|model| path.ends_with(model)) {
        return Purpose::Probe;
    }
    let parts = conversation(asked);
    let found = last_marker(&parts, scripts);
    if asks_for_summary(&parts) {
        let script = found.map(|(script, ..)| script.name.clone());
        return Purpose::Summary { script };
    }
    if asks_aside(&parts) {
        return Purpose::Side;
    }
    // Titles and the like come without tools; models of our own come without this name.
    let agent = asked.header("user-agent").unwrap_or_default();
    let tools = asked.body["tools"]
        .as_array()
        .is_some_and(|all| !all.is_empty());
    if agent.starts_with("claude-cli") && !tools {
        return Purpose::Side;
    }
    let Some((script, index, offset)) = found else {
        return Purpose::Unscripted;
    };
    let (turn, manner) = next(script, &parts, index, offset);
    Purpose::Turn {
        script: script.name.clone(),
        turn,
        manner,
    }
}

fn asks_for_summary(parts: &[Part]) -> bool {
    last_words(parts).is_some_and(|text| SUMMARIES.iter().any(|words| text.contains(words)))
}

/// Whether the agent asks what its person might say next, which it does with all its tools.
fn asks_aside(parts: &[Part]) -> bool {
    last_words(parts).is_some_and(|text| text.starts_with("[SUGGESTION MODE"))
}

fn last_words(parts: &[Part]) -> Option<&str> {
    parts.iter().rev().find_map(|part| match part {
        Part::Text(Role::User, text) => Some(text.as_str()),
        _ => None,
    })
}

/// The last marker of a script: the script, which part it is in, and where it ends there.
fn last_marker<'a>(parts: &[Part], scripts: &'a [Script]) -> Option<(&'a Script, usize, usize)> {
    let mut found = None;
    for (index, part) in parts.iter().enumerate() {
        let Part::Text(Role::User, text) = part else {
            continue;
        };
        let marked = scripts.iter().filter_map(|script| {
            let marker = script.marker();
            Some((script, text.rfind(&marker)? + marker.len()))
        });
        if let Some((script, end)) = marked.max_by_key(|(_, end)| *end) {
            found = Some((script, index, end));
        }
    }
    found
}

/// What a tag says of its turn.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Mark {
    /// It was answered.
    Said,
    /// It was mended.
    Again,
    /// It was answered, and all its calls were done. Only summaries say so.
    Done,
}

/// A tag, as it stands at the end of every answer.
pub(super) fn tag(script: &str, turn: usize, mark: Mark) -> String {
    match mark {
        Mark::Said => format!("[{script}:{turn}]"),
        Mark::Again => format!("[{script}:{turn} again]"),
        Mark::Done => format!("[{script}:{turn} done]"),
    }
}

/// The last tag in a text.
fn last_tag(text: &str, script: &Script) -> Option<(usize, Mark)> {
    let begin = format!("[{}:", script.name);
    let mut tags = text.rmatch_indices(&begin);
    tags.find_map(|(at, _)| {
        let inside = text[at + begin.len()..].split_once(']')?.0;
        let (turn, mark) = match inside.split_once(' ') {
            None => (inside, Mark::Said),
            Some((turn, "again")) => (turn, Mark::Again),
            Some((turn, "done")) => (turn, Mark::Done),
            Some(_) => return None,
        };
        let turn = turn.parse().ok()?;
        (turn < script.turns()).then_some((turn, mark))
    })
}

/// The last turn that was answered after the marker, its mark, and the part that has its tag.
fn last_answered(
    script: &Script,
    parts: &[Part],
    index: usize,
    offset: usize,
) -> Option<(usize, Mark, usize)> {
    let mut texts = parts.iter().enumerate().skip(index).rev();
    texts.find_map(|(at, part)| {
        let Part::Text(_, text) = part else {
            return None;
        };
        let text = if at == index { &text[offset..] } else { text };
        let (turn, mark) = last_tag(text, script)?;
        Some((turn, mark, at))
    })
}

fn next(script: &Script, parts: &[Part], index: usize, offset: usize) -> (usize, Manner) {
    let user_texts = |after: usize| {
        let after = parts.iter().skip(after + 1);
        after
            .filter(|part| matches!(part, Part::Text(Role::User, _)))
            .count()
    };
    let last = script.turns() - 1;
    let Some((turn, mark, at)) = last_answered(script, parts, index, offset) else {
        let manner = if user_texts(index) > 0 {
            Manner::Careful
        } else {
            Manner::Plain
        };
        return (0, manner);
    };
    let quoted = matches!(&parts[at], Part::Text(Role::User, _));
    let again = tag(&script.name, turn, Mark::Again);
    let said = parts.iter().skip(index).map(|part| match part {
        Part::Text(_, text) => text.matches(&again).count(),
        _ => 0,
    });
    let calls = script.turns[turn].calls.len();
    let unsure = quoted && mark != Mark::Done || !quoted && !all_fine(&parts[at..], calls);
    let doubtful = calls > 0 && unsure;
    if script.heeds && doubtful && said.sum::<usize>() < MENDS {
        return (turn, Manner::Mending);
    }
    let interrupted = quoted || user_texts(at) > 0;
    let manner = if interrupted {
        Manner::Careful
    } else {
        Manner::Plain
    };
    ((turn + 1).min(last), manner)
}

/// Whether there are as many calls as there should be, and a good result of each. An agent that
/// was killed may have kept the words of an answer and lost its calls.
fn all_fine(parts: &[Part], expected: usize) -> bool {
    let fine = |call: &&str| {
        let result = |part: &Part| matches!(part, Part::Result(id, Outcome::Fine, _) if id == call);
        parts.iter().any(result)
    };
    let calls = parts.iter().filter_map(|part| match part {
        Part::Call(id, ..) => Some(id.as_str()),
        _ => None,
    });
    let calls: Vec<&str> = calls.collect();
    calls.len() >= expected && calls.iter().all(fine)
}

/// Where a script stands in a conversation that is summed up, as a tag.
pub(super) fn standing(asked: &Asked, script: &Script) -> Option<String> {
    let parts = conversation(asked);
    let (_, index, offset) = last_marker(&parts, std::slice::from_ref(script))?;
    let (turn, mark, at) = last_answered(script, &parts, index, offset)?;
    let calls = script.turns[turn].calls.len();
    let done = mark == Mark::Done || all_fine(&parts[at..], calls);
    let mark = if done { Mark::Done } else { Mark::Said };
    Some(tag(&script.name, turn, mark))
}
