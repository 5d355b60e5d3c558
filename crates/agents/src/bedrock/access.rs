//! Credentials and regions.

use std::fmt;

/// An AWS region. Its name becomes part of a URL, so it has only letters, digits and hyphens.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Region(String);

impl Region {
    /// `None` if the name is no valid region.
    pub fn new(name: &str) -> Option<Self> {
        let fits = |c: char| c.is_ascii_lowercase() || c.is_ascii_digit() || c == '-';
        let is_name = (1..=32).contains(&name.len()) && name.chars().all(fits);
        is_name.then(|| Self(name.to_owned()))
    }

    /// Bedrock's base URL in this region.
    pub fn base(&self) -> String {
        let ending = if self.0.starts_with("cn-") { ".cn" } else { "" };
        format!("https://bedrock-runtime.{self}.amazonaws.com{ending}")
    }

    pub(super) fn as_str(&self) -> &str {
        &self.0
    }
}

impl fmt::Display for Region {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.0)
    }
}

/// The credentials of a request. They cannot be printed.
#[derive(Clone)]
pub enum Credentials {
    /// None: a private endpoint may not need any.
    Anonymous,
    /// An API key of Bedrock.
    Bearer(String),
    /// An AWS access key, which signs requests.
    AccessKey {
        /// The access key id.
        id: String,
        /// The secret key, which is never sent.
        secret: String,
        /// The session token of temporary keys.
        session: Option<String>,
        /// The region that the signature is valid for.
        region: Region,
    },
}

impl Credentials {
    /// Redacts all credentials in the text.
    pub(super) fn redact(&self, text: &str) -> String {
        let secrets = match self {
            Credentials::Anonymous => vec![],
            Credentials::Bearer(key) => vec![key],
            Credentials::AccessKey {
                id,
                secret,
                session,
                ..
            } => [Some(secret), session.as_ref(), Some(id)]
                .into_iter()
                .flatten()
                .collect(),
        };
        let secrets = secrets.into_iter().filter(|secret| !secret.is_empty());
        secrets.fold(text.to_owned(), |text, secret| {
            text.replace(secret, "[hidden]")
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn region_name_cannot_change_the_host() {
        for name in ["", "a.b", "a/b", "a@b", "eu west", "EU", &"a".repeat(33)] {
            assert_eq!(Region::new(name), None, "{name}");
        }
        let base = |name: &str| Region::new(name).unwrap().base();
        let expected = "https://bedrock-runtime.eu-west-1.amazonaws.com";
        assert_eq!(base("eu-west-1"), expected);
        let expected = "https://bedrock-runtime.cn-north-1.amazonaws.com.cn";
        assert_eq!(base("cn-north-1"), expected);
    }

    #[test]
    fn credentials_are_redacted() {
        let access = Credentials::AccessKey {
            id: "AKID".into(),
            secret: "sEcret".into(),
            session: Some("tOken".into()),
            region: Region::new("eu-west-1").unwrap(),
        };
        let redacted = access.redact("Credential=AKID x-amz-security-token:tOken sEcret");
        let expected = "Credential=[hidden] x-amz-security-token:[hidden] [hidden]";
        assert_eq!(redacted, expected);
        assert_eq!(Credentials::Bearer("k".into()).redact("a k"), "a [hidden]");
        assert_eq!(Credentials::Bearer(String::new()).redact("a"), "a");
    }
}
