//! The terminal of a person who types messages.
//!
//! While a message is typed the terminal hands over each key as it is; at all other times it is as it
//! was, so that Ctrl-C means a signal, and whoever comes after finds it so.

use std::io::{self, Read, Write};

use rustix::termios::{
    LocalModes, OptionalActions, SpecialCodeIndex, Termios, tcgetattr, tcgetwinsize, tcsetattr,
};
use segno_core::ports::Boxed;
use segno_engine::People;
use tokio::sync::{Mutex, mpsc};

use super::line::{Line, Typed};
use crate::output::{hush, plain, say};

/// Hears what is typed, one message at a time.
pub(super) struct Keyboard {
    inside: Mutex<Inside>,
}

struct Inside {
    keys: mpsc::UnboundedReceiver<Vec<u8>>,
    line: Line,
}

impl Keyboard {
    /// Begins to listen. One thread reads for the whole process: a reading cannot be taken back.
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
            inside: Mutex::new(Inside { keys, line }),
        }
    }

    /// Waits for a message; `None` if the person leaves. Dropping the future leaves what was typed for
    /// the next call.
    pub(super) async fn message(&self, prompt: &str) -> Option<String> {
        let mut inside = self.inside.lock().await;
        let _quiet = hush();
        let _raw = Raw::enter();
        let mut rows = 1;
        let Inside { keys, line } = &mut *inside;
        draw(line, prompt, &mut rows);
        loop {
            let Some(bytes) = keys.recv().await else {
                newline();
                return None;
            };
            let typed = line.take(&bytes);
            if typed == Typed::More {
                draw(line, prompt, &mut rows);
                continue;
            }
            let message = match typed {
                Typed::Message(text) => Some(text),
                Typed::Leave | Typed::More => None,
            };
            // Its end may have come with the rest of it, which was never shown.
            if let Some(text) = &message {
                draw(&Line::of(text), prompt, &mut rows);
            }
            newline();
            return message;
        }
    }
}

/// A person who is asked whether a tool may be used, in the middle of an answer.
impl People for Keyboard {
    fn anyone(&self) -> bool {
        true
    }

    fn ask<'a>(&'a self, question: &'a str, context: Option<&'a str>) -> Boxed<'a, Option<String>> {
        Box::pin(async move {
            if let Some(context) = context {
                plain::lines(context).lines().for_each(say);
            }
            plain::lines(question).lines().for_each(say);
            self.message("? ").await
        })
    }
}

fn draw(line: &Line, prompt: &str, rows: &mut usize) {
    let size = tcgetwinsize(io::stderr()).ok();
    let size = size.map(|size| (usize::from(size.ws_col), usize::from(size.ws_row)));
    let (width, height) = size
        .filter(|(width, height)| *width > 0 && *height > 0)
        .unwrap_or((80, 24));
    let (shown, taken) = line.shown(prompt, width, height);
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

/// The terminal as it is while a message is typed; as it was before when this is dropped.
struct Raw(Option<Termios>);

impl Raw {
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
        // What is pasted is marked as such.
        let _ = io::stderr().write_all(b"\x1b[?2004h");
        Self(set.ok().map(|()| before))
    }
}

impl Drop for Raw {
    fn drop(&mut self) {
        let _ = io::stderr().write_all(b"\x1b[?2004l");
        if let Some(before) = &self.0 {
            let _ = tcsetattr(io::stdin(), OptionalActions::Now, before);
        }
    }
}
