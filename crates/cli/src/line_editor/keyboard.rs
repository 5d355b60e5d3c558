//! Reads texts from the terminal and draws them while they are typed.

use std::io::{self, IsTerminal, Read, Write};

use rustix::termios::tcgetwinsize;
use tokio::signal::unix::{Signal, SignalKind, signal};
use tokio::sync::mpsc;

use super::editor::{Editor, Typed};
use super::layout::{Ability, Size, frame};
use super::terminal_mode::{CtrlC, Paste, RawMode};
use crate::output::{is_live, prompt_frame, suppress_live_line};

/// How many reads may wait for an editor.
const MAX_QUEUED_READS: usize = 64;
const READ_BYTES: usize = 4096;

/// How a text is asked for.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Prompt<'a> {
    pub(crate) text: &'a str,
    pub(crate) ctrl_c: CtrlC,
    pub(crate) draw: Draw,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Draw {
    Always,
    /// The prompt appears with the first character.
    IfTyped,
}

/// The terminal's keys.
pub(crate) struct Keyboard {
    reads: mpsc::Receiver<Vec<u8>>,
    resized: Signal,
    continued: Signal,
}

impl Keyboard {
    /// Starts the reader thread. One thread reads for the whole process, because a blocking read
    /// cannot be cancelled.
    pub(crate) fn open() -> io::Result<Self> {
        let (send, reads) = mpsc::channel(MAX_QUEUED_READS);
        let keyboard = Self {
            reads,
            resized: signal(SignalKind::window_change())?,
            continued: signal(SignalKind::from_raw(rustix::process::Signal::CONT.as_raw()))?,
        };
        std::thread::spawn(move || {
            let mut buffer = [0; READ_BYTES];
            let mut stdin = io::stdin().lock();
            while let Ok(length) = stdin.read(&mut buffer) {
                if length == 0 || send.blocking_send(buffer[..length].to_vec()).is_err() {
                    return;
                }
            }
        });
        Ok(keyboard)
    }

    /// Returns what was typed while no prompt was open.
    pub(crate) fn typed_before(&mut self) -> Option<Vec<u8>> {
        self.reads.try_recv().ok()
    }

    /// Waits for a text. Returns `None` if the user leaves. If the future is dropped, the prompt
    /// disappears and the typed text stays in the editor.
    pub(crate) async fn edit(&mut self, editor: &mut Editor, prompt: Prompt<'_>) -> Option<String> {
        let _guard = suppress_live_line();
        let ability = ability();
        let paste = match ability {
            Some(Ability::Full) => Paste::Bracketed,
            _ => Paste::Plain,
        };
        let raw = RawMode::enter(prompt.ctrl_c, paste);
        let open = Open { prompt, ability };
        open.draw(editor);
        loop {
            let read = tokio::select! {
                read = self.reads.recv() => read,
                _ = self.resized.recv() => {
                    open.draw(editor);
                    continue;
                }
                _ = self.continued.recv() => {
                    raw.apply(paste);
                    open.draw(editor);
                    continue;
                }
            };
            let Some(mut bytes) = read else {
                open.close(None);
                return None;
            };
            let typed = loop {
                match editor.feed(&bytes) {
                    // A long paste arrives in many reads.
                    Typed::More => match self.reads.try_recv() {
                        Ok(more) => bytes = more,
                        Err(_) => break Typed::More,
                    },
                    typed => break typed,
                }
            };
            match typed {
                Typed::More => open.draw(editor),
                Typed::ClearScreen => {
                    open.clear_screen();
                    open.draw(editor);
                }
                Typed::Message(text) => {
                    open.close(Some(&text));
                    return Some(text);
                }
                Typed::Leave => {
                    open.close(Some(""));
                    return None;
                }
            }
        }
    }
}

/// A prompt on the screen. It disappears on drop, unless it was closed.
struct Open<'a> {
    prompt: Prompt<'a>,
    ability: Option<Ability>,
}

impl Open<'_> {
    fn draw(&self, editor: &Editor) {
        if self.prompt.draw == Draw::IfTyped && editor.text().is_empty() {
            prompt_frame::hide();
            return;
        }
        self.show(editor.text(), editor.cursor());
    }

    fn show(&self, text: &str, cursor: usize) {
        if let Some(ability) = self.ability {
            let frame = frame(ability, self.prompt.text, text, cursor, size());
            prompt_frame::show(frame);
        }
    }

    fn clear_screen(&self) {
        if self.ability == Some(Ability::Full) {
            prompt_frame::hide();
            let _ = io::stderr().write_all(b"\x1b[H\x1b[2J");
        }
    }

    /// Leaves the prompt with this text on the screen. Without a text, as it is.
    fn close(&self, text: Option<&str>) {
        // The end of the message may have arrived together with text that was not drawn yet.
        if let Some(text) = text
            && (self.prompt.draw == Draw::Always || !text.is_empty())
        {
            self.show(text, text.len());
        }
        if self.ability.is_some() {
            prompt_frame::leave();
        }
    }
}

impl Drop for Open<'_> {
    fn drop(&mut self) {
        prompt_frame::hide();
    }
}

/// What the terminal can draw. `None` if stderr is not a terminal.
fn ability() -> Option<Ability> {
    if is_live() {
        return Some(Ability::Full);
    }
    io::stderr()
        .is_terminal()
        .then_some(Ability::CarriageReturn)
}

fn size() -> Size {
    let size = tcgetwinsize(io::stderr()).ok();
    let size = size.map(|size| Size {
        columns: usize::from(size.ws_col),
        rows: usize::from(size.ws_row),
    });
    size.filter(|size| size.columns > 0 && size.rows > 0)
        .unwrap_or(Size {
            columns: 80,
            rows: 24,
        })
}
