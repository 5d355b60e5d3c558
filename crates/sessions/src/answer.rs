//! Answers the questions of a session.

use segno_core::error::{Diagnose, Diagnosis, Kind, join_shown};
use segno_core::id::{Name, SessionId};
use segno_core::journal::RunOptions;
use segno_core::session::Status;
use segno_core::state::Question;
use segno_core::step::Path;
use segno_core::store::{Error as StoreError, Filter, InboxMessage, Summary};
use segno_engine::error::InvalidAnswer;
use segno_engine::{Env, history, journal, steps};

use crate::background;

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
    request_run(env, summary, by).await;
    Ok(path.clone())
}

/// Asks a worker to continue a session that workers run. If that fails, the answer is there all the
/// same, and the next run uses it.
async fn request_run(env: &Env, summary: &Summary, by: &str) {
    if summary.status == Status::Waiting
        && let Ok(true) = background::is_run_by_workers(env, summary).await
    {
        let options = RunOptions::default();
        let _ = background::request(env, summary, by.to_owned(), options, &[]).await;
    }
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

/// How many sessions one page of [`all_open_questions`] looks at.
const SESSIONS: usize = 500;

/// A page of the open questions of all sessions.
#[derive(Debug, Default)]
pub struct QuestionPage {
    pub items: Vec<(Summary, OpenQuestion)>,
    /// Sessions that cannot be read; they may have open questions, too.
    pub damaged: Vec<history::Error>,
    /// The last session of the page, if there are more.
    pub next: Option<SessionId>,
}

/// The open questions of the sessions before `before`, newest session first. A page ends with the
/// session that reaches `limit`: all questions of a session are on one page. It may be empty and
/// have a next one, because it looks at a bounded number of sessions.
pub async fn all_open_questions(
    env: &Env,
    before: Option<SessionId>,
    limit: usize,
) -> Result<QuestionPage, StoreError> {
    let open = Status::ALL.iter().copied();
    let open = open.filter(|status| status.is_resumable() && !status.is_archived());
    let filter = Filter {
        statuses: Some(open.collect()),
        before,
        limit: Some(SESSIONS),
        ..Filter::default()
    };
    let (mut page, mut looked_at) = (QuestionPage::default(), 0);
    for summary in env.store.list(filter).await? {
        let summary = match summary {
            Ok(summary) => summary,
            Err(error) => {
                page.damaged.push(error.into());
                continue;
            }
        };
        match open_questions(env, &summary).await {
            Ok(open) => page
                .items
                .extend(open.into_iter().map(|it| (summary.clone(), it))),
            Err(error) => page.damaged.push(error),
        }
        looked_at += 1;
        if page.items.len() >= limit || looked_at == SESSIONS {
            page.next = Some(summary.id);
            break;
        }
    }
    Ok(page)
}
