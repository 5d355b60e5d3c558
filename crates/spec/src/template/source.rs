//! Refuses templates that the parser cannot handle within bounds.
//!
//! **Depth.** The parser bounds brackets and blocks itself, but not chains: `a.b.c…`, `a ~ b ~ c…` and
//! `elif … elif …` become trees as deep as they are long, and walking or dropping such a tree
//! overflows the stack. So the depth is counted in the tokens, before anything is parsed.
//!
//! **Constants.** The compiler computes `'x' * 1000000` itself, so how large constants may become is
//! estimated from the tokens, too.

use minijinja::machinery::{Token, tokenize};
use minijinja::syntax::SyntaxConfig;

use super::budget::{MOST_WEIGHT, SMALL};

/// Deeper than any template that a human writes.
const MOST_DEPTH: usize = 200;

/// What a template has too much of.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Excess {
    Depth,
    Constants,
}

/// What the template, or the expression, has too much of. A text that has no valid tokens is not
/// compiled either, so it does not matter what it has.
pub(super) fn excess(source: &str, is_expression: bool) -> Option<Excess> {
    let (mut depth, mut constants) = (Depth::default(), Constants::default());
    let tokens = tokenize(source, is_expression, SyntaxConfig::default());
    for (token, _) in tokens.map_while(Result::ok) {
        depth.add(&token);
        constants.add(&token);
        if depth.total() > MOST_DEPTH {
            return Some(Excess::Depth);
        }
        if constants.bytes() > MOST_WEIGHT {
            return Some(Excess::Constants);
        }
    }
    None
}

/// How large the constants of a template may become: in each tag, its literals times the product of
/// all numbers that something is multiplied with.
#[derive(Default)]
struct Constants {
    /// Those of the tags before.
    before: usize,
    literals: usize,
    factor: usize,
    /// The number that the last token is, and whether it follows a `*`.
    number: Option<usize>,
    follows_mul: bool,
}

impl Constants {
    fn bytes(&self) -> usize {
        let here = self.literals.saturating_mul(self.factor.max(1));
        self.before.saturating_add(here)
    }

    fn add(&mut self, token: &Token<'_>) {
        let number = self.number.take();
        let follows_mul = std::mem::take(&mut self.follows_mul);
        match token {
            Token::VariableEnd | Token::BlockEnd => {
                // Without a repetition, a tag's constants are no larger than the tag.
                if self.factor > 1 {
                    self.before = self.bytes();
                }
                (self.literals, self.factor) = (0, 1);
            }
            Token::Str(text) => self.literals += text.len(),
            Token::String(text) => self.literals += text.len(),
            Token::BracketOpen | Token::Comma => self.literals += SMALL,
            Token::Mul => {
                self.multiply(number);
                self.follows_mul = true;
            }
            Token::Int(given) => {
                let given = usize::try_from(*given).unwrap_or(usize::MAX);
                if follows_mul {
                    self.multiply(Some(given));
                } else {
                    self.number = Some(given);
                }
            }
            _ => {}
        }
    }

    fn multiply(&mut self, number: Option<usize>) {
        let number = number.unwrap_or(1).max(1);
        self.factor = self.factor.max(1).saturating_mul(number);
    }
}

/// How deep the tree is that tokens build.
#[derive(Default)]
struct Depth {
    /// The operators of the expression so far, and of each expression around it.
    expressions: Vec<usize>,
    operators: usize,
    /// The `elif`s of each open `if`.
    alternatives: Vec<usize>,
    is_tag_start: bool,
}

impl Depth {
    fn total(&self) -> usize {
        let around: usize = self.expressions.iter().sum();
        let alternatives: usize = self.alternatives.iter().sum();
        around + self.operators + alternatives
    }

    fn add(&mut self, token: &Token<'_>) {
        let is_tag_start = std::mem::take(&mut self.is_tag_start);
        match token {
            Token::VariableStart
            | Token::VariableEnd
            | Token::BlockEnd
            | Token::TemplateData(_) => {
                self.expressions.clear();
                self.operators = 0;
            }
            Token::BlockStart => {
                self.expressions.clear();
                self.operators = 0;
                self.is_tag_start = true;
            }
            Token::BracketOpen | Token::ParenOpen | Token::BraceOpen => {
                self.expressions.push(self.operators + 1);
                self.operators = 0;
            }
            Token::BracketClose | Token::ParenClose | Token::BraceClose => {
                self.operators = self.expressions.pop().unwrap_or_default();
            }
            // Items of a list are beside each other.
            Token::Comma => self.operators = 0,
            Token::Ident(name) if is_tag_start => match *name {
                "if" => self.alternatives.push(1),
                "elif" => {
                    if let Some(count) = self.alternatives.last_mut() {
                        *count += 1;
                    }
                }
                "endif" => {
                    self.alternatives.pop();
                }
                _ => {}
            },
            Token::Ident("and" | "or" | "not" | "in" | "is" | "if" | "else") => self.operators += 1,
            Token::Ident(_)
            | Token::Str(_)
            | Token::String(_)
            | Token::Int(_)
            | Token::Int128(_)
            | Token::Float(_) => {}
            _ => self.operators += 1,
        }
    }
}
