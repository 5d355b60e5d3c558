//! Renders templates: the part of Jinja2 that workflow specs use.
//!
//! An undefined value is an error, nothing is escaped, and a template is self-contained: it cannot
//! include, extend or import another one, nor define macros. The output has no control characters
//! except line feed and tab, and is in Unicode normal form C.
//!
//! A render is bounded in instructions, in bytes of output, and in what it [builds and
//! reads](budget). What is parsed is bounded in depth. Answers of agents are only inserted, never
//! compiled.

use std::collections::BTreeMap;
use std::fmt;

use minijinja::machinery::{
    CodeGenerator, Instructions, eval, get_compiled_template, make_string_output, parse_expr,
};
use minijinja::{AutoEscape, Environment, ErrorKind, UndefinedBehavior, Value};
use segno_core::error::{Diagnose, Diagnosis, Kind};
use unicode_normalization::{IsNormalized, UnicodeNormalization, is_nfc_quick};

mod budget;
mod conditions;
mod filters;
mod instrument;
mod source;

pub use conditions::condition;
use source::Excess;

/// Enough for loops over thousands of steps. About half of it is spent on keeping the budget.
const FUEL: u64 = 1_000_000;

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
    #[error("reads or compares too much text: stopped after 1 GB")]
    TooMuchWork,
    #[error("writes more than {MOST_BYTES} bytes (16 MB)")]
    TooLarge,
    #[error("builds too large values (at most 32 MB each, 256 MB in all)")]
    TooMuchMemory,
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
        environment.set_auto_escape_callback(|_| AutoEscape::None);
        environment.set_fuel(Some(FUEL));
        // Otherwise an error cannot name the undefined value.
        environment.set_debug(true);
        environment.set_unknown_method_callback(filters::method);
        filters::add_to(&mut environment);
        budget::add_to(&mut environment);
        Self {
            environment,
            conditions: conditions::environment(),
        }
    }

    /// Checks that `source` is an expression, without evaluating it.
    pub fn check_condition(&self, source: &str) -> Result<(), Error> {
        compile_condition(source).map(drop)
    }

    /// Whether a condition is true with the values of `context`.
    pub fn holds(&self, source: &str, context: Value) -> Result<bool, Error> {
        let code = compile_condition(source)?;
        let mut unused = String::new();
        let value = run(&self.conditions, &code, context, &mut unused)?;
        Ok(value.is_some_and(|value| value.is_true()))
    }

    /// Checks that `source` is a template, without rendering it.
    pub fn check(&self, source: &str) -> Result<(), Error> {
        check_source(source, false)?;
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
        check_source(source, false)?;
        let template = self.environment.template_from_str(source);
        let template = template.map_err(|error| explain(&error))?;
        let code = instrument::instrument(&get_compiled_template(&template).instructions);
        let mut text = String::new();
        run(&self.environment, &code, context, &mut text)?;
        if text.len() > MOST_BYTES {
            return Err(Error {
                fault: Fault::TooLarge,
                line: None,
            });
        }
        Ok(normalized(text))
    }
}

fn check_source(source: &str, is_expression: bool) -> Result<(), Error> {
    let Some(excess) = source::excess(source, is_expression) else {
        return Ok(());
    };
    let fault = match excess {
        Excess::Depth => Fault::Syntax(
            "nested too deeply, or a chain of too many operators or `elif`s".to_owned(),
        ),
        Excess::Constants => Fault::TooMuchMemory,
    };
    Err(Error { fault, line: None })
}

fn compile_condition(source: &str) -> Result<Instructions<'_>, Error> {
    check_source(source, true)?;
    let expression = parse_expr(source).map_err(|error| explain(&error))?;
    let mut generator = CodeGenerator::new("<expression>", source);
    generator.compile_expr(&expression);
    Ok(instrument::instrument(&generator.finish().0))
}

/// Runs compiled code; what it writes is appended to `text`.
fn run<'a>(
    environment: &'a Environment<'a>,
    code: &'a Instructions<'a>,
    context: Value,
    text: &mut String,
) -> Result<Option<Value>, Error> {
    let blocks = BTreeMap::new();
    let mut output = make_string_output(text);
    match eval(
        environment,
        code,
        context,
        &blocks,
        &mut output,
        AutoEscape::None,
    ) {
        Ok((value, _)) => Ok(value),
        Err(error) => Err(explain(&error)),
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
        _ if message == budget::BUILDS_TOO_MUCH => Fault::TooMuchMemory,
        _ if message == budget::WORKS_TOO_MUCH => Fault::TooMuchWork,
        _ if message == budget::WRITES_TOO_MUCH => Fault::TooLarge,
        _ => Fault::Failed(message),
    };
    let line = error.line();
    Error { fault, line }
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
