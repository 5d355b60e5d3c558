//! Token usage and cost. Counts are exact where the agent reports them; money is stored in millionths of
//! a dollar, so that sums do not drift.

use std::fmt;
use std::ops::{Add, AddAssign};

use serde::{Deserialize, Serialize};

/// The price from which tokens are estimated, in dollars per million: the mean of three for input and
/// fifteen for output.
const ESTIMATED_PRICE: u64 = 9;

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

    /// An estimate of the tokens, from the cost, if an agent reported only that.
    pub fn estimated_tokens(&self) -> Option<u64> {
        let is_estimated = self.tokens() == 0 && self.cost.0 > 0;
        is_estimated.then_some(self.cost.0 / ESTIMATED_PRICE)
    }

    /// The reported tokens, or else their estimate.
    pub fn tokens_or_estimate(&self) -> u64 {
        self.estimated_tokens().unwrap_or_else(|| self.tokens())
    }
}

/// What a run of an agent's program reports about itself, beside tokens.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct RunReport {
    /// How many turns the agent took.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub turns: Option<u64>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub duration_ms: Option<u64>,
    /// What the conversation has cost since its beginning, earlier runs and the conversations that
    /// it was copied from included.
    #[serde(
        default,
        rename = "conversation_cost_micro_usd",
        skip_serializing_if = "Option::is_none"
    )]
    pub conversation_cost: Option<Cost>,
}

impl RunReport {
    /// The report of two parts of a run, `self` before `later`.
    #[must_use]
    pub fn followed_by(self, later: Self) -> Self {
        let sum = |first: Option<u64>, second: Option<u64>| match (first, second) {
            (Some(first), Some(second)) => Some(first.saturating_add(second)),
            (first, second) => first.or(second),
        };
        Self {
            turns: sum(self.turns, later.turns),
            duration_ms: sum(self.duration_ms, later.duration_ms),
            conversation_cost: later.conversation_cost.or(self.conversation_cost),
        }
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

/// The window that an estimate assumes if the agent reports none, in tokens.
const ASSUMED_WINDOW: u64 = 200_000;

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
    /// An estimate for an agent that reported money and no tokens; `None` if it reported tokens, or no
    /// money. What it paid for is an upper bound of what is in its context.
    pub fn estimated_from(usage: &Usage, window: Option<u64>) -> Option<Self> {
        Some(Self {
            used: usage.estimated_tokens()?,
            window: window.or(Some(ASSUMED_WINDOW)),
        })
    }

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
    fn tokens_are_estimated_from_cost_only_without_counts() {
        let paid = Usage {
            cost: Cost(450_000),
            ..Usage::default()
        };
        assert_eq!(paid.estimated_tokens(), Some(50_000));
        assert_eq!(paid.tokens_or_estimate(), 50_000);
        let counted = Usage {
            output_tokens: 7,
            ..paid
        };
        assert_eq!(counted.estimated_tokens(), None);
        assert_eq!(counted.tokens_or_estimate(), 7);
        assert_eq!(Usage::default().estimated_tokens(), None);
    }

    #[test]
    fn context_is_estimated_from_cost_and_clamped() {
        let paid = |micros| Usage {
            cost: Cost(micros),
            ..Usage::default()
        };
        let estimate =
            |micros, window| ContextUsage::estimated_from(&paid(micros), window)?.utilisation();
        assert_eq!(estimate(450_000, None), Some(0.25));
        assert_eq!(estimate(450_000, Some(100_000)), Some(0.5));
        assert_eq!(estimate(90_000_000, None), Some(1.0));
        assert_eq!(estimate(0, None), None);
    }

    #[test]
    fn parts_of_a_run_report_add_up() {
        let part = |turns, cost| RunReport {
            turns: Some(turns),
            duration_ms: None,
            conversation_cost: Some(Cost(cost)),
        };
        assert_eq!(part(2, 5).followed_by(part(1, 7)), part(3, 7));
        assert_eq!(RunReport::default().followed_by(part(1, 7)), part(1, 7));
        assert_eq!(part(1, 7).followed_by(RunReport::default()), part(1, 7));
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
