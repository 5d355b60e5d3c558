//! Arithmetic in Python's syntax.

use segno_core::tool::EffectClass;

use super::{BuiltinTool, Run, text};

pub(super) const CALCULATOR: BuiltinTool = BuiltinTool {
    name: "calculator",
    description: "Evaluates an arithmetic expression with + - * / // % ** and parentheses.",
    class: EffectClass::ReadOnly,
    params: &[("expression", "string", true, "for example `(2 + 3) * 4`")],
    run: Run::Sync(|input, _| {
        let expression = text(input, "expression");
        let value = compute(expression)?;
        Ok(format!("{} = {}", expression.trim(), shown(value)))
    }),
};

/// The deepest accepted nesting.
const MAX_DEPTH: usize = 100;

fn compute(text: &str) -> Result<f64, String> {
    let mut reader = Reader {
        rest: text.trim_start(),
        depth: 0,
    };
    let value = reader.sum()?;
    if !reader.rest.is_empty() {
        return Err(format!("unexpected `{}`", reader.rest));
    }
    if value.is_finite() {
        Ok(value)
    } else {
        Err("the result is not a number".to_owned())
    }
}

fn shown(value: f64) -> String {
    if value.fract() == 0.0 && value.abs() < 1e15 {
        format!("{value:.0}")
    } else {
        value.to_string()
    }
}

struct Reader<'a> {
    rest: &'a str,
    depth: usize,
}

impl Reader<'_> {
    /// Consumes `word` if it comes next; returns whether it did.
    fn eat(&mut self, word: &str) -> bool {
        let Some(rest) = self.rest.strip_prefix(word) else {
            return false;
        };
        self.rest = rest.trim_start();
        true
    }

    fn sum(&mut self) -> Result<f64, String> {
        let mut value = self.product()?;
        loop {
            if self.eat("+") {
                value += self.product()?;
            } else if self.eat("-") {
                value -= self.product()?;
            } else {
                return Ok(value);
            }
        }
    }

    fn product(&mut self) -> Result<f64, String> {
        let mut value = self.signed()?;
        loop {
            if self.rest.starts_with("**") {
                return Ok(value);
            }
            let (whole, modulo) = (self.eat("//"), self.eat("%"));
            if whole || modulo || self.eat("/") {
                let by = self.signed()?;
                if by == 0.0 {
                    return Err("division by zero".to_owned());
                }
                value = match (whole, modulo) {
                    (true, _) => (value / by).floor(),
                    (_, true) => value - by * (value / by).floor(),
                    _ => value / by,
                };
            } else if self.eat("*") {
                value *= self.signed()?;
            } else {
                return Ok(value);
            }
        }
    }

    fn signed(&mut self) -> Result<f64, String> {
        self.depth += 1;
        if self.depth > MAX_DEPTH {
            return Err("the expression is nested too deeply".to_owned());
        }
        let value = if self.eat("-") {
            -self.signed()?
        } else if self.eat("+") {
            self.signed()?
        } else {
            let base = self.atom()?;
            if self.eat("**") {
                base.powf(self.signed()?)
            } else {
                base
            }
        };
        self.depth -= 1;
        Ok(value)
    }

    fn atom(&mut self) -> Result<f64, String> {
        if self.eat("(") {
            let value = self.sum()?;
            return if self.eat(")") {
                Ok(value)
            } else {
                Err("a parenthesis is not closed".to_owned())
            };
        }
        let end = self
            .rest
            .find(|c: char| !c.is_ascii_digit() && !"._eE".contains(c))
            .unwrap_or(self.rest.len());
        let (digits, rest) = self.rest.split_at(end);
        let number = digits.replace('_', "").parse();
        let number = number.map_err(|_| match self.rest.chars().next() {
            Some(c) => format!("`{c}` is not a number"),
            None => "the expression is incomplete".to_owned(),
        })?;
        self.rest = rest.trim_start();
        Ok(number)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn arithmetic_matches_python() {
        for (expression, expected) in [
            ("1 + 2 * 3", "7"),
            ("(1 + 2) * 3", "9"),
            ("-2 ** 2", "-4"),
            ("2 ** -1", "0.5"),
            ("2 ** 3 ** 2", "512"),
            ("7 // 2", "3"),
            ("-7 // 2", "-4"),
            ("-7 % 3", "2"),
            ("10 / 4", "2.5"),
            ("1_000 * 3", "3000"),
            ("1e3 + .5", "1000.5"),
            ("8 / 2 * 4", "16"),
        ] {
            assert_eq!(
                compute(expression).map(shown).as_deref(),
                Ok(expected),
                "{expression}"
            );
        }
        for wrong in [
            "",
            "1 +",
            "(1",
            "1)",
            "a",
            "1 / 0",
            "__import__('os')",
            "9 ** 9 ** 9",
            &"(".repeat(500),
        ] {
            assert!(compute(wrong).is_err(), "{wrong}");
        }
    }
}
