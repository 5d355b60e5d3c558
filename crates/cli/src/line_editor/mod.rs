//! The line editor of prompts: a user types a text of one or more lines at the terminal.
//!
//! [`keys`] parses bytes into keys, [`buffer`] is the text with its cursor, [`history`] the earlier
//! texts, [`editor`] applies keys to them, [`layout`] computes what is drawn: all pure.
//! [`keyboard`] reads the terminal and draws. Reading is a future that can be dropped at any time:
//! a run that must stop does not wait for a key. Everything is drawn on stderr.
//!
//! History stays in memory, because typed text may contain secrets.

mod buffer;
mod editor;
mod history;
mod keyboard;
mod keys;
mod layout;
mod terminal_mode;

pub(crate) use editor::{Editor, Typed};
pub(crate) use keyboard::{Draw, Keyboard, Prompt};
pub(crate) use terminal_mode::{CtrlC, restore_terminal};
