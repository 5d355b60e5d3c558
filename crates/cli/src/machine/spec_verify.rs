//! The tool with which a model validates a spec that it wrote.

use std::path::Path;
use std::sync::Arc;
use std::time::Duration;

use segno_agents::tools::run_blocking;
use segno_core::ports::{Boxed, Clock};
use segno_core::tool::{EffectClass, OfferedTool, Tool, ToolCall, Tools};
use segno_spec as spec;
use segno_spec::Fault;
use serde_json::{Value, json};

/// How long a validation may take.
const TIMEOUT: Duration = Duration::from_secs(30);

pub(super) struct SpecVerify {
    clock: Arc<dyn Clock>,
    offers: [OfferedTool; 1],
}

impl SpecVerify {
    /// The name of the tool for models.
    pub(super) const NAME: &str = "spec_verify";

    pub(super) fn new(clock: Arc<dyn Clock>) -> Self {
        let tool = Tool {
            name: Self::NAME.to_owned(),
            description:
                "Checks a workflow spec, YAML or JSON, and tells everything that is wrong with it."
                    .to_owned(),
            schema: json!({
                "type": "object",
                "properties": {
                    "spec_content": {"type": "string", "description": "the spec"},
                    "check_capability": {"type": "boolean", "description": "whether what this version cannot run is told too (true)"},
                },
                "required": ["spec_content"],
            }),
        };
        Self {
            clock,
            offers: [OfferedTool {
                tool,
                class: EffectClass::ReadOnly,
            }],
        }
    }
}

impl Tools for SpecVerify {
    fn offered_tools(&self) -> &[OfferedTool] {
        &self.offers
    }

    fn run<'a>(&'a self, call: &'a ToolCall, _: &'a Path) -> Boxed<'a, Result<String, String>> {
        Box::pin(async move {
            let text = call.input["spec_content"].as_str();
            let text = text.ok_or("`spec_content` is missing")?.to_owned();
            let capability = call.input["check_capability"].as_bool().unwrap_or(true);
            let work = move |_: &_| Ok(report(&text, capability).to_string());
            run_blocking(&*self.clock, TIMEOUT, work).await
        })
    }
}

fn report(text: &str, capability: bool) -> Value {
    match spec::parse(text) {
        Ok(workflow) => json!({
            "schema_valid": true,
            "capability_supported": true,
            "errors": [],
            "issues": [],
            "spec_info": {
                "name": workflow.name,
                "pattern": workflow.pattern.name(),
                "agents": workflow.agents.keys().collect::<Vec<_>>(),
            },
        }),
        Err(problems) => {
            let describe = |fault: Fault| {
                let some = problems.iter().filter(|problem| problem.fault == fault);
                some.map(ToString::to_string).collect::<Vec<_>>()
            };
            let (errors, issues) = (describe(Fault::Invalid), describe(Fault::Unsupported));
            let supported = issues.is_empty() || !capability;
            json!({
                "schema_valid": errors.is_empty(),
                "capability_supported": supported,
                "errors": errors,
                "issues": if capability { issues } else { Vec::new() },
            })
        }
    }
}
