//! The mode of the terminal while a user types. The original mode is restored when the prompt
//! closes, so that the next program finds the terminal unchanged.
//!
//! A process that is killed with SIGKILL cannot restore it. Shells with line editing set their own
//! mode; elsewhere `stty sane` does.

use std::io::{self, Write};
use std::sync::{Mutex, PoisonError};

use rustix::termios::{
    LocalModes, OptionalActions, SpecialCodeIndex, Termios, tcgetattr, tcsetattr,
};

/// What Ctrl-C does while a user types.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum CtrlC {
    /// It is a key of the editor.
    Key,
    /// It sends SIGINT, as in every program.
    Signal,
}

/// Whether the terminal marks pasted text.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Paste {
    Bracketed,
    Plain,
}

/// The original mode, while it is changed.
static ORIGINAL: Mutex<Option<(Termios, Paste)>> = Mutex::new(None);

/// Puts the terminal into raw mode, and restores the previous mode on drop.
pub(super) struct RawMode {
    raw: Option<Termios>,
}

impl RawMode {
    pub(super) fn enter(ctrl_c: CtrlC, paste: Paste) -> Self {
        let Ok(before) = tcgetattr(io::stdin()) else {
            return Self { raw: None };
        };
        let mut raw = before.clone();
        let mut off = LocalModes::ICANON | LocalModes::ECHO | LocalModes::IEXTEN;
        if ctrl_c == CtrlC::Key {
            off |= LocalModes::ISIG;
        }
        raw.local_modes.remove(off);
        raw.special_codes[SpecialCodeIndex::VMIN] = 1;
        raw.special_codes[SpecialCodeIndex::VTIME] = 0;
        *lock() = Some((before, paste));
        let mode = Self { raw: Some(raw) };
        mode.apply(paste);
        mode
    }

    /// Sets the mode again, after a shell has changed it while this process was suspended.
    pub(super) fn apply(&self, paste: Paste) {
        if let Some(raw) = &self.raw {
            let _ = tcsetattr(io::stdin(), OptionalActions::Now, raw);
        }
        if paste == Paste::Bracketed {
            let _ = io::stderr().write_all(b"\x1b[?2004h");
        }
    }
}

impl Drop for RawMode {
    fn drop(&mut self) {
        restore_terminal();
    }
}

/// Restores the original mode, if a prompt has changed it. For a process that exits without
/// closing its prompt.
pub(crate) fn restore_terminal() {
    let Some((original, paste)) = lock().take() else {
        return;
    };
    if paste == Paste::Bracketed {
        let _ = io::stderr().write_all(b"\x1b[?2004l");
    }
    let _ = tcsetattr(io::stdin(), OptionalActions::Now, &original);
}

fn lock() -> std::sync::MutexGuard<'static, Option<(Termios, Paste)>> {
    ORIGINAL.lock().unwrap_or_else(PoisonError::into_inner)
}
