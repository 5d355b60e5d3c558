//! Notes about what agents did, in a workspace file that humans and agents read.
//!
//! Each note carries a mark with session and step, so that a step has exactly one note, however
//! often the run was killed.

use std::collections::HashSet;
use std::path::PathBuf;

use segno_core::fault::{Point, point};
use segno_core::ports::{Access, folder_of};
use segno_core::time::Timestamp;
use segno_spec::{Notes as Policy, NotesFormat};
use serde_json::{Value, json};
use tokio::sync::Mutex;

use crate::artifact_files;
use crate::error::Error;
use crate::steps::Runner;

/// The largest notes file that is read, in bytes.
const MAX_FILE_BYTES: u64 = 16 * 1024 * 1024;

/// How many characters of a question or an answer go into a note.
const EXCERPT_CHARS: usize = 200;

/// The start of every note in Markdown.
const HEADING: &str = "## ";

/// How often a note is added again that an editor has dropped by replacing the file.
const ATTEMPTS: usize = 3;

/// The notes file of a session. The user and other sessions may change it at any time, so it is
/// read before every use and only ever added to.
pub(crate) struct NotesFile {
    policy: Policy,
    /// Steps of this session add their notes one after the other.
    turn: Mutex<()>,
}

/// The parsed file.
struct ParsedFile {
    path: PathBuf,
    notes: Vec<String>,
    marks: HashSet<String>,
    /// Whether its last line has no end.
    is_open_ended: bool,
}

/// The content of a step's note.
pub(crate) struct StepNote<'a> {
    pub(crate) step: &'a str,
    pub(crate) agent: &'a str,
    pub(crate) question: &'a str,
    pub(crate) tools: &'a [String],
    pub(crate) answer: &'a str,
}

impl NotesFile {
    pub(crate) fn new(policy: Policy) -> Self {
        Self {
            policy,
            turn: Mutex::new(()),
        }
    }

    /// Whether a step has its note.
    pub(crate) fn has(&self, runner: &Runner, step: &str) -> Result<bool, Error> {
        Ok(self.read(runner)?.marks.contains(&mark(runner, step)))
    }

    /// Adds a note, unless the step has one. Whatever else is in the file stays.
    pub(crate) async fn add(&self, runner: &Runner, note: StepNote<'_>) -> Result<(), Error> {
        let _turn = self.turn.lock().await;
        let mark = mark(runner, note.step);
        let disk = &*runner.env.disk;
        for _ in 0..ATTEMPTS {
            let file = self.read(runner)?;
            if file.marks.contains(&mark) {
                break;
            }
            let (now, number) = (runner.env.clock.now(), file.notes.len() + 1);
            let mut text = self.render(&note, &mark, now, number);
            if file.is_open_ended {
                text.insert(0, '\n');
            }
            // A kill leaves the file without the note or with all of it, as with an artifact.
            point(Point::ArtifactBeforeRename);
            let added = disk
                .create_folder(folder_of(&file.path), Access::Shared)
                .and_then(|()| disk.append(&file.path, text.as_bytes(), Access::Shared));
            added.map_err(|error| self.unusable(error.to_string()))?;
            point(Point::ArtifactAfterRename);
        }
        Ok(())
    }

    /// The newest notes as prompt text; empty if there are none.
    pub(crate) fn prompt_text(&self, runner: &Runner) -> Result<String, Error> {
        let file = self.read(runner)?;
        let from = file.notes.len().saturating_sub(self.policy.include_last);
        Ok(match file.notes[from..].concat() {
            none if none.is_empty() => none,
            notes => format!("\n\nNotes on the work so far:\n\n{}", notes.trim_end()),
        })
    }

    fn read(&self, runner: &Runner) -> Result<ParsedFile, Error> {
        let path = artifact_files::resolve_path(&runner.id.workspace, &self.policy.file)?;
        let text = match runner.env.disk.read(&path, MAX_FILE_BYTES) {
            Ok(bytes) => {
                String::from_utf8(bytes).map_err(|error| self.unusable(error.to_string()))?
            }
            Err(error) if error.kind() == std::io::ErrorKind::NotFound => String::new(),
            Err(error) => return Err(self.unusable(error.to_string())),
        };
        Ok(self.parse(path, &text))
    }

    fn parse(&self, path: PathBuf, text: &str) -> ParsedFile {
        let mut notes: Vec<String> = Vec::new();
        let begins = |line: &str| match self.policy.format {
            NotesFormat::Markdown => line.starts_with(HEADING),
            NotesFormat::Json => true,
        };
        for line in text.split_inclusive('\n') {
            match notes.last_mut() {
                Some(note) if !begins(line) => note.push_str(line),
                _ => notes.push(line.to_owned()),
            }
        }
        let is_open_ended = !text.is_empty() && !text.ends_with('\n');
        let marks = notes.iter().filter_map(|note| self.mark_of(note)).collect();
        ParsedFile {
            path,
            notes,
            marks,
            is_open_ended,
        }
    }

    /// The mark of a note: the step that it is about.
    fn mark_of(&self, note: &str) -> Option<String> {
        match self.policy.format {
            NotesFormat::Markdown => {
                let (_, rest) = note.split_once("<!-- segno ")?;
                let (mark, _) = rest.split_once(" -->")?;
                Some(mark.to_owned())
            }
            NotesFormat::Json => {
                let value: Value = serde_json::from_str(note).ok()?;
                Some(value["segno"].as_str()?.to_owned())
            }
        }
    }

    fn render(&self, note: &StepNote<'_>, mark: &str, now: Timestamp, number: usize) -> String {
        let (question, answer) = (excerpt(note.question), excerpt(note.answer));
        match self.policy.format {
            NotesFormat::Markdown => {
                let tools = match note.tools.join(", ") {
                    none if none.is_empty() => "none".to_owned(),
                    some => some,
                };
                format!(
                    "{HEADING}[{now}] {} (step {number})\n<!-- segno {mark} -->\n- **Input**: {question}\n- **Tools**: {tools}\n- **Outcome**: {answer}\n\n",
                    note.agent
                )
            }
            NotesFormat::Json => {
                let line = json!({
                    "timestamp": now.to_string(),
                    "agent": note.agent,
                    "step": number,
                    "input": question,
                    "tools_used": note.tools,
                    "outcome": answer,
                    "segno": mark,
                });
                format!("{line}\n")
            }
        }
    }

    fn unusable(&self, reason: String) -> Error {
        let path = self.policy.file.clone();
        artifact_files::Error::Failed { path, reason }.into()
    }
}

/// The mark that identifies a note.
fn mark(runner: &Runner, step: &str) -> String {
    format!("{}/{step}", runner.id.session)
}

/// The start of a text, in one line that is neither heading nor mark.
fn excerpt(text: &str) -> String {
    let words: Vec<&str> = text.split_whitespace().collect();
    let line = words.join(" ").replace("<!--", "<! --");
    match line.char_indices().nth(EXCERPT_CHARS) {
        Some((end, _)) => format!("{}...", &line[..end]),
        None => line,
    }
}
