//! Templates: Jinja2 as workflow specs use it.
//!
//! Undefined is an error, nothing is escaped, and a template is one text: it cannot include, extend
//! or import another, nor define macros. What comes out has no control characters but line feed and
//! tab, and is in Unicode normal form C.
//!
//! Work and output are bounded: a render executes so many instructions and writes so many bytes.
//! What a template holds while it works is bounded only through that. It need not be more: a
//! template comes from the author of the spec, who may run programs here anyway; what agents answer
//! is only ever put in, never compiled.

use std::fmt;
use std::io;

use minijinja::{Environment, ErrorKind, UndefinedBehavior, Value};
use segno_core::error::{Diagnose, Kind};
use unicode_normalization::{IsNormalized, UnicodeNormalization, is_nfc_quick};

mod conditions;
mod filters;

pub use conditions::condition;

/// Enough for loops over thousands of steps, and over in well under a second.
const FUEL: u64 = 500_000;

/// More text than any agent reads.
const MOST_BYTES: usize = 16 * 1024 * 1024;

/// Compiles and renders templates. Cheap to share, not to build: keep one.
pub struct Templates {
    environment: Environment<'static>,
    conditions: Environment<'static>,
}

/// Why there is no text.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Error {
    /// What went wrong.
    pub fault: Fault,
    /// The line of the template, if that is known.
    pub line: Option<usize>,
}

/// What went wrong.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum Fault {
    /// It is not a template.
    #[error("{0}")]
    Syntax(String),
    /// It uses a value that is not there. Names it where that can be known.
    #[error("{0}")]
    Undefined(String),
    /// It does not come to an end.
    #[error("takes too long: stopped after {FUEL} instructions")]
    Endless,
    /// It writes too much.
    #[error("writes more than {MOST_BYTES} bytes (16 MB)")]
    TooLarge,
    /// It does something that cannot be done.
    #[error("{0}")]
    Failed(String),
}

impl fmt::Display for Error {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self.line {
            Some(line) => write!(f, "line {line} of the template: {}", self.fault),
            None => self.fault.fmt(f),
        }
    }
}

impl std::error::Error for Error {}

impl Diagnose for Error {
    fn kind(&self) -> Kind {
        Kind::Invalid
    }

    fn code(&self) -> &'static str {
        "W0104"
    }
}

impl Default for Templates {
    fn default() -> Self {
        Self::new()
    }
}

impl fmt::Debug for Templates {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Templates").finish_non_exhaustive()
    }
}

impl Templates {
    /// An environment with the filters and methods of the format.
    #[must_use]
    pub fn new() -> Self {
        let mut environment = Environment::new();
        environment.set_undefined_behavior(UndefinedBehavior::Strict);
        environment.set_auto_escape_callback(|_| minijinja::AutoEscape::None);
        environment.set_fuel(Some(FUEL));
        // Or an error cannot say which value was undefined.
        environment.set_debug(true);
        environment.set_unknown_method_callback(filters::method);
        filters::add_to(&mut environment);
        Self {
            environment,
            conditions: conditions::environment(),
        }
    }

    /// Whether `source` is an expression, without evaluating it.
    pub fn check_condition(&self, source: &str) -> Result<(), Error> {
        match self.conditions.compile_expression(source) {
            Ok(_) => Ok(()),
            Err(error) => Err(explain(&error)),
        }
    }

    /// Whether a condition holds with the values of `context`.
    pub fn holds(&self, source: &str, context: Value) -> Result<bool, Error> {
        let expression = self.conditions.compile_expression(source);
        let value = expression.and_then(|expression| expression.eval(context));
        match value {
            Ok(value) => Ok(value.is_true()),
            Err(error) => Err(explain(&error)),
        }
    }

    /// Whether `source` is a template, without rendering it.
    pub fn check(&self, source: &str) -> Result<(), Error> {
        match self.environment.template_from_str(source) {
            Ok(_) => Ok(()),
            Err(error) => Err(explain(&error)),
        }
    }

    /// Whether `source` has anything to fill in.
    pub fn fills_in(source: &str) -> bool {
        source.contains('{')
    }

    /// What `source` becomes with the values of `context`.
    pub fn render(&self, source: &str, context: Value) -> Result<String, Error> {
        // Most prompts have nothing to fill in. Of these, only the last line's end goes, as always.
        if !Self::fills_in(source) {
            return Ok(cleaned(
                source.strip_suffix('\n').unwrap_or(source).to_owned(),
            ));
        }
        let template = self.environment.template_from_str(source);
        let template = template.map_err(|error| explain(&error))?;
        let mut text = Bounded::default();
        let rendered = template.render_captured_to(context, &mut text);
        match rendered {
            Ok(_) => {}
            Err(_) if text.full => {
                return Err(Error {
                    fault: Fault::TooLarge,
                    line: None,
                });
            }
            Err(error) => return Err(explain(&error)),
        }
        let text = String::from_utf8(text.bytes).map_err(|error| Error {
            fault: Fault::Failed(error.to_string()),
            line: None,
        })?;
        Ok(cleaned(text))
    }
}

fn explain(error: &minijinja::Error) -> Error {
    let message = match error.detail() {
        Some(detail) => detail.to_owned(),
        None => error.kind().to_string(),
    };
    let fault = match error.kind() {
        ErrorKind::SyntaxError | ErrorKind::BadEscape => Fault::Syntax(message),
        ErrorKind::UndefinedError => Fault::Undefined(message),
        ErrorKind::OutOfFuel => Fault::Endless,
        _ => Fault::Failed(message),
    };
    let line = error.line();
    Error { fault, line }
}

/// Takes bytes until there are too many.
#[derive(Default)]
struct Bounded {
    bytes: Vec<u8>,
    full: bool,
}

impl io::Write for Bounded {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        if self.bytes.len() + bytes.len() > MOST_BYTES {
            self.full = true;
            return Err(io::ErrorKind::FileTooLarge.into());
        }
        self.bytes.extend_from_slice(bytes);
        Ok(bytes.len())
    }

    fn flush(&mut self) -> io::Result<()> {
        Ok(())
    }
}

/// Without control characters, in normal form C.
fn cleaned(text: String) -> String {
    let stray = |c: char| c.is_control() && c != '\n' && c != '\t';
    if !text.contains(stray) && is_nfc_quick(text.chars()) == IsNormalized::Yes {
        return text;
    }
    text.chars().filter(|c| !stray(*c)).nfc().collect()
}

#[cfg(test)]
mod tests;
