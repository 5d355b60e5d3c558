//! Quotes and parses shell words.

/// Quotes a text as one shell word. Shells interpret nothing inside single quotes.
pub fn quoted(text: &str) -> String {
    format!("'{}'", text.replace('\'', r"'\''"))
}

/// Splits a command that consists only of plain and single-quoted words. Returns `None` if a shell
/// would do more than start it.
pub fn words(command: &str) -> Option<Vec<String>> {
    let mut words = Vec::new();
    let mut word: Option<String> = None;
    let mut rest = command.chars();
    while let Some(sign) = rest.next() {
        match sign {
            ' ' => words.extend(word.take()),
            '\'' => {
                let word = word.get_or_insert_default();
                loop {
                    match rest.next()? {
                        '\'' => break,
                        inner => word.push(inner),
                    }
                }
            }
            '\\' => word
                .get_or_insert_default()
                .push(rest.next().filter(|next| *next == '\'')?),
            plain if plain.is_ascii_alphanumeric() || "/_-.+,:@%".contains(plain) => {
                word.get_or_insert_default().push(plain);
            }
            _ => return None,
        }
    }
    words.extend(word);
    Some(words)
}

#[cfg(test)]
mod tests {
    use std::process::Command;

    use super::*;

    const NASTY: [&str; 6] = [
        "/usr/bin/segno",
        "/a b/it's $(here)/`x`/\"q\"/\\n",
        "/tmp/;rm -rf *&|<>!#~",
        "/new\nline",
        "''",
        "/ünï/'/'",
    ];

    #[test]
    fn quoted_text_parses_to_one_word() {
        for text in NASTY {
            assert_eq!(words(&quoted(text)), Some(vec![text.to_owned()]));
            let command = format!("{} __hook {}", quoted(text), quoted("x y"));
            assert_eq!(
                words(&command),
                Some(vec![text.into(), "__hook".into(), "x y".into()])
            );
        }
    }

    #[test]
    fn shell_reads_quoted_text_unchanged() {
        for shell in ["sh", "bash"] {
            for text in NASTY {
                let script = format!("printf %s {}", quoted(text));
                let output = Command::new(shell).arg("-c").arg(script).output().unwrap();
                assert_eq!(String::from_utf8(output.stdout).unwrap(), text);
            }
        }
    }

    #[test]
    fn shell_syntax_is_refused() {
        for command in [
            "a; b", "a && b", "$HOME/x", "a \"b\"", "'open", "a\\", "a > b", "`a`",
        ] {
            assert_eq!(words(command), None, "{command}");
        }
    }
}
