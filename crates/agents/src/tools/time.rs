//! A tool that returns the current time.

use segno_core::tool::EffectClass;

use super::{BuiltinTool, Run};

pub(super) const CURRENT_TIME: BuiltinTool = BuiltinTool {
    name: "current_time",
    description: "Returns the current time in UTC.",
    class: EffectClass::ReadOnly,
    params: &[("format", "string", false, "`iso` (default) or `unix`")],
    run: Run::Sync(|input, context| {
        let now = context.deps.clock.now();
        match input["format"].as_str() {
            None | Some("iso") => Ok(now.to_string()),
            Some("unix") => Ok((now.0 / 1000).to_string()),
            Some(other) => Err(format!("`format` must be iso or unix, not {other}")),
        }
    }),
};
