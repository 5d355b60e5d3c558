//! Tools that read and write whole files.

use segno_core::tool::EffectClass;
use serde_json::Value;

use super::{BuiltinTool, FileContext, Run, flag, text};

pub(super) const FILE_READ: BuiltinTool = BuiltinTool {
    name: "file_read",
    description: "Reads a text file in the workspace.",
    class: EffectClass::ReadOnly,
    params: &[(
        "path",
        "string",
        true,
        "path of the file, relative to the workspace",
    )],
    run: Run::Files(|input, context| context.files.read(text(input, "path"))),
};

pub(super) const FILE_WRITE: BuiltinTool = BuiltinTool {
    name: "file_write",
    description: "Writes a text file in the workspace and replaces its content.",
    // Writing the same text again gives the same file.
    class: EffectClass::Repeatable,
    params: &[
        (
            "path",
            "string",
            true,
            "path of the file, relative to the workspace",
        ),
        ("content", "string", true, "the new content"),
        (
            "create_dirs",
            "boolean",
            false,
            "create missing folders (default: false)",
        ),
    ],
    run: Run::Files(write),
};

fn write(input: &Value, context: &FileContext<'_>) -> Result<String, String> {
    let (path, content) = (text(input, "path"), text(input, "content"));
    let create = flag(input, "create_dirs", false);
    context.files.write(path, content, create)?;
    Ok(format!("wrote {} bytes to {path}", content.len()))
}
