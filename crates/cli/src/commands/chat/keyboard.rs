//! Reads messages from the terminal: at the prompt, and ahead while an answer is written.

use std::collections::VecDeque;
use std::convert::Infallible;
use std::io;

use segno_core::ports::Boxed;
use segno_engine::Human;
use tokio::sync::{Mutex, watch};

use crate::line_editor::{self, CtrlC, Draw, Editor, Prompt, Typed};
use crate::output::{stderr_line, text};

const PROMPT: &str = "> ";

/// Reads typed messages, one at a time.
pub(super) struct Keyboard {
    inner: Mutex<Inner>,
    /// How many questions wait for an answer.
    questions: watch::Sender<usize>,
}

struct Inner {
    keyboard: line_editor::Keyboard,
    /// The message that is being typed.
    draft: Editor,
    /// Messages that were typed ahead. `None` leaves.
    ahead: VecDeque<Option<String>>,
}

impl Keyboard {
    pub(super) fn open() -> io::Result<Self> {
        Ok(Self {
            inner: Mutex::new(Inner {
                keyboard: line_editor::Keyboard::open()?,
                draft: Editor::default(),
                ahead: VecDeque::new(),
            }),
            questions: watch::Sender::new(0),
        })
    }

    /// Waits for a message. Returns `None` if the user leaves. If the future is dropped, the typed
    /// text stays for the next call.
    pub(super) async fn read_message(&self) -> Option<String> {
        let mut inner = self.inner.lock().await;
        let Inner {
            keyboard,
            draft,
            ahead,
        } = &mut *inner;
        if let Some(message) = ahead.pop_front() {
            return message;
        }
        let prompt = Prompt {
            text: PROMPT,
            ctrl_c: CtrlC::Key,
            draw: Draw::Always,
        };
        keyboard.edit(draft, prompt).await
    }

    /// Lets the user type the next messages while an answer is written. Runs until it is dropped.
    pub(super) async fn read_ahead(&self) -> Infallible {
        let mut questions = self.questions.subscribe();
        loop {
            let _ = questions.wait_for(|count| *count == 0).await;
            let mut inner = self.inner.lock().await;
            let Inner {
                keyboard,
                draft,
                ahead,
            } = &mut *inner;
            if ahead.back() == Some(&None) {
                // The user left, so nothing follows.
                drop(inner);
                std::future::pending::<()>().await;
                continue;
            }
            let prompt = Prompt {
                text: PROMPT,
                ctrl_c: CtrlC::Signal,
                draw: Draw::IfTyped,
            };
            tokio::select! {
                _ = questions.wait_for(|count| *count > 0) => {}
                message = keyboard.edit(draft, prompt) => ahead.push_back(message),
            }
        }
    }
}

impl Inner {
    /// Assigns what was typed before a question to the next messages.
    fn set_aside(&mut self) {
        while let Some(bytes) = self.keyboard.typed_before() {
            match self.draft.feed(&bytes) {
                Typed::Message(text) => self.ahead.push_back(Some(text)),
                Typed::Leave => self.ahead.push_back(None),
                Typed::More | Typed::ClearScreen => {}
            }
        }
    }
}

/// Lets a model's tool call be approved in the middle of an answer. What was typed before the
/// question is shown does not answer it.
impl Human for Keyboard {
    fn ask<'a>(&'a self, question: &'a str, context: Option<&'a str>) -> Boxed<'a, Option<String>> {
        Box::pin(async move {
            let _waiting = Waiting::new(&self.questions);
            let mut inner = self.inner.lock().await;
            inner.set_aside();
            if let Some(context) = context {
                text::sanitize_lines(context).lines().for_each(stderr_line);
            }
            text::sanitize_lines(question).lines().for_each(stderr_line);
            let prompt = Prompt {
                text: "? ",
                ctrl_c: CtrlC::Key,
                draw: Draw::Always,
            };
            inner.keyboard.edit(&mut Editor::default(), prompt).await
        })
    }
}

/// A question that waits for an answer.
struct Waiting<'a>(&'a watch::Sender<usize>);

impl<'a> Waiting<'a> {
    fn new(questions: &'a watch::Sender<usize>) -> Self {
        questions.send_modify(|count| *count += 1);
        Self(questions)
    }
}

impl Drop for Waiting<'_> {
    fn drop(&mut self) {
        self.0.send_modify(|count| *count -= 1);
    }
}
