//! What a server prints on stderr.

use segno_server::{Log, LogFormat};

use crate::failure::Failure;
use crate::output::stderr_line;

/// The log of this format, which clap has checked.
pub(super) fn start(format: &str) -> Result<Option<Log>, Failure> {
    let format = match format {
        "json" => LogFormat::Json,
        "text" => LogFormat::Text,
        _ => return Ok(None),
    };
    let log = Log::start(format, stderr_line);
    log.map(Some)
        .map_err(|error| Failure::internal(format!("the log cannot be started: {error}")))
}
