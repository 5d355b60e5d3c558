//! The tools that one model may call: native tools, executors and MCP servers under unique names.

use std::path::Path;
use std::sync::Arc;

use segno_core::tool::{EffectClass, Tool, ToolCall, Tools};

use super::state_tools::StateTool;

/// The longest tool name that providers accept.
const MAX_NAME: usize = 64;

/// Tools from several sources, each with a unique name.
#[derive(Default)]
pub(crate) struct Toolset {
    tools: Vec<OfferedTool>,
}

struct OfferedTool {
    /// The tool as the model sees it.
    tool: Tool,
    class: EffectClass,
    source: Source,
}

/// Who runs a tool.
enum Source {
    Tools {
        /// The tool's name there.
        name: String,
        tools: Arc<dyn Tools>,
    },
    /// The step that calls it, because it reads or changes the agent's state.
    Step(StateTool),
}

impl Toolset {
    /// Adds the tools of `source` that `allows` accepts. A tool whose name is taken or invalid gets
    /// `owner` as prefix.
    pub(super) fn add(
        &mut self,
        owner: Option<&str>,
        source: &Arc<dyn Tools>,
        allows: impl Fn(&str) -> bool,
    ) {
        for offer in source.offered_tools() {
            let own = &offer.tool.name;
            if !allows(own) {
                continue;
            }
            let Some(name) = self.name(owner, own) else {
                continue;
            };
            self.tools.push(OfferedTool {
                tool: Tool {
                    name,
                    ..offer.tool.clone()
                },
                class: offer.class,
                source: Source::Tools {
                    name: own.clone(),
                    tools: Arc::clone(source),
                },
            });
        }
    }

    /// Adds the tools for the agent's state that are among `names`.
    pub(super) fn add_state_tools(&mut self, names: &[String]) {
        for state_tool in StateTool::ALL {
            if names.iter().any(|name| name == state_tool.name()) {
                let offer = state_tool.offer();
                self.tools.push(OfferedTool {
                    tool: offer.tool,
                    class: offer.class,
                    source: Source::Step(state_tool),
                });
            }
        }
    }

    /// The name under which a tool is offered: its own, or a longer one that is free. A duplicate
    /// without an owner is not offered.
    fn name(&self, owner: Option<&str>, own: &str) -> Option<String> {
        let is_valid = |c: char| c.is_ascii_alphanumeric() || "_-".contains(c);
        let plain = !own.is_empty() && own.len() <= MAX_NAME && own.chars().all(is_valid);
        if plain && self.get(own).is_none() {
            return Some(own.to_owned());
        }
        let long = format!("{}_{own}", owner?);
        let long: Vec<char> = long
            .chars()
            .map(|c| if is_valid(c) { c } else { '_' })
            .collect();
        let numbers = (2..).map(|n| format!("_{n}"));
        let names = std::iter::once(String::new()).chain(numbers).map(|end| {
            let length = long.len().min(MAX_NAME - end.len());
            long[..length].iter().collect::<String>() + &end
        });
        names.into_iter().find(|name| self.get(name).is_none())
    }

    /// The tools that a model may use according to `allows`.
    pub(super) fn offered(&self, allows: impl Fn(&str) -> bool) -> Vec<Tool> {
        let tools = self.tools.iter().map(|offered| &offered.tool);
        tools.filter(|tool| allows(&tool.name)).cloned().collect()
    }

    /// What happens if a tool runs twice; `None` if there is no such tool.
    pub(super) fn class(&self, name: &str) -> Option<EffectClass> {
        self.get(name).map(|tools| tools.class)
    }

    /// The tool for the agent's state with this name, which the step runs itself.
    pub(super) fn state_tool(&self, name: &str) -> Option<StateTool> {
        match &self.get(name)?.source {
            Source::Step(tool) => Some(*tool),
            Source::Tools { .. } => None,
        }
    }

    pub(super) async fn run(&self, call: &ToolCall, workspace: &Path) -> Result<String, String> {
        let source = self.get(&call.name).map(|offered| &offered.source);
        let Some(Source::Tools { name, tools }) = source else {
            return Err(format!("there is no tool `{}`", call.name));
        };
        let call = ToolCall {
            name: name.clone(),
            ..call.clone()
        };
        tools.run(&call, workspace).await
    }

    fn get(&self, name: &str) -> Option<&OfferedTool> {
        self.tools.iter().find(|tools| tools.tool.name == name)
    }
}

#[cfg(test)]
mod tests {
    use segno_core::ports::Boxed;
    use segno_core::tool::OfferedTool;

    use super::*;

    struct FakeTools(Vec<OfferedTool>);

    impl Tools for FakeTools {
        fn offered_tools(&self) -> &[OfferedTool] {
            &self.0
        }

        fn run<'a>(&'a self, call: &'a ToolCall, _: &'a Path) -> Boxed<'a, Result<String, String>> {
            Box::pin(std::future::ready(Ok(call.name.clone())))
        }
    }

    fn tools(names: &[&str]) -> Arc<dyn Tools> {
        let offer = |name: &&str| OfferedTool {
            tool: Tool {
                name: (*name).to_owned(),
                description: String::new(),
                schema: serde_json::json!({}),
            },
            class: EffectClass::ReadOnly,
        };
        Arc::new(FakeTools(names.iter().map(offer).collect()))
    }

    fn names(toolset: &Toolset) -> Vec<String> {
        let offered = toolset.offered(|_| true).into_iter();
        offered.map(|tool| tool.name).collect()
    }

    #[tokio::test]
    async fn tool_names_stay_unique() {
        let mut toolset = Toolset::default();
        let long = "x".repeat(70);
        toolset.add(None, &tools(&["head", "head"]), |_| true);
        toolset.add(
            Some("a"),
            &tools(&["read", "head", "get it", &long]),
            |_| true,
        );
        toolset.add(Some("b.c"), &tools(&["read", "a_head", "no"]), |name| {
            name != "no"
        });
        toolset.add(Some("a"), &tools(&["head"]), |_| true);
        let cut = format!("a_{}", "x".repeat(62));
        let expected = [
            "head",
            "read",
            "a_head",
            "a_get_it",
            &cut,
            "b_c_read",
            "b_c_a_head",
            "a_head_2",
        ];
        assert_eq!(names(&toolset), expected);
        let call = ToolCall {
            id: "1".into(),
            name: "b_c_read".into(),
            input: serde_json::json!({}),
        };
        assert_eq!(
            toolset.run(&call, Path::new("/")).await,
            Ok("read".to_owned())
        );
    }
}
