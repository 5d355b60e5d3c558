//! `segno open`: opens the server of this home in a browser.

mod qr;

use std::process::{Command as Program, ExitCode, Stdio};

use clap::builder::PossibleValuesParser;
use segno_server::access::{Logins, Scope};
use segno_server::instance;
use segno_store::LocalDisk;
use serde_json::json;

use super::serve::server_folder;
use super::token::{scope, tokens};
use crate::context::Context;
use crate::failure::Failure;
use crate::output::{json_line, stderr_line, stdout_line};

/// Open the server of this home in a browser, and log it in.
///
/// Prints an address with a code that works once and for five minutes. The browser that opens it is
/// logged in for 30 days; `segno token revoke` ends that.
#[derive(Debug, clap::Args)]
pub(crate) struct Args {
    /// Also print a QR code of the address, for a phone
    #[arg(long, conflicts_with = "json")]
    qr: bool,
    /// Only print the address
    #[arg(long)]
    print: bool,
    /// What the browser may do: `read`, `operate` or `admin`
    #[arg(long, value_name = "SCOPE", default_value = "admin", value_parser = PossibleValuesParser::new(Scope::ALL.map(Scope::as_str)))]
    scope: String,
    /// Print the address as JSON
    #[arg(long)]
    pub(crate) json: bool,
}

pub(crate) fn run(args: &Args, context: &Context) -> Result<ExitCode, Failure> {
    let address = instance::find(&server_folder()?, &LocalDisk)?;
    let code = Logins::new(tokens(context)?).create(scope(&args.scope))?;
    let base = address.urls.first().cloned().unwrap_or_default();
    let url = format!("{base}/login?code={code}");
    if args.json {
        let mut line = json!({"v": 1, "kind": "login", "url": url});
        if let Some(fingerprint) = &address.fingerprint {
            line["fingerprint"] = fingerprint.as_str().into();
        }
        json_line(&line);
        return Ok(ExitCode::SUCCESS);
    }
    stdout_line(&url);
    if let Some(fingerprint) = &address.fingerprint {
        stderr_line(&format!("SHA-256 of the certificate: {fingerprint}"));
    }
    if args.qr {
        for line in qr::lines(&url)? {
            stdout_line(&line);
        }
        return Ok(ExitCode::SUCCESS);
    }
    if !args.print && !open_browser(&url) {
        stderr_line("open this address in a browser on this machine");
    }
    Ok(ExitCode::SUCCESS)
}

/// Starts the user's browser; returns whether there is one.
fn open_browser(url: &str) -> bool {
    let is_set = |name: &str| std::env::var_os(name).is_some_and(|value| !value.is_empty());
    if !is_set("DISPLAY") && !is_set("WAYLAND_DISPLAY") && !is_set("BROWSER") {
        return false;
    }
    let browser = std::env::var("BROWSER").unwrap_or_else(|_| "xdg-open".to_owned());
    let started = Program::new(browser)
        .arg(url)
        .stdin(Stdio::null())
        .stdout(Stdio::null())
        .stderr(Stdio::null())
        .spawn();
    started.is_ok()
}
