//! Runs steps one after the other. The first failure ends the chain; the last answer is the result.

use super::{Ending, sequence};
use crate::error::Error;
use crate::spec::Chain;
use crate::steps::Runner;

pub(super) async fn run(flow: &Runner, chain: &Chain) -> Result<Ending, Error> {
    flow.observer.planned(chain.steps.len());
    sequence::run(flow, None, &chain.steps, &flow.scope).await
}
