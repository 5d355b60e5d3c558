//! How many tokens fit into a model's context. Claude Code says it when a run is over, which is too late
//! for the run itself.

/// How many tokens fit into the model's context, by who says so.
#[derive(Debug, Clone, Copy, Default)]
pub(super) struct Window {
    /// The person.
    pub(super) set: Option<u64>,
    /// The program, at the end of a run.
    pub(super) told: Option<u64>,
    /// The program, in an earlier run.
    pub(super) before: Option<u64>,
}

impl Window {
    /// How many it is for this model.
    pub(super) fn of(self, model: Option<&str>) -> Option<u64> {
        let said = self.set.or(self.told).or(self.before);
        said.or_else(|| usual(model?))
    }
}

/// How many tokens fit into the context of models of a family, as Claude Code 2.1.325 tells it. Of others
/// it is not guessed.
fn usual(model: &str) -> Option<u64> {
    const LARGE: u64 = 1_000_000;
    const FAMILIES: [(&str, u64); 7] = [
        ("claude-3-", 200_000),
        ("claude-haiku-4-", 200_000),
        ("claude-sonnet-4-", 200_000),
        ("claude-opus-4-", 200_000),
        ("claude-haiku-5", LARGE),
        ("claude-sonnet-5", LARGE),
        ("claude-opus-5", LARGE),
    ];
    if model.ends_with("[1m]") {
        return Some(LARGE);
    }
    let known = FAMILIES.iter().find(|(name, _)| model.starts_with(name));
    known.map(|(_, window)| *window)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_person_goes_before_the_program_and_the_program_before_what_is_usual() {
        let model = Some("claude-sonnet-4-5");
        let mut window = Window::default();
        assert_eq!(window.of(model), Some(200_000));
        window.before = Some(3);
        assert_eq!(window.of(model), Some(3));
        window.told = Some(2);
        assert_eq!(window.of(model), Some(2));
        window.set = Some(1);
        assert_eq!(window.of(model), Some(1));
    }

    #[test]
    fn families_have_their_windows_and_strangers_none() {
        for (model, window) in [
            ("claude-3-5-haiku-latest", Some(200_000)),
            ("claude-sonnet-4-5", Some(200_000)),
            ("claude-sonnet-4-5[1m]", Some(1_000_000)),
            ("claude-opus-5-5", Some(1_000_000)),
            ("claude-stranger-9", None),
            ("gpt-5.5", None),
        ] {
            assert_eq!(usual(model), window, "{model}");
        }
        assert_eq!(Window::default().of(None), None);
    }
}
