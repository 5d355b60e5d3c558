//! A model server on a port of its own: it answers from a script, can fail in every way that real
//! ones do, and counts what it was asked, outside of segno.

use std::io::{BufRead, BufReader, Read, Write};
use std::net::{SocketAddr, TcpListener, TcpStream};
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex};
use std::thread;

use serde_json::{Value, json};

/// What was asked.
#[derive(Debug, Clone)]
pub struct Asked {
    /// The path of the address.
    pub path: String,
    /// The headers, their names in small letters.
    pub headers: Vec<(String, String)>,
    /// The body.
    pub body: Value,
}

impl Asked {
    /// The value of a header.
    pub fn header(&self, name: &str) -> Option<&str> {
        let known = self.headers.iter().find(|(known, _)| known == name);
        known.map(|(_, value)| value.as_str())
    }

    /// The last thing that the asking side said, as text.
    pub fn last(&self) -> String {
        let last = self.body["messages"].as_array().and_then(|all| all.last());
        match last.map(|last| &last["content"]) {
            Some(Value::String(text)) => text.clone(),
            Some(other) => other.to_string(),
            None => String::new(),
        }
    }
}

/// What is answered.
#[derive(Debug, Clone)]
pub enum Play {
    /// Words.
    Text(String),
    /// Words, and tools that are asked for: name and input.
    Tools(String, Vec<(String, Value)>),
    /// Words that were cut because they were too many.
    Long(String),
    /// A refusal: status, header lines, body.
    Status(u16, &'static str, String),
    /// A stream that ends in the middle of an answer.
    Cut,
    /// A stream that tells of an error in the middle of an answer.
    ErrorInStream,
    /// Nothing at all.
    Empty,
    /// A page for browsers.
    Page,
    /// The connection is closed before anything is sent.
    HangUp,
}

/// A server. It takes no more calls when this is dropped.
pub struct ModelServer {
    address: SocketAddr,
    asked: Arc<Mutex<Vec<Asked>>>,
    over: Arc<AtomicBool>,
}

impl Drop for ModelServer {
    fn drop(&mut self) {
        self.over.store(true, Ordering::SeqCst);
        // Wakes it, so that it sees.
        let _ = TcpStream::connect(self.address);
    }
}

/// Tokens that every answer took.
const USED: (u64, u64) = (11, 7);

impl ModelServer {
    /// Starts one. `play` says what is answered to each call; the number counts calls from 0.
    pub fn start(play: impl Fn(usize, &Asked) -> Play + Send + Sync + 'static) -> Self {
        let listener = TcpListener::bind("127.0.0.1:0").unwrap();
        let address = listener.local_addr().unwrap();
        let asked: Arc<Mutex<Vec<Asked>>> = Arc::default();
        let (seen, play) = (Arc::clone(&asked), Arc::new(play));
        let over = Arc::<AtomicBool>::default();
        let ends = Arc::clone(&over);
        thread::spawn(move || {
            for stream in listener.incoming().flatten() {
                if ends.load(Ordering::SeqCst) {
                    return;
                }
                let (seen, play) = (Arc::clone(&seen), Arc::clone(&play));
                thread::spawn(move || serve(stream, &seen, &*play));
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
    pub fn asked(&self) -> Vec<Asked> {
        self.asked.lock().unwrap().clone()
    }
}

fn serve(
    mut stream: TcpStream,
    seen: &Mutex<Vec<Asked>>,
    play: &(dyn Fn(usize, &Asked) -> Play + Send + Sync),
) {
    while let Some(asked) = read(&stream) {
        let number = {
            let mut seen = seen.lock().unwrap();
            seen.push(asked.clone());
            seen.len() - 1
        };
        if answer(&mut stream, &asked, &play(number, &asked)).is_none() {
            return;
        }
    }
}

fn read(stream: &TcpStream) -> Option<Asked> {
    let mut reader = BufReader::new(stream.try_clone().ok()?);
    let mut line = String::new();
    reader.read_line(&mut line).ok().filter(|read| *read > 0)?;
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
    let length = length
        .and_then(|(_, value)| value.parse().ok())
        .unwrap_or(0);
    let mut body = vec![0; length];
    reader.read_exact(&mut body).ok()?;
    Some(Asked {
        path,
        headers,
        body: serde_json::from_slice(&body).unwrap_or_default(),
    })
}

/// Answers; `None` if the connection is over.
fn answer(stream: &mut TcpStream, asked: &Asked, play: &Play) -> Option<()> {
    let anthropic = asked.path.ends_with("/messages");
    let events = |play: &Play| {
        if anthropic {
            anthropic_events(play)
        } else {
            openai_events(play)
        }
    };
    let (head, body) = match play {
        Play::Text(_) | Play::Tools(..) | Play::Long(_) | Play::ErrorInStream => {
            ("200 OK\r\ncontent-type: text/event-stream", events(play))
        }
        Play::Cut => {
            let whole = events(&Play::Text("this is cut".into()));
            let half = whole.len() / 2;
            // A length that is not reached is how a cut connection looks.
            let head = format!(
                "HTTP/1.1 200 OK\r\ncontent-type: text/event-stream\r\ncontent-length: {}\r\n\r\n{}",
                whole.len(),
                &whole[..half]
            );
            let _ = stream.write_all(head.as_bytes());
            return None;
        }
        Play::HangUp => return None,
        Play::Empty => ("200 OK\r\ncontent-type: text/event-stream", String::new()),
        Play::Page => (
            "200 OK\r\ncontent-type: text/html",
            "<!doctype html><html>Hello</html>".to_owned(),
        ),
        Play::Status(status, headers, body) => {
            let head = format!(
                "HTTP/1.1 {status} X\r\n{headers}content-length: {}\r\n\r\n{body}",
                body.len()
            );
            return stream.write_all(head.as_bytes()).ok();
        }
    };
    let whole = format!(
        "HTTP/1.1 {head}\r\ncontent-length: {}\r\n\r\n{body}",
        body.len()
    );
    stream.write_all(whole.as_bytes()).ok()
}

fn event(kind: &str, mut data: Value) -> String {
    data["type"] = kind.into();
    format!("event: {kind}\ndata: {data}\n\n")
}

fn anthropic_events(play: &Play) -> String {
    let (text, calls, stop) = parts(play, ["end_turn", "tool_use", "max_tokens"]);
    let mut out = event(
        "message_start",
        json!({"message": {"usage": {"input_tokens": USED.0, "output_tokens": 1}}}),
    );
    out += ": a comment\n\n";
    let mut index = 0;
    let start = json!({"index": index, "content_block": {"type": "text", "text": ""}});
    out += &event("content_block_start", start);
    for piece in text.split_inclusive(' ') {
        let delta = json!({"index": index, "delta": {"type": "text_delta", "text": piece}});
        out += &event("content_block_delta", delta);
    }
    if matches!(play, Play::ErrorInStream) {
        let error = json!({"error": {"type": "overloaded_error", "message": "too busy"}});
        return out + &event("error", error);
    }
    out += &event("content_block_stop", json!({"index": index}));
    for (name, input) in calls {
        index += 1;
        let block =
            json!({"type": "tool_use", "id": format!("call-{index}"), "name": name, "input": {}});
        out += &event(
            "content_block_start",
            json!({"index": index, "content_block": block}),
        );
        let json = input.to_string();
        let (one, two) = json.split_at(json.len() / 2);
        for piece in [one, two] {
            let delta = json!({"index": index, "delta": {"type": "input_json_delta", "partial_json": piece}});
            out += &event("content_block_delta", delta);
        }
        out += &event("content_block_stop", json!({"index": index}));
    }
    let end = json!({"delta": {"stop_reason": stop}, "usage": {"output_tokens": USED.1}});
    out += &event("message_delta", end);
    out + &event("message_stop", json!({}))
}

fn openai_events(play: &Play) -> String {
    let (text, calls, stop) = parts(play, ["stop", "tool_calls", "length"]);
    let chunk = |delta: Value, stop: Option<&str>| {
        let data = json!({"choices": [{"index": 0, "delta": delta, "finish_reason": stop}]});
        format!("data: {data}\n\n")
    };
    let mut out = chunk(json!({"role": "assistant", "content": ""}), None);
    for piece in text.split_inclusive(' ') {
        out += &chunk(json!({"content": piece}), None);
    }
    if matches!(play, Play::ErrorInStream) {
        let error = json!({"error": {"type": "server_error", "message": "too busy"}});
        return out + &format!("data: {error}\n\n");
    }
    for (index, (name, input)) in calls.iter().enumerate() {
        let id = format!("call-{index}");
        let function = json!({"name": name, "arguments": ""});
        out += &chunk(
            json!({"tool_calls": [{"index": index, "id": id, "type": "function", "function": function}]}),
            None,
        );
        let json = input.to_string();
        let (one, two) = json.split_at(json.len() / 2);
        for piece in [one, two] {
            let function = json!({"arguments": piece});
            out += &chunk(
                json!({"tool_calls": [{"index": index, "function": function}]}),
                None,
            );
        }
    }
    out += &chunk(json!({}), Some(stop));
    let usage =
        json!({"choices": [], "usage": {"prompt_tokens": USED.0, "completion_tokens": USED.1}});
    out + &format!("data: {usage}\n\ndata: [DONE]\n\n")
}

fn parts<'a>(
    play: &'a Play,
    stops: [&'static str; 3],
) -> (&'a str, &'a [(String, Value)], &'static str) {
    match play {
        Play::Tools(text, calls) => (text, calls, stops[1]),
        Play::Long(text) => (text, &[], stops[2]),
        Play::Text(text) => (text, &[], stops[0]),
        _ => ("half of it", &[], stops[0]),
    }
}
