//! Starts a session from a spec.
//!
//! All checks (spec, variables, agents, artifact paths) come before the session is created. The
//! spec and the variables are recorded redacted (P12), so that a resumed run computes with the same
//! values (P7).

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use segno_core::digest::Digest;
use segno_core::error::{Diagnose, Diagnosis, Kind as ErrorKind};
use segno_core::id::{Name, SessionId};
use segno_core::journal::{Event, JournalEvent, Run, RunPurpose, SessionCreated};
use segno_core::session::Kind;
use segno_core::state::State;
use segno_core::store::{Batch, Error as StoreError, LeaseUpdate, NewSession};
use segno_core::time::Timestamp;
use segno_engine::run::{self, RunStart};
use segno_engine::steps::{Agents, PrepareError};
use segno_engine::workspace::{NotUtf8, path_text};
use segno_engine::{Env, Observer, Outcome, StopToken, artifact_files, history, journal};
use segno_spec as spec;
use segno_spec::template::Templates;
use segno_spec::{Pattern, Workflow};

use crate::naming;

/// The largest spec file that is read, in bytes.
pub const MAX_SPEC_BYTES: u64 = 10 * 1024 * 1024;

/// Why a spec cannot be used.
#[derive(Debug, thiserror::Error)]
pub enum SpecError {
    #[error("{} cannot be read: {reason}", .path.display())]
    Unreadable { path: PathBuf, reason: String },
    #[error("{} {}", .path.display(), fault(problems))]
    Invalid {
        path: PathBuf,
        #[source]
        problems: spec::Problems,
    },
    #[error("the text {}", fault(problems))]
    Text {
        #[source]
        problems: spec::Problems,
    },
    #[error("{} cannot run: its inputs are not valid", .path.display())]
    Variables {
        path: PathBuf,
        #[source]
        problems: spec::binding::Error,
    },
}

pub(crate) fn fault(problems: &spec::Problems) -> &'static str {
    match problems.fault() {
        spec::Fault::Invalid => "is not a valid spec",
        spec::Fault::Unsupported => "uses features that this version does not support",
    }
}

impl Diagnose for SpecError {
    fn diagnosis(&self) -> Diagnosis {
        match self {
            Self::Unreadable { .. } => Diagnosis::new(ErrorKind::Unavailable, "F0201"),
            Self::Invalid { problems, .. } | Self::Text { problems } => problems.diagnosis(),
            Self::Variables { problems, .. } => problems.diagnosis(),
        }
    }
}

/// Why a session was not started, or its first run failed.
#[derive(Debug, thiserror::Error)]
pub enum Error {
    #[error(transparent)]
    Store(#[from] StoreError),
    #[error(transparent)]
    Spec(#[from] SpecError),
    #[error(transparent)]
    Prepare(#[from] PrepareError),
    #[error(transparent)]
    Artifact(#[from] artifact_files::Error),
    #[error(transparent)]
    NotUtf8(#[from] NotUtf8),
    #[error(transparent)]
    History(#[from] history::Error),
    #[error(transparent)]
    Run(#[from] segno_engine::Error),
}

impl Diagnose for Error {
    fn diagnosis(&self) -> Diagnosis {
        match self {
            Self::Store(error) => error.diagnosis(),
            Self::Spec(error) => error.diagnosis(),
            Self::Prepare(error) => error.diagnosis(),
            Self::Artifact(error) => error.diagnosis(),
            Self::NotUtf8(error) => error.diagnosis(),
            Self::History(error) => error.diagnosis(),
            Self::Run(error) => error.diagnosis(),
        }
    }
}

/// What the user asks for.
#[derive(Debug, Clone)]
pub struct Request {
    pub spec: PathBuf,
    pub variables: BTreeMap<String, String>,
    /// The session's name; by default it is derived from the workflow's name.
    pub name: Option<Name>,
    pub workspace: PathBuf,
    /// The folder for artifacts.
    pub out: PathBuf,
    /// Whether artifacts may replace files.
    pub force: bool,
}

/// Reads and validates a spec, and inlines the files that it refers to: the returned text is
/// self-contained.
pub fn read_spec(env: &Env, path: &Path) -> Result<(String, Workflow), SpecError> {
    let unreadable = |reason: String| SpecError::Unreadable {
        path: path.to_owned(),
        reason,
    };
    let bytes = env
        .disk
        .read(path, MAX_SPEC_BYTES)
        .map_err(|error| unreadable(error.to_string()))?;
    let text = String::from_utf8(bytes)
        .map_err(|error| unreadable(format!("it is not UTF-8 text ({error})")))?;
    let folder = path.parent().unwrap_or(Path::new("."));
    let missing = std::cell::RefCell::new(None);
    let files = |name: &str| {
        let file = folder.join(name);
        let bytes = env.disk.read(&file, MAX_SPEC_BYTES).map_err(|error| {
            let reason = error.to_string();
            missing.replace(Some((file, reason.clone())));
            reason
        })?;
        String::from_utf8(bytes).map_err(|error| format!("it is not UTF-8 text ({error})"))
    };
    let loaded = spec::load(&text, &files);
    match (loaded, missing.take()) {
        (Err(_), Some((path, reason))) => Err(SpecError::Unreadable { path, reason }),
        (loaded, _) => loaded.map_err(|problems| SpecError::Invalid {
            path: path.to_owned(),
            problems,
        }),
    }
}

/// Validates a spec that has no file. It cannot refer to files.
pub(crate) fn load_text(text: &str) -> Result<(String, Workflow), SpecError> {
    let none = |name: &str| {
        Err(format!(
            "a spec without a file cannot refer to the file `{name}`"
        ))
    };
    spec::load(text, &none).map_err(|problems| SpecError::Text { problems })
}

pub async fn start(
    env: &Env,
    request: Request,
    observer: Arc<dyn Observer>,
    stop_token: StopToken,
) -> Result<Outcome, Error> {
    let (text, workflow) = read_spec(env, &request.spec)?;
    start_parsed(env, text, workflow, request, observer, stop_token).await
}

/// Starts a session from a spec that is already read. If the spec has no file, `request.spec` is
/// empty.
pub(crate) async fn start_parsed(
    env: &Env,
    text: String,
    workflow: Workflow,
    request: Request,
    observer: Arc<dyn Observer>,
    stop_token: StopToken,
) -> Result<Outcome, Error> {
    let notice = |message: &str| observer.notice(message);
    let (env, secrets) = &env.for_workflow(&workflow, &request.spec, &notice);
    let variables = bind(env, &workflow, &request, &notice)?;
    let preparing = Agents::prepare(
        env,
        &workflow,
        secrets,
        &request.spec,
        &request.workspace,
        &*observer,
    );
    let agents = preparing.await?;
    let (created, naming) = describe(env, &text, &workflow, request, variables).await?;
    let session = new_id(env);
    let creating = create(env, session, created, Vec::new(), naming, &*observer);
    let (name, state) = creating.await?;
    let run_start = RunStart::first(session, name, workflow, agents, state);
    Ok(Box::pin(run::execute(env, run_start, observer, stop_token)).await?)
}

/// An id for a new session.
pub fn new_id(env: &Env) -> SessionId {
    let mut entropy = [0; 10];
    env.random.fill(&mut entropy);
    SessionId::new(env.clock.now(), entropy)
}

/// The first event of a session, and who chose its name. Checks the paths of artifacts, and stores
/// the spec.
pub(crate) async fn describe(
    env: &Env,
    text: &str,
    workflow: &Workflow,
    request: Request,
    variables: BTreeMap<String, serde_json::Value>,
) -> Result<(SessionCreated, Naming), Error> {
    artifact_files::check_paths(
        env,
        &Templates::new(),
        &workflow.artifacts,
        &variables,
        &request.out,
        request.force,
    )?;
    let (spec, _) = journal::redact_and_store(env, text).await?;
    let naming = match request.name {
        Some(_) => Naming::Given,
        None => Naming::Numbered,
    };
    let derived = || naming::derived(env, &workflow.name);
    let created = SessionCreated {
        name: request.name.unwrap_or_else(derived),
        session_kind: Kind::Workflow,
        workspace: path_text(&request.workspace)?,
        spec_path: path_text(&request.spec)?,
        spec,
        spec_digest: Digest::of(text.as_bytes()),
        variables,
        out: path_text(&request.out)?,
        force: request.force,
        commit: worktree_commit(workflow),
        pattern: Some(workflow.pattern.kind()),
    };
    Ok((created, naming))
}

/// The commit that a session's worktree starts at: its first step creates the worktree.
fn worktree_commit(workflow: &Workflow) -> Option<String> {
    match &workflow.pattern {
        Pattern::Plan(plan) => Some(plan.worktree.as_ref()?.commit.clone()),
        _ => None,
    }
}

/// The variables, with values redacted that look like secrets: they are journaled, and a later run
/// must compute with the same values (P7, P12).
pub(crate) fn bind(
    env: &Env,
    workflow: &Workflow,
    request: &Request,
    notice: &dyn Fn(&str),
) -> Result<BTreeMap<String, serde_json::Value>, SpecError> {
    let mut variables =
        spec::bind(workflow, &request.variables).map_err(|problems| SpecError::Variables {
            path: request.spec.clone(),
            problems,
        })?;
    for (name, value) in &mut variables {
        let before = value.clone();
        env.redactor.redact_json(value);
        if *value != before {
            notice(&format!(
                "variable `{name}` looks like a secret and was replaced by a placeholder; pass secrets to agents through the environment"
            ));
        }
    }
    Ok(variables)
}

/// Who chose the name of a session.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Naming {
    /// The user: if the name is taken, creation fails.
    Given,
    /// Segno: it appends a number until the name is free.
    Numbered,
}

/// Creates a session with its first events, and returns its name and state. `opening` follows the
/// start of the first run.
///
/// The session, its first events and its lease are durable together, and reported to `observer`
/// afterwards; an error leaves nothing. If the session exists, that is `Exists`, so of several
/// concurrent callers with the same id exactly one succeeds.
pub async fn create(
    env: &Env,
    session: SessionId,
    created: SessionCreated,
    opening: Vec<Event>,
    naming: Naming,
    observer: &dyn Observer,
) -> Result<(Name, State), history::Error> {
    let created = with_commit(env, created).await;
    let at = env.clock.now();
    let seal = |created: SessionCreated| {
        let begun = [created.into(), env.run_started(RunPurpose::Work)];
        let events = begun.into_iter().chain(opening.iter().cloned());
        let events = events.map(|event| (at, event)).collect();
        let mut state = State::empty(session);
        let (batch, entries) = seal(&mut state, session, Run(1), events)?;
        let lease = LeaseUpdate::Renew(env.ttl);
        Ok((Batch { lease, ..batch }, (state, entries)))
    };
    let creating = create_sealed(env, session, &created, naming, seal);
    let (name, (state, entries)) = creating.await?;
    entries
        .iter()
        .for_each(|entry| observer.event(session, entry));
    Ok((name, state))
}

/// The same with the commit that the workspace is at, if none is chosen.
pub(crate) async fn with_commit(env: &Env, created: SessionCreated) -> SessionCreated {
    let workspace = PathBuf::from(&created.workspace);
    let commit = match (&created.commit, &env.snapshots) {
        (Some(commit), _) => Some(commit.clone()),
        (None, Some(snapshots)) => snapshots.head_commit(workspace).await,
        (None, None) => None,
    };
    SessionCreated { commit, ..created }
}

/// Creates a session with a first batch, and returns its name and what `seal` returned with the
/// batch. `seal` is called for every name that is tried. Durable when it returns; an error leaves
/// nothing, and a session that exists is `Exists`.
pub async fn create_sealed<T>(
    env: &Env,
    session: SessionId,
    created: &SessionCreated,
    naming: Naming,
    seal: impl Fn(SessionCreated) -> Result<(Batch, T), history::Error>,
) -> Result<(Name, T), history::Error> {
    let seal = &seal;
    let create = |name: Name| async move {
        let first = SessionCreated {
            name: name.clone(),
            ..created.clone()
        };
        let (batch, sealed) = seal(first)?;
        let new = NewSession {
            id: session,
            name,
            kind: created.session_kind,
            workspace: created.workspace.clone(),
            owner: env.processes.current(),
            ttl: env.ttl,
            batch,
        };
        match env.store.create(new).await {
            Err(StoreError::NameTaken(_)) if naming == Naming::Numbered => Ok(None),
            Err(error) => Err(history::Error::from(error)),
            Ok(_) => Ok(Some(sealed)),
        }
    };
    let family = &created.name;
    naming::create_numbered(env, family, family.clone(), create).await
}

/// Seals events, each with its time, as the next batch of a run, and applies them to `state`. The
/// batch releases the lease and caches no state.
pub fn seal(
    state: &mut State,
    session: SessionId,
    run: Run,
    events: Vec<(Timestamp, Event)>,
) -> Result<(Batch, Vec<JournalEvent>), history::Error> {
    let (expected, mut records, mut entries) = (state.head, Vec::new(), Vec::new());
    for (at, event) in events {
        let record = state.head.seal(run, at, &event);
        let entry = JournalEvent {
            seq: record.seq,
            run,
            at,
            event,
            hash: record.hash,
        };
        history::apply(state, session, &entry)?;
        records.push(record);
        entries.push(entry);
    }
    let batch = Batch {
        session,
        run,
        expected,
        records,
        status: state.status,
        spec_digest: state.spec_digest,
        workspace: None,
        lease: LeaseUpdate::Release,
        cached_state: None,
        handled_messages: Vec::new(),
    };
    Ok((batch, entries))
}
