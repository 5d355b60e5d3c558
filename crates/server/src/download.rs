//! Sends a file that a session wrote.
//!
//! A path that a journal names is opened below the folder that the session wrote into, without
//! following a link, and its content is compared with the digest in the journal before the first
//! byte leaves: whatever somebody puts in the file's place is not sent. A browser stores the file
//! and shows nothing of it.

use std::fmt::Write;
use std::fs::File;
use std::io::Read;
use std::os::fd::AsFd;
use std::path::Path;

use axum::http::header::{CONTENT_DISPOSITION, CONTENT_SECURITY_POLICY, CONTENT_TYPE, ETAG};
use axum::response::{IntoResponse, Response};
use rustix::fs::{FileType, Mode, OFlags};
use segno_core::digest::Digest;

use crate::error::Refusal;

/// The longest file that is sent, in bytes.
const MAX_BYTES: u64 = 64 << 20;

/// Types of files by their extensions; everything else is bytes.
const TYPES: &[(&str, &str)] = &[
    ("css", "text/css; charset=utf-8"),
    ("csv", "text/csv; charset=utf-8"),
    ("gif", "image/gif"),
    ("htm", "text/html; charset=utf-8"),
    ("html", "text/html; charset=utf-8"),
    ("jpeg", "image/jpeg"),
    ("jpg", "image/jpeg"),
    ("js", "text/javascript; charset=utf-8"),
    ("json", "application/json"),
    ("md", "text/markdown; charset=utf-8"),
    ("pdf", "application/pdf"),
    ("png", "image/png"),
    ("svg", "image/svg+xml"),
    ("txt", "text/plain; charset=utf-8"),
    ("xml", "application/xml"),
    ("yaml", "application/yaml"),
    ("yml", "application/yaml"),
];

/// The file at `path` below `folder`, if its content has this digest. Blocks.
pub(crate) fn read(folder: &Path, path: &str, digest: Digest) -> Result<Vec<u8>, Refusal> {
    let refused = |reason: String| Refusal::NoDownload {
        path: path.to_owned(),
        reason,
    };
    let bytes = content(folder, path).map_err(|error| refused(error.to_string()))?;
    if bytes.len() as u64 > MAX_BYTES {
        return Err(refused(format!("it has more than {MAX_BYTES} bytes")));
    }
    if Digest::of(&bytes) != digest {
        let reason = "the file is not the one that the session wrote";
        return Err(refused(reason.to_owned()));
    }
    Ok(bytes)
}

/// At most one byte more than may be sent.
fn content(folder: &Path, path: &str) -> std::io::Result<Vec<u8>> {
    let root = rustix::fs::open(folder, segno_openat::FOLDER, Mode::empty())?;
    // Without `NONBLOCK`, a FIFO in the file's place would block.
    let flags = OFlags::RDONLY | OFlags::NOFOLLOW | OFlags::CLOEXEC | OFlags::NONBLOCK;
    let file = segno_openat::open(root.as_fd(), Path::new(path), flags)?;
    let found = rustix::fs::fstat(&file)?;
    if FileType::from_raw_mode(found.st_mode) != FileType::RegularFile {
        return Err(std::io::Error::other("it is not a regular file"));
    }
    let mut bytes = Vec::new();
    File::from(file)
        .take(MAX_BYTES + 1)
        .read_to_end(&mut bytes)?;
    Ok(bytes)
}

/// The answer with a file of this name.
pub(crate) fn attachment(path: &str, digest: Digest, bytes: Vec<u8>) -> Response {
    let name = path.rsplit('/').next().unwrap_or_default();
    let extension = name.rsplit_once('.').map(|(_, extension)| extension);
    let known = TYPES.iter().find(|(known, _)| {
        extension.is_some_and(|extension| extension.eq_ignore_ascii_case(known))
    });
    let kind = known.map_or("application/octet-stream", |(_, kind)| kind);
    let headers = [
        (CONTENT_TYPE, kind.to_owned()),
        (CONTENT_DISPOSITION, disposition(name)),
        (ETAG, format!("\"{digest}\"")),
        // Should a browser show it all the same, nothing in it runs.
        (
            CONTENT_SECURITY_POLICY,
            "default-src 'none'; sandbox; frame-ancestors 'none'".to_owned(),
        ),
    ];
    (headers, bytes).into_response()
}

/// `Content-Disposition` with a name in any alphabet (RFC 6266): ASCII for old clients, and UTF-8 in
/// percent encoding.
fn disposition(name: &str) -> String {
    let is_plain = |c: char| c.is_ascii_alphanumeric() || "-_. ".contains(c);
    let plain: String = name
        .chars()
        .map(|c| if is_plain(c) { c } else { '_' })
        .collect();
    let mut encoded = String::new();
    for byte in name.bytes() {
        if byte.is_ascii_alphanumeric() || b"-_.".contains(&byte) {
            encoded.push(char::from(byte));
        } else {
            write!(encoded, "%{byte:02X}").expect("text has no limit");
        }
    }
    format!("attachment; filename=\"{plain}\"; filename*=UTF-8''{encoded}")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_in_any_alphabet_are_encoded() {
        assert_eq!(
            disposition("a \"ü\".md"),
            "attachment; filename=\"a ___.md\"; filename*=UTF-8''a%20%22%C3%BC%22.md"
        );
    }
}
