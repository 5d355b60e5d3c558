//! What a repository has that could start a program: read for a person's eyes, never brought back.

use std::os::unix::fs::PermissionsExt;

use crate::scope::peek;

use super::place::Place;
use super::truth::{Inert, InertKind};

/// How much of a hook is kept for a person to read.
const CONTENT: u64 = 64 * 1024;

/// How many hooks are looked at.
const HOOKS: usize = 100;

/// The hooks that git would run, and attributes that only this repository has.
pub(super) fn collect(place: &Place) -> Vec<Inert> {
    let mut found = Vec::new();
    let hooks = place.common.join("hooks");
    let mut names = peek::entries(&hooks, HOOKS).unwrap_or_default();
    names.sort();
    for (name, _) in names {
        let path = hooks.join(&name);
        let runs = std::fs::metadata(&path)
            .is_ok_and(|metadata| metadata.is_file() && metadata.permissions().mode() & 0o111 != 0);
        let name = name.to_string_lossy().into_owned();
        if runs && !name.ends_with(".sample") {
            let content = peek::start(&path, CONTENT);
            found.push(inert(InertKind::Hook, name, &content));
        }
    }
    let attributes = peek::start(&place.common.join("info/attributes"), CONTENT);
    if !attributes.is_empty() {
        found.push(inert(
            InertKind::Attributes,
            "info/attributes".into(),
            &attributes,
        ));
    }
    found
}

pub(super) fn inert(kind: InertKind, name: String, content: &[u8]) -> Inert {
    Inert {
        kind,
        name,
        content: String::from_utf8_lossy(content).into_owned(),
    }
}

/// A setting's value without the credentials in it.
pub(super) fn without_credentials(key: &str, value: &str) -> String {
    let key = key.to_ascii_lowercase();
    let secret = [
        "extraheader",
        "token",
        "password",
        "passwd",
        "secret",
        "cookie",
    ];
    if secret.iter().any(|word| key.contains(word)) {
        return "(removed)".into();
    }
    clean_address(value)
}

/// An address without user, password and query. The user of ssh is part of the address and stays.
pub(super) fn clean_address(address: &str) -> String {
    let Some((scheme, rest)) = address.split_once("://") else {
        return address.to_owned();
    };
    let (host, path) = match rest.find('/') {
        Some(end) => rest.split_at(end),
        None => (rest, ""),
    };
    let (user, host) = match host.rsplit_once('@') {
        Some((user, host)) => (Some(user), host),
        None => (None, host),
    };
    if scheme.ends_with("ssh") {
        let user = user.map(|user| user.split_once(':').map_or(user, |(user, _)| user));
        let user = user.map(|user| format!("{user}@")).unwrap_or_default();
        return format!("{scheme}://{user}{host}{path}");
    }
    let path = path.split_once('?').map_or(path, |(path, _)| path);
    format!("{scheme}://{host}{path}")
}

/// A text without the credentials in the addresses it has.
pub(super) fn clean_text(text: &[u8]) -> Vec<u8> {
    let words = text.split_inclusive(u8::is_ascii_whitespace);
    let clean = |word: &[u8]| match std::str::from_utf8(word) {
        Ok(word) => clean_address(word).into_bytes(),
        Err(_) => word.to_vec(),
    };
    words.flat_map(clean).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_address_comes_without_credentials() {
        for (address, clean) in [
            ("https://me:secret@h/x.git", "https://h/x.git"),
            ("https://token@h:8443/x", "https://h:8443/x"),
            ("https://a@b@h/x", "https://h/x"),
            ("https://h/x?access_token=1", "https://h/x"),
            ("ssh://git:secret@h/x", "ssh://git@h/x"),
            ("git@h:x.git", "git@h:x.git"),
            ("../x.git", "../x.git"),
        ] {
            assert_eq!(clean_address(address), clean);
        }
    }

    #[test]
    fn a_text_comes_without_the_credentials_in_it() {
        let text = b"a b <c@d> 1 +0000\tpull https://me:x@h/y main: done\n\xff\n";
        let clean = b"a b <c@d> 1 +0000\tpull https://h/y main: done\n\xff\n";
        assert_eq!(clean_text(text), clean);
    }
}
