//! The `skills` block: what agents can learn when they need it.

use super::fields::Keys;
use super::place::Place;

const KEYS: Keys = Keys {
    required: &["id", "path"],
    optional: &["description", "preload_metadata"],
};

/// Something that an agent can learn.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Skill {
    /// Its name.
    pub id: String,
    /// The folder or file it is kept in, relative to the spec.
    pub path: String,
    /// What it is for.
    pub description: Option<String>,
    /// Whether agents are told of it from the beginning.
    pub is_told: bool,
}

pub(super) fn read(place: &Place<'_>) -> Vec<Skill> {
    let mut skills: Vec<Skill> = Vec::new();
    for place in place.list(0) {
        let fields = place.fields(&KEYS);
        let skill = Skill {
            id: fields.read("id", |place| place.identifier()),
            path: fields.read("path", |place| place.line_of_text()),
            description: fields.get("description").map(|place| place.text()),
            is_told: fields
                .get("preload_metadata")
                .is_none_or(|place| place.choice_of_truth()),
        };
        if !skill.id.is_empty() && skills.iter().any(|known| known.id == skill.id) {
            place.invalid(format!("there are two skills `{}`", skill.id));
        }
        skills.push(skill);
    }
    skills
}
