//! The server itself: connections, what it was asked, what it answered, and holding answers back.

use std::collections::BTreeSet;
use std::net::{SocketAddr, TcpListener, TcpStream};
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Condvar, Mutex};
use std::thread;
use std::time::Duration;

use super::http::{self, Asked};
use super::performance::Performance;
use super::place::{Manner, Purpose, purpose};
use super::play::{self, Play};
use super::script::Script;

/// A server. It takes no more calls when this is dropped.
pub struct ModelServer {
    address: SocketAddr,
    state: Arc<State>,
}

/// What an answer came to.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Ending {
    /// It is being sent, or is held back.
    Open,
    /// All of it was sent.
    Whole,
    /// The script wants it refused, cut or not sent.
    Failed,
    /// The other side went away.
    Abandoned,
}

/// What was answered to a request.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Answer {
    /// Which request: its place in what was asked.
    pub asked: usize,
    /// What it was for.
    pub purpose: Purpose,
    /// What the answer came to.
    pub ending: Ending,
}

#[derive(Default)]
pub(super) struct State {
    over: AtomicBool,
    asked: Mutex<Vec<Asked>>,
    answers: Mutex<Vec<Answer>>,
    gates: Mutex<Gates>,
    changed: Condvar,
}

#[derive(Default)]
struct Gates {
    /// Turns that are held back at this moment.
    held: BTreeSet<(String, usize)>,
    /// Turns that are held back no more.
    open: BTreeSet<(String, usize)>,
}

impl Drop for ModelServer {
    fn drop(&mut self) {
        self.state.over.store(true, Ordering::SeqCst);
        self.state.changed.notify_all();
        // Wakes it, so that it sees.
        let _ = TcpStream::connect(self.address);
    }
}

type Serve = dyn Fn(&mut TcpStream, usize, &Asked, &State) -> Option<()> + Send + Sync;

impl ModelServer {
    /// Starts one. `play` says what is answered to each call; the number counts calls from 0.
    pub fn start(play: impl Fn(usize, &Asked) -> Play + Send + Sync + 'static) -> Self {
        Self::serving(Arc::new(move |stream, number, asked, _| {
            play::answer(stream, asked, &play(number, asked))
        }))
    }

    /// Starts one that plays these scripts to agents.
    pub fn scripted(scripts: impl IntoIterator<Item = Script>) -> Self {
        let scripts: Vec<Script> = scripts.into_iter().collect();
        Self::serving(Arc::new(move |stream, number, asked, state| {
            let purpose = purpose(asked, &scripts);
            let answer = Answer {
                asked: number,
                purpose: purpose.clone(),
                ending: Ending::Open,
            };
            let place = {
                let mut answers = state.answers.lock().unwrap();
                answers.push(answer);
                answers.len() - 1
            };
            let ending = Performance {
                state,
                scripts: &scripts,
                number,
                asked,
            }
            .give(stream, &purpose);
            state.answers.lock().unwrap()[place].ending = ending;
            (ending == Ending::Whole).then_some(())
        }))
    }

    fn serving(serve: Arc<Serve>) -> Self {
        let listener = TcpListener::bind("127.0.0.1:0").unwrap();
        let address = listener.local_addr().unwrap();
        let state: Arc<State> = Arc::default();
        let shared = Arc::clone(&state);
        thread::spawn(move || {
            for stream in listener.incoming().flatten() {
                if shared.over.load(Ordering::SeqCst) {
                    return;
                }
                let (state, serve) = (Arc::clone(&shared), Arc::clone(&serve));
                thread::spawn(move || state.converse(stream, &*serve));
            }
        });
        Self { address, state }
    }

    /// Where it is.
    pub fn host(&self) -> String {
        format!("http://{}", self.address)
    }

    /// What it was asked so far.
    pub fn asked(&self) -> Vec<Asked> {
        self.state.asked.lock().unwrap().clone()
    }

    /// What it answered from scripts so far, in the order of asking.
    pub fn answers(&self) -> Vec<Answer> {
        self.state.answers.lock().unwrap().clone()
    }

    /// The turns of a script that were answered, in order, each as often as it was: what a person
    /// would have paid for. Turns that were mended are not among them, nor are refusals.
    pub fn paid(&self, script: &str) -> Vec<usize> {
        self.turns(script, |manner| manner != Manner::Mending)
    }

    /// The turns of a script whose calls were mended, in order.
    pub fn mended(&self, script: &str) -> Vec<usize> {
        self.turns(script, |manner| manner == Manner::Mending)
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
    pub fn request(&self, script: &str, turn: usize) -> Option<Asked> {
        let answers = self.answers();
        let found = answers.iter().rev().find(|answer| {
            matches!(&answer.purpose, Purpose::Turn { script: of, turn: at, .. } if of == script && *at == turn)
        });
        Some(self.asked()[found?.asked].clone())
    }

    /// Whether half of this turn was sent, and the rest is held back.
    pub fn holds(&self, script: &str, turn: usize) -> bool {
        let gates = self.state.gates.lock().unwrap();
        gates.held.contains(&(script.to_owned(), turn))
    }

    /// Lets go of a turn, now and whenever it is asked for again.
    pub fn release(&self, script: &str, turn: usize) {
        let mut gates = self.state.gates.lock().unwrap();
        gates.open.insert((script.to_owned(), turn));
        self.state.changed.notify_all();
    }
}

impl State {
    fn converse(&self, mut stream: TcpStream, serve: &Serve) {
        while let Some(asked) = http::read(&stream) {
            let number = {
                let mut seen = self.asked.lock().unwrap();
                seen.push(asked.clone());
                seen.len() - 1
            };
            if serve(&mut stream, number, &asked, self).is_none() {
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

    /// Waits until a turn is released; `None` if the server is over.
    pub(super) fn hold(&self, key: &(String, usize)) -> Option<()> {
        let mut gates = self.gates.lock().unwrap();
        gates.held.insert(key.clone());
        while !gates.open.contains(key) && !self.over.load(Ordering::SeqCst) {
            // The time is for a server that was dropped between the look and the wait.
            let wait = Duration::from_millis(200);
            gates = self.changed.wait_timeout(gates, wait).unwrap().0;
        }
        gates.held.remove(key);
        gates.open.contains(key).then_some(())
    }
}
