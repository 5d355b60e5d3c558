//! The size of a model's context window. Claude Code reports it when a run has ended, which is too
//! late for the run itself.

/// The size of the context window in tokens, by source.
#[derive(Debug, Clone, Copy, Default)]
pub(super) struct Window {
    /// Configured by the user.
    pub(super) configured: Option<u64>,
    /// Reported by the program at the end of this run.
    pub(super) reported: Option<u64>,
    /// Reported by the program in an earlier run.
    pub(super) earlier: Option<u64>,
}

impl Window {
    /// The first source that has a value, else the default for the model's family.
    pub(super) fn size_for(self, model: Option<&str>) -> Option<u64> {
        let known = self.configured.or(self.reported).or(self.earlier);
        known.or_else(|| default_for_family(model?))
    }
}

/// The context window of a family of models, as Claude Code 2.1.325 reports it; `None` for unknown
/// models.
pub fn default_for_family(model: &str) -> Option<u64> {
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
    fn configured_window_precedes_reported_and_default() {
        let model = Some("claude-sonnet-4-5");
        let mut window = Window::default();
        assert_eq!(window.size_for(model), Some(200_000));
        window.earlier = Some(3);
        assert_eq!(window.size_for(model), Some(3));
        window.reported = Some(2);
        assert_eq!(window.size_for(model), Some(2));
        window.configured = Some(1);
        assert_eq!(window.size_for(model), Some(1));
    }

    #[test]
    fn model_families_have_default_windows() {
        for (model, window) in [
            ("claude-3-5-haiku-latest", Some(200_000)),
            ("claude-sonnet-4-5", Some(200_000)),
            ("claude-sonnet-4-5[1m]", Some(1_000_000)),
            ("claude-opus-5-5", Some(1_000_000)),
            ("claude-stranger-9", None),
            ("gpt-5.5", None),
        ] {
            assert_eq!(default_for_family(model), window, "{model}");
        }
        assert_eq!(Window::default().size_for(None), None);
    }
}
