//! Leave to use a tool: given once, for the sorts that a policy lists, and never for good.

use serde_json::{Value, json};

use super::update::ToolKind;

/// Which tools an agent may use where it asks. Without anything, none.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Policy {
    /// Sorts of tools that are allowed, each time anew.
    pub allow: Vec<ToolKind>,
}

impl Policy {
    /// What is answered, and whether that is leave. A tool of no known sort gets none.
    pub(super) fn answer(&self, kind: Option<&ToolKind>, options: &Value) -> (Value, bool) {
        let option = |wanted: &str| {
            let mut all = options.as_array().into_iter().flatten();
            all.find(|option| option["kind"] == wanted && option["optionId"].is_string())
        };
        let allowed = kind.is_some_and(|kind| self.allow.contains(kind));
        let granted = option("allow_once").filter(|_| allowed);
        match granted.or_else(|| option("reject_once")) {
            Some(option) => {
                let chosen = json!({"outcome": "selected", "optionId": option["optionId"]});
                (json!({"outcome": chosen}), granted.is_some())
            }
            None => (cancelled(), false),
        }
    }
}

/// The answer that decides nothing.
pub(super) fn cancelled() -> Value {
    json!({"outcome": {"outcome": "cancelled"}})
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn leave_is_given_once_or_not_at_all() {
        let options = json!([
            {"optionId": "always", "kind": "allow_always"},
            {"optionId": "once", "kind": "allow_once"},
            {"optionId": "never", "kind": "reject_always"},
            {"optionId": "no", "kind": "reject_once"},
        ]);
        let only_for_good = json!([
            {"optionId": "always", "kind": "allow_always"},
            {"optionId": "never", "kind": "reject_always"},
        ]);
        let policy = Policy {
            allow: vec![ToolKind::Edit],
        };
        let (edit, run) = (ToolKind::Edit, ToolKind::Execute);
        for (policy, kind, options, expected) in [
            (&policy, Some(&edit), &options, "once"),
            (&policy, Some(&run), &options, "no"),
            (&policy, None, &options, "no"),
            (&Policy::default(), Some(&edit), &options, "no"),
            (&policy, Some(&edit), &only_for_good, ""),
            (&policy, Some(&run), &only_for_good, ""),
            (&policy, Some(&edit), &Value::Null, ""),
            (&policy, Some(&edit), &json!([{"kind": "allow_once"}]), ""),
        ] {
            let (answer, granted) = policy.answer(kind, options);
            let chosen = answer["outcome"]["optionId"].as_str().unwrap_or_default();
            assert_eq!(chosen, expected, "{kind:?} {options}");
            assert_eq!(granted, expected == "once");
        }
    }
}
