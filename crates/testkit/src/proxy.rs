//! A proxy between a program and a server of HTTP, in which everything can go wrong that goes wrong
//! on the way.

use std::io::{BufRead, BufReader, Read, Write};
use std::net::{SocketAddr, TcpListener, TcpStream};
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex};
use std::thread;

/// What was asked: the method and the path, with what follows a `?`.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Request {
    /// `GET`, `PUT`, …
    pub method: String,
    /// The path.
    pub path: String,
}

/// What becomes of a request.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Mishap {
    /// It is passed on, and so is the answer.
    None,
    /// It is not passed on; this status and code are answered.
    Refused(u16, &'static str),
    /// It is not passed on, and the connection ends.
    Lost,
    /// It is passed on, and the connection ends before the answer.
    Unanswered,
    /// It is passed on, and the connection ends in the middle of the answer's body.
    Cut,
    /// It is passed on, and the answer claims to be whole with half of its body.
    Halved,
    /// It is not passed on, and never answered.
    Stalled,
}

/// A proxy. It takes no more calls when this is dropped.
pub struct Proxy {
    address: SocketAddr,
    asked: Arc<Mutex<Vec<Request>>>,
    over: Arc<AtomicBool>,
}

impl Drop for Proxy {
    fn drop(&mut self) {
        self.over.store(true, Ordering::SeqCst);
        // Wakes it, so that it sees.
        let _ = TcpStream::connect(self.address);
    }
}

impl Proxy {
    /// Starts one before `server`. `plan` says what becomes of each request; the number counts them
    /// from 0.
    pub fn start(
        server: SocketAddr,
        plan: impl Fn(usize, &Request) -> Mishap + Send + Sync + 'static,
    ) -> Self {
        let listener = TcpListener::bind("127.0.0.1:0").unwrap();
        let address = listener.local_addr().unwrap();
        let asked: Arc<Mutex<Vec<Request>>> = Arc::default();
        let over = Arc::<AtomicBool>::default();
        let (seen, ends, plan) = (Arc::clone(&asked), Arc::clone(&over), Arc::new(plan));
        thread::spawn(move || {
            for stream in listener.incoming().flatten() {
                if ends.load(Ordering::SeqCst) {
                    return;
                }
                let (seen, plan) = (Arc::clone(&seen), Arc::clone(&plan));
                thread::spawn(move || serve(stream, server, &seen, &*plan));
            }
        });
        Self {
            address,
            asked,
            over,
        }
    }

    /// Where it is.
    pub fn host(&self) -> String {
        format!("http://{}", self.address)
    }

    /// What it was asked so far.
    pub fn asked(&self) -> Vec<Request> {
        self.asked.lock().unwrap().clone()
    }
}

/// One request and its answer; then the connection ends.
fn serve(
    mut stream: TcpStream,
    server: SocketAddr,
    seen: &Mutex<Vec<Request>>,
    plan: &(dyn Fn(usize, &Request) -> Mishap + Send + Sync),
) -> Option<()> {
    let (request, bytes) = read(&stream)?;
    let number = {
        let mut seen = seen.lock().unwrap();
        seen.push(request.clone());
        seen.len() - 1
    };
    let mishap = plan(number, &request);
    match mishap {
        Mishap::Lost => return None,
        Mishap::Stalled => {
            // Until whoever asked gives up.
            let _ = stream.read(&mut [0; 1]);
            return None;
        }
        Mishap::Refused(status, code) => {
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
        Mishap::Unanswered => None,
        Mishap::Cut => stream.write_all(&answer[..half]).ok(),
        Mishap::Halved => {
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

/// Reads a request, and what is sent on: the same, over a connection that ends with its answer.
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
