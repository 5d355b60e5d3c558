//! What one reader was shown of the running answers of a session.
//!
//! A preview is sent as what follows the text that the reader has. It is dropped if the reader got a
//! newer event of its step: the file may lag behind the journal for a moment.

use std::collections::VecDeque;
use std::sync::Arc;

use segno_core::id::SessionId;
use segno_core::journal::Seq;
use segno_core::preview::{Preview, StepPreview};
use segno_core::step::Path;
use serde_json::json;

/// How many events are remembered that replaced previews. Older ones than these are in the preview.
const REPLACED: usize = 64;

/// What a reader was shown of one session.
#[derive(Default)]
pub(super) struct Shown {
    /// How many changes had been reported before the preview was read.
    changes: Option<u64>,
    newest: Option<Arc<Preview>>,
    replaced: VecDeque<(Path, Seq)>,
}

impl Shown {
    /// Whether the preview was read after this many changes.
    pub(super) fn is_current(&self, changes: u64) -> bool {
        self.changes == Some(changes)
    }

    /// The reader got an event that replaces the preview of a step.
    pub(super) fn replace(&mut self, path: &Path, seq: Seq) {
        self.replaced.retain(|(known, _)| known != path);
        if self.replaced.len() == REPLACED {
            self.replaced.pop_front();
        }
        self.replaced.push_back((path.clone(), seq));
    }

    /// The frames for a preview that was read after this many changes.
    pub(super) fn update(
        &mut self,
        session: SessionId,
        changes: u64,
        preview: Option<Arc<Preview>>,
    ) -> Vec<String> {
        self.changes = Some(changes);
        let steps = preview.iter().flat_map(|preview| &preview.steps);
        let steps = steps.filter(|step| !self.is_replaced(step));
        let frames = steps.filter_map(|step| self.frame(session, step));
        let frames = frames.collect();
        self.newest = preview;
        frames
    }

    fn is_replaced(&self, step: &StepPreview) -> bool {
        let mut replaced = self.replaced.iter();
        replaced.any(|(path, seq)| *path == step.path && *seq > step.since)
    }

    /// The text that the reader does not have yet.
    fn frame(&self, session: SessionId, step: &StepPreview) -> Option<String> {
        let known = self.newest.iter().flat_map(|preview| &preview.steps);
        let is_same = |known: &&StepPreview| {
            let place = |step: &StepPreview| (step.path.clone(), step.attempt, step.since);
            place(known) == place(step)
        };
        let known = known.filter(|known| !self.is_replaced(known)).find(is_same);
        let known = known.map_or("", |known| &known.text);
        // A secret may be found only in its last line: then earlier text changes.
        let offset = common_prefix(known, &step.text);
        if offset == step.text.len() {
            return None;
        }
        let body = json!({
            "v": 1,
            "kind": "preview",
            "session": session,
            "path": step.path,
            "attempt": step.attempt,
            "offset": step.text[..offset].chars().count(),
            "text": &step.text[offset..],
        });
        Some(format!("event: preview\ndata: {body}\n\n"))
    }
}

/// The length of the common beginning of two texts.
fn common_prefix(a: &str, b: &str) -> usize {
    if b.starts_with(a) {
        return a.len();
    }
    let pairs = a.char_indices().zip(b.chars());
    let differing = pairs.into_iter().find(|((_, a), b)| a != b);
    differing.map_or(a.len().min(b.len()), |((at, _), _)| at)
}

#[cfg(test)]
mod tests {
    use segno_core::journal::Run;

    use super::*;

    fn preview(since: u64, text: &str) -> Arc<Preview> {
        let step = StepPreview {
            path: Path::root("steps").join(0),
            attempt: 1,
            since: Seq(since),
            text: text.to_owned(),
        };
        Arc::new(Preview {
            v: 1,
            run: Run(1),
            steps: vec![step],
        })
    }

    /// The offset and the text of each frame.
    fn shown(shown: &mut Shown, preview: Option<Arc<Preview>>) -> Vec<(u64, String)> {
        let session = SessionId::new(segno_core::time::Timestamp(0), [0; 10]);
        let frames = shown.update(session, 0, preview);
        let parse = |frame: String| {
            let data = frame.split_once("data: ").unwrap().1;
            let data: serde_json::Value = serde_json::from_str(data).unwrap();
            let text = data["text"].as_str().unwrap().to_owned();
            (data["offset"].as_u64().unwrap(), text)
        };
        frames.into_iter().map(parse).collect()
    }

    #[test]
    fn reader_gets_what_it_does_not_have() {
        let mut reader = Shown::default();
        let said = |offset, text: &str| vec![(offset, text.to_owned())];
        assert_eq!(shown(&mut reader, Some(preview(3, "é\n"))), said(0, "é\n"));
        assert_eq!(shown(&mut reader, Some(preview(3, "é\n"))), []);
        assert_eq!(
            shown(&mut reader, Some(preview(3, "é\nb\n"))),
            said(2, "b\n")
        );
        // A secret is found later.
        assert_eq!(
            shown(&mut reader, Some(preview(3, "é\n[x]\n"))),
            said(2, "[x]\n")
        );
        // The next answer of the step begins anew.
        assert_eq!(shown(&mut reader, Some(preview(7, "é\n"))), said(0, "é\n"));
        assert_eq!(shown(&mut reader, None), []);
    }

    #[test]
    fn replaced_preview_is_not_shown_again() {
        let mut reader = Shown::default();
        let path = Path::root("steps").join(0);
        assert_eq!(shown(&mut reader, Some(preview(3, "a\n"))).len(), 1);
        reader.replace(&path, Seq(4));
        assert_eq!(shown(&mut reader, Some(preview(3, "a\nb\n"))), []);
        assert_eq!(shown(&mut reader, Some(preview(4, "c\n"))).len(), 1);
    }
}
