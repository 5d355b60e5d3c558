//! What there is of some work, before it goes on.

use std::path::Path;

use segno_core::companion::{Companion, Health, Record};
use segno_core::conversation::analysis::Unanswered;
use segno_core::id::SessionId;
use segno_core::ladder::Evidence;
use segno_core::state::Native;

use crate::checkpoint;
use crate::error::Error;
use crate::world::World;

/// What is left of a conversation.
#[derive(Default)]
pub(crate) struct Remains {
    /// What decides how the work goes on.
    pub(crate) evidence: Evidence,
    /// A kept copy of the program's record, if the program itself has none.
    pub(crate) copy: Option<Vec<u8>>,
    /// The program's own record.
    pub(crate) record: Option<Record>,
}

impl Remains {
    /// How long the record is that the work would go on from.
    pub(crate) fn bytes(&self) -> u64 {
        let copy = self.copy.as_ref().map(|copy| copy.len() as u64);
        let record = self.record.as_ref().map(|record| record.bytes);
        copy.or(record).unwrap_or_default()
    }

    /// Calls whose outcome is unknown, from the program's record and from what was `heard` of it: each
    /// may have what the other lacks.
    pub(crate) fn unanswered(&self, heard: Vec<Unanswered>) -> Vec<Unanswered> {
        let Some((record, recorded)) = self.record.as_ref().and_then(|record| {
            let recorded = record.unanswered.as_ref()?;
            Some((record, recorded))
        }) else {
            return heard;
        };
        let mut all = recorded.clone();
        // Where names do not tell, the same call would be there twice.
        if let Some(named) = &record.named {
            let reached = |call: &Unanswered| named.contains(&call.id);
            all.extend(heard.into_iter().filter(|call| !reached(call)));
        }
        all
    }
}

/// Looks at what is left of a conversation, if there was one.
pub(crate) async fn gather(
    world: &World,
    session: SessionId,
    companion: &dyn Companion,
    native: Option<&Native>,
) -> Result<Remains, Error> {
    let Some(native) = native else {
        return Ok(Remains::default());
    };
    let other_agent = native.program != companion.program();
    let (mut health, mut record) = (None, None);
    if !other_agent {
        let looked = companion.record(&native.id, Path::new(&native.folder));
        match looked.await {
            Ok(found) => {
                health = found.as_ref().map(|found| found.health.clone());
                record = found;
            }
            Err(error) => health = Some(Health::Unreadable(error.message)),
        }
    }
    let copy = match health {
        None | Some(Health::Empty) if !other_agent => {
            checkpoint::kept_conversation(world, session, native).await?
        }
        _ => None,
    };
    let evidence = Evidence {
        id: Some(native.id.clone()),
        other_agent,
        record: health,
        copy: copy.is_some(),
        gauge: native.context,
        left: Vec::new(),
    };
    Ok(Remains {
        evidence,
        copy,
        record,
    })
}
