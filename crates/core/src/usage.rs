//! Token usage and cost. Counts are exact where the agent reports them; money is stored in millionths of
//! a dollar, so that sums do not drift.

use std::fmt;
use std::ops::{Add, AddAssign};

use serde::{Deserialize, Serialize};

/// Money: millionths of a US dollar.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
#[serde(transparent)]
pub struct Cost(pub u64);

impl Cost {
    /// Converts from dollars; `None` if the value is negative, not finite or too large.
    pub fn from_usd(dollars: f64) -> Option<Self> {
        let micros = (dollars * 1e6).round();
        #[expect(
            clippy::cast_possible_truncation,
            clippy::cast_sign_loss,
            reason = "the range was just checked"
        )]
        (0.0..9e15).contains(&micros).then_some(Self(micros as u64))
    }

    /// Converts to dollars.
    pub fn usd(self) -> f64 {
        self.0 as f64 / 1e6
    }
}

/// `$0.42`, or `$0.0042` where rounding to cents would hide digits.
impl fmt::Display for Cost {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let text = if self.0 < 100_000 {
            format!("${:.4}", self.usd())
        } else {
            format!("${:.2}", self.usd())
        };
        let cents = text.len().min(text.find('.').map_or(0, |point| point + 3));
        let (kept, fine) = text.split_at(cents);
        f.pad(&format!("{kept}{}", fine.trim_end_matches('0')))
    }
}

/// Tokens and cost of one call, one step or one session.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(default, deny_unknown_fields)]
pub struct Usage {
    pub input_tokens: u64,
    pub output_tokens: u64,
    #[serde(rename = "cost_micro_usd")]
    pub cost: Cost,
}

impl Usage {
    /// Input plus output tokens.
    pub fn tokens(&self) -> u64 {
        self.input_tokens.saturating_add(self.output_tokens)
    }
}

/// A model's price: dollars per million tokens, which equals millionths of a dollar per token.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Price {
    /// The price of input tokens.
    pub input: f64,
    /// The price of output tokens.
    pub output: f64,
}

impl Price {
    /// Returns `usage` with its cost filled in.
    pub fn with_cost(self, usage: Usage) -> Usage {
        let micros =
            self.input * usage.input_tokens as f64 + self.output * usage.output_tokens as f64;
        Usage {
            cost: Cost::from_usd(micros / 1e6).unwrap_or(usage.cost),
            ..usage
        }
    }
}

impl Add for Usage {
    type Output = Self;

    fn add(self, other: Self) -> Self {
        Self {
            input_tokens: self.input_tokens.saturating_add(other.input_tokens),
            output_tokens: self.output_tokens.saturating_add(other.output_tokens),
            cost: Cost(self.cost.0.saturating_add(other.cost.0)),
        }
    }
}

impl AddAssign for Usage {
    fn add_assign(&mut self, other: Self) {
        *self = *self + other;
    }
}

/// The usage of a model's context window.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct ContextUsage {
    /// Tokens in the context.
    pub used: u64,
    /// The size of the context window in tokens, if known.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub window: Option<u64>,
}

/// The percentages of a context window from which Segno acts.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct ContextLimits {
    /// From here on, the user is warned.
    pub warning: u64,
    /// From here on, the session's policy applies.
    pub full: u64,
}

impl Default for ContextLimits {
    fn default() -> Self {
        Self {
            warning: 80,
            full: 85,
        }
    }
}

impl ContextUsage {
    /// The used percentage; `None` if the size of the window is unknown.
    pub fn percent(&self) -> Option<u64> {
        let window = self.window.filter(|window| *window > 0)?;
        Some(self.used.saturating_mul(100) / window)
    }

    /// The used share, from 0 to 1; `None` if the size of the window is unknown.
    pub fn utilisation(&self) -> Option<f64> {
        let window = self.window.filter(|window| *window > 0)?;
        Some((self.used as f64 / window as f64).min(1.0))
    }

    /// How many tokens still fit; `None` if the size of the window is unknown.
    pub fn remaining(&self) -> Option<u64> {
        Some(self.window?.saturating_sub(self.used))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn money_is_exact_and_readable() {
        assert_eq!(Cost::from_usd(0.1), Some(Cost(100_000)));
        assert_eq!(Cost::from_usd(-1.0), None);
        assert_eq!(Cost::from_usd(f64::NAN), None);
        assert_eq!(Cost(420_000).to_string(), "$0.42");
        assert_eq!(Cost(4200).to_string(), "$0.0042");
        assert_eq!(Cost(10_000).to_string(), "$0.01");
        assert_eq!(Cost(12_345_678).to_string(), "$12.35");
        assert_eq!(Cost(0).to_string(), "$0.00");
    }

    #[test]
    fn context_usage_is_bounded() {
        let context = |used, window| ContextUsage { used, window };
        let half = context(50, Some(100));
        assert_eq!(
            (half.utilisation(), half.remaining()),
            (Some(0.5), Some(50))
        );
        let over = context(150, Some(100));
        assert_eq!((over.utilisation(), over.remaining()), (Some(1.0), Some(0)));
        let unknown = context(50, None);
        assert_eq!((unknown.utilisation(), unknown.remaining()), (None, None));
        assert_eq!(context(50, Some(0)).utilisation(), None);
    }

    #[test]
    fn usage_sums_saturate() {
        let most = Usage {
            input_tokens: u64::MAX,
            ..Usage::default()
        };
        assert_eq!((most + most).input_tokens, u64::MAX);
        assert_eq!((most + most).tokens(), u64::MAX);
    }
}
