//! Serves an agent's file requests, within its session's folder only.

use std::path::Path;

use serde_json::{Value, json};

use super::Files;
use super::update::{FileOperation, Update};
use crate::tools::WritePolicy;
use crate::tools::cancellation::Cancellation;
use crate::tools::workspace_files::WorkspaceFiles;

impl Files {
    /// The `fs` capabilities of the client.
    pub(super) fn capabilities(self) -> Value {
        let (read, write) = match self {
            Files::Closed => (false, false),
            Files::Read => (true, false),
            Files::ReadAndWrite => (true, true),
        };
        json!({"readTextFile": read, "writeTextFile": write})
    }

    fn offers(self, operation: FileOperation) -> bool {
        match self {
            Files::Closed => false,
            Files::Read => operation == FileOperation::Read,
            Files::ReadAndWrite => true,
        }
    }

    /// Handles a file request and reports it; `None` if the method is not offered. `folder` is the
    /// session's, if the session exists.
    pub(super) fn answer_request(
        self,
        method: &str,
        params: &Value,
        folder: Option<&Path>,
    ) -> Option<(Result<Value, String>, Update)> {
        let operation = match method {
            "fs/read_text_file" => FileOperation::Read,
            "fs/write_text_file" => FileOperation::Write,
            _ => return None,
        };
        if !self.offers(operation) {
            return None;
        }
        let outcome = match folder {
            Some(folder) => perform(operation, params, folder),
            None => Err("unknown session".to_owned()),
        };
        let update = Update::File {
            operation,
            path: params["path"].as_str().unwrap_or_default().to_owned(),
            refused: outcome.as_ref().err().cloned(),
        };
        Some((outcome, update))
    }
}

fn perform(operation: FileOperation, params: &Value, folder: &Path) -> Result<Value, String> {
    let path = params["path"].as_str().ok_or("`path` is missing")?;
    if !Path::new(path).is_absolute() {
        return Err(format!("{path} is not an absolute path"));
    }
    let (writes, cancellation) = (WritePolicy::default(), Cancellation::default());
    let files = WorkspaceFiles::new(folder, &[], &writes, &cancellation)?;
    match operation {
        FileOperation::Read => {
            let text = files.read(path)?;
            let number = |key: &str| match &params[key] {
                Value::Null => Ok(None),
                value => {
                    let number = value.as_u64().and_then(|n| usize::try_from(n).ok());
                    number.map(Some).ok_or(format!("`{key}` is not a number"))
                }
            };
            let (line, limit) = (number("line")?, number("limit")?);
            Ok(json!({"content": part(&text, line, limit)}))
        }
        FileOperation::Write => {
            let content = params["content"].as_str().ok_or("`content` is missing")?;
            files.write(path, content, true)?;
            Ok(json!({}))
        }
    }
}

/// At most `limit` lines from `line` on, counted from 1, with their line endings.
fn part(text: &str, line: Option<usize>, limit: Option<usize>) -> String {
    let lines = text.split_inclusive('\n');
    let from = line.unwrap_or(1).saturating_sub(1);
    lines.skip(from).take(limit.unwrap_or(usize::MAX)).collect()
}

#[cfg(test)]
mod tests {
    use super::part;

    #[test]
    fn lines_are_counted_from_1() {
        let text = "a\nb\r\nc";
        for (line, limit, expected) in [
            (None, None, text),
            (Some(1), None, text),
            (Some(0), Some(1), "a\n"),
            (Some(2), Some(1), "b\r\n"),
            (Some(3), None, "c"),
            (Some(9), None, ""),
            (None, Some(0), ""),
        ] {
            assert_eq!(part(text, line, limit), expected, "{line:?} {limit:?}");
        }
    }
}
