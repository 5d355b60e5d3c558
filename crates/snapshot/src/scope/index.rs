//! Parses the names in a git index, versions 2 to 4 (gitformat-index).

/// The names in an index, sorted. A folder that a sparse index stores as one entry ends with a
/// slash.
///
/// `None` if the file cannot be parsed here: damaged, of another version, or a split index. Then
/// git has to be asked.
pub(crate) fn names(index: &[u8]) -> Option<Vec<Box<[u8]>>> {
    // The index does not state the length of its object ids. With the wrong length, parsing fails.
    [20, 32]
        .into_iter()
        .find_map(|length| Reader::new(index, length)?.read())
}

struct Reader<'a> {
    bytes: &'a [u8],
    at: usize,
    end: usize,
    version: u32,
    count: u32,
    id_length: usize,
}

impl<'a> Reader<'a> {
    fn new(bytes: &'a [u8], id_length: usize) -> Option<Self> {
        let mut reader = Self {
            bytes,
            at: 0,
            end: bytes.len().checked_sub(id_length)?,
            version: 0,
            count: 0,
            id_length,
        };
        if reader.take(4)? != b"DIRC" {
            return None;
        }
        reader.version = reader.number()?;
        reader.count = reader.number()?;
        (2..=4).contains(&reader.version).then_some(reader)
    }

    fn read(mut self) -> Option<Vec<Box<[u8]>>> {
        let mut names: Vec<Box<[u8]>> = Vec::new();
        let mut name = Vec::new();
        for _ in 0..self.count {
            self.entry(&mut name)?;
            // A path in conflict has an entry per stage.
            match names.last().map(|last| last.as_ref().cmp(&name)) {
                Some(std::cmp::Ordering::Equal) => {}
                Some(std::cmp::Ordering::Greater) => return None,
                _ => names.push(name.as_slice().into()),
            }
        }
        while self.at < self.end {
            let signature = self.take(4)?;
            if signature == b"link" {
                return None;
            }
            let length = self.number()?;
            self.take(usize::try_from(length).ok()?)?;
        }
        Some(names)
    }

    /// Parses one entry. `name` is the previous one, of which version 4 stores only the difference.
    fn entry(&mut self, name: &mut Vec<u8>) -> Option<()> {
        let start = self.at;
        self.take(40 + self.id_length)?;
        let flags = self.short()?;
        if flags & 0x4000 != 0 {
            if self.version < 3 {
                return None;
            }
            self.short()?;
        }
        if self.version == 4 {
            let dropped = self.offset()?;
            name.truncate(name.len().checked_sub(dropped)?);
        } else {
            name.clear();
        }
        let rest = self.bytes.get(self.at..self.end)?;
        let length = rest.iter().position(|byte| *byte == 0)?;
        name.extend_from_slice(&rest[..length]);
        let stated = usize::from(flags & 0xFFF);
        if name.is_empty() || stated != name.len().min(0xFFF) {
            return None;
        }
        if self.version == 4 {
            self.take(length + 1)?;
        } else {
            // One to eight zeros make the entry's length a multiple of eight.
            let used = self.at + length - start;
            self.take(length + 8 - used % 8)?;
        }
        Some(())
    }

    fn take(&mut self, length: usize) -> Option<&'a [u8]> {
        let next = self.at.checked_add(length)?;
        let taken = self.bytes.get(self.at..next.min(self.end))?;
        (taken.len() == length).then(|| self.at = next)?;
        Some(taken)
    }

    fn number(&mut self) -> Option<u32> {
        let bytes = self.take(4)?.try_into().ok()?;
        Some(u32::from_be_bytes(bytes))
    }

    fn short(&mut self) -> Option<u16> {
        let bytes = self.take(2)?.try_into().ok()?;
        Some(u16::from_be_bytes(bytes))
    }

    /// A number of variable length, as in packs.
    fn offset(&mut self) -> Option<usize> {
        let mut byte = self.take(1)?[0];
        let mut value = usize::from(byte & 0x7F);
        while byte & 0x80 != 0 {
            byte = self.take(1)?[0];
            value = value.checked_add(1)?.checked_mul(128)? | usize::from(byte & 0x7F);
        }
        Some(value)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn malformed_git_index_is_rejected() {
        assert_eq!(names(b""), None);
        assert_eq!(names(b"DIRC"), None);
        assert_eq!(names(&[0; 200]), None);
        let mut many = b"DIRC\0\0\0\x02\xff\xff\xff\xff".to_vec();
        many.extend([0; 64]);
        assert_eq!(names(&many), None);
    }

    #[test]
    fn an_empty_index_lists_nothing() {
        let mut empty = b"DIRC\0\0\0\x02\0\0\0\0".to_vec();
        empty.extend([7; 20]);
        assert_eq!(names(&empty), Some(Vec::new()));
    }

    /// An index of version 2 with these names, as git would write it.
    fn written(names: &[&str]) -> Vec<u8> {
        let count = u32::try_from(names.len()).unwrap();
        let mut index = [b"DIRC\0\0\0\x02".as_slice(), &count.to_be_bytes()].concat();
        for name in names {
            let start = index.len();
            index.extend([1; 60]);
            index.extend(u16::try_from(name.len()).unwrap().to_be_bytes());
            index.extend(name.as_bytes());
            let used = index.len() - start;
            index.extend(vec![0; 8 - used % 8]);
        }
        index.extend(b"TREE\0\0\0\x03abc");
        index.extend([9; 20]);
        index
    }

    #[test]
    fn damaged_git_index_never_panics() {
        let index = written(&["a", "b/c", "b/longer name", "z"]);
        assert_eq!(names(&index).map(|names| names.len()), Some(4));
        for end in 0..index.len() {
            let _ = names(&index[..end]);
        }
        for at in 0..index.len() {
            for bit in 0..8 {
                let mut changed = index.clone();
                changed[at] ^= 1 << bit;
                let _ = names(&changed);
            }
        }
    }
}
