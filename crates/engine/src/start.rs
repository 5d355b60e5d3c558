//! Starting a session from a spec.

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use segno_core::digest::Digest;
use segno_core::id::{Name, SessionId};
use segno_core::journal::{Entry, Event, Run, SessionCreated};
use segno_core::session::{Kind, Status};
use segno_core::state::State;
use segno_core::store::{Batch, Error as StoreError, Hold, New};

use crate::error::Error;
use crate::flow::Cast;
use crate::observe::Observer;
use crate::run::{self, Begin, Outcome};
use crate::spec::{self, Workflow};
use crate::stop::Brake;
use crate::template::Templates;
use crate::world::World;
use crate::{artifacts, pen};

/// The longest spec that is read.
pub const LONGEST_SPEC: u64 = 10 * 1024 * 1024;

/// What a person asks for.
#[derive(Debug, Clone)]
pub struct Request {
    /// The spec's file.
    pub spec: PathBuf,
    /// Variables given by hand.
    pub variables: BTreeMap<String, String>,
    /// What to call the session; otherwise it is called like its workflow.
    pub name: Option<Name>,
    /// The folder to work in.
    pub workspace: PathBuf,
    /// Where artifacts go.
    pub out: PathBuf,
    /// Whether artifacts may replace files.
    pub force: bool,
}

/// Reads and checks a spec, with the files that it refers to. Its text stands alone.
pub fn read_spec(world: &World, path: &Path) -> Result<(String, Workflow), Error> {
    let unreadable = |reason: String| Error::Unreadable {
        path: path.to_owned(),
        reason,
    };
    let bytes = world
        .disk
        .read(path, LONGEST_SPEC)
        .map_err(|error| unreadable(error.to_string()))?;
    let text = String::from_utf8(bytes)
        .map_err(|error| unreadable(format!("it is not UTF-8 text ({error})")))?;
    let folder = path.parent().unwrap_or(Path::new("."));
    let missing = std::cell::RefCell::new(None);
    let files = |name: &str| {
        let file = folder.join(name);
        let bytes = world.disk.read(&file, LONGEST_SPEC).map_err(|error| {
            let reason = error.to_string();
            missing.replace(Some((file, reason.clone())));
            reason
        })?;
        String::from_utf8(bytes).map_err(|error| format!("it is not UTF-8 text ({error})"))
    };
    let loaded = spec::load(&text, &files);
    match (loaded, missing.take()) {
        (Err(_), Some((path, reason))) => Err(Error::Unreadable { path, reason }),
        (loaded, _) => loaded.map_err(|problems| Error::Spec {
            path: path.to_owned(),
            problems,
        }),
    }
}

/// Starts a session and runs it.
pub async fn start(
    world: &World,
    request: Request,
    observer: Arc<dyn Observer>,
    brake: Brake,
) -> Result<Outcome, Error> {
    let (text, workflow) = read_spec(world, &request.spec)?;
    with(world, text, workflow, request, observer, brake).await
}

/// Starts a session from a spec that was read, or that has no file: then the request's is empty.
pub(crate) async fn with(
    world: &World,
    text: String,
    workflow: Workflow,
    request: Request,
    observer: Arc<dyn Observer>,
    brake: Brake,
) -> Result<Outcome, Error> {
    let notice = |message: &str| observer.notice(message);
    let (world, secrets) = &world.for_workflow(&workflow, &request.spec, &notice);
    let variables = bind(world, &workflow, &request, &notice)?;
    let gathered = Cast::gather(
        world,
        &workflow,
        secrets,
        &request.spec,
        &request.workspace,
        &*observer,
    );
    let cast = gathered.await?;
    artifacts::foresee(
        world,
        &Templates::new(),
        &workflow.artifacts,
        &variables,
        &request.out,
        request.force,
    )?;
    let (spec, _) = pen::keep(world, &text).await?;

    let mut entropy = [0; 10];
    world.random.fill(&mut entropy);
    let session = SessionId::new(world.clock.now(), entropy);
    let created = SessionCreated {
        name: request
            .name
            .clone()
            .unwrap_or_else(|| Name::like(&workflow.name)),
        session_kind: Kind::Workflow,
        workspace: text_of(&request.workspace)?,
        spec_path: text_of(&request.spec)?,
        spec,
        spec_digest: Digest::of(text.as_bytes()),
        variables,
        out: text_of(&request.out)?,
        force: request.force,
        commit: None,
    };
    let naming = match request.name {
        Some(_) => Naming::Given,
        None => Naming::Numbered,
    };
    let made = create(world, session, created, Vec::new(), naming, &*observer);
    let (name, state) = made.await?;
    let begin = Begin::first(session, name, workflow, cast, state);
    Box::pin(run::execute(world, begin, observer, brake)).await
}

/// A path as it is written down. One that is not UTF-8 cannot be, and must not become another.
pub(crate) fn text_of(path: &Path) -> Result<String, Error> {
    let unreadable = || Error::Unreadable {
        path: path.to_owned(),
        reason: "its name is not UTF-8".into(),
    };
    path.to_str().map(str::to_owned).ok_or_else(unreadable)
}

/// The variables, with what looks like a secret replaced: they are written down, and a later run
/// must compute with the same values (P7, P12).
pub(crate) fn bind(
    world: &World,
    workflow: &Workflow,
    request: &Request,
    notice: &dyn Fn(&str),
) -> Result<BTreeMap<String, serde_json::Value>, Error> {
    let mut variables =
        spec::bind(workflow, &request.variables).map_err(|problems| Error::Variables {
            path: request.spec.clone(),
            problems,
        })?;
    for (name, value) in &mut variables {
        let before = value.clone();
        world.redactor.redact_json(value);
        if *value != before {
            notice(&format!(
                "variable `{name}` looks like a secret and was replaced by a placeholder; hand secrets to agents through the environment"
            ));
        }
    }
    Ok(variables)
}

/// Whose choice the name of a session is.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Naming {
    /// A person's: it is this one or none.
    Given,
    /// Nobody's: it is numbered until it is free.
    Numbered,
}

/// Makes the session with its first entries: `opening` is what follows the beginning of its first run.
pub(crate) async fn create(
    world: &World,
    session: SessionId,
    created: SessionCreated,
    opening: Vec<Event>,
    naming: Naming,
    observer: &dyn Observer,
) -> Result<(Name, State), Error> {
    let workspace = PathBuf::from(&created.workspace);
    let created = SessionCreated {
        commit: world.snapshots.commit(workspace).await,
        ..created
    };
    let (family, at) = (created.name.clone(), world.clock.now());
    for number in 1.. {
        let name = family.numbered(number);
        let owner = world.processes.current();
        let first = SessionCreated {
            name: name.clone(),
            ..created.clone()
        };
        let begun = [first.into(), world.run_started()];
        let events = begun.into_iter().chain(opening.iter().cloned());
        let mut state = State::empty(session);
        let (expected, mut records, mut entries) = (state.head, Vec::new(), Vec::new());
        for event in events {
            let run = Run(1);
            let record = state.head.seal(run, at, &event);
            let entry = Entry {
                seq: record.seq,
                run,
                at,
                event,
                hash: record.hash,
            };
            state.apply(&entry).map_err(|illegal| Error::Senseless {
                session,
                reason: illegal.to_string(),
            })?;
            records.push(record);
            entries.push(entry);
        }
        let batch = Batch {
            session,
            run: Run(1),
            expected,
            records,
            status: Status::Running,
            spec_digest: state.spec_digest,
            workspace: None,
            lease: Hold::Renew(world.ttl),
            folded: None,
            taken: Vec::new(),
        };
        let workspace = created.workspace.clone();
        let new = New {
            id: session,
            name: name.clone(),
            kind: created.session_kind,
            workspace,
            owner,
            ttl: world.ttl,
            batch,
        };
        match world.store.create(new).await {
            Err(StoreError::NameTaken(_)) if naming == Naming::Numbered => {}
            Err(error) => return Err(error.into()),
            Ok(_) => {
                entries
                    .iter()
                    .for_each(|entry| observer.entry(session, entry));
                return Ok((name, state));
            }
        }
    }
    unreachable!("there are more numbers than sessions")
}
