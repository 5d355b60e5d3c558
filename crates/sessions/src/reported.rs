//! What CLI agents reported, step by step: their messages, to count turns and tool calls.

use std::collections::HashMap;

use segno_core::conversation::ConversationItem;
use segno_core::journal::{AgentMessages, Text};
use segno_core::step::Path;
use segno_core::store::Error as StoreError;
use segno_engine::steps::chat::Tally;
use segno_engine::{Env, journal};

/// The messages that CLI agents reported, by step.
#[derive(Default)]
pub(crate) struct Reported(HashMap<Path, Vec<Text>>);

impl Reported {
    pub(crate) fn add(&mut self, event: &AgentMessages) {
        let reported = self.0.entry(event.path.clone());
        reported.or_default().push(event.items.clone());
    }

    /// Whether a CLI agent reported anything in this step.
    pub(crate) fn has(&self, path: &Path) -> bool {
        self.0.contains_key(path)
    }

    /// Reads the messages and counts them, by step.
    pub(crate) async fn tallies(self, env: &Env) -> Result<HashMap<Path, Tally>, StoreError> {
        let mut tallies = HashMap::new();
        for (path, texts) in self.0 {
            let mut tally = Tally::default();
            for text in texts {
                let items = journal::load_text(env, &text).await?;
                let items: Vec<ConversationItem> = serde_json::from_str(&items).unwrap_or_default();
                items.iter().for_each(|item| tally.add(item));
            }
            tallies.insert(path, tally);
        }
        Ok(tallies)
    }
}
