//! Plans a resume without executing it: which steps continue, with which strategy, and at what
//! cost.

use std::path::Path as FilePath;

use segno_core::companion::{Companion, Gauge, Program};
use segno_core::id::SessionId;
use segno_core::journal::Suspension;
use segno_core::ladder::{self, Rung};
use segno_core::lease::{Owner, Verdict};
use segno_core::session::{Status, Summary};
use segno_core::snapshot::Sight;
use segno_core::state::{Open, State};
use segno_core::step::Path;
use segno_core::usage::{Cost, Price, Usage};

use crate::checkpoint::records::of_papers;
use crate::drift::drift;
use crate::error::Error;
use crate::evidence::FoundConversation;
use crate::resume::{self, OnLimit, Options};
use crate::spec::{Provider, Workflow};
use crate::world::{Speaker, World};
use crate::{claim, evidence, history, reconcile, relocate};

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
    /// The unfinished steps, which would continue.
    pub steps: Vec<StepPlan>,
    /// The workspace status.
    pub sight: Sight,
    /// What others changed in the workspace since the session's last run; `None` if that is
    /// unknown.
    pub drift: Option<Vec<String>>,
}

/// How a step would continue.
#[derive(Debug, Clone)]
pub struct StepPlan {
    pub path: Path,
    /// The agent that would execute it.
    pub agent: String,
    pub way: Way,
    /// The rate limit to wait for first, if there is one.
    pub suspended: Option<Suspension>,
}

/// How a step continues.
#[derive(Debug, Clone)]
pub enum Way {
    /// It starts from the beginning: its agent keeps no conversation.
    Again,
    /// With the conversation of an API model, from the journal.
    Journal,
    /// With an agent that took it over and keeps no conversation: it receives the earlier
    /// conversation as text.
    Told,
    /// With a CLI agent, by a resume strategy.
    Ladder(Box<Climb>),
}

/// How a CLI agent resumes.
#[derive(Debug, Clone)]
pub struct Climb {
    pub program: Program,
    /// The program's id for the conversation, if it reported one.
    pub native: Option<String>,
    /// The chosen strategy, why better ones do not hold, and what is lost.
    pub plan: ladder::Plan,
    /// How full the context was.
    pub gauge: Option<Gauge>,
    /// The workspace of the conversation, if the step continues in another one.
    pub moved_from: Option<String>,
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
pub(crate) enum Kept<'a> {
    /// Stored with this session.
    Session(SessionId),
    /// In these attachments, by name: the session does not exist yet.
    Papers(&'a [(String, Vec<u8>)]),
}

/// Plans a resume. Changes nothing and calls no agent.
pub async fn plan(world: &World, summary: &Summary, options: &Options) -> Result<Plan, Error> {
    resume::check_resumable(summary)?;
    let state = history::look(world, summary.id).await?;
    let workflow = resume::kept_spec(world, summary.id, &state).await?;
    relocate::is_there(summary, &workflow, &summary.workspace)?;
    let lease = world.store.lease(summary.id).await?;
    let held = claim::verdict(world, &lease) == Verdict::Held;
    let sight = reconcile::look(world, FilePath::new(&summary.workspace), None).await;
    let kept = Kept::Session(summary.id);
    let steps = steps(world, &workflow, &state, kept, options).await?;
    Ok(Plan {
        status: claim::standing(world, summary, &lease),
        held_by: lease.owner.filter(|_| held),
        finished: state.finished,
        steps,
        drift: drift_since_last_run(&state, &sight),
        sight,
    })
}

/// How the unfinished steps would continue.
pub(crate) async fn steps(
    world: &World,
    workflow: &Workflow,
    state: &State,
    kept: Kept<'_>,
    options: &Options,
) -> Result<Vec<StepPlan>, Error> {
    let mut steps = Vec::new();
    for (path, open) in &state.open {
        let way = continuation(world, kept, workflow, state, open, options).await?;
        let agent = options.with.as_ref().unwrap_or(&open.agent);
        // Only a rate limit of the agent that would be called counts.
        let asked = match &way {
            Way::Ladder(climb) => Some(climb.program.as_str()),
            Way::Again | Way::Journal | Way::Told => workflow
                .agents
                .get(agent)
                .map(|agent| agent.provider.name()),
        };
        let waits = |of: &Suspension| {
            options.on_limit != Some(OnLimit::Ask) && asked.is_none_or(|asked| asked == of.provider)
        };
        steps.push(StepPlan {
            path: path.clone(),
            agent: agent.clone(),
            way,
            suspended: open.suspended(world.clock.now()).filter(waits),
        });
    }
    Ok(steps)
}

/// What others changed in the workspace since the session's last run.
pub(crate) fn drift_since_last_run(state: &State, sight: &Sight) -> Option<Vec<String>> {
    state.seen.as_ref().map(|seen| drift(seen, sight))
}

async fn continuation(
    world: &World,
    kept: Kept<'_>,
    workflow: &Workflow,
    state: &State,
    open: &Open,
    options: &Options,
) -> Result<Way, Error> {
    let taken_over = options.with.as_deref();
    let provider = match (taken_over, workflow.agents.get(&open.agent)) {
        (Some(name), _) => resume::replacement_provider(workflow, name)?,
        (None, Some(agent)) => agent.provider.clone(),
        (None, None) => return Ok(Way::Again),
    };
    let created = state.created.as_ref();
    let folder = created.map_or("", |created| created.spec_path.as_str());
    let folder = FilePath::new(folder).parent().unwrap_or(FilePath::new("."));
    let own = match &provider {
        Provider::Program { .. } | Provider::Acp { .. } => {
            match world.drivers.driver(&provider, folder)? {
                Speaker::Companion(cli_agent) => Some(cli_agent),
                Speaker::Agent(_) | Speaker::Model(_) => None,
            }
        }
        Provider::Api(_) | Provider::Command { .. } | Provider::Scripted { .. } => None,
    };
    let cli_agent = match open.with().filter(|_| taken_over.is_none()) {
        Some(last) if own.as_ref().is_none_or(|own| own.program() != last) => {
            world.drivers.companion(last).or(own)
        }
        _ => own,
    };
    let Some(cli_agent) = cli_agent else {
        let is_handover = taken_over.is_some_and(|name| name != open.agent);
        return Ok(match &provider {
            Provider::Api(_) if !is_handover => Way::Journal,
            _ if is_handover || open.handed.is_some() => Way::Told,
            _ => Way::Again,
        });
    };
    let workspace = created.map_or("", |created| created.workspace.as_str());
    let workspace = FilePath::new(workspace);
    let planning = plan_cli_agent(
        world,
        kept,
        &*cli_agent,
        open,
        workspace,
        options,
        &provider,
    );
    Ok(Way::Ladder(Box::new(planning.await?)))
}

async fn plan_cli_agent(
    world: &World,
    kept: Kept<'_>,
    cli_agent: &dyn Companion,
    open: &Open,
    workspace: &FilePath,
    options: &Options,
    provider: &Provider,
) -> Result<Climb, Error> {
    let native = open.native.as_ref();
    let mut conversation = match (kept, native) {
        (Kept::Papers(papers), Some(native)) => {
            let copy = of_papers(native, papers);
            FoundConversation::from_copy(cli_agent, native, copy, workspace).await
        }
        (Kept::Papers(_), None) => FoundConversation::default(),
        (Kept::Session(session), _) => {
            evidence::collect(world, session, cli_agent, native, workspace).await?
        }
    };
    conversation.evidence.left = resume::strategies_above(options.rung);
    let plan = ladder::choose(&conversation.evidence);
    let gauge = native.and_then(|native| native.context);
    let own = matches!(plan.rung, Rung::Native | Rung::Repaired | Rung::Rehomed);
    let (tokens, counted) = match gauge.filter(|_| own) {
        Some(gauge) => (gauge.used, true),
        None if own => (conversation.bytes() / BYTES_PER_TOKEN, false),
        None => (RESUME_CONTEXT_TOKENS, false),
    };
    let price = provider
        .model()
        .and_then(|model| world.drivers.price(model));
    Ok(Climb {
        program: cli_agent.program(),
        native: native.map(|native| native.id.clone()),
        plan,
        gauge,
        moved_from: conversation.moved_from,
        estimate: estimate(tokens, counted, price),
    })
}

fn estimate(tokens: u64, counted: bool, price: Option<Price>) -> Estimate {
    let cost = |tokens: u64| {
        let read = Usage {
            input_tokens: tokens,
            ..Usage::default()
        };
        price.map(|price| price.on(read).cost)
    };
    Estimate {
        tokens,
        counted,
        warm: cost(tokens * CACHED_PRICE_PERCENT / 100),
        cold: cost(tokens),
    }
}
