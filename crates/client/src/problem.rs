//! An error as the server describes it (`application/problem+json`).

use std::fmt;

use segno_core::error::{Diagnose, Diagnosis, Kind, known_code};
use serde::Deserialize;

/// An error of the server, with its causes.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Problem {
    message: String,
    cause: Option<Box<Problem>>,
    diagnosis: Diagnosis,
}

#[derive(Deserialize)]
struct Body {
    code: String,
    detail: String,
    #[serde(default)]
    causes: Vec<String>,
    hint: Option<String>,
    kind: Option<Kind>,
}

impl Problem {
    /// Reads the body of a refusal. `None` if it is none.
    pub(crate) fn read(body: &[u8]) -> Option<Self> {
        let body: Body = serde_json::from_slice(body).ok()?;
        let diagnosis = Diagnosis {
            kind: body.kind.unwrap_or(Kind::Unavailable),
            code: known_code(&body.code)?,
            hint: body.hint,
        };
        let mut cause = None;
        for message in body.causes.into_iter().rev() {
            cause = Some(Box::new(Self {
                message,
                cause,
                diagnosis: diagnosis.clone(),
            }));
        }
        Some(Self {
            message: body.detail,
            cause,
            diagnosis,
        })
    }

    pub(crate) fn kind(&self) -> Kind {
        self.diagnosis.kind
    }

    pub(crate) fn code(&self) -> &'static str {
        self.diagnosis.code
    }
}

impl fmt::Display for Problem {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.message)
    }
}

impl std::error::Error for Problem {
    fn source(&self) -> Option<&(dyn std::error::Error + 'static)> {
        Some(self.cause.as_deref()?)
    }
}

impl Diagnose for Problem {
    fn diagnosis(&self) -> Diagnosis {
        self.diagnosis.clone()
    }
}

#[cfg(test)]
mod tests {
    use std::error::Error as _;

    use super::*;

    #[test]
    fn refusal_keeps_its_code_kind_hint_and_causes() {
        let body = r#"{"type":"/errors/S0107","status":409,"title":null,"code":"S0107","kind":"locked",
            "detail":"it runs","causes":["first","second"],"hint":"wait"}"#;
        let problem = Problem::read(body.as_bytes()).unwrap();
        let diagnosis = Diagnosis::new(Kind::Locked, "S0107").hint("wait");
        assert_eq!(problem.diagnosis(), diagnosis);
        assert_eq!(problem.to_string(), "it runs");
        let first = problem.source().unwrap();
        assert_eq!(first.to_string(), "first");
        assert_eq!(first.source().unwrap().to_string(), "second");
    }

    #[test]
    fn other_bodies_are_no_refusals() {
        for body in [
            "",
            "<html>",
            r#"{"code":"S0107"}"#,
            r#"{"code":"not a code","detail":"x"}"#,
        ] {
            assert_eq!(Problem::read(body.as_bytes()), None, "{body}");
        }
    }
}
