//! The server itself: connections, requests, answers, and answers that are held back.

use std::collections::BTreeSet;
use std::net::{SocketAddr, TcpListener, TcpStream};
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Condvar, Mutex};
use std::thread;
use std::time::Duration;

use super::http::{self, ModelRequest};
use super::position::{Manner, Purpose, purpose};
use super::response::{self, ModelResponse};
use super::script::Script;
use super::scripted::ScriptedAnswer;

/// A running server. It accepts no more connections after it is dropped.
pub struct ModelServer {
    address: SocketAddr,
    state: Arc<State>,
}

/// How an answer ended.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Ending {
    /// It is being sent, or is held back.
    Open,
    /// All of it was sent.
    Whole,
    /// As the script demands: refused, cut or not sent.
    Failed,
    /// The client closed the connection.
    Abandoned,
}

/// The answer to a request.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Answer {
    /// The request: an index into [`ModelServer::requests`].
    pub request_index: usize,
    pub purpose: Purpose,
    pub ending: Ending,
}

#[derive(Default)]
pub(super) struct State {
    stopped: AtomicBool,
    requests: Mutex<Vec<ModelRequest>>,
    answers: Mutex<Vec<Answer>>,
    gates: Mutex<Gates>,
    changed: Condvar,
}

#[derive(Default)]
struct Gates {
    /// Turns that are held back now.
    held: BTreeSet<(String, usize)>,
    /// Turns that were released.
    open: BTreeSet<(String, usize)>,
}

impl Drop for ModelServer {
    fn drop(&mut self) {
        self.state.stopped.store(true, Ordering::SeqCst);
        self.state.changed.notify_all();
        // Wakes the listener, so that it sees the flag.
        let _ = TcpStream::connect(self.address);
    }
}

type Serve = dyn Fn(&mut TcpStream, usize, &ModelRequest, &State) -> Option<()> + Send + Sync;

impl ModelServer {
    /// Starts a server. `play` decides how each request is answered; the number counts requests
    /// from 0.
    pub fn start(
        play: impl Fn(usize, &ModelRequest) -> ModelResponse + Send + Sync + 'static,
    ) -> Self {
        Self::listen(Arc::new(move |stream, number, request, _| {
            response::answer(stream, request, &play(number, request))
        }))
    }

    /// Starts a server that plays these scripts to agents.
    pub fn scripted(scripts: impl IntoIterator<Item = Script>) -> Self {
        let scripts: Vec<Script> = scripts.into_iter().collect();
        Self::listen(Arc::new(move |stream, number, request, state| {
            let purpose = purpose(request, &scripts);
            let answer = Answer {
                request_index: number,
                purpose: purpose.clone(),
                ending: Ending::Open,
            };
            let position = {
                let mut answers = state.answers.lock().unwrap();
                answers.push(answer);
                answers.len() - 1
            };
            let ending = ScriptedAnswer {
                state,
                scripts: &scripts,
                number,
                request,
            }
            .send_answer(stream, &purpose);
            state.answers.lock().unwrap()[position].ending = ending;
            (ending == Ending::Whole).then_some(())
        }))
    }

    fn listen(serve: Arc<Serve>) -> Self {
        let listener = TcpListener::bind("127.0.0.1:0").unwrap();
        let address = listener.local_addr().unwrap();
        let state: Arc<State> = Arc::default();
        let shared = Arc::clone(&state);
        thread::spawn(move || {
            for stream in listener.incoming().flatten() {
                if shared.stopped.load(Ordering::SeqCst) {
                    return;
                }
                let (state, serve) = (Arc::clone(&shared), Arc::clone(&serve));
                thread::spawn(move || state.serve_connection(stream, &*serve));
            }
        });
        Self { address, state }
    }

    /// The URL of the server.
    pub fn host(&self) -> String {
        format!("http://{}", self.address)
    }

    /// The requests so far.
    pub fn requests(&self) -> Vec<ModelRequest> {
        self.state.requests.lock().unwrap().clone()
    }

    /// The answers from scripts so far, in the order of the requests.
    pub fn answers(&self) -> Vec<Answer> {
        self.state.answers.lock().unwrap().clone()
    }

    /// The answered turns of a script, in order, one item per answer: what a user would have paid
    /// for. It excludes repaired turns and refusals.
    pub fn paid_turns(&self, script: &str) -> Vec<usize> {
        self.turns(script, |manner| manner != Manner::Repairing)
    }

    /// The turns of a script whose calls were repaired, in order.
    pub fn repaired_turns(&self, script: &str) -> Vec<usize> {
        self.turns(script, |manner| manner == Manner::Repairing)
    }

    fn turns(&self, script: &str, counts: impl Fn(Manner) -> bool) -> Vec<usize> {
        let answers = self.answers();
        let turn = |answer: &Answer| match &answer.purpose {
            Purpose::Turn {
                script: of,
                turn,
                manner,
            } if of == script && counts(*manner) && answer.ending != Ending::Failed => Some(*turn),
            _ => None,
        };
        answers.iter().filter_map(turn).collect()
    }

    /// The last request for a turn of a script.
    pub fn request(&self, script: &str, turn: usize) -> Option<ModelRequest> {
        let answers = self.answers();
        let found = answers.iter().rev().find(|answer| {
            matches!(&answer.purpose, Purpose::Turn { script: of, turn: at, .. } if of == script && *at == turn)
        });
        Some(self.requests()[found?.request_index].clone())
    }

    /// Whether half of this turn was sent, and the rest is held back.
    pub fn is_held(&self, script: &str, turn: usize) -> bool {
        let gates = self.state.gates.lock().unwrap();
        gates.held.contains(&(script.to_owned(), turn))
    }

    /// Releases a turn, now and whenever it is requested again.
    pub fn release(&self, script: &str, turn: usize) {
        let mut gates = self.state.gates.lock().unwrap();
        gates.open.insert((script.to_owned(), turn));
        self.state.changed.notify_all();
    }
}

impl State {
    fn serve_connection(&self, mut stream: TcpStream, serve: &Serve) {
        while let Some(request) = http::read(&stream) {
            let number = {
                let mut seen = self.requests.lock().unwrap();
                seen.push(request.clone());
                seen.len() - 1
            };
            if serve(&mut stream, number, &request, self).is_none() {
                return;
            }
        }
    }

    /// How often a turn has failed so far.
    pub(super) fn failures(&self, (script, turn): &(String, usize)) -> usize {
        let answers = self.answers.lock().unwrap();
        let failed = answers.iter().filter(|answer| {
            answer.ending == Ending::Failed
                && matches!(&answer.purpose, Purpose::Turn { script: of, turn: at, .. } if of == script && at == turn)
        });
        failed.count()
    }

    /// Waits until a turn is released; `None` if the server was dropped.
    pub(super) fn hold(&self, key: &(String, usize)) -> Option<()> {
        let mut gates = self.gates.lock().unwrap();
        gates.held.insert(key.clone());
        while !gates.open.contains(key) && !self.stopped.load(Ordering::SeqCst) {
            // The timeout is for a server that was dropped between the check and the wait.
            let wait = Duration::from_millis(200);
            gates = self.changed.wait_timeout(gates, wait).unwrap().0;
        }
        gates.held.remove(key);
        gates.open.contains(key).then_some(())
    }
}
