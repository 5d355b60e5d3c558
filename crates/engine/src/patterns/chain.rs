//! One step after the other; the first failure ends it; the result is the last answer.

use super::{Ending, sequence};
use crate::error::Error;
use crate::flow::Flow;
use crate::spec::Chain;

pub(super) async fn run(flow: &Flow, chain: &Chain) -> Result<Ending, Error> {
    flow.observer.planned(chain.steps.len());
    sequence::run(flow, None, &chain.steps, &flow.scope).await
}
