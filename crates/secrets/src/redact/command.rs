//! Passwords in the short options of commands: `curl -u user:X`, `mysql -pX`, `sshpass -p X`.

use std::ops::Range;

use super::assignment;
use super::name::Confidence;
use super::piece::{Hit, Piece};
use super::shape;

/// Where an option keeps its secret.
#[derive(Clone, Copy)]
enum Form {
    /// After the colon of the next argument, or of the rest of this one.
    Login,
    /// The next argument, or the rest of this one.
    Value,
    /// Only the rest of this one.
    Attached,
    /// The option is a prefix of the argument itself.
    Prefixed,
}

/// A program, the word after it that it must have, and its options.
struct Program(&'static str, &'static str, &'static [(&'static str, Form)]);

/// The programs that are searched for, in the order of [`OPTIONS`].
#[rustfmt::skip]
pub(super) const PROGRAMS: [&str; 21] = [
    "curl", "mysql", "mariadb", "sshpass", "docker", "podman", "nerdctl", "skopeo", "twine",
    "redis-cli", "ldap", "zip", "7z ", "mongo", "openssl", "htpasswd", "az login", "oc login",
    "helm registry", "http ", "gh ",
];

const LOGIN: &[(&str, Form)] = &[("-p", Form::Value)];

const OPTIONS: [Program; PROGRAMS.len()] = [
    Program(
        "curl",
        "",
        &[
            ("-u", Form::Login),
            ("--user", Form::Login),
            ("-U", Form::Login),
            ("--proxy-user", Form::Login),
        ],
    ),
    Program("mysql", "", &[("-p", Form::Attached)]),
    Program("mariadb", "", &[("-p", Form::Attached)]),
    Program("sshpass", "", &[("-p", Form::Value)]),
    Program("docker", "login", LOGIN),
    Program("podman", "login", LOGIN),
    Program("nerdctl", "login", LOGIN),
    Program("skopeo", "login", LOGIN),
    Program("twine", "upload", LOGIN),
    Program("redis-cli", "", &[("-a", Form::Value)]),
    Program("ldap", "", &[("-w", Form::Value)]),
    Program("zip", "", &[("-P", Form::Value)]),
    Program("7z ", "", &[("-p", Form::Attached)]),
    Program("mongo", "", &[("-p", Form::Value)]),
    Program("openssl", "", &[("pass:", Form::Prefixed)]),
    Program("htpasswd", "-b", &[]),
    Program("az login", "", LOGIN),
    Program("oc login", "", LOGIN),
    Program("helm registry", "login", LOGIN),
    Program("http ", "", &[("-a", Form::Login)]),
    Program(
        "gh ",
        "secret",
        &[("--body", Form::Value), ("-b", Form::Value)],
    ),
];

/// A longer command is read up to here.
const LONGEST_COMMAND: usize = 2000;

/// Finds the secrets in the command of a program that starts at `start`. Returns the end of what was
/// read.
pub(super) fn find(piece: &Piece<'_>, start: usize, program: usize, hits: &mut Vec<Hit>) -> usize {
    let Program(word, required, options) = &OPTIONS[program];
    // `unzip` has the options of `zip`.
    let unzip = piece.text[..start].ends_with("un") && piece.begins_word(start - 2);
    if !piece.begins_word(start) && !unzip {
        return start;
    }
    let arguments = arguments(piece, start);
    let end = arguments.last().map_or(start, |last| last.end);
    let text = |range: &Range<usize>| &piece.text[range.clone()];
    if !required.is_empty() && !arguments.iter().any(|argument| text(argument) == *required) {
        return end;
    }
    let mut hide = |range: Range<usize>| {
        let value = &piece.text[range.clone()];
        if is_password(value) {
            hits.push(piece.hide(range, "password"));
        }
    };
    for (index, argument) in arguments.iter().enumerate() {
        let found = options
            .iter()
            .find_map(|(option, form)| Some((text(argument).strip_prefix(option)?, *form)));
        let Some((rest, form)) = found else { continue };
        // `-p X`, `-pX`, `-p=X`, `-p'X'`.
        let attached = rest.trim_start_matches('=');
        let next = arguments.get(index + 1);
        let value = match (attached, form) {
            ("", Form::Attached) => next.filter(|next| next.start == argument.end + 1).cloned(),
            ("", _) => next.cloned(),
            _ => Some(argument.end - attached.len()..argument.end),
        };
        let Some(value) = value else { continue };
        match form {
            Form::Login => {
                if let Some(colon) = text(&value).find(':') {
                    hide(value.start + colon + 1..value.end);
                }
            }
            Form::Value | Form::Attached | Form::Prefixed => hide(value),
        }
    }
    if *word == "htpasswd"
        && let [_, .., last] = arguments.as_slice()
    {
        hide(last.clone());
    }
    end
}

/// Whether an argument in the place of a password is one, and no hint to the reader.
fn is_password(value: &str) -> bool {
    let harmless = value.starts_with('-')
        || shape::is_common_word(value)
        || shape::is_stand_in(value)
        || shape::is_rooted_path(value);
    !harmless && assignment::is_secret(Confidence::Strong, value)
}

/// The arguments of the command at `start`, without their quotes: up to the end of the line or of the
/// command.
fn arguments(piece: &Piece<'_>, start: usize) -> Vec<Range<usize>> {
    let bytes = piece.text.as_bytes();
    let limit = bytes.len().min(start + LONGEST_COMMAND);
    let mut arguments = Vec::new();
    let mut at = start;
    while at < limit {
        match bytes[at] {
            b'\n' | b'|' | b';' | b'&' | b'<' | b'>' => break,
            b'\\' if matches!(bytes.get(at + 1), Some(b'n' | b'r')) => break,
            b'\\' if bytes.get(at + 1) == Some(&b'\n') => at += 2,
            quote @ (b'"' | b'\'') => {
                let end = piece.run(at + 1, |byte| {
                    byte != quote && byte != b'\n' && byte != b'\\'
                });
                // A quote around the whole command: its arguments follow.
                let whole = piece.text[at + 1..end].contains(' ');
                if !whole && end > at + 1 {
                    arguments.push(at + 1..end);
                    at = end;
                }
                at += 1;
            }
            b' ' | b'\t' | b',' | b'[' | b']' | b'(' | b')' | b'`' | b'\\' => at += 1,
            _ => {
                let end = piece.run(at, |byte| {
                    byte > b' ' && !b"\"'`,[]()|;\\<>".contains(&byte)
                });
                let end = end.max(at + 1);
                arguments.push(at..end);
                at = end;
            }
        }
    }
    arguments
}
