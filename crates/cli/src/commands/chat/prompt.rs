//! The interactive chat prompt.

use std::process::ExitCode;
use std::sync::Arc;
use std::time::Duration;

use segno_core::journal::StopMode;
use segno_core::session::Status;
use segno_core::store::Summary;
use segno_core::time::format_duration;
use segno_engine::steps::chat::Audience;
use segno_engine::{Env, Error, Outcome, Stop, StopToken, history};
use segno_sessions::chat::{self, Effect, Limits, NewChat};
use segno_sessions::resume::Options;
use segno_supervisor::notices::{Notices, Origin};
use tokio::signal::unix::{Signal, SignalKind, signal};

use super::super::agents;
use super::Chat;
use super::keyboard::Keyboard;
use super::view::{Verbosity, View, report_limits};
use crate::commands::run::NOTICE_LIMIT;
use crate::config::Config;
use crate::context::notices;
use crate::failure::Failure;
use crate::line_editor::restore_terminal;
use crate::output::{progress, stderr_line, text};

/// Interval between sweeps for idle and expired chats.
const SWEEP_INTERVAL: Duration = Duration::from_mins(5);

const HELP: &str = "\
/clear   clear the conversation: the agent no longer receives it
/status  show the number of messages and the usage
/pause   leave, to continue later
/quit    same as /pause
/help    show this help
Enter sends; Alt-Enter, or a backslash before Enter, starts a new line. Ctrl-C stops an answer; at an empty \
prompt it leaves, like Ctrl-D. The arrow keys move in the text and to earlier messages. What you type \
during an answer is sent after it.";

/// The state of an interactive chat.
struct PromptSession {
    notices: Notices,
    env: Env,
    limits: Limits,
    keyboard: Arc<Keyboard>,
    signals: Signals,
    /// The chat to create with the first message, if there is none yet.
    opening: Option<NewChat>,
    summary: Option<Summary>,
}

struct Signals {
    interrupt: Signal,
    terminate: Signal,
    hangup: Signal,
    /// A signal that arrived during an answer. It may have arrived too late to stop the answer.
    ended_by: Option<&'static str>,
}

/// What the prompt does next.
enum Next {
    Send(String),
    Leave,
    /// A signal ended the chat.
    End(&'static str),
}

pub(super) async fn run(
    mut env: Env,
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
    let keyboard = Keyboard::open().map_err(|error| Failure::internal(error.to_string()))?;
    let keyboard = Arc::new(keyboard);
    env.human = Some(Arc::clone(&keyboard) as _);
    let (opening, summary) = match chat {
        Chat::New(opening) => (Some(*opening), None),
        Chat::Existing(summary) => (None, Some(*summary)),
    };
    let mut session = PromptSession {
        notices: notices(&env, config),
        env,
        limits: config.chat.limits,
        keyboard,
        signals,
        opening,
        summary,
    };
    stderr_line("`/help` lists the commands");
    Box::pin(session.resume_unfinished(options)).await?;
    loop {
        match session.next_input().await? {
            Next::Send(text) => {
                let Some(command) = command(&text) else {
                    session.send(&text).await?;
                    continue;
                };
                match command {
                    "" => {}
                    "help" => HELP.lines().for_each(stderr_line),
                    "status" => session.status().await?,
                    "clear" => session.clear().await?,
                    "pause" | "quit" | "exit" => return session.leave("user").await,
                    other => stderr_line(&format!(
                        "there is no command `/{}`; `/help` lists the commands",
                        text::sanitize(other)
                    )),
                }
            }
            Next::Leave => return session.leave("user").await,
            Next::End(by) => {
                session.leave(by).await?;
                return Ok(ExitCode::from(143));
            }
        }
    }
}

/// Parses a slash command. Only a single word after the slash is a command; a path or a sentence is
/// a message. Empty input is the empty command.
fn command(text: &str) -> Option<&str> {
    let text = text.trim();
    if text.is_empty() {
        return Some("");
    }
    let word = text.strip_prefix('/')?;
    let is_word = !word.is_empty() && word.chars().all(|c| c.is_ascii_alphabetic());
    is_word.then_some(word)
}

impl PromptSession {
    /// Continues an unfinished answer of an existing chat, and shows the chat's state.
    async fn resume_unfinished(&mut self, options: Options) -> Result<(), Failure> {
        let Some(summary) = self.summary.clone() else {
            return Ok(());
        };
        stderr_line(&format!("chat {} ({})", summary.name, summary.id));
        let state = history::load_state(&self.env, summary.id).await?;
        let view = Arc::new(View::new(&self.env, Verbosity::Text));
        if chat::unanswered(&state).is_some() {
            stderr_line("the last message was not fully answered; continuing");
        }
        let stop_token = StopToken::default();
        let observer = self.notices.observe(Arc::clone(&view) as _, Origin::User);
        let env = self.env.clone();
        let ran = chat::resume(
            &env,
            &summary,
            options,
            Audience::Present,
            observer,
            stop_token.clone(),
        );
        let outcome = self
            .signals
            .run_until_stopped(&self.keyboard, &stop_token, ran)
            .await;
        self.show(outcome, &view).await
    }

    /// Waits for the next input. Meanwhile pauses the chat when it is idle for too long, and sweeps
    /// other chats.
    async fn next_input(&mut self) -> Result<Next, Failure> {
        if let Some(by) = self.signals.ended_by {
            return Ok(Next::End(by));
        }
        let clock = Arc::clone(&self.env.clock);
        let mut idle = clock.sleep(self.limits.idle);
        let (mut awake, mut sweep) = (self.summary.is_some(), clock.sleep(SWEEP_INTERVAL));
        let keyboard = Arc::clone(&self.keyboard);
        let typed = keyboard.read_message();
        tokio::pin!(typed);
        loop {
            tokio::select! {
                text = &mut typed => return Ok(match text {
                    Some(text) => Next::Send(text),
                    None => Next::Leave,
                }),
                () = &mut idle, if awake => {
                    awake = false;
                    self.pause("idle timeout").await?;
                }
                () = &mut sweep => {
                    // A sweep that fails is repeated later.
                    let _ = chat::sweep(&self.env, self.limits, Effect::Apply).await;
                    sweep = clock.sleep(SWEEP_INTERVAL);
                }
                _ = self.signals.terminate.recv() => return Ok(Next::End("SIGTERM")),
                _ = self.signals.hangup.recv() => return Ok(Next::End("SIGHUP")),
            }
        }
    }

    /// Sends a message and shows the answer. An error is printed and the chat stays open.
    async fn send(&mut self, text: &str) -> Result<(), Failure> {
        let view = Arc::new(View::new(&self.env, Verbosity::Text));
        let stop_token = StopToken::default();
        let observer = self.notices.observe(Arc::clone(&view) as _, Origin::User);
        let (env, audience) = (self.env.clone(), Audience::Present);
        let outcome = if let Some(summary) = self.summary.clone() {
            let summary = agents::catch_up(&env, summary).await;
            let answered = chat::send(&env, &summary, text, audience, observer, stop_token.clone());
            self.signals
                .run_until_stopped(&self.keyboard, &stop_token, answered)
                .await
        } else {
            let opening = self.opening.clone();
            let opening = opening.expect("what is not there yet is to be opened");
            let opened = chat::open(&env, opening, text, audience, observer, stop_token.clone());
            self.signals
                .run_until_stopped(&self.keyboard, &stop_token, opened)
                .await
        };
        self.show(outcome, &view).await
    }

    /// Shows the result of a message.
    async fn show(
        &mut self,
        outcome: Result<Outcome, chat::Error>,
        view: &View,
    ) -> Result<(), Failure> {
        view.finish(outcome.as_ref().map_or("", |outcome| &outcome.output));
        let known = self.summary.as_ref().map(|summary| summary.id);
        if let Some(session) = known.or(view.session()) {
            self.summary = Some(self.env.store.summary(session).await?);
        }
        match outcome {
            Ok(outcome) => report_limits(&outcome.state),
            Err(chat::Error::Run(Error::Stopped {
                status: Status::Waiting,
                ..
            })) => stderr_line("stopped"),
            Err(error @ chat::Error::Run(Error::Stopped { .. })) => return Err(error.into()),
            Err(error) => {
                Failure::from(error).report(false, &self.env.redactor);
            }
        }
        Ok(())
    }

    async fn clear(&mut self) -> Result<(), Failure> {
        if let Some(summary) = &self.summary {
            let observer = Arc::new(View::new(&self.env, Verbosity::Notices));
            let by = "user";
            chat::clear(&self.env, summary, by, Audience::Present, observer).await?;
        }
        stderr_line("cleared the conversation; it stays in the journal");
        Ok(())
    }

    async fn status(&self) -> Result<(), Failure> {
        let Some(summary) = &self.summary else {
            stderr_line("no messages yet");
            return Ok(());
        };
        let state = history::load_state(&self.env, summary.id).await?;
        let Some(chat) = &state.chat else {
            return Ok(());
        };
        let parts = [
            format!("{} with {}", summary.name, chat.agent),
            text::count(chat.messages, "message"),
            text::count(chat.replies, "turn"),
            text::count(chat.tool_calls, "tool call"),
            progress::session_spent(&state),
            chat.model.clone().unwrap_or_default(),
            format!(
                "{} since the last message",
                format_duration(self.env.clock.now().since(chat.last_message_at))
            ),
        ];
        let parts: Vec<String> = parts.into_iter().filter(|part| !part.is_empty()).collect();
        stderr_line(&text::sanitize(&parts.join(", ")));
        Ok(())
    }

    /// Pauses the chat, if it exists and waits for a message.
    async fn pause(&mut self, by: &str) -> Result<(), Failure> {
        let Some(summary) = &self.summary else {
            return Ok(());
        };
        let now = self.env.store.summary(summary.id).await?;
        if now.status == Status::Waiting {
            let observer = Arc::new(View::new(&self.env, Verbosity::Notices));
            let (seen, status) = (now.head, Status::Paused);
            match chat::set_idle(&self.env, &now, seen, status, by, observer).await {
                // The run that holds the chat now decides.
                Ok(_) | Err(chat::Error::Ended(_)) => {}
                Err(chat::Error::Lease(error)) if error.is_held() => {}
                Err(error) => return Err(error.into()),
            }
        }
        Ok(())
    }

    async fn leave(&mut self, by: &str) -> Result<ExitCode, Failure> {
        self.pause(by).await?;
        if let Some(summary) = &self.summary {
            let name = &summary.name;
            stderr_line(&format!("continue with `segno chat --session {name}`"));
        }
        self.notices.finish(NOTICE_LIMIT).await;
        Ok(ExitCode::SUCCESS)
    }
}

impl Signals {
    fn interrupt(&mut self, by: &'static str) -> Stop {
        self.ended_by = Some(by);
        Stop::request(by, StopMode::Now, Status::Interrupted)
    }

    /// Awaits an answer and stops it on a signal. Ctrl-C stops the answer and keeps the chat open;
    /// a second Ctrl-C exits the program. SIGTERM and SIGHUP leave the answer unfinished for a
    /// resume.
    async fn run_until_stopped<T>(
        &mut self,
        keyboard: &Keyboard,
        stop_token: &StopToken,
        answer: impl Future<Output = T>,
    ) -> T {
        let ahead = keyboard.read_ahead();
        tokio::pin!(answer, ahead);
        let mut interrupts = 0;
        loop {
            let stop = tokio::select! {
                answer = &mut answer => return answer,
                never = &mut ahead => match never {},
                _ = self.interrupt.recv() => {
                    interrupts += 1;
                    if interrupts > 1 {
                        restore_terminal();
                        std::process::exit(130);
                    }
                    Stop::request("Ctrl-C", StopMode::Now, Status::Waiting)
                }
                _ = self.terminate.recv() => self.interrupt("SIGTERM"),
                _ = self.hangup.recv() => self.interrupt("SIGHUP"),
            };
            stop_token.request_stop(stop);
        }
    }
}
