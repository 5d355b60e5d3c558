//! Sets the refs of a repository that was made.

use std::collections::BTreeSet;
use std::path::Path;

use super::bring;
use super::error::Error;
use super::objects::present;
use super::program::{Git, Input};
use super::restore::Missing;
use super::truth::{Oid, Raw, Truth};

/// The branch of a repository whose refs are not set yet.
pub(super) const UNSETTLED: &str = "segno/restoring";

/// Sets refs and HEAD, unless something has to be fetched first.
pub(super) fn settle(git: &Git, git_dir: &Path, truth: &Truth) -> Result<Vec<Missing>, Error> {
    let tips = truth.refs.iter().map(|one| (&one.name, &one.oid));
    let needs = truth.needs.iter().map(|need| (&need.name, &need.oid));
    let head = Raw::from(b"HEAD".as_slice());
    let commit = truth.head.commit.iter().map(|oid| (&head, oid));
    let all: Vec<_> = tips.chain(needs).chain(commit).collect();
    let there = present(git, all.iter().map(|(_, oid)| *oid))?;
    let missing = missing(truth, &all, &there);
    let waits = truth.needs.iter().any(|need| !there.contains(&need.oid));
    if waits || !is_unsettled(git)? {
        return Ok(missing);
    }
    set_refs(git, truth, &there, |_| true)?;
    set_head(git, truth, &there)?;
    bring::logs(git, git_dir, truth)?;
    Ok(missing)
}

pub(super) fn missing(truth: &Truth, all: &[(&Raw, &Oid)], there: &BTreeSet<Oid>) -> Vec<Missing> {
    let mut missing: Vec<Missing> = Vec::new();
    for (name, oid) in all {
        let known = missing
            .iter()
            .any(|other| other.oid == **oid && other.name == **name);
        if there.contains(*oid) || known {
            continue;
        }
        let need = truth.needs.iter().find(|need| need.oid == **oid);
        let need = need.or_else(|| truth.needs.first());
        missing.push(Missing {
            oid: (*oid).clone(),
            name: (*name).clone(),
            remote: need.map(|need| (need.remote.clone(), need.url.clone())),
        });
    }
    missing
}

/// Sets the refs whose objects are there. What has been fetched since is newer and stays.
pub(super) fn set_refs(
    git: &Git,
    truth: &Truth,
    there: &BTreeSet<Oid>,
    wanted: impl Fn(&Raw) -> bool,
) -> Result<(), Error> {
    let known = git.ask(&["for-each-ref", "--format=%(refname)"], Input::Nothing)?;
    let known: BTreeSet<&[u8]> = known.split(|byte| *byte == b'\n').collect();
    let refs = truth.refs.iter().filter(|one| wanted(&one.name));
    let refs = refs.filter(|one| !known.contains(one.name.0.as_slice()));
    let mut input = Vec::new();
    for one in refs
        .clone()
        .filter(|one| one.target.is_none() && there.contains(&one.oid))
    {
        check_name(&one.name)?;
        input.extend([b"update ", one.name.0.as_slice(), b"\0"].concat());
        input.extend([one.oid.as_str().as_bytes(), b"\0\0"].concat());
    }
    git.ask(
        &["update-ref", "--no-deref", "-z", "--stdin"],
        Input::Bytes(&input),
    )?;
    for one in refs {
        if let Some(target) = &one.target {
            point(git, &one.name, target)?;
        }
    }
    Ok(())
}

/// Whether refs are still to be set.
fn is_unsettled(git: &Git) -> Result<bool, Error> {
    let head = git.ask_maybe(&["symbolic-ref", "-q", "--short", "HEAD"], Input::Nothing)?;
    Ok(head.is_some_and(|head| head.trim_ascii_end() == UNSETTLED.as_bytes()))
}

/// Puts HEAD where it was.
pub(super) fn set_head(git: &Git, truth: &Truth, there: &BTreeSet<Oid>) -> Result<(), Error> {
    if let Some(branch) = &truth.head.branch {
        return point(git, &Raw::from(b"HEAD".as_slice()), branch);
    }
    match &truth.head.commit {
        Some(commit) if there.contains(commit) => {
            let args = ["update-ref", "--no-deref", "HEAD", commit.as_str()];
            git.ask(&args, Input::Nothing).map(drop)
        }
        _ => Ok(()),
    }
}

/// Makes one ref another name for a second.
fn point(git: &Git, name: &Raw, target: &Raw) -> Result<(), Error> {
    check_name(target)?;
    if name.0 != b"HEAD" {
        check_name(name)?;
    }
    let args = [
        "symbolic-ref".as_ref(),
        name.as_path().as_os_str(),
        target.as_path().as_os_str(),
    ];
    git.ask(&args, Input::Nothing).map(drop)
}

/// Refuses a ref outside of `refs/`; what else is wrong with a name git finds out.
fn check_name(name: &Raw) -> Result<(), Error> {
    if name.0.starts_with(b"refs/") && !name.0.contains(&0) {
        return Ok(());
    }
    let reason = "it does not begin with refs/";
    Err(Error::damaged(format!("the ref {name}"), reason))
}
