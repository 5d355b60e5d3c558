//! Asking a person.
//!
//! The question is in the journal before it is shown, the answer before it is used; and what was
//! asked once is not asked again. If nobody is there, the run ends and says what it waits for.

use std::time::Duration;

use segno_core::journal::{QuestionAnswered, QuestionAsked};
use segno_core::state;
use segno_core::step::Path;
use segno_core::store::Message;

use super::Flow;
use crate::answers::{Answer, Source};
use crate::error::Error;
use crate::pen;
use crate::scope::Scope;
use crate::spec::Person;

/// How often the inbox is looked at while a question is shown.
const GLANCE: Duration = Duration::from_millis(100);

/// What counts as an answer where leave is asked; a reason may follow.
const YES_OR_NO: &str = r"(?i)^\s*(y|yes|approved?|n|no|reject(ed)?)\b";

/// Who answers when the time has run out.
const NOBODY: &str = "default";

impl Flow {
    /// A person's answer.
    pub async fn ask_person(
        &self,
        path: &Path,
        person: &Person,
        scope: &Scope,
    ) -> Result<Answer, Error> {
        if let Some(done) = self.finished.get(path) {
            return Ok(self.answers.add(self.skip(path, done)));
        }
        self.boundary().await?;
        let (question, context) = if let Some(known) = self.known(path).await? {
            known
        } else {
            let context = match &person.context_display {
                Some(source) => Some(self.render("what is shown", path, source, scope).await?),
                None => None,
            };
            self.put(path, person, context.as_deref()).await?
        };
        let clean = self.settle(path, &question, context.as_deref()).await?;
        Ok(self.answers.add(Source::Held(clean.into())))
    }

    /// A person's yes or no to something that an agent wants to do.
    pub(super) async fn ask_leave(
        &self,
        path: &Path,
        prompt: &str,
        shown: &str,
    ) -> Result<String, Error> {
        if let Some(done) = self.finished.get(path) {
            let answer = self.answers.add(Source::Journal(done.seq));
            return Ok(self.text(answer).await?.to_string());
        }
        let person = Person {
            prompt: prompt.to_owned(),
            context_display: None,
            default: None,
            timeout: None,
            validation: Some(YES_OR_NO.to_owned()),
        };
        let (question, context) = match self.known(path).await? {
            Some(known) => known,
            None => self.put(path, &person, Some(shown)).await?,
        };
        self.settle(path, &question, context.as_deref()).await
    }

    /// Waits for the answer and writes it down.
    async fn settle(
        &self,
        path: &Path,
        question: &state::Question,
        context: Option<&str>,
    ) -> Result<String, Error> {
        let (text, by, taken) = self.hear(path, question, context).await?;
        fits(path, question.validation.as_deref(), &text)?;
        let (answer, clean) = pen::keep(&self.world, &text).await?;
        let answered = QuestionAnswered {
            path: path.clone(),
            answer,
            by,
        };
        self.pen.take(vec![answered.into()], taken).await?;
        Ok(clean)
    }

    /// Writes the question down.
    async fn put(
        &self,
        path: &Path,
        person: &Person,
        shown: Option<&str>,
    ) -> Result<(state::Question, Option<String>), Error> {
        let (mut kept, mut context) = (None, None);
        if let Some(text) = shown {
            let (text, clean) = pen::keep(&self.world, text).await?;
            (kept, context) = (Some(text), Some(clean));
        }
        let asked = QuestionAsked {
            path: path.clone(),
            prompt: self.world.redactor.redact(&person.prompt).into_owned(),
            context: kept,
            default: person.default.clone(),
            timeout_s: person.timeout.map(|timeout| timeout.as_secs()),
            validation: person.validation.clone(),
        };
        self.pen.write(vec![asked.into()]).await?;
        let question = self.pen.look(|state| state.questions.get(path).cloned());
        Ok((question.expect("it was just written down"), context))
    }

    /// The question that an earlier run asked here, and what is shown with it.
    async fn known(&self, path: &Path) -> Result<Option<(state::Question, Option<String>)>, Error> {
        let Some(question) = self.asked.get(path).cloned() else {
            return Ok(None);
        };
        let entry = self.world.store.entry(self.session, question.seq).await?;
        let context = match entry.event.text() {
            Some(text) => Some(pen::recall(&self.world, text).await?),
            None => None,
        };
        Ok(Some((question, context)))
    }

    /// The answer, who gave it, and the messages that it takes off the inbox.
    async fn hear(
        &self,
        path: &Path,
        question: &state::Question,
        context: Option<&str>,
    ) -> Result<(String, String, Vec<u64>), Error> {
        if let Some(posted) = self.posted(path).await? {
            return Ok(posted);
        }
        let now = self.world.clock.now();
        let left = question.until().map(|until| until.since(now));
        let late = || match &question.default {
            Some(default) => Ok((default.clone(), NOBODY.to_owned(), Vec::new())),
            None => Err(Error::Unanswered {
                name: self.name.clone(),
                path: path.clone(),
            }),
        };
        if left.is_some_and(|left| left.is_zero()) {
            return late();
        }
        let waiting = || Error::Waiting {
            name: self.name.clone(),
            path: path.clone(),
            prompt: question.prompt.clone(),
            context: context.map(str::to_owned),
            until: question.until(),
        };
        if !self.world.people.anyone() {
            return Err(waiting());
        }
        // One person is asked one thing at a time.
        let _turn = self.person.lock().await;
        let time = async {
            match left {
                Some(left) => self.world.clock.sleep(left).await,
                None => std::future::pending().await,
            }
        };
        let mail = async {
            loop {
                match self.posted(path).await {
                    Ok(None) => self.world.clock.sleep(GLANCE).await,
                    Ok(Some(posted)) => return Ok(posted),
                    Err(error) => return Err(error),
                }
            }
        };
        // What is typed and does not fit is asked for again.
        let typed = async {
            loop {
                let text = self.world.people.ask(&question.prompt, context).await;
                let fit = |text: &String| {
                    fits(path, question.validation.as_deref(), text)
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
                let host = self.world.processes.host();
                let text = text.ok_or_else(waiting)?;
                Ok((text, format!("someone at {host}"), Vec::new()))
            }
            posted = mail => posted,
            () = time => late(),
            stop = self.brake.any() => Err(self.stopped(stop)),
        }
    }

    async fn posted(&self, path: &Path) -> Result<Option<(String, String, Vec<u64>)>, Error> {
        for (number, message) in self.world.store.pending(self.session).await? {
            if let Message::Answer {
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

/// Whether an answer is one that its question allows.
pub(crate) fn fits(path: &Path, validation: Option<&str>, answer: &str) -> Result<(), Error> {
    let refused = |reason: String| Error::NotAnAnswer {
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
