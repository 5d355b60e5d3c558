//! Adopts many transcripts at once. Nearly all of the time is spent waiting for the disk to confirm
//! that a session is durable, and sessions do not depend on each other.

use std::collections::VecDeque;
use std::panic::resume_unwind;
use std::sync::Arc;

use segno_engine::Env;
use tokio::runtime::Handle;
use tokio::sync::Semaphore;
use tokio::task::JoinHandle;

use super::{Adopted, Error, Request, adopt};

/// How many transcripts are adopted at once.
const AT_ONCE: usize = 16;
/// How many of these may be long, so that memory stays bounded (P10).
const LONG_AT_ONCE: usize = 2;
/// From this length on, in bytes, a transcript is long.
const LONG: u64 = 1 << 20;

/// Adopts transcripts, and calls `each` with the result of each, in the order of the requests. All
/// that was reported is durable. An error of `each` ends the work; what has begun is completed.
pub async fn adopt_many<E>(
    env: &Env,
    requests: Vec<Request>,
    mut each: impl AsyncFnMut(usize, Result<Adopted, Error>) -> Result<(), E>,
) -> Result<(), E> {
    let long = Arc::new(Semaphore::new(LONG_AT_ONCE));
    let mut requests = requests.into_iter();
    let mut running: VecDeque<JoinHandle<Result<Adopted, Error>>> = VecDeque::new();
    for number in 0.. {
        let room = AT_ONCE - running.len();
        running.extend(
            requests
                .by_ref()
                .take(room)
                .map(|request| start(env, request, Arc::clone(&long))),
        );
        let Some(next) = running.pop_front() else {
            break;
        };
        let adopted = next
            .await
            .unwrap_or_else(|error| match error.try_into_panic() {
                Ok(panic) => resume_unwind(panic),
                Err(error) => unreachable!("nobody cancels it: {error}"),
            });
        each(number, adopted).await?;
    }
    Ok(())
}

/// Adopts a transcript on a thread of its own: the store waits for the disk on the thread of its
/// caller.
fn start(env: &Env, request: Request, long: Arc<Semaphore>) -> JoinHandle<Result<Adopted, Error>> {
    let env = env.clone();
    let runtime = Handle::current();
    tokio::task::spawn_blocking(move || {
        runtime.block_on(async {
            let length = request.file.metadata().map_or(LONG, |found| found.len());
            let _room = if length >= LONG {
                let room = long.acquire().await;
                Some(room.expect("the semaphore is never closed"))
            } else {
                None
            };
            adopt(&env, request).await
        })
    })
}
