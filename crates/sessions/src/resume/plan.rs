//! Plans a resume without executing it: which steps continue, with which strategy, and at what
//! cost.

use std::collections::HashMap;
use std::path::Path as FilePath;

use segno_core::cli_agent::{CliAgent, CliAgentKind, Examination, Holder};
use segno_core::id::SessionId;
use segno_core::journal::{OnChange, StepOutcome, Suspension};
use segno_core::lease::Owner;
use segno_core::resume::{Plan as StrategyPlan, Strategy, choose_strategy};
use segno_core::session::Status;
use segno_core::snapshot::WorkspaceStatus;
use segno_core::state::{Chat, NativeConversation, OpenStep, State, default_conversation};
use segno_core::step::Path;
use segno_core::store::Summary;
use segno_core::usage::{ContextLimits, ContextUsage, Cost, Price, Usage};
use segno_engine::checkpoint::transcripts::{CopySource, find_transcript};
use segno_engine::resume::evidence::{FoundConversation, Search};
use segno_engine::resume::{drift, strategies_above};
use segno_engine::{AgentDriver, Env, checkpoint, history, lease, workspace};
use segno_spec::{Provider, Workflow};

use super::Error;
use crate::next_run::{self, OnLimit, Options};
use crate::unknown::{self, Decisions};

/// Bytes per token, where no one counted.
const BYTES_PER_TOKEN: u64 = 4;
/// The most tokens that a resume context takes.
const RESUME_CONTEXT_TOKENS: u64 = 26_000;
/// The price of cached tokens, in percent of the normal price. Vendors differ by little.
const CACHED_PRICE_PERCENT: u64 = 10;

/// What a resume would do.
#[derive(Debug, Clone)]
pub struct Plan {
    pub status: Status,
    /// The owner of the active run, if there is one; a resume would be refused.
    pub held_by: Option<Owner>,
    /// The number of finished steps, which do not run again.
    pub finished: u64,
    /// How the spec was edited since the session last ran, if the edited spec would be used.
    pub spec_edit: Option<SpecEditPlan>,
    /// What is noteworthy about the choice of the spec.
    pub spec_notice: Option<String>,
    /// The unfinished steps, which would continue.
    pub steps: Vec<StepPlan>,
    /// The steps whose outcome is unknown and left to the user; a resume would be refused.
    pub unresolved: Vec<Path>,
    /// The workspace status.
    pub workspace_status: WorkspaceStatus,
    /// What others changed in the workspace since the session's last run; `None` if that is
    /// unknown.
    pub drift: Option<Vec<String>>,
}

/// What a resume would do with an edited spec.
#[derive(Debug, Clone)]
pub struct SpecEditPlan {
    /// The changed steps, in words.
    pub steps: Vec<String>,
    pub policy: OnChange,
}

/// How a step would continue.
#[derive(Debug, Clone)]
pub struct StepPlan {
    pub path: Path,
    /// The agent that would execute it.
    pub agent: String,
    pub continuation: Continuation,
    /// What is known about the outcome of its newest attempt, if it was in flight when its run was lost.
    pub outcome: Option<PlannedOutcome>,
    /// The rate limit to wait for first, if there is one.
    pub suspended: Option<Suspension>,
}

/// What a resume does about an unknown outcome.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum PlannedOutcome {
    /// Nobody knows it.
    Unknown,
    /// A user says that it took effect: the step counts as finished with their result.
    Done,
    /// A user says that it did not: the attempt counts as failed. Without retries, the step fails.
    Failed { retried: bool },
}

impl PlannedOutcome {
    /// The word in JSON.
    pub const fn as_str(self) -> &'static str {
        match self {
            Self::Unknown => "unknown",
            Self::Done => "done",
            Self::Failed { .. } => "failed",
        }
    }
}

/// How a step continues.
#[derive(Debug, Clone)]
pub enum Continuation {
    /// It starts from the beginning: its agent keeps no conversation.
    Restart,
    /// With the conversation of an API model, from the journal.
    Journal,
    /// With an agent that took it over and keeps no conversation: it receives the earlier
    /// conversation as text.
    AsText,
    /// With a CLI agent, by a resume strategy.
    CliAgent(Box<CliAgentPlan>),
}

/// How a CLI agent resumes.
#[derive(Debug, Clone)]
pub struct CliAgentPlan {
    pub program: CliAgentKind,
    /// The program's id for the conversation, if it reported one.
    pub conversation_id: Option<String>,
    /// The chosen strategy, why better ones do not hold, and what is lost.
    pub plan: StrategyPlan,
    /// How full the context was.
    pub context_usage: Option<ContextUsage>,
    /// The workspace of the conversation, if the step continues in another one.
    pub moved_from: Option<String>,
    /// Where the transcript is copied from, if it is restored.
    pub copied_from: Option<CopySource>,
    /// Why the transcript cannot be examined, if it cannot: the step would fail until that is fixed.
    pub unexamined: Option<String>,
    /// The processes that have the conversation open; a resume would be refused.
    pub holders: Vec<Holder>,
    /// What the agent reads before it does anything.
    pub estimate: Estimate,
}

/// The estimated cost of a resume.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Estimate {
    /// The tokens that are read.
    pub tokens: u64,
    /// Whether the vendor counted the tokens; otherwise they are estimated.
    pub counted: bool,
    /// The cost if the vendor has the tokens in its cache; `None` without a price.
    pub warm: Option<Cost>,
    /// The cost without the cache.
    pub cold: Option<Cost>,
}

/// Where the copies of transcripts are.
#[derive(Clone, Copy)]
pub(crate) enum TranscriptCopies<'a> {
    /// Stored with this session.
    Session(SessionId),
    /// In these attachments, by name: the session does not exist yet.
    Attachments(&'a [(String, Vec<u8>)]),
}

/// Plans a resume. Changes nothing and calls no agent.
pub async fn plan(env: &Env, summary: &Summary, options: &Options) -> Result<Plan, Error> {
    next_run::check_resumable(summary)?;
    let state = history::load_state(env, summary.id).await?;
    let spec = next_run::preview_spec(env, summary, options).await?;
    let workflow = spec.workflow;
    next_run::check_workspace_exists(summary, &workflow, &summary.workspace)?;
    let lease = env.store.lease(summary.id).await?;
    let held = lease::verdict(env, &lease).is_held();
    let workspace_status =
        workspace::workspace_status(env, FilePath::new(&summary.workspace), None).await;
    let kept = TranscriptCopies::Session(summary.id);
    let mut steps = steps(env, &workflow, &state, kept, options).await?;
    let unresolved = outcomes(env, summary, &workflow, &state, options, &mut steps).await?;
    let edit = spec.edited.map(|edited| edited.edit);
    let asks_other = |path: &Path| edit.as_ref().is_some_and(|edit| edit.discards(path));
    for step in steps.iter_mut().filter(|step| asks_other(&step.path)) {
        step.continuation = Continuation::Restart;
        step.outcome = None;
    }
    Ok(Plan {
        unresolved,
        spec_edit: edit.map(|edit| SpecEditPlan {
            steps: edit.steps(),
            policy: spec.policy,
        }),
        spec_notice: spec.notice,
        status: lease::effective_status(env, summary, &lease),
        held_by: lease.owner.filter(|_| held),
        finished: state.finished,
        steps,
        drift: drift::since_last_run(&state, &workspace_status),
        workspace_status,
    })
}

/// How the unfinished steps would continue.
pub(crate) async fn steps(
    env: &Env,
    workflow: &Workflow,
    state: &State,
    kept: TranscriptCopies<'_>,
    options: &Options,
) -> Result<Vec<StepPlan>, Error> {
    let mut steps = Vec::new();
    let next = next_message(state);
    for (path, open) in state
        .open_steps
        .iter()
        .chain(next.as_ref().map(|(path, open)| (path, open)))
    {
        let way = continuation(env, kept, workflow, state, open, options).await?;
        let agent = options.agent.as_ref().unwrap_or(&open.agent);
        // Only a rate limit of the agent that would be called counts.
        let asked = match &way {
            Continuation::CliAgent(climb) => Some(climb.program.as_str()),
            Continuation::Restart | Continuation::Journal | Continuation::AsText => workflow
                .agents
                .get(agent)
                .map(|agent| agent.provider.name()),
        };
        let waits = |of: &Suspension| {
            options.on_limit != Some(OnLimit::RetryNow)
                && asked.is_none_or(|asked| asked == of.provider)
        };
        steps.push(StepPlan {
            path: path.clone(),
            agent: agent.clone(),
            continuation: way,
            outcome: None,
            suspended: open.suspended(env.clock.now()).filter(waits),
        });
    }
    Ok(steps)
}

/// Adds to the unfinished steps what is known about their outcomes, and returns those that the policy
/// leaves to the user.
async fn outcomes(
    env: &Env,
    summary: &Summary,
    workflow: &Workflow,
    state: &State,
    options: &Options,
    steps: &mut [StepPlan],
) -> Result<Vec<Path>, Error> {
    let spec_path = state.created.as_ref().map_or("", |it| &it.spec_path);
    let (env, _) = env.for_workflow(workflow, spec_path.as_ref(), &|_| {});
    let said = Decisions {
        by: &options.by,
        decisions: &options.decisions,
    };
    let checked = unknown::check(&env, &summary.name, workflow, state, said);
    let checked = checked.map_err(next_run::Error::from)?;
    let recorded = unknown::recorded(&env, summary.id, state).await?;
    let recorded = recorded.iter().map(|it| (&it.path, Some(it.outcome)));
    let said = checked.iter().map(|it| (it.path, it.outcome));
    // What the user says now counts, not what they said before.
    let said: HashMap<&Path, _> = recorded.chain(said).collect();
    let unknown: Vec<&Path> = unknown::unknown_steps(state)
        .map(|(path, _)| path)
        .collect();
    let retried = workflow.runtime.retry.retries > 0;
    for step in steps {
        step.outcome = match said.get(&step.path) {
            Some(Some(StepOutcome::Done)) => Some(PlannedOutcome::Done),
            Some(Some(StepOutcome::Failed)) => Some(PlannedOutcome::Failed { retried }),
            _ => unknown
                .contains(&&step.path)
                .then_some(PlannedOutcome::Unknown),
        };
    }
    Ok(next_run::left_to_user(workflow, state, options, &checked))
}

/// The next message of an adopted conversation that has nothing to continue.
fn next_message(state: &State) -> Option<(Path, OpenStep)> {
    let chat = state.chat.as_ref().filter(|_| state.imported.is_some())?;
    let open = OpenStep {
        agent: chat.agent.clone(),
        ..OpenStep::discarded(0, state.updated_at)
    };
    let path = Chat::message_path(chat.next_number);
    state.open_steps.is_empty().then_some((path, open))
}

async fn continuation(
    env: &Env,
    kept: TranscriptCopies<'_>,
    workflow: &Workflow,
    state: &State,
    open: &OpenStep,
    options: &Options,
) -> Result<Continuation, Error> {
    let taken_over = options.agent.as_deref();
    let provider = match (taken_over, workflow.agents.get(&open.agent)) {
        (Some(name), _) => {
            next_run::replacement_provider(workflow, name).map_err(next_run::Error::from)?
        }
        (None, Some(agent)) => agent.provider.clone(),
        (None, None) => return Ok(Continuation::Restart),
    };
    let created = state.created.as_ref();
    let folder = created.map_or("", |created| created.spec_path.as_str());
    let folder = FilePath::new(folder).parent().unwrap_or(FilePath::new("."));
    let own = match &provider {
        Provider::Program { .. } | Provider::Acp { .. } => {
            let driver = env.drivers.driver(&provider, folder);
            match driver.map_err(next_run::Error::from)? {
                AgentDriver::CliAgent(cli_agent) => Some(cli_agent),
                AgentDriver::Stateless(_) | AgentDriver::Model(_) => None,
            }
        }
        Provider::Api(_) | Provider::Command { .. } | Provider::Scripted { .. } => None,
    };
    let cli_agent = match open.current_cli_agent().filter(|_| taken_over.is_none()) {
        Some(last) if own.as_ref().is_none_or(|own| own.kind() != last) => {
            env.drivers.cli_agent(last).or(own)
        }
        _ => own,
    };
    let Some(cli_agent) = cli_agent else {
        let is_handover = taken_over.is_some_and(|name| name != open.agent);
        return Ok(match &provider {
            Provider::Api(_) if !is_handover => Continuation::Journal,
            _ if is_handover || open.handed_over_at.is_some() => Continuation::AsText,
            _ => Continuation::Restart,
        });
    };
    let workspace = created.map_or("", |created| created.workspace.as_str());
    let workspace = FilePath::new(workspace);
    let chat = state.chat.iter();
    let past = chat.flat_map(|chat| chat.earlier.iter().chain(&chat.native));
    let own = open.earlier.iter().chain(&open.native);
    let known: Vec<&NativeConversation> = past.chain(own).collect();
    let known = KnownConversations {
        conversations: &known,
        workspace,
        best: options.strategy,
        context_limits: workflow.context_limits,
    };
    let planning = plan_cli_agent(env, kept, &*cli_agent, &known, &provider);
    Ok(Continuation::CliAgent(Box::new(planning.await?)))
}

/// The conversations of a step, and what decides which one continues.
struct KnownConversations<'a> {
    conversations: &'a [&'a NativeConversation],
    workspace: &'a FilePath,
    /// The best strategy that the user allows.
    best: Option<Strategy>,
    context_limits: ContextLimits,
}

async fn plan_cli_agent(
    env: &Env,
    kept: TranscriptCopies<'_>,
    cli_agent: &dyn CliAgent,
    known: &KnownConversations<'_>,
    provider: &Provider,
) -> Result<CliAgentPlan, checkpoint::Error> {
    let KnownConversations {
        conversations,
        workspace,
        best,
        context_limits,
    } = *known;
    let conversation = match kept {
        TranscriptCopies::Attachments(attachments) => {
            let native = default_conversation(conversations, cli_agent.kind());
            let mut found = match &native {
                Some(native) => {
                    let copy = find_transcript(native, attachments);
                    FoundConversation::from_copy(cli_agent, native, copy, workspace).await
                }
                None => FoundConversation::default(),
            };
            found.evidence.ruled_out = strategies_above(best);
            found.evidence.context_limits = context_limits;
            found
        }
        TranscriptCopies::Session(session) => {
            let search = Search {
                env,
                session,
                cli_agent,
                workspace,
                conversations,
                examination: Examination::FilesOnly,
                context_limits,
            };
            search.find(best, &[]).await?
        }
    };
    let (plan, unexamined) = match conversation.choose() {
        Ok(plan) => (plan, None),
        Err(error) => (choose_strategy(&conversation.evidence), Some(error.message)),
    };
    let native = conversation.native.as_ref();
    let holders = match native {
        Some(native)
            if matches!(kept, TranscriptCopies::Session(_))
                && !conversation.evidence.other_agent =>
        {
            let earlier = native.home.as_deref().map(FilePath::new);
            cli_agent.holders(&native.id, earlier).await
        }
        _ => Vec::new(),
    };
    let context_usage = native.and_then(|native| native.context);
    let own = matches!(
        plan.strategy,
        Strategy::Native | Strategy::Repaired | Strategy::Restored
    );
    let (tokens, counted) = match context_usage.filter(|_| own) {
        Some(context_usage) => (context_usage.used, true),
        None if own => (conversation.bytes() / BYTES_PER_TOKEN, false),
        None => (RESUME_CONTEXT_TOKENS, false),
    };
    let price = provider.model().and_then(|model| env.drivers.price(model));
    Ok(CliAgentPlan {
        program: cli_agent.kind(),
        conversation_id: native.map(|native| native.id.clone()),
        copied_from: conversation
            .copied_from
            .filter(|_| plan.strategy == Strategy::Restored),
        plan,
        context_usage,
        moved_from: conversation.moved_from.clone(),
        unexamined,
        holders,
        estimate: estimate(tokens, counted, price),
    })
}

fn estimate(tokens: u64, counted: bool, price: Option<Price>) -> Estimate {
    let cost = |tokens: u64| {
        let read = Usage {
            input_tokens: tokens,
            ..Usage::default()
        };
        price.map(|price| price.with_cost(read).cost)
    };
    Estimate {
        tokens,
        counted,
        warm: cost(tokens * CACHED_PRICE_PERCENT / 100),
        cold: cost(tokens),
    }
}
