//! The user at this terminal, who answers questions and approves tool calls.

use std::io::{self, BufRead, IsTerminal};
use std::sync::{Arc, OnceLock};

use segno_core::ports::Boxed;
use segno_engine::Human;
use tokio::sync::{Mutex, mpsc};

use crate::output::{prompt, stderr_line, suppress_live_line, text};

/// Returns the user at the terminal. Without a terminal, or if the output is JSON for a program,
/// there is none.
pub(crate) fn at_terminal(json: bool) -> Option<Arc<dyn Human>> {
    let is_present = !json && io::stdin().is_terminal() && io::stderr().is_terminal();
    is_present.then(|| Arc::new(Terminal) as Arc<dyn Human>)
}

struct Terminal;

impl Human for Terminal {
    fn ask<'a>(&'a self, question: &'a str, context: Option<&'a str>) -> Boxed<'a, Option<String>> {
        Box::pin(async move {
            let _guard = suppress_live_line();
            if let Some(context) = context {
                text::sanitize_lines(context).lines().for_each(stderr_line);
            }
            text::sanitize_lines(question).lines().for_each(stderr_line);
            prompt("> ");
            typed_lines().lock().await.recv().await
        })
    }
}

/// Lines that are typed. One thread reads for the whole process, because a blocking read cannot be
/// cancelled when its question is withdrawn.
fn typed_lines() -> &'static Mutex<mpsc::UnboundedReceiver<String>> {
    static LINES: OnceLock<Mutex<mpsc::UnboundedReceiver<String>>> = OnceLock::new();
    LINES.get_or_init(|| {
        let (typed, lines) = mpsc::unbounded_channel();
        std::thread::spawn(move || {
            for line in io::stdin().lock().lines().map_while(Result::ok) {
                if typed.send(line).is_err() {
                    return;
                }
            }
        });
        Mutex::new(lines)
    })
}
