//! Samples, their statistics, and the table that shows them.

use std::fmt;
use std::time::Duration;

use serde_json::{Value, json};

/// Samples in the order in which they were measured.
#[derive(Debug, Clone, Default)]
pub(crate) struct Samples(pub(crate) Vec<f64>);

impl Samples {
    pub(crate) fn push(&mut self, sample: f64) {
        self.0.push(sample);
    }

    pub(crate) fn median(&self) -> f64 {
        self.quantile(0.5)
    }

    /// The quantile: the value below which `share` of the samples lie, interpolated.
    pub(crate) fn quantile(&self, share: f64) -> f64 {
        let mut sorted = self.0.clone();
        sorted.sort_by(f64::total_cmp);
        let Some(last) = sorted.len().checked_sub(1) else {
            return f64::NAN;
        };
        let index = share * last as f64;
        #[expect(
            clippy::cast_possible_truncation,
            clippy::cast_sign_loss,
            reason = "an index within the list"
        )]
        let (below, above) = (index.floor() as usize, index.ceil() as usize);
        sorted[below] + (sorted[above] - sorted[below]) * index.fract()
    }

    /// Divides each sample by the other's sample of the same round.
    pub(crate) fn ratio_to(&self, baseline: &Self) -> Self {
        Self(self.0.iter().zip(&baseline.0).map(|(a, b)| a / b).collect())
    }

    fn json(&self) -> Value {
        json!({
            "median": self.median(),
            "quartiles": [self.quantile(0.25), self.quantile(0.75)],
            "range": [self.quantile(0.0), self.quantile(1.0)],
            "samples": self.0,
        })
    }
}

impl FromIterator<f64> for Samples {
    fn from_iter<I: IntoIterator<Item = f64>>(samples: I) -> Self {
        Self(samples.into_iter().collect())
    }
}

impl fmt::Display for Samples {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let text = match self.0.len() {
            1 => short(self.0[0]),
            _ => format!(
                "{} ({}–{})",
                short(self.median()),
                short(self.quantile(0.25)),
                short(self.quantile(0.75))
            ),
        };
        f.pad(&text)
    }
}

/// Formats three significant digits.
fn short(value: f64) -> String {
    match value.abs() {
        size if size >= 100.0 => format!("{value:.0}"),
        size if size >= 10.0 => format!("{value:.1}"),
        size if size >= 1.0 => format!("{value:.2}"),
        _ => format!("{value:.3}"),
    }
}

pub(crate) fn millis(duration: Duration) -> f64 {
    duration.as_secs_f64() * 1e3
}

/// The target of a figure.
#[derive(Debug, Clone, Copy)]
pub(crate) enum Bar {
    AtMost(f64),
    AtLeast(f64),
}

/// One figure.
#[derive(Debug, Clone)]
pub(crate) struct Row {
    part: &'static str,
    what: String,
    unit: &'static str,
    measured: Samples,
    bare: Option<Samples>,
    bar: Option<Bar>,
}

impl Row {
    /// A figure and its baseline; the bar applies to their ratio.
    pub(crate) fn pair(
        part: &'static str,
        what: impl Into<String>,
        unit: &'static str,
        measured: Samples,
        bare: Samples,
    ) -> Self {
        Self {
            bare: Some(bare),
            ..Self::single(part, what, unit, measured)
        }
    }

    /// A figure without a baseline; the bar applies to the figure.
    pub(crate) fn single(
        part: &'static str,
        what: impl Into<String>,
        unit: &'static str,
        measured: Samples,
    ) -> Self {
        Self {
            part,
            what: what.into(),
            unit,
            measured,
            bare: None,
            bar: None,
        }
    }

    pub(crate) fn bar(self, bar: Bar) -> Self {
        Self {
            bar: Some(bar),
            ..self
        }
    }

    fn ratio(&self) -> Option<Samples> {
        self.bare.as_ref().map(|bare| self.measured.ratio_to(bare))
    }

    fn verdict(&self) -> Option<(String, bool)> {
        let figure = self
            .ratio()
            .map_or_else(|| self.measured.median(), |ratio| ratio.median());
        Some(match self.bar? {
            Bar::AtMost(most) => (format!("≤ {most}"), figure <= most),
            Bar::AtLeast(least) => (format!("≥ {least}"), figure >= least),
        })
    }

    fn json(&self) -> Value {
        let verdict = self.verdict();
        json!({
            "part": self.part,
            "what": self.what,
            "unit": self.unit,
            "measured": self.measured.json(),
            "bare": self.bare.as_ref().map(Samples::json),
            "ratio": self.ratio().map(|ratio| ratio.json()),
            "bar": verdict.as_ref().map(|(bar, _)| bar),
            "met": verdict.as_ref().map(|(_, met)| met),
        })
    }
}

/// Everything that was measured.
#[derive(Debug, Default)]
pub(crate) struct Table {
    rows: Vec<Row>,
    notes: Vec<String>,
}

impl Table {
    pub(crate) fn add(&mut self, row: Row) {
        self.rows.push(row);
    }

    /// Adds a remark for the reader of the table.
    pub(crate) fn note(&mut self, note: impl Into<String>) {
        self.notes.push(note.into());
    }

    pub(crate) fn json(&self) -> Value {
        json!({
            "figures": self.rows.iter().map(Row::json).collect::<Vec<_>>(),
            "notes": self.notes,
        })
    }
}

impl fmt::Display for Table {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        writeln!(
            f,
            "{:<57} {:<5} {:<22} {:<22} {:<22} bar",
            "median (quartiles)", "unit", "measured", "bare", "ratio"
        )?;
        for row in &self.rows {
            let column = |samples: Option<Samples>, mark: &str| {
                samples.map_or(String::new(), |samples| format!("{samples}{mark}"))
            };
            let verdict = row.verdict().map_or(String::new(), |(bar, met)| {
                format!("{bar} {}", if met { "met" } else { "MISSED" })
            });
            let line = format!(
                "{:<57} {:<5} {:<22} {:<22} {:<22} {verdict}",
                format!("({}) {}", row.part, row.what),
                row.unit,
                row.measured.to_string(),
                column(row.bare.clone(), ""),
                column(row.ratio(), " ×"),
            );
            writeln!(f, "{}", line.trim_end())?;
        }
        for note in &self.notes {
            writeln!(f, "note: {note}")?;
        }
        Ok(())
    }
}
