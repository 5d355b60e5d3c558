//! Asking an agent whose program keeps the conversation itself.
//!
//! What the program says is in the journal as it is said, so that a lost run loses no more than what
//! was on its way. Work that was begun before goes on by the first rung of the ladder that holds; a
//! rung that fails is left for the next one, once.

use segno_core::agent::{self, Answer, ErrorKind, Event as Told, Listener, Request};
use segno_core::companion::{self, Companion, Gauge, Way};
use segno_core::conversation::{Entry, Origin, Part, Said};
use segno_core::journal::{AgentOpened, Seq};
use segno_core::ladder::{Plan, Rung, choose};
use segno_core::state::{Open, Standing, State};
use segno_core::usage::{Cost, Usage};

use super::Flow;
use super::converse::Trouble;
use super::heard::Heard;
use super::inheritance::{Legacy, missing};
use super::step::{Ask, priced};
use crate::context::{self, Fence};
use crate::error::Error;
use crate::evidence;
use crate::reconcile::{self, Cause, Seen};
use crate::spec::ContextFull;

/// How often a fresh conversation takes over within one attempt. Whoever fills every one of them at once
/// does not come to an end.
const MOST_RELIEFS: u32 = 20;

/// The ways that need the program's own record.
pub(super) const OWN: [Rung; 3] = [Rung::Native, Rung::Repaired, Rung::Rehomed];

/// What a program is asked, and how.
pub(super) struct Course {
    /// The program's name for the conversation.
    pub(super) id: String,
    /// How it goes on; `None` if it begins.
    pub(super) rung: Option<Rung>,
    /// Whether the program has a record of that conversation.
    pub(super) has_record: bool,
    /// What it is asked instead of the question.
    pub(super) words: Option<String>,
}

/// Why a program was ended in the middle of its work.
enum Halt {
    /// So much of the context is used, in hundredths.
    Full(u64),
    /// The model has answered as often as it may.
    Limit,
}

impl Flow {
    /// Asks an agent's program, or lets it go on with what it began.
    pub(super) async fn accompany(
        &self,
        companion: &dyn Companion,
        ask: &Ask<'_>,
        revision: u32,
        request: &Request<'_>,
        heard: &Heard,
        listener: &dyn Listener,
    ) -> Result<Answer, Trouble> {
        let (mut left, mut relieved) = (Vec::new(), 0);
        loop {
            let course = self.course(companion, ask, revision, heard, &left).await?;
            let attempt = request.attempt;
            let open = AgentOpened {
                path: ask.path.clone(),
                revision,
                attempt,
                program: companion.program(),
                native: course.id.clone(),
                folder: self.workspace.to_string_lossy().into_owned(),
                rung: course.rung,
            };
            let goes_on = course.has_record;
            let way = if goes_on {
                Way::Continue { id: &course.id }
            } else {
                Way::Begin { id: &course.id }
            };
            // P6: under which name it may be found is durable before anything is done under it.
            if goes_on || companion.lets_choose() {
                self.pen.write(vec![open.clone().into()]).await?;
            }
            let (ear, scribe) = self.listen(open, ask, heard);
            let known = self.pen.look(|state| state.windows.get(ask.agent).copied());
            let request = Request {
                input: course.words.as_deref().unwrap_or(request.input),
                window: known
                    .filter(|(program, _)| *program == companion.program())
                    .map(|(_, window)| window),
                ..*request
            };
            let full = async {
                match self.context_full {
                    ContextFull::Agent => std::future::pending().await,
                    ContextFull::Handoff | ContextFull::Pause => ear.full().await,
                }
            };
            // Dropping the question ends the program with everything it started.
            let asked = tokio::select! {
                // An answer that is there is not given up for a context that it filled.
                biased;
                asked = companion.ask(request, way, &ear) => Ok(asked),
                percent = full => Err(Halt::Full(percent)),
                () = ear.limited() => Err(Halt::Limit),
            };
            drop(ear);
            let written = scribe.await.expect("what is heard is written down");
            self.budget.spend(written.usage, false);
            let rest = |usage: Usage| less(priced(ask.price, usage), written.usage);
            let asked = match asked {
                Ok(asked) => asked,
                Err(Halt::Limit) => {
                    if let Some(exchange) = &self.exchange {
                        exchange.reach_the_limit();
                    }
                    return Ok(Answer {
                        text: heard.last_words(),
                        usage: rest(written.heard),
                    });
                }
                Err(Halt::Full(percent))
                    if self.context_full == ContextFull::Pause || relieved == MOST_RELIEFS =>
                {
                    return Err(Trouble::Own(Error::ContextFull {
                        name: self.name.clone(),
                        path: ask.path.clone(),
                        percent,
                    }));
                }
                Err(Halt::Full(percent)) => {
                    self.observer.notice(&format!(
                        "step {}: {percent} % of the context is used; a fresh conversation goes on",
                        ask.path
                    ));
                    heard.break_off(Cause::Full);
                    relieved += 1;
                    left.extend(OWN);
                    continue;
                }
            };
            match asked {
                Ok(answer) => {
                    return Ok(Answer {
                        usage: rest(answer.usage),
                        ..answer
                    });
                }
                Err(error) if goes_on && fails_the_way(&error, written.entries) => {
                    self.observer.notice(&format!(
                        "step {}: {} cannot go on with its own conversation: {}",
                        ask.path,
                        companion.program(),
                        error.message
                    ));
                    left.extend(course.rung);
                }
                // What was said is known, so that a fresh conversation can go on.
                Err(error)
                    if error.kind == ErrorKind::ContextFull
                        && written.entries > 0
                        && relieved < MOST_RELIEFS =>
                {
                    self.observer.notice(&format!(
                        "step {}: {}; a fresh conversation goes on",
                        ask.path, error.message
                    ));
                    heard.break_off(Cause::Full);
                    relieved += 1;
                    left.extend(OWN);
                }
                Err(error) => {
                    listener.hear(Told::Usage(rest(written.heard)));
                    heard.break_off(Cause::Failed(self.failure(&error)));
                    return Err(error.into());
                }
            }
        }
    }

    /// How to ask: from the beginning, or by the first rung that holds.
    async fn course(
        &self,
        companion: &dyn Companion,
        ask: &Ask<'_>,
        revision: u32,
        heard: &Heard,
        left: &[Rung],
    ) -> Result<Course, Trouble> {
        self.pen.flush().await?;
        let mut state = self.pen.state();
        let open = state.open.remove(&ask.path);
        let native = open.as_ref().and_then(|open| open.native.clone());
        let before = self.begun.get(&ask.path);
        let said = self.said(ask, revision, heard.newest(), None);
        let Legacy {
            past,
            entries,
            own,
            unanswered,
        } = said.await?;
        if let Some(exchange) = &self.exchange
            && entries.len() == past
        {
            let native = native.or_else(|| exchange.past.native.clone());
            return self.follow_up(companion, ask, exchange, native, left).await;
        }
        let fresh = || companion::fresh(&*self.world.random);
        // The first attempt of all: nothing was begun that could go on.
        let begun_before = open.as_ref().is_some_and(|open| open.attempt > 1);
        if native.is_none() && !begun_before {
            return Ok(Course {
                id: fresh(),
                rung: None,
                has_record: false,
                words: None,
            });
        }
        let native_of = native.as_ref();
        let (world, workspace) = (&self.world, &self.workspace);
        let known = evidence::gather(world, self.session, companion, native_of, workspace);
        let mut remains = known.await.map_err(Trouble::Own)?;
        remains.evidence.left = left.to_vec();
        if before.is_some() {
            remains.evidence.left.extend(&self.wish.skipped);
        }
        let plan = choose(&remains.evidence);
        let unanswered = remains.unanswered(unanswered);
        let cause = heard
            .cause()
            .or_else(|| is_copied(&state, before).then_some(Cause::Copied))
            .unwrap_or_else(|| cause(&plan, open.as_ref(), before));
        let opened = native.as_ref().map_or(Seq(0), |native| native.opened);
        let noted = self.noted(&state, opened).await.map_err(Trouble::Own)?;
        let copied_from = state.forked.and_then(|forked| forked.workspace);
        let copied_from = copied_from.filter(|_| native.is_none());
        let seen = Seen {
            workspace,
            moved_from: remains.moved_from.as_deref().or(copied_from.as_deref()),
            sight: self.sight().await,
        };
        let id = match (&native, plan.rung) {
            (Some(native), Rung::Native | Rung::Repaired | Rung::Rehomed) => native.id.clone(),
            _ => fresh(),
        };
        let records = companion.records();
        if let (Rung::Repaired, Some(records)) = (plan.rung, records) {
            let done = records.repair(&id).await?;
            self.observer.notice(&format!("step {}: {done}", ask.path));
        }
        if let (Rung::Rehomed, Some(copy), Some(records)) = (plan.rung, &remains.copy, records) {
            records.settle(&id, copy, workspace).await?;
        }
        let mut has_record = OWN.contains(&plan.rung);
        if plan.rung == Rung::Other && !left.contains(&Rung::Other) {
            let mut all = entries.clone();
            all.insert(past, asked(&ask.input));
            has_record = self.compose(companion, ask, &id, &all).await?;
        }
        let words = match plan.rung {
            Rung::Other if has_record => noted + &reconcile::words(&cause, &seen, &unanswered, ""),
            Rung::Native | Rung::Repaired | Rung::Rehomed => {
                let missing = missing(&entries, own, remains.record.as_ref());
                let fence = Fence::new(&*self.world.random);
                let quoted = match context::history(&missing).as_str() {
                    "" => String::new(),
                    history => fence.quote("missing", history),
                };
                let words = noted + &reconcile::words(&cause, &seen, &unanswered, &quoted);
                match &self.exchange {
                    // What follows the message did not reach the record, so the message may not have.
                    Some(_) if missing.contains(&entries[past]) => format!(
                        "The message that you were answering:\n\n{}\n{words}",
                        fence.quote("message", &ask.input)
                    ),
                    _ => words,
                }
            }
            Rung::Compiled | Rung::Other => {
                let truth = reconcile::truth(&seen, &unanswered);
                self.begun_anew(ask, &cause, &truth, entries.split_at(past))
                    .await?
            }
        };
        let words = match &self.wish.say {
            Some(said) if before.is_some() => format!("{words}\n\n{said}"),
            _ => words,
        };
        Ok(Course {
            id,
            rung: Some(plan.rung),
            has_record,
            words: Some(words),
        })
    }

    /// Gives another program a record of what was said, if it takes one.
    pub(super) async fn compose(
        &self,
        companion: &dyn Companion,
        ask: &Ask<'_>,
        id: &str,
        entries: &[Entry],
    ) -> Result<bool, Trouble> {
        let Some(records) = companion.records() else {
            return Ok(false);
        };
        let lost = records.compose(id, entries, &self.workspace).await?;
        if !lost.is_empty() {
            self.observer.notice(&format!(
                "step {}: not carried over to {}: {}",
                ask.path,
                companion.program(),
                lost.join(", ")
            ));
        }
        Ok(true)
    }
}

/// What a person asked, as something that was said.
pub(crate) fn asked(text: &str) -> Entry {
    let text = text.to_owned();
    Entry::new(Said::User {
        origin: Origin::Person,
        parts: vec![Part::Text { text }],
    })
}

/// Whether the work stands as it did when the session was copied from another.
fn is_copied(state: &State, before: Option<&Open>) -> bool {
    let made = state.created.as_ref().map(|created| created.at);
    // All that is copied has the time of copying.
    state.forked.is_some()
        && before.is_some_and(|before| {
            Some(before.since) == made && !matches!(before.standing, Standing::Failed(_))
        })
}

/// Why the work was broken off. The newest attempt has just begun; what counts is the one before.
fn cause(plan: &Plan, open: Option<&Open>, before: Option<&Open>) -> Cause {
    let native = open.and_then(|open| open.native.as_ref());
    let full = native.and_then(|native| native.context?.percent());
    if plan.rung == Rung::Compiled && full.is_some_and(|percent| percent >= Gauge::FULL) {
        return Cause::Full;
    }
    before.map_or(Cause::Lost, |before| Cause::of(&before.standing))
}

/// Whether an error says that this way to go on does not work, rather than that the work failed.
fn fails_the_way(error: &agent::Error, entries: u64) -> bool {
    match error.kind {
        ErrorKind::NotFound | ErrorKind::ContextFull => true,
        // A program that falls over its own record says nothing before it does.
        ErrorKind::Crashed | ErrorKind::Invalid => entries == 0,
        _ => false,
    }
}

/// What is left of a usage when some of it is written down.
pub(crate) fn less(all: Usage, written: Usage) -> Usage {
    Usage {
        input_tokens: all.input_tokens.saturating_sub(written.input_tokens),
        output_tokens: all.output_tokens.saturating_sub(written.output_tokens),
        cost: Cost(all.cost.0.saturating_sub(written.cost.0)),
    }
}
