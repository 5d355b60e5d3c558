//! What was said in a step so far, whoever said it, and how another is told.

use segno_core::companion::Record;
use segno_core::conversation::analysis::{Analysis, Unanswered};
use segno_core::conversation::messages::from_messages;
use segno_core::conversation::{Entry, Said};
use segno_core::journal::{Event, Seq};
use segno_core::ladder::Rung;
use segno_core::model::{Message, ToolResult};
use segno_core::state::State;

use super::Flow;
use super::converse::Trouble;
use super::step::Ask;
use crate::brief::{self, Known, Section};
use crate::context::{self, Fence};
use crate::error::Error;
use crate::pen;
use crate::reconcile::{self, Cause, Seen};

/// How many bytes of what was said are looked at for what an agent is told.
const MEMORY: usize = 8 << 20;

/// How many of the newest things that were said are looked for in a record that is short.
const NEWEST: usize = 64;

/// What there is of a step that was begun before.
pub(super) struct Legacy {
    /// What was said, oldest first.
    pub(super) entries: Vec<Entry>,
    /// How much of it was said before this step, in the chat that the step belongs to.
    pub(super) past: usize,
    /// From where on it was said in the newest conversation of a program, or after it.
    pub(super) own: usize,
    /// Calls that have no answer.
    pub(super) unanswered: Vec<Unanswered>,
}

impl Flow {
    /// What an agent is told that begins anew; `said` is what was said before this step, in a chat, and in
    /// it.
    pub(super) async fn begun_anew(
        &self,
        ask: &Ask<'_>,
        cause: &Cause,
        truth: &str,
        said: (&[Entry], &[Entry]),
    ) -> Result<String, Trouble> {
        if self.exchange.is_some() {
            return Ok(self.broken_off(ask, cause, truth, said));
        }
        let compiled = self.compiled(ask, cause, truth, said.1);
        compiled.await.map_err(Trouble::Own)
    }

    /// The same for a step that is no message of a chat.
    async fn compiled(
        &self,
        ask: &Ask<'_>,
        cause: &Cause,
        truth: &str,
        entries: &[Entry],
    ) -> Result<String, Error> {
        let fence = Fence::new(&*self.world.random);
        let task = fence.quote("task", &ask.input);
        let told = cause.told();
        let mut words = format!("{task}\nThis task was begun before, and broken off: {told}. ");
        // What git sees is told below, as it is now.
        let brief = self.brief(&told, |section| section != Section::Git);
        words.push_str(&brief.await?);
        words.push('\n');
        let history = context::history(entries);
        if history.is_empty() {
            words.push_str("Nothing that was said is known.\n\n");
        } else {
            words.push_str("What was said and done is quoted here; it is a record, too.\n\n");
            words.push_str(&fence.quote("record", &history));
            words.push('\n');
        }
        words.push_str(truth);
        words.push_str("\nGo on with the task from where it stands. What is done already stays as it is; do not do it again.");
        Ok(words)
    }

    /// What is known of the whole work so far, quoted: as a person wants it told, or compiled.
    pub(crate) async fn brief(
        &self,
        ended: &str,
        wanted: impl Fn(Section) -> bool,
    ) -> Result<String, Error> {
        let state = self.pen.state();
        let random = &*self.world.random;
        if let Some(edited) = brief::edited(&self.world, self.session, &state).await? {
            return Ok(brief::quoted(&edited, random));
        }
        let known = Known {
            name: self.name.as_str(),
            runs: state.runs,
            issue: self.outline.issue.as_deref(),
            tasks: &self.outline.tasks(&state, Some(&self.finished)),
            done: state.finished,
            handoff: &state.handoff,
            sight: None,
            ended: Some(ended),
            usage: state.usage,
        };
        let brief = brief::compile(&known, brief::TOKENS).only(wanted);
        Ok(brief::quoted(&brief.text(), random))
    }

    /// What is known of the tasks before, for an agent that does one of a plan: each begins afresh. The
    /// plan itself stands in what it is asked. Nothing if there is nothing, or no plan.
    pub(super) async fn lore(&self) -> Result<String, Error> {
        let is_nothing = |state: &State| state.handoff.is_empty() && state.brief.is_none();
        if !self.brake.in_task() || self.pen.look(is_nothing) {
            return Ok(String::new());
        }
        let elsewhere = [
            Section::Session,
            Section::Issue,
            Section::Plan,
            Section::Done,
            Section::Pending,
            Section::Git,
            Section::Next,
        ];
        let brief = self.brief("", |section| !elsewhere.contains(&section));
        Ok(format!("\n\n{}", brief.await?))
    }

    /// What an agent is told besides that goes on with its own conversation: what people noted since
    /// `opened`, or what one wants it to be told. Nothing if there is nothing.
    pub(super) async fn noted(&self, state: &State, opened: Seq) -> Result<String, Error> {
        let edited = brief::edited(&self.world, self.session, state).await?;
        let text = match edited {
            Some(edited) => edited,
            None => brief::noted_after(&state.handoff, opened).join("\n"),
        };
        if text.is_empty() {
            return Ok(text);
        }
        let fence = Fence::new(&*self.world.random);
        let quoted = fence.quote("noted", text.trim_end());
        Ok(format!(
            "A person noted this for you meanwhile:\n\n{quoted}\n"
        ))
    }

    /// What was said in this step so far, as far as it is needed, and what it adds up to. `end` is the
    /// first entry that does not count.
    pub(super) async fn said(
        &self,
        ask: &Ask<'_>,
        revision: u32,
        newest: Vec<Entry>,
        end: Option<Seq>,
    ) -> Result<Legacy, Trouble> {
        let seqs = self.finished.turns(&ask.path, revision, ask.digest());
        let seqs = seqs.iter().filter(|seq| end.is_none_or(|end| **seq < end));
        let mut entries = newest;
        entries.reverse();
        let (mut room, mut own) = (MEMORY, None);
        for seq in seqs.rev() {
            let event = self.world.store.entry(self.session, *seq).await?.event;
            if let Event::AgentOpened(event) = &event
                && matches!(event.rung, None | Some(Rung::Compiled | Rung::Other))
            {
                own.get_or_insert(entries.len());
            }
            let Some((mut said, bytes)) = self.spoken(*seq, &event).await? else {
                continue;
            };
            let Some(rest) = room.checked_sub(bytes) else {
                break;
            };
            room = rest;
            said.reverse();
            entries.append(&mut said);
        }
        entries.reverse();
        let mut analysis = Analysis::new();
        entries.iter().for_each(|entry| analysis.add(entry));
        let own = own.map(|count| entries.len() - count);
        let before = self.exchange.as_ref().map(|exchange| &exchange.past);
        let past = before.map_or(0, |before| before.entries.len());
        // The conversation may be one that earlier exchanges were in.
        let since = before.map_or(0, |before| before.own);
        if let Some(before) = before {
            entries.splice(0..0, before.entries.iter().cloned());
        }
        Ok(Legacy {
            past,
            own: own.map_or(since, |own| past + own),
            entries,
            unanswered: analysis.finish().unanswered,
        })
    }

    /// What an entry of the journal says that was said, and how long it is there.
    async fn spoken(
        &self,
        seq: Seq,
        event: &Event,
    ) -> Result<Option<(Vec<Entry>, usize)>, Trouble> {
        let text = match event {
            Event::AgentSaid(event) => &event.entries,
            Event::ModelReplied(event) => &event.parts,
            Event::ToolFinished(event) => &event.output,
            _ => return Ok(None),
        };
        let text = pen::recall(&self.world, text).await?;
        let bytes = text.len();
        let entries = match event {
            Event::ToolFinished(event) => Ok(from_messages(&[Message::Tools {
                results: vec![ToolResult {
                    id: event.call.clone(),
                    output: text,
                    is_error: event.is_error,
                }],
            }])),
            Event::ModelReplied(_) => serde_json::from_str(&text)
                .map(|parts| from_messages(&[Message::Assistant { parts }])),
            _ => serde_json::from_str(&text),
        };
        let entries = entries.map_err(|error| {
            Trouble::Own(Error::Senseless {
                session: self.session,
                reason: format!("record {seq} holds nothing that was said: {error}"),
            })
        })?;
        Ok(Some((entries, bytes)))
    }

    /// What an agent is asked that took a step over and keeps no conversation of its own, and since
    /// which entry it has it; `None` if the step was its own from the beginning.
    pub(super) async fn inherited(
        &self,
        ask: &Ask<'_>,
        revision: u32,
    ) -> Result<Option<(Seq, String)>, Trouble> {
        self.pen.flush().await?;
        let handed = |state: &State| state.open.get(&ask.path)?.handed;
        let Some(handed) = self.pen.look(handed) else {
            return Ok(None);
        };
        let legacy = self.said(ask, revision, Vec::new(), Some(handed)).await?;
        let before = self.begun.get(&ask.path);
        let cause = before.map_or(Cause::Lost, |before| Cause::of(&before.standing));
        let seen = Seen {
            workspace: &self.workspace,
            moved_from: None,
            sight: self.sight().await,
        };
        let truth = reconcile::truth(&seen, &legacy.unanswered);
        let said = legacy.entries.split_at(legacy.past);
        let words = self.begun_anew(ask, &cause, &truth, said).await?;
        let words = match &self.wish.say {
            Some(said) => format!("{words}\n\n{said}"),
            None => words,
        };
        Ok(Some((handed, words)))
    }
}

/// What was said and did not reach the program's record: programs tell what they do before they write
/// it down.
pub(super) fn missing(entries: &[Entry], own: usize, record: Option<&Record>) -> Vec<Entry> {
    let Some(named) = record.and_then(|record| record.named.as_ref()) else {
        return Vec::new();
    };
    // An answer has the name of its call, so it counts how often a name is there.
    let count = |name: &str| named.iter().filter(|known| *known == name).count();
    // A record in which nothing is called as it was reported has other names, and does not tell.
    let mut reported = entries[own..].iter().flat_map(|entry| entry.said.names());
    if !named.is_empty() && !reported.any(|name| count(name) > 0) {
        return Vec::new();
    }
    let newest = entries[own..].iter().rev().take(named.len().max(NEWEST));
    let (mut missing, mut followed) = (Vec::new(), false);
    for entry in newest {
        let least = if matches!(entry.said, Said::Result(_)) {
            2
        } else {
            1
        };
        // Words without a name are as lost as the call that they led to.
        if entry.said.names().next().is_some() {
            followed = entry.said.names().any(|name| count(name) < least);
        }
        if followed {
            missing.push(entry.clone());
        }
    }
    missing.reverse();
    missing
}

#[cfg(test)]
pub(super) mod tests {
    use segno_core::companion::Health;
    use segno_core::conversation::{Answer, Outcome, Utterance};
    use segno_core::model::ToolCall;
    use serde_json::Value;

    use super::*;

    fn spoken(part: Utterance) -> Entry {
        Entry::new(Said::Assistant {
            message: None,
            model: None,
            parts: vec![part],
            usage: None,
        })
    }

    fn text(text: &str) -> Entry {
        spoken(Utterance::Text { text: text.into() })
    }

    pub(in super::super) fn call(id: &str) -> Entry {
        spoken(Utterance::Call(ToolCall {
            id: id.into(),
            name: "Bash".into(),
            input: Value::Null,
        }))
    }

    pub(in super::super) fn result(id: &str) -> Entry {
        Entry::new(Said::Result(Answer {
            id: id.into(),
            parts: Vec::new(),
            outcome: Outcome::Succeeded,
        }))
    }

    #[test]
    fn what_is_missing_is_what_the_record_does_not_name_and_the_words_that_led_to_it() {
        let said = [
            text("one"),
            call("a"),
            result("a"),
            text("two"),
            call("b"),
            result("b"),
            text("three"),
        ];
        for (named, from) in [
            (Some(vec!["a", "a", "b", "b"]), said.len()..said.len()),
            (Some(vec!["a", "a", "b"]), 5..6),
            (Some(vec!["a", "a"]), 3..6),
            (Some(vec!["a"]), 2..6),
            (Some(vec![]), 0..6),
            // Names of its own, and none at all.
            (Some(vec!["x", "y"]), 0..0),
            (None, 0..0),
        ] {
            let record = Record {
                bytes: 0,
                health: Health::Whole,
                unanswered: None,
                named: named
                    .clone()
                    .map(|names| names.iter().map(ToString::to_string).collect()),
            };
            let missing = missing(&said, 0, Some(&record));
            assert_eq!(missing, said[from], "{named:?}");
        }
    }
}
