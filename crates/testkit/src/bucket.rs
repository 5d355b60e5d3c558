//! An S3 server on its own port: moto, a third-party program. It keeps everything in memory,
//! accepts every key, and ends when its `BucketServer` is dropped.

use std::io::{Read, Write};
use std::net::{SocketAddr, TcpListener, TcpStream};
use std::path::PathBuf;
use std::process::{Child, Command, Stdio};

use crate::sandbox::wait_until;

/// moto accepts any credential: it does not check the signature.
const AUTHORIZATION: &str = "AWS4-HMAC-SHA256 Credential=key/20260101/us-east-1/s3/aws4_request, SignedHeaders=host, Signature=0";

pub struct BucketServer {
    address: SocketAddr,
    child: Child,
}

impl Drop for BucketServer {
    fn drop(&mut self) {
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

impl BucketServer {
    /// Starts a server with an empty bucket called `bucket`.
    pub fn start() -> Self {
        let server = Self::spawn(&[]);
        let (status, _) = server.request("PUT", "/bucket", b"");
        assert_eq!(status, 200);
        server
    }

    /// Starts a server that accepts only keys created on it. There are none.
    pub fn requiring_known_keys() -> Self {
        Self::spawn(&[("INITIAL_NO_AUTH_ACTION_COUNT", "0")])
    }

    fn spawn(variables: &[(&str, &str)]) -> Self {
        let python = match std::env::var_os("SEGNO_PYTHON") {
            Some(python) => PathBuf::from(python),
            None => {
                PathBuf::from(env!("CARGO_MANIFEST_DIR")).join("../../target/python/bin/python")
            }
        };
        // The port was free just now; if another process takes it first, the next port is tried.
        for _ in 0..10 {
            let listener = TcpListener::bind("127.0.0.1:0").unwrap();
            let address = listener.local_addr().unwrap();
            drop(listener);
            let mut child = Command::new(&python)
                .args(["-m", "moto.server", "-H", "127.0.0.1", "-p"])
                .arg(address.port().to_string())
                .envs(variables.iter().copied())
                .stdout(Stdio::null())
                .stderr(Stdio::null())
                .spawn()
                .unwrap_or_else(|error| panic!("{}: {error}; run `make tools`", python.display()));
            let mut has_ended = false;
            wait_until("the S3 server responds", || {
                has_ended = child.try_wait().unwrap().is_some();
                has_ended || TcpStream::connect(address).is_ok()
            });
            if !has_ended {
                return Self { address, child };
            }
        }
        panic!("the S3 server could not be started; run `make tools`");
    }

    pub fn address(&self) -> SocketAddr {
        self.address
    }

    /// The URL of the server.
    pub fn host(&self) -> String {
        format!("http://{}", self.address)
    }

    /// Lists the names of all objects in the bucket that begin with `prefix`, sorted.
    pub fn names(&self, prefix: &str) -> Vec<String> {
        let (status, body) =
            self.request("GET", &format!("/bucket?list-type=2&prefix={prefix}"), b"");
        assert_eq!(status, 200);
        let body = String::from_utf8(body).unwrap();
        let keys = body.split("<Key>").skip(1);
        let mut names: Vec<String> = keys
            .map(|rest| rest.split("</Key>").next().unwrap_or_default().to_owned())
            .collect();
        names.sort();
        names
    }

    pub fn get(&self, name: &str) -> Vec<u8> {
        let (status, body) = self.request("GET", &format!("/bucket/{name}"), b"");
        assert_eq!(status, 200, "{name}");
        body
    }

    /// Creates or replaces an object in the bucket.
    pub fn put(&self, name: &str, bytes: &[u8]) {
        let (status, _) = self.request("PUT", &format!("/bucket/{name}"), bytes);
        assert_eq!(status, 200, "{name}");
    }

    pub fn delete(&self, name: &str) {
        let (status, _) = self.request("DELETE", &format!("/bucket/{name}"), b"");
        assert_eq!(status, 204, "{name}");
    }

    /// Sends a request; returns the status and the body.
    pub fn request(&self, method: &str, path: &str, body: &[u8]) -> (u16, Vec<u8>) {
        let mut stream = TcpStream::connect(self.address).unwrap();
        let head = format!(
            "{method} {path} HTTP/1.1\r\nhost: {}\r\nauthorization: {AUTHORIZATION}\r\ncontent-length: {}\r\nconnection: close\r\n\r\n",
            self.address,
            body.len()
        );
        stream.write_all(head.as_bytes()).unwrap();
        stream.write_all(body).unwrap();
        let mut answer = Vec::new();
        stream.read_to_end(&mut answer).unwrap();
        let end = answer
            .windows(4)
            .position(|four| four == b"\r\n\r\n")
            .unwrap();
        let head = String::from_utf8_lossy(&answer[..end]).into_owned();
        let status = head.split(' ').nth(1).unwrap().parse().unwrap();
        (status, answer[end + 4..].to_vec())
    }
}
