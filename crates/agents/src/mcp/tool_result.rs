//! Renders the result of a tool call as text for a model.

use rmcp::model::{CallToolResponse, CallToolResult, ContentBlock, ResourceContents};

use crate::sanitize::sanitize;

/// The longest text that a model gets, in bytes.
const MAX_TEXT: usize = 2 << 20;

/// How many bytes of a name or type are shown.
const MAX_WORD: usize = 256;

/// The text of the result; an error if the tool reported one.
pub(super) fn text(response: CallToolResponse) -> Result<String, String> {
    let result = match response {
        CallToolResponse::Complete(result) => result,
        CallToolResponse::InputRequired(_) => {
            return Err("the tool requests user input, which is not supported".to_owned());
        }
        _ => return Err("the tool responds later, which is not supported".to_owned()),
    };
    let failed = result.is_error == Some(true);
    let text = truncate(render(result));
    if failed { Err(text) } else { Ok(text) }
}

/// The text of a result; content that is no text is described, not included.
fn render(result: CallToolResult) -> String {
    let is_text = |block: &ContentBlock| block.as_text().is_some();
    let no_text = !result.content.iter().any(is_text);
    let structured = result.structured_content.filter(|_| no_text);
    let mut parts: Vec<String> = structured.iter().map(ToString::to_string).collect();
    parts.extend(result.content.into_iter().map(render_block));
    parts.join("\n")
}

fn render_block(block: ContentBlock) -> String {
    match block {
        ContentBlock::Text(text) => text.text,
        ContentBlock::Image(image) => {
            describe_binary("image", None, Some(&image.mime_type), &image.data)
        }
        ContentBlock::Audio(audio) => {
            describe_binary("audio", None, Some(&audio.mime_type), &audio.data)
        }
        ContentBlock::Resource(embedded) => resource(&embedded.resource),
        ContentBlock::ResourceLink(link) => {
            let kind = link.mime_type.as_deref().unwrap_or("unknown type");
            let size = link.size.map(|size| format!(", {size} bytes"));
            let (uri, kind) = (sanitize(&link.uri, MAX_WORD), sanitize(kind, MAX_WORD));
            format!("[link: {uri}, {kind}{}]", size.unwrap_or_default())
        }
        _ => "[content that is not text]".to_owned(),
    }
}

fn resource(contents: &ResourceContents) -> String {
    match contents {
        ResourceContents::TextResourceContents {
            uri,
            mime_type,
            text,
            ..
        } => {
            let (uri, kind) = (
                sanitize(uri, MAX_WORD),
                mime_type.as_deref().unwrap_or("text"),
            );
            format!(
                "[resource: {uri}, {}, {} bytes]",
                sanitize(kind, MAX_WORD),
                text.len()
            )
        }
        ResourceContents::BlobResourceContents {
            uri,
            mime_type,
            blob,
            ..
        } => describe_binary("resource", Some(uri), mime_type.as_deref(), blob),
        _ => "[resource]".to_owned(),
    }
}

/// Describes Base64 data by its type and size.
fn describe_binary(what: &str, uri: Option<&str>, kind: Option<&str>, data: &str) -> String {
    let uri = uri.map(|uri| format!("{}, ", sanitize(uri, MAX_WORD)));
    let kind = sanitize(kind.unwrap_or("unknown type"), MAX_WORD);
    let bytes = data.trim_end_matches('=').len() * 3 / 4;
    format!("[{what}: {}{kind}, {bytes} bytes]", uri.unwrap_or_default())
}

fn truncate(mut text: String) -> String {
    let whole = text.len();
    if whole > MAX_TEXT {
        text.truncate(text.floor_char_boundary(MAX_TEXT));
        let note = format!(
            "\n[cut: these are the first {} of {whole} bytes]",
            text.len()
        );
        text.push_str(&note);
    }
    text
}

#[cfg(test)]
mod tests {
    use serde_json::{Value, json};

    use super::*;

    fn answer(result: Value) -> Result<String, String> {
        let result: CallToolResult = serde_json::from_value(result).unwrap();
        text(CallToolResponse::Complete(result))
    }

    #[test]
    fn text_is_joined_and_other_content_described() {
        for (result, expected) in [
            (json!({"content": []}), Ok("")),
            (
                json!({"content": [{"type": "text", "text": "a"}, {"type": "text", "text": "b"}]}),
                Ok("a\nb"),
            ),
            (
                json!({"content": [{"type": "text", "text": "a"}], "structuredContent": {"n": 1}}),
                Ok("a"),
            ),
            (
                json!({"content": [], "structuredContent": {"n": 1}}),
                Ok(r#"{"n":1}"#),
            ),
            (
                json!({"content": [{"type": "image", "data": "AAAA", "mimeType": "image/png"}]}),
                Ok("[image: image/png, 3 bytes]"),
            ),
            (
                json!({"content": [{"type": "audio", "data": "AA==", "mimeType": "a\u{1b}/b"}]}),
                Ok("[audio: a/b, 1 bytes]"),
            ),
            (
                json!({"content": [{"type": "resource", "resource":
                    {"uri": "x://1", "mimeType": "text/plain", "text": "hello"}}]}),
                Ok("[resource: x://1, text/plain, 5 bytes]"),
            ),
            (
                json!({"content": [{"type": "resource", "resource":
                    {"uri": "x://2", "blob": "AAAA"}}]}),
                Ok("[resource: x://2, unknown type, 3 bytes]"),
            ),
            (
                json!({"content": [{"type": "resource_link", "uri": "x://3", "name": "n",
                    "size": 9}]}),
                Ok("[link: x://3, unknown type, 9 bytes]"),
            ),
            (
                json!({"content": [{"type": "text", "text": "no"}], "isError": true}),
                Err("no"),
            ),
        ] {
            let expected = expected.map(str::to_owned).map_err(str::to_owned);
            assert_eq!(answer(result.clone()), expected, "{result}");
        }
    }

    #[test]
    fn long_result_is_truncated_at_a_character() {
        let whole = "ü".repeat(MAX_TEXT);
        let result = answer(json!({"content": [{"type": "text", "text": whole}]})).unwrap();
        assert!(result.len() < MAX_TEXT + 100, "{}", result.len());
        let note = format!(
            "\n[cut: these are the first {MAX_TEXT} of {} bytes]",
            whole.len()
        );
        assert!(result.ends_with(&note), "{}", &result[MAX_TEXT..]);
    }
}
