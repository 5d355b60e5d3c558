//! The keys of a block: which there are, and which must be there.

use super::place::Place;
use super::problem::nearest;

/// The keys of one block.
pub(super) struct Keys {
    /// Must be there.
    pub(super) required: &'static [&'static str],
    /// May be there.
    pub(super) optional: &'static [&'static str],
}

/// The values of a block whose keys were checked.
pub(super) struct Fields<'a> {
    keys: &'static Keys,
    entries: Vec<(&'a str, Place<'a>)>,
}

impl<'a> Place<'a> {
    /// The values of a block, after its keys were checked against `keys`.
    pub(super) fn fields(&self, keys: &'static Keys) -> Fields<'a> {
        let entries = self.entries();
        let mut meant = Vec::new();
        for (key, place) in &entries {
            if !keys.all().any(|known| known == *key) {
                meant.extend(nearest(key, keys.all()));
                place.unknown("unknown key", key, keys.all());
            }
        }
        for key in keys.required {
            // A misspelt key is one mistake, not two.
            if self.is_map() && !self.has(key) && !meant.iter().any(|word| word == key) {
                self.invalid(format!("`{key}` is missing"));
            }
        }
        Fields { keys, entries }
    }
}

impl Keys {
    fn all(&self) -> impl Iterator<Item = &'static str> {
        self.required.iter().chain(self.optional).copied()
    }
}

impl<'a> Fields<'a> {
    /// The value at `key`, which the block's table must name.
    pub(super) fn get(&self, key: &str) -> Option<Place<'a>> {
        debug_assert!(
            self.keys.all().any(|known| known == key),
            "`{key}` is read but not in the table"
        );
        let mut entries = self.entries.iter();
        entries
            .find(|(name, _)| *name == key)
            .map(|(_, place)| place.clone())
    }

    /// What `read` makes of the value at `key`; its stand-in if there is none.
    pub(super) fn read<T: Default>(&self, key: &str, read: impl FnOnce(Place<'a>) -> T) -> T {
        self.get(key).map(read).unwrap_or_default()
    }
}
