//! What a person wants agents to be told instead of a compiled brief.

use segno_core::journal::BriefEdited;
use segno_core::session::Summary;

use super::{BYTES_PER_TOKEN, TOKENS};
use crate::error::Error;
use crate::interlude::Interlude;
use crate::pen;
use crate::world::World;

/// Lets agents be told `text` in the next run; an empty one lets it be compiled as usual again. Refused
/// while somebody runs the session: what its agents were told is told.
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
