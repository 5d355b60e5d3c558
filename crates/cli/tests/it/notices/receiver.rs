//! A local HTTP receiver that stores what it is sent and behaves as a test says.

use std::io::{BufRead, BufReader, Read, Write};
use std::net::{TcpListener, TcpStream};
use std::sync::{Arc, Mutex};

use segno_testkit::sandbox::wait_until;
use serde_json::Value;

/// How the receiver answers.
#[derive(Debug, Clone)]
pub(super) enum Behaviour {
    Status(u16),
    /// It accepts the request and never answers.
    Hang,
    Redirect(String),
    /// It answers 200 and an endless body.
    Endless,
}

/// A request as it arrived.
#[derive(Debug, Clone)]
pub(super) struct Received {
    pub(super) path: String,
    headers: Vec<(String, String)>,
    pub(super) body: String,
}

impl Received {
    #[track_caller]
    pub(super) fn header(&self, name: &str) -> &str {
        let found = self.headers.iter().find(|(known, _)| known == name);
        found.map_or_else(|| panic!("no {name}: {self:?}"), |(_, value)| value)
    }

    #[track_caller]
    pub(super) fn json(&self) -> Value {
        serde_json::from_str(&self.body).unwrap_or_else(|error| panic!("{error}: {self:?}"))
    }
}

pub(super) struct Receiver {
    pub(super) port: u16,
    received: Arc<Mutex<Vec<Received>>>,
    behaviour: Arc<Mutex<Behaviour>>,
}

impl Receiver {
    pub(super) fn start(behaviour: Behaviour) -> Self {
        Self::start_at(0, behaviour)
    }

    /// Listens on a port that was free.
    pub(super) fn start_at(port: u16, behaviour: Behaviour) -> Self {
        let listener = TcpListener::bind(("127.0.0.1", port)).unwrap();
        let receiver = Self {
            port: listener.local_addr().unwrap().port(),
            received: Arc::default(),
            behaviour: Arc::new(Mutex::new(behaviour)),
        };
        let received = Arc::clone(&receiver.received);
        let behaviour = Arc::clone(&receiver.behaviour);
        std::thread::spawn(move || {
            while let Ok((stream, _)) = listener.accept() {
                let (received, behaviour) = (Arc::clone(&received), Arc::clone(&behaviour));
                std::thread::spawn(move || handle(stream, &received, &behaviour));
            }
        });
        receiver
    }

    pub(super) fn url(&self) -> String {
        format!("http://127.0.0.1:{}/hooks/path-4711", self.port)
    }

    pub(super) fn behave(&self, behaviour: Behaviour) {
        *self.behaviour.lock().unwrap() = behaviour;
    }

    pub(super) fn received(&self) -> Vec<Received> {
        self.received.lock().unwrap().clone()
    }

    /// Waits for this many requests.
    #[track_caller]
    pub(super) fn wait_for(&self, count: usize) -> Vec<Received> {
        wait_until("the receiver has all requests", || {
            self.received().len() >= count
        });
        self.received()
    }

    /// The kinds of the notices that arrived, in order.
    pub(super) fn events(&self) -> Vec<String> {
        let event = |one: Received| one.json()["event"].as_str().unwrap().to_owned();
        self.received().into_iter().map(event).collect()
    }
}

fn handle(mut stream: TcpStream, received: &Mutex<Vec<Received>>, behaviour: &Mutex<Behaviour>) {
    let Some(request) = read(&stream) else { return };
    let behaviour = behaviour.lock().unwrap().clone();
    received.lock().unwrap().push(request);
    let head = |status: u16, more: &str| {
        format!("HTTP/1.1 {status} Answer\r\nConnection: close\r\n{more}\r\n")
    };
    let _ = match behaviour {
        Behaviour::Status(status) => {
            stream.write_all(head(status, "Content-Length: 0\r\n").as_bytes())
        }
        Behaviour::Redirect(to) => {
            let more = format!("Location: {to}\r\nContent-Length: 0\r\n");
            stream.write_all(head(307, &more).as_bytes())
        }
        Behaviour::Hang => {
            // Until the sender gives up.
            stream.read_to_end(&mut Vec::new()).map(drop)
        }
        Behaviour::Endless => {
            let mut sent = stream.write_all(head(200, "").as_bytes());
            while sent.is_ok() {
                sent = stream.write_all(&vec![b'x'; 65_536]);
            }
            sent
        }
    };
}

fn read(stream: &TcpStream) -> Option<Received> {
    let mut stream = BufReader::new(stream);
    let mut line = String::new();
    stream.read_line(&mut line).ok()?;
    let path = line.split(' ').nth(1)?.to_owned();
    let mut headers = Vec::new();
    loop {
        let mut line = Vec::new();
        stream.read_until(b'\n', &mut line).ok()?;
        let line = String::from_utf8(line).ok()?;
        match line.trim_end().split_once(':') {
            Some((name, value)) => {
                headers.push((name.to_ascii_lowercase(), value.trim().to_owned()));
            }
            None => break,
        }
    }
    let length = headers.iter().find(|(name, _)| name == "content-length");
    let length = length.map_or(0, |(_, value)| value.parse().unwrap());
    let mut body = vec![0; length];
    stream.read_exact(&mut body).ok()?;
    Some(Received {
        path,
        headers,
        body: String::from_utf8(body).ok()?,
    })
}
