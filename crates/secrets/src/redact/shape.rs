//! Classifies values: a word, a path, a number, a stand-in, or random.

use super::encoding;

/// Parts of values that people write in place of a secret.
#[rustfmt::skip]
const STAND_INS: [&str; 17] = [
    "example", "your", "placeholder", "changeme", "change-me", "change_me", "redacted", "dummy",
    "xxxx", "****", "....", "insert", "replace", "todo", "sample", "goes-here", "goes_here",
];

/// Configuration words that are never worth replacing.
#[rustfmt::skip]
const COMMON_WORDS: [&str; 34] = [
    "true", "false", "null", "none", "undefined", "enabled", "disabled", "required", "optional",
    "default", "development", "production", "staging", "testing", "localhost", "password",
    "passwd", "passw0rd", "pass", "secret", "token", "bearer", "basic", "admin", "administrator",
    "root", "guest", "user", "username", "test", "postgres", "postgresql", "mysql", "anonymous",
];

/// For each letter, those that often follow it in words and in names.
#[rustfmt::skip]
const FOLLOWERS: [&str; 26] = [
    "bcdfgiklmnprstuvwxy", "abeijlorsuy", "acehiklortuy", "adeiorsuy", "abcdefgilmnoprstuvwxy",
    "aefilortuy", "aeghilnorsu", "aeiortuy", "abcdefglmnoprstvxz", "aeosu", "aeilnosy",
    "adefiklmopstuvy", "abeimopsuy", "acdefgiklnostuvy", "abcdfgijklmnoprstuvwxy", "aehiloprstuy",
    "u", "abcdefgiklmnoprstuvy", "acehiklmnopqstuwy", "aehilmorstuwy", "abcdefgilmnprstx",
    "aeioru", "aehinors", "aceimpty", "acdeilmnopst", "aeioz",
];

/// Fewer pairs of letters than this tell nothing.
const LEAST_PAIRS: usize = 10;

/// Whether `value` is a common configuration word.
pub(super) fn is_common_word(value: &str) -> bool {
    COMMON_WORDS
        .iter()
        .any(|word| value.eq_ignore_ascii_case(word))
}

/// Whether `value` is a stand-in for a secret: a template, a variable, a hint to the reader, or a
/// repetition of the same few characters.
pub(super) fn is_stand_in(value: &str) -> bool {
    let lower = value.to_ascii_lowercase();
    let template = value.starts_with(['$', '<', '{', '[', '%', '(', '@', '#', '!'])
        || ["${", "{{", "#{", "$(", "%(", "[secret:"]
            .iter()
            .any(|mark| value.contains(mark));
    template || STAND_INS.iter().any(|word| lower.contains(word)) || distinct(value) <= 3
}

fn distinct(value: &str) -> usize {
    let mut seen = [false; 256];
    value
        .bytes()
        .for_each(|byte| seen[usize::from(byte)] = true);
    seen.iter().filter(|seen| **seen).count()
}

/// Whether `value` is a number, a timestamp or an IP address: only digits and their separators.
pub(super) fn is_numeric(value: &str) -> bool {
    value.parse::<f64>().is_ok()
        || value
            .bytes()
            .all(|byte| byte.is_ascii_digit() || b"TZ:.,+-_ /%".contains(&byte))
}

pub(super) fn is_uuid(value: &str) -> bool {
    value.len() == 36
        && value.bytes().enumerate().all(|(index, byte)| match index {
            8 | 13 | 18 | 23 => byte == b'-',
            _ => byte.is_ascii_hexdigit(),
        })
}

/// Whether the characters of `value` form words. Between two adjacent letters or digits, random text
/// switches between uppercase, lowercase and digits almost every second time (an uppercase letter before
/// lowercase ones is not a switch); names do so once per word.
pub(super) fn is_wordlike(value: &str) -> bool {
    let class = |byte: u8| match byte {
        b'a'..=b'z' => 1,
        b'A'..=b'Z' => 2,
        b'0'..=b'9' => 3,
        _ => 0,
    };
    let (mut pairs, mut changes) = (0, 0);
    for pair in value.as_bytes().windows(2) {
        let (before, after) = (class(pair[0]), class(pair[1]));
        if before != 0 && after != 0 {
            pairs += 1;
            changes += usize::from(before != after && (before, after) != (2, 1));
        }
    }
    changes * 10 < pairs * 3 && has_common_pairs(value)
}

/// Whether the pairs of adjacent letters in `value` are mostly those of words. Too few pairs tell nothing.
fn has_common_pairs(value: &str) -> bool {
    let (mut pairs, mut common) = (0, 0);
    for pair in value.as_bytes().windows(2) {
        if let [
            first @ (b'a'..=b'z' | b'A'..=b'Z'),
            second @ (b'a'..=b'z' | b'A'..=b'Z'),
        ] = pair
        {
            let first = usize::from(first.to_ascii_lowercase() - b'a');
            pairs += 1;
            common += usize::from(
                FOLLOWERS[first]
                    .as_bytes()
                    .contains(&second.to_ascii_lowercase()),
            );
        }
    }
    pairs < LEAST_PAIRS || common * 10 >= pairs * 7
}

/// Whether `value` is random letters and digits without another explanation: no digest, id, name or
/// number.
pub(super) fn is_random_token(value: &str) -> bool {
    let body = value.trim_end_matches('=');
    let simple = |byte: u8| byte.is_ascii_alphanumeric() || b"_-+/.~!#%^*=&$@".contains(&byte);
    let digest = body
        .bytes()
        .all(|byte| byte.is_ascii_hexdigit() || byte == b'-');
    let letters = value.bytes().any(|byte| byte.is_ascii_alphabetic());
    let digits = value.bytes().any(|byte| byte.is_ascii_digit());
    let random = if digits {
        !is_identifier(body) && !is_wordlike(body)
    } else {
        body.len() >= 16 && !is_wordlike(body)
    };
    letters
        && random
        && value.bytes().all(simple)
        && !digest
        && !is_ulid(value)
        && !is_typed_id(value)
        && !is_stand_in(value)
        && !is_numeric(value)
        && !is_path(value)
        && entropy(body) >= least_entropy(body.len())
}

/// A little less than the entropy of random letters and digits of this length: a short text cannot
/// contain every character.
pub(super) fn least_entropy(length: usize) -> f64 {
    ((length as f64).log2() - 0.9).min(4.5)
}

/// Whether `value` is a ULID: a timestamp and randomness in 26 digits of base 32.
fn is_ulid(value: &str) -> bool {
    value.len() == 26
        && value.starts_with(|first| ('0'..='7').contains(&first))
        && value.bytes().all(|byte| {
            (byte.is_ascii_digit() || byte.is_ascii_uppercase()) && !b"ILOU".contains(&byte)
        })
}

/// A short word and a separator before the random part, as services write the ids of their objects.
pub(super) fn is_typed_id(token: &str) -> bool {
    const SECRET_TYPES: [&str; 7] = ["key", "token", "secret", "api", "pat", "sk", "auth"];
    token.split_once(['_', '-']).is_some_and(|(kind, _)| {
        (2..=16).contains(&kind.len())
            && kind.bytes().all(|byte| byte.is_ascii_lowercase())
            && !SECRET_TYPES.contains(&kind)
    })
}

/// Whether `value` looks like a name in code or configuration: words, each possibly with a small number,
/// joined by separators.
pub(super) fn is_identifier(value: &str) -> bool {
    is_wordlike(value)
        && value.split(['_', '-', '.', '/', ':']).all(|part| {
            let word = part.trim_end_matches(|announcement: char| announcement.is_ascii_digit());
            let digits = part.len() - word.len();
            digits <= 4 && word.bytes().all(|byte| byte.is_ascii_alphabetic())
        })
}

/// Whether `value` is a path from a known root. One random part makes it none: `/` also occurs in
/// base64.
pub(super) fn is_rooted_path(value: &str) -> bool {
    let rooted = ["/", "./", "../", "~/", "\\\\"]
        .iter()
        .any(|root| value.starts_with(root))
        || matches!(value.as_bytes(), [drive, b':', b'\\' | b'/', ..] if drive.is_ascii_alphabetic());
    let random = |part: &str| {
        part.len() >= 16 && has_all_kinds(part) && !is_wordlike(part) && !part.contains('.')
    };
    rooted && !value.split(['/', '\\']).any(random)
}

/// Whether `value` is a path: from a known root, or words between slashes.
pub(super) fn is_path(value: &str) -> bool {
    let simple = |byte: u8| byte.is_ascii_alphanumeric() || b"/_.@-".contains(&byte);
    let relative = value.contains('/')
        && value.bytes().all(simple)
        && value.split('/').all(is_wordlike_or_short);
    relative || is_rooted_path(value)
}

fn is_wordlike_or_short(part: &str) -> bool {
    part.len() < 4 || is_wordlike(part)
}

/// Whether `value` has lowercase letters, uppercase letters and digits.
pub(super) fn has_all_kinds(value: &str) -> bool {
    value.bytes().any(|byte| byte.is_ascii_lowercase())
        && value.bytes().any(|byte| byte.is_ascii_uppercase())
        && value.bytes().any(|byte| byte.is_ascii_digit())
}

/// Whether `value` is base64 of readable text.
pub(super) fn is_encoded_text(value: &str) -> bool {
    encoding::decode_base64(value).is_some_and(|bytes| {
        std::str::from_utf8(&bytes).is_ok_and(|text| {
            text.chars().all(|announcement| {
                !announcement.is_control() || announcement.is_ascii_whitespace()
            })
        })
    })
}

/// The Shannon entropy of the bytes of `value`, in bits per byte.
pub(super) fn entropy(value: &str) -> f64 {
    let mut counts = [0_u32; 256];
    value
        .bytes()
        .for_each(|byte| counts[usize::from(byte)] += 1);
    let length = value.len() as f64;
    counts
        .iter()
        .filter(|count| **count > 0)
        .map(|count| {
            let share = f64::from(*count) / length;
            -share * share.log2()
        })
        .sum()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_are_wordlike_and_random_text_is_not() {
        for name in [
            "getUserByIdentifierAndName2",
            "snake_case_name_3",
            "AbstractFactoryBean",
            "x86_64-linux",
        ] {
            assert!(is_wordlike(name), "{name}");
        }
        assert!(!is_wordlike("qZ8mV2xK9wLp4TnR"));
    }

    #[test]
    fn identifiers_may_contain_small_numbers() {
        for name in [
            "db-credentials-v2",
            "self.password",
            "OAuth2",
            "my-app-tls-2024",
        ] {
            assert!(is_identifier(name), "{name}");
        }
        for value in [
            "a8f5f167f44f4964e6c998dee827110c",
            "p@ssw0rd!",
            "x9Kq2Lm7Zp",
        ] {
            assert!(!is_identifier(value), "{value}");
        }
    }

    #[test]
    fn paths_are_recognized_by_their_words() {
        for path in [
            "/tmp/ssh-agent.42/sock",
            "~/.ssh/id_ed25519",
            "src/redact/mod",
            r"C:\Users\me",
        ] {
            assert!(is_path(path), "{path}");
        }
        for value in [
            "/qZ8mV2xK9wLp4TnRb/7Yc",
            "plain-word",
            "qZ8mV2xK/9wLp4TnRb7Yc",
        ] {
            assert!(!is_path(value), "{value}");
        }
    }

    #[test]
    fn stand_ins_are_recognized() {
        for value in [
            "${TOKEN}",
            "<your key>",
            "xxxxxxxx",
            "********",
            "changeme",
            "{{ secret }}",
            "aaaaaaaa",
        ] {
            assert!(is_stand_in(value), "{value}");
        }
        assert!(!is_stand_in("hunter2hunter3"));
    }

    #[test]
    fn numbers_timestamps_and_ip_addresses_are_numeric() {
        for value in ["123456789", "1e10", "2024-01-15T10:00:00Z", "10.0.0.1:8080"] {
            assert!(is_numeric(value), "{value}");
        }
        assert!(!is_numeric("1a2b3c4d"));
    }

    #[test]
    fn entropy_counts_bits() {
        assert!(entropy("aaaa").abs() < 1e-9);
        assert!((entropy("abcd") - 2.0).abs() < 1e-9);
    }
}
