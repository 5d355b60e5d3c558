//! Exports traces of runs to an OTLP collector.

use std::sync::OnceLock;

use segno_agents::{Client, Collector};
use segno_core::ports::Boxed;
use segno_engine::Exporter;
use serde_json::Value;

/// Sends to the collector that the spec names, else the one in the environment.
#[derive(Default)]
pub(crate) struct MachineExporter {
    collector: OnceLock<Collector>,
}

impl Exporter for MachineExporter {
    fn export<'a>(
        &'a self,
        endpoint: Option<&'a str>,
        spans: &'a Value,
    ) -> Boxed<'a, Result<(), String>> {
        Box::pin(async move {
            let collector = if let Some(known) = self.collector.get() {
                known
            } else {
                let made = collector()?;
                self.collector.get_or_init(|| made)
            };
            collector.send(endpoint, spans).await
        })
    }
}

fn collector() -> Result<Collector, String> {
    let variable = |name: &str| std::env::var(name).ok().filter(|value| !value.is_empty());
    Ok(Collector {
        client: Client::new().map_err(|error| error.message)?,
        endpoint: variable("OTEL_EXPORTER_OTLP_ENDPOINT"),
        headers: variable("OTEL_EXPORTER_OTLP_HEADERS").unwrap_or_default(),
    })
}
