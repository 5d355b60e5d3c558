//! What time it is.

use segno_core::tool::Class;

use super::{Native, Run};

pub(super) const CURRENT_TIME: Native = Native {
    name: "current_time",
    description: "Tells the time, in UTC.",
    class: Class::ReadOnly,
    takes: &[("format", "string", false, "`iso` (the default) or `unix`")],
    run: Run::Now(|input, bench| {
        let now = bench.gear.clock.now();
        match input["format"].as_str() {
            None | Some("iso") => Ok(now.to_string()),
            Some("unix") => Ok((now.0 / 1000).to_string()),
            Some(other) => Err(format!("`format` must be iso or unix, not {other}")),
        }
    }),
};
