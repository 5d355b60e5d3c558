//! Finds the byte ranges of a record's members, so that one can be changed and no other byte.

use std::ops::Range;

use super::json::text_end;

/// The range of a member's value. `line[object]` must be an object that [`super::json::parse`] accepted; `None`
/// if it has no such member.
pub(crate) fn member(line: &[u8], object: Range<usize>, key: &str) -> Option<Range<usize>> {
    let mut at = space_end(line, object.start);
    if line.get(at) != Some(&b'{') {
        return None;
    }
    at += 1;
    loop {
        at = space_end(line, at);
        if line.get(at) != Some(&b'"') {
            return None;
        }
        let name = at..text_end(line, at);
        at = space_end(line, name.end);
        at = space_end(line, at + usize::from(line.get(at) == Some(&b':')));
        let value = at..value_end(line, at);
        if serde_json::from_slice::<String>(line.get(name)?).is_ok_and(|name| name == key) {
            return Some(value);
        }
        at = space_end(line, value.end);
        if at >= object.end || line.get(at) != Some(&b',') {
            return None;
        }
        at += 1;
    }
}

/// The ranges of the items of an array.
pub(crate) fn items(line: &[u8], array: Range<usize>) -> Vec<Range<usize>> {
    let mut found = Vec::new();
    let mut at = space_end(line, array.start);
    if line.get(at) != Some(&b'[') {
        return found;
    }
    at = space_end(line, at + 1);
    while at < array.end && line[at] != b']' {
        let value = at..value_end(line, at);
        at = space_end(line, value.end);
        found.push(value);
        if line.get(at) == Some(&b',') {
            at = space_end(line, at + 1);
        } else {
            break;
        }
    }
    found
}

fn space_end(line: &[u8], at: usize) -> usize {
    let rest = line.get(at..).unwrap_or_default();
    at + rest
        .iter()
        .take_while(|byte| b" \t\r\n".contains(byte))
        .count()
}

fn value_end(line: &[u8], at: usize) -> usize {
    let (mut depth, mut at) = (0_usize, at);
    while at < line.len() {
        match line[at] {
            b'"' => at = text_end(line, at),
            b'{' | b'[' => {
                depth += 1;
                at += 1;
            }
            b'}' | b']' | b',' | b' ' | b'\t' | b'\r' if depth == 0 => return at,
            b'}' | b']' => {
                depth -= 1;
                at += 1;
            }
            _ => {
                at += 1;
                continue;
            }
        }
        if depth == 0 {
            return at;
        }
    }
    at.min(line.len())
}

#[cfg(test)]
mod tests {
    use super::super::parse;
    use super::*;

    #[test]
    fn members_are_found_at_their_byte_ranges() {
        let line = br#" {"x":{"cwd":"no"}, "t":"\"cwd\":\"no\"" , "cw\u0064" : "yes" ,"l":[1,"a,]",{"b":[]}]}"#;
        assert!(parse(line).is_ok());
        let all = 0..line.len();
        let found = member(line, all.clone(), "cwd").unwrap();
        assert_eq!(&line[found], b"\"yes\"");
        assert_eq!(member(line, all.clone(), "no"), None);
        let list = member(line, all.clone(), "l").unwrap();
        let items: Vec<_> = items(line, list).into_iter().map(|at| &line[at]).collect();
        assert_eq!(items, [&b"1"[..], b"\"a,]\"", b"{\"b\":[]}"]);
        let inner = member(line, all, "x").unwrap();
        assert_eq!(&line[member(line, inner, "cwd").unwrap()], b"\"no\"");
    }
}
