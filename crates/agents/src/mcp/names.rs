//! What tools are called where several servers are joined, and models allow few characters.

use std::collections::{HashMap, HashSet};

/// The longest name that every model takes.
const LONGEST: usize = 64;

/// A name for each tool, in order: as its server has it where only one server has it and it fits,
/// otherwise with the server's id before it. The same tools always get the same names.
pub(super) fn assign(tools: &[(&str, &str)]) -> Vec<String> {
    let mut count: HashMap<&str, usize> = HashMap::new();
    for (_, name) in tools {
        *count.entry(name).or_default() += 1;
    }
    let stays = |name: &str| count[name] == 1 && fits(name);
    let mut taken: HashSet<String> = tools
        .iter()
        .filter(|(_, name)| stays(name))
        .map(|(_, name)| (*name).to_owned())
        .collect();
    let mut named = Vec::with_capacity(tools.len());
    for (server, name) in tools {
        if stays(name) {
            named.push((*name).to_owned());
            continue;
        }
        let wanted = fitted(&format!("{server}_{name}"), "");
        let others = (2..).map(|n| fitted(&wanted, &format!("_{n}")));
        let free = std::iter::once(wanted.clone())
            .chain(others)
            .find(|name| !taken.contains(name))
            .expect("there are more numbers than tools");
        taken.insert(free.clone());
        named.push(free);
    }
    named
}

fn fits(name: &str) -> bool {
    !name.is_empty() && name.len() <= LONGEST && name.chars().all(is_allowed)
}

fn is_allowed(c: char) -> bool {
    c.is_ascii_alphanumeric() || c == '_' || c == '-'
}

/// The name with only allowed characters, short enough for what is put behind it.
fn fitted(name: &str, behind: &str) -> String {
    let allowed = name.chars().map(|c| if is_allowed(c) { c } else { '_' });
    let mut fitted: String = allowed.take(LONGEST - behind.len()).collect();
    fitted.push_str(behind);
    fitted
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_stay_where_they_can() {
        let long = "x".repeat(70);
        let tools = [
            ("a", "read"),
            ("a", "get.it"),
            ("a", "write"),
            ("b", "write"),
            ("b", "get it"),
            ("b", ""),
            ("b", long.as_str()),
            ("b", "a_write"),
        ];
        let cut = format!("b_{}", "x".repeat(62));
        assert_eq!(
            assign(&tools),
            [
                "read",
                "a_get_it",
                "a_write_2",
                "b_write",
                "b_get_it",
                "b_",
                cut.as_str(),
                "a_write"
            ]
        );
    }

    #[test]
    fn all_names_fit_and_differ() {
        let long = "ü".repeat(80);
        let tools: Vec<(&str, &str)> = ["s", "s", "t", &long].map(|id| (id, &*long)).to_vec();
        let names = assign(&tools);
        assert!(names.iter().all(|name| fits(name)), "{names:?}");
        let different: HashSet<&String> = names.iter().collect();
        assert_eq!(different.len(), names.len());
    }
}
