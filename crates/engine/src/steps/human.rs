//! Asks a human.
//!
//! The question is in the journal before it is shown, the answer before it is used. A question is
//! asked once; a resumed run finds it in the journal. If no human is present, the run ends and
//! reports what it waits for.

use std::time::Duration;

use segno_core::journal::{QuestionAnswered, QuestionAsked};
use segno_core::state;
use segno_core::step::Path;
use segno_core::store::InboxMessage;
use segno_spec::HumanQuestion;

use super::Runner;
use crate::answers::{Answer, Source};
use crate::error::{Error, InvalidAnswer};
use crate::journal;
use crate::scope::Scope;

/// How often the inbox is read while a question is shown.
const INBOX_POLL: Duration = Duration::from_millis(100);

/// The valid answers to an approval question; a reason may follow.
const YES_OR_NO: &str = r"(?i)^\s*(y|yes|approved?|n|no|reject(ed)?)\b";

/// Who gave the answer when the time ran out.
const BY_DEFAULT: &str = "default";

impl Runner {
    /// Returns the human's answer to the question of a step.
    pub(crate) async fn ask_human(
        &self,
        path: &Path,
        human_step: &HumanQuestion,
        scope: &Scope,
    ) -> Result<Answer, Error> {
        if let Some(done) = self.earlier.finished.get(path) {
            return Ok(self.rendering.answers.add(self.skip(path, done)));
        }
        self.check_may_start().await?;
        let (question, context) = if let Some(known) = self.open_question(path).await? {
            known
        } else {
            let context = match &human_step.context_display {
                Some(source) => Some(self.render("the context", path, source, scope).await?),
                None => None,
            };
            self.journal_question(path, human_step, context.as_deref())
                .await?
        };
        let clean = self
            .await_answer(path, &question, context.as_deref())
            .await?;
        Ok(self.rendering.answers.add(Source::InMemory(clean.into())))
    }

    /// Asks a human to approve what an agent wants to do.
    pub(super) async fn ask_approval(
        &self,
        path: &Path,
        prompt: &str,
        shown: &str,
    ) -> Result<String, Error> {
        if let Some(done) = self.earlier.finished.get(path) {
            let answer = self.rendering.answers.add(Source::Journal(done.seq));
            return Ok(self.text(answer).await?.to_string());
        }
        let human_step = HumanQuestion {
            prompt: prompt.to_owned(),
            context_display: None,
            default: None,
            timeout: None,
            validation: Some(YES_OR_NO.to_owned()),
        };
        let (question, context) = match self.open_question(path).await? {
            Some(known) => known,
            None => {
                self.journal_question(path, &human_step, Some(shown))
                    .await?
            }
        };
        self.await_answer(path, &question, context.as_deref()).await
    }

    /// Waits for the answer and journals it.
    async fn await_answer(
        &self,
        path: &Path,
        question: &state::Question,
        context: Option<&str>,
    ) -> Result<String, Error> {
        let (text, by, taken) = self.receive_answer(path, question, context).await?;
        check_answer(path, question.validation.as_deref(), &text)?;
        let (answer, clean) = journal::redact_and_store(&self.env, &text).await?;
        let answered = QuestionAnswered {
            path: path.clone(),
            answer,
            by,
        };
        self.journal
            .write_and_consume(vec![answered.into()], taken)
            .await?;
        Ok(clean)
    }

    /// Journals the question.
    async fn journal_question(
        &self,
        path: &Path,
        human_step: &HumanQuestion,
        shown: Option<&str>,
    ) -> Result<(state::Question, Option<String>), Error> {
        let (mut kept, mut context) = (None, None);
        if let Some(text) = shown {
            let (text, clean) = journal::redact_and_store(&self.env, text).await?;
            (kept, context) = (Some(text), Some(clean));
        }
        let asked = QuestionAsked {
            path: path.clone(),
            prompt: self.env.redactor.redact(&human_step.prompt).into_owned(),
            context: kept,
            default: human_step.default.clone(),
            timeout_s: human_step.timeout.map(|timeout| timeout.as_secs()),
            validation: human_step.validation.clone(),
        };
        self.journal.write(vec![asked.into()]).await?;
        let question = self
            .journal
            .with_state(|state| state.questions.get(path).cloned());
        Ok((question.expect("it was just recorded"), context))
    }

    /// The question that an earlier run asked here, and the context shown with it.
    async fn open_question(
        &self,
        path: &Path,
    ) -> Result<Option<(state::Question, Option<String>)>, Error> {
        let Some(question) = self.earlier.open_questions.get(path).cloned() else {
            return Ok(None);
        };
        let entry = self.env.store.event(self.id.session, question.seq).await?;
        let context = match entry.event.text() {
            Some(text) => Some(journal::load_text(&self.env, text).await?),
            None => None,
        };
        Ok(Some((question, context)))
    }

    /// The answer, who gave it, and the inbox messages that it consumes.
    async fn receive_answer(
        &self,
        path: &Path,
        question: &state::Question,
        context: Option<&str>,
    ) -> Result<(String, String, Vec<u64>), Error> {
        if let Some(posted) = self.inbox_answer(path).await? {
            return Ok(posted);
        }
        let now = self.env.clock.now();
        let left = question.until().map(|until| until.since(now));
        let late = || match &question.default {
            Some(default) => Ok((default.clone(), BY_DEFAULT.to_owned(), Vec::new())),
            None => Err(Error::AnswerTimeout {
                name: self.id.name.clone(),
                path: path.clone(),
            }),
        };
        if left.is_some_and(|left| left.is_zero()) {
            return late();
        }
        let waiting = || Error::WaitingForHuman {
            name: self.id.name.clone(),
            path: path.clone(),
            prompt: question.prompt.clone(),
            context: context.map(str::to_owned),
            until: question.until(),
        };
        let Some(human) = &self.env.human else {
            return Err(waiting());
        };
        // One human answers one question at a time.
        let _turn = self.limits.one_question.lock().await;
        let time = async {
            match left {
                Some(left) => self.env.clock.sleep(left).await,
                None => std::future::pending().await,
            }
        };
        let inbox = async {
            loop {
                match self.inbox_answer(path).await {
                    Ok(None) => self.env.clock.sleep(INBOX_POLL).await,
                    Ok(Some(posted)) => return Ok(posted),
                    Err(error) => return Err(error),
                }
            }
        };
        // A typed answer that is invalid is asked for again.
        let typed = async {
            loop {
                let text = human.ask(&question.prompt, context).await;
                let fit = |text: &String| {
                    check_answer(path, question.validation.as_deref(), text)
                        .inspect_err(|error| self.observer.notice(&error.to_string()))
                        .is_ok()
                };
                if text.as_ref().is_none_or(fit) {
                    return text;
                }
            }
        };
        tokio::select! {
            text = typed => {
                let host = self.env.processes.host();
                let text = text.ok_or_else(waiting)?;
                Ok((text, format!("a user at {host}"), Vec::new()))
            }
            posted = inbox => posted,
            () = time => late(),
            stop = self.stop_token.wait_any() => Err(self.stop_error(stop)),
        }
    }

    async fn inbox_answer(&self, path: &Path) -> Result<Option<(String, String, Vec<u64>)>, Error> {
        for (number, message) in self.env.store.pending(self.id.session).await? {
            if let InboxMessage::Answer {
                path: asked,
                text,
                by,
            } = message
                && asked == *path
            {
                return Ok(Some((text, by, vec![number])));
            }
        }
        Ok(None)
    }
}

/// Checks that an answer is one that its question allows.
pub fn check_answer(
    path: &Path,
    validation: Option<&str>,
    answer: &str,
) -> Result<(), InvalidAnswer> {
    let refused = |reason: String| InvalidAnswer {
        path: path.clone(),
        answer: answer.to_owned(),
        reason,
    };
    let Some(pattern) = validation else {
        return Ok(());
    };
    let regex = regex::Regex::new(pattern).map_err(|error| refused(error.to_string()))?;
    if regex.is_match(answer) {
        Ok(())
    } else {
        Err(refused(format!("it must match `{pattern}`")))
    }
}
