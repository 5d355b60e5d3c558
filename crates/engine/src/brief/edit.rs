//! Replaces the compiled resume context with the user's text.

use segno_core::journal::BriefEdited;
use segno_core::session::Summary;

use super::{BYTES_PER_TOKEN, TOKENS};
use crate::error::Error;
use crate::interlude::Interlude;
use crate::pen;
use crate::world::World;

/// Uses `text` as the resume context of the next run; an empty text restores the compiled one.
/// Refused while a run is active, because its agents already got their context.
pub async fn edit(world: &World, summary: &Summary, text: &str, by: &str) -> Result<(), Error> {
    let text = text.trim_end();
    let most = TOKENS * BYTES_PER_TOKEN;
    if text.len() > most {
        return Err(Error::LongBrief {
            bytes: text.len(),
            most,
        });
    }
    let interlude = Interlude::begin(world, summary).await?;
    let (text, _) = match pen::keep(world, text).await {
        Ok(kept) => kept,
        Err(error) => {
            interlude.leave().await;
            return Err(error.into());
        }
    };
    let by = by.to_owned();
    let edited = BriefEdited { text, by }.into();
    interlude.write(vec![edited]).await?;
    Ok(())
}
