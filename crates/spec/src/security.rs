//! The `security` block: what no agent of a workflow may do.

use super::cursor::Cursor;
use super::fields::Keys;
use super::tools;

const KEYS: Keys = Keys {
    required: &[],
    optional: &["guardrails"],
};
const GUARDRAIL_KEYS: Keys = Keys {
    required: &[],
    optional: &["deny_network", "pii_redaction", "allow_tools"],
};

#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Guardrails {
    /// No tool may access the network.
    pub deny_network: bool,
    /// Personal data is redacted wherever secrets are.
    pub pii_redaction: bool,
    /// The only tools that may be called; `None` allows all.
    pub allow_tools: Option<Vec<String>>,
}

impl Guardrails {
    /// Whether `allow_tools` permits this name.
    pub fn allows(&self, name: &str) -> bool {
        let allowed = self.allow_tools.as_ref();
        allowed.is_none_or(|allowed| allowed.iter().any(|known| known == name))
    }
}

pub(super) fn read(cursor: &Cursor<'_>) -> Guardrails {
    let fields = cursor.fields(&KEYS);
    fields.read("guardrails", |cursor| {
        let fields = cursor.fields(&GUARDRAIL_KEYS);
        let boolean = |key: &str| fields.read(key, |cursor| cursor.boolean());
        Guardrails {
            deny_network: boolean("deny_network"),
            pii_redaction: boolean("pii_redaction"),
            allow_tools: fields.get("allow_tools").map(|cursor| {
                let allowed = cursor.list(0).into_iter().map(|cursor| {
                    let given = cursor.single_line();
                    // Accepts the name with or without the module that other tools put before it.
                    let name = given.rsplit('.').next().unwrap_or_default();
                    if !tools::is_known(&cursor, name) {
                        tools::check_name(&cursor, name, "unknown tool");
                    }
                    name.to_owned()
                });
                allowed.collect()
            }),
        }
    })
}
