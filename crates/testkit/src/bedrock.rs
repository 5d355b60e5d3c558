//! A server that speaks Amazon Bedrock's protocol: binary frames, error names in a header. It
//! records the requests, and an independent implementation in Python computes the signature that
//! each of them should have.

use std::io::{BufRead, BufReader, Read, Write};
use std::net::{SocketAddr, TcpListener, TcpStream};
use std::process::{Command, Stdio};
use std::sync::{Arc, Mutex};
use std::thread;

use serde_json::{Value, json};

/// A request that the server received.
#[derive(Debug, Clone)]
pub struct BedrockRequest {
    pub path: String,
    /// The headers; the names are in lower case.
    pub headers: Vec<(String, String)>,
    pub body: String,
}

/// How the server answers a request.
#[derive(Debug, Clone)]
pub enum BedrockResponse {
    Text(String),
    /// A text and tool calls: name and input.
    Tools(String, Vec<(String, Value)>),
    /// A text that was cut at the token limit.
    TokenLimit(String),
    /// An error response: status, the error's name, its message.
    Refusal(u16, &'static str, String),
    /// A stream that ends in an error of this name.
    Exception(&'static str),
    Cut,
    Flipped,
    /// A page of HTML instead of a stream.
    Html,
}

/// A running server. It ends with the test process.
pub struct BedrockServer {
    address: SocketAddr,
    requests: Arc<Mutex<Vec<BedrockRequest>>>,
}

impl BedrockRequest {
    /// The value of a header; empty if there is none.
    pub fn header(&self, name: &str) -> &str {
        let known = self.headers.iter().find(|(known, _)| known == name);
        known.map_or("", |(_, value)| value)
    }

    pub fn json(&self) -> Value {
        serde_json::from_str(&self.body).unwrap()
    }

    /// The `authorization` header that this request should have. Python's own hash functions
    /// compute it from the received request.
    pub fn signature(&self, id: &str, secret: &str) -> String {
        let given = json!({
            "path": self.path,
            "headers": self.headers,
            "body": self.body,
            "authorization": self.header("authorization"),
            "id": id,
            "secret": secret,
        });
        let mut python = Command::new("python3")
            .args(["-I", "-c", SIGN])
            .stdin(Stdio::piped())
            .stdout(Stdio::piped())
            .spawn()
            .unwrap();
        let mut stdin = python.stdin.take().unwrap();
        stdin.write_all(given.to_string().as_bytes()).unwrap();
        drop(stdin);
        let said = python.wait_with_output().unwrap();
        String::from_utf8(said.stdout).unwrap().trim().to_owned()
    }
}

const SIGN: &str = r#"
import hashlib, hmac, json, re, sys, urllib.parse
r = json.load(sys.stdin)
head = dict(r["headers"])
day, region, service = re.search(r"Credential=[^/]+/(\d+)/([^/]+)/([^/]+)/aws4_request", r["authorization"]).groups()
names = re.search("SignedHeaders=([^,]+)", r["authorization"])[1]
canonical = "\n".join(["POST", urllib.parse.quote(r["path"], safe="/~"), ""]
    + [n + ":" + head[n] for n in names.split(";")]
    + ["", names, hashlib.sha256(r["body"].encode()).hexdigest()])
scope = "/".join([day, region, service, "aws4_request"])
text = "\n".join(["AWS4-HMAC-SHA256", head["x-amz-date"], scope, hashlib.sha256(canonical.encode()).hexdigest()])
key = ("AWS4" + r["secret"]).encode()
for word in scope.split("/"):
    key = hmac.new(key, word.encode(), hashlib.sha256).digest()
proof = hmac.new(key, text.encode(), hashlib.sha256).hexdigest()
print(f"AWS4-HMAC-SHA256 Credential={r['id']}/{scope}, SignedHeaders={names}, Signature={proof}")
"#;

impl BedrockServer {
    /// Starts a server. `play` decides how each request is answered; the number counts requests
    /// from 0.
    pub fn start(
        play: impl Fn(usize, &BedrockRequest) -> BedrockResponse + Send + Sync + 'static,
    ) -> Self {
        let listener = TcpListener::bind("127.0.0.1:0").unwrap();
        let address = listener.local_addr().unwrap();
        let requests: Arc<Mutex<Vec<BedrockRequest>>> = Arc::default();
        let seen = Arc::clone(&requests);
        thread::spawn(move || {
            for stream in listener.incoming().flatten() {
                let _ = serve(stream, &seen, &play);
            }
        });
        Self { address, requests }
    }

    /// The URL of the server.
    pub fn host(&self) -> String {
        format!("http://{}", self.address)
    }

    /// The requests so far.
    pub fn requests(&self) -> Vec<BedrockRequest> {
        self.requests.lock().unwrap().clone()
    }
}

/// Answers one request and closes the connection.
fn serve(
    mut stream: TcpStream,
    seen: &Mutex<Vec<BedrockRequest>>,
    play: &impl Fn(usize, &BedrockRequest) -> BedrockResponse,
) -> Option<()> {
    let request = read(&stream)?;
    let number = {
        let mut seen = seen.lock().unwrap();
        seen.push(request.clone());
        seen.len() - 1
    };
    let (head, body) = answer(&play(number, &request));
    let length = body.len();
    let head = format!("HTTP/1.1 {head}\r\ncontent-length: {length}\r\nconnection: close\r\n\r\n");
    stream.write_all(head.as_bytes()).ok()?;
    stream.write_all(&body).ok()
}

fn read(stream: &TcpStream) -> Option<BedrockRequest> {
    let mut reader = BufReader::new(stream);
    let mut line = String::new();
    reader.read_line(&mut line).ok()?;
    let path = line.split(' ').nth(1)?.to_owned();
    let mut headers = Vec::new();
    loop {
        let mut line = String::new();
        reader.read_line(&mut line).ok()?;
        let Some((name, value)) = line.trim_end().split_once(':') else {
            break;
        };
        headers.push((name.to_ascii_lowercase(), value.trim().to_owned()));
    }
    let length = headers.iter().find(|(name, _)| name == "content-length");
    let mut body = vec![0; length?.1.parse().ok()?];
    reader.read_exact(&mut body).ok()?;
    Some(BedrockRequest {
        path,
        headers,
        body: String::from_utf8(body).ok()?,
    })
}

fn answer(play: &BedrockResponse) -> (String, Vec<u8>) {
    let stream = |body| {
        let head = "200 OK\r\ncontent-type: application/vnd.amazon.eventstream";
        (head.to_owned(), body)
    };
    match play {
        BedrockResponse::Text(text) => stream(events(text, &[], "end_turn")),
        BedrockResponse::Tools(text, calls) => stream(events(text, calls, "tool_use")),
        BedrockResponse::TokenLimit(text) => stream(events(text, &[], "max_tokens")),
        BedrockResponse::Cut => {
            let mut body = events("this is cut", &[], "end_turn");
            body.pop();
            stream(body)
        }
        BedrockResponse::Flipped => {
            let mut body = events("this is wrong", &[], "end_turn");
            let middle = body.len() / 2;
            body[middle] ^= 4;
            stream(body)
        }
        BedrockResponse::Exception(name) => {
            let mut body = event("messageStart", &json!({"role": "assistant"}));
            body.extend(delta(0, &json!({"text": "half of it"})));
            let kinds = [(":message-type", "exception"), (":exception-type", *name)];
            body.extend(frame(&kinds, &json!({"message": "it broke"})));
            stream(body)
        }
        BedrockResponse::Html => {
            let head = "200 OK\r\ncontent-type: text/html";
            (head.to_owned(), b"<html>Hello</html>".to_vec())
        }
        BedrockResponse::Refusal(status, name, message) => {
            let head = format!(
                "{status} X\r\ncontent-type: application/json\r\nx-amzn-errortype: {name}:http://internal.amazon.com/coral/"
            );
            (head, json!({"message": message}).to_string().into_bytes())
        }
    }
}

fn events(text: &str, calls: &[(String, Value)], stop: &str) -> Vec<u8> {
    let mut out = event("messageStart", &json!({"role": "assistant"}));
    for piece in text.split_inclusive(' ') {
        out.extend(delta(0, &json!({"text": piece})));
    }
    out.extend(event("contentBlockStop", &json!({"contentBlockIndex": 0})));
    for (number, (name, input)) in calls.iter().enumerate() {
        let index = number + 1;
        let tool = json!({"toolUse": {"toolUseId": format!("call-{index}"), "name": name}});
        let start = json!({"contentBlockIndex": index, "start": tool});
        out.extend(event("contentBlockStart", &start));
        let input = input.to_string();
        let (one, two) = input.split_at(input.len() / 2);
        for piece in [one, two] {
            out.extend(delta(index, &json!({"toolUse": {"input": piece}})));
        }
        out.extend(event(
            "contentBlockStop",
            &json!({"contentBlockIndex": index}),
        ));
    }
    out.extend(event("messageStop", &json!({"stopReason": stop})));
    // 11 input tokens, 7 output tokens: the API counts cache reads and writes separately.
    let usage = json!({
        "inputTokens": 5, "cacheReadInputTokens": 4, "cacheWriteInputTokens": 2,
        "outputTokens": 7, "totalTokens": 18,
    });
    out.extend(event(
        "metadata",
        &json!({"usage": usage, "metrics": {"latencyMs": 1}}),
    ));
    out
}

fn delta(index: usize, delta: &Value) -> Vec<u8> {
    let data = json!({"contentBlockIndex": index, "delta": delta, "p": "abcdefgh"});
    event("contentBlockDelta", &data)
}

fn event(name: &str, data: &Value) -> Vec<u8> {
    frame(
        &[
            (":event-type", name),
            (":content-type", "application/json"),
            (":message-type", "event"),
        ],
        data,
    )
}

fn frame(headers: &[(&str, &str)], data: &Value) -> Vec<u8> {
    let mut head = Vec::new();
    for (name, value) in headers {
        head.push(u8::try_from(name.len()).unwrap());
        head.extend(name.as_bytes());
        head.push(7);
        head.extend(u16::try_from(value.len()).unwrap().to_be_bytes());
        head.extend(value.as_bytes());
    }
    let payload = data.to_string();
    let total = u32::try_from(16 + head.len() + payload.len()).unwrap();
    let mut bytes = total.to_be_bytes().to_vec();
    bytes.extend(u32::try_from(head.len()).unwrap().to_be_bytes());
    bytes.extend(crc32(&bytes).to_be_bytes());
    bytes.extend(head);
    bytes.extend(payload.as_bytes());
    bytes.extend(crc32(&bytes).to_be_bytes());
    bytes
}

/// Computes the CRC bit by bit, unlike the implementation that it tests.
fn crc32(bytes: &[u8]) -> u32 {
    let mut sum = u32::MAX;
    for byte in bytes {
        sum ^= u32::from(*byte);
        for _ in 0..8 {
            let carry = sum & 1;
            sum = (sum >> 1) ^ (0xEDB8_8320 * carry);
        }
    }
    !sum
}
