//! A chat at a prompt.

use std::process::ExitCode;
use std::sync::Arc;
use std::time::Duration;

use segno_core::journal::StopMode;
use segno_core::session::{Status, Summary};
use segno_core::time::human;
use segno_engine::chat::{self, Audience, Effect, Limits, Opening};
use segno_engine::resume::Options;
use segno_engine::{Brake, Error, Outcome, Stop, World, history};
use tokio::signal::unix::{Signal, SignalKind, signal};

use super::Chat;
use super::keyboard::Keyboard;
use super::view::{Shown, View, limits};
use crate::config::Config;
use crate::failure::Failure;
use crate::output::{plain, progress, say};

/// How often chats are looked for that nobody goes on with.
const SWEEP: Duration = Duration::from_mins(5);

const PROMPT: &str = "> ";

const HELP: &str = "\
/clear   forget what was said: the agent is told nothing of it any more
/status  how much was said, and what it took
/pause   leave, and go on later
/quit    the same
/help    this
Enter sends; Alt-Enter, or a backslash before Enter, begins a line. Ctrl-C stops an answer; at an empty \
prompt it leaves, as Ctrl-D does.";

/// A chat and the person who is in it.
struct Seat {
    world: World,
    limits: Limits,
    keyboard: Arc<Keyboard>,
    signals: Signals,
    /// What is to be opened with the first message, if nothing was said yet.
    opening: Option<Opening>,
    summary: Option<Summary>,
}

struct Signals {
    interrupt: Signal,
    terminate: Signal,
    hangup: Signal,
    /// What came while an answer was made, and may have come too late to stop it.
    ended_by: Option<&'static str>,
}

/// What is to be done next.
enum Next {
    Say(String),
    Leave,
    /// A signal ended it.
    End(&'static str),
}

pub(super) async fn talk(
    mut world: World,
    config: &Config,
    chat: Chat,
    options: Options,
) -> Result<ExitCode, Failure> {
    let signals = || {
        Ok(Signals {
            interrupt: signal(SignalKind::interrupt())?,
            terminate: signal(SignalKind::terminate())?,
            hangup: signal(SignalKind::hangup())?,
            ended_by: None,
        })
    };
    let signals =
        signals().map_err(|error: std::io::Error| Failure::internal(error.to_string()))?;
    let keyboard = Arc::new(Keyboard::new());
    world.people = Arc::clone(&keyboard) as _;
    let (opening, summary) = match chat {
        Chat::New(opening) => (Some(*opening), None),
        Chat::There(summary) => (None, Some(*summary)),
    };
    let mut seat = Seat {
        world,
        limits: config.chat.limits,
        keyboard,
        signals,
        opening,
        summary,
    };
    say("`/help` says what can be typed here");
    Box::pin(seat.take_up(options)).await?;
    loop {
        match seat.hear().await? {
            Next::Say(text) => {
                let Some(command) = command(&text) else {
                    seat.say(&text).await?;
                    continue;
                };
                match command {
                    "" => {}
                    "help" => HELP.lines().for_each(say),
                    "status" => seat.status().await?,
                    "clear" => seat.clear().await?,
                    "pause" | "quit" | "exit" => return seat.leave("the person").await,
                    other => say(&format!(
                        "there is no `/{}`; `/help` says what there is",
                        plain::plain(other)
                    )),
                }
            }
            Next::Leave => return seat.leave("the person").await,
            Next::End(by) => {
                seat.leave(by).await?;
                return Ok(ExitCode::from(143));
            }
        }
    }
}

/// What is typed after a slash, if it is one word; a path, or a sentence, is a message. Nothing is a command
/// that does nothing.
fn command(text: &str) -> Option<&str> {
    let text = text.trim();
    if text.is_empty() {
        return Some("");
    }
    let word = text.strip_prefix('/')?;
    let is_word = !word.is_empty() && word.chars().all(|c| c.is_ascii_alphabetic());
    is_word.then_some(word)
}

impl Seat {
    /// Goes on with what was broken off, and says where the chat stands.
    async fn take_up(&mut self, options: Options) -> Result<(), Failure> {
        let Some(summary) = self.summary.clone() else {
            return Ok(());
        };
        say(&format!("chat {} ({})", summary.name, summary.id));
        let state = history::look(&self.world, summary.id).await?;
        let view = Arc::new(View::new(&self.world, Shown::Words));
        if chat::unanswered(&state).is_some() {
            say("the last message was not answered to the end; going on with it");
        }
        let (brake, observer) = (Brake::default(), Arc::clone(&view));
        let world = self.world.clone();
        let ran = chat::go_on(
            &world,
            &summary,
            options,
            Audience::Here,
            observer,
            brake.clone(),
        );
        let outcome = self.signals.watch(&brake, ran).await;
        self.show(outcome, &view).await
    }

    /// Waits for what the person says. Meanwhile the chat is paused when nothing was said for a while,
    /// and others are looked after.
    async fn hear(&mut self) -> Result<Next, Failure> {
        if let Some(by) = self.signals.ended_by {
            return Ok(Next::End(by));
        }
        let clock = Arc::clone(&self.world.clock);
        let mut idle = clock.sleep(self.limits.idle);
        let (mut awake, mut sweep) = (self.summary.is_some(), clock.sleep(SWEEP));
        let keyboard = Arc::clone(&self.keyboard);
        let typed = keyboard.message(PROMPT);
        tokio::pin!(typed);
        loop {
            tokio::select! {
                text = &mut typed => return Ok(match text {
                    Some(text) => Next::Say(text),
                    None => Next::Leave,
                }),
                () = &mut idle, if awake => {
                    awake = false;
                    self.rest("nothing was said").await?;
                }
                () = &mut sweep => {
                    // What cannot be swept now can be later.
                    let _ = chat::sweep(&self.world, self.limits, Effect::Real).await;
                    sweep = clock.sleep(SWEEP);
                }
                _ = self.signals.terminate.recv() => return Ok(Next::End("SIGTERM")),
                _ = self.signals.hangup.recv() => return Ok(Next::End("SIGHUP")),
            }
        }
    }

    /// Has a message answered. A failure is told, and the chat stays.
    async fn say(&mut self, text: &str) -> Result<(), Failure> {
        let view = Arc::new(View::new(&self.world, Shown::Words));
        let (brake, observer) = (Brake::default(), Arc::clone(&view));
        let (world, audience) = (self.world.clone(), Audience::Here);
        let outcome = if let Some(summary) = self.summary.clone() {
            let said = chat::say(&world, &summary, text, audience, observer, brake.clone());
            self.signals.watch(&brake, said).await
        } else {
            let opening = self.opening.clone();
            let opening = opening.expect("what is not there yet is to be opened");
            let opened = chat::open(&world, opening, text, audience, observer, brake.clone());
            self.signals.watch(&brake, opened).await
        };
        self.show(outcome, &view).await
    }

    /// Shows what came of a message.
    async fn show(&mut self, outcome: Result<Outcome, Error>, view: &View) -> Result<(), Failure> {
        view.conclude(outcome.as_ref().map_or("", |outcome| &outcome.output));
        let known = self.summary.as_ref().map(|summary| summary.id);
        if let Some(session) = known.or(view.session()) {
            self.summary = Some(self.world.store.summary(session).await?);
        }
        match outcome {
            Ok(outcome) => limits(&outcome.state),
            Err(Error::Stopped {
                status: Status::Waiting,
                ..
            }) => say("stopped"),
            Err(error @ Error::Stopped { .. }) => return Err(error.into()),
            Err(error) => {
                Failure::from(error).report(false, &self.world.redactor);
            }
        }
        Ok(())
    }

    async fn clear(&mut self) -> Result<(), Failure> {
        if let Some(summary) = &self.summary {
            let observer = Arc::new(View::new(&self.world, Shown::Notes));
            let by = "the person";
            chat::clear(&self.world, summary, by, Audience::Here, observer).await?;
        }
        say("forgotten; it stays in the journal");
        Ok(())
    }

    async fn status(&self) -> Result<(), Failure> {
        let Some(summary) = &self.summary else {
            say("nothing was said yet");
            return Ok(());
        };
        let state = history::look(&self.world, summary.id).await?;
        let Some(chat) = &state.chat else {
            return Ok(());
        };
        let parts = [
            format!("{} with {}", summary.name, chat.agent),
            plain::count(chat.messages, "message"),
            plain::count(chat.replies, "turn"),
            plain::count(chat.tool_calls, "tool call"),
            progress::spent(&state.usage),
            chat.model.clone().unwrap_or_default(),
            format!(
                "{} since the last message",
                human(self.world.clock.now().since(chat.last_message_at))
            ),
        ];
        let parts: Vec<String> = parts.into_iter().filter(|part| !part.is_empty()).collect();
        say(&plain::plain(&parts.join(", ")));
        Ok(())
    }

    /// Puts the chat to rest, if anything was said in it.
    async fn rest(&mut self, by: &str) -> Result<(), Failure> {
        let Some(summary) = &self.summary else {
            return Ok(());
        };
        let now = self.world.store.summary(summary.id).await?;
        if now.status == Status::Waiting {
            let observer = Arc::new(View::new(&self.world, Shown::Notes));
            let (seen, status) = (now.head, Status::Paused);
            match chat::rest(&self.world, &now, seen, status, by, observer).await {
                // Whoever has it now decides.
                Ok(_) | Err(Error::Held { .. } | Error::Over { .. }) => {}
                Err(error) => return Err(error.into()),
            }
        }
        Ok(())
    }

    async fn leave(&mut self, by: &str) -> Result<ExitCode, Failure> {
        self.rest(by).await?;
        if let Some(summary) = &self.summary {
            let name = &summary.name;
            say(&format!("`segno chat --session {name}` goes on"));
        }
        Ok(ExitCode::SUCCESS)
    }
}

impl Signals {
    fn end(&mut self, by: &'static str) -> Stop {
        self.ended_by = Some(by);
        Stop::asked(by, StopMode::Now, Status::Interrupted)
    }

    /// Lets an answer be made, and stops it when a signal says so: Ctrl-C stops the answer and keeps the
    /// chat, and twice ends the program; SIGTERM and SIGHUP leave the answer for a resume.
    async fn watch<T>(&mut self, brake: &Brake, answer: impl Future<Output = T>) -> T {
        tokio::pin!(answer);
        let mut interrupts = 0;
        loop {
            let stop = tokio::select! {
                answer = &mut answer => return answer,
                _ = self.interrupt.recv() => {
                    interrupts += 1;
                    if interrupts > 1 {
                        std::process::exit(130);
                    }
                    Stop::asked("Ctrl-C", StopMode::Now, Status::Waiting)
                }
                _ = self.terminate.recv() => self.end("SIGTERM"),
                _ = self.hangup.recv() => self.end("SIGHUP"),
            };
            brake.pull(stop);
        }
    }
}
