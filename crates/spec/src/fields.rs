//! The keys of a block: which keys are allowed, and which are required.

use super::cursor::Cursor;
use super::problem::nearest;

pub(super) struct Keys {
    pub(super) required: &'static [&'static str],
    pub(super) optional: &'static [&'static str],
}

/// The values of a block whose keys are checked.
pub(super) struct Fields<'a> {
    keys: &'static Keys,
    entries: Vec<(&'a str, Cursor<'a>)>,
}

impl<'a> Cursor<'a> {
    /// Checks the keys of this block against `keys`, and returns its values.
    pub(super) fn fields(&self, keys: &'static Keys) -> Fields<'a> {
        let entries = self.entries();
        let mut meant = Vec::new();
        for (key, cursor) in &entries {
            if !keys.all().any(|known| known == *key) {
                meant.extend(nearest(key, keys.all()));
                cursor.unknown("unknown key", key, keys.all());
            }
        }
        for key in keys.required {
            // A misspelt key is reported once, not also as a missing key.
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
    /// The value at `key`. The block's table must have the key.
    pub(super) fn get(&self, key: &str) -> Option<Cursor<'a>> {
        debug_assert!(
            self.keys.all().any(|known| known == key),
            "`{key}` is read but not in the table"
        );
        let mut entries = self.entries.iter();
        entries
            .find(|(name, _)| *name == key)
            .map(|(_, cursor)| cursor.clone())
    }

    /// Applies `read` to the value at `key`; the default of `T` if there is none.
    pub(super) fn read<T: Default>(&self, key: &str, read: impl FnOnce(Cursor<'a>) -> T) -> T {
        self.get(key).map(read).unwrap_or_default()
    }
}
