//! Which conversation continues, of those that CLI agents have had for a step or in a chat.

use super::NativeConversation;
use crate::cli_agent::CliAgentKind;

/// The conversation that continues by default, of those that a CLI agent has had, ordered by when they
/// were last opened. That is the newest one; but a conversation that was started from a summary takes
/// the place of the one before it only once the agent has said something in it.
pub fn default_conversation(
    conversations: &[&NativeConversation],
    program: CliAgentKind,
) -> Option<NativeConversation> {
    let newest = conversations.last()?;
    let counts =
        |it: &&&NativeConversation| it.program == program && (it.spoke || !it.is_from_summary());
    let spoken = conversations.iter().rev().find(counts);
    let silent = newest.program == program && newest.is_from_summary() && !newest.spoke;
    let chosen = spoken.filter(|_| silent).unwrap_or(newest);
    Some((*chosen).clone())
}

/// The conversations that an explicit request for the native strategy goes back to, best first: those
/// that were not started from a summary, the newest first.
pub fn whole_conversations<'a>(
    conversations: &[&'a NativeConversation],
    program: CliAgentKind,
) -> Vec<&'a NativeConversation> {
    let whole = conversations.iter().rev().copied();
    whole
        .filter(|it| it.program == program && !it.is_from_summary())
        .collect()
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::journal::Seq;
    use crate::resume::Strategy;

    fn conversation(id: &str, strategies: &[Strategy], spoke: bool) -> NativeConversation {
        NativeConversation {
            program: CliAgentKind::Codex,
            id: id.into(),
            folder: "/".into(),
            home: None,
            context: None,
            strategies: strategies.to_vec(),
            spoke,
            cost: None,
            counted: crate::usage::Usage::default(),
            reported_at: None,
            opened: Seq(0),
        }
    }

    #[test]
    fn silent_summarized_conversation_replaces_nothing() {
        let first = conversation("a", &[Strategy::Native], true);
        let silent = conversation("b", &[Strategy::Summarized, Strategy::Native], false);
        let spoken = conversation("c", &[Strategy::Summarized], true);
        let handed = conversation("d", &[Strategy::Handoff], false);
        for (known, expected) in [
            (vec![], None),
            (vec![&silent], Some("b")),
            (vec![&first, &silent], Some("a")),
            (vec![&first, &spoken], Some("c")),
            (vec![&first, &spoken, &silent], Some("c")),
            (vec![&spoken, &first], Some("a")),
            (vec![&first, &handed], Some("d")),
        ] {
            let chosen = default_conversation(&known, CliAgentKind::Codex);
            assert_eq!(chosen.map(|it| it.id).as_deref(), expected, "{known:?}");
        }
        // Another agent has nothing to go back to.
        let other = default_conversation(&[&first, &silent], CliAgentKind::ClaudeCode);
        assert_eq!(other.unwrap().id, "b");
    }

    #[test]
    fn going_back_prefers_the_newest_whole_conversation() {
        let first = conversation("a", &[], true);
        let summarized = conversation("b", &[Strategy::Summarized], true);
        let handed = conversation("c", &[Strategy::Handoff], true);
        let known = [&first, &handed, &summarized];
        let ids = |program| {
            let whole = whole_conversations(&known, program).into_iter();
            whole.map(|it| it.id.as_str()).collect::<Vec<_>>()
        };
        assert_eq!(ids(CliAgentKind::Codex), ["c", "a"]);
        assert_eq!(ids(CliAgentKind::Acp), [""; 0]);
    }
}
