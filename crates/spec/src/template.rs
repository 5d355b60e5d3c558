//! Renders templates: the part of Jinja2 that workflow specs use.
//!
//! An undefined value is an error, nothing is escaped, and a template is self-contained: it cannot
//! include, extend or import another one, nor define macros. The output has no control characters
//! except line feed and tab, and is in Unicode normal form C.
//!
//! A render is bounded in instructions and in bytes of output. Its memory is bounded only through
//! these. That is enough: a template comes from the author of the spec, who may run programs here
//! anyway; answers of agents are only inserted, never compiled.

use std::fmt;
use std::io;

use minijinja::{Environment, ErrorKind, UndefinedBehavior, Value};
use segno_core::error::{Diagnose, Diagnosis, Kind};
use unicode_normalization::{IsNormalized, UnicodeNormalization, is_nfc_quick};

mod conditions;
mod filters;

pub use conditions::condition;

/// Enough for loops over thousands of steps, and finished in well under a second.
const FUEL: u64 = 500_000;

/// More text than any agent reads.
const MOST_BYTES: usize = 16 * 1024 * 1024;

/// Compiles and renders templates. Expensive to build, cheap to share: build one.
pub struct Templates {
    environment: Environment<'static>,
    conditions: Environment<'static>,
}

#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Error {
    pub fault: Fault,
    /// The line of the template, if it is known.
    pub line: Option<usize>,
}

#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum Fault {
    #[error("{0}")]
    Syntax(String),
    /// Uses an undefined value. Names it if the name is known.
    #[error("{0}")]
    Undefined(String),
    #[error("takes too long: stopped after {FUEL} instructions")]
    TooManyInstructions,
    #[error("writes more than {MOST_BYTES} bytes (16 MB)")]
    TooLarge,
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
    fn diagnosis(&self) -> Diagnosis {
        // A template is rendered during a run, which then cannot continue.
        Diagnosis::new(Kind::RunFailed, "W0104")
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
    #[must_use]
    pub fn new() -> Self {
        let mut environment = Environment::new();
        environment.set_undefined_behavior(UndefinedBehavior::Strict);
        environment.set_auto_escape_callback(|_| minijinja::AutoEscape::None);
        environment.set_fuel(Some(FUEL));
        // Otherwise an error cannot name the undefined value.
        environment.set_debug(true);
        environment.set_unknown_method_callback(filters::method);
        filters::add_to(&mut environment);
        Self {
            environment,
            conditions: conditions::environment(),
        }
    }

    /// Checks that `source` is an expression, without evaluating it.
    pub fn check_condition(&self, source: &str) -> Result<(), Error> {
        match self.conditions.compile_expression(source) {
            Ok(_) => Ok(()),
            Err(error) => Err(explain(&error)),
        }
    }

    /// Whether a condition is true with the values of `context`.
    pub fn holds(&self, source: &str, context: Value) -> Result<bool, Error> {
        let expression = self.conditions.compile_expression(source);
        let value = expression.and_then(|expression| expression.eval(context));
        match value {
            Ok(value) => Ok(value.is_true()),
            Err(error) => Err(explain(&error)),
        }
    }

    /// Checks that `source` is a template, without rendering it.
    pub fn check(&self, source: &str) -> Result<(), Error> {
        match self.environment.template_from_str(source) {
            Ok(_) => Ok(()),
            Err(error) => Err(explain(&error)),
        }
    }

    /// Whether `source` may contain template syntax.
    pub fn has_syntax(source: &str) -> bool {
        source.contains('{')
    }

    /// Renders `source` with the values of `context`.
    pub fn render(&self, source: &str, context: Value) -> Result<String, Error> {
        // Most prompts contain no template syntax. Only their final line feed is removed, as Jinja2
        // does.
        if !Self::has_syntax(source) {
            return Ok(normalized(
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
        Ok(normalized(text))
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
        ErrorKind::OutOfFuel => Fault::TooManyInstructions,
        _ => Fault::Failed(message),
    };
    let line = error.line();
    Error { fault, line }
}

/// A writer that fails when its limit is reached.
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

/// Removes control characters, and converts to normal form C.
fn normalized(text: String) -> String {
    let stray = |c: char| c.is_control() && c != '\n' && c != '\t';
    if !text.contains(stray) && is_nfc_quick(text.chars()) == IsNormalized::Yes {
        return text;
    }
    text.chars().filter(|c| !stray(*c)).nfc().collect()
}

#[cfg(test)]
mod tests;
