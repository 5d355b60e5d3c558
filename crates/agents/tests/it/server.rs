//! A local HTTP server that sends scripted responses and records requests.

use std::io::{BufRead, BufReader, Read, Write};
use std::net::{TcpListener, TcpStream};
use std::sync::{Arc, Mutex};

pub(crate) struct Server {
    port: u16,
    requests: Arc<Mutex<Vec<String>>>,
}

impl Server {
    /// Answers each request, head and body, with these bytes. With none, it stays silent and keeps
    /// the connection open.
    pub(crate) fn new(answer: impl Fn(&str) -> Vec<u8> + Send + 'static) -> Self {
        let listener = TcpListener::bind("127.0.0.1:0").unwrap();
        let port = listener.local_addr().unwrap().port();
        let requests = Arc::new(Mutex::new(Vec::new()));
        let recorded = Arc::clone(&requests);
        std::thread::spawn(move || {
            let mut silent = Vec::new();
            while let Ok((mut stream, _)) = listener.accept() {
                let request = read_request(&stream);
                recorded.lock().unwrap().push(request.clone());
                match answer(&request) {
                    bytes if bytes.is_empty() => silent.push(stream),
                    // A client that has read enough hangs up.
                    bytes => drop(stream.write_all(&bytes)),
                }
            }
        });
        Self { port, requests }
    }

    /// Sends the same response to every request.
    pub(crate) fn responding(kind: &str, body: impl AsRef<[u8]>) -> Self {
        let answer = response("200 OK", &format!("Content-Type: {kind}\r\n"), body);
        Self::new(move |_| answer.clone())
    }

    /// Redirects every request.
    pub(crate) fn redirecting(status: &str, place: &str) -> Self {
        let answer = response(status, &format!("Location: {place}\r\n"), "");
        Self::new(move |_| answer.clone())
    }

    pub(crate) fn host(&self) -> String {
        format!("127.0.0.1:{}", self.port)
    }

    /// The same server by its name, which counts as another host.
    pub(crate) fn name(&self) -> String {
        format!("localhost:{}", self.port)
    }

    pub(crate) fn url(&self, path: &str) -> String {
        format!("http://{}{path}", self.host())
    }

    /// All requests so far, in lower case but for their bodies.
    pub(crate) fn requests(&self) -> Vec<String> {
        self.requests.lock().unwrap().clone()
    }
}

/// A response that ends with its body.
pub(crate) fn response(status: &str, headers: &str, body: impl AsRef<[u8]>) -> Vec<u8> {
    let body = body.as_ref();
    let length = body.len();
    let head = format!(
        "HTTP/1.1 {status}\r\n{headers}Content-Length: {length}\r\nConnection: close\r\n\r\n"
    );
    [head.as_bytes(), body].concat()
}

fn read_request(stream: &TcpStream) -> String {
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
