//! The script that a shell command runs: Codex reports a command with the shell that it starts
//! (`/bin/bash -lc 'ls -l'`), and its rollout has what the model asked for (`ls -l`).

/// The script of a command line, without the shells around it.
pub(super) fn script(command: &str) -> String {
    match split(command.trim()).as_deref().and_then(inner) {
        Some(inner) => script(inner),
        None => command.trim().to_owned(),
    }
}

/// The script of a command that is given as a list of words.
pub(super) fn script_of_words(words: &[String]) -> String {
    inner(words).map_or_else(|| words.join(" "), script)
}

/// The script that a shell is started with.
fn inner(words: &[String]) -> Option<&str> {
    let [shell, option, script] = words else {
        return None;
    };
    let name = shell.rsplit('/').next().unwrap_or_default();
    let is_shell = ["bash", "sh", "zsh", "dash", "ksh"].contains(&name);
    (is_shell && ["-c", "-lc"].contains(&option.as_str())).then_some(script)
}

/// The words of a command line of at most three words; `None` for any other text, and for text with
/// anything that a shell would expand outside of quotes.
fn split(line: &str) -> Option<Vec<String>> {
    let mut words: Vec<String> = Vec::new();
    let mut word: Option<String> = None;
    let mut signs = line.chars();
    while let Some(sign) = signs.next() {
        match sign {
            ' ' => words.extend(word.take()),
            '\'' => {
                let word = word.get_or_insert_default();
                loop {
                    match signs.next()? {
                        '\'' => break,
                        sign => word.push(sign),
                    }
                }
            }
            '"' => {
                let word = word.get_or_insert_default();
                loop {
                    match signs.next()? {
                        '"' => break,
                        '\\' => match signs.next()? {
                            sign @ ('"' | '\\' | '$' | '`') => word.push(sign),
                            '\n' => {}
                            sign => word.extend(['\\', sign]),
                        },
                        sign => word.push(sign),
                    }
                }
            }
            '\\' => word.get_or_insert_default().push(signs.next()?),
            '\n' | ';' | '&' | '|' | '<' | '>' | '(' | ')' | '`' | '$' => return None,
            sign => word.get_or_insert_default().push(sign),
        }
        if words.len() > 3 {
            return None;
        }
    }
    words.extend(word);
    (words.len() == 3).then_some(words)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn script_is_found_within_its_shell() {
        for (command, expected) in [
            ("/bin/bash -lc 'ls -l'", "ls -l"),
            ("/bin/bash -lc ls", "ls"),
            ("bash -c \"echo it's \\$HOME\"", "echo it's $HOME"),
            ("/bin/bash -lc 'echo '\\''a'\\'' \"b\"'", "echo 'a' \"b\""),
            ("/bin/bash -lc 'bash -lc '\\''ls -l'\\'", "ls -l"),
            (
                "/usr/bin/zsh -lc 'for x in 1; do\n  echo \"$x\"\ndone'",
                "for x in 1; do\n  echo \"$x\"\ndone",
            ),
            // Other programs, further words, and what a shell would expand.
            ("python -c 'print(1)'", "python -c 'print(1)'"),
            ("bash -c ls -l", "bash -c ls -l"),
            ("bash -lc 'ls' | wc", "bash -lc 'ls' | wc"),
            ("bash -c 'open", "bash -c 'open"),
            ("ls", "ls"),
            ("", ""),
        ] {
            assert_eq!(script(command), expected, "{command}");
        }
        let words = ["bash", "-lc", "sh -c ls"].map(str::to_owned);
        assert_eq!(script_of_words(&words), "ls");
        assert_eq!(script_of_words(&["ls".into(), "-l".into()]), "ls -l");
    }
}
