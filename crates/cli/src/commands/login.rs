//! `segno login` and `segno logout`: tokens for servers.

use std::io::{BufRead, IsTerminal, stdin};
use std::process::ExitCode;

use segno_client::{Connection, Error as ClientError};
use serde_json::{Value, json};

use crate::failure::Failure;
use crate::output::{json_line, stderr_line, stdout_line};
use crate::remote::{self, Credential, Credentials};

/// Store a token for a server, so that commands can work with its sessions.
///
/// The token is read from stdin. Then `segno --server URL COMMAND` works with the sessions of that
/// server; `SEGNO_SERVER` and `server.url` in config.toml choose it for all commands.
#[derive(Debug, clap::Args)]
pub(crate) struct Args {
    /// Address of the server: `http://HOST:PORT`, `https://HOST:PORT` or `unix:/PATH`
    url: String,
    /// Trust only the certificate with this SHA-256, as `segno serve` prints it
    #[arg(long, value_name = "SHA-256")]
    fingerprint: Option<String>,
    /// Print the result as JSON
    #[arg(long)]
    pub(crate) json: bool,
}

/// Remove the token for a server from this machine.
#[derive(Debug, clap::Args)]
pub(crate) struct LogoutArgs {
    /// Address of the server
    url: String,
    /// Print the result as JSON
    #[arg(long)]
    pub(crate) json: bool,
}

pub(crate) async fn run(args: Args) -> Result<ExitCode, Failure> {
    let address = remote::address(&args.url)?;
    let token = token()?;
    let connection = Connection::new(address.clone(), &token, args.fingerprint.as_deref())?;
    // Whether it is a server of Segno, and accepts the token.
    let checked: Result<Value, ClientError> = connection.get("/api/v1/sessions?limit=1").await;
    if let Err(ClientError::NotTrusted {
        address: shown,
        reason,
        fingerprint: None,
    }) = checked
    {
        let fingerprint = Connection::certificate(&address).await;
        return Err(ClientError::NotTrusted {
            address: shown,
            reason,
            fingerprint,
        }
        .into());
    }
    checked?;
    let mut stored = Credentials::read()?;
    let credential = Credential {
        token,
        fingerprint: args.fingerprint,
    };
    stored.servers.insert(address.to_string(), credential);
    stored.write()?;
    if args.json {
        json_line(&json!({"v": 1, "kind": "logged_in", "server": address.to_string()}));
    } else {
        stdout_line(&format!("logged in to {address}"));
        stderr_line(&format!(
            "`segno --server {address} status` shows its sessions"
        ));
    }
    Ok(ExitCode::SUCCESS)
}

pub(crate) fn log_out(args: &LogoutArgs) -> Result<ExitCode, Failure> {
    let address = remote::address(&args.url)?;
    let mut stored = Credentials::read()?;
    if stored.servers.remove(&address.to_string()).is_none() {
        return Err(remote::Error::NotLoggedIn { address }.into());
    }
    stored.write()?;
    if args.json {
        json_line(&json!({"v": 1, "kind": "logged_out", "server": address.to_string()}));
    } else {
        stdout_line(&format!("removed the token for {address}"));
        stderr_line("`segno token revoke NAME` on the machine of the server makes it invalid");
    }
    Ok(ExitCode::SUCCESS)
}

/// The token on stdin. It is no argument, because other users see those.
fn token() -> Result<String, Failure> {
    if stdin().is_terminal() {
        stderr_line("paste a token of `segno token create NAME --scope operate`:");
    }
    let mut line = String::new();
    let read = stdin().lock().read_line(&mut line);
    read.map_err(|error| Failure::usage(format!("stdin cannot be read: {error}"), None))?;
    let token = line.trim();
    if token.is_empty() {
        let hint =
            "`segno token create NAME --scope operate` on the machine of the server makes one";
        return Err(Failure::usage(
            "there is no token on stdin",
            Some(hint.into()),
        ));
    }
    Ok(token.to_owned())
}
