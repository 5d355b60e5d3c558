//! The `skills` block: instructions that agents load on demand.

use super::cursor::Cursor;
use super::fields::Keys;

const KEYS: Keys = Keys {
    required: &["id", "path"],
    optional: &["description", "preload_metadata"],
};

#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Skill {
    pub id: String,
    /// A folder or file, relative to the spec.
    pub path: String,
    pub description: Option<String>,
    /// Whether agents know of the skill from the start (`preload_metadata`).
    pub preload: bool,
}

pub(super) fn read(cursor: &Cursor<'_>) -> Vec<Skill> {
    let mut skills: Vec<Skill> = Vec::new();
    for cursor in cursor.list(0) {
        let fields = cursor.fields(&KEYS);
        let skill = Skill {
            id: fields.read("id", |cursor| cursor.identifier()),
            path: fields.read("path", |cursor| cursor.single_line()),
            description: fields.get("description").map(|cursor| cursor.text()),
            preload: fields
                .get("preload_metadata")
                .is_none_or(|cursor| cursor.boolean()),
        };
        if !skill.id.is_empty() && skills.iter().any(|known| known.id == skill.id) {
            cursor.invalid(format!("duplicate skill `{}`", skill.id));
        }
        skills.push(skill);
    }
    skills
}
