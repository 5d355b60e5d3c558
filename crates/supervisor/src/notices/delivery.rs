//! One pass over the undelivered notices.
//!
//! Each target gets its notices in the order of each session's events. An attempt is stored before
//! it begins: if the process is killed meanwhile, the next attempt says that the notice may be
//! repeated. After a failure the target waits, longer each time. Targets do not wait for each
//! other.

use std::collections::BTreeMap;
use std::io;
use std::sync::{Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use futures_util::future::join_all;
use segno_core::ports::Clock;

use super::message::Message;
use super::notice::Notice;
use super::outbox::{Entry, Outbox, TargetState, TargetStates, is_due};
use super::rate::Bucket;
use super::sender::{Outcome, Sender};
use super::target::Target;

/// How often a notice is sent to a target before it is given up: about two hours.
const MAX_ATTEMPTS: u32 = 20;

const MAX_DELAY: Duration = Duration::from_mins(10);

/// How long an undelivered notice is stored.
const MAX_AGE: Duration = Duration::from_hours(3 * 24);

/// What one pass works with. The lock of the outbox is held meanwhile.
pub(super) struct Pass<'a> {
    outbox: &'a Outbox,
    sender: &'a Sender,
    clock: &'a dyn Clock,
    entries: Mutex<BTreeMap<String, Entry>>,
    states: Mutex<TargetStates>,
}

impl<'a> Pass<'a> {
    /// Reads what is undelivered, and removes what is too old or has no target any more.
    pub(super) fn begin(
        outbox: &'a Outbox,
        sender: &'a Sender,
        targets: &[Target],
    ) -> io::Result<Self> {
        let clock = &*sender.clock;
        let now = clock.now();
        let mut entries = BTreeMap::new();
        for mut entry in outbox.list()? {
            let before = entry.targets.len();
            entry
                .targets
                .retain(|name, _| targets.iter().any(|target| target.name == *name));
            if now.since(entry.notice.at) > MAX_AGE {
                entry.targets.clear();
                outbox.count_dropped();
            }
            if entry.targets.len() != before {
                outbox.update(&entry)?;
            }
            entries.insert(entry.notice.id(), entry);
        }
        Ok(Self {
            outbox,
            sender,
            clock,
            entries: Mutex::new(entries),
            states: Mutex::new(outbox.states()),
        })
    }

    /// Sends what is due. Returns how many messages were delivered.
    pub(super) async fn run(&self, targets: &[Target]) -> io::Result<usize> {
        let delivered = join_all(targets.iter().map(|target| self.deliver_to(target))).await;
        delivered.into_iter().sum()
    }

    async fn deliver_to(&self, target: &Target) -> io::Result<usize> {
        let mut delivered = 0;
        loop {
            let mut due = self.due(target);
            let allowed = self.available(target);
            if due.is_empty() || allowed == 0 {
                return Ok(delivered);
            }
            if let Some(reason) = self.sender.missing(target) {
                self.report_missing(target, reason)?;
                return Ok(delivered);
            }
            // The last message that the rate allows has all that is left.
            if allowed > 1 {
                due.truncate(1);
            }
            match self.attempt(target, &due).await? {
                Outcome::Delivered => delivered += 1,
                // A notice that is refused does not hold up the others.
                Outcome::Refused(_) => {}
                Outcome::Failed { .. } | Outcome::Unavailable(_) => return Ok(delivered),
            }
        }
    }

    /// The notices that the target gets next, in order. None if the first one waits after a
    /// failure: the target would fail again.
    fn due(&self, target: &Target) -> Vec<Notice> {
        let now = self.clock.now();
        let longest = i64::try_from(MAX_DELAY.as_millis()).unwrap_or(i64::MAX);
        let entries = lock(&self.entries);
        let waiting = entries
            .values()
            .filter_map(|entry| Some((entry, entry.targets.get(&target.name)?)));
        if waiting
            .clone()
            .any(|(_, delivery)| !is_due(delivery, now, longest))
        {
            return Vec::new();
        }
        waiting.map(|(entry, _)| entry.notice.clone()).collect()
    }

    /// This process cannot send to the target. That is no attempt: another process may have what is
    /// missing.
    fn report_missing(&self, target: &Target, reason: String) -> io::Result<()> {
        let is_new = self.with_state(target, |state| {
            let is_new = state.error.as_ref() != Some(&reason);
            state.error = Some(reason);
            is_new
        });
        if is_new {
            self.outbox.store_states(&lock(&self.states))?;
        }
        Ok(())
    }

    fn available(&self, target: &Target) -> u32 {
        let now = self.clock.now();
        self.with_state(target, |state| {
            let full = || Bucket::full(target.rate, now);
            let bucket = state.bucket.get_or_insert_with(full);
            bucket.available(target.rate, now)
        })
    }

    fn with_state<T>(&self, target: &Target, change: impl FnOnce(&mut TargetState) -> T) -> T {
        let mut states = lock(&self.states);
        change(states.0.entry(target.name.clone()).or_default())
    }

    /// Sends one message with these notices, and stores the outcome.
    async fn attempt(&self, target: &Target, notices: &[Notice]) -> io::Result<Outcome> {
        let (first, more) = notices.split_first().expect("something is due");
        let (attempt, is_repeated) = self.begin_attempt(target, first)?;
        let message = Message {
            first,
            more,
            attempt,
            is_repeated,
        };
        let outcome = self.sender.send(target, &message).await;
        match &outcome {
            Outcome::Delivered => {
                self.with_state(target, |state| {
                    state.error = None;
                    if let Some(bucket) = &mut state.bucket {
                        bucket.consume();
                    }
                });
                self.finish(target, notices)?;
            }
            Outcome::Refused(reason) => self.give_up(target, first, reason)?,
            Outcome::Failed { reason, .. } if attempt >= MAX_ATTEMPTS => {
                self.give_up(target, first, reason)?;
            }
            Outcome::Failed {
                reason,
                may_have_arrived,
            } => self.postpone(target, first, reason, *may_have_arrived)?,
            Outcome::Unavailable(reason) => self.withdraw_attempt(target, first, reason)?,
        }
        self.outbox.store_states(&lock(&self.states))?;
        Ok(outcome)
    }

    /// Stores that an attempt begins. Returns its number and whether an earlier one may have
    /// arrived.
    fn begin_attempt(&self, target: &Target, notice: &Notice) -> io::Result<(u32, bool)> {
        self.change(target, notice, |delivery| {
            delivery.attempts += 1;
            // The process that began the last attempt was killed.
            delivery.may_have_arrived |= delivery.is_in_flight;
            delivery.is_in_flight = true;
            (delivery.attempts, delivery.may_have_arrived)
        })
    }

    fn postpone(
        &self,
        target: &Target,
        notice: &Notice,
        reason: &str,
        may_have_arrived: bool,
    ) -> io::Result<()> {
        self.with_state(target, |state| state.error = Some(reason.to_owned()));
        let now = self.clock.now();
        self.change(target, notice, |delivery| {
            delivery.is_in_flight = false;
            delivery.may_have_arrived |= may_have_arrived;
            delivery.next_at_ms = now.after(delay(delivery.attempts)).0;
            delivery.error = Some(reason.to_owned());
        })
    }

    /// Nothing was sent, so it was no attempt.
    fn withdraw_attempt(&self, target: &Target, notice: &Notice, reason: &str) -> io::Result<()> {
        self.with_state(target, |state| state.error = Some(reason.to_owned()));
        self.change(target, notice, |delivery| {
            delivery.attempts -= 1;
            delivery.is_in_flight = false;
            delivery.error = Some(reason.to_owned());
        })
    }

    fn give_up(&self, target: &Target, notice: &Notice, reason: &str) -> io::Result<()> {
        self.with_state(target, |state| {
            state.error = Some(reason.to_owned());
            state.given_up += 1;
        });
        self.finish(target, std::slice::from_ref(notice))
    }

    /// The target needs none of these notices any more.
    fn finish(&self, target: &Target, notices: &[Notice]) -> io::Result<()> {
        let mut entries = lock(&self.entries);
        for notice in notices {
            if let Some(entry) = entries.get_mut(&notice.id()) {
                entry.targets.remove(&target.name);
                self.outbox.update(entry)?;
            }
        }
        Ok(())
    }

    fn change<T>(
        &self,
        target: &Target,
        notice: &Notice,
        change: impl FnOnce(&mut super::outbox::Delivery) -> T,
    ) -> io::Result<T> {
        let mut entries = lock(&self.entries);
        let entry = entries.get_mut(&notice.id()).expect("it is due");
        let delivery = entry.targets.get_mut(&target.name).expect("it is due");
        let changed = change(delivery);
        self.outbox.update(entry)?;
        Ok(changed)
    }
}

/// The delay after a failed attempt: 1 s, doubled each time.
fn delay(attempts: u32) -> Duration {
    let factor = 2_u32.saturating_pow(attempts.saturating_sub(1));
    Duration::from_secs(1).saturating_mul(factor).min(MAX_DELAY)
}

fn lock<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}
