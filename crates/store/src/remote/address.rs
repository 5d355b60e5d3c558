//! The URL of a remote.

use std::path::{Path, PathBuf};

use segno_core::remote::{Error, is_object_name};

#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) enum Address {
    /// A bucket, and the prefix of every object name in it.
    Bucket {
        bucket: String,
        /// Empty, or words joined by `/`.
        prefix: String,
    },
    /// A local or mounted folder.
    Folder(PathBuf),
}

impl Address {
    /// Parses `s3://BUCKET/PREFIX` and `file:///FOLDER`.
    pub(super) fn parse(url: &str) -> Result<Self, Error> {
        let refuse = |reason: &str| {
            Err(Error::Url {
                url: without_credentials(url),
                reason: reason.to_owned(),
            })
        };
        if let Some(folder) = url.strip_prefix("file://") {
            let folder = Path::new(folder);
            if !folder.is_absolute() {
                return refuse("the folder after `file://` must be an absolute path");
            }
            return Ok(Address::Folder(folder.to_owned()));
        }
        let Some(rest) = url.strip_prefix("s3://") else {
            return refuse("it begins with neither `s3://` nor `file://`");
        };
        let (bucket, prefix) = rest.split_once('/').unwrap_or((rest, ""));
        let prefix = prefix.trim_end_matches('/');
        let allowed = |c: char| c.is_ascii_alphanumeric() || matches!(c, '.' | '-' | '_');
        if bucket.is_empty() || !bucket.chars().all(allowed) {
            return refuse("a bucket name consists of letters, digits, `.`, `-` and `_`");
        }
        if !prefix.is_empty() && !is_object_name(prefix) {
            return refuse(
                "a prefix consists of letters, digits, `.`, `-` and `_`, separated by `/`",
            );
        }
        Ok(Address::Bucket {
            bucket: bucket.to_owned(),
            prefix: prefix.to_owned(),
        })
    }
}

/// The part of a URL that may be shown: not what precedes an `@`, where keys are put by mistake.
fn without_credentials(url: &str) -> String {
    match url.rsplit_once('@') {
        Some((_, rest)) => format!("…@{rest}"),
        None => url.to_owned(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn key_in_a_url_is_not_shown() {
        let error = Address::parse("s3://key:secret@bucket/x").unwrap_err();
        assert!(!error.to_string().contains("secret"), "{error}");
        assert!(error.to_string().contains("…@bucket/x"), "{error}");
    }

    #[test]
    fn remote_urls_name_a_bucket_or_folder() {
        let bucket = |bucket: &str, prefix: &str| Address::Bucket {
            bucket: bucket.to_owned(),
            prefix: prefix.to_owned(),
        };
        assert_eq!(Address::parse("s3://b"), Ok(bucket("b", "")));
        assert_eq!(Address::parse("s3://b.c/x/y/"), Ok(bucket("b.c", "x/y")));
        let folder = Address::Folder("/mnt/share".into());
        assert_eq!(Address::parse("file:///mnt/share"), Ok(folder));
        for bad in [
            "",
            "b",
            "s3://",
            "s3:///x",
            "s3://b/../c",
            "s3://b/a//c",
            "s3://k:s@b/x",
            "s3://b/x?y=1",
            "file://relative",
            "https://b/x",
            "gs://b",
        ] {
            assert!(
                matches!(Address::parse(bad), Err(Error::Url { .. })),
                "{bad}"
            );
        }
    }
}
