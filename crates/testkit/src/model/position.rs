//! Determines which script a request belongs to, and at which turn. It depends on the request
//! alone, so that it does not matter how many processes, machines, vendors or servers the
//! conversation went through.
//!
//! Every answer ends with a tag, `[name:3]`, which survives where ids do not: in summaries, in
//! other vendors' transcripts, in quoted text. The last tag after the last marker is the last
//! answered turn.

use super::history::{Outcome, Part, Role, conversation};
use super::http::ModelRequest;
use super::script::Script;

/// How often the same turn is repaired before the script continues.
const MAX_REPAIRS: usize = 3;

/// What a request is for.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Purpose {
    /// The next answer of a script.
    Turn {
        script: String,
        /// Counted from 0.
        turn: usize,
        manner: Manner,
    },
    /// A summary of the conversation, so that it fits again.
    Summary {
        /// `None` if the conversation names no script.
        script: Option<String>,
    },
    /// A request on the agent's own behalf, such as for a title.
    Side,
    /// Not a request to a model: an availability check, or a token count.
    Probe,
    /// A conversation that names no script of this server.
    Unscripted,
}

/// How a turn is answered.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Manner {
    /// As the script says.
    Plain,
    /// As the script says, by a model that was interrupted and checks before it acts.
    Careful,
    /// Not the next turn: the calls of this one failed or have no known outcome, and the model
    /// produces their intended result.
    Repairing,
}

/// Texts by which both vendors' requests for summaries are recognized.
const SUMMARIES: [&str; 3] = [
    "create a detailed summary",
    "CONTEXT CHECKPOINT COMPACTION",
    "handoff summary",
];

/// A part of the system prompt of an agent that extracts notes.
const READER: &str = "extract what the next agent must know";

/// Determines what a request is for.
pub(super) fn purpose(request: &ModelRequest, scripts: &[Script]) -> Purpose {
    let path = request.path.split('?').next().unwrap_or_default();
    let models = ["/messages", "/responses", "/chat/completions"];
    if request.method != "POST" || !models.iter().any(|model| path.ends_with(model)) {
        return Purpose::Probe;
    }
    let parts = conversation(request);
    let found = last_marker(&parts, scripts);
    if asks_for_summary(&parts) {
        let script = found.map(|(script, ..)| script.name.clone());
        return Purpose::Summary { script };
    }
    if asks_aside(&parts) {
        return Purpose::Side;
    }
    // Requests for titles and the like have no tools; segno's own requests do not have this user
    // agent, or are those of a reader, which gets no tools.
    let agent = request.header("user-agent").unwrap_or_default();
    let tools = request.body["tools"]
        .as_array()
        .is_some_and(|all| !all.is_empty());
    let reads = request.body["system"].to_string().contains(READER);
    if agent.starts_with("claude-cli") && !tools && !reads {
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

/// How requests on the agent's own behalf begin that have all its tools: Claude Code asks what its
/// user might say next; the adapter of Codex asks for a title, in a thread that quotes the prompt.
const ASIDES: [&str; 2] = [
    "[SUGGESTION MODE",
    "Your task is to generate a very short title",
];

fn asks_aside(parts: &[Part]) -> bool {
    last_words(parts).is_some_and(|text| ASIDES.iter().any(|begin| text.starts_with(begin)))
}

fn last_words(parts: &[Part]) -> Option<&str> {
    parts.iter().rev().find_map(|part| match part {
        Part::Text(Role::User, text) => Some(text.as_str()),
        _ => None,
    })
}

/// The last marker of a script: the script, the part that contains it, and its end there.
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

/// What a tag says about its turn.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Mark {
    /// It was answered.
    Said,
    /// It was repaired.
    Again,
    /// It was answered, and all its calls were done. Only summaries contain this.
    Done,
}

/// A tag, as it appears at the end of every answer.
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

/// The last turn that was answered after the marker, its mark, and the part that has its tag. A
/// message of the user that quotes an earlier turn than the newest one, because the transcript had
/// lost it, does not lead back to that turn.
fn last_answered(
    script: &Script,
    parts: &[Part],
    index: usize,
    offset: usize,
) -> Option<(usize, Mark, usize)> {
    let texts = parts.iter().enumerate().skip(index);
    let tagged = texts.filter_map(|(at, part)| {
        let Part::Text(role, text) = part else {
            return None;
        };
        let text = if at == index { &text[offset..] } else { text };
        let (turn, mark) = last_tag(text, script)?;
        Some((*role, (turn, mark, at)))
    });
    let mut last: Option<(usize, Mark, usize)> = None;
    for (role, found) in tagged {
        let leads_back = role == Role::User && last.is_some_and(|(turn, ..)| found.0 < turn);
        if !leads_back {
            last = Some(found);
        }
    }
    last
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
    if script.repairs_calls && doubtful && said.sum::<usize>() < MAX_REPAIRS {
        return (turn, Manner::Repairing);
    }
    let interrupted = quoted || user_texts(at) > 0;
    let manner = if interrupted {
        Manner::Careful
    } else {
        Manner::Plain
    };
    ((turn + 1).min(last), manner)
}

/// Whether there are as many calls as there should be, each with a good result. The transcript of
/// an agent that was killed may have the text of an answer without its calls.
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

/// The position of a script in a conversation that is summarized, as a tag.
pub(super) fn position_tag(request: &ModelRequest, script: &Script) -> Option<String> {
    let parts = conversation(request);
    let (_, index, offset) = last_marker(&parts, std::slice::from_ref(script))?;
    let (turn, mark, at) = last_answered(script, &parts, index, offset)?;
    let calls = script.turns[turn].calls.len();
    let done = mark == Mark::Done || all_fine(&parts[at..], calls);
    let mark = if done { Mark::Done } else { Mark::Said };
    Some(tag(&script.name, turn, mark))
}
