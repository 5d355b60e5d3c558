//! `segno serve`: serves the sessions of this home over HTTP.

mod addresses;
mod encryption;
mod log;
mod signals;

use std::net::SocketAddr;
use std::path::PathBuf;
use std::process::ExitCode;
use std::sync::Arc;

use rustix::process::{Resource, getrlimit, setrlimit};
use segno_core::ports::Disk;
use segno_server::access::Tokens;
use segno_server::instance::Instance;
use segno_server::listen::{self, Sockets};
use segno_server::{AllowedHosts, Server, app};
use segno_store::LocalDisk;
use serde_json::json;
use tokio::net::{TcpListener, UnixListener};
use tokio::sync::watch;

use self::addresses::Addresses;
use self::encryption::Encryption;
use self::signals::Reload;
use super::worker::{LimitArgs, folder as workers_folder, print_line, worker};
use crate::config;
use crate::context::{Context, Persistence, notices, workspace};
use crate::failure::Failure;
use crate::machine::MachineRandom;
use crate::output::{json_line, stdout_line};

/// Serve the sessions of this home over HTTP, for programs and browsers.
///
/// The API is described by `/openapi.json`. Every request needs a token: `segno token create` makes
/// one for a program, `segno open` logs a browser in. The server also listens on a Unix socket in
/// the home. It is a worker, too: it runs the sessions that the API or `--detach` hand over. SIGHUP
/// reads the certificate again.
#[derive(Debug, clap::Args)]
pub(crate) struct Args {
    /// Address and port to listen on, repeatable; port 0 is any free one. Addresses that other
    /// machines can reach need `--tls`, `--tls-cert` or `--behind-https`
    #[arg(long, value_name = "ADDRESS", default_value = "127.0.0.1:4747")]
    listen: Vec<SocketAddr>,
    /// Also answer to this host name (repeatable)
    #[arg(long, value_name = "HOST[:PORT]")]
    host: Vec<String>,
    #[command(flatten)]
    encryption: Encryption,
    #[command(flatten)]
    limits: LimitArgs,
    /// Run no sessions: another process on this home is the worker
    #[arg(long, conflicts_with_all = ["max_runs", "drain"])]
    no_worker: bool,
    /// Let clients restore checkpoints and place forks in new folders below this one (repeatable)
    #[arg(long, value_name = "FOLDER")]
    allow_folder: Vec<PathBuf>,
    /// What to print on stderr: `text`, a line for each refused request and each error; `json`, a
    /// line for each request; `off`
    #[arg(long, value_name = "FORMAT", default_value = "text", value_parser = ["text", "json", "off"])]
    log: String,
    /// Print the addresses as JSON
    #[arg(long)]
    pub(crate) json: bool,
}

pub(crate) async fn run(args: Args, context: &Context) -> Result<ExitCode, Failure> {
    addresses::check(&args.listen, &args.host, &args.encryption)?;
    let (env, config) = context.env(Persistence::Home)?;
    let folder = server_folder()?;
    let disk: Arc<dyn Disk> = Arc::new(LocalDisk);
    let instance = Instance::claim(folder.clone(), Arc::clone(&disk))?;
    raise_file_limit();
    let socket = instance.socket()?;
    let local =
        UnixListener::bind(&socket).map_err(|error| cannot_listen(&socket.display(), &error))?;
    let mut network = Vec::new();
    for address in &args.listen {
        let bound = TcpListener::bind(address).await;
        network.push(bound.map_err(|error| cannot_listen(address, &error))?);
    }
    let bound = network.iter().flat_map(TcpListener::local_addr);
    let addresses = Addresses::new(bound.collect(), &args.host, &args.encryption);
    let tls = args.encryption.load(&folder, &addresses, &disk)?;
    let fingerprint = tls.as_ref().map(listen::tls::Tls::fingerprint);
    let urls = addresses.urls();
    instance.publish(urls.clone(), socket.clone(), fingerprint.clone())?;
    let clock = Arc::clone(&context.clock);
    let tokens = Tokens::new(folder, disk, Arc::clone(&clock), Arc::new(MachineRandom));
    let (stop, stopped) = watch::channel(false);
    let hosts = AllowedHosts::new(addresses.hosts(), addresses.is_encrypted());
    let worker = if args.no_worker {
        None
    } else {
        Some(worker(env.clone(), &config, &args.limits, print_line)?)
    };
    let notices = notices(&env, &config);
    let here = workspace()?;
    let folders = args.allow_folder.iter().map(|folder| here.join(folder));
    let mut server = Server::new(env, tokens, hosts, workers_folder()?, stopped.clone())
        .allow_folders(folders.collect());
    if let Some(log) = log::start(&args.log)? {
        server = server.with_log(log);
    }
    print_addresses(args.json, &urls, &socket, fingerprint.as_deref())?;
    signals::handle(stop, Reload::new(tls.clone(), server.clone()))?;
    let sockets = Sockets {
        local,
        network,
        tls,
    };
    let serving = listen::serve(app(&server), sockets, clock, stopped.clone());
    match worker {
        Some(worker) => drop(tokio::join!(serving, worker.run(stopped))),
        None => {
            tokio::select! {
                () = serving => {}
                () = notices.deliver() => {}
            }
        }
    }
    drop(instance);
    Ok(ExitCode::SUCCESS)
}

/// Where the server of this home stores its files.
pub(crate) fn server_folder() -> Result<PathBuf, Failure> {
    let (home, _) = config::locations()?;
    Ok(home.join("server"))
}

fn print_addresses(
    is_json: bool,
    urls: &[String],
    socket: &std::path::Path,
    fingerprint: Option<&str>,
) -> Result<(), Failure> {
    if is_json {
        let mut line = json!({"v": 1, "kind": "serving", "urls": urls, "socket": socket});
        if let Some(fingerprint) = fingerprint {
            line["fingerprint"] = fingerprint.into();
        }
        json_line(&line);
        return Ok(());
    }
    let home = config::locations()?.0;
    let urls = urls.join(", ");
    stdout_line(&format!("serving {} on {urls}", home.display()));
    if let Some(fingerprint) = fingerprint {
        stdout_line(&format!("SHA-256 of the certificate: {fingerprint}"));
    }
    stdout_line("`segno open` opens it in a browser; Ctrl-C stops it");
    Ok(())
}

fn cannot_listen(place: &dyn std::fmt::Display, error: &std::io::Error) -> Failure {
    Failure::listen(
        format!("cannot listen on {place}: {error}"),
        "choose another address with `--listen 127.0.0.1:PORT`; port 0 is any free one",
    )
}

/// Each connection and each run needs file descriptors.
fn raise_file_limit() {
    let mut limit = getrlimit(Resource::Nofile);
    limit.current = limit.maximum;
    // The server works with few, too.
    let _ = setrlimit(Resource::Nofile, limit);
}
