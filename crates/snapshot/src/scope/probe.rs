//! Entry points for fuzz targets.

use super::index;
use super::pattern::Pattern;

/// The names in a git index; `None` if it cannot be parsed.
pub fn index(bytes: &[u8]) -> Option<Vec<Box<[u8]>>> {
    index::names(bytes)
}

/// For each line of a `.gitignore` and each path: whether the line matches it, covers it, leads
/// into it.
pub fn patterns(lines: &[u8], paths: &[&str]) -> Vec<[bool; 3]> {
    let lines = lines.split(|byte| *byte == b'\n');
    let patterns: Vec<Pattern> = lines.filter_map(Pattern::line).collect();
    let mut results = Vec::new();
    for pattern in &patterns {
        let again: Result<Pattern, _> = pattern.to_string().parse();
        assert!(again.is_ok(), "{pattern} cannot be parsed again");
        for path in paths {
            let is_folder = path.ends_with('/');
            let names = path.trim_end_matches('/').split('/').map(str::as_bytes);
            let names: Vec<&[u8]> = names.collect();
            let matches = pattern.matches(&names, is_folder);
            let covers = pattern.covers(&names, is_folder);
            assert!(
                covers || !matches,
                "{pattern} matches {path} without covering it"
            );
            results.push([matches, covers, pattern.leads_into(&names)]);
        }
    }
    results
}
