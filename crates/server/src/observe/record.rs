//! A request as the log and the audit log have it: no body, no secret.

use std::time::Duration;

use segno_secrets::redact::Redactor;
use serde_json::{Map, Value, json};

use crate::guard::Peer;
use crate::trace::Trace;

/// What happened to a request.
pub(super) struct Record {
    pub(super) time: String,
    pub(super) trace: Trace,
    pub(super) peer: Peer,
    pub(super) method: String,
    /// The route with the names of its parts; absent if there is none at this address.
    pub(super) route: Option<String>,
    pub(super) status: u16,
    pub(super) code: Option<&'static str>,
    pub(super) took: Duration,
}

impl Record {
    /// Whether the request was refused for where it came from, or for its credentials.
    pub(super) fn is_refused(&self) -> bool {
        matches!(self.code, Some("N0101" | "N0102" | "N0103" | "N0104"))
    }

    /// Whether the request may have changed something.
    pub(super) fn may_have_changed(&self) -> bool {
        !matches!(self.method.as_str(), "GET" | "HEAD") && self.route.is_some()
    }

    /// The fields that every line has.
    pub(super) fn fields(&self, redactor: &Redactor) -> Map<String, Value> {
        let clean = |text: &str| redactor.redact(text).into_owned();
        let fields = json!({
            "v": 1,
            "time": self.time,
            "request": self.trace.id(),
            "token": self.trace.token().map(clean),
            "address": self.address(),
            "method": self.method,
            "route": self.route,
            "session": self.trace.session(),
            "operation": self.trace.operation(),
            "status": self.status,
            "code": self.code,
        });
        match fields {
            Value::Object(fields) => fields,
            _ => Map::new(),
        }
    }

    fn address(&self) -> String {
        match self.peer {
            Peer::Local => "local".to_owned(),
            Peer::Network(address) => address.to_string(),
        }
    }

    /// One line for people.
    pub(super) fn text(&self, redactor: &Redactor) -> String {
        let route = self.route.as_deref().unwrap_or("(no route)");
        let code = self.code.map_or(String::new(), |code| format!(" [{code}]"));
        let token = match self.trace.token() {
            Some(name) => format!(" token {}", redactor.redact(name)),
            None => String::new(),
        };
        let session = match self.trace.session() {
            Some(session) => format!(" session {session}"),
            None => String::new(),
        };
        format!(
            "{} {} {} {route}{code} from {}{token}{session} request {}",
            self.time,
            self.status,
            self.method,
            self.address(),
            self.trace.id()
        )
    }
}
