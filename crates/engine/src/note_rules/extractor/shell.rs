//! Splits a shell command line into its commands, without wrappers around them.
//!
//! This is not a shell. It knows words, quotes, operators and here-documents, which is enough to
//! distinguish a command that is run from one that is only mentioned. It leaves what it cannot parse
//! unchanged.

/// The maximum length of a command line that is parsed.
const LONGEST: usize = 16 * 1024;

/// The maximum nesting depth of shells that is followed.
const DEEPEST: usize = 4;

/// Programs that only run another program.
const WRAPPERS: [&str; 15] = [
    "env", "timeout", "time", "nice", "nohup", "sudo", "exec", "command", "stdbuf", "setsid",
    "ionice", "unbuffer", "xvfb-run", "chronic", "gtimeout",
];

/// Shell keywords that a command may follow.
const KEYWORDS: [&str; 10] = [
    "if", "then", "else", "elif", "while", "until", "do", "!", "{", "(",
];

const SHELLS: [&str; 5] = ["bash", "sh", "zsh", "dash", "ksh"];

/// The operator after a command.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Then {
    /// The next command reads this one's output.
    Pipe,
    /// The next command runs if this one succeeds.
    And,
    /// The next command runs if this one fails.
    Or,
    /// The next command runs in any case.
    Next,
    End,
}

/// One program with its arguments.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct Simple {
    /// The words of the command; there is at least one.
    pub(super) words: Vec<String>,
    /// Whether the output goes into a file.
    pub(super) redirected: bool,
    pub(super) then: Then,
}

impl Simple {
    /// The program's name, without its folder.
    pub(super) fn program(&self) -> &str {
        let first = self.words.first().map_or("", String::as_str);
        first.rsplit('/').next().unwrap_or(first)
    }

    pub(super) fn arguments(&self) -> &[String] {
        self.words.get(1..).unwrap_or_default()
    }

    /// The command roughly as it would be typed.
    pub(super) fn text(&self) -> String {
        self.words.join(" ")
    }
}

/// The commands in a line, in order.
pub(super) fn commands(line: &str) -> Vec<Simple> {
    let line = &line[..line.floor_char_boundary(LONGEST)];
    unwrapped(Lexer::new(line).commands(), 0)
}

/// The commands in a list of words, as some agents pass it to the system.
pub(super) fn commands_of(words: Vec<String>) -> Vec<Simple> {
    let simple = Simple {
        words,
        redirected: false,
        then: Then::End,
    };
    unwrapped(vec![simple], 0)
}

/// The same commands without wrappers; an inner shell is replaced by the commands that it runs.
fn unwrapped(commands: Vec<Simple>, depth: usize) -> Vec<Simple> {
    let mut all = Vec::new();
    for mut simple in commands {
        strip(&mut simple.words);
        let Some(inner) = script(&simple).filter(|_| depth < DEEPEST) else {
            if !simple.words.is_empty() {
                all.push(simple);
            }
            continue;
        };
        let inner = &inner[..inner.floor_char_boundary(LONGEST)];
        let mut inner = unwrapped(Lexer::new(inner).commands(), depth + 1);
        if let Some(last) = inner.last_mut() {
            last.then = simple.then;
            last.redirected |= simple.redirected;
        }
        all.extend(inner);
    }
    all
}

/// The script in `bash -lc "…"`.
fn script(simple: &Simple) -> Option<String> {
    if !SHELLS.contains(&simple.program()) {
        return None;
    }
    let mut words = simple.arguments().iter();
    let is_flag =
        |word: &&String| word.starts_with('-') && !word.starts_with("--") && word.ends_with('c');
    words.find(is_flag)?;
    words.next().cloned()
}

/// Removes wrappers, keywords and assignments before a command.
fn strip(words: &mut Vec<String>) {
    let mut at = 0;
    while let Some(word) = words.get(at) {
        let name = word.rsplit('/').next().unwrap_or(word);
        if KEYWORDS.contains(&word.as_str()) || is_assignment(word) {
            at += 1;
        } else if WRAPPERS.contains(&name) {
            at += 1 + own_words(name, &words[at + 1..]);
        } else {
            break;
        }
    }
    words.drain(..at.min(words.len()));
}

/// How many of the words belong to the wrapper itself.
fn own_words(wrapper: &str, words: &[String]) -> usize {
    let takes_value: &[&str] = match wrapper {
        "env" => &["-u", "-C", "-S"],
        "timeout" | "gtimeout" => &["-s", "-k", "--signal", "--kill-after"],
        "nice" | "ionice" => &["-n", "-c", "-p"],
        "sudo" => &["-u", "-g", "-C"],
        "stdbuf" => &["-o", "-e", "-i"],
        "xvfb-run" => &["-n", "-s"],
        _ => &[],
    };
    let mut count = 0;
    while let Some(word) = words.get(count) {
        if takes_value.contains(&word.as_str()) {
            count += 2;
        } else if word.starts_with('-') || is_assignment(word) {
            count += 1;
        } else {
            break;
        }
    }
    count + usize::from(wrapper.ends_with("timeout"))
}

fn is_assignment(word: &str) -> bool {
    let Some((name, _)) = word.split_once('=') else {
        return false;
    };
    let plain = |c: char| c.is_ascii_alphanumeric() || c == '_';
    name.starts_with(|c: char| c.is_ascii_alphabetic() || c == '_') && name.chars().all(plain)
}

struct Lexer<'a> {
    rest: std::iter::Peekable<std::str::Chars<'a>>,
    word: Option<String>,
    words: Vec<String>,
    redirected: bool,
    /// Terminators of here-documents whose text starts with the next line.
    documents: Vec<String>,
    done: Vec<Simple>,
}

impl<'a> Lexer<'a> {
    fn new(line: &'a str) -> Self {
        Self {
            rest: line.chars().peekable(),
            word: None,
            words: Vec::new(),
            redirected: false,
            documents: Vec::new(),
            done: Vec::new(),
        }
    }

    fn commands(mut self) -> Vec<Simple> {
        while let Some(c) = self.rest.next() {
            self.lex_char(c);
        }
        self.end(Then::End);
        self.done
    }

    fn lex_char(&mut self, c: char) {
        match c {
            '\'' => self.quoted('\''),
            '"' => self.quoted('"'),
            '`' => self.substituted('`'),
            '\\' => match self.rest.next() {
                None | Some('\n') => {}
                Some(next) => self.push(next),
            },
            '$' if self.rest.peek() == Some(&'(') => self.substituted(')'),
            '#' if self.word.is_none() => while self.rest.next_if(|c| *c != '\n').is_some() {},
            '|' if self.rest.next_if_eq(&'|').is_some() => self.end(Then::Or),
            '|' => {
                self.rest.next_if_eq(&'&');
                self.end(Then::Pipe);
            }
            '&' if self.rest.next_if_eq(&'&').is_some() => self.end(Then::And),
            '&' if self.rest.peek() == Some(&'>') => self.flush(),
            '&' | ';' | '(' | ')' => self.end(Then::Next),
            '\n' => {
                self.end(Then::Next);
                self.skip_documents();
            }
            '<' | '>' => self.redirect(c),
            c if c.is_whitespace() => self.flush(),
            c => self.push(c),
        }
    }

    fn push(&mut self, c: char) {
        self.word.get_or_insert_default().push(c);
    }

    fn flush(&mut self) {
        self.words.extend(self.word.take());
    }

    fn end(&mut self, then: Then) {
        self.flush();
        let words = std::mem::take(&mut self.words);
        let redirected = std::mem::take(&mut self.redirected);
        if words.is_empty() {
            return;
        }
        self.done.push(Simple {
            words,
            redirected,
            then,
        });
    }

    fn quoted(&mut self, mark: char) {
        self.word.get_or_insert_default();
        while let Some(c) = self.rest.next() {
            match c {
                c if c == mark => return,
                '\\' if mark == '"' => {
                    let next = self.rest.next();
                    if let Some(c) = next.filter(|c| *c != '\n') {
                        if !"\"\\$`".contains(c) {
                            self.push('\\');
                        }
                        self.push(c);
                    }
                }
                c => self.push(c),
            }
        }
    }

    /// Keeps a command substitution as it is written.
    fn substituted(&mut self, close: char) {
        self.push(if close == ')' { '$' } else { '`' });
        let mut depth = 0_usize;
        while let Some(c) = self.rest.next() {
            self.push(c);
            match c {
                '(' if close == ')' => depth += 1,
                c if c == close => {
                    depth = depth.saturating_sub(1);
                    if depth == 0 {
                        return;
                    }
                }
                _ => {}
            }
        }
    }

    fn redirect(&mut self, c: char) {
        // `2>` names a stream and is not a word.
        if self
            .word
            .as_deref()
            .is_some_and(|word| word.len() == 1 && word <= "9")
        {
            let stream = self.word.take();
            self.redirected |= c == '>' && stream.as_deref() == Some("1");
        } else {
            self.flush();
            self.redirected |= c == '>' && self.rest.peek() != Some(&'&');
        }
        let is_document = c == '<' && self.rest.next_if_eq(&'<').is_some();
        let is_string = is_document && self.rest.next_if_eq(&'<').is_some();
        while self.rest.next_if(|c| "->&|".contains(*c)).is_some() {}
        while self.rest.next_if(|c| *c == ' ' || *c == '\t').is_some() {}
        let target = self.target();
        if is_document && !is_string {
            self.documents.push(target);
        }
    }

    /// The target of a redirection.
    fn target(&mut self) -> String {
        let before = self.word.take();
        while let Some(c) = self.rest.peek().copied() {
            match c {
                '\'' | '"' => {
                    self.rest.next();
                    self.quoted(c);
                }
                c if c.is_whitespace() || "|&;<>()".contains(c) => break,
                c => {
                    self.rest.next();
                    self.push(c);
                }
            }
        }
        std::mem::replace(&mut self.word, before).unwrap_or_default()
    }

    /// Skips the text of here-documents, which is not a command.
    fn skip_documents(&mut self) {
        for end in std::mem::take(&mut self.documents) {
            loop {
                let mut line = String::new();
                let mut ended = true;
                for c in self.rest.by_ref() {
                    if c == '\n' {
                        ended = false;
                        break;
                    }
                    line.push(c);
                }
                if ended || line.trim_start_matches('\t') == end {
                    break;
                }
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn texts(line: &str) -> Vec<String> {
        commands(line).iter().map(Simple::text).collect()
    }

    #[test]
    fn wrappers_around_a_command_are_stripped() {
        for line in [
            "cargo test",
            "  cargo test  # now",
            "bash -lc 'cargo test'",
            "/bin/bash -lc \"cargo test\"",
            "bash -lc 'bash -c \"cargo test\"'",
            "RUST_LOG=debug A='x y' cargo test",
            "env -u X A=b timeout -k 5 60 nice -n 10 cargo test",
            "timeout 60s cargo \\\n test",
            "sudo -u me cargo test 2>&1",
            "cargo test >/dev/null 2>err.txt",
            "(cargo test)",
            "{ cargo test; }",
            "if cargo test; then :; fi",
        ] {
            assert_eq!(texts(line)[0], "cargo test", "{line}");
        }
        let words = ["bash", "-lc", "cd x && cargo test"].map(str::to_owned);
        let list = commands_of(words.to_vec());
        assert_eq!(list[1].text(), "cargo test");
        assert_eq!((list[0].then, list[1].then), (Then::And, Then::End));
    }

    #[test]
    fn commands_are_split_like_in_a_shell() {
        assert_eq!(
            texts("cd 'a b' && pytest -q 2>&1 | tail -5; echo $(date +%s) || true"),
            ["cd a b", "pytest -q", "tail -5", "echo $(date +%s)", "true"]
        );
        let line = commands("a | b |& c & d");
        let thens: Vec<Then> = line.iter().map(|simple| simple.then).collect();
        assert_eq!(thens, [Then::Pipe, Then::Pipe, Then::Next, Then::End]);
        let line = commands("make test > out.log 2>&1; cat <x >&2; a &> b");
        let into: Vec<bool> = line.iter().map(|simple| simple.redirected).collect();
        assert_eq!(into, [true, false, true]);
    }

    #[test]
    fn quoted_text_and_here_documents_are_not_commands() {
        assert_eq!(texts("echo 'cargo test; pytest'").len(), 1);
        assert_eq!(
            texts("cat > f <<'EOF' && ls\ncargo test\npytest\nEOF\nmake"),
            ["cat", "ls", "make"]
        );
        assert_eq!(texts("cat <<-X\n\tcargo test\n\tX\nls"), ["cat", "ls"]);
        assert_eq!(
            texts("grep -r \"cargo test\" . # pytest"),
            ["grep -r cargo test ."]
        );
        assert_eq!(texts("cat <<< 'cargo test'\nls"), ["cat", "ls"]);
    }
}
