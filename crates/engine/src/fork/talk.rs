//! Conversations of a copy: what an agent's program has of the other's, under a name of its own.
//!
//! The bytes wait in a snapshot that the copy's journal names, and are put where the program looks for
//! them when the copy is first gone on with. The other conversation is only read.

use std::path::Path as FilePath;

use segno_core::companion::{self, Health, Kept};
use segno_core::digest::Digest;
use segno_core::journal::AgentOpened;
use segno_core::lease::Verdict;
use segno_core::session::Summary;
use segno_core::state::Native;
use segno_core::step::Path;

use super::Part;
use super::past::Past;
use crate::checkpoint::records::{self, as_papers};
use crate::claim;
use crate::error::Error;
use crate::world::World;

/// A conversation that goes on in a copy.
pub(super) struct Talk {
    /// The step.
    path: Path,
    /// What it is in the other session.
    native: Native,
    /// What it is called in the copy.
    pub(super) id: String,
    /// What the program had of it.
    record: Kept,
}

impl Talk {
    /// Whether an entry of the other session says that this conversation was begun or gone on with.
    pub(super) fn is_opened_by(&self, opened: &AgentOpened) -> bool {
        (&self.path, self.native.program, &self.native.id)
            == (&opened.path, opened.program, &opened.native)
    }
}

/// The conversations that go on, as far as there are records of them that have nothing from later.
pub(super) async fn gather(
    world: &World,
    summary: &Summary,
    past: &Past,
    part: &Part,
) -> Result<Vec<Talk>, Error> {
    let mut talks = Vec::new();
    for path in &past.begun {
        let Some(native) = past.state.open[path].native.clone() else {
            continue;
        };
        if let Some(record) = record(world, summary, past, part, &native).await? {
            talks.push(Talk {
                path: path.clone(),
                native,
                id: companion::fresh(&*world.random),
                record,
            });
        }
    }
    Ok(talks)
}

async fn record(
    world: &World,
    summary: &Summary,
    past: &Past,
    part: &Part,
    native: &Native,
) -> Result<Option<Kept>, Error> {
    let Part::Until(manifest, _) = part else {
        return newest(world, summary, native).await;
    };
    if let Some(papers) = manifest.papers
        && let Some(record) = records::among(world, papers, native).await?
    {
        return Ok(Some(record));
    }
    // The program's own record is of now. It has nothing from later only if nothing happened since.
    let adopted = past.state.adopted.as_ref();
    let lease = world.store.lease(summary.id).await?;
    let at_rest = claim::verdict(world, &lease) != Verdict::Held;
    if at_rest && adopted.is_none() && summary.head.seq == manifest.journal.seq {
        return newest(world, summary, native).await;
    }
    let forked = past.state.forked.as_ref().and_then(|forked| forked.papers);
    for papers in adopted
        .map(|adopted| adopted.papers)
        .into_iter()
        .chain(forked)
    {
        if let Some(record) = records::among(world, papers, native).await? {
            return Ok(Some(record));
        }
    }
    Ok(None)
}

/// What the program has now, or what is kept of it.
async fn newest(world: &World, summary: &Summary, native: &Native) -> Result<Option<Kept>, Error> {
    if let Some(companion) = world.drivers.companion(native.program)
        && let Some(records) = companion.records()
    {
        let folder = FilePath::new(&native.folder);
        let known = companion.record(&native.id, folder).await;
        let health = known.ok().flatten().map(|record| record.health);
        if let Some(Health::Whole | Health::Damaged(_)) = health
            && let Ok(record) = records.copy(&native.id).await
        {
            return Ok(Some(record));
        }
    }
    records::newest(world, summary.id, native).await
}

/// The records by the names that they have among papers.
pub(super) fn papers(talks: &[Talk]) -> Vec<(String, Vec<u8>)> {
    let paper = |talk: &Talk| as_papers(talk.native.program, &talk.id, talk.record.clone());
    talks.iter().flat_map(paper).collect()
}

/// Keeps the records; durable when it returns.
pub(super) async fn keep(world: &World, talks: &[Talk]) -> Result<Option<Digest>, Error> {
    if talks.is_empty() {
        return Ok(None);
    }
    Ok(Some(world.snapshots.keep(papers(talks)).await?))
}
