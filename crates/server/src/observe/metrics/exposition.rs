//! The text format of Prometheus, version 0.0.4.

use std::fmt::{Display, Write};

/// The text, one metric after the other.
#[derive(Default)]
pub(super) struct Text(String);

impl Text {
    pub(super) fn gauge(&mut self, name: &str, help: &str) {
        self.head(name, help, "gauge");
    }

    pub(super) fn counter(&mut self, name: &str, help: &str) {
        self.head(name, help, "counter");
    }

    pub(super) fn histogram(&mut self, name: &str, help: &str) {
        self.head(name, help, "histogram");
    }

    fn head(&mut self, name: &str, help: &str, kind: &str) {
        let _ = writeln!(self.0, "# HELP {name} {help}\n# TYPE {name} {kind}");
    }

    pub(super) fn sample(&mut self, name: &str, labels: &[(&str, &str)], value: impl Display) {
        self.0.push_str(name);
        for (index, (label, text)) in labels.iter().enumerate() {
            let open = if index == 0 { '{' } else { ',' };
            let _ = write!(self.0, "{open}{label}=\"{}\"", escape(text));
        }
        let close = if labels.is_empty() { "" } else { "}" };
        let _ = writeln!(self.0, "{close} {value}");
    }

    pub(super) fn into_string(self) -> String {
        self.0
    }
}

fn escape(text: &str) -> String {
    let escaped = text.replace('\\', "\\\\").replace('"', "\\\"");
    escaped.replace('\n', "\\n")
}
