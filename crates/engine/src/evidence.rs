//! What there is of some work, before it goes on.

use std::path::Path;

use segno_core::companion::{Companion, Health, Kept, Record};
use segno_core::conversation::analysis::Unanswered;
use segno_core::id::SessionId;
use segno_core::ladder::Evidence;
use segno_core::state::Native;

use crate::checkpoint::records;
use crate::error::Error;
use crate::world::World;

/// What is left of a conversation.
#[derive(Default)]
pub(crate) struct Remains {
    /// What decides how the work goes on.
    pub(crate) evidence: Evidence,
    /// A kept copy of the program's record, if the program itself has none.
    pub(crate) copy: Option<Kept>,
    /// What is in the record that the work would go on from: the program's own, or the copy.
    pub(crate) record: Option<Record>,
    /// The folder that the conversation was about, if the work goes on in another.
    pub(crate) moved_from: Option<String>,
}

impl Remains {
    /// What is left of a conversation of which the program has nothing, and of which a copy may be kept.
    pub(crate) async fn of_copy(
        companion: &dyn Companion,
        native: &Native,
        copy: Option<Kept>,
        workspace: &Path,
    ) -> Self {
        let mut remains = Self {
            moved_from: moved_from(native, workspace),
            evidence: Evidence {
                id: Some(native.id.clone()),
                other_agent: native.program != companion.program(),
                gauge: native.context,
                ..Evidence::default()
            },
            ..Self::default()
        };
        remains.take(companion, copy).await;
        remains
    }

    /// Takes a kept copy for the record, unless nobody could go on from it.
    async fn take(&mut self, companion: &dyn Companion, copy: Option<Kept>) {
        let (Some(copy), Some(records)) = (copy, companion.records()) else {
            return;
        };
        if let Ok(record) = records.look(&copy.record).await
            && matches!(record.health, Health::Whole | Health::Damaged(_))
        {
            self.evidence.copy = true;
            (self.copy, self.record) = (Some(copy), Some(record));
        }
    }

    /// How long the record is that the work would go on from.
    pub(crate) fn bytes(&self) -> u64 {
        let copy = self.copy.as_ref().map(|copy| copy.record.len() as u64);
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

/// Looks at what is left of a conversation, if there was one, before the work goes on in `workspace`.
pub(crate) async fn gather(
    world: &World,
    session: SessionId,
    companion: &dyn Companion,
    native: Option<&Native>,
    workspace: &Path,
) -> Result<Remains, Error> {
    let Some(native) = native else {
        return Ok(Remains::default());
    };
    let other_agent = native.program != companion.program();
    let (mut health, mut record) = (None, None);
    if !other_agent {
        let looked = companion.record(&native.id, workspace);
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
            records::newest(world, session, native).await?
        }
        _ => None,
    };
    let evidence = Evidence {
        id: Some(native.id.clone()),
        other_agent,
        record: health,
        gauge: native.context,
        ..Evidence::default()
    };
    let mut remains = Remains {
        evidence,
        copy: None,
        record,
        moved_from: moved_from(native, workspace),
    };
    remains.take(companion, copy).await;
    Ok(remains)
}

/// Programs find a conversation by its name, whichever folder it was begun in, so that their own record
/// holds after a move; only the agent has to hear of it.
fn moved_from(native: &Native, workspace: &Path) -> Option<String> {
    (Path::new(&native.folder) != workspace).then(|| native.folder.clone())
}
