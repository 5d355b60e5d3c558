//! The user at this terminal, who answers questions and approves tool calls.

use std::io::{self, IsTerminal};
use std::sync::Arc;

use segno_core::ports::Boxed;
use segno_engine::Human;
use tokio::sync::Mutex;

use crate::line_editor::{CtrlC, Draw, Editor, Keyboard, Prompt};
use crate::output::{stderr_line, text};

/// Returns the user at the terminal. Without a terminal, or if the output is JSON for a program,
/// there is none.
pub(crate) fn at_terminal(json: bool) -> Option<Arc<dyn Human>> {
    let is_present = !json && io::stdin().is_terminal() && io::stderr().is_terminal();
    is_present.then(|| Arc::new(Terminal) as Arc<dyn Human>)
}

struct Terminal;

/// The keyboard, once it was needed.
static KEYBOARD: Mutex<Reader> = Mutex::const_new(Reader::Unused);

enum Reader {
    Unused,
    Open(Box<(Keyboard, Editor)>),
    /// The user left a question, or the terminal is gone: nobody answers any more.
    Closed,
}

impl Human for Terminal {
    fn ask<'a>(&'a self, question: &'a str, context: Option<&'a str>) -> Boxed<'a, Option<String>> {
        Box::pin(async move {
            // One question is shown at a time.
            let mut reader = KEYBOARD.lock().await;
            if let Reader::Unused = *reader {
                *reader = match Keyboard::open() {
                    Ok(keyboard) => Reader::Open(Box::new((keyboard, Editor::default()))),
                    Err(_) => Reader::Closed,
                };
            }
            let Reader::Open(open) = &mut *reader else {
                return None;
            };
            let (keyboard, editor) = &mut **open;
            // Lines about the steps before the question appear before it.
            for _ in 0..2 {
                tokio::task::yield_now().await;
            }
            if let Some(context) = context {
                text::sanitize_lines(context).lines().for_each(stderr_line);
            }
            text::sanitize_lines(question).lines().for_each(stderr_line);
            let prompt = Prompt {
                text: "> ",
                ctrl_c: CtrlC::Signal,
                draw: Draw::Always,
            };
            let answer = keyboard.edit(editor, prompt).await;
            if answer.is_none() {
                *reader = Reader::Closed;
            }
            answer
        })
    }
}
