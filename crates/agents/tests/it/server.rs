//! A server on this machine that says what it is told to say, and keeps what it hears.

use std::io::{BufRead, BufReader, Read, Write};
use std::net::{TcpListener, TcpStream};
use std::sync::{Arc, Mutex};

pub(crate) struct Server {
    port: u16,
    heard: Arc<Mutex<Vec<String>>>,
}

impl Server {
    /// A server that answers each request, head and body, with these bytes. With none, it stays
    /// silent and holds the line.
    pub(crate) fn new(answer: impl Fn(&str) -> Vec<u8> + Send + 'static) -> Self {
        let listener = TcpListener::bind("127.0.0.1:0").unwrap();
        let port = listener.local_addr().unwrap().port();
        let heard = Arc::new(Mutex::new(Vec::new()));
        let kept = Arc::clone(&heard);
        std::thread::spawn(move || {
            let mut silent = Vec::new();
            while let Ok((mut stream, _)) = listener.accept() {
                let request = hear(&stream);
                kept.lock().unwrap().push(request.clone());
                match answer(&request) {
                    bytes if bytes.is_empty() => silent.push(stream),
                    // Whoever has heard enough hangs up.
                    bytes => drop(stream.write_all(&bytes)),
                }
            }
        });
        Self { port, heard }
    }

    /// A server that says the same to everyone.
    pub(crate) fn saying(kind: &str, body: impl AsRef<[u8]>) -> Self {
        let answer = response("200 OK", &format!("Content-Type: {kind}\r\n"), body);
        Self::new(move |_| answer.clone())
    }

    /// A server that sends everyone elsewhere.
    pub(crate) fn sending(status: &str, place: &str) -> Self {
        let answer = response(status, &format!("Location: {place}\r\n"), "");
        Self::new(move |_| answer.clone())
    }

    pub(crate) fn host(&self) -> String {
        format!("127.0.0.1:{}", self.port)
    }

    /// The same by its name, which is another host to everyone who looks.
    pub(crate) fn name(&self) -> String {
        format!("localhost:{}", self.port)
    }

    pub(crate) fn url(&self, path: &str) -> String {
        format!("http://{}{path}", self.host())
    }

    /// All requests so far, in small letters but for their bodies.
    pub(crate) fn heard(&self) -> Vec<String> {
        self.heard.lock().unwrap().clone()
    }
}

/// An answer that ends with its body.
pub(crate) fn response(status: &str, headers: &str, body: impl AsRef<[u8]>) -> Vec<u8> {
    let body = body.as_ref();
    let length = body.len();
    let head = format!(
        "HTTP/1.1 {status}\r\n{headers}Content-Length: {length}\r\nConnection: close\r\n\r\n"
    );
    [head.as_bytes(), body].concat()
}

fn hear(stream: &TcpStream) -> String {
    let mut reader = BufReader::new(stream);
    let mut head = String::new();
    while !head.ends_with("\r\n\r\n") {
        if reader.read_line(&mut head).unwrap() == 0 {
            break;
        }
    }
    let (first, headers) = head.split_once("\r\n").unwrap_or_default();
    let headers = headers.to_ascii_lowercase();
    let length = headers
        .lines()
        .find_map(|line| line.strip_prefix("content-length: "));
    let mut body = vec![0; length.map_or(0, |length| length.parse().unwrap())];
    reader.read_exact(&mut body).unwrap();
    format!("{first}\r\n{headers}{}", String::from_utf8_lossy(&body))
}
