//! The `security` block: what no agent of a workflow may do.

use super::fields::Keys;
use super::place::Place;
use super::tools;

const KEYS: Keys = Keys {
    required: &[],
    optional: &["guardrails"],
};
const GUARDRAIL_KEYS: Keys = Keys {
    required: &[],
    optional: &["deny_network", "pii_redaction", "allow_tools"],
};

/// What no agent of a workflow may do.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Guardrails {
    /// No tool goes out into the network.
    pub deny_network: bool,
    /// Personal data is replaced wherever secrets are.
    pub pii_redaction: bool,
    /// The only tools that may be used; `None`: all.
    pub allow_tools: Option<Vec<String>>,
}

impl Guardrails {
    /// Whether what has this name may be used at all.
    pub fn allows(&self, name: &str) -> bool {
        let allowed = self.allow_tools.as_ref();
        allowed.is_none_or(|allowed| allowed.iter().any(|known| known == name))
    }
}

pub(super) fn read(place: &Place<'_>) -> Guardrails {
    let fields = place.fields(&KEYS);
    fields.read("guardrails", |place| {
        let fields = place.fields(&GUARDRAIL_KEYS);
        let truth = |key: &str| fields.read(key, |place| place.choice_of_truth());
        Guardrails {
            deny_network: truth("deny_network"),
            pii_redaction: truth("pii_redaction"),
            allow_tools: fields.get("allow_tools").map(|place| {
                let allowed = place.list(0).into_iter().map(|place| {
                    let given = place.line_of_text();
                    // With or without the module that others keep it in.
                    let name = given.rsplit('.').next().unwrap_or_default();
                    if !tools::is_known(&place, name) {
                        tools::check_name(&place, name, "no such tool:");
                    }
                    name.to_owned()
                });
                allowed.collect()
            }),
        }
    })
}
