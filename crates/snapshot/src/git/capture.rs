//! Captures one repository.

use std::io::Write;
use std::path::Path;
use std::time::Duration;

use super::error::Error;
use super::objects::Want;
use super::place;
use super::shadow::{PATIENCE, Shadow};
use super::truth::{Need, Oid, Raw, Reference, Remote, Truth, VERSION};
use super::{inert, kept, survey};

/// How long packing may take unless something else is said.
const PACKING: Duration = Duration::from_mins(20);

/// How far back the pack goes.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub enum Reach {
    /// Everything: nothing has to be fetched to restore it.
    #[default]
    Everything,
    /// What no remote is known to have. The rest must be fetched before it is whole.
    Unpushed,
}

/// How a repository is captured.
#[derive(Debug, Clone)]
pub struct Wish {
    /// How far back the pack goes.
    pub reach: Reach,
    /// Objects that another pack of the same checkpoint has, with all that is reachable from them:
    /// for a further worktree the refs of the repository it belongs to.
    pub held: Vec<Oid>,
    /// How long one command of git may take.
    pub limit: Duration,
    /// How long finding the objects and packing them may take, each.
    pub pack_limit: Duration,
}

impl Default for Wish {
    fn default() -> Self {
        Self {
            reach: Reach::default(),
            held: Vec::new(),
            limit: PATIENCE,
            pack_limit: PACKING,
        }
    }
}

/// Captures the repository at `path` of the workspace at `root`, an absolute path, and writes its
/// objects to `out` as a git pack. Nothing is written into the repository and no program is
/// started but git.
pub fn capture(root: &Path, path: &Path, wish: &Wish, out: &mut dyn Write) -> Result<Truth, Error> {
    let folder = if path.as_os_str().is_empty() {
        root.to_owned()
    } else {
        root.join(path)
    };
    let place = place::at(&folder).ok_or_else(|| Error::NoRepository {
        place: folder.display().to_string(),
    })?;
    let shadow = Shadow::patient(&place, wish.limit)?;
    let git = shadow.git();
    let link = survey::link(root, &place);
    let mut notes = survey::notes(&place, &shadow);
    let head = survey::head(&git)?;
    let refs = survey::refs(&git)?;
    let stashes = survey::stashes(&git, &refs).unwrap_or_else(|error| {
        notes.push(format!("the list of stashes: {error}"));
        Vec::new()
    });
    let (status, upstream) = survey::status(&shadow, &mut notes);
    let (submodules, indexed) = survey::submodules(&shadow, &place)?;
    notes.extend(survey::not_checked_out(&place, &submodules));
    let remotes = survey::remotes(&shadow.settings);
    let own_only = link.is_some() && !wish.held.is_empty();
    let (files, spoken) = kept::collect(&shadow, &place, own_only, &mut notes)?;
    let needs = match wish.reach {
        Reach::Everything => Vec::new(),
        Reach::Unpushed => needs(&refs, &remotes),
    };
    let mut tips: Vec<Oid> = head.commit.iter().cloned().chain(spoken).collect();
    tips.extend(indexed);
    let wanted = refs
        .iter()
        .filter(|one| !own_only || survey::is_own(&one.name));
    tips.extend(wanted.map(|one| one.oid.clone()));
    let without = needs.iter().map(|need| need.oid.clone());
    let want = Want {
        tips,
        without: without.chain(wish.held.iter().cloned()).collect(),
        head: head.commit.as_ref(),
        logs: !own_only,
        index: !shadow.sparse,
        files: &files,
    };
    let patient = git.clone().within_time(wish.pack_limit);
    let found = want.find(&patient, shadow.scratch())?;
    let pack = found.pack(&patient, out)?;
    let mut inert = inert::collect(&place);
    inert.extend(shadow.inert.iter().cloned());
    Ok(Truth {
        version: VERSION,
        path: Raw::from(path),
        format: shadow.format,
        bare: shadow.bare,
        head,
        upstream,
        refs,
        stashes,
        status,
        submodules,
        worktrees: survey::worktrees(&place),
        remotes,
        activities: kept::activities(&place),
        shallow: place.common.join("shallow").is_file(),
        partial: shadow.partial,
        link,
        settings: shadow.settings.clone(),
        own_settings: shadow.own_settings.clone(),
        inert,
        files,
        pack,
        needs,
        missing: found.missing,
        notes,
    })
}

/// What the remotes that can be asked are known to have.
fn needs(refs: &[Reference], remotes: &[Remote]) -> Vec<Need> {
    let need = |one: &Reference| {
        let remote = remotes.iter().find(|remote| {
            let prefix = format!("refs/remotes/{}/", remote.name);
            one.name.0.starts_with(prefix.as_bytes())
        })?;
        one.target.is_none().then(|| Need {
            remote: remote.name.clone(),
            url: remote.url.clone(),
            name: one.name.clone(),
            oid: one.oid.clone(),
        })
    };
    refs.iter().filter_map(need).collect()
}
