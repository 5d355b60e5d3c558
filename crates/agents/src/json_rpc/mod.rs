//! JSON-RPC over the stdin and stdout of a program: one line of JSON for each message.
//!
//! - [`lines`] reads lines of bounded length.
//! - [`message`] parses and renders messages; an error object is an [`ErrorResponse`].
//! - [`calls`] numbers requests and knows which have no response yet. When the program closes, all
//!   of them fail, and so does every later one.
//! - [`stdio`] starts a program below its process guard and ends its whole process tree.
//!
//! [`acp`](crate::acp) uses all of it. [`mcp`](crate::mcp) uses [`stdio`]; its library has ids,
//! pending requests and messages of its own. No task runs in the background but the one that waits
//! for the program's end: who reads slowly makes the program wait, so memory is bounded.

mod calls;
mod lines;
mod message;
mod stdio;

pub(crate) use calls::Calls;
pub(crate) use message::{
    ErrorResponse, INVALID_PARAMS, Line, METHOD_NOT_FOUND, Message, notification, read, request,
    response,
};
pub(crate) use stdio::{ProcessHandle, Stdio, start};
