//! Ids for inserted records: derived from their content, so that repeating a repair gives the same
//! ids.

use segno_core::digest::Digest;

/// A digest of `fields` in the form of a random UUID.
pub(crate) fn uuid(fields: &[&[u8]]) -> String {
    let mut hex = Digest::of_fields(fields).to_string();
    hex.truncate(32);
    hex.replace_range(12..13, "4");
    hex.replace_range(16..17, "8");
    for at in [20, 16, 12, 8] {
        hex.insert(at, '-');
    }
    hex
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn derived_uuid_is_well_formed_and_deterministic() {
        let id = uuid(&[b"a", b"b"]);
        assert_eq!(id, uuid(&[b"a", b"b"]));
        assert_ne!(id, uuid(&[b"ab", b""]));
        let groups: Vec<_> = id.split('-').map(str::len).collect();
        assert_eq!(groups, [8, 4, 4, 4, 12]);
        assert_eq!((&id[14..15], &id[19..20]), ("4", "8"));
    }
}
