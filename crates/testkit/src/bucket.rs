//! A server of S3 on a port of its own: moto, which is a program of others. It keeps everything in
//! memory, believes every key, and goes with the value that started it.

use std::io::{Read, Write};
use std::net::{SocketAddr, TcpListener, TcpStream};
use std::path::PathBuf;
use std::process::{Child, Command, Stdio};

use crate::sandbox::until;

/// Whoever says so is somebody: the signature is not looked at.
const SOMEBODY: &str = "AWS4-HMAC-SHA256 Credential=key/20260101/us-east-1/s3/aws4_request, SignedHeaders=host, Signature=0";

/// A server that is running.
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
    /// Starts one, with an empty bucket called `bucket`.
    pub fn start() -> Self {
        let server = Self::bare(&[]);
        let (status, _) = server.ask("PUT", "/bucket", b"");
        assert_eq!(status, 200);
        server
    }

    /// One that believes only keys that were made there, of which there are none.
    pub fn suspicious() -> Self {
        Self::bare(&[("INITIAL_NO_AUTH_ACTION_COUNT", "0")])
    }

    fn bare(variables: &[(&str, &str)]) -> Self {
        let python = match std::env::var_os("SEGNO_PYTHON") {
            Some(python) => PathBuf::from(python),
            None => {
                PathBuf::from(env!("CARGO_MANIFEST_DIR")).join("../../target/python/bin/python")
            }
        };
        // A port that was free a moment ago; another one may take it, and then the next is tried.
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
                .unwrap_or_else(|error| panic!("{}: {error}; `make tools`", python.display()));
            let mut is_over = false;
            until("the server of S3 answers", || {
                is_over = child.try_wait().unwrap().is_some();
                is_over || TcpStream::connect(address).is_ok()
            });
            if !is_over {
                return Self { address, child };
            }
        }
        panic!("no server of S3 could be started; `make tools`");
    }

    /// Where it is.
    pub fn address(&self) -> SocketAddr {
        self.address
    }

    /// Where it is, as a URL.
    pub fn host(&self) -> String {
        format!("http://{}", self.address)
    }

    /// The names of all objects in the bucket that begin with `prefix`, sorted.
    pub fn names(&self, prefix: &str) -> Vec<String> {
        let (status, body) = self.ask("GET", &format!("/bucket?list-type=2&prefix={prefix}"), b"");
        assert_eq!(status, 200);
        let body = String::from_utf8(body).unwrap();
        let keys = body.split("<Key>").skip(1);
        let mut names: Vec<String> = keys
            .map(|rest| rest.split("</Key>").next().unwrap_or_default().to_owned())
            .collect();
        names.sort();
        names
    }

    /// The bytes of an object in the bucket.
    pub fn get(&self, name: &str) -> Vec<u8> {
        let (status, body) = self.ask("GET", &format!("/bucket/{name}"), b"");
        assert_eq!(status, 200, "{name}");
        body
    }

    /// Replaces an object in the bucket.
    pub fn put(&self, name: &str, bytes: &[u8]) {
        let (status, _) = self.ask("PUT", &format!("/bucket/{name}"), bytes);
        assert_eq!(status, 200, "{name}");
    }

    /// Deletes an object in the bucket.
    pub fn delete(&self, name: &str) {
        let (status, _) = self.ask("DELETE", &format!("/bucket/{name}"), b"");
        assert_eq!(status, 204, "{name}");
    }

    /// Asks it anything.
    pub fn ask(&self, method: &str, path: &str, body: &[u8]) -> (u16, Vec<u8>) {
        let mut stream = TcpStream::connect(self.address).unwrap();
        let head = format!(
            "{method} {path} HTTP/1.1\r\nhost: {}\r\nauthorization: {SOMEBODY}\r\ncontent-length: {}\r\nconnection: close\r\n\r\n",
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
