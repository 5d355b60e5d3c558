//! Whole files.

use segno_core::tool::Class;
use serde_json::Value;

use super::{Bench, Native, Run, flag, text};

pub(super) const FILE_READ: Native = Native {
    name: "file_read",
    description: "Reads a text file of the workspace.",
    class: Class::ReadOnly,
    takes: &[(
        "path",
        "string",
        true,
        "the file, relative to the workspace",
    )],
    run: Run::Now(|input, bench| bench.place.read(text(input, "path"))),
};

pub(super) const FILE_WRITE: Native = Native {
    name: "file_write",
    description: "Writes a text file of the workspace, instead of what is there.",
    // The same text again is the same file.
    class: Class::Repeatable,
    takes: &[
        (
            "path",
            "string",
            true,
            "the file, relative to the workspace",
        ),
        ("content", "string", true, "the text"),
        (
            "create_dirs",
            "boolean",
            false,
            "make missing folders (false)",
        ),
    ],
    run: Run::Now(write),
};

fn write(input: &Value, bench: &Bench<'_>) -> Result<String, String> {
    let (path, content) = (text(input, "path"), text(input, "content"));
    let create = flag(input, "create_dirs", false);
    bench.place.write(path, content, create)?;
    Ok(format!("wrote {} bytes to {path}", content.len()))
}
