//! Who asks, and where.

use std::fmt;

/// A part of the world that AWS has machines in. Its name becomes part of an address, so it has only
/// letters, digits and hyphens.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Region(String);

impl Region {
    /// The region of this name; `None` if no region can be called that.
    pub fn new(name: &str) -> Option<Self> {
        let fits = |c: char| c.is_ascii_lowercase() || c.is_ascii_digit() || c == '-';
        let is_name = (1..=32).contains(&name.len()) && name.chars().all(fits);
        is_name.then(|| Self(name.to_owned()))
    }

    /// Where Bedrock is in it.
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

/// What a request shows so that it is answered. It cannot be printed.
#[derive(Clone)]
pub enum Access {
    /// Nothing: a place of one's own may not ask.
    Open,
    /// A key of Bedrock's own.
    Bearer(String),
    /// A signature.
    Keys {
        /// The name of the key.
        id: String,
        /// The key, which is never sent.
        secret: String,
        /// What temporary keys come with.
        session: Option<String>,
        /// What the signature is good for.
        region: Region,
    },
}

impl Access {
    /// The text without anything that is secret here.
    pub(super) fn hide(&self, text: &str) -> String {
        let secrets = match self {
            Access::Open => vec![],
            Access::Bearer(key) => vec![key],
            Access::Keys {
                id,
                secret,
                session,
                ..
            } => [Some(secret), session.as_ref(), Some(id)]
                .into_iter()
                .flatten()
                .collect(),
        };
        let told = secrets.into_iter().filter(|secret| !secret.is_empty());
        told.fold(text.to_owned(), |text, secret| {
            text.replace(secret, "[hidden]")
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_region_cannot_lead_elsewhere() {
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
    fn what_was_shown_is_not_told() {
        let access = Access::Keys {
            id: "AKID".into(),
            secret: "sEcret".into(),
            session: Some("tOken".into()),
            region: Region::new("eu-west-1").unwrap(),
        };
        let told = access.hide("Credential=AKID x-amz-security-token:tOken sEcret");
        let expected = "Credential=[hidden] x-amz-security-token:[hidden] [hidden]";
        assert_eq!(told, expected);
        assert_eq!(Access::Bearer("k".into()).hide("a k"), "a [hidden]");
        assert_eq!(Access::Bearer(String::new()).hide("a"), "a");
    }
}
