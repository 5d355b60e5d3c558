//! The brief, from what is known.

use std::fmt::Write;

use segno_core::journal::Seq;
use segno_core::memo::{
    Decision, Feedback, Handoff, Item, Kept, Progress, Shelf, Source, Tests, Todo, Trouble,
};
use segno_core::snapshot::Sight;
use segno_core::usage::Usage;

use super::words::line;
use super::{BYTES_PER_TOKEN, Brief, Fragment, Origin, Section};
use crate::reconcile;

/// How many characters of an issue are told.
const ISSUE: usize = 500;
/// How many characters of one text are told.
const TEXT: usize = 400;
/// How many decisions are told.
const DECISIONS: usize = 5;
/// How many errors are told that nobody has to do anything about.
const RESOLVED: usize = 3;
/// How many comments of one reviewer are told.
const COMMENTS: usize = 3;
/// How many files are named.
const FILES: usize = 30;

/// What gets room first.
const FIRST: &[Section] = &[
    Section::Session,
    Section::Next,
    Section::Issue,
    Section::Plan,
    Section::Errors,
    Section::Tests,
    Section::Decisions,
    Section::Feedback,
    Section::Pending,
    Section::Git,
    Section::Todos,
    Section::More,
    Section::Done,
    Section::Files,
];

/// What a brief is made of.
#[derive(Debug, Clone)]
pub struct Known<'a> {
    /// What people call the session.
    pub name: &'a str,
    /// How often it was begun, this time included if it is being run.
    pub runs: u64,
    /// What it is all about, in a person's words.
    pub issue: Option<&'a str>,
    /// What it consists of, in order, as far as that is known: of what is done, the newest.
    pub tasks: &'a [Task],
    /// How many parts are done.
    pub done: u64,
    /// What memos add up to.
    pub handoff: &'a Handoff,
    /// How the workspace looks to git; absent if nobody looked.
    pub sight: Option<&'a Sight>,
    /// Why the run before ended.
    pub ended: Option<&'a str>,
    /// What was used so far.
    pub usage: Usage,
}

/// A part of the work.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Task {
    /// Its name.
    pub id: String,
    /// What it is about, if it says so.
    pub title: Option<String>,
    /// How it stands.
    pub standing: Standing,
}

/// How a part of the work stands.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Standing {
    /// Done.
    Done,
    /// Begun, and not done.
    Begun,
    /// It failed.
    Failed,
    /// Not begun.
    Pending,
}

/// Compiles a brief of at most so many tokens.
pub fn compile(known: &Known<'_>, tokens: usize) -> Brief {
    let fragments = [
        Some(session(known)),
        issue(known),
        Some(plan(known)),
        Some(done(known)),
        Some(pending(known)),
        Some(decisions(known.handoff)),
        Some(errors(known.handoff)),
        known.sight.map(git),
        tests(known.handoff),
        feedback(known.handoff),
        todos(known.handoff),
        files(known.handoff),
        Some(next(known)),
        Some(more(known)),
    ];
    bounded(fragments.into_iter().flatten().collect(), tokens)
}

/// What people noted after an entry of the journal, a line for each.
pub(crate) fn noted_after(handoff: &Handoff, seq: Seq) -> Vec<String> {
    fn new<T>(shelf: &Shelf<T>, seq: Seq) -> impl Iterator<Item = &Kept<T>> {
        let noted = move |kept: &&Kept<T>| kept.source == Source::Person && kept.seq > seq;
        shelf.standing().filter(noted)
    }
    let mut lines = Vec::new();
    lines.extend(new(&handoff.decisions, seq).map(decision));
    lines.extend(new(&handoff.errors, seq).map(error));
    lines.extend(new(&handoff.feedback, seq).flat_map(review));
    lines.extend(new(&handoff.todos, seq).map(|kept| todo(&name(kept), &kept.memo)));
    lines
}

fn fragment(section: Section, origin: Origin, lines: Vec<String>) -> Fragment {
    Fragment {
        section,
        origin,
        lines,
        left_out: 0,
    }
}

/// Cuts what does not fit, the least important first.
fn bounded(mut fragments: Vec<Fragment>, tokens: usize) -> Brief {
    let mut room = tokens * BYTES_PER_TOKEN;
    for section in FIRST {
        for fragment in &mut fragments {
            if fragment.section == *section {
                room -= fit(fragment, room);
            }
        }
    }
    fragments.retain(|fragment| !fragment.lines.is_empty());
    Brief { fragments }
}

/// Cuts a fragment to what fits, and returns how much room it takes.
fn fit(fragment: &mut Fragment, room: usize) -> usize {
    // The title, the line between two fragments, and the word that something is left out.
    let around = fragment.section.title().len()
        + "## \n\n(18446744073709551615 more, left out here)\n".len();
    let (mut used, mut kept) = (around, 0);
    for line in &fragment.lines {
        if used + line.len() + 1 > room {
            break;
        }
        used += line.len() + 1;
        kept += 1;
    }
    fragment.left_out = fragment.lines.len() - kept;
    fragment.lines.truncate(kept);
    if kept == 0 { 0 } else { used }
}

fn session(known: &Known<'_>) -> Fragment {
    let Usage {
        input_tokens,
        output_tokens,
        cost,
    } = known.usage;
    let lines = vec![
        format!("{}, run {}", line(known.name, TEXT), known.runs),
        format!("used so far: {input_tokens} tokens read, {output_tokens} written, {cost}"),
    ];
    fragment(Section::Session, Origin::Journal, lines)
}

fn issue(known: &Known<'_>) -> Option<Fragment> {
    let issue = line(known.issue?, ISSUE);
    // No line begins with the words of others: they could look like a title.
    let told = vec![format!("> {issue}")];
    (!issue.is_empty()).then(|| fragment(Section::Issue, Origin::Journal, told))
}

fn in_order<'a>(
    known: &'a Known<'_>,
    wanted: fn(Standing) -> bool,
) -> impl Iterator<Item = &'a Task> {
    known.tasks.iter().filter(move |task| wanted(task.standing))
}

fn next_task<'a>(known: &'a Known<'_>) -> Option<&'a Task> {
    in_order(known, |standing| {
        matches!(standing, Standing::Begun | Standing::Failed)
    })
    .next()
    .or_else(|| in_order(known, |standing| standing == Standing::Pending).next())
}

fn plan(known: &Known<'_>) -> Fragment {
    let left = in_order(known, |standing| standing != Standing::Done).count() as u64;
    let mut lines = vec![format!("{} of {} done", known.done, known.done + left)];
    let begun = in_order(known, |standing| {
        matches!(standing, Standing::Begun | Standing::Failed)
    });
    lines.extend(begun.map(|task| format!("under way: {}", named(task))));
    fragment(Section::Plan, Origin::Journal, lines)
}

fn named(task: &Task) -> String {
    let id = line(&task.id, TEXT);
    match &task.title {
        Some(title) => format!("**{id}** {}", line(title, TEXT)),
        None => format!("**{id}**"),
    }
}

fn done(known: &Known<'_>) -> Fragment {
    // The newest tell most about what is there.
    let done: Vec<&Task> = in_order(known, |standing| standing == Standing::Done).collect();
    let lines = done
        .iter()
        .rev()
        .map(|task| format!("- [x] {}", named(task)));
    let mut lines = or_none(lines.collect(), "nothing yet");
    pointer(&mut lines, known.done.saturating_sub(done.len() as u64));
    fragment(Section::Done, Origin::Journal, lines)
}

fn pending(known: &Known<'_>) -> Fragment {
    let pending = in_order(known, |standing| standing != Standing::Done);
    let lines = pending.map(|task| match task.standing {
        Standing::Failed => format!("- [ ] {} (failed)", named(task)),
        Standing::Begun => format!("- [ ] {} (begun)", named(task)),
        Standing::Pending | Standing::Done => format!("- [ ] {}", named(task)),
    });
    fragment(
        Section::Pending,
        Origin::Journal,
        or_none(lines.collect(), "nothing"),
    )
}

fn or_none(lines: Vec<String>, none: &str) -> Vec<String> {
    if lines.is_empty() {
        vec![none.to_owned()]
    } else {
        lines
    }
}

fn name<T>(kept: &Kept<T>) -> String {
    kept.id.map(|id| format!("{id} ")).unwrap_or_default()
}

/// Who says so, for whoever has to judge it.
fn source<T>(kept: &Kept<T>) -> String {
    format!(" ({}: {})", kept.source, line(&kept.by, 80))
}

fn decisions(handoff: &Handoff) -> Fragment {
    let standing: Vec<_> = handoff.decisions.standing().collect();
    let newest = standing.iter().rev().take(DECISIONS);
    let mut lines = or_none(newest.map(|kept| decision(kept)).collect(), "none");
    pointer(&mut lines, standing.len().saturating_sub(DECISIONS) as u64);
    fragment(Section::Decisions, Origin::Memos, lines)
}

fn decision(kept: &Kept<Decision>) -> String {
    let Decision {
        matter,
        text,
        why,
        alternatives,
    } = &kept.memo;
    let mut told = format!("- {}[{matter}] {}", name(kept), line(text, TEXT));
    if let Some(why) = why {
        let _ = write!(told, " Why: {}", line(why, TEXT));
    }
    if !alternatives.is_empty() {
        let _ = write!(
            told,
            " Not chosen: {}",
            line(&alternatives.join("; "), TEXT)
        );
    }
    told + &source(kept)
}

fn pointer(lines: &mut Vec<String>, more: u64) {
    if more > 0 {
        lines.push(format!("({more} more can be read on demand)"));
    }
}

fn errors(handoff: &Handoff) -> Fragment {
    let (open, settled): (Vec<_>, Vec<_>) = handoff
        .errors
        .standing()
        .partition(|kept| !kept.memo.is_settled());
    let open = open.iter().rev();
    let newest = settled.iter().rev().take(RESOLVED);
    let lines = open.chain(newest).map(|kept| error(kept)).collect();
    let mut lines = or_none(lines, "none");
    pointer(&mut lines, settled.len().saturating_sub(RESOLVED) as u64);
    fragment(Section::Errors, Origin::Memos, lines)
}

fn error(kept: &Kept<Trouble>) -> String {
    let Trouble {
        sort,
        text,
        subject,
        resolution,
        notes,
    } = &kept.memo;
    let mut told = format!("- {}[{resolution}] {}: ", name(kept), line(sort, 80));
    if let Some(subject) = subject {
        let _ = write!(told, "{}: ", line(subject, TEXT));
    }
    told.push_str(&line(text, TEXT));
    if let Some(notes) = notes {
        let _ = write!(told, " Notes: {}", line(notes, TEXT));
    }
    told + &source(kept)
}

fn git(sight: &Sight) -> Fragment {
    let told = format!("the folder{}", reconcile::described(sight));
    fragment(Section::Git, Origin::Git, vec![line(&told, 4000)])
}

fn tests(handoff: &Handoff) -> Option<Fragment> {
    let kept = handoff.tests.as_ref()?;
    let Tests {
        phase,
        command,
        failing,
        expected,
        passed,
        failed,
        summary,
    } = &kept.memo;
    let mut lines = vec![format!("phase: {phase}{}", source(kept))];
    if !command.is_empty() {
        lines.push(format!("last run: {}", line(command, TEXT)));
    }
    let counted = [(passed, "passed"), (failed, "failed")].into_iter();
    let counted = counted.filter_map(|(count, what)| count.map(|count| format!("{count} {what}")));
    let counted: Vec<String> = counted.collect();
    if !counted.is_empty() {
        lines.push(counted.join(", "));
    }
    lines.extend(
        failing
            .iter()
            .map(|test| format!("- fails: {}", line(test, TEXT))),
    );
    let expected = expected.iter().flatten();
    lines.extend(expected.map(|test| format!("- meant to fail for now: {}", line(test, TEXT))));
    if !summary.is_empty() {
        lines.push(format!("said: {}", line(summary, TEXT)));
    }
    Some(fragment(Section::Tests, Origin::Memos, lines))
}

fn feedback(handoff: &Handoff) -> Option<Fragment> {
    let open = handoff.feedback.standing().rev();
    let open = open.filter(|kept| !kept.memo.is_settled());
    let lines: Vec<String> = open.flat_map(review).collect();
    (!lines.is_empty()).then(|| fragment(Section::Feedback, Origin::Memos, lines))
}

fn review(kept: &Kept<Feedback>) -> Vec<String> {
    let Feedback {
        persona,
        severity,
        comments,
        ..
    } = &kept.memo;
    let mut lines = vec![format!(
        "- {}{} ({severity})",
        name(kept),
        line(persona, 80)
    )];
    let told = comments.iter().take(COMMENTS);
    lines.extend(told.map(|comment| format!("  - {}", line(comment, TEXT))));
    if comments.len() > COMMENTS {
        let more = comments.len() - COMMENTS;
        lines.push(format!("  - ({more} more can be read on demand)"));
    }
    lines
}

fn todo(name: &str, todo: &Todo) -> String {
    let Todo { text, progress } = todo;
    let begun = match progress {
        Progress::InProgress => " (begun)",
        _ => "",
    };
    format!("- [ ] {name}{}{begun}", line(text, TEXT))
}

fn todos(handoff: &Handoff) -> Option<Fragment> {
    let single = handoff.todos.standing();
    let single = single.map(|kept| (name(kept), &kept.memo));
    let listed = handoff.list.iter().flat_map(|kept| &kept.memo.items);
    let listed = listed.map(|it| (String::new(), it));
    let lines: Vec<String> = single
        .chain(listed)
        .filter(|(_, it)| !it.is_settled())
        .map(|(name, it)| todo(&name, it))
        .collect();
    (!lines.is_empty()).then(|| fragment(Section::Todos, Origin::Memos, lines))
}

fn files(handoff: &Handoff) -> Option<Fragment> {
    let newest = handoff.files.iter().rev().take(FILES);
    let mut lines: Vec<String> = newest
        .map(|path| format!("- {}", line(path, TEXT)))
        .collect();
    if lines.is_empty() {
        return None;
    }
    let more = handoff.files.len().saturating_sub(FILES) as u64 + handoff.earlier_files;
    if more > 0 {
        lines.push(format!("({more} more were written before)"));
    }
    Some(fragment(Section::Files, Origin::Memos, lines))
}

fn next(known: &Known<'_>) -> Fragment {
    let next = next_task(known).map_or_else(|| "unknown".to_owned(), named);
    let ended = known.ended.map(|ended| line(ended, TEXT));
    let lines = vec![
        format!("next: {next}"),
        format!(
            "the work stopped: {}",
            ended.unwrap_or_else(|| "unknown".to_owned())
        ),
    ];
    fragment(Section::Next, Origin::Journal, lines)
}

fn more(known: &Known<'_>) -> Fragment {
    let told = format!(
        "details on demand: tools `read_history` and `search_history` of the MCP server `segno`, or the commands `segno note list {0}`, `segno context {0}` and `segno logs {0}`",
        line(known.name, TEXT)
    );
    fragment(Section::More, Origin::Journal, vec![told])
}

#[cfg(test)]
mod tests;
