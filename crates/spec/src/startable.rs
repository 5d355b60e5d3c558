//! What a workflow may start or reach: programs, servers, services, tools.
//!
//! A spec is a file, and an agent that writes files may write it. A user who resumes a session with
//! an edited spec must know what the edit would start, so two versions are compared by these lists.

use std::collections::BTreeSet;

use super::agents::Permission;
use super::environment::Source;
use super::outline::outline;
use super::provider::Provider;
use super::tools::Transport;
use super::workflow::Workflow;

/// Everything that runs of a workflow may start or reach, in words. Two workflows with the same list
/// differ only in what they ask.
pub fn startable(workflow: &Workflow) -> BTreeSet<String> {
    let mut found = BTreeSet::new();
    for agent in workflow.agents.values() {
        match &agent.provider {
            Provider::Command { argv } => found.insert(format!("program `{}`", argv.join(" "))),
            Provider::Acp { argv } => found.insert(format!("ACP agent `{}`", argv.join(" "))),
            Provider::Program { program, .. } => found.insert(format!("CLI agent `{program}`")),
            Provider::Api(api) => match &api.base {
                Some(base) => found.insert(format!("model API {base}")),
                None => false,
            },
            Provider::Scripted { .. } => false,
        };
    }
    let declared = &workflow.tools;
    for server in &declared.servers {
        found.insert(match &server.transport {
            Transport::Program { argv, env } => {
                let set = env.iter().map(|(name, value)| format!("{name}={value}"));
                let words: Vec<String> = set.chain(argv.iter().cloned()).collect();
                format!("MCP server `{}` (`{}`)", server.id, words.join(" "))
            }
            Transport::Address { url, .. } => format!("MCP server `{}` ({url})", server.id),
        });
    }
    for executor in &declared.executors {
        found.insert(format!("service `{}` ({})", executor.id, executor.base_url));
    }
    found.extend(tools(workflow));
    for secret in &workflow.environment.secrets {
        found.insert(match &secret.source {
            Source::Variable(name) => format!("secret `{name}`"),
            Source::File(path) => format!("secret in {path}"),
        });
    }
    for (name, path) in &workflow.environment.mounts {
        found.insert(format!("mounted folder `{name}` ({path})"));
    }
    found
}

/// The tools that models may call. A tool that a human must approve is another one.
fn tools(workflow: &Workflow) -> BTreeSet<String> {
    let mut found = BTreeSet::new();
    let mut add = |agent: &str, tools: &[String]| {
        let Some(agent) = workflow.agents.get(agent) else {
            return;
        };
        for tool in tools {
            match agent.permissions.of(tool) {
                Permission::Allow => found.insert(format!("tool `{tool}`")),
                Permission::Ask => found.insert(format!("tool `{tool}` (asks first)")),
                Permission::Deny => false,
            };
        }
    };
    for (name, agent) in &workflow.agents {
        add(name, &agent.tools);
    }
    for step in outline(workflow) {
        if let (Some(agent), Some(tools)) = (&step.agent, &step.tools) {
            add(agent, tools);
        }
    }
    found
}

#[cfg(test)]
mod tests {
    use super::super::parse;
    use super::*;

    const SPEC: &str = r"
version: 0
name: demo
runtime: {provider: anthropic}
agents: {a: {prompt: A, tools: [head]}}
pattern: {type: chain, config: {steps: [{agent: a, input: one}]}}
";

    fn added(from: &str, to: &str) -> Vec<String> {
        assert!(SPEC.contains(from), "{from}");
        let old = startable(&parse(SPEC).unwrap());
        let new = startable(&parse(&SPEC.replace(from, to)).unwrap());
        new.difference(&old).cloned().collect()
    }

    #[test]
    fn what_an_edit_would_start_is_listed() {
        assert_eq!(added("input: one", "input: two"), [""; 0]);
        assert_eq!(
            added(
                "{prompt: A, tools: [head]}",
                "{prompt: A, provider: command, command: [sh, -c, id]}"
            ),
            ["program `sh -c id`"]
        );
        assert_eq!(
            added("{prompt: A, tools: [head]}", "{prompt: A, provider: codex}"),
            ["CLI agent `codex`"]
        );
        assert_eq!(
            added(
                "{provider: anthropic}",
                "{provider: anthropic, host: 'http://evil.example'}"
            ),
            ["model API http://evil.example/v1"]
        );
        assert_eq!(
            added("[head]", "[head, python_exec]"),
            ["tool `python_exec`"]
        );
        assert_eq!(
            added(
                "{agent: a, input: one}",
                "{agent: a, tool_overrides: [tail]}"
            ),
            ["tool `tail`"]
        );
        assert_eq!(
            added(
                "pattern:",
                "tools: {mcp: [{id: fs, command: npx, args: [fs], env: {A: b}}]}\npattern:"
            ),
            ["MCP server `fs` (`A=b npx fs`)"]
        );
        assert_eq!(
            added(
                "pattern:",
                "env: {secrets: [{key: TOKEN, source: env}]}\npattern:"
            ),
            ["secret `TOKEN`"]
        );
    }
}
