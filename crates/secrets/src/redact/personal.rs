//! Personal data: e-mail addresses, card numbers, bank accounts, social security and phone numbers. Only
//! searched for if the user asks for it, because ordinary text is full of numbers.

use std::sync::LazyLock;

use regex::Regex;

use super::piece::{Hit, Piece};

static PATTERN: LazyLock<Regex> = LazyLock::new(|| {
    let patterns = [
        r"(?<email>[A-Za-z0-9._%+-]{1,64}@(?:[A-Za-z0-9-]{1,63}\.)+[A-Za-z]{2,24}\b)",
        r"(?<ssn>\b\d{3}-\d{2}-\d{4}\b)",
        r"(?<card>\b\d(?:[ -]?\d){12,18}\b)",
        r"(?<iban>\b[A-Z]{2}\d{2}(?: ?[A-Z0-9]{4}){2,7}(?: ?[A-Z0-9]{1,3})?\b)",
        r"(?<phone>\+\d{1,3}[ .-]?(?:\(\d{1,4}\)[ .-]?)?\d(?:[ .-]?\d){5,12}\b|\(\d{3}\) ?\d{3}[ .-]\d{4}\b|\b\d{3}[.-]\d{3}[.-]\d{4}\b)",
    ];
    Regex::new(&patterns.join("|")).expect("the pattern is constant")
});

/// The labels that this finder puts into placeholders.
const LABELS: [&str; 5] = ["email", "ssn", "card", "iban", "phone"];

pub(super) fn find(piece: &Piece<'_>, hits: &mut Vec<Hit>) {
    for found in PATTERN.captures_iter(piece.text) {
        let named = |label: &&str| found.name(label).is_some();
        let Some(label) = LABELS.into_iter().find(|label| named(label)) else {
            continue;
        };
        let whole = found.get_match();
        let real = match label {
            "card" => is_card(whole.as_str()),
            "iban" => is_iban(whole.as_str()),
            _ => true,
        };
        if real {
            hits.push(piece.hide(whole.range(), label));
        }
    }
}

/// Verifies the check digit of a card number (Luhn).
fn is_card(number: &str) -> bool {
    let digits = number.chars().rev().filter_map(|c| c.to_digit(10));
    let sum: u32 = digits
        .enumerate()
        .map(|(n, digit)| match n % 2 {
            0 => digit,
            _ if digit > 4 => digit * 2 - 9,
            _ => digit * 2,
        })
        .sum();
    sum.is_multiple_of(10)
}

/// Verifies the check digits of an IBAN.
fn is_iban(number: &str) -> bool {
    let announcements: Vec<char> = number.chars().filter(|c| *c != ' ').collect();
    let rotated = announcements[4..].iter().chain(&announcements[..4]);
    let rest = rotated.fold(0, |rest, announcement| match announcement.to_digit(36) {
        Some(digit) if digit > 9 => (rest * 100 + digit) % 97,
        Some(digit) => (rest * 10 + digit) % 97,
        None => rest,
    });
    rest == 1
}
