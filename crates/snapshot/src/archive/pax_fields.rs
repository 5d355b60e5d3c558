//! The PAX records of one member.

use std::collections::BTreeMap;
use std::ffi::OsString;
use std::os::unix::ffi::OsStringExt;

use crate::archive::names::unescape;
use crate::archive::{excluded, pax};
use crate::entry::FileTime;

#[derive(Default)]
pub(super) struct PaxFields {
    pub(super) path: Option<Vec<u8>>,
    pub(super) link: Option<Vec<u8>>,
    pub(super) size: Option<u64>,
    pub(super) modified: Option<FileTime>,
    pub(super) attributes: BTreeMap<OsString, Vec<u8>>,
    pub(super) unstable: bool,
}

impl PaxFields {
    /// Parses records. Refuses duplicates, because other programs may use the other one.
    pub(super) fn read(records: &[u8]) -> Result<Self, &'static str> {
        let mut fields = Self::default();
        for (key, value) in pax::records(records)? {
            let new = match key {
                b"path" => fields.path.replace(value.to_vec()).is_none(),
                b"linkpath" => fields.link.replace(value.to_vec()).is_none(),
                b"size" => {
                    let size = std::str::from_utf8(value).ok();
                    let size = size.and_then(|size| size.parse().ok());
                    let size = size.ok_or("its size is not a number")?;
                    fields.size.replace(size).is_none()
                }
                b"mtime" => {
                    let time = pax::parse_time(value).ok_or("its time is not a number")?;
                    fields.modified.replace(time).is_none()
                }
                b"comment" => {
                    fields.unstable |= value == excluded::UNSTABLE;
                    true
                }
                key if key.starts_with(b"GNU.sparse") => return Err("it is a sparse file"),
                // Attributes outside the namespace `user` belong to the machine, not to the files.
                key => match key.strip_prefix(b"SCHILY.xattr.") {
                    Some(name) if name.starts_with(b"user.") => {
                        let name =
                            unescape(name).ok_or("an extended attribute has an invalid name")?;
                        let name = OsString::from_vec(name);
                        fields.attributes.insert(name, value.to_vec()).is_none()
                    }
                    _ => true,
                },
            };
            if !new {
                return Err("its extended header has a duplicate field");
            }
        }
        Ok(fields)
    }
}
