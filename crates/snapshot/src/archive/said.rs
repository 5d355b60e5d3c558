//! What the records before a thing in an archive say about it.

use std::collections::BTreeMap;
use std::ffi::OsString;
use std::os::unix::ffi::OsStringExt;

use crate::archive::names::unescape;
use crate::archive::{left, pax};
use crate::entry::Moment;

/// What the records before a thing say.
#[derive(Default)]
pub(super) struct Said {
    pub(super) path: Option<Vec<u8>>,
    pub(super) link: Option<Vec<u8>>,
    pub(super) size: Option<u64>,
    pub(super) modified: Option<Moment>,
    pub(super) attributes: BTreeMap<OsString, Vec<u8>>,
    pub(super) unstable: bool,
}

impl Said {
    /// Reads records. What is said twice is refused: others may believe the other.
    pub(super) fn read(records: &[u8]) -> Result<Self, &'static str> {
        let mut said = Self::default();
        for (key, value) in pax::records(records)? {
            let new = match key {
                b"path" => said.path.replace(value.to_vec()).is_none(),
                b"linkpath" => said.link.replace(value.to_vec()).is_none(),
                b"size" => {
                    let size = std::str::from_utf8(value).ok();
                    let size = size.and_then(|size| size.parse().ok());
                    let size = size.ok_or("its size is not a number")?;
                    said.size.replace(size).is_none()
                }
                b"mtime" => {
                    let moment = pax::read_moment(value).ok_or("its time is not a number")?;
                    said.modified.replace(moment).is_none()
                }
                b"comment" => {
                    said.unstable |= value == left::UNSTABLE;
                    true
                }
                key if key.starts_with(b"GNU.sparse") => return Err("it is a sparse file"),
                // Attributes that are not the user's belong to the machine, not to the files.
                key => match key.strip_prefix(b"SCHILY.xattr.") {
                    Some(name) if name.starts_with(b"user.") => {
                        let name = unescape(name).ok_or("an attribute has a name that none has")?;
                        let name = OsString::from_vec(name);
                        said.attributes.insert(name, value.to_vec()).is_none()
                    }
                    _ => true,
                },
            };
            if !new {
                return Err("it is described twice");
            }
        }
        Ok(said)
    }
}
