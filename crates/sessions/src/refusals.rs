//! Which setting allows a tool that an agent was refused.

use segno_core::agent::RefusalReason;
use segno_core::cli_agent::CliAgentKind;
use segno_core::state::RefusedTool;

/// The settings that allow the tool, best first; none if no setting does.
pub fn settings(refused: &RefusedTool) -> Vec<String> {
    let settings: &[&str] = match (refused.reason, refused.program) {
        (RefusalReason::Permissions, Some(CliAgentKind::ClaudeCode)) => &[
            "claude-code.allow",
            "claude-code.permissions",
            "--permissions",
        ],
        (RefusalReason::Permissions, Some(CliAgentKind::Codex)) => {
            &["codex.permissions", "--permissions"]
        }
        (RefusalReason::Permissions, Some(CliAgentKind::Acp)) => {
            &["acp.permissions", "--permissions"]
        }
        (RefusalReason::Spec, _) => {
            return vec![format!(
                "agents.{}.permissions.{}",
                refused.agent, refused.tool
            )];
        }
        (RefusalReason::Permissions, None) | (RefusalReason::ReadOnly | RefusalReason::User, _) => {
            &[]
        }
    };
    settings.iter().map(|&setting| setting.to_owned()).collect()
}

/// What a person can do about it, in one sentence.
pub fn advice(refused: &RefusedTool) -> String {
    let settings = settings(refused);
    let named: Vec<String> = settings.iter().map(|name| format!("`{name}`")).collect();
    match (refused.reason, named.as_slice()) {
        (RefusalReason::User, _) => "a user refused it".to_owned(),
        (RefusalReason::ReadOnly, _) => {
            "agents that plan, review or only answer change no files".to_owned()
        }
        (_, []) => "no setting allows it".to_owned(),
        (RefusalReason::Spec, _) => format!("{} in the spec allows it", named.join(" or ")),
        (RefusalReason::Permissions, [settings @ .., option]) => format!(
            "{} in config.toml, or the option {option}, allows it",
            settings.join(" or ")
        ),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn refused(reason: RefusalReason, program: Option<CliAgentKind>) -> RefusedTool {
        RefusedTool {
            agent: "worker".into(),
            tool: "Write".into(),
            reason,
            program,
            count: 1,
        }
    }

    #[test]
    fn advice_names_the_setting_that_allows_a_tool() {
        use RefusalReason::{Permissions, ReadOnly, Spec, User};
        for (reason, program, expected) in [
            (
                Permissions,
                Some(CliAgentKind::ClaudeCode),
                "`claude-code.allow` or `claude-code.permissions` in config.toml, or the option `--permissions`, allows it",
            ),
            (
                Permissions,
                Some(CliAgentKind::Codex),
                "`codex.permissions` in config.toml, or the option `--permissions`, allows it",
            ),
            (
                Spec,
                None,
                "`agents.worker.permissions.Write` in the spec allows it",
            ),
            (
                ReadOnly,
                Some(CliAgentKind::Acp),
                "agents that plan, review or only answer change no files",
            ),
            (User, None, "a user refused it"),
        ] {
            assert_eq!(advice(&refused(reason, program)), expected);
        }
    }
}
