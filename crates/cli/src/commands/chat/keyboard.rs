//! Reads messages from the terminal.
//!
//! The terminal is in raw mode only while a message is typed. At all other times its original mode
//! is restored, so that Ctrl-C sends a signal and the next program finds the terminal unchanged.

use std::io::{self, Read, Write};

use rustix::termios::{
    LocalModes, OptionalActions, SpecialCodeIndex, Termios, tcgetattr, tcgetwinsize, tcsetattr,
};
use segno_core::ports::Boxed;
use segno_engine::Human;
use tokio::sync::{Mutex, mpsc};

use super::line::{Line, Typed};
use crate::output::{stderr_line, suppress_live_line, text};

/// Reads typed messages, one at a time.
pub(super) struct Keyboard {
    inner: Mutex<Inner>,
}

struct Inner {
    keys: mpsc::UnboundedReceiver<Vec<u8>>,
    line: Line,
}

impl Keyboard {
    /// Starts the reader thread. One thread reads for the whole process, because a blocking read
    /// cannot be cancelled.
    pub(super) fn new() -> Self {
        let (typed, keys) = mpsc::unbounded_channel();
        std::thread::spawn(move || {
            let mut buffer = [0; 4096];
            let mut stdin = io::stdin().lock();
            while let Ok(length) = stdin.read(&mut buffer) {
                if length == 0 || typed.send(buffer[..length].to_vec()).is_err() {
                    return;
                }
            }
        });
        let line = Line::default();
        Self {
            inner: Mutex::new(Inner { keys, line }),
        }
    }

    /// Waits for a message. Returns `None` if the user leaves. If the future is dropped, the typed
    /// text stays for the next call.
    pub(super) async fn read_message(&self, prompt: &str) -> Option<String> {
        let mut inner = self.inner.lock().await;
        let _guard = suppress_live_line();
        let _raw = RawMode::enter();
        let mut rows = 1;
        let Inner { keys, line } = &mut *inner;
        draw(line, prompt, &mut rows);
        loop {
            let Some(bytes) = keys.recv().await else {
                newline();
                return None;
            };
            let typed = line.feed(&bytes);
            if typed == Typed::More {
                draw(line, prompt, &mut rows);
                continue;
            }
            let message = match typed {
                Typed::Message(text) => Some(text),
                Typed::Leave | Typed::More => None,
            };
            // The end of the message may have arrived together with text that was not drawn yet.
            if let Some(text) = &message {
                draw(&Line::with_text(text), prompt, &mut rows);
            }
            newline();
            return message;
        }
    }
}

/// Lets a model's tool call be approved in the middle of an answer.
impl Human for Keyboard {
    fn ask<'a>(&'a self, question: &'a str, context: Option<&'a str>) -> Boxed<'a, Option<String>> {
        Box::pin(async move {
            if let Some(context) = context {
                text::sanitize_lines(context).lines().for_each(stderr_line);
            }
            text::sanitize_lines(question).lines().for_each(stderr_line);
            self.read_message("? ").await
        })
    }
}

fn draw(line: &Line, prompt: &str, rows: &mut usize) {
    let size = tcgetwinsize(io::stderr()).ok();
    let size = size.map(|size| (usize::from(size.ws_col), usize::from(size.ws_row)));
    let (width, height) = size
        .filter(|(width, height)| *width > 0 && *height > 0)
        .unwrap_or((80, 24));
    let (shown, taken) = line.render(prompt, width, height);
    let mut stderr = io::stderr();
    let up = match *rows {
        0 | 1 => String::new(),
        rows => format!("\x1b[{}A", rows - 1),
    };
    let _ = write!(stderr, "{up}\r\x1b[J{shown}");
    let _ = stderr.flush();
    *rows = taken;
}

fn newline() {
    let _ = io::stderr().write_all(b"\r\n");
}

/// Puts the terminal into raw mode, and restores the previous mode on drop.
struct RawMode(Option<Termios>);

impl RawMode {
    fn enter() -> Self {
        let Ok(before) = tcgetattr(io::stdin()) else {
            return Self(None);
        };
        let mut raw = before.clone();
        raw.local_modes
            .remove(LocalModes::ICANON | LocalModes::ECHO | LocalModes::ISIG | LocalModes::IEXTEN);
        raw.special_codes[SpecialCodeIndex::VMIN] = 1;
        raw.special_codes[SpecialCodeIndex::VTIME] = 0;
        let set = tcsetattr(io::stdin(), OptionalActions::Now, &raw);
        // Enables bracketed paste.
        let _ = io::stderr().write_all(b"\x1b[?2004h");
        Self(set.ok().map(|()| before))
    }
}

impl Drop for RawMode {
    fn drop(&mut self) {
        let _ = io::stderr().write_all(b"\x1b[?2004l");
        if let Some(before) = &self.0 {
            let _ = tcsetattr(io::stdin(), OptionalActions::Now, before);
        }
    }
}
