//! `segno config show`: prints the effective settings and the source of each.

use std::process::ExitCode;

use serde_json::{Value, json};

use crate::config::{self, Setting};
use crate::context::Context;
use crate::failure::Failure;
use crate::output::{columns, json_line, stderr_line, stdout_line, table, text};

/// Environment variables that Segno reads, and whether their value is a secret.
const VARIABLES: &[(&str, bool)] = &[
    ("SEGNO_PASSPHRASE", true),
    ("ANTHROPIC_API_KEY", true),
    ("OPENAI_API_KEY", true),
    ("AZURE_OPENAI_API_KEY", true),
    ("GEMINI_API_KEY", true),
    ("TAVILY_API_KEY", true),
    ("AWS_BEARER_TOKEN_BEDROCK", true),
    ("AWS_ACCESS_KEY_ID", true),
    ("AWS_SECRET_ACCESS_KEY", true),
    ("AWS_SESSION_TOKEN", true),
    ("AWS_REGION", false),
    ("AWS_ENDPOINT_URL", false),
    ("OTEL_EXPORTER_OTLP_ENDPOINT", false),
    ("OTEL_EXPORTER_OTLP_HEADERS", true),
];

/// Shown instead of a secret.
const HIDDEN: &str = "(hidden)";

/// Show the effective settings, and where each comes from.
///
/// Includes the environment variables that are set and that Segno reads. Secrets are not shown.
#[derive(Debug, clap::Args)]
pub(crate) struct Args {
    /// Print the result as JSON
    #[arg(long)]
    pub(super) json: bool,
}

pub(super) fn run(args: &Args, context: &Context) -> Result<ExitCode, Failure> {
    let (home, file) = config::locate()?;
    let (settings, config) = config::effective(&file.path)?;
    for notice in &config.notices {
        stderr_line(&format!("note: {}", text::sanitize(notice)));
    }
    let clean = |text: &str| context.redactor.redact(text).to_string();
    let home_path = clean(&home.path.display().to_string());
    let file_path = clean(&file.path.display().to_string());
    let variables = variables(clean);
    if args.json {
        let setting = |setting: &Setting| {
            let mut value = setting.value.clone();
            context.redactor.redact_json(&mut value);
            json!({"key": setting.key, "value": value, "source": source(setting)})
        };
        let variable = |(name, value): &(&str, Option<String>)| json!({"name": name, "value": value, "secret": value.is_none()});
        json_line(&json!({
            "v": 1,
            "kind": "config",
            "home": {"path": home_path, "source": home.source},
            "file": {"path": file_path, "source": file.source, "exists": file.path.exists()},
            "settings": settings.iter().map(setting).collect::<Vec<_>>(),
            "environment": variables.iter().map(variable).collect::<Vec<_>>(),
        }));
        return Ok(ExitCode::SUCCESS);
    }
    let missing = if file.path.exists() { "" } else { " (missing)" };
    let mut rows = vec![
        row("home", &home_path, home.source),
        row("config.toml", &format!("{file_path}{missing}"), file.source),
    ];
    rows.extend(settings.iter().map(|setting| {
        let value = match &setting.value {
            Value::Null => "-".to_owned(),
            Value::String(text) => clean(text),
            value => clean(&value.to_string()),
        };
        row(&setting.key, &value, source(setting))
    }));
    rows.extend(variables.iter().map(|(name, value)| {
        let value = value.as_deref().unwrap_or(HIDDEN);
        row(name, value, "environment")
    }));
    table::table(&["SETTING", "VALUE", "SOURCE"], &rows, columns())
        .iter()
        .for_each(|line| stdout_line(line));
    Ok(ExitCode::SUCCESS)
}

fn row(name: &str, value: &str, source: &str) -> Vec<String> {
    [name, value, source].map(str::to_owned).to_vec()
}

fn source(setting: &Setting) -> &'static str {
    if setting.is_set {
        "config.toml"
    } else {
        "default"
    }
}

/// The variables that are set. Those that are secret have no value.
fn variables(clean: impl Fn(&str) -> String) -> Vec<(&'static str, Option<String>)> {
    let set = VARIABLES.iter().filter_map(|(name, is_secret)| {
        let value = std::env::var_os(name)?;
        let shown = (!is_secret).then(|| clean(&value.to_string_lossy()));
        Some((*name, shown))
    });
    set.collect()
}
