//! Tells a collector of telemetry what runs do: OTLP over HTTP, in JSON.

use std::time::Duration;

use serde_json::Value;

use crate::http::Client;

/// A collector that takes longer is not waited for.
const PATIENCE: Duration = Duration::from_secs(5);

/// The port for gRPC, and the one beside it on which the same collectors take HTTP.
const PORTS: (&str, &str) = (":4317", ":4318");

/// Where a collector is, and what it wants to be sent along.
#[derive(Debug, Clone)]
pub struct Collector {
    /// How it is spoken to.
    pub client: Client,
    /// Where it is, if nobody says otherwise.
    pub endpoint: Option<String>,
    /// Headers, mostly a key: `name=value`, separated by commas.
    pub headers: String,
}

impl Collector {
    /// Sends spans to `endpoint`.
    pub async fn send(&self, endpoint: Option<&str>, spans: &Value) -> Result<(), String> {
        let Some(endpoint) = endpoint.or(self.endpoint.as_deref()) else {
            // Whoever names no collector wants to see the trace in an artifact.
            return Ok(());
        };
        let url = address(endpoint);
        let headers = self.headers.split(',').filter_map(|pair| {
            let (name, value) = pair.split_once('=')?;
            Some((name.trim(), value.trim()))
        });
        let sent = self.client.tell(&url, headers, spans, PATIENCE).await;
        sent.map_err(|reason| format!("{url}: {reason}"))
    }
}

/// Where spans are taken.
fn address(endpoint: &str) -> String {
    let base = endpoint.trim_end_matches('/');
    if base.ends_with("/v1/traces") {
        return base.to_owned();
    }
    let base = match base.strip_suffix(PORTS.0) {
        Some(host) => format!("{host}{}", PORTS.1),
        None => base.to_owned(),
    };
    format!("{base}/v1/traces")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn spans_go_to_the_http_side_of_a_collector() {
        for (given, expected) in [
            ("http://localhost:4317", "http://localhost:4318/v1/traces"),
            ("http://localhost:4318/", "http://localhost:4318/v1/traces"),
            (
                "https://t.example.com/otlp",
                "https://t.example.com/otlp/v1/traces",
            ),
            (
                "https://t.example.com/v1/traces",
                "https://t.example.com/v1/traces",
            ),
        ] {
            assert_eq!(address(given), expected);
        }
    }
}
