//! An agent that answers from a file: the offline default of the demo, the guide and the tests.
//!
//! The answer depends only on the request (step, agent, input, attempt), never on earlier calls,
//! because the process may die between any two. The file is YAML or JSON:
//!
//! ```yaml
//! ledger: calls.log            # optional: every call adds a line here before it is answered
//! default:                     # optional: for requests that no entry matches
//!   text: "..."
//! answers:                     # the first entry whose conditions all hold is used
//!   - step: steps/0            # optional: this exact path
//!     agent: writer            # optional: this agent
//!     contains: "tides"        # optional: the input has this in it
//!     text: "..."              # the answer, taken literally; or, for long ones:
//!     # repeat: {text: "x", bytes: 2048}
//!     delay_ms: 200            # wait before answering or failing
//!     usage: {input_tokens: 1, output_tokens: 2, cost_usd: 0.001}
//!     fail:                    # the first `attempts` attempts fail (without it: all of them)
//!       kind: rate_limited     # or auth, context_full, not_found, invalid, network, server,
//!                              # crashed, timeout, unknown
//!       message: "slow down"
//!       attempts: 2
//!       retry_after_ms: 10     # only with rate_limited
//! ```
//!
//! Unknown keys are rejected. A request that nothing matches fails as *not found*.
//!
//! A ledger line is `run attempt path key agent`, separated by spaces. It counts calls outside of
//! Segno's journal, so that a test can tell what was really asked from what the journal says.

mod driver;
mod ledger;
mod script;

pub use driver::{OpenError, Scripted};
pub use ledger::Ledger;
pub use script::{Script, ScriptError};
