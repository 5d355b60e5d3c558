//! Finds JSON in an answer.

use serde_json::Value;

/// The JSON in an answer that `wanted` accepts: the whole answer, a fenced block, or the first one
/// in the text.
pub(crate) fn find_json(text: &str, wanted: impl Fn(&Value) -> bool) -> Option<Value> {
    let whole = serde_json::from_str(text.trim()).ok();
    if let Some(value) = whole.filter(&wanted) {
        return Some(value);
    }
    let fenced = text.split("```").skip(1).step_by(2).find_map(|block| {
        let block = block.trim_start_matches(|c: char| c.is_ascii_alphanumeric());
        let value = serde_json::from_str(block.trim()).ok();
        value.filter(&wanted)
    });
    if fenced.is_some() {
        return fenced;
    }
    let starts = text.match_indices(['{', '[']).map(|(start, _)| start);
    starts.take(MAX_STARTS).find_map(|start| {
        let mut values = serde_json::Deserializer::from_str(&text[start..]).into_iter();
        let value = values.next()?.ok();
        value.filter(&wanted)
    })
}

/// Bounds the search in a long answer full of brackets.
const MAX_STARTS: usize = 10_000;

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn json_is_found_whole_fenced_and_in_the_text() {
        let route = |value: &Value| value.get("route").is_some();
        let expected = Some(json!({"route": "a"}));
        for text in [
            r#"{"route": "a"}"#,
            "  {\"route\": \"a\"}\n",
            "Sure:\n```json\n{\"route\": \"a\"}\n```\nDone.",
            "```\n{\"route\": \"a\"}\n```",
            r#"I choose {"route": "a"} because {it} is best."#,
            r#"{"note": 1} {"route": "a"}"#,
            r#"[1, {"route": "a"}]"#,
        ] {
            assert_eq!(find_json(text, route), expected, "{text}");
        }
        for text in [
            "",
            "a",
            "{route: a}",
            r#"{"rout": "a"}"#,
            "[",
            "```json\n```",
        ] {
            assert_eq!(find_json(text, route), None, "{text}");
        }
    }
}
