//! A plan as people and agents write it: a Markdown checklist.
//!
//! ```markdown
//! - [x] **T1**: Read the old parser
//! - [ ] T2: Write the new one (after T1)
//!   - keep the error messages
//! ```
//!
//! Every outermost item with a box is a task. Indented text below it is its description, with or
//! without boxes; all other text is what the plan is about. The input is untrusted: every
//! inconsistency is reported with its line.

use std::collections::BTreeMap;
use std::fmt;

use crate::find_cycle;

/// The limit of a plan, in bytes.
pub const MAX_BYTES: usize = 1024 * 1024;
/// The limit of tasks.
const MOST: usize = 1000;
/// The limit of a task's id.
const LONGEST_ID: usize = 32;
/// The limit of a title, in characters.
const LONGEST_TITLE: usize = 500;

/// Tasks in the order of the text, without dependency cycles.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Checklist {
    /// The text outside of the tasks.
    pub about: String,
    pub tasks: Vec<Task>,
}

#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Task {
    pub id: String,
    pub title: String,
    pub description: String,
    /// The tasks that must be done before, by index.
    pub depends_on: Vec<usize>,
    /// Whether its box was checked in the plan.
    pub done: bool,
}

/// An inconsistency in a plan.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Problem {
    /// Counted from 1.
    pub line: usize,
    pub message: String,
}

impl fmt::Display for Problem {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "line {}: {}", self.line, self.message)
    }
}

pub fn has_tasks(text: &str) -> bool {
    Lines::of(text).any(|line| line.item.is_some())
}

/// Parses a plan; reports all problems at once.
pub fn read(text: &str) -> Result<Checklist, Vec<Problem>> {
    let whole = |message: String| vec![Problem { line: 1, message }];
    if text.len() > MAX_BYTES {
        return Err(whole(format!("a plan has at most {MAX_BYTES} bytes")));
    }
    let (about, drafts) = split_tasks(text);
    match drafts.len() {
        0 => return Err(whole("there is no task: write `- [ ] TITLE`".to_owned())),
        more if more > MOST => return Err(whole(format!("a plan has at most {MOST} tasks"))),
        _ => {}
    }
    let mut problems = Vec::new();
    let known = name(&drafts, &mut problems);
    let mut tasks: Vec<Task> = Vec::new();
    for (draft, id) in drafts.iter().zip(ids(&drafts)) {
        let mut report = |message: String| {
            let line = draft.line;
            problems.push(Problem { line, message });
        };
        if draft.title.is_empty() {
            report(format!("task {id} has no title"));
        }
        if draft.title.chars().count() > LONGEST_TITLE {
            report(format!("a title has at most {LONGEST_TITLE} characters"));
        }
        let mut depends_on = Vec::new();
        for name in &draft.after {
            match known.get(name) {
                None => report(format!("`after` names an unknown task `{name}`")),
                Some(place) if depends_on.contains(place) => {}
                Some(place) => depends_on.push(*place),
            }
        }
        tasks.push(Task {
            id,
            title: draft.title.clone(),
            description: draft.description(),
            depends_on,
            done: draft.done,
        });
    }
    let deps: Vec<&[usize]> = tasks.iter().map(|task| &task.depends_on[..]).collect();
    if let Some(cycle) = find_cycle(&deps) {
        let names: Vec<&str> = cycle
            .iter()
            .map(|place| tasks[*place].id.as_str())
            .collect();
        problems.push(Problem {
            line: drafts[cycle[0]].line,
            message: format!("depends on itself: {}", names.join(" → ")),
        });
    }
    if problems.is_empty() {
        Ok(Checklist { about, tasks })
    } else {
        problems.sort_by_key(|problem| problem.line);
        Err(problems)
    }
}

impl Checklist {
    /// The execution order: each task after its dependencies, and otherwise in the order of the
    /// text.
    pub fn order(&self) -> Vec<usize> {
        let (mut order, mut taken) = (Vec::new(), vec![false; self.tasks.len()]);
        while let Some(next) = (0..self.tasks.len()).find(|place| {
            let needed = &self.tasks[*place].depends_on;
            !taken[*place] && needed.iter().all(|before| taken[*before])
        }) {
            taken[next] = true;
            order.push(next);
        }
        order
    }

    /// One line per task, in the format that [`read`] parses; `is_done` decides which boxes are
    /// checked.
    pub fn lines(&self, is_done: impl Fn(&Task) -> bool) -> Vec<String> {
        let of = |task: &Task| {
            let names = task.depends_on.iter();
            let names: Vec<&str> = names.map(|place| self.tasks[*place].id.as_str()).collect();
            line(is_done(task), &task.id, &task.title, &names.join(", "))
        };
        self.tasks.iter().map(of).collect()
    }

    /// The plan in the format that [`read`] parses.
    pub fn text(&self) -> String {
        let mut text = String::new();
        for (line, task) in self.lines(|task| task.done).iter().zip(&self.tasks) {
            text.push_str(line);
            text.push('\n');
            for line in task.description.lines() {
                text.push_str(format!("  {line}").trim_end());
                text.push('\n');
            }
        }
        text
    }
}

/// One task as a line, in the format that [`read`] parses; `after` has the ids of its dependencies.
pub fn line(done: bool, id: &str, title: &str, after: &str) -> String {
    let cross = if done { 'x' } else { ' ' };
    let after = if after.is_empty() {
        String::new()
    } else {
        format!(" (after {after})")
    };
    // A bare word without a digit would be parsed as a part of the title.
    if id.contains(|sign: char| sign.is_ascii_digit()) {
        format!("- [{cross}] {id}: {title}{after}")
    } else {
        format!("- [{cross}] **{id}**: {title}{after}")
    }
}

/// A task before its id and dependencies are resolved.
struct Draft {
    line: usize,
    indent: usize,
    done: bool,
    id: Option<String>,
    title: String,
    after: Vec<String>,
    below: Vec<String>,
}

impl Draft {
    fn of(line: &Line<'_>, done: bool, words: &str) -> Self {
        let words: String = words.chars().filter(|sign| !sign.is_control()).collect();
        let (id, title) = split_id(words.trim());
        let (title, after) = split_dependencies(title);
        Self {
            line: line.number,
            indent: line.indent,
            done,
            id: id.map(str::to_owned),
            // A title cannot begin with what separates it from an id.
            title: title.trim_start_matches(is_separator).trim_end().to_owned(),
            after,
            below: Vec::new(),
        }
    }

    /// The text below the task, without common indentation.
    fn description(&self) -> String {
        let full = || self.below.iter().filter(|line| !line.trim().is_empty());
        let least = full().map(|line| width(line)).min().unwrap_or(0);
        let lines = self.below.iter();
        let lines = lines.map(|line| line.get(least..).unwrap_or("").trim_end());
        lines
            .collect::<Vec<_>>()
            .join("\n")
            .trim_matches('\n')
            .to_owned()
    }
}

struct Line<'a> {
    number: usize,
    indent: usize,
    text: &'a str,
    /// Whether it is inside a code block, or ends one.
    fenced: bool,
    /// Whether its box is checked, and the text after the box.
    item: Option<(bool, &'a str)>,
}

/// The lines of a plan. Lines in code blocks are never tasks.
struct Lines<'a> {
    lines: std::iter::Enumerate<std::str::Lines<'a>>,
    fence: Option<&'a str>,
}

impl<'a> Lines<'a> {
    fn of(text: &'a str) -> Self {
        Self {
            lines: text.lines().enumerate(),
            fence: None,
        }
    }
}

impl<'a> Iterator for Lines<'a> {
    type Item = Line<'a>;

    fn next(&mut self) -> Option<Line<'a>> {
        let (number, text) = self.lines.next()?;
        let start = text.trim_start();
        let fence = ["```", "~~~"]
            .into_iter()
            .find(|mark| start.starts_with(mark));
        let fenced = self.fence.is_some();
        let item = if fenced { None } else { parse_item(start) };
        self.fence = match (self.fence, fence) {
            (Some(open), Some(mark)) if open == mark => None,
            (None, mark) => mark,
            (open, _) => open,
        };
        Some(Line {
            number: number + 1,
            indent: width(text),
            text,
            fenced,
            item,
        })
    }
}

/// The number of bytes of leading white space.
fn width(line: &str) -> usize {
    line.len() - line.trim_start_matches([' ', '\t']).len()
}

/// The text after a box, and whether the box is checked.
fn parse_item(start: &str) -> Option<(bool, &str)> {
    let digits = start.trim_start_matches(|sign: char| sign.is_ascii_digit());
    let rest = start.strip_prefix(['-', '*', '+']).or_else(|| {
        let numbered = digits.len() < start.len();
        digits.strip_prefix(['.', ')']).filter(|_| numbered)
    })?;
    let inside = rest.strip_prefix(' ')?.trim_start().strip_prefix('[')?;
    let (mark, words) = inside.split_once(']')?;
    let done = match mark {
        " " | "" => false,
        "x" | "X" => true,
        _ => return None,
    };
    (words.is_empty() || words.starts_with([' ', '\t'])).then_some((done, words))
}

/// Splits a plan into its tasks and the other text.
fn split_tasks(text: &str) -> (String, Vec<Draft>) {
    let (mut about, mut drafts) = (Vec::new(), Vec::<Draft>::new());
    // Whether the next line may belong to the last task.
    let mut open = false;
    for line in Lines::of(text) {
        let last = drafts.last_mut().filter(|_| open);
        // A code block that starts in a task belongs to it, even where it is not indented.
        let below = last.filter(|last| {
            line.fenced || line.text.trim().is_empty() || line.indent > last.indent + 1
        });
        match (below, line.item) {
            (Some(last), _) => match dependencies_in(line.text) {
                Some(after) => last.after.extend(after),
                None => last.below.push(line.text.to_owned()),
            },
            (None, Some((done, words))) => {
                drafts.push(Draft::of(&line, done, words));
                open = true;
            }
            (None, None) => {
                about.push(line.text);
                open = false;
            }
        }
    }
    (about.join("\n").trim().to_owned(), drafts)
}

/// The id before a title: `**T1**: …`, `[T1] …`, `T1: …`. A bare word is an id only if it has a
/// digit; otherwise it is a part of the sentence.
fn split_id(words: &str) -> (Option<&str>, &str) {
    for (open, close) in [("**", "**"), ("`", "`"), ("[", "]")] {
        if let Some((id, title)) = words
            .strip_prefix(open)
            .and_then(|rest| rest.split_once(close))
        {
            let id = id.trim_end_matches(':');
            if is_id(id) {
                return (Some(id), title);
            }
        }
    }
    match words
        .split_once(": ")
        .or_else(|| Some((words.strip_suffix(':')?, "")))
    {
        Some((id, title)) if is_id(id) && id.contains(|sign: char| sign.is_ascii_digit()) => {
            (Some(id), title)
        }
        _ => (None, words),
    }
}

/// Whether this separates an id from a title.
fn is_separator(sign: char) -> bool {
    sign == ':' || sign.is_whitespace()
}

/// Whether this can be the id of a task: it becomes part of a step's path.
pub fn is_id(text: &str) -> bool {
    let allowed = |sign: char| sign.is_ascii_alphanumeric() || "._-".contains(sign);
    (1..=LONGEST_ID).contains(&text.len())
        && text.starts_with(|sign: char| sign.is_ascii_alphanumeric())
        && text.chars().all(allowed)
}

/// A title, and the dependencies in the parentheses at its end.
fn split_dependencies(title: &str) -> (&str, Vec<String>) {
    let inside = title
        .strip_suffix(')')
        .and_then(|rest| rest.rsplit_once('('));
    let Some((before, inside)) = inside else {
        return (title, Vec::new());
    };
    let lower = inside.to_ascii_lowercase();
    for word in ["after", "depends on", "needs"] {
        if lower.starts_with(word)
            && let Some(names) = inside.get(word.len()..)
            && names.starts_with([' ', ':'])
            && let names = names_in(names)
            && !names.is_empty()
        {
            return (before.trim_end(), names);
        }
    }
    (title, Vec::new())
}

/// The dependencies in a line of a description: `Depends on: T1, T2`.
fn dependencies_in(line: &str) -> Option<Vec<String>> {
    let line = line.trim().trim_start_matches(['-', '*', ' ']);
    let (word, names) = line.split_once(':')?;
    word.eq_ignore_ascii_case("depends on")
        .then(|| names_in(names))
}

fn names_in(text: &str) -> Vec<String> {
    let between = |sign: char| sign.is_whitespace() || ",;&:".contains(sign);
    let words = text.split(between);
    let words = words.map(|word| word.trim_matches(['*', '`', '#', '[', ']', '.']));
    let meant = |word: &&str| !word.is_empty() && !word.eq_ignore_ascii_case("and");
    words.filter(meant).map(str::to_owned).collect()
}

/// The ids of all tasks. A task without an id gets its number.
fn ids(drafts: &[Draft]) -> Vec<String> {
    let given: Vec<&str> = drafts
        .iter()
        .filter_map(|draft| draft.id.as_deref())
        .collect();
    let mut ids: Vec<String> = Vec::new();
    for (place, draft) in drafts.iter().enumerate() {
        let free = |id: &String| !given.contains(&id.as_str()) && !ids.contains(id);
        let numbered = || {
            let mut numbers = (place + 1..).map(|number| format!("T{number}"));
            numbers
                .find(free)
                .expect("there are more numbers than tasks")
        };
        ids.push(draft.id.clone().unwrap_or_else(numbered));
    }
    ids
}

/// The index of each id; reports duplicate ids.
fn name(drafts: &[Draft], problems: &mut Vec<Problem>) -> BTreeMap<String, usize> {
    let mut known = BTreeMap::new();
    for (place, id) in ids(drafts).into_iter().enumerate() {
        if let Some(first) = known.insert(id.clone(), place) {
            problems.push(Problem {
                line: drafts[place].line,
                message: format!(
                    "duplicate task `{id}`, first defined in line {}",
                    drafts[first].line
                ),
            });
        }
    }
    known
}

#[cfg(test)]
mod tests;
