//! Whether the agents of a workflow may change files.

use super::agents::{Agent, Permission};
use super::outline::outline;
use super::pattern::{Goal, Pattern};
use super::provider::Provider;
use super::workflow::Workflow;

/// The built-in tools that write files, or run code that may.
const WRITING_TOOLS: [&str; 2] = ["file_write", "python_exec"];

/// Whether an agent that has a step may change files: any program, and a model with a tool for it.
/// It is not known what the tools of an MCP server do.
pub(super) fn may_change_files(workflow: &Workflow) -> bool {
    if matches!(&workflow.pattern, Pattern::Plan(plan) if plan.goal == Goal::Plan) {
        return false;
    }
    outline(workflow).iter().any(|step| {
        let agent = step.agent.as_ref();
        let agent = agent.and_then(|agent| workflow.agents.get(agent));
        agent.is_some_and(|agent| {
            let tools = step.tools.as_ref().unwrap_or(&agent.tools);
            agent_may_change_files(workflow, agent, tools)
        })
    })
}

fn agent_may_change_files(workflow: &Workflow, agent: &Agent, tools: &[String]) -> bool {
    match &agent.provider {
        Provider::Scripted { .. } => false,
        Provider::Command { .. } | Provider::Acp { .. } | Provider::Program { .. } => true,
        Provider::Api(_) => tools.iter().any(|tool| {
            let servers = &workflow.tools.servers;
            let writes = WRITING_TOOLS.contains(&tool.as_str())
                || servers.iter().any(|server| server.id == *tool);
            writes && agent.permissions.of(tool) != Permission::Deny
        }),
    }
}
