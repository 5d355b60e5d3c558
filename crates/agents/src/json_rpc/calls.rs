//! The requests that were sent and have no response yet.

use std::collections::BTreeSet;

use serde_json::Value;

/// Numbers requests, and matches responses with them. `E` says why the peer closed.
#[derive(Debug)]
pub(crate) struct Calls<E> {
    last: u64,
    pending: BTreeSet<u64>,
    closed: Option<E>,
}

impl<E> Default for Calls<E> {
    fn default() -> Self {
        Self {
            last: 0,
            pending: BTreeSet::new(),
            closed: None,
        }
    }
}

impl<E: Clone> Calls<E> {
    /// The id of a new request; an error if the peer has closed.
    pub(crate) fn begin(&mut self) -> Result<u64, E> {
        self.check_open()?;
        self.last += 1;
        self.pending.insert(self.last);
        Ok(self.last)
    }

    /// Gives up a request that could not be sent.
    pub(crate) fn forget(&mut self, id: u64) {
        self.pending.remove(&id);
    }

    /// The pending request that a response with this id belongs to. Each request has one response.
    pub(crate) fn finish(&mut self, id: &Value) -> Option<u64> {
        let id = id.as_u64()?;
        self.pending.remove(&id).then_some(id)
    }

    pub(crate) fn is_idle(&self) -> bool {
        self.pending.is_empty()
    }

    /// The peer has closed: every pending and every later request fails with the first reason.
    pub(crate) fn close(&mut self, reason: E) {
        self.pending.clear();
        self.closed.get_or_insert(reason);
    }

    /// An error if the peer has closed.
    pub(crate) fn check_open(&self) -> Result<(), E> {
        self.closed.clone().map_or(Ok(()), Err)
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn each_request_has_one_response() {
        let mut calls = Calls::<&str>::default();
        assert_eq!((calls.begin(), calls.begin()), (Ok(1), Ok(2)));
        for (id, expected) in [
            (json!(3), None),
            (json!("2"), None),
            (json!(-2), None),
            (json!(2), Some(2)),
            (json!(2), None),
        ] {
            assert_eq!(calls.finish(&id), expected, "{id}");
        }
        assert!(!calls.is_idle());
        calls.forget(1);
        assert!(calls.is_idle());
        assert_eq!(calls.begin(), Ok(3), "ids are not reused");
    }

    #[test]
    fn calls_fail_when_the_peer_closes() {
        let mut calls = Calls::default();
        assert_eq!(calls.begin(), Ok(1));
        calls.close("it crashed");
        calls.close("it was killed");
        assert_eq!(calls.check_open(), Err("it crashed"));
        assert_eq!(calls.finish(&json!(1)), None);
        assert_eq!(calls.begin(), Err("it crashed"));
        assert!(calls.is_idle());
    }
}
