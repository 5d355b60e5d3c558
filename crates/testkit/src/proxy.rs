//! A proxy between a program and an HTTP server. It injects the failures that occur on a network:
//! refused, lost, unanswered, truncated and stalled requests.

use std::io::{BufRead, BufReader, Read, Write};
use std::net::{SocketAddr, TcpListener, TcpStream};
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex};
use std::thread;

/// The method and the path of a request; the path includes the query.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Request {
    pub method: String,
    pub path: String,
}

/// What the proxy does with a request.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Failure {
    /// Forwards it, and returns the answer.
    None,
    /// Does not forward it; answers with this status and code.
    Refused(u16, &'static str),
    /// Does not forward it, and closes the connection.
    Lost,
    /// Forwards it, and closes the connection before the answer.
    Unanswered,
    /// Forwards it, and closes the connection in the middle of the answer's body.
    Cut,
    /// Forwards it, and returns half of the answer's body with a matching length, as if it were
    /// complete.
    Truncated,
    /// Does not forward it, and never answers.
    Stalled,
}

/// A running proxy. It accepts no more connections after it is dropped.
pub struct Proxy {
    address: SocketAddr,
    requests: Arc<Mutex<Vec<Request>>>,
    stopped: Arc<AtomicBool>,
}

impl Drop for Proxy {
    fn drop(&mut self) {
        self.stopped.store(true, Ordering::SeqCst);
        // Wakes the listener, so that it sees the flag.
        let _ = TcpStream::connect(self.address);
    }
}

impl Proxy {
    /// Starts a proxy in front of `server`. `plan` decides what happens to each request; its number
    /// counts the requests from 0.
    pub fn start(
        server: SocketAddr,
        plan: impl Fn(usize, &Request) -> Failure + Send + Sync + 'static,
    ) -> Self {
        let listener = TcpListener::bind("127.0.0.1:0").unwrap();
        let address = listener.local_addr().unwrap();
        let requests: Arc<Mutex<Vec<Request>>> = Arc::default();
        let stopped = Arc::<AtomicBool>::default();
        let (seen, stop_flag, plan) = (Arc::clone(&requests), Arc::clone(&stopped), Arc::new(plan));
        thread::spawn(move || {
            for stream in listener.incoming().flatten() {
                if stop_flag.load(Ordering::SeqCst) {
                    return;
                }
                let (seen, plan) = (Arc::clone(&seen), Arc::clone(&plan));
                thread::spawn(move || serve(stream, server, &seen, &*plan));
            }
        });
        Self {
            address,
            requests,
            stopped,
        }
    }

    /// The URL of the proxy.
    pub fn host(&self) -> String {
        format!("http://{}", self.address)
    }

    /// The requests so far.
    pub fn requests(&self) -> Vec<Request> {
        self.requests.lock().unwrap().clone()
    }
}

/// Serves one request; then the connection ends.
fn serve(
    mut stream: TcpStream,
    server: SocketAddr,
    seen: &Mutex<Vec<Request>>,
    plan: &(dyn Fn(usize, &Request) -> Failure + Send + Sync),
) -> Option<()> {
    let (request, bytes) = read(&stream)?;
    let number = {
        let mut seen = seen.lock().unwrap();
        seen.push(request.clone());
        seen.len() - 1
    };
    let mishap = plan(number, &request);
    match mishap {
        Failure::Lost => return None,
        Failure::Stalled => {
            // Blocks until the client gives up.
            let _ = stream.read(&mut [0; 1]);
            return None;
        }
        Failure::Refused(status, code) => {
            let body = format!("<Error><Code>{code}</Code><Message>no</Message></Error>");
            let head = format!(
                "HTTP/1.1 {status} X\r\ncontent-length: {}\r\nconnection: close\r\n\r\n{body}",
                body.len()
            );
            return stream.write_all(head.as_bytes()).ok();
        }
        _ => {}
    }
    let mut upstream = TcpStream::connect(server).ok()?;
    upstream.write_all(&bytes).ok()?;
    let mut answer = Vec::new();
    upstream.read_to_end(&mut answer).ok()?;
    let end = answer.windows(4).position(|four| four == b"\r\n\r\n")? + 4;
    let half = end + (answer.len() - end) / 2;
    match mishap {
        Failure::Unanswered => None,
        Failure::Cut => stream.write_all(&answer[..half]).ok(),
        Failure::Truncated => {
            let head = String::from_utf8_lossy(&answer[..end]).into_owned();
            let lines = head.trim_end().lines().map(|line| {
                if line.to_ascii_lowercase().starts_with("content-length:") {
                    format!("content-length: {}\r\n", half - end)
                } else {
                    format!("{line}\r\n")
                }
            });
            let head: String = lines.collect();
            stream.write_all(format!("{head}\r\n").as_bytes()).ok()?;
            stream.write_all(&answer[end..half]).ok()
        }
        _ => stream.write_all(&answer).ok(),
    }
}

/// Reads a request. Returns it together with the bytes to forward: the same request with
/// `connection: close`.
fn read(stream: &TcpStream) -> Option<(Request, Vec<u8>)> {
    let mut reader = BufReader::new(stream.try_clone().ok()?);
    let mut line = String::new();
    reader.read_line(&mut line).ok().filter(|read| *read > 0)?;
    let mut words = line.split(' ');
    let request = Request {
        method: words.next()?.to_owned(),
        path: words.next()?.to_owned(),
    };
    let mut head = line;
    let mut length = 0;
    loop {
        let mut line = String::new();
        reader.read_line(&mut line).ok()?;
        let Some((name, value)) = line.trim_end().split_once(':') else {
            break;
        };
        match name.to_ascii_lowercase().as_str() {
            "connection" => continue,
            "content-length" => length = value.trim().parse().ok()?,
            _ => {}
        }
        head.push_str(&line);
    }
    head.push_str("connection: close\r\n\r\n");
    let mut bytes = head.into_bytes();
    let begin = bytes.len();
    bytes.resize(begin + length, 0);
    reader.read_exact(&mut bytes[begin..]).ok()?;
    Some((request, bytes))
}
