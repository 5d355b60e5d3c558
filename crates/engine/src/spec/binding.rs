//! Binds a workflow's inputs: defaults, then `values`, then what the command line gives.

use std::collections::BTreeMap;
use std::fmt;

use segno_core::error::{Diagnose, Kind};
use serde_json::Value;

use super::inputs::{Input, Type, listed};
use super::pattern::Pattern;
use super::place::shortened;
use super::problem::nearest;
use super::workflow::Workflow;

/// One input that cannot be bound.
#[derive(Debug, Clone, PartialEq, thiserror::Error)]
pub enum Problem {
    /// The workflow needs it and nobody gave it.
    #[error("input `{name}` ({kind}) is missing")]
    Missing {
        /// The input.
        name: String,
        /// What it may hold.
        kind: Type,
    },
    /// The workflow has no such input, and uses no such variable.
    #[error("the workflow has no input `{name}`{}", meant(nearest.as_ref()))]
    Unknown {
        /// What was given.
        name: String,
        /// What was probably meant.
        nearest: Option<String>,
    },
    /// It is not of its type.
    #[error("input `{name}` must be of type {kind}, not {:?}", shortened(given))]
    WrongType {
        /// The input.
        name: String,
        /// What it may hold.
        kind: Type,
        /// What was given.
        given: String,
    },
    /// It is none of the values that the workflow allows.
    #[error(
        "input `{name}` must be one of {}, not {:?}",
        listed(choices),
        shortened(given)
    )]
    NotAllowed {
        /// The input.
        name: String,
        /// The values that are allowed.
        choices: Vec<Value>,
        /// What was given.
        given: String,
    },
}

fn meant(nearest: Option<&String>) -> String {
    nearest.map_or_else(String::new, |nearest| {
        format!("; did you mean `{nearest}`?")
    })
}

/// Why the inputs cannot be bound: everything that is wrong, never empty.
#[derive(Debug, Clone, PartialEq)]
pub struct Error(pub Vec<Problem>);

impl fmt::Display for Error {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let lines: Vec<_> = self.0.iter().map(Problem::to_string).collect();
        f.write_str(&lines.join("\n"))
    }
}

impl std::error::Error for Error {}

impl Diagnose for Error {
    fn kind(&self) -> Kind {
        Kind::Invalid
    }

    fn code(&self) -> &'static str {
        "W0103"
    }

    fn hint(&self) -> Option<String> {
        let missing = self.0.iter().filter_map(|problem| match problem {
            Problem::Missing { name, .. } => Some(format!("--var {name}=…")),
            _ => None,
        });
        let missing: Vec<_> = missing.collect();
        (!missing.is_empty()).then(|| format!("give it with `{}`", missing.join(" ")))
    }
}

/// The value of each input, with `given` from the command line. An optional input without any
/// value is absent, so that templates find it undefined.
pub fn bind(
    workflow: &Workflow,
    given: &BTreeMap<String, String>,
) -> Result<BTreeMap<String, Value>, Error> {
    let inputs = &workflow.inputs.0;
    let mut problems = Vec::new();
    let mut bound = BTreeMap::new();
    for (name, input) in inputs {
        match value(name, input, given.get(name)) {
            Ok(Some(value)) => {
                bound.insert(name.clone(), value);
            }
            Ok(None) => {}
            Err(problem) => problems.push(problem),
        }
    }
    for (name, text) in given.iter().filter(|(name, _)| !inputs.contains_key(*name)) {
        // Many specs use variables that they do not declare. One that is not even used is a slip.
        if uses(workflow, name) {
            bound.insert(name.clone(), Value::from(text.as_str()));
        } else {
            problems.push(Problem::Unknown {
                name: name.clone(),
                nearest: nearest(name, inputs.keys().map(String::as_str)),
            });
        }
    }
    if problems.is_empty() {
        Ok(bound)
    } else {
        Err(Error(problems))
    }
}

/// Whether a name stands in any template of a workflow.
fn uses(workflow: &Workflow, name: &str) -> bool {
    let said = format!(
        "{:?} {:?} {:?}",
        workflow.agents, workflow.pattern, workflow.artifacts
    );
    let part = |c: char| c.is_alphanumeric() || c == '_';
    let has = |text: &str| text.split(|c: char| !part(c)).any(|word| word == name);
    // What stands between braces; the conditions of a graph have none.
    let inside = said
        .split('{')
        .skip(1)
        .filter_map(|text| text.split('}').next());
    !name.is_empty()
        && (inside.into_iter().any(has)
            || matches!(workflow.pattern, Pattern::Graph(_)) && has(&said))
}

fn value(name: &str, input: &Input, given: Option<&String>) -> Result<Option<Value>, Problem> {
    let name = name.to_owned();
    let kind = input.kind;
    let Some(given) = given.cloned() else {
        return match &input.value {
            None if input.required => Err(Problem::Missing { name, kind }),
            value => Ok(value.clone()),
        };
    };
    let Some(value) = kind.convert(&given) else {
        return Err(Problem::WrongType { name, kind, given });
    };
    match input.choices.clone() {
        Some(choices) if !choices.contains(&value) => Err(Problem::NotAllowed {
            name,
            choices,
            given,
        }),
        _ => Ok(Some(value)),
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::super::parse;
    use super::*;

    const SPEC: &str = r"
version: 0
name: demo
runtime: {provider: command, command: [cat]}
agents: {a: {prompt: A}}
pattern: {type: chain, config: {steps: [{agent: a}]}}
inputs:
  required: {topic: string, count: integer}
  optional:
    tone: {type: string, enum: [dry, warm], default: dry}
    ratio: {type: number, default: 0.5}
    deep: boolean
    list: array
    map: {type: object, description: any}
  values: {count: 3, place: sea, ratio: 0.7, size: 1}
";

    fn bound(given: &[(&str, &str)]) -> Result<BTreeMap<String, Value>, Error> {
        let given = given
            .iter()
            .map(|(k, v)| ((*k).to_owned(), (*v).to_owned()));
        bind(&parse(SPEC).unwrap(), &given.collect())
    }

    #[test]
    fn later_wins() {
        let expected = |json: Value| serde_json::from_value(json).unwrap();
        assert_eq!(
            bound(&[("topic", "tides")]).unwrap(),
            expected(
                json!({"topic": "tides", "count": 3, "tone": "dry", "ratio": 0.7,
                "place": "sea", "size": 1})
            )
        );
        assert_eq!(
            bound(&[
                ("topic", "7"),
                ("count", "4"),
                ("tone", "warm"),
                ("ratio", "1"),
                ("deep", "true"),
                ("list", "[1, \"a\"]"),
                ("map", "{\"a\": null}"),
                ("place", "true"),
                ("size", "2.5"),
            ])
            .unwrap(),
            expected(
                json!({"topic": "7", "count": 4, "tone": "warm", "ratio": 1, "deep": true,
                "list": [1, "a"], "map": {"a": null}, "place": "true", "size": 2.5})
            )
        );
    }

    #[test]
    fn everything_that_is_wrong_is_told_at_once() {
        let error = bound(&[
            ("count", "many"),
            ("tone", "cold"),
            ("deep", "yes"),
            ("list", "{}"),
            ("tpoic", "x"),
        ])
        .unwrap_err();
        assert_eq!(
            error.to_string(),
            "input `count` must be of type integer, not \"many\"\n\
             input `deep` must be of type boolean, not \"yes\"\n\
             input `list` must be of type array, not \"{}\"\n\
             input `tone` must be one of \"dry\", \"warm\", not \"cold\"\n\
             input `topic` (string) is missing\n\
             the workflow has no input `tpoic`; did you mean `topic`?"
        );
        assert_eq!(error.code(), "W0103");
        assert_eq!(error.hint().unwrap(), "give it with `--var topic=…`");
    }

    proptest::proptest! {
        #[test]
        fn any_text_is_bound_as_it_is_or_refused(text in ".*") {
            let topic = bound(&[("topic", &text)]).unwrap();
            proptest::prop_assert_eq!(&topic["topic"], &json!(text));
            if let Ok(bound) = bound(&[("topic", ""), ("count", &text)]) {
                proptest::prop_assert!(Type::Integer.holds(&bound["count"]));
            }
        }
    }
}
