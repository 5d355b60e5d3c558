//! The `telemetry` block: who is told what a workflow does.

use super::fields::Keys;
use super::place::Place;
use super::tools::address;

const KEYS: Keys = Keys {
    required: &[],
    optional: &["otel", "redact"],
};
const OTEL_KEYS: Keys = Keys {
    required: &[],
    optional: &["endpoint", "service_name", "sample_ratio"],
};
const REDACT_KEYS: Keys = Keys {
    required: &[],
    optional: &["tool_inputs", "tool_outputs"],
};

/// Who is told what a workflow does.
#[derive(Debug, Clone, PartialEq)]
pub struct Telemetry {
    /// Where spans are sent; `None`: only `TRACE` shows them.
    pub endpoint: Option<String>,
    /// Under which name.
    pub service: String,
    /// Which part of all sessions is told of.
    pub ratio: f64,
    /// Whether what tools are given is left out.
    pub hides_inputs: bool,
    /// Whether what tools answer is left out.
    pub hides_outputs: bool,
}

/// `None` if nothing is asked for.
pub(super) fn read(place: &Place<'_>) -> Option<Telemetry> {
    let fields = place.fields(&KEYS);
    let redact = fields.get("redact").map(|place| place.fields(&REDACT_KEYS));
    let hides = |key: &str, otherwise: bool| {
        let place = redact.as_ref().and_then(|fields| fields.get(key));
        place.map_or(otherwise, |place| place.choice_of_truth())
    };
    let (hides_inputs, hides_outputs) = (hides("tool_inputs", true), hides("tool_outputs", false));
    let fields = fields.get("otel")?.fields(&OTEL_KEYS);
    Some(Telemetry {
        endpoint: fields.get("endpoint").map(|place| address(&place)),
        service: fields
            .get("service_name")
            .map_or_else(|| "segno".to_owned(), |place| place.line_of_text()),
        ratio: fields
            .get("sample_ratio")
            .map_or(1.0, |place| place.number(&(0.0..=1.0))),
        hides_inputs,
        hides_outputs,
    })
}
