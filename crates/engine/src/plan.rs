//! What a resume would do, looked at without doing it.

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
use crate::evidence::Remains;
use crate::resume::{self, OnLimit, Options};
use crate::spec::{Provider, Workflow};
use crate::world::{Speaker, World};
use crate::{claim, evidence, history, reconcile, relocate};

/// How many bytes a token has, where nobody counted.
const BYTES_PER_TOKEN: u64 = 4;
/// What is told at most to an agent that begins anew, in tokens.
const TOLD_ANEW: u64 = 26_000;
/// What tokens from a cache cost, in hundredths of what others do. Vendors differ by little.
const CACHED: u64 = 10;

/// What a resume would do.
#[derive(Debug, Clone)]
pub struct Plan {
    /// Where the session stands.
    pub status: Status,
    /// Who has it now; a resume would be refused.
    pub held_by: Option<Owner>,
    /// Steps that are done and will not be done again.
    pub finished: u64,
    /// Steps that were begun and would go on.
    pub steps: Vec<StepPlan>,
    /// How the workspace looks.
    pub sight: Sight,
    /// What others did to it since the session let go of it; `None` if that is not known.
    pub drift: Option<Vec<String>>,
}

/// How a step would go on.
#[derive(Debug, Clone)]
pub struct StepPlan {
    /// The step.
    pub path: Path,
    /// Who would be asked.
    pub agent: String,
    /// How.
    pub way: Way,
    /// The limit that is waited for first, if one is.
    pub suspended: Option<Suspension>,
}

/// How a step goes on.
#[derive(Debug, Clone)]
pub enum Way {
    /// It is asked from the beginning: what answers for it keeps nothing.
    Again,
    /// From what the journal has of its conversation with a model.
    Journal,
    /// By an agent that took it over and keeps no conversation: it is told what was said and done.
    Told,
    /// By a program that keeps its conversation.
    Ladder(Box<Climb>),
}

/// How a program goes on.
#[derive(Debug, Clone)]
pub struct Climb {
    /// The program.
    pub program: Program,
    /// Its name for the conversation, if it told one.
    pub native: Option<String>,
    /// The rung, why those above it do not hold, and what is lost.
    pub plan: ladder::Plan,
    /// How full the context was.
    pub gauge: Option<Gauge>,
    /// The folder that the conversation was about, if the work goes on in another.
    pub moved_from: Option<String>,
    /// What it would read before it does anything.
    pub estimate: Estimate,
}

/// What it takes to go on, as far as it can be told before.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Estimate {
    /// Tokens that are read.
    pub tokens: u64,
    /// Whether that was counted by the model's vendor rather than estimated.
    pub counted: bool,
    /// What they cost if the vendor has them in its cache; `None` without a price.
    pub warm: Option<Cost>,
    /// What they cost otherwise.
    pub cold: Option<Cost>,
}

/// Where copies of programs' records are kept.
#[derive(Clone, Copy)]
pub(crate) enum Kept<'a> {
    /// With this session.
    Session(SessionId),
    /// Here, by name: the session is not made yet.
    Papers(&'a [(String, Vec<u8>)]),
}

/// Looks at what a resume would do. Nothing is changed, and nobody is asked anything.
pub async fn plan(world: &World, summary: &Summary, options: &Options) -> Result<Plan, Error> {
    resume::over(summary)?;
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
        drift: drifted(&state, &sight),
        sight,
    })
}

/// How the steps that were begun would go on.
pub(crate) async fn steps(
    world: &World,
    workflow: &Workflow,
    state: &State,
    kept: Kept<'_>,
    options: &Options,
) -> Result<Vec<StepPlan>, Error> {
    let mut steps = Vec::new();
    for (path, open) in &state.open {
        let way = way(world, kept, workflow, state, open, options).await?;
        let agent = options.with.as_ref().unwrap_or(&open.agent);
        // Only a limit of the one who would be asked is waited for.
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

/// What others did to the workspace since the session let go of it.
pub(crate) fn drifted(state: &State, sight: &Sight) -> Option<Vec<String>> {
    state.seen.as_ref().map(|seen| drift(seen, sight))
}

async fn way(
    world: &World,
    kept: Kept<'_>,
    workflow: &Workflow,
    state: &State,
    open: &Open,
    options: &Options,
) -> Result<Way, Error> {
    let taken_over = options.with.as_deref();
    let provider = match (taken_over, workflow.agents.get(&open.agent)) {
        (Some(name), _) => resume::stand_in(workflow, name)?,
        (None, Some(agent)) => agent.provider.clone(),
        (None, None) => return Ok(Way::Again),
    };
    let created = state.created.as_ref();
    let folder = created.map_or("", |created| created.spec_path.as_str());
    let folder = FilePath::new(folder).parent().unwrap_or(FilePath::new("."));
    let own = match &provider {
        Provider::Program { .. } | Provider::Acp { .. } => {
            match world.drivers.driver(&provider, folder)? {
                Speaker::Companion(companion) => Some(companion),
                Speaker::Agent(_) | Speaker::Model(_) => None,
            }
        }
        Provider::Api(_) | Provider::Command { .. } | Provider::Scripted { .. } => None,
    };
    let companion = match open.with().filter(|_| taken_over.is_none()) {
        Some(last) if own.as_ref().is_none_or(|own| own.program() != last) => {
            world.drivers.companion(last).or(own)
        }
        _ => own,
    };
    let Some(companion) = companion else {
        let comes = taken_over.is_some_and(|name| name != open.agent);
        return Ok(match &provider {
            Provider::Api(_) if !comes => Way::Journal,
            _ if comes || open.handed.is_some() => Way::Told,
            _ => Way::Again,
        });
    };
    let workspace = created.map_or("", |created| created.workspace.as_str());
    let workspace = FilePath::new(workspace);
    let climb = climb(
        world,
        kept,
        &*companion,
        open,
        workspace,
        options,
        &provider,
    );
    Ok(Way::Ladder(Box::new(climb.await?)))
}

async fn climb(
    world: &World,
    kept: Kept<'_>,
    companion: &dyn Companion,
    open: &Open,
    workspace: &FilePath,
    options: &Options,
    provider: &Provider,
) -> Result<Climb, Error> {
    let native = open.native.as_ref();
    let mut remains = match (kept, native) {
        (Kept::Papers(papers), Some(native)) => {
            let copy = of_papers(native, papers);
            Remains::of_copy(companion, native, copy, workspace).await
        }
        (Kept::Papers(_), None) => Remains::default(),
        (Kept::Session(session), _) => {
            evidence::gather(world, session, companion, native, workspace).await?
        }
    };
    remains.evidence.left = resume::skipped(options.rung);
    let plan = ladder::choose(&remains.evidence);
    let gauge = native.and_then(|native| native.context);
    let own = matches!(plan.rung, Rung::Native | Rung::Repaired | Rung::Rehomed);
    let (tokens, counted) = match gauge.filter(|_| own) {
        Some(gauge) => (gauge.used, true),
        None if own => (remains.bytes() / BYTES_PER_TOKEN, false),
        None => (TOLD_ANEW, false),
    };
    let price = provider
        .model()
        .and_then(|model| world.drivers.price(model));
    Ok(Climb {
        program: companion.program(),
        native: native.map(|native| native.id.clone()),
        plan,
        gauge,
        moved_from: remains.moved_from,
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
        warm: cost(tokens * CACHED / 100),
        cold: cost(tokens),
    }
}
