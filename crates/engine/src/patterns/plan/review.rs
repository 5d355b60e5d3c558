//! Parses a reviewer's answer about a task.

use serde_json::Value;

use crate::steps::json_answer::find_json;

#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Review {
    /// Whether the task may be committed as it is.
    pub approved: bool,
    pub severity: String,
    /// What must change.
    pub comments: Vec<String>,
}

const SEVERITIES: [&str; 4] = ["none", "minor", "major", "critical"];

pub(super) const SHAPE: &str = "Answer with JSON: {\"approved\": <true or false>, \"severity\": \"none\" | \"minor\" | \"major\" | \"critical\", \"comments\": [\"<what must change, and where>\"]}.";

/// Parses the review in an answer.
pub fn parse_review(text: &str) -> Result<Review, String> {
    let found = find_json(text, |value| value.get("approved").is_some());
    let found = found.ok_or("it has no {\"approved\": …}")?;
    let Value::Bool(approved) = found["approved"] else {
        return Err(format!(
            "approved is {}, not true or false",
            found["approved"]
        ));
    };
    let severity = match &found["severity"] {
        Value::Null => "none",
        Value::String(word) if SEVERITIES.contains(&word.as_str()) => word,
        other => {
            return Err(format!(
                "its severity is {other}, not one of {}",
                SEVERITIES.join(", ")
            ));
        }
    };
    let comments: Vec<String> = match &found["comments"] {
        Value::Null => Vec::new(),
        Value::Array(items) => {
            let text = |item: &Value| {
                item.as_str()
                    .map_or_else(|| item.to_string(), str::to_owned)
            };
            items.iter().map(text).collect()
        }
        other => return Err(format!("its comments are {other}, not a list of texts")),
    };
    if !approved && comments.iter().all(|comment| comment.trim().is_empty()) {
        return Err("it does not approve, but has no comments".to_owned());
    }
    Ok(Review {
        approved,
        severity: severity.to_owned(),
        comments,
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn review_approves_or_lists_changes() {
        let review = parse_review("Fine.\n```json\n{\"approved\": true}\n```").unwrap();
        assert!(review.approved && review.severity == "none" && review.comments.is_empty());
        let text = r#"{"approved": false, "severity": "major", "comments": ["a.rs: no test"]}"#;
        let review = parse_review(text).unwrap();
        assert!(!review.approved && review.severity == "major");
        assert_eq!(review.comments, ["a.rs: no test"]);
        for text in [
            "looks good",
            r#"{"approved": "yes"}"#,
            r#"{"approved": false}"#,
            r#"{"approved": false, "comments": [" "]}"#,
            r#"{"approved": true, "severity": "awful"}"#,
            r#"{"approved": true, "comments": "none"}"#,
        ] {
            assert!(parse_review(text).is_err(), "{text}");
        }
    }
}
