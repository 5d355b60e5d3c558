//! The state of a chat, folded from its journal: the agent, message counts, and which messages still
//! count.

use serde::{Deserialize, Serialize};

use super::open::set_newest;
use super::{NativeConversation, OpenStep};
use crate::journal::{ChatOpened, Ending, ExchangeEnded, Seq, StepStarted};
use crate::step::Path;
use crate::time::Timestamp;

/// The state of a chat.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Chat {
    /// The agent that answers.
    pub agent: String,
    /// How many times the model may answer within one exchange.
    pub max_turns: u32,
    /// The number of user messages.
    pub messages: u64,
    /// The number of the next message.
    #[serde(rename = "next")]
    pub next_number: u64,
    /// The number of answered exchanges.
    pub answers: u64,
    /// How many times the model answered, in ended exchanges.
    pub replies: u64,
    /// How many tools the model requested, in ended exchanges.
    pub tool_calls: u64,
    /// When the last message was sent, by either side.
    pub last_message_at: Timestamp,
    /// How the newest ended exchange ended.
    pub ending: Option<Ending>,
    /// The model that answered in it, if known.
    pub model: Option<String>,
    /// The event since which messages count: the chat was opened or cleared.
    pub since: Seq,
    /// The conversation that the CLI agent opened last for the messages that count, if any.
    pub native: Option<NativeConversation>,
    /// The other conversations that CLI agents opened for them, the newest last.
    pub earlier: Vec<NativeConversation>,
}

impl Chat {
    pub(super) fn opened(event: &ChatOpened, at: Timestamp, seq: Seq) -> Self {
        Self {
            agent: event.agent.clone(),
            max_turns: event.max_turns,
            messages: 0,
            next_number: 0,
            answers: 0,
            replies: 0,
            tool_calls: 0,
            last_message_at: at,
            ending: None,
            model: None,
            since: seq,
            native: None,
            earlier: Vec::new(),
        }
    }

    /// The step path of a message.
    pub fn message_path(number: u64) -> Path {
        Path::root("messages").join(number.to_string())
    }

    /// Whether a path is that of a message.
    pub fn is_message(path: &Path) -> bool {
        let number = path.as_str().strip_prefix("messages/");
        number.is_some_and(|number| number.parse::<u64>().is_ok())
    }

    /// Counts a user message, unless it is a further attempt at the same message.
    pub(super) fn count_message(&mut self, event: &StepStarted, at: Timestamp) {
        if event.attempt > 1 || event.revision > 0 {
            return;
        }
        self.messages += 1;
        self.last_message_at = at;
        let number = event.path.as_str().rsplit('/').next();
        let number = number.and_then(|number| number.parse::<u64>().ok());
        self.next_number = number.map_or(self.next_number, |number| number + 1);
    }

    /// Counts an answer of the agent.
    pub(super) fn count_answer(&mut self, open: Option<&OpenStep>, at: Timestamp) {
        self.answers += 1;
        self.last_message_at = at;
        self.retain_native(open);
    }

    /// Ends an exchange. `open` is its message, if that has no result: an adopted answer has none.
    pub(super) fn end_exchange(
        &mut self,
        event: &ExchangeEnded,
        open: Option<&OpenStep>,
        at: Timestamp,
    ) {
        if open.is_some() && matches!(event.ending, Ending::EndTurn | Ending::MaxTurns) {
            self.answers += 1;
            self.last_message_at = at;
        }
        self.replies += event.replies;
        self.tool_calls += event.tool_calls;
        self.ending = Some(event.ending);
        self.model = event.model.clone().or(self.model.take());
        self.retain_native(open);
    }

    pub(super) fn clear(&mut self, seq: Seq) {
        self.since = seq;
        self.native = None;
        self.earlier.clear();
    }

    /// The conversation of an earlier exchange that continues under `id`: the same, or a copy of the
    /// newest.
    pub(super) fn conversation(&self, id: &str) -> Option<&NativeConversation> {
        let same = self.earlier.iter().find(|it| it.id == id);
        same.or(self.native.as_ref())
    }

    /// Keeps the conversations of this exchange, so that the next exchange resumes the newest.
    fn retain_native(&mut self, open: Option<&OpenStep>) {
        let opened = open
            .iter()
            .flat_map(|open| open.earlier.iter().chain(&open.native));
        for native in opened {
            set_newest(&mut self.native, &mut self.earlier, native.clone());
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::cli_agent::CliAgentKind;
    use crate::digest::Digest;
    use crate::id::SessionId;
    use crate::journal::{
        ChatCleared, ConversationOpened, Event, JournalEvent, Run, StepFinished, Text,
    };
    use crate::state::{IllegalEvent, State};

    /// Folds these events into a chat whose session already exists.
    fn folded(events: &[Event]) -> Result<State, IllegalEvent> {
        let mut state = State::empty(SessionId::new(Timestamp(1), [7; 10]));
        state.created = Some(crate::state::Created {
            name: crate::id::Name::sanitized("talk"),
            kind: crate::session::Kind::Chat,
            workspace: "/".into(),
            spec_path: String::new(),
            variables: std::collections::BTreeMap::new(),
            out: "/".into(),
            force: false,
            commit: None,
            pattern: None,
            at: Timestamp(0),
        });
        for (at, event) in (1..).zip(events) {
            let (run, at) = (state.run, Timestamp(at));
            let record = state.head.seal(run, at, event);
            state.apply(&JournalEvent {
                seq: record.seq,
                run,
                at,
                event: event.clone(),
                hash: record.hash,
            })?;
        }
        assert_eq!(state.run, Run(0));
        Ok(state)
    }

    fn opened() -> Event {
        let agent = "a".into();
        ChatOpened {
            agent,
            max_turns: 20,
        }
        .into()
    }

    fn asked(number: u64, attempt: u32) -> Event {
        StepStarted {
            path: Chat::message_path(number),
            revision: 0,
            attempt,
            agent: "a".into(),
            input: Text::Inline("?".into()),
            input_digest: Digest::of(b"?"),
            resume_context: None,
        }
        .into()
    }

    fn ended(number: u64, ending: Ending) -> Event {
        ExchangeEnded {
            path: Chat::message_path(number),
            ending,
            replies: 2,
            tool_calls: 1,
            model: None,
        }
        .into()
    }

    #[test]
    fn second_attempt_is_not_a_new_message() {
        let state = folded(&[
            opened(),
            asked(0, 1),
            asked(0, 2),
            ended(0, Ending::Abandoned),
        ])
        .unwrap();
        let chat = state.chat.unwrap();
        assert_eq!((chat.messages, chat.next_number), (1, 1));
        assert_eq!((chat.replies, chat.tool_calls), (2, 1));
        assert_eq!(chat.last_message_at, Timestamp(2));
        assert!(state.open_steps.is_empty());
    }

    fn finished(number: u64) -> Event {
        StepFinished {
            path: Chat::message_path(number),
            revision: 0,
            attempt: 1,
            output: Text::Inline("!".into()),
            usage: crate::usage::Usage::default(),
            elapsed_ms: 1,
            context: None,
        }
        .into()
    }

    /// The CLI agent opens its conversation for a message.
    fn native(number: u64, id: &str) -> Event {
        ConversationOpened {
            path: Chat::message_path(number),
            revision: 0,
            attempt: 1,
            program: CliAgentKind::Codex,
            native_id: id.into(),
            folder: "/".into(),
            home: None,
            strategy: None,
        }
        .into()
    }

    #[test]
    fn answers_are_counted_and_dated() {
        let state = folded(&[opened(), asked(0, 1), finished(0), asked(1, 1), finished(1)]);
        let chat = state.unwrap().chat.unwrap();
        assert_eq!((chat.messages, chat.answers), (2, 2));
        assert_eq!(chat.last_message_at, Timestamp(5));
    }

    #[test]
    fn message_of_a_later_revision_is_not_new() {
        let Event::StepStarted(mut again) = asked(0, 1) else {
            unreachable!()
        };
        again.revision = 1;
        let state = folded(&[opened(), asked(0, 1), again.into()]).unwrap();
        assert_eq!(state.chat.unwrap().messages, 1);
    }

    #[test]
    fn next_exchange_knows_the_newest_conversation() {
        let id = |events: &[Event]| {
            let chat = folded(events).unwrap().chat.unwrap();
            chat.native.map(|native| native.id)
        };
        let mut events = vec![opened(), asked(0, 1), native(0, "n"), finished(0)];
        assert_eq!(id(&events), Some("n".to_owned()));
        // An exchange without a conversation of its own leaves it.
        events.extend([asked(1, 1), ended(1, Ending::Stopped)]);
        assert_eq!(id(&events), Some("n".to_owned()));
        events.extend([asked(2, 1), native(2, "m"), ended(2, Ending::Stopped)]);
        assert_eq!(id(&events), Some("m".to_owned()));
        let chat = folded(&events).unwrap().chat.unwrap();
        let earlier: Vec<_> = chat.earlier.iter().map(|it| it.id.as_str()).collect();
        assert_eq!(earlier, ["n"]);
    }

    #[test]
    fn clear_drops_open_steps_and_native_conversation() {
        let by = "me".into();
        let cleared: Event = ChatCleared { by }.into();
        let state = folded(&[opened(), asked(0, 1), cleared]).unwrap();
        let chat = state.chat.unwrap();
        assert_eq!((chat.since, chat.native), (Seq(3), None));
        assert!(state.open_steps.is_empty());
        assert_eq!(chat.next_number, 1, "no number is given twice");
    }

    #[test]
    fn exchange_outside_a_chat_is_refused() {
        let error = folded(&[ended(0, Ending::EndTurn)]).unwrap_err();
        assert!(error.reason.contains("not a chat"));
    }
}
