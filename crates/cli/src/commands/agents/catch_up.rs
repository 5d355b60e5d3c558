//! Adds to an adopted conversation what the user and the agent said outside of Segno, before Segno
//! continues it.

use segno_core::store::Summary;
use segno_engine::Env;
use segno_integrations::transcripts::{self, Outcome};

use crate::output::{stderr_line, text};

/// Reads the transcript of an adopted conversation, if it has grown. An error does not keep the
/// user from continuing: what is missing is added later.
pub(crate) async fn catch_up(env: &Env, summary: Summary) -> Summary {
    match transcripts::catch_up(env, &summary).await {
        Ok(Some(adopted)) if adopted.outcome == Outcome::Updated => {
            if adopted.entries > 0 {
                let items = text::count(adopted.entries, "item");
                stderr_line(&format!(
                    "{} was continued elsewhere: {items} added",
                    summary.name
                ));
            }
            // The lease was taken and released meanwhile.
            env.store.summary(summary.id).await.unwrap_or(summary)
        }
        Ok(_) => summary,
        Err(error) => {
            let name = &summary.name;
            stderr_line(&text::sanitize(&format!(
                "note: the transcript of {name} was not read: {error}"
            )));
            summary
        }
    }
}
