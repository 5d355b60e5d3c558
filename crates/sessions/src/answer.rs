//! Answers the questions of a session.

use segno_core::state::Question;
use segno_core::step::Path;
use segno_core::store::{InboxMessage, Summary};
use segno_engine::{Env, Error, history, journal, steps};

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
            return Err(Error::AmbiguousQuestion {
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
pub async fn open_questions(env: &Env, summary: &Summary) -> Result<Vec<OpenQuestion>, Error> {
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
