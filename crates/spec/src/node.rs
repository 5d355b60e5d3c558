//! Parses YAML or JSON text into values that carry their line numbers, within bounds.

use std::fmt;

use serde::de::{Deserialize, Deserializer, MapAccess, SeqAccess, Visitor};
use serde_json::Value;
use serde_saphyr::budget::BudgetBreach;
use serde_saphyr::{Error, MessageFormatter, Spanned, UserMessageFormatter};

use super::problem::{Fault, Problem};

/// A larger spec is a mistake or an attack.
const MOST_BYTES: usize = 10 * 1024 * 1024;

/// Deeper than any schema, and shallow enough for the stack of a thread: a level costs some 40 kB
/// in a debug build.
const MOST_DEPTH: usize = 32;

/// A value and the line it begins on.
#[derive(Debug)]
pub(super) struct Node {
    pub(super) line: usize,
    pub(super) tree: Tree,
}

/// The value itself, without its line.
#[derive(Debug)]
pub(super) enum Tree {
    /// Null, a boolean, a number or a text.
    Scalar(Value),
    List(Vec<Node>),
    Map(Vec<Entry>),
}

/// A key of a mapping, the line of the key, and its value.
#[derive(Debug)]
pub(super) struct Entry {
    pub(super) key: String,
    pub(super) line: usize,
    pub(super) node: Node,
}

impl Node {
    /// The same value without its lines.
    pub(super) fn to_json(&self) -> Value {
        match &self.tree {
            Tree::Scalar(value) => value.clone(),
            Tree::List(items) => items.iter().map(Node::to_json).collect(),
            Tree::Map(entries) => entries
                .iter()
                .map(|entry| (entry.key.clone(), entry.node.to_json()))
                .collect(),
        }
    }
}

impl Node {
    /// The same value as JSON text, with its keys in the order in which they were written.
    pub(super) fn to_text(&self) -> String {
        match &self.tree {
            Tree::Scalar(value) => value.to_string(),
            Tree::List(items) => {
                let items: Vec<String> = items.iter().map(Node::to_text).collect();
                format!("[{}]", items.join(", "))
            }
            Tree::Map(entries) => {
                let entries: Vec<String> = entries
                    .iter()
                    .map(|entry| {
                        let key = Value::from(entry.key.as_str());
                        format!("{key}: {}", entry.node.to_text())
                    })
                    .collect();
                format!("{{{}}}", entries.join(", "))
            }
        }
    }
}

/// Parses one YAML document (JSON is YAML), within bounds.
pub(super) fn read(text: &str) -> Result<Node, Problem> {
    if text.len() > MOST_BYTES {
        let size = text.len();
        return Err(document(
            None,
            format!("larger than {MOST_BYTES} bytes (10 MB): {size} bytes"),
        ));
    }
    let options = serde_saphyr::options! {
        // The limits count what aliases expand to, not only what is written.
        budget: serde_saphyr::budget! {
            max_depth: MOST_DEPTH,
            max_nodes: 1_000_000,
            max_total_scalar_bytes: 2 * MOST_BYTES,
            max_documents: 2,
        },
        // As in YAML 1.2: `yes` and `on` are strings.
        strict_booleans: true,
        reject_unsupported_tags: true,
        with_snippet: false,
    };
    let node: Node = serde_saphyr::from_str_with_options(text, options)
        .map_err(|error| document(line_of(&error), explain(&error)))?;
    match node.tree {
        Tree::Scalar(Value::Null) => Err(document(None, "empty".to_owned())),
        _ => Ok(node),
    }
}

fn document(line: Option<usize>, message: String) -> Problem {
    Problem {
        pointer: String::new(),
        line,
        message,
        nearest: None,
        fault: Fault::Invalid,
    }
}

fn line_of(error: &Error) -> Option<usize> {
    let line = usize::try_from(error.location()?.line()).ok()?;
    (line > 0).then_some(line)
}

/// Replaces those parser messages that are written for programmers.
fn explain(error: &Error) -> String {
    match error.without_snippet() {
        Error::AliasError { error, .. } => explain(error),
        Error::MultipleDocuments { .. } => {
            "contains more than one document; keep only one, without `---`".to_owned()
        }
        Error::DuplicateMappingKey { key: Some(key), .. } => {
            format!("duplicate key `{key}`")
        }
        Error::Budget {
            breach: BudgetBreach::Depth { .. },
            ..
        } => "nested too deeply".to_owned(),
        Error::Budget {
            breach: BudgetBreach::Documents { .. },
            ..
        } => "contains too many documents; keep only one".to_owned(),
        Error::Budget { .. }
        | Error::AliasReplayCounterOverflow { .. }
        | Error::AliasReplayLimitExceeded { .. }
        | Error::AliasExpansionLimitExceeded { .. }
        | Error::AliasReplayStackDepthExceeded { .. } => {
            "too many values, including expanded aliases".to_owned()
        }
        other => format!(
            "invalid YAML: {}",
            UserMessageFormatter.format_message(other)
        ),
    }
}

impl<'de> Deserialize<'de> for Node {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        let spanned = Spanned::<Tree>::deserialize(deserializer)?;
        Ok(Self {
            line: line(&spanned),
            tree: spanned.value,
        })
    }
}

fn line<T>(spanned: &Spanned<T>) -> usize {
    usize::try_from(spanned.referenced.line()).unwrap_or(usize::MAX)
}

impl<'de> Deserialize<'de> for Tree {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        deserializer.deserialize_any(TreeVisitor)
    }
}

struct TreeVisitor;

impl<'de> Visitor<'de> for TreeVisitor {
    type Value = Tree;

    fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("a value")
    }

    fn visit_unit<E>(self) -> Result<Tree, E> {
        Ok(Tree::Scalar(Value::Null))
    }

    fn visit_bool<E>(self, value: bool) -> Result<Tree, E> {
        Ok(Tree::Scalar(value.into()))
    }

    fn visit_i64<E>(self, value: i64) -> Result<Tree, E> {
        Ok(Tree::Scalar(value.into()))
    }

    fn visit_u64<E>(self, value: u64) -> Result<Tree, E> {
        Ok(Tree::Scalar(value.into()))
    }

    fn visit_f64<E>(self, value: f64) -> Result<Tree, E> {
        Ok(Tree::Scalar(value.into()))
    }

    fn visit_str<E>(self, value: &str) -> Result<Tree, E> {
        Ok(Tree::Scalar(value.into()))
    }

    fn visit_seq<A: SeqAccess<'de>>(self, mut items: A) -> Result<Tree, A::Error> {
        let mut list = Vec::new();
        while let Some(item) = items.next_element()? {
            list.push(item);
        }
        Ok(Tree::List(list))
    }

    fn visit_map<A: MapAccess<'de>>(self, mut entries: A) -> Result<Tree, A::Error> {
        let mut map = Vec::new();
        while let Some((key, node)) = entries.next_entry::<Spanned<String>, Node>()? {
            map.push(Entry {
                line: line(&key),
                key: key.value,
                node,
            });
        }
        Ok(Tree::Map(map))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn problem_of(text: &str) -> String {
        read(text).expect_err(text).to_string()
    }

    #[test]
    fn values_know_their_lines() {
        let node = read("a: 1\nb:\n  - x\n  - {c: yes}\n").unwrap();
        let Tree::Map(entries) = &node.tree else {
            panic!("{node:?}")
        };
        assert_eq!((entries[1].key.as_str(), entries[1].line), ("b", 2));
        let Tree::List(items) = &entries[1].node.tree else {
            panic!("{node:?}")
        };
        assert_eq!((items[0].line, items[1].line), (3, 4));
        assert_eq!(
            node.to_json(),
            serde_json::json!({"a": 1, "b": ["x", {"c": "yes"}]})
        );
    }

    #[test]
    fn unreadable_document_is_rejected_with_its_line() {
        for (text, expected) in [
            ("", "document: empty"),
            ("# only a comment\n", "document: empty"),
            ("a: 1\na: 2\n", "document (line 2): duplicate key `a`"),
            (
                "a: 1\n---\nb: 2\n",
                "document (line 3): contains more than one document",
            ),
            ("a:\n\t- b\n", "document (line 2): invalid YAML: tabs"),
            (
                "a: [1,\n",
                "document (line 1): invalid YAML: unclosed bracket",
            ),
            ("a: b: c", "document (line 1): invalid YAML: mapping values"),
            (
                "a: *nobody\n",
                "document (line 1): invalid YAML: reference to unknown",
            ),
            (
                "a: !danger 1\n",
                "document (line 1): invalid YAML: unsupported tag",
            ),
            ("a: .inf\n", "document (line 1): invalid YAML: value `.inf`"),
            (
                "? [a]\n: 1\n",
                "document (line 1): invalid YAML: expected string",
            ),
        ] {
            let problem = problem_of(text);
            assert!(problem.starts_with(expected), "{text:?}: {problem}");
        }
    }

    #[test]
    fn alias_bomb_is_rejected() {
        let mut bomb = vec!["l0: &l0 [x, x, x, x, x, x, x, x, x, x]".to_owned()];
        for n in 1..12 {
            let uses = vec![format!("*l{}", n - 1); 10].join(", ");
            bomb.push(format!("l{n}: &l{n} [{uses}]"));
        }
        let problem = problem_of(&bomb.join("\n"));
        assert!(problem.contains("too many values"), "{problem}");
    }

    #[test]
    fn ten_thousand_levels_are_rejected_in_either_style() {
        let flow = problem_of(&"[".repeat(10_000));
        assert!(flow.contains("recursion limit"), "{flow}");
        let mut block = String::new();
        for depth in 0..2_000 {
            block.push_str(&" ".repeat(depth));
            block.push_str("a:\n");
        }
        let block = problem_of(&block);
        assert!(block.contains("nested too deeply"), "{block}");
        let inline = problem_of(&"- ".repeat(10_000));
        assert!(inline.contains("nested too deeply"), "{inline}");
    }

    #[test]
    fn more_than_ten_megabytes_are_not_parsed() {
        let problem = problem_of(&"#".repeat(MOST_BYTES + 1));
        assert!(problem.contains("10 MB"), "{problem}");
    }
}
