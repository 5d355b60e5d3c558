//! Todo lists of agents.

use std::collections::BTreeMap;

use segno_core::note::{MAX_ITEMS, Progress, Todo, Todos};
use serde_json::Value;

use super::output::cut;

/// The maximum length of a todo's text.
const TEXT: usize = 500;

/// A change of one task in a numbered task list.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) enum Change {
    /// A new task. The tool result contains its number.
    Create(String),
    /// A changed progress or text.
    Update {
        number: u64,
        text: Option<String>,
        progress: Option<Progress>,
    },
}

/// The complete todo list in a tool call, if the tool is one that passes it.
pub(super) fn list(name: &str, input: &Value) -> Option<Vec<Todo>> {
    match name {
        "todowrite" | "todo_write" | "write_todos" => items(&input["todos"]),
        "update_plan" => items(&input["plan"]),
        _ => None,
    }
}

/// The complete todo list in a vendor-specific part.
pub(super) fn list_in_value(value: &Value) -> Option<Vec<Todo>> {
    match value["type"].as_str()? {
        "todo_list" => items(&value["items"]),
        "plan" => items(&value["entries"]),
        _ => None,
    }
}

fn items(value: &Value) -> Option<Vec<Todo>> {
    let items = value.as_array()?.iter().take(MAX_ITEMS);
    items.map(item).collect()
}

fn item(value: &Value) -> Option<Todo> {
    let texts = ["content", "text", "step", "description", "title"];
    let text = texts.into_iter().find_map(|key| value[key].as_str())?;
    let progress = match (value["status"].as_str(), value["completed"].as_bool()) {
        (Some(word), _) => progress(word)?,
        (None, Some(true)) => Progress::Done,
        (None, _) => Progress::Pending,
    };
    let text = cut(text.trim(), TEXT);
    (!text.is_empty()).then_some(Todo { text, progress })
}

fn progress(word: &str) -> Option<Progress> {
    match word {
        "pending" | "todo" => Some(Progress::Pending),
        "in_progress" | "inProgress" => Some(Progress::InProgress),
        "completed" | "done" => Some(Progress::Done),
        "deleted" | "cancelled" | "canceled" => Some(Progress::Dropped),
        _ => None,
    }
}

/// The change that a tool call makes, if it is one that changes a task.
pub(super) fn change(name: &str, input: &Value) -> Option<Change> {
    let text = |key: &str| Some(cut(input[key].as_str()?.trim(), TEXT));
    let text = || text("subject").filter(|text| !text.is_empty());
    match name {
        "taskcreate" => text().map(Change::Create),
        "taskupdate" => {
            let id = &input["taskId"];
            let number = id.as_u64().or_else(|| id.as_str()?.parse().ok());
            Some(Change::Update {
                number: number?,
                text: text(),
                progress: input["status"].as_str().and_then(progress),
            })
        }
        _ => None,
    }
}

/// A numbered task list.
#[derive(Debug, Clone, Default)]
pub(super) struct Tasks(BTreeMap<u64, Todo>);

impl Tasks {
    /// Restores a list from a note: tasks are numbered in order, from 1.
    pub(super) fn of(list: &Todos) -> Self {
        Self((1..).zip(list.items.iter().cloned()).collect())
    }

    /// Applies a change; `answer` is the tool's result.
    pub(super) fn apply(&mut self, change: Change, answer: &str) {
        match change {
            Change::Create(text) => {
                let Some(number) = number_in(answer) else {
                    return;
                };
                // Later numbers belong to an earlier list.
                self.0.split_off(&number);
                let progress = Progress::Pending;
                self.0.insert(number, Todo { text, progress });
                if self.0.len() > MAX_ITEMS {
                    let settled =
                        |todo: &Todo| matches!(todo.progress, Progress::Done | Progress::Dropped);
                    let done = self.0.iter().find(|(_, todo)| settled(todo));
                    let removed = done
                        .or_else(|| self.0.iter().next())
                        .map(|(number, _)| *number);
                    removed.and_then(|number| self.0.remove(&number));
                }
            }
            Change::Update {
                number,
                text,
                progress,
            } => {
                if let Some(todo) = self.0.get_mut(&number) {
                    todo.text = text.unwrap_or(std::mem::take(&mut todo.text));
                    todo.progress = progress.unwrap_or(todo.progress);
                }
            }
        }
    }

    pub(super) fn items(&self) -> Vec<Todo> {
        self.0.values().cloned().collect()
    }
}

/// `Task #3 created successfully: …`
fn number_in(answer: &str) -> Option<u64> {
    let (_, rest) = answer.split_once('#')?;
    let end = rest.find(|c: char| !c.is_ascii_digit());
    rest[..end.unwrap_or(rest.len())].parse().ok()
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    fn shown(list: &[Todo]) -> Vec<String> {
        let show = |todo: &Todo| format!("{} {}", todo.progress, todo.text);
        list.iter().map(show).collect()
    }

    #[test]
    fn all_todo_list_formats_parse_alike() {
        let forms = [
            list(
                "todowrite",
                &json!({"todos": [
                    {"content": "a", "status": "completed", "activeForm": "doing a"},
                    {"content": "b", "status": "pending", "activeForm": "doing b"},
                ]}),
            ),
            list(
                "update_plan",
                &json!({"plan": [
                    {"step": "a", "status": "completed"},
                    {"step": "b", "status": "pending"},
                ]}),
            ),
            list_in_value(&json!({"type": "todo_list", "items": [
                {"text": "a", "completed": true},
                {"text": "b", "completed": false},
            ]})),
            list_in_value(&json!({"type": "plan", "entries": [
                {"content": "a", "priority": "high", "status": "completed"},
                {"content": "b", "priority": "low", "status": "pending"},
            ]})),
        ];
        for form in forms {
            assert_eq!(shown(&form.unwrap()), ["done a", "pending b"]);
        }
        assert_eq!(
            list(
                "todowrite",
                &json!({"todos": [{"content": "a", "status": "odd"}]})
            ),
            None
        );
        assert_eq!(list("bash", &json!({"todos": []})), None);
        assert_eq!(list_in_value(&json!({"type": "image"})), None);
    }

    #[test]
    fn numbered_tasks_are_folded_into_a_list() {
        let mut tasks = Tasks::default();
        for (number, text) in [(1, "a"), (2, "b"), (3, "c")] {
            let created = change("taskcreate", &json!({"subject": text})).unwrap();
            tasks.apply(
                created,
                &format!("Task #{number} created successfully: {text}"),
            );
        }
        let update = |input: Value| change("taskupdate", &input).unwrap();
        tasks.apply(update(json!({"taskId": "1", "status": "in_progress"})), "");
        tasks.apply(update(json!({"taskId": 3, "status": "deleted"})), "");
        tasks.apply(update(json!({"taskId": "2", "subject": "B"})), "");
        tasks.apply(update(json!({"taskId": "9", "status": "completed"})), "");
        assert_eq!(
            shown(&tasks.items()),
            ["in_progress a", "pending B", "dropped c"]
        );
        let kept = Todos {
            items: tasks.items(),
        };
        let mut later = Tasks::of(&kept);
        later.apply(update(json!({"taskId": "2", "status": "completed"})), "");
        assert_eq!(
            shown(&later.items()),
            ["in_progress a", "done B", "dropped c"]
        );
        // Another conversation starts to count from 1.
        later.apply(
            Change::Create("new".into()),
            "Task #1 created successfully: new",
        );
        assert_eq!(shown(&later.items()), ["pending new"]);
        for number in 1..=200 {
            later.apply(
                Change::Create("x".into()),
                &format!("Task #{number} created"),
            );
        }
        assert_eq!(later.items().len(), MAX_ITEMS);
    }
}
