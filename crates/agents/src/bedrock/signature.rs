//! AWS Signature Version 4: proves knowledge of a secret key without sending it.

use std::fmt::Write;

use ring::{digest, hmac};

const ALGORITHM: &str = "AWS4-HMAC-SHA256";

pub(super) struct Request<'a> {
    pub(super) method: &'a str,
    /// The path as it is sent, with its escapes. There is never a query.
    pub(super) path: &'a str,
    /// Names in lower case, sorted.
    pub(super) headers: &'a [(&'a str, &'a str)],
    pub(super) body: &'a [u8],
}

/// What the signature is valid for.
pub(super) struct Scope<'a> {
    /// Formatted as `20150830T123600Z`.
    pub(super) date: &'a str,
    pub(super) region: &'a str,
    pub(super) service: &'a str,
}

/// The value of the `authorization` header.
pub(super) fn authorization(
    request: &Request<'_>,
    scope: &Scope<'_>,
    id: &str,
    secret: &str,
) -> String {
    let signature = hmac::sign(
        &key(scope, secret),
        string_to_sign(request, scope).as_bytes(),
    );
    format!(
        "{ALGORITHM} Credential={id}/{}, SignedHeaders={}, Signature={}",
        scope.name(),
        request.names(),
        hex(signature.as_ref())
    )
}

/// Percent-encodes everything but what AWS calls unreserved.
pub(super) fn percent_encode(text: &str) -> String {
    let mut out = String::new();
    for byte in text.bytes() {
        match byte {
            b'A'..=b'Z' | b'a'..=b'z' | b'0'..=b'9' | b'-' | b'_' | b'.' | b'~' => {
                out.push(byte.into());
            }
            _ => {
                let _ = write!(out, "%{byte:02X}");
            }
        }
    }
    out
}

impl Scope<'_> {
    fn day(&self) -> &str {
        self.date.split('T').next().unwrap_or_default()
    }

    fn name(&self) -> String {
        let (region, service) = (self.region, self.service);
        format!("{}/{region}/{service}/aws4_request", self.day())
    }
}

impl Request<'_> {
    fn names(&self) -> String {
        let names: Vec<&str> = self.headers.iter().map(|(name, _)| *name).collect();
        names.join(";")
    }

    /// The canonical request. What is escaped in the path is escaped again, as all services but S3
    /// require.
    fn canonical(&self) -> String {
        let path: Vec<String> = self.path.split('/').map(percent_encode).collect();
        let mut headers = String::new();
        for (name, value) in self.headers {
            let _ = writeln!(headers, "{name}:{}", value.trim());
        }
        format!(
            "{}\n{}\n\n{headers}\n{}\n{}",
            self.method,
            path.join("/"),
            self.names(),
            hash(self.body)
        )
    }
}

fn string_to_sign(request: &Request<'_>, scope: &Scope<'_>) -> String {
    let hash = hash(request.canonical().as_bytes());
    format!("{ALGORITHM}\n{}\n{}\n{hash}", scope.date, scope.name())
}

fn key(scope: &Scope<'_>, secret: &str) -> hmac::Key {
    let words = [scope.day(), scope.region, scope.service, "aws4_request"];
    let first = hmac::Key::new(hmac::HMAC_SHA256, format!("AWS4{secret}").as_bytes());
    words.iter().fold(first, |key, word| {
        let next = hmac::sign(&key, word.as_bytes());
        hmac::Key::new(hmac::HMAC_SHA256, next.as_ref())
    })
}

fn hash(bytes: &[u8]) -> String {
    hex(digest::digest(&digest::SHA256, bytes).as_ref())
}

fn hex(bytes: &[u8]) -> String {
    bytes.iter().fold(String::new(), |mut text, byte| {
        let _ = write!(text, "{byte:02x}");
        text
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    const ID: &str = "AKIDEXAMPLE";
    const SECRET: &str = "wJalrXUtnFEMI/K7MDENG+bPxRfiCYEXAMPLEKEY";
    const SCOPE: Scope<'_> = Scope {
        date: "20150830T123600Z",
        region: "us-east-1",
        service: "service",
    };

    fn vanilla(method: &str) -> Request<'_> {
        Request {
            method,
            path: "/",
            headers: &[
                ("host", "example.amazonaws.com"),
                ("x-amz-date", "20150830T123600Z"),
            ],
            body: b"",
        }
    }

    /// `get-vanilla` and `post-vanilla` of AWS's test suite.
    #[test]
    fn signatures_match_the_aws_test_suite() {
        for (method, expected) in [
            (
                "GET",
                "5fa00fa31553b73ebf1942676e86291e8372ff2a2260956d9b8aae1d763fbf31",
            ),
            (
                "POST",
                "5da7c1a2acd57cee7505fc6676e4e544621c30862966e37dddb68e92efbe5d6b",
            ),
        ] {
            assert_eq!(
                authorization(&vanilla(method), &SCOPE, ID, SECRET),
                format!(
                    "AWS4-HMAC-SHA256 Credential=AKIDEXAMPLE/20150830/us-east-1/service/aws4_request, \
                     SignedHeaders=host;x-amz-date, Signature={expected}"
                )
            );
        }
    }

    #[test]
    fn string_to_sign_matches_the_aws_test_suite() {
        assert_eq!(
            string_to_sign(&vanilla("GET"), &SCOPE),
            "AWS4-HMAC-SHA256\n20150830T123600Z\n20150830/us-east-1/service/aws4_request\n\
             bb579772317eb040ac9ed261061d46c1f17a8133879d6129b6e1c25292927e63"
        );
    }

    /// The example in AWS's documentation of key derivation.
    #[test]
    fn signing_key_matches_the_aws_example() {
        let scope = Scope {
            service: "iam",
            ..SCOPE
        };
        let text = "AWS4-HMAC-SHA256\n20150830T123600Z\n20150830/us-east-1/iam/aws4_request\n\
                    f536975d06c0309214f805bb90ccff089219ecd68b2577efef23edd43b7e1a59";
        let signature = hmac::sign(&key(&scope, SECRET), text.as_bytes());
        assert_eq!(
            hex(signature.as_ref()),
            "5d672d79c15b13162d9279b0855cfba6789a8edb4c82c400e06b5924a6f2b5d7"
        );
    }

    #[test]
    fn path_is_percent_encoded_twice() {
        let path = format!("/model/{}/converse-stream", percent_encode("a.b-v1:0/ü~_"));
        assert_eq!(path, "/model/a.b-v1%3A0%2F%C3%BC~_/converse-stream");
        let request = Request {
            path: &path,
            headers: &[("host", " h ")],
            body: b"{}",
            ..vanilla("POST")
        };
        assert_eq!(
            request.canonical(),
            "POST\n/model/a.b-v1%253A0%252F%25C3%25BC~_/converse-stream\n\nhost:h\n\nhost\n\
             44136fa355b3678a1146ad16f7e8649e94fb4fc21fe77e8310c060f61caaff8a"
        );
    }
}
