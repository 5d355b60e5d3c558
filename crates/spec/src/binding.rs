//! Binds the inputs of a workflow: defaults, then `values`, then the variables of the command line.

use std::collections::BTreeMap;
use std::fmt;

use segno_core::error::{Diagnose, Diagnosis, Kind};
use serde_json::Value;

use super::cursor::shortened;
use super::inputs::{Input, Type, joined};
use super::pattern::Pattern;
use super::problem::nearest;
use super::workflow::Workflow;

/// One input that cannot be bound.
#[derive(Debug, Clone, PartialEq, thiserror::Error)]
pub enum Problem {
    #[error("input `{name}` ({kind}) is missing")]
    Missing { name: String, kind: Type },
    /// The workflow declares no such input, and no template uses such a variable.
    #[error("the workflow has no input `{name}`{}", did_you_mean(nearest.as_ref()))]
    Unknown {
        name: String,
        /// The most similar input.
        nearest: Option<String>,
    },
    #[error("input `{name}` must be of type {kind}, not {:?}", shortened(given))]
    WrongType {
        name: String,
        kind: Type,
        given: String,
    },
    #[error(
        "input `{name}` must be one of {}, not {:?}",
        joined(choices),
        shortened(given)
    )]
    NotAllowed {
        name: String,
        choices: Vec<Value>,
        given: String,
    },
}

fn did_you_mean(nearest: Option<&String>) -> String {
    nearest.map_or_else(String::new, |nearest| {
        format!("; did you mean `{nearest}`?")
    })
}

/// All problems with the inputs; never empty.
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
    fn diagnosis(&self) -> Diagnosis {
        let missing = self.0.iter().filter_map(|problem| match problem {
            Problem::Missing { name, .. } => Some(format!("--var {name}=…")),
            _ => None,
        });
        let missing: Vec<_> = missing.collect();
        let diagnosis = Diagnosis::new(Kind::InvalidSpec, "W0103");
        if missing.is_empty() {
            return diagnosis;
        }
        diagnosis.hint(format!("give it with `{}`", missing.join(" ")))
    }
}

/// The value of each input, with `given` from the command line. An optional input without a value
/// is absent, so that templates see it as undefined.
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
        // Many specs use variables without declaring them. A variable that no template uses is a
        // typo.
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

/// Whether a template of the workflow mentions `name`.
fn uses(workflow: &Workflow, name: &str) -> bool {
    let definitions = format!(
        "{:?} {:?} {:?}",
        workflow.agents, workflow.pattern, workflow.artifacts
    );
    let part = |c: char| c.is_alphanumeric() || c == '_';
    let has = |text: &str| text.split(|c: char| !part(c)).any(|word| word == name);
    // Looks at text between braces. The conditions of a graph have no braces, so all of its text
    // counts.
    let inside = definitions
        .split('{')
        .skip(1)
        .filter_map(|text| text.split('}').next());
    !name.is_empty()
        && (inside.into_iter().any(has)
            || matches!(workflow.pattern, Pattern::Graph(_)) && has(&definitions))
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
    fn later_source_overrides_earlier() {
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
    fn all_input_problems_are_reported_at_once() {
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
        fn any_text_is_bound_verbatim_or_rejected(text in ".*") {
            let topic = bound(&[("topic", &text)]).unwrap();
            proptest::prop_assert_eq!(&topic["topic"], &json!(text));
            if let Ok(bound) = bound(&[("topic", ""), ("count", &text)]) {
                proptest::prop_assert!(Type::Integer.holds(&bound["count"]));
            }
        }
    }
}
