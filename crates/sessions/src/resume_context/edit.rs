//! Replaces the compiled resume context with the user's text.

use segno_core::error::{Diagnose, Diagnosis, Kind};
use segno_core::journal::ResumeContextEdited;
use segno_core::store::{Error as StoreError, Summary};
use segno_engine::between_runs::{self, BetweenRuns};
use segno_engine::resume::context::{BYTES_PER_TOKEN, MAX_TOKENS};
use segno_engine::{Env, journal};

/// Why the resume context was not replaced.
#[derive(Debug, thiserror::Error)]
pub enum Error {
    #[error(transparent)]
    Store(#[from] StoreError),
    #[error(transparent)]
    BetweenRuns(#[from] between_runs::Error),
    #[error("the edited resume context has {bytes} bytes; the limit is {most}")]
    TooLong { bytes: usize, most: usize },
}

impl Diagnose for Error {
    fn diagnosis(&self) -> Diagnosis {
        match self {
            Self::Store(error) => error.diagnosis(),
            Self::BetweenRuns(error) => error.diagnosis(),
            Self::TooLong { .. } => Diagnosis::new(Kind::Invalid, "R0157")
                .hint("shorten it; omit what the agent can find in the files"),
        }
    }
}

/// Uses `text` as the resume context of the next run; an empty text restores the compiled one.
/// Refused while a run is active, because its agents already got their context.
pub async fn edit(env: &Env, summary: &Summary, text: &str, by: &str) -> Result<(), Error> {
    let text = text.trim_end();
    let most = MAX_TOKENS * BYTES_PER_TOKEN;
    if text.len() > most {
        return Err(Error::TooLong {
            bytes: text.len(),
            most,
        });
    }
    let between_runs = BetweenRuns::acquire(env, summary).await?;
    let (text, _) = match journal::redact_and_store(env, text).await {
        Ok(kept) => kept,
        Err(error) => {
            between_runs.release().await;
            return Err(error.into());
        }
    };
    let by = by.to_owned();
    let edited = ResumeContextEdited { text, by }.into();
    between_runs.append(vec![edited]).await?;
    Ok(())
}
