//! Files that an agent asks us for, inside its session's folder and nowhere else.

use std::path::Path;

use segno_core::ports::Disk;
use serde_json::{Value, json};

use super::Files;
use super::update::{Deed, Update};
use crate::tools::place::Place;

impl Files {
    /// What is offered.
    pub(super) fn offer(&self) -> Value {
        let (read, write) = match self {
            Files::Closed => (false, false),
            Files::Read(_) => (true, false),
            Files::ReadAndWrite(_) => (true, true),
        };
        json!({"readTextFile": read, "writeTextFile": write})
    }

    /// The disk, if that is offered.
    fn disk(&self, deed: Deed) -> Option<&dyn Disk> {
        match (self, deed) {
            (Files::Read(disk), Deed::Read) | (Files::ReadAndWrite(disk), _) => Some(&**disk),
            _ => None,
        }
    }

    /// What comes of a request, and its report; `None` if nothing of the sort is offered. `folder`
    /// is the session's, if there is one.
    pub(super) fn serve(
        &self,
        method: &str,
        params: &Value,
        folder: Option<&Path>,
    ) -> Option<(Result<Value, String>, Update)> {
        let deed = match method {
            "fs/read_text_file" => Deed::Read,
            "fs/write_text_file" => Deed::Write,
            _ => return None,
        };
        let disk = self.disk(deed)?;
        let outcome = match folder {
            Some(folder) => done(deed, params, folder, disk),
            None => Err("there is no such session".to_owned()),
        };
        let update = Update::File {
            deed,
            path: params["path"].as_str().unwrap_or_default().to_owned(),
            refused: outcome.as_ref().err().cloned(),
        };
        Some((outcome, update))
    }
}

fn done(deed: Deed, params: &Value, folder: &Path, disk: &dyn Disk) -> Result<Value, String> {
    let path = params["path"].as_str().ok_or("`path` is missing")?;
    if !Path::new(path).is_absolute() {
        return Err(format!("{path} is not an absolute path"));
    }
    let place = Place::new(folder, &[], disk)?;
    match deed {
        Deed::Read => {
            let text = place.read(path)?;
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
        Deed::Write => {
            let content = params["content"].as_str().ok_or("`content` is missing")?;
            place.write(path, content, true)?;
            Ok(json!({}))
        }
    }
}

/// So many lines from this one on, counted from 1, with their ends as they are.
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
