//! Going on where a session stopped.

use std::path::{Path, PathBuf};
use std::sync::Arc;

use segno_core::checkpoint::Trigger;
use segno_core::companion::Companion;
use segno_core::digest::Digest;
use segno_core::id::SessionId;
use segno_core::journal::{Event, InFlight, OnChange, Seq, SpecChanged};
use segno_core::ladder::Rung;
use segno_core::session::{Kind, Status, Summary};
use segno_core::state::{Created, Open, Standing, State};
use segno_core::step;
use segno_core::time::human;
use tokio::task::JoinHandle;

use crate::drift::OnDrift;
use crate::error::Error;
use crate::flow::Cast;
use crate::observe::Observer;
use crate::run::{self, Begin, Outcome};
use crate::spec::{self, Change, Provider, StepChange, Workflow};
use crate::start::{self, Request, read_spec};
use crate::stop::Brake;
use crate::world::{Speaker, World};
use crate::{boundaries, chat, claim, flow, history, patterns, pen, plan, reconcile, relocate};

/// What a person asks for.
#[derive(Debug, Clone, Default)]
pub struct Options {
    /// What to do if the spec was edited.
    pub on_change: OnChange,
    /// What to do about steps with unknown outcome; otherwise the spec says.
    pub in_flight: Option<InFlight>,
    /// What to do if others changed the workspace.
    pub on_drift: OnDrift,
    /// Who goes on with what was begun, instead of who began it: an agent of the spec, or a program.
    pub with: Option<String>,
    /// The best way in which an agent may go on.
    pub rung: Option<Rung>,
    /// What the agent is told besides.
    pub say: Option<String>,
    /// What to do about limits of providers; otherwise the spec says.
    pub on_limit: Option<OnLimit>,
}

/// What to do about limits of providers that say when they are lifted.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum OnLimit {
    /// As the spec does, but ask at once where an earlier run was told to wait.
    Ask,
    /// Wait, whatever the spec says.
    Wait,
    /// Pause, whatever the spec says.
    Pause,
}

/// How work goes on that was begun before, where a person wants it otherwise than usual.
#[derive(Clone, Default)]
pub(crate) struct Wish {
    /// Who goes on.
    pub(crate) with: Option<StandIn>,
    /// Ways that are not to be taken.
    pub(crate) skipped: Vec<Rung>,
    /// What the agent is told besides.
    pub(crate) say: Option<String>,
    /// Whether what an earlier run was told to wait for is not waited for.
    pub(crate) asks_at_once: bool,
}

/// Who goes on with a step, instead of who had it.
#[derive(Clone)]
pub(crate) enum StandIn {
    /// Another agent of the spec.
    Agent(String),
    /// A program that the spec does not name.
    Program(Arc<dyn Companion>),
}

/// The ways above the best one that is allowed.
pub(crate) fn skipped(best: Option<Rung>) -> Vec<Rung> {
    let best = best.unwrap_or(Rung::Native);
    let above = Rung::ALL.iter().copied();
    above.take_while(|rung| *rung != best).collect()
}

/// Who takes over: an agent of the spec by its name, or a program by its own.
pub(crate) fn stand_in(workflow: &Workflow, name: &str) -> Result<Provider, Error> {
    let program = || {
        let name = if name == "claude" {
            "claude-code"
        } else {
            name
        };
        let program = name.parse().map_err(|_| Error::NoStandIn {
            agent: name.to_owned(),
            reason: "neither the spec nor Segno knows it".to_owned(),
        })?;
        Ok::<_, Error>(Provider::Program {
            program,
            model: None,
        })
    };
    let own = workflow.agents.get(name);
    own.map_or_else(program, |agent| Ok(agent.provider.clone()))
}

/// Goes on with a session.
pub async fn resume(
    world: &World,
    summary: Summary,
    options: Options,
    observer: Arc<dyn Observer>,
    brake: Brake,
) -> Result<Outcome, Error> {
    if summary.kind == Kind::Chat {
        let audience = chat::Audience::Gone;
        return Box::pin(chat::go_on(
            world, &summary, options, audience, observer, brake,
        ))
        .await;
    }
    over(&summary)?;
    let lease = claim::claim(world, &summary).await?;
    let (world, begin) = match begin(world, &summary, lease.run, options, &*observer).await {
        Ok(begun) => begun,
        Err(error) => {
            // Nothing was begun, so nothing is left behind but a run number.
            let _ = world.store.release(summary.id, lease.run).await;
            return Err(error);
        }
    };
    let lost = begin.state.status == Status::Running;
    if lost && begin.workflow.checkpoints.on.contains(&Trigger::Crash) {
        // Before anything is changed: what the lost run left behind.
        Box::pin(boundaries::keep(
            &world,
            begin.session,
            Trigger::Crash,
            &*observer,
        ))
        .await;
    }
    Box::pin(run::execute(&world, begin, observer, brake)).await
}

pub(crate) fn over(summary: &Summary) -> Result<(), Error> {
    if summary.status.is_resumable() {
        return Ok(());
    }
    Err(Error::Over {
        session: summary.id,
        name: summary.name.clone(),
        status: summary.status,
    })
}

pub(crate) async fn begin(
    world: &World,
    summary: &Summary,
    run: segno_core::journal::Run,
    options: Options,
    observer: &dyn Observer,
) -> Result<(World, Begin), Error> {
    let session = summary.id;
    let live = live_spec(world, session).await?;
    let (state, finished) = history::open(world, session).await?;
    // Read again under the lease: it may have ended between the look and the grant.
    over(&Summary {
        status: state.status,
        ..summary.clone()
    })?;
    let mut spec = match live {
        Some(live) => {
            let live = live.now(world, &state).await;
            choose_spec(world, summary, &state, live, options.on_change, observer).await?
        }
        None => Chosen {
            workflow: kept_spec(world, session, &state).await?,
            event: None,
        },
    };
    let policy = options.in_flight.unwrap_or(spec.workflow.in_flight);
    let unknown: Vec<step::Path> = state
        .open
        .iter()
        .filter(|(_, open)| matches!(open.standing, Standing::InFlight | Standing::Unknown))
        .filter(|(path, _)| !patterns::is_looked_up(&spec.workflow.pattern, path))
        .map(|(path, _)| path.clone())
        .collect();
    if policy == InFlight::Stop && !unknown.is_empty() {
        return Err(Error::Unknown {
            name: summary.name.clone(),
            steps: unknown,
        });
    }
    let created = state
        .created
        .as_ref()
        .expect("a session that was opened was created");
    relocate::is_there(summary, &spec.workflow, &created.workspace)?;
    let spec_path = Path::new(&created.spec_path);
    let notice = |message: &str| observer.notice(message);
    let (world, secrets) = world.for_workflow(&spec.workflow, spec_path, &notice);
    let workspace = Path::new(&created.workspace);
    let gathered = Cast::gather(
        &world,
        &spec.workflow,
        &secrets,
        spec_path,
        workspace,
        observer,
    );
    let cast = gathered.await?;
    if options.on_drift != OnDrift::Accept && state.seen.is_some() {
        let sight = reconcile::look(&world, workspace, None).await;
        let drift = plan::drifted(&state, &sight).unwrap_or_default();
        if !drift.is_empty() && options.on_drift == OnDrift::Refuse {
            return Err(Error::Drifted {
                name: summary.name.clone(),
                drift,
            });
        }
        if !drift.is_empty() {
            observer.notice(&format!(
                "the workspace is not as this session left it: {}",
                drift.join("; ")
            ));
        }
    }
    bears_on(summary, &state, &cast, &options)?;
    if let Some(stopped) = &state.stopped
        && let Some(reason) = &stopped.reason
    {
        let age = human(world.clock.now().since(stopped.at));
        observer.notice(&format!("stopped {age} ago: {reason}"));
    }
    let with = match &options.with {
        Some(name) => Some(taking_over(&world, &spec.workflow, spec_path, name)?),
        None => None,
    };
    let wish = Wish {
        with,
        skipped: skipped(options.rung),
        say: options.say,
        asks_at_once: options.on_limit == Some(OnLimit::Ask),
    };
    let patience = &mut spec.workflow.patience;
    patience.on_limit = match options.on_limit {
        Some(OnLimit::Wait) => spec::OnLimit::Wait,
        Some(OnLimit::Pause) => spec::OnLimit::Pause,
        Some(OnLimit::Ask) | None => patience.on_limit,
    };
    let mut opening: Vec<Event> = vec![world.run_started()];
    opening.extend(flow::unknown(&state));
    opening.extend(spec.event);
    let begin = Begin {
        session,
        name: summary.name.clone(),
        run,
        workflow: spec.workflow,
        cast,
        state,
        finished,
        opening,
        on_change: options.on_change,
        wish,
        exchange: None,
    };
    Ok((world, begin))
}

/// Refuses wishes that would change nothing.
fn bears_on(summary: &Summary, state: &State, cast: &Cast, options: &Options) -> Result<(), Error> {
    let refuse = |option, reason| {
        Err(Error::NothingBegun {
            name: summary.name.clone(),
            option,
            reason,
        })
    };
    let wished = [("--with", &options.with), ("--say", &options.say)];
    let wished = wished.iter().find(|(_, wish)| wish.is_some());
    if let (Some((option, _)), true) = (wished, state.open.is_empty()) {
        return refuse(*option, "no step of it was begun and not finished");
    }
    let hears = |open: &Open| open.with().is_some() || cast.is_companion(&open.agent);
    if options.say.is_some() && options.with.is_none() && !state.open.values().any(hears) {
        return refuse("--say", "no program is in the middle of a conversation");
    }
    Ok(())
}

/// Whom `--with` names.
fn taking_over(
    world: &World,
    workflow: &Workflow,
    spec_path: &Path,
    name: &str,
) -> Result<StandIn, Error> {
    let provider = stand_in(workflow, name)?;
    if workflow.agents.contains_key(name) {
        return Ok(StandIn::Agent(name.to_owned()));
    }
    let folder = spec_path.parent().unwrap_or(Path::new("."));
    match world.drivers.driver(&provider, folder)? {
        Speaker::Companion(companion) => Ok(StandIn::Program(companion)),
        Speaker::Agent(_) | Speaker::Model(_) => Err(Error::NoStandIn {
            agent: name.to_owned(),
            reason: "it is no program that keeps conversations".to_owned(),
        }),
    }
}

struct Chosen {
    workflow: Workflow,
    event: Option<Event>,
}

/// A spec's file that is being read.
struct Live {
    path: PathBuf,
    reading: JoinHandle<Result<(String, Workflow), Error>>,
}

impl Live {
    /// What it says; read anew if the session was moved since it was begun.
    async fn now(self, world: &World, state: &State) -> Result<(String, Workflow), Error> {
        let read = self.reading.await.expect("reading a spec ends");
        match state.created.as_ref().map(|it| Path::new(&it.spec_path)) {
            Some(now) if now != self.path => read_spec(world, now),
            _ => read,
        }
    }
}

/// Begins to read the spec's file as it is now. In a long chain that takes as long as reading the
/// journal, so both are done at once: from where it was when the session was made, which is where it
/// nearly always is. `None` if the session was made without a file.
async fn live_spec(world: &World, session: SessionId) -> Result<Option<Live>, Error> {
    let path = match world.store.entry(session, Seq(1)).await?.event {
        Event::SessionCreated(created) => PathBuf::from(created.spec_path),
        other => {
            return Err(Error::Senseless {
                session,
                reason: format!("its journal begins with {}", other.kind()),
            });
        }
    };
    if path.as_os_str().is_empty() {
        return Ok(None);
    }
    let (world, from) = (world.clone(), path.clone());
    let reading = tokio::task::spawn_blocking(move || read_spec(&world, &from));
    Ok(Some(Live { path, reading }))
}

/// The spec to go on with: the file as it is now, or the copy that was kept. An edited file is
/// noticed against the file itself, and the steps that it changes are named.
async fn choose_spec(
    world: &World,
    summary: &Summary,
    state: &State,
    live: Result<(String, Workflow), Error>,
    on_change: OnChange,
    observer: &dyn Observer,
) -> Result<Chosen, Error> {
    let unchanged = |workflow| Chosen {
        workflow,
        event: None,
    };
    let digest = |text: &str| Digest::of(text.as_bytes());
    let live = match live {
        // The file itself, not its copy: in the copy, secrets are replaced.
        Ok((text, workflow)) if Some(digest(&text)) == state.spec_digest => {
            return Ok(unchanged(workflow));
        }
        live => live,
    };
    let kept = kept_spec(world, summary.id, state).await?;
    if on_change == OnChange::Pinned {
        return Ok(unchanged(kept));
    }
    let (text, workflow) = match live {
        Err(Error::Unreadable { path, reason }) => {
            observer.notice(&format!(
                "{} cannot be read any more ({reason}); going on with the copy that was kept",
                path.display()
            ));
            return Ok(unchanged(kept));
        }
        live => live?,
    };
    // The copy has its secrets replaced, so it is compared with the file's text in the same state.
    let spec_path = state
        .created
        .as_ref()
        .map_or("", |created| &created.spec_path);
    let (seeing, _) = world.for_workflow(&workflow, Path::new(spec_path), &|_| {});
    let alike = spec::parse(&seeing.redactor.redact(&text));
    let changes = spec::changed_steps(&kept, alike.as_ref().unwrap_or(&workflow));
    let named: Vec<String> = changes.iter().map(describe).collect();
    if on_change == OnChange::Fail {
        return Err(Error::Changed {
            name: summary.name.clone(),
            steps: named,
        });
    }
    let what = if named.is_empty() {
        "no step".to_owned()
    } else {
        named.join(", ")
    };
    let then = match on_change {
        OnChange::Rerun => "finished steps among them are run again",
        _ => "finished steps among them keep their results",
    };
    let path = state
        .created
        .as_ref()
        .map_or("the spec", |created| created.spec_path.as_str());
    observer.notice(&format!(
        "{path} was edited since this session last ran; it changes {what}; {then}",
    ));
    let (spec, _) = pen::keep(world, &text).await?;
    let steps = changes.into_iter().map(|change| change.path).collect();
    let event = SpecChanged {
        spec,
        spec_digest: digest(&text),
        steps,
        policy: on_change,
    };
    Ok(Chosen {
        workflow,
        event: Some(event.into()),
    })
}

fn describe(change: &StepChange) -> String {
    match change.change {
        Change::Changed => change.path.to_string(),
        Change::Added => format!("{} (added)", change.path),
        Change::Removed => format!("{} (removed)", change.path),
    }
}

pub(crate) async fn kept_spec(
    world: &World,
    session: SessionId,
    state: &State,
) -> Result<Workflow, Error> {
    let entry = world.store.entry(session, state.spec_seq).await?;
    let digest = state.spec_digest.unwrap_or_else(|| Digest::of(&[]));
    let unusable = |reason: String| Error::Pinned {
        session,
        digest,
        reason,
    };
    let text = entry
        .event
        .text()
        .ok_or_else(|| unusable(format!("record {} has none", state.spec_seq)))?;
    let text = pen::recall(world, text).await?;
    spec::parse(&text).map_err(|problems| unusable(problems.to_string()))
}

/// The newest session of a folder that can go on and that nobody runs.
pub async fn newest(world: &World, workspace: &Path) -> Result<Summary, Error> {
    let mut found = candidates(world, workspace).await?;
    found.pop().ok_or_else(|| Error::NothingToResume {
        workspace: workspace.to_owned(),
    })
}

/// The newest session that was started as `request` would start one, can go on, and that nobody
/// runs: the same spec, folder, variables and artifacts, and the same name if one is given.
pub async fn unfinished(world: &World, request: &Request) -> Result<Option<Summary>, Error> {
    let (text, workflow) = read_spec(world, &request.spec)?;
    let (seeing, _) = world.for_workflow(&workflow, &request.spec, &|_| {});
    let variables = start::bind(&seeing, &workflow, request, &|_| {})?;
    let digest = Some(Digest::of(text.as_bytes()));
    for summary in candidates(world, &request.workspace)
        .await?
        .into_iter()
        .rev()
    {
        let named = request
            .name
            .as_ref()
            .is_none_or(|name| *name == summary.name);
        if !named || summary.spec_digest != digest {
            continue;
        }
        let created = history::look(world, summary.id).await?.created;
        let alike = |created: &Created| {
            created.variables == variables && Path::new(&created.out) == request.out
        };
        if created.as_ref().is_some_and(alike) {
            return Ok(Some(summary));
        }
    }
    Ok(None)
}

/// The sessions of a folder that can go on and that nobody runs, oldest entry first. Damage to any
/// session is an error: it may have been the one that is meant, and starting over costs money.
pub(crate) async fn candidates(world: &World, workspace: &Path) -> Result<Vec<Summary>, Error> {
    let mut found = Vec::new();
    for summary in world.store.list().await? {
        let summary = summary?;
        let open = summary.status.is_resumable() && !summary.status.is_archived();
        if Path::new(&summary.workspace) != workspace || !open {
            continue;
        }
        let lease = world.store.lease(summary.id).await?;
        if claim::standing(world, &summary, &lease) != Status::Running {
            found.push(summary);
        }
    }
    found.sort_by_key(|summary| (summary.updated_at, summary.id));
    Ok(found)
}
