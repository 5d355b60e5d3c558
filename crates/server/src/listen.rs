//! Serves the API on sockets.
//!
//! Everything that a client may make us wait for has a limit (P10): the number of connections, the
//! head of a request, and a client that does not read what it asked for.

mod stalled;
pub mod tls;

use std::io;
use std::net::SocketAddr;
use std::sync::Arc;
use std::time::Duration;

use axum::Router;
use hyper::server::conn::http1;
use hyper_util::rt::{TokioIo, TokioTimer};
use hyper_util::service::TowerToHyperService;
use segno_core::ports::Clock;
use tokio::io::{AsyncRead, AsyncWrite};
use tokio::net::{TcpListener, UnixListener};
use tokio::sync::{Semaphore, watch};
use tokio::task::JoinSet;
use tower::Layer;

use crate::feed::stopped;
pub use crate::guard::Peer;
use crate::guard::SetPeer;
use stalled::StallLimit;
use tls::Tls;

/// How many connections are open at once. Others wait.
const MAX_CONNECTIONS: usize = 2048;
/// How long the head of a request may take to arrive, also the first one of a connection.
const HEAD_TIME: Duration = Duration::from_secs(10);
/// How long a connection may take to agree on its encryption.
const HANDSHAKE_TIME: Duration = Duration::from_secs(10);
/// How much memory the head of a request may take.
const MAX_HEAD: usize = 64 << 10;
const MAX_HEADERS: usize = 64;
/// How long a client may leave an answer unread.
const STALL_TIME: Duration = Duration::from_mins(1);
/// How long to wait when the machine has no file descriptors left.
const OUT_OF_FILES: Duration = Duration::from_millis(100);

/// Where the API listens.
pub struct Sockets {
    pub local: UnixListener,
    pub network: Vec<TcpListener>,
    /// Encrypts what comes over the network.
    pub tls: Option<Tls>,
}

enum Accepted {
    Local(io::Result<tokio::net::UnixStream>),
    Network(io::Result<(tokio::net::TcpStream, SocketAddr)>),
}

/// Serves `app` until `stop` is true, and then until the open requests are answered; streams end at
/// once.
pub async fn serve(
    app: Router,
    sockets: Sockets,
    clock: Arc<dyn Clock>,
    mut stop: watch::Receiver<bool>,
) {
    let slots = Arc::new(Semaphore::new(MAX_CONNECTIONS));
    let mut connections = JoinSet::new();
    loop {
        let Ok(slot) = Arc::clone(&slots).acquire_owned().await else {
            break;
        };
        let accepted = tokio::select! {
            accepted = accept(&sockets) => accepted,
            () = stopped(&mut stop) => break,
        };
        // Forgets connections that have ended.
        while connections.try_join_next().is_some() {}
        let clock = Arc::clone(&clock);
        let (app, stop) = (app.clone(), stop.clone());
        match accepted {
            Accepted::Local(Ok(stream)) => {
                connections.spawn(async move {
                    let stream = StallLimit::new(stream, clock, STALL_TIME);
                    connection(stream, app, Peer::Local, stop).await;
                    drop(slot);
                });
            }
            Accepted::Network(Ok((stream, address))) => {
                // Events are small, and nobody wants to wait for more of them.
                let _ = stream.set_nodelay(true);
                let (peer, tls) = (Peer::Network(address.ip()), sockets.tls.clone());
                connections.spawn(async move {
                    match tls {
                        None => {
                            let stream = StallLimit::new(stream, clock, STALL_TIME);
                            connection(stream, app, peer, stop).await;
                        }
                        Some(tls) => encrypted(stream, &tls, clock, app, peer, stop).await,
                    }
                    drop(slot);
                });
            }
            // The client is gone, or there are no file descriptors.
            Accepted::Local(Err(_)) | Accepted::Network(Err(_)) => {
                clock.sleep(OUT_OF_FILES).await;
            }
        }
    }
    while connections.join_next().await.is_some() {}
}

async fn accept(sockets: &Sockets) -> Accepted {
    let network = sockets.network.iter().map(|it| Box::pin(it.accept()));
    let network: Vec<_> = network.collect();
    if network.is_empty() {
        let local = sockets.local.accept().await;
        return Accepted::Local(local.map(|(stream, _)| stream));
    }
    tokio::select! {
        local = sockets.local.accept() => Accepted::Local(local.map(|(stream, _)| stream)),
        (network, _, _) = futures_util::future::select_all(network) => Accepted::Network(network),
    }
}

/// A connection that is encrypted first. A client that does not manage that in time is gone.
async fn encrypted(
    stream: tokio::net::TcpStream,
    tls: &Tls,
    clock: Arc<dyn Clock>,
    app: Router,
    peer: Peer,
    mut stop: watch::Receiver<bool>,
) {
    let stream = tokio::select! {
        accepted = tls.accept(stream) => accepted,
        () = clock.sleep(HANDSHAKE_TIME) => return,
        () = stopped(&mut stop) => return,
    };
    // An error is the client's: it left, or refused the certificate.
    if let Ok(stream) = stream {
        let stream = StallLimit::new(stream, clock, STALL_TIME);
        connection(stream, app, peer, stop).await;
    }
}

async fn connection(
    stream: impl AsyncRead + AsyncWrite + Unpin + Send + 'static,
    app: Router,
    peer: Peer,
    mut stop: watch::Receiver<bool>,
) {
    let service = TowerToHyperService::new(SetPeer(peer).layer(app));
    let serving = http1::Builder::new()
        .timer(TokioTimer::new())
        .header_read_timeout(HEAD_TIME)
        .max_buf_size(MAX_HEAD)
        .max_headers(MAX_HEADERS)
        .serve_connection(TokioIo::new(stream), service);
    let mut serving = std::pin::pin!(serving);
    // An error is the client's: it left, or sent no HTTP.
    tokio::select! {
        _ = serving.as_mut() => return,
        () = stopped(&mut stop) => {}
    }
    serving.as_mut().graceful_shutdown();
    let _ = serving.await;
}
