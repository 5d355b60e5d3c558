//! Asks a repository about itself.

use std::path::Path;

use crate::scope::peek;

use super::error::Error;
use super::place::{self, Place};
use super::program::{Git, Input};
use super::shadow::{OWN_REFS, Shadow};
use super::status;
use super::truth::{
    Head, Link, Oid, Raw, Reference, Remote, Setting, Stash, Status, Submodule, Upstream,
};
use super::{config, inert, kept};

/// Whether a ref belongs to one worktree alone.
pub(super) fn is_own(name: &Raw) -> bool {
    let mut parts = name.0.splitn(3, |byte| *byte == b'/');
    let second = parts.nth(1).unwrap_or_default();
    OWN_REFS.iter().any(|own| own.as_bytes() == second)
}

pub(super) fn head(git: &Git) -> Result<Head, Error> {
    let branch = git.ask_maybe(&["symbolic-ref", "-q", "HEAD"], Input::Nothing)?;
    let commit = git.ask_maybe(&["rev-parse", "-q", "--verify", "HEAD"], Input::Nothing)?;
    Ok(Head {
        branch: branch.map(|name| Raw::from(name.trim_ascii_end())),
        commit: commit.and_then(|oid| Oid::from_bytes(oid.trim_ascii_end())),
    })
}

pub(super) fn refs(git: &Git) -> Result<Vec<Reference>, Error> {
    let format = "--format=%(objectname) %(refname)%00%(symref)";
    let answer = git.ask(&["for-each-ref", format], Input::Nothing)?;
    let lines = answer.split(|byte| *byte == b'\n');
    let one = |line: &[u8]| {
        let (oid, names) = line.split_at_checked(line.iter().position(|byte| *byte == b' ')?)?;
        let mut names = names[1..].split(|byte| *byte == 0);
        let name = Raw::from(names.next()?);
        let target = names.next().filter(|target| !target.is_empty());
        Some(Reference {
            name,
            oid: Oid::from_bytes(oid)?,
            target: target.map(Raw::from),
        })
    };
    Ok(lines.filter_map(one).collect())
}

pub(super) fn stashes(git: &Git, refs: &[Reference]) -> Result<Vec<Stash>, Error> {
    if !refs.iter().any(|one| one.name.0 == b"refs/stash") {
        return Ok(Vec::new());
    }
    let args = [
        "log",
        "-g",
        "-z",
        "--no-show-signature",
        "--format=%H %gs",
        "refs/stash",
        "--",
    ];
    let answer = git.ask(&args, Input::Nothing)?;
    let entries = answer.split(|byte| *byte == 0);
    let one = |entry: &[u8]| {
        let mut fields = entry.splitn(2, |byte| *byte == b' ');
        Some(Stash {
            oid: Oid::from_bytes(fields.next()?)?,
            message: Raw::from(fields.next().unwrap_or_default()),
        })
    };
    Ok(entries.filter_map(one).collect())
}

/// The submodules in the index; also all the objects in it, if git has to be told about them.
pub(super) fn submodules(
    shadow: &Shadow,
    place: &Place,
) -> Result<(Vec<Submodule>, Vec<Oid>), Error> {
    let git = shadow.git();
    let mut args = vec!["ls-files", "--stage", "-z", "--full-name"];
    args.extend(shadow.sparse.then_some("--sparse"));
    let (mut found, mut oids) = (Vec::new(), Vec::new());
    let mut rest: Vec<u8> = Vec::new();
    git.run(&args, Input::Nothing, &mut |piece| {
        rest.extend_from_slice(piece);
        let end = rest.iter().rposition(|byte| *byte == 0).unwrap_or(0);
        for entry in rest[..end].split(|byte| *byte == 0) {
            found.extend(submodule(entry));
            oids.extend(shadow.sparse.then(|| object(entry)).flatten());
        }
        rest.drain(..end);
        Ok(())
    })?;
    if found.is_empty() {
        return Ok((found, oids));
    }
    let urls = config::read_file(&git, &place.folder.join(".gitmodules")).unwrap_or_default();
    for submodule in &mut found {
        submodule.url = url(&urls, &submodule.path.to_string());
    }
    Ok((found, oids))
}

/// The object of an entry that is no submodule.
fn object(entry: &[u8]) -> Option<Oid> {
    let mut fields = entry.split(|byte| *byte == b' ');
    let mode = fields.next()?;
    fields
        .next()
        .filter(|_| mode != b"160000")
        .and_then(Oid::from_bytes)
}

/// `160000 <id> <stage>`, a tab, the path.
fn submodule(entry: &[u8]) -> Option<Submodule> {
    let rest = entry.strip_prefix(b"160000 ")?;
    let mut fields = rest.splitn(2, |byte| *byte == b'\t');
    let oid = fields.next()?.split(|byte| *byte == b' ').next()?;
    Some(Submodule {
        oid: Oid::from_bytes(oid)?,
        path: Raw::from(fields.next()?),
        url: None,
    })
}

/// The address that `.gitmodules` has for a path.
fn url(settings: &[Setting], path: &str) -> Option<String> {
    let name = |setting: &Setting| {
        let rest = setting.key.strip_prefix("submodule.")?;
        let name = rest
            .strip_suffix(".path")
            .filter(|_| setting.value == path)?;
        Some(name.to_owned())
    };
    let key = format!("submodule.{}.url", settings.iter().find_map(name)?);
    let url = settings.iter().find(|setting| setting.key == key)?;
    Some(inert::clean_address(&url.value))
}

pub(super) fn remotes(settings: &[Setting]) -> Vec<Remote> {
    let urls = settings.iter().filter_map(|setting| {
        let name = setting.key.strip_prefix("remote.")?.strip_suffix(".url")?;
        Some(Remote {
            name: name.to_owned(),
            url: setting.value.clone(),
        })
    });
    urls.collect()
}

/// Where git has written down that further worktrees are.
pub(super) fn worktrees(place: &Place) -> Vec<Raw> {
    let folder = place.common.join("worktrees");
    let mut entries = peek::entries(&folder, 10_000).unwrap_or_default();
    entries.sort();
    let found = entries.iter().filter_map(|(name, _)| {
        let content = peek::read(&folder.join(name).join("gitdir"), 16 * 1024).ok()?;
        let path = content.trim_ascii_end();
        Some(Raw::from(path.strip_suffix(b"/.git").unwrap_or(path)))
    });
    found.collect()
}

pub(super) fn link(root: &Path, place: &Place) -> Option<Link> {
    let main = place.main_folder()?;
    // The main folder is known by its real path, so the root has to be compared by its own.
    let root = std::fs::canonicalize(root).ok()?;
    Some(Link {
        main: Raw::from(main.strip_prefix(root).ok()?),
        name: Raw::from(Path::new(place.git_dir.file_name()?)),
    })
}

/// What is known not to be captured.
pub(super) fn notes(place: &Place, shadow: &Shadow) -> Vec<String> {
    let strangers = kept::strangers(place).into_iter();
    let mut notes: Vec<String> = strangers
        .map(|name| format!("not kept: .git/{name}"))
        .collect();
    let filters = shadow
        .inert
        .iter()
        .filter(|inert| inert.name.starts_with("filter."));
    if filters.count() > 0 {
        notes.push("its status was found out without the filters that are set".into());
    }
    notes
}

/// Submodules that git keeps although their files are not there.
pub(super) fn not_checked_out(place: &Place, submodules: &[Submodule]) -> Vec<String> {
    let there = submodules.iter().filter_map(|submodule| {
        let place = place::at(&place.folder.join(submodule.path.as_path()))?;
        Some(place.git_dir)
    });
    let there: Vec<_> = there.collect();
    let mut waiting = vec![place.git_dir.join("modules")];
    let mut notes = Vec::new();
    while let Some(folder) = waiting.pop() {
        if folder.join("HEAD").exists() {
            if !there.contains(&folder) {
                let name = folder.strip_prefix(&place.git_dir).unwrap_or(&folder);
                let name = name.display();
                notes.push(format!("not kept: .git/{name}, which is not checked out"));
            }
            continue;
        }
        let entries = peek::entries(&folder, 10_000).unwrap_or_default();
        let folders = entries.into_iter().filter(|(_, is_folder)| *is_folder);
        waiting.extend(folders.map(|(name, _)| folder.join(name)));
    }
    notes.sort();
    notes
}

/// Status and upstream, if they can be found out.
pub(super) fn status(
    shadow: &Shadow,
    notes: &mut Vec<String>,
) -> (Option<Status>, Option<Upstream>) {
    if shadow.bare {
        return (None, None);
    }
    match status::read(&shadow.git()) {
        Ok((status, upstream)) => (Some(status), upstream),
        Err(error) => {
            notes.push(format!("its status: {error}"));
            (None, None)
        }
    }
}
