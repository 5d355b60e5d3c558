//! Agents of the Agent Client Protocol: one that does what it should, and one that does not.

mod broken;
mod driver;
mod recorded;
mod talk;

use std::fs;
use std::io;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::Duration;

use segno_agents::acp::{
    AcpError, Connection, Event, Files, Limits, Means, Outcome, Policy, Update,
};
use segno_core::ports::{Access, Boxed, Clock, Disk};
use segno_core::time::Timestamp;
use tokio::sync::watch;

use crate::world::{World, read, warden};

/// Time that passes only when it is turned.
struct Hand(watch::Sender<Duration>);

impl Hand {
    fn new() -> Arc<Self> {
        Arc::new(Self(watch::channel(Duration::ZERO).0))
    }

    fn turn(&self, by: Duration) {
        self.0.send_modify(|now| *now += by);
    }
}

impl Clock for Hand {
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

/// Files as they are.
struct PlainDisk;

#[expect(clippy::disallowed_methods, reason = "this is the disk of a test")]
impl Disk for PlainDisk {
    fn read(&self, path: &Path, limit: u64) -> io::Result<Vec<u8>> {
        let bytes = fs::read(path)?;
        if bytes.len() as u64 > limit {
            return Err(io::ErrorKind::FileTooLarge.into());
        }
        Ok(bytes)
    }

    fn create(&self, path: &Path, content: &[u8], _: Access) -> io::Result<()> {
        fs::write(path, content)
    }

    fn rename(&self, from: &Path, to: &Path) -> io::Result<()> {
        fs::rename(from, to)
    }

    fn publish(&self, _: &Path, _: &Path) -> io::Result<()> {
        Err(io::ErrorKind::Unsupported.into())
    }

    fn sync_folder(&self, _: &Path) -> io::Result<()> {
        Ok(())
    }

    fn create_folder(&self, path: &Path, _: Access) -> io::Result<()> {
        fs::create_dir_all(path)
    }

    fn remove(&self, path: &Path) -> io::Result<()> {
        match fs::remove_file(path) {
            Err(error) if error.kind() != io::ErrorKind::NotFound => Err(error),
            _ => Ok(()),
        }
    }

    fn remove_folder(&self, _: &Path) -> io::Result<()> {
        Err(io::ErrorKind::Unsupported.into())
    }

    fn list(&self, _: &Path) -> io::Result<Vec<PathBuf>> {
        Err(io::ErrorKind::Unsupported.into())
    }
}

/// Edits are allowed, and files are not offered.
fn means(clock: &Arc<Hand>) -> Means {
    Means {
        warden: warden(),
        clock: Arc::clone(clock) as Arc<dyn Clock>,
        limits: Limits::default(),
        policy: Policy::Edit,
        files: Files::Closed,
    }
}

/// The fake agent, started in the world's folder and marked as the world's.
async fn start(world: &World, mode: &str, means: Means) -> Result<Connection, AcpError> {
    let script = format!("{}/tests/it/acp/agent.py", env!("CARGO_MANIFEST_DIR"));
    let argv = ["python3", &script, mode].map(str::to_owned);
    let mark = ("SEGNO_SESSION".to_owned(), world.session().to_string());
    Connection::open(&argv, &[mark], world.folder(), means).await
}

/// The same, greeted and with a session.
async fn begun(world: &World, mode: &str, means: Means) -> (Connection, String) {
    let mut agent = start(world, mode, means).await.unwrap();
    agent.initialize().await.unwrap();
    let session = agent.new_session(world.folder()).await.unwrap();
    (agent, session.id)
}

/// All that comes of a prompt.
async fn asked(
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

/// The words of the answer.
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
