//! The person at this terminal.

use std::io::{self, BufRead, IsTerminal};
use std::sync::{Arc, OnceLock};

use segno_core::ports::Boxed;
use segno_engine::{Nobody, People};
use tokio::sync::{Mutex, mpsc};

use crate::output::{hush, plain, prompt, say};

/// Whoever can read stderr and type an answer; nobody where events go to a program.
pub(crate) fn here(json: bool) -> Arc<dyn People> {
    if !json && io::stdin().is_terminal() && io::stderr().is_terminal() {
        Arc::new(Terminal)
    } else {
        Arc::new(Nobody)
    }
}

struct Terminal;

impl People for Terminal {
    fn anyone(&self) -> bool {
        true
    }

    fn ask<'a>(&'a self, question: &'a str, context: Option<&'a str>) -> Boxed<'a, Option<String>> {
        Box::pin(async move {
            let _quiet = hush();
            if let Some(context) = context {
                plain::lines(context).lines().for_each(say);
            }
            plain::lines(question).lines().for_each(say);
            prompt("> ");
            lines().lock().await.recv().await
        })
    }
}

/// What is typed, line by line. One thread reads for the whole process: a question that is taken
/// back cannot take its reading back.
fn lines() -> &'static Mutex<mpsc::UnboundedReceiver<String>> {
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
