//! Exports spans to a telemetry collector: OTLP over HTTP, in JSON.

use std::time::Duration;

use serde_json::Value;

use crate::http::Client;

const TIMEOUT: Duration = Duration::from_secs(5);

/// The gRPC port, and the HTTP port that the same collectors have beside it.
const PORTS: (&str, &str) = (":4317", ":4318");

/// A collector and how it is reached.
#[derive(Debug, Clone)]
pub struct Collector {
    pub client: Client,
    /// The collector for runs that name none.
    pub endpoint: Option<String>,
    /// Headers, mostly an API key: `name=value`, separated by commas.
    pub headers: String,
}

impl Collector {
    /// Sends spans to `endpoint`, else to the configured one; does nothing without either.
    pub async fn send(&self, endpoint: Option<&str>, spans: &Value) -> Result<(), String> {
        let Some(endpoint) = endpoint.or(self.endpoint.as_deref()) else {
            // Without a collector the trace is only in the run's artifact.
            return Ok(());
        };
        let url = traces_url(endpoint);
        let headers = self.headers.split(',').filter_map(|pair| {
            let (name, value) = pair.split_once('=')?;
            Some((name.trim(), value.trim()))
        });
        let sent = self.client.post_json(&url, headers, spans, TIMEOUT).await;
        sent.map_err(|reason| format!("{url}: {reason}"))
    }
}

/// The URL that takes spans over HTTP.
fn traces_url(endpoint: &str) -> String {
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
    fn grpc_endpoint_maps_to_the_http_port() {
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
            assert_eq!(traces_url(given), expected);
        }
    }
}
