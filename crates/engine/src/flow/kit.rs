//! What one model may ask for, whoever it comes from.

use std::path::Path;
use std::sync::Arc;

use segno_core::model::{Tool, ToolCall};
use segno_core::tool::{Class, Tools};

/// The longest name that models can say.
const LONGEST_NAME: usize = 64;

/// Tools from several places, each under a name of its own.
#[derive(Default)]
pub(crate) struct Kit {
    held: Vec<Held>,
}

struct Held {
    /// As models see it.
    tool: Tool,
    class: Class,
    /// What it is called where it comes from.
    name: String,
    from: Arc<dyn Tools>,
}

impl Kit {
    /// Takes in what `from` offers and `allows` lets through. A name that is taken, or that models
    /// cannot say, gets `owner` before it.
    pub(super) fn add(
        &mut self,
        owner: Option<&str>,
        from: &Arc<dyn Tools>,
        allows: impl Fn(&str) -> bool,
    ) {
        for offer in from.offers() {
            let own = &offer.tool.name;
            if !allows(own) {
                continue;
            }
            let Some(name) = self.name(owner, own) else {
                continue;
            };
            self.held.push(Held {
                tool: Tool {
                    name,
                    ..offer.tool.clone()
                },
                class: offer.class,
                name: own.clone(),
                from: Arc::clone(from),
            });
        }
    }

    /// The name under which a tool is offered: its own, or a longer one that is free. What has no
    /// owner and is there already is not offered twice.
    fn name(&self, owner: Option<&str>, own: &str) -> Option<String> {
        let spoken = |c: char| c.is_ascii_alphanumeric() || "_-".contains(c);
        let plain = !own.is_empty() && own.len() <= LONGEST_NAME && own.chars().all(spoken);
        if plain && self.get(own).is_none() {
            return Some(own.to_owned());
        }
        let long = format!("{}_{own}", owner?);
        let long: Vec<char> = long
            .chars()
            .map(|c| if spoken(c) { c } else { '_' })
            .collect();
        let numbers = (2..).map(|n| format!("_{n}"));
        let names = std::iter::once(String::new()).chain(numbers).map(|end| {
            let most = long.len().min(LONGEST_NAME - end.len());
            long[..most].iter().collect::<String>() + &end
        });
        names.into_iter().find(|name| self.get(name).is_none())
    }

    /// What is offered to a model that may use what `allows` says.
    pub(super) fn offered(&self, allows: impl Fn(&str) -> bool) -> Vec<Tool> {
        let tools = self.held.iter().map(|held| &held.tool);
        tools.filter(|tool| allows(&tool.name)).cloned().collect()
    }

    /// What happens if a tool is run twice; `None` if there is no such tool.
    pub(super) fn class(&self, name: &str) -> Option<Class> {
        self.get(name).map(|held| held.class)
    }

    /// Runs a tool.
    pub(super) async fn run(&self, call: &ToolCall, workspace: &Path) -> Result<String, String> {
        let held = self
            .get(&call.name)
            .ok_or_else(|| format!("there is no tool `{}`", call.name))?;
        let call = ToolCall {
            name: held.name.clone(),
            ..call.clone()
        };
        held.from.run(&call, workspace).await
    }

    fn get(&self, name: &str) -> Option<&Held> {
        self.held.iter().find(|held| held.tool.name == name)
    }
}

#[cfg(test)]
mod tests {
    use segno_core::ports::Boxed;
    use segno_core::tool::Offer;

    use super::*;

    struct Some(Vec<Offer>);

    impl Tools for Some {
        fn offers(&self) -> &[Offer] {
            &self.0
        }

        fn run<'a>(&'a self, call: &'a ToolCall, _: &'a Path) -> Boxed<'a, Result<String, String>> {
            Box::pin(std::future::ready(Ok(call.name.clone())))
        }
    }

    fn tools(names: &[&str]) -> Arc<dyn Tools> {
        let offer = |name: &&str| Offer {
            tool: Tool {
                name: (*name).to_owned(),
                description: String::new(),
                schema: serde_json::json!({}),
            },
            class: Class::ReadOnly,
        };
        Arc::new(Some(names.iter().map(offer).collect()))
    }

    fn names(kit: &Kit) -> Vec<String> {
        let offered = kit.offered(|_| true).into_iter();
        offered.map(|tool| tool.name).collect()
    }

    #[tokio::test]
    async fn names_stay_where_they_can_and_differ() {
        let mut kit = Kit::default();
        let long = "x".repeat(70);
        kit.add(None, &tools(&["head", "head"]), |_| true);
        kit.add(
            Option::Some("a"),
            &tools(&["read", "head", "get it", &long]),
            |_| true,
        );
        kit.add(
            Option::Some("b.c"),
            &tools(&["read", "a_head", "no"]),
            |name| name != "no",
        );
        kit.add(Option::Some("a"), &tools(&["head"]), |_| true);
        let cut = format!("a_{}", "x".repeat(62));
        let expected = [
            "head",
            "read",
            "a_head",
            "a_get_it",
            &cut,
            "b_c_read",
            "b_c_a_head",
            "a_head_2",
        ];
        assert_eq!(names(&kit), expected);
        let call = ToolCall {
            id: "1".into(),
            name: "b_c_read".into(),
            input: serde_json::json!({}),
        };
        assert_eq!(kit.run(&call, Path::new("/")).await, Ok("read".to_owned()));
    }
}
