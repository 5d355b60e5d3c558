//! Why the newest run of a session ended, in words.

use segno_core::session::Status;
use segno_core::state::State;

/// Why the newest run ended, if the journal says so. A run that was lost wrote no end: only its lease
/// tells that it is over.
pub fn why_ended(state: &State) -> Option<String> {
    if let Some(stopped) = &state.stopped {
        return Some(match &stopped.reason {
            Some(reason) => format!("requested by {}: {reason}", stopped.by),
            None => format!("requested by {}", stopped.by),
        });
    }
    if let Some(error) = &state.error {
        return Some(format!("{} ({})", error.message, error.kind));
    }
    match (&state.forked, state.status) {
        (Some(source), Status::Paused) if state.session_number == 0 => Some(format!(
            "this session is a fork of `{}`, which continues independently",
            source.name
        )),
        (_, Status::Interrupted) => Some("the process was lost".to_owned()),
        (_, Status::Waiting) => Some("a human had to answer a question".to_owned()),
        _ => None,
    }
}
