//! ACP agents: fake ones that follow or violate the protocol, and recorded real ones.

mod broken;
mod conversation;
mod driver;
mod recorded;

use std::path::Path;
use std::sync::Arc;
use std::time::Duration;

use segno_agents::AgentEnvironment;
use segno_agents::acp::{
    AcpError, Connection, ConnectionConfig, Event, Files, Limits, Outcome, Policy, Update,
};
use segno_core::ports::{Boxed, Clock};
use segno_core::time::Timestamp;
use tokio::sync::watch;

use crate::fixture::{Fixture, process_guard, read};

/// A clock that a test advances.
struct ManualClock(watch::Sender<Duration>);

impl ManualClock {
    fn new() -> Arc<Self> {
        Arc::new(Self(watch::channel(Duration::ZERO).0))
    }

    fn advance(&self, by: Duration) {
        self.0.send_modify(|now| *now += by);
    }
}

impl Clock for ManualClock {
    fn now(&self) -> Timestamp {
        Timestamp(0)
    }

    fn elapsed(&self) -> Duration {
        *self.0.borrow()
    }

    fn sleep(&self, duration: Duration) -> Boxed<'_, ()> {
        let (until, mut time) = (self.elapsed() + duration, self.0.subscribe());
        Box::pin(async move {
            time.wait_for(|now| *now >= until).await.unwrap();
        })
    }
}

/// Edits are allowed, and files are not offered.
fn config(clock: &Arc<ManualClock>) -> ConnectionConfig {
    ConnectionConfig {
        guard: process_guard(),
        environment: AgentEnvironment::whole(),
        pass_env: Vec::new(),
        clock: Arc::clone(clock) as Arc<dyn Clock>,
        limits: Limits::default(),
        policy: Policy::Edit,
        files: Files::Closed,
    }
}

/// Starts the fake agent in the fixture's folder, with the fixture's marker in its environment.
async fn start(
    fixture: &Fixture,
    mode: &str,
    config: ConnectionConfig,
) -> Result<Connection, AcpError> {
    let script = format!("{}/tests/it/acp/agent.py", env!("CARGO_MANIFEST_DIR"));
    let argv = ["python3", &script, mode].map(str::to_owned);
    let mark = ("SEGNO_SESSION".to_owned(), fixture.session().to_string());
    Connection::open(&argv, &[mark], fixture.folder(), config).await
}

/// The same, initialized and with a session.
async fn with_session(
    fixture: &Fixture,
    mode: &str,
    config: ConnectionConfig,
) -> (Connection, String) {
    let mut agent = start(fixture, mode, config).await.unwrap();
    agent.initialize().await.unwrap();
    let session = agent.new_session(fixture.folder()).await.unwrap();
    (agent, session.id)
}

/// All updates of a prompt, and its outcome.
async fn run_prompt(
    agent: &mut Connection,
    session: &str,
    text: &str,
) -> Result<(Vec<Update>, Outcome), AcpError> {
    let mut turn = agent.prompt(session, text)?;
    let mut updates = Vec::new();
    loop {
        match turn.next().await? {
            Event::Update(update) => updates.push(update),
            Event::End(outcome) => return Ok((updates, outcome)),
        }
    }
}

/// The text of the answer.
fn words(updates: &[Update]) -> Vec<&str> {
    let mut words = Vec::new();
    for update in updates {
        if let Update::Text(text) = update {
            words.push(text.text.as_str());
        }
    }
    words
}

fn written(path: &Path) -> String {
    String::from_utf8(read(path)).unwrap()
}
