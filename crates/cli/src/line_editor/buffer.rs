//! A text with a cursor. The cursor is always between two characters as a user sees them
//! (grapheme clusters).

use unicode_segmentation::UnicodeSegmentation;

use crate::output::text;

#[derive(Debug, Default)]
pub(super) struct Buffer {
    text: String,
    /// Byte offset.
    cursor: usize,
    /// The text that was deleted last as a whole, for [`Buffer::yank`].
    deleted: String,
}

impl Buffer {
    pub(super) fn text(&self) -> &str {
        &self.text
    }

    pub(super) fn cursor(&self) -> usize {
        self.cursor
    }

    /// Replaces the text and moves the cursor to its end.
    pub(super) fn set(&mut self, text: String) {
        self.cursor = text.len();
        self.text = text;
    }

    /// Returns the text and leaves an empty one.
    pub(super) fn take(&mut self) -> String {
        self.cursor = 0;
        std::mem::take(&mut self.text)
    }

    pub(super) fn insert(&mut self, c: char) {
        self.text.insert(self.cursor, c);
        self.cursor += c.len_utf8();
    }

    pub(super) fn left(&mut self) {
        self.cursor = self.previous();
    }

    pub(super) fn right(&mut self) {
        self.cursor = self.next();
    }

    pub(super) fn word_left(&mut self) {
        self.cursor = self.word_start(char::is_alphanumeric);
    }

    pub(super) fn word_right(&mut self) {
        self.cursor = self.word_end();
    }

    pub(super) fn line_start(&mut self) {
        self.cursor = self.start_of_line();
    }

    pub(super) fn line_end(&mut self) {
        self.cursor = self.end_of_line();
    }

    /// Moves to the line above. Returns false if there is none.
    pub(super) fn up(&mut self) -> bool {
        let start = self.start_of_line();
        if start == 0 {
            return false;
        }
        let above = self.text[..start - 1].rfind('\n').map_or(0, |at| at + 1);
        self.cursor = self.in_line(above, self.column());
        true
    }

    /// Moves to the line below. Returns false if there is none.
    pub(super) fn down(&mut self) -> bool {
        let end = self.end_of_line();
        if end == self.text.len() {
            return false;
        }
        self.cursor = self.in_line(end + 1, self.column());
        true
    }

    pub(super) fn backspace(&mut self) {
        let start = self.previous();
        self.text.replace_range(start..self.cursor, "");
        self.cursor = start;
    }

    pub(super) fn delete(&mut self) {
        let end = self.next();
        self.text.replace_range(self.cursor..end, "");
    }

    /// Deletes back to the whitespace before the cursor.
    pub(super) fn delete_word(&mut self) {
        let start = self.word_start(|c| !c.is_whitespace());
        self.cut(start, self.cursor);
    }

    pub(super) fn delete_word_forward(&mut self) {
        self.cut(self.cursor, self.word_end());
    }

    /// Deletes to the end of the line, or the line break that is there.
    pub(super) fn delete_to_line_end(&mut self) {
        let end = self.end_of_line();
        let end = if end == self.cursor { self.next() } else { end };
        self.cut(self.cursor, end);
    }

    pub(super) fn delete_all(&mut self) {
        self.cut(0, self.text.len());
    }

    /// Inserts the text that was deleted last as a whole.
    pub(super) fn yank(&mut self) {
        self.text.insert_str(self.cursor, &self.deleted);
        self.cursor += self.deleted.len();
    }

    fn cut(&mut self, start: usize, end: usize) {
        if start < end {
            self.deleted = self.text.drain(start..end).collect();
            self.cursor = start;
        }
    }

    fn previous(&self) -> usize {
        let mut before = self.text[..self.cursor].grapheme_indices(true);
        before.next_back().map_or(0, |(at, _)| at)
    }

    fn next(&self) -> usize {
        let after = self.text[self.cursor..].graphemes(true).next();
        self.cursor + after.map_or(0, str::len)
    }

    fn word_start(&self, is_word: impl Fn(char) -> bool) -> usize {
        let before = &self.text[..self.cursor];
        let trimmed = before.trim_end_matches(|c| !is_word(c));
        let start = trimmed.rfind(|c| !is_word(c));
        start.map_or(0, |at| self.text.ceil_char_boundary(at + 1))
    }

    fn word_end(&self) -> usize {
        let after = &self.text[self.cursor..];
        let word = after.trim_start_matches(|c: char| !c.is_alphanumeric());
        let rest = word.trim_start_matches(char::is_alphanumeric);
        self.text.len() - rest.len()
    }

    fn start_of_line(&self) -> usize {
        self.text[..self.cursor].rfind('\n').map_or(0, |at| at + 1)
    }

    fn end_of_line(&self) -> usize {
        let after = self.text[self.cursor..].find('\n');
        after.map_or(self.text.len(), |at| self.cursor + at)
    }

    fn column(&self) -> usize {
        text::columns(&self.text[self.start_of_line()..self.cursor])
    }

    /// Finds the position in the line that starts at `start` that is nearest to a column.
    fn in_line(&self, start: usize, column: usize) -> usize {
        let line = self.text[start..].split('\n').next().unwrap_or_default();
        let mut used = 0;
        for (at, cluster) in line.grapheme_indices(true) {
            used += text::columns(cluster);
            if used > column {
                return start + at;
            }
        }
        start + line.len()
    }
}
