//! What the doors for fuzz targets share. A door gives parsers bytes as a program or a server would,
//! and tells in text what they made of them, so that it can be compared.

use std::fmt::{Debug, Write};
use std::sync::Mutex;
use std::time::Duration;

use segno_core::agent::{Event, Listener};
use segno_core::ports::{Boxed, Clock};
use segno_core::time::Timestamp;

/// Hears everything.
#[derive(Default)]
pub(crate) struct Heard(Mutex<String>);

impl Heard {
    /// What was heard, and what came of it.
    pub(crate) fn with(self, outcome: &impl Debug) -> String {
        let heard = self.0.into_inner().expect("nobody panics while it is held");
        format!("{heard}{outcome:?}")
    }
}

impl Listener for Heard {
    fn hear(&self, event: Event<'_>) {
        let mut heard = self.0.lock().expect("nobody panics while it is held");
        let _ = writeln!(heard, "{event:?}");
    }
}

/// Time that stands still.
pub(crate) struct Still;

impl Clock for Still {
    fn now(&self) -> Timestamp {
        Timestamp(0)
    }

    fn elapsed(&self) -> Duration {
        Duration::ZERO
    }

    fn sleep(&self, _: Duration) -> Boxed<'_, ()> {
        Box::pin(std::future::pending())
    }
}
