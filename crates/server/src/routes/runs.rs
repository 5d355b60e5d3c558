//! Starts and resumes sessions. The server runs nothing itself: it records what is wanted, and a
//! worker of the home runs it.

use std::collections::BTreeMap;
use std::path::PathBuf;

use axum::extract::State;
use axum::http::{HeaderValue, StatusCode, header};
use axum::response::{IntoResponse, Response};
use axum::{Extension, Json};
use segno_core::id::Name;
use segno_core::journal::RunOptions;
use segno_core::step::Path;
use segno_core::store::Summary;
use segno_sessions::background;
use segno_sessions::chat::{ChatAgent, MAX_TURNS, NewChat};
use segno_sessions::start::{Request as NewSession, new_id};
use segno_sessions::unknown::{Decision, Said};
use segno_supervisor::worker::workers as living_workers;
use serde::de::Error;
use serde::{Deserialize, Deserializer};
use serde_json::{Map, Value, json};

use crate::Server;
use crate::error::{Failed, Refusal};
use crate::guard::Caller;
use crate::idempotency::Operation;
use crate::request::{JsonBody, Session};
use crate::routes::openapi::Doc;

pub(super) const START: Doc = Doc::new("Start a session", "RunRequested").body("NewSession");

/// What a session is made of: a spec, or a chat with its first message.
#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
pub(super) struct Start {
    /// The text of a spec: of a workflow, or of the agents of a chat.
    spec: Option<String>,
    #[serde(default)]
    variables: BTreeMap<String, String>,
    chat: Option<ChatStart>,
    name: Option<String>,
    /// The folder that the session works in.
    workspace: String,
    /// The folder for artifacts, `artifacts` in the workspace by default.
    out: Option<String>,
    /// Whether artifacts may replace files.
    #[serde(default)]
    force: bool,
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct ChatStart {
    agent: Option<String>,
    message: String,
}

pub(super) async fn start(
    State(server): State<Server>,
    Extension(caller): Extension<Caller>,
    operation: Option<Extension<Operation>>,
    JsonBody(wanted): JsonBody<Start>,
) -> Result<Response, Failed> {
    let workspace = folder("workspace", &wanted.workspace)?;
    if !workspace.is_dir() {
        let reason = format!("workspace: {} is not a folder", workspace.display());
        return Err(Refusal::Malformed { reason }.into());
    }
    let name = wanted.name.as_deref().map(Name::new).transpose();
    let name = name.map_err(|error| malformed("name", &error.to_string()))?;
    // What users should know is in the journal, or in the answer's schema.
    let notice = |_: &str| {};
    let by = caller.name();
    let session = match operation {
        Some(Extension(operation)) => operation.new_session(),
        None => new_id(&server.env),
    };
    let summary = match (wanted.chat, wanted.spec) {
        (None, None) => return Err(malformed("spec", "it is missing").into()),
        (None, Some(spec)) => {
            let out = wanted
                .out
                .as_deref()
                .map(|out| folder("out", out))
                .transpose()?;
            let request = NewSession {
                spec: PathBuf::new(),
                variables: wanted.variables,
                name,
                out: out.unwrap_or_else(|| workspace.join("artifacts")),
                workspace,
                force: wanted.force,
            };
            background::submit_text(&server.env, session, &spec, request, by, &notice).await?
        }
        (Some(chat), spec) => {
            let source = match spec {
                Some(spec) => ChatAgent::Text {
                    spec,
                    agent: chat.agent,
                },
                None => ChatAgent::resolve(chat.agent, None)?,
            };
            let opening = NewChat {
                source,
                name,
                workspace,
                max_turns: MAX_TURNS,
            };
            let message = chat.message;
            background::submit_chat(&server.env, session, opening, message, by, &notice).await?
        }
    };
    Ok(created(&summary))
}

/// The answer to a client that started a session.
pub(super) fn created(summary: &Summary) -> Response {
    let mut response = (StatusCode::CREATED, Json(requested(summary))).into_response();
    let location = format!("/api/v1/sessions/{}", summary.id);
    let location = HeaderValue::from_str(&location).expect("an id has plain characters");
    response.headers_mut().insert(header::LOCATION, location);
    response
}

fn malformed(field: &str, reason: &str) -> Refusal {
    Refusal::Malformed {
        reason: format!("{field}: {reason}"),
    }
}

/// A path that means the same everywhere.
fn folder(field: &str, text: &str) -> Result<PathBuf, Refusal> {
    let path = PathBuf::from(text);
    if !path.is_absolute() || text.contains('\0') {
        return Err(malformed(field, "it must be an absolute path"));
    }
    Ok(path)
}

pub(super) fn requested(summary: &Summary) -> Value {
    json!({
        "v": 1,
        "kind": "requested",
        "session": summary.id,
        "name": summary.name,
        "status": summary.status,
    })
}

pub(super) const RESUME: Doc =
    Doc::new("Resume a session where it stopped", "RunRequested").body("RunOptions");

/// The options of a resume, and what its user says about a step with an unknown outcome: `in_flight` may
/// also be `done` or `failed`.
pub(super) struct Resume {
    options: RunOptions,
    decisions: Vec<Decision>,
}

impl<'de> Deserialize<'de> for Resume {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        let mut fields = Map::deserialize(deserializer)?;
        let mut text = |field: &str| match fields.remove(field) {
            None | Some(Value::Null) => Ok(None),
            Some(Value::String(text)) => Ok(Some(text)),
            Some(_) => Err(D::Error::custom(format!("{field}: it must be a string"))),
        };
        let (step, result, in_flight) = (text("step")?, text("result")?, text("in_flight")?);
        let said = match (in_flight.as_deref(), result) {
            (Some("done"), Some(result)) => Some(Said::Done(result)),
            (Some("done"), None) => return Err(D::Error::custom("result: `done` needs it")),
            (Some("failed"), reason) => Some(Said::Failed(reason.unwrap_or_default())),
            (_, None) if step.is_none() => None,
            _ => {
                let reason = "step, result: they need `in_flight`: `done` or `failed`";
                return Err(D::Error::custom(reason));
            }
        };
        if said.is_none() {
            fields.extend(in_flight.map(|word| ("in_flight".to_owned(), word.into())));
        }
        let step = step.as_deref().map(Path::new).transpose();
        let step = step.map_err(|error| D::Error::custom(format!("step: {error}")))?;
        let options = serde_json::from_value(fields.into()).map_err(D::Error::custom)?;
        let decision = said.map(|said| Decision { step, said });
        Ok(Self {
            options,
            decisions: decision.into_iter().collect(),
        })
    }
}

pub(super) async fn resume(
    State(server): State<Server>,
    Extension(caller): Extension<Caller>,
    Session(summary): Session,
    JsonBody(wanted): JsonBody<Resume>,
) -> Result<(StatusCode, Json<Value>), Failed> {
    let summary = request(&server, &caller, &summary, wanted).await?;
    Ok((StatusCode::ACCEPTED, Json(requested(&summary))))
}

async fn request(
    server: &Server,
    caller: &Caller,
    summary: &Summary,
    Resume { options, decisions }: Resume,
) -> Result<Summary, background::Error> {
    background::request(&server.env, summary, caller.name(), options, &decisions).await
}

pub(super) const RESUME_WORKFLOW: Doc =
    Doc::new("Resume a session where it stopped", "ResumedWorkflow").body("RunOptions");

/// As in an earlier design, with its names.
pub(super) async fn resume_workflow(
    State(server): State<Server>,
    Extension(caller): Extension<Caller>,
    Session(summary): Session,
    JsonBody(wanted): JsonBody<Resume>,
) -> Result<Json<Value>, Failed> {
    let summary = request(&server, &caller, &summary, wanted).await?;
    Ok(Json(resumed_workflow(&summary)))
}

pub(super) fn resumed_workflow(summary: &Summary) -> Value {
    json!({"status": summary.status, "workflow_id": summary.id})
}

pub(super) const MESSAGE: Doc =
    Doc::new("Send a message to a chat", "RunRequested").body("NewMessage");

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
pub(super) struct Message {
    text: String,
}

pub(super) async fn message(
    State(server): State<Server>,
    Extension(caller): Extension<Caller>,
    Session(summary): Session,
    JsonBody(Message { text }): JsonBody<Message>,
) -> Result<(StatusCode, Json<Value>), Failed> {
    let sent = background::send(&server.env, &summary, caller.name(), text).await?;
    Ok((StatusCode::ACCEPTED, Json(requested(&sent))))
}

pub(super) const WORKERS: Doc = Doc::new("List the workers of this home", "Workers");

pub(super) async fn workers(State(server): State<Server>) -> Json<Value> {
    let env = &server.env;
    let found = living_workers(&server.workers, &*env.disk, &*env.processes);
    let workers: Vec<Value> = found
        .iter()
        .map(|worker| {
            json!({
                "host": worker.owner.host,
                "pid": worker.owner.pid,
                "since": worker.since.to_string(),
                "max_runs": worker.max_runs,
                "sessions": worker.sessions,
            })
        })
        .collect();
    Json(json!({"v": 1, "kind": "workers", "workers": workers}))
}
