//! Answers the questions of a session.

use segno_core::error::{Diagnose, Diagnosis, Kind, join_shown};
use segno_core::id::Name;
use segno_core::state::Question;
use segno_core::step::Path;
use segno_core::store::{Error as StoreError, InboxMessage, Summary};
use segno_engine::error::InvalidAnswer;
use segno_engine::{Env, history, journal, steps};

/// Why an answer was refused.
#[derive(Debug, thiserror::Error)]
pub enum Error {
    #[error(transparent)]
    Store(#[from] StoreError),
    #[error(transparent)]
    History(#[from] history::Error),
    #[error("session `{name}` has no open question{}", .path.as_ref().map_or(String::new(), |path| format!(" at step {path}")))]
    NoOpenQuestion { name: Name, path: Option<String> },
    #[error("session `{name}` has several open questions: {}", join_shown(.steps.iter().map(|path| format!("step {path}"))))]
    Ambiguous { name: Name, steps: Vec<Path> },
    #[error(transparent)]
    Invalid(#[from] InvalidAnswer),
}

impl Diagnose for Error {
    fn diagnosis(&self) -> Diagnosis {
        match self {
            Self::Store(error) => error.diagnosis(),
            Self::History(error) => error.diagnosis(),
            Self::NoOpenQuestion { name, .. } => Diagnosis::new(Kind::Invalid, "R0111")
                .hint(format!("`segno show {name}` shows its state")),
            Self::Ambiguous { name, .. } => Diagnosis::new(Kind::Invalid, "R0111").hint(format!(
                "choose one with `segno answer {name} --step STEP TEXT`"
            )),
            Self::Invalid(error) => error.diagnosis(),
        }
    }
}

/// Answers a question. The answer is put into the session's inbox; a live run reads it immediately,
/// otherwise the next resume does. Returns the step that asked.
pub async fn answer(
    env: &Env,
    summary: &Summary,
    step: Option<&str>,
    text: &str,
    by: &str,
) -> Result<Path, Error> {
    let asked = open_questions(env, summary).await?;
    let not_asked = || Error::NoOpenQuestion {
        name: summary.name.clone(),
        path: step.map(str::to_owned),
    };
    let OpenQuestion { path, question, .. } = match (step, asked.as_slice()) {
        (_, []) => return Err(not_asked()),
        (None, [one]) => one,
        (None, several) => {
            return Err(Error::Ambiguous {
                name: summary.name.clone(),
                steps: several.iter().map(|asked| asked.path.clone()).collect(),
            });
        }
        (Some(step), all) => all
            .iter()
            .find(|asked| asked.path.as_str() == step)
            .ok_or_else(not_asked)?,
    };
    steps::check_answer(path, question.validation.as_deref(), text)?;
    let message = InboxMessage::Answer {
        path: path.clone(),
        text: env.redactor.redact(text).into_owned(),
        by: by.to_owned(),
    };
    let posted = env.store.post(summary.id, env.clock.now(), message);
    posted.await?;
    Ok(path.clone())
}

#[derive(Debug, Clone, PartialEq)]
pub struct OpenQuestion {
    pub path: Path,
    pub question: Question,
    pub context: Option<String>,
}

/// The unanswered questions of a session.
pub async fn open_questions(
    env: &Env,
    summary: &Summary,
) -> Result<Vec<OpenQuestion>, history::Error> {
    let mut questions = history::load_state(env, summary.id).await?.questions;
    for (_, message) in env.store.pending(summary.id).await? {
        if let InboxMessage::Answer { path, .. } = message {
            questions.remove(&path);
        }
    }
    let mut open = Vec::new();
    for (path, question) in questions {
        let entry = env.store.event(summary.id, question.seq).await?;
        let context = match entry.event.text() {
            Some(text) => Some(journal::load_text(env, text).await?),
            None => None,
        };
        open.push(OpenQuestion {
            path,
            question,
            context,
        });
    }
    Ok(open)
}
