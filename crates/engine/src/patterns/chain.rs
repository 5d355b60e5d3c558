//! Runs steps one after the other. The first failure ends the chain; the last answer is the result.

use segno_spec::Chain;

use super::{Ending, sequence};
use crate::error::Error;
use crate::steps::Runner;

pub(super) async fn run(runner: &Runner, chain: &Chain) -> Result<Ending, Error> {
    runner.observer.planned(chain.steps.len());
    sequence::run(runner, None, &chain.steps, &runner.rendering.scope).await
}
