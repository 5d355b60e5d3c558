//! Runs a CLI agent: an agent whose program keeps the conversation itself.
//!
//! The journal records what the program reports while it reports it, so that a lost run loses no
//! more than what was in transit. An unfinished step continues with the first resume strategy whose
//! preconditions hold. A strategy that the program refuses for the conversation's sake is excluded for
//! the rest of the attempt, and the next one is tried. Any other failure fails the attempt and says
//! nothing about the conversation.

use segno_core::agent::{self, Answer, ErrorKind, Event as AgentEvent, Listener, Request};
use segno_core::cli_agent::{CliAgent, ConversationMode};
use segno_core::journal::ConversationOpened;
use segno_core::resume::Strategy;
use segno_core::usage::{Cost, Usage};
use segno_spec::ContextFull;

use super::Runner;
use super::agent_events::RecentConversation;
use super::run_model_loop::StepError;
use super::step::{Step, priced};
use crate::error::Error;
use crate::resume::context::message::Cause;
use crate::resume::strategy::NEEDS_TRANSCRIPT;

/// How often a fresh conversation may take over within one attempt. An agent that fills the context
/// every time makes no progress.
const MAX_FRESH_STARTS: u32 = 20;

/// Why a program was stopped in the middle of its work.
enum Halt {
    /// The share of the context that is used, in percent.
    Full(u64),
    /// The model has replied as often as it may: its last text.
    Limit(String),
}

impl Runner {
    /// Starts a CLI agent on a step, or resumes the step that it had started.
    pub(super) async fn run_cli_agent(
        &self,
        cli_agent: &dyn CliAgent,
        step: &Step<'_>,
        revision: u32,
        request: &Request<'_>,
        recent: &RecentConversation,
        listener: &dyn Listener,
    ) -> Result<Answer, StepError> {
        let (mut excluded, mut fresh_starts) = (Vec::new(), 0);
        loop {
            let call_plan = self
                .plan_call(cli_agent, step, revision, recent, &excluded)
                .await?;
            let attempt = request.attempt;
            let open = ConversationOpened {
                path: step.path.clone(),
                revision,
                attempt,
                program: cli_agent.kind(),
                native_id: call_plan.id.clone(),
                folder: self.id.workspace.to_string_lossy().into_owned(),
                home: cli_agent
                    .home()
                    .map(|home| home.to_string_lossy().into_owned()),
                strategy: call_plan.strategy,
            };
            let continues = call_plan.has_transcript;
            let way = if continues {
                ConversationMode::Resume { id: &call_plan.id }
            } else {
                ConversationMode::Start { id: &call_plan.id }
            };
            // P6: the conversation's id is durable before the program does anything under it.
            if continues || cli_agent.accepts_id() {
                self.journal.write(vec![open.clone().into()]).await?;
            }
            let (agent_listener, writer) = self.listen(open, step, recent);
            let known = self
                .journal
                .with_state(|state| state.context_windows.get(step.agent).copied());
            let system = step.system_prompt(call_plan.has_context);
            let input = call_plan.prompt.as_deref().unwrap_or(request.input);
            // The transcript of another agent does not have the prompt of this one.
            let is_handed_over = continues && call_plan.strategy == Some(Strategy::Handoff);
            let lacks_prompt = is_handed_over && !cli_agent.has_system_prompt();
            let input = if lacks_prompt && !system.trim().is_empty() {
                &format!("{system}\n\n{input}")
            } else {
                input
            };
            let request = Request {
                system: &system,
                input,
                window: known
                    .filter(|(program, _)| *program == cli_agent.kind())
                    .map(|(_, window)| window),
                conversation_cost: call_plan.cost,
                ..*request
            };
            let full = async {
                match self.policy.context_full {
                    ContextFull::Agent => std::future::pending().await,
                    ContextFull::Handoff | ContextFull::Pause => {
                        agent_listener.wait_context_full().await
                    }
                }
            };
            // Dropping the future kills the program with its whole process tree.
            let outcome = tokio::select! {
                // An answer that has arrived counts, even if it filled the context.
                biased;
                outcome = cli_agent.ask(request, way, &agent_listener) => Ok(outcome),
                percent = full => Err(Halt::Full(percent)),
                text = agent_listener.wait_turn_limit() => Err(Halt::Limit(text)),
            };
            drop(agent_listener);
            let written = writer.await.expect("received messages are recorded");
            self.limits.budget.spend(step.executed_by, written.usage);
            let rest = |usage: Usage| remaining_usage(priced(step.price, usage), written.usage);
            let outcome = match outcome {
                Ok(outcome) => outcome,
                Err(Halt::Limit(text)) => {
                    if let Some(exchange) = &self.exchange {
                        exchange.set_turn_limit_reached();
                    }
                    return Ok(Answer {
                        text,
                        usage: rest(written.reported),
                    });
                }
                Err(Halt::Full(percent))
                    if self.policy.context_full == ContextFull::Pause
                        || fresh_starts == MAX_FRESH_STARTS =>
                {
                    return Err(StepError::Engine(Error::ContextFull {
                        name: self.id.name.clone(),
                        path: step.path.clone(),
                        percent,
                    }));
                }
                Err(Halt::Full(percent)) => {
                    self.observer.notice(&format!(
                        "step {}: {percent} % of the context is used; continuing in a new conversation",
                        step.path
                    ));
                    recent.set_interruption(Cause::Full);
                    fresh_starts += 1;
                    excluded.extend(NEEDS_TRANSCRIPT);
                    continue;
                }
            };
            match outcome {
                Ok(answer) => {
                    return Ok(Answer {
                        usage: rest(answer.usage),
                        ..answer
                    });
                }
                Err(error) if continues && is_conversation_unusable(&error) => {
                    self.observer.notice(&format!(
                        "step {}: {} cannot resume its own conversation: {}",
                        step.path,
                        cli_agent.kind(),
                        error.message
                    ));
                    if error.kind == ErrorKind::ContextFull {
                        excluded.extend(NEEDS_TRANSCRIPT);
                    } else {
                        excluded.extend(call_plan.strategy);
                    }
                }
                // What was said is recorded, so that a fresh conversation can continue.
                Err(error)
                    if error.kind == ErrorKind::ContextFull
                        && written.entries > 0
                        && fresh_starts < MAX_FRESH_STARTS =>
                {
                    self.observer.notice(&format!(
                        "step {}: {}; continuing in a new conversation",
                        step.path, error.message
                    ));
                    recent.set_interruption(Cause::Full);
                    fresh_starts += 1;
                    excluded.extend(NEEDS_TRANSCRIPT);
                }
                Err(error) => {
                    listener.on_event(AgentEvent::Usage(rest(written.reported)));
                    recent.set_interruption(Cause::Failed(self.failure(&error)));
                    return Err(error.into());
                }
            }
        }
    }
}

/// Whether an error says that the program cannot resume this conversation, rather than that it could not
/// be started or that the work failed. It may have reported other things before.
fn is_conversation_unusable(error: &agent::Error) -> bool {
    matches!(
        error.kind,
        ErrorKind::NoConversation | ErrorKind::ContextFull
    )
}

/// The part of a usage that is not in the journal yet.
pub fn remaining_usage(all: Usage, written: Usage) -> Usage {
    Usage {
        input_tokens: all.input_tokens.saturating_sub(written.input_tokens),
        output_tokens: all.output_tokens.saturating_sub(written.output_tokens),
        cost: Cost(all.cost.0.saturating_sub(written.cost.0)),
    }
}
