//! The `telemetry` block: where spans are exported to, and what they contain.

use super::cursor::Cursor;
use super::fields::Keys;
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

#[derive(Debug, Clone, PartialEq)]
pub struct Telemetry {
    /// Where spans are sent. With `None`, only the template variable `TRACE` has them.
    pub endpoint: Option<String>,
    pub service: String,
    /// The fraction of sessions that are exported.
    pub ratio: f64,
    /// Redacts the arguments of tools.
    pub hides_inputs: bool,
    /// Redacts the results of tools.
    pub hides_outputs: bool,
}

/// `None` if there is no `otel` block.
pub(super) fn read(cursor: &Cursor<'_>) -> Option<Telemetry> {
    let fields = cursor.fields(&KEYS);
    let redact = fields
        .get("redact")
        .map(|cursor| cursor.fields(&REDACT_KEYS));
    let hides = |key: &str, otherwise: bool| {
        let cursor = redact.as_ref().and_then(|fields| fields.get(key));
        cursor.map_or(otherwise, |cursor| cursor.boolean())
    };
    let (hides_inputs, hides_outputs) = (hides("tool_inputs", true), hides("tool_outputs", false));
    let fields = fields.get("otel")?.fields(&OTEL_KEYS);
    Some(Telemetry {
        endpoint: fields.get("endpoint").map(|cursor| address(&cursor)),
        service: fields
            .get("service_name")
            .map_or_else(|| "segno".to_owned(), |cursor| cursor.single_line()),
        ratio: fields
            .get("sample_ratio")
            .map_or(1.0, |cursor| cursor.number(&(0.0..=1.0))),
        hides_inputs,
        hides_outputs,
    })
}
