//! Asking a model.

use segno_core::agent::{Answer, Error, ErrorKind, Listener, Request};
use segno_core::model::{Call, Message, Model, Stop};

/// Asks a model once, and returns its words.
pub(super) async fn converse(
    model: &dyn Model,
    request: &Request<'_>,
    listener: &dyn Listener,
) -> Result<Answer, Error> {
    let messages = [Message::User {
        text: request.input.to_owned(),
    }];
    let call = Call {
        key: request.key,
        system: request.system,
        messages: &messages,
        tools: &[],
    };
    let reply = model.reply(call, listener).await?;
    let (kind, problem) = match reply.stop {
        Stop::Length => (
            ErrorKind::Invalid,
            "the answer is longer than `max_tokens` allows",
        ),
        Stop::Refused => (ErrorKind::Invalid, "the model refuses to answer"),
        Stop::Tools => (
            ErrorKind::Server,
            "the model asks for tools that it was not given",
        ),
        Stop::End if reply.text().is_empty() => (ErrorKind::Server, "the answer is empty"),
        Stop::End => {
            return Ok(Answer {
                text: reply.text(),
                usage: reply.usage,
            });
        }
    };
    Err(Error::new(kind, problem))
}
