//! The client of all tools. It checks where it goes at every hop, and the address behind a name at
//! the moment of connecting, so that a name cannot lead somewhere else in between.

use std::error::Error as _;
use std::io;
use std::net::SocketAddr;
use std::sync::Arc;
use std::time::Duration;

use reqwest::dns::{Addrs, Name, Resolve, Resolving};
use reqwest::header::{CONTENT_TYPE, HeaderMap, LOCATION};
use reqwest::{Client, Method, Response, Url};
use segno_core::agent::{Error, ErrorKind};
use segno_core::ports::{Boxed, Clock};

use super::received::Received;
use crate::http::told;
use crate::tools::reach::{self, Reach, Refusal};

/// How often a request may be sent on.
const HOPS: usize = 5;

/// Speaks HTTP for tools. Clones share their connections.
#[derive(Clone)]
pub struct Web {
    reach: Reach,
    clock: Arc<dyn Clock>,
    /// Connects to public addresses only.
    guarded: Client,
    /// Connects to any address: for hosts that the person named.
    open: Client,
}

/// What is to be sent.
pub(super) struct Ask {
    pub(super) method: Method,
    pub(super) url: Url,
    pub(super) headers: HeaderMap,
    pub(super) body: Option<String>,
    pub(super) timeout: Duration,
    pub(super) redirects: Redirects,
}

/// What is done when a server sends us elsewhere.
#[derive(Clone, Copy, PartialEq, Eq)]
pub(super) enum Redirects {
    /// Go there.
    Follow,
    /// Take it as the answer.
    Keep,
}

impl Web {
    /// A client that calls what is in `reach`.
    pub fn new(reach: Reach, clock: Arc<dyn Clock>) -> Result<Self, Error> {
        Self::with_lookup(reach, clock, lookup)
    }

    fn with_lookup(reach: Reach, clock: Arc<dyn Clock>, lookup: Lookup) -> Result<Self, Error> {
        let _ = rustls::crypto::ring::default_provider().install_default();
        let client = |resolver: Resolver| {
            Client::builder()
                .dns_resolver(resolver)
                .redirect(reqwest::redirect::Policy::none())
                // A proxy would connect for us, to addresses that we do not see.
                .no_proxy()
                .user_agent(concat!("segno/", env!("CARGO_PKG_VERSION")))
                .build()
                .map_err(|error| Error::new(ErrorKind::Network, told(&error)))
        };
        let resolver = |guarded| Resolver { lookup, guarded };
        Ok(Self {
            reach,
            clock,
            guarded: client(resolver(true))?,
            open: client(resolver(false))?,
        })
    }

    /// Sends a request and reads the answer, whatever its status.
    pub(super) async fn send(&self, ask: Ask) -> Result<Received, String> {
        let seconds = ask.timeout.as_secs();
        let host = ask.url.host_str().unwrap_or_default().to_owned();
        tokio::select! {
            received = self.exchange(&ask) => received,
            () = self.clock.sleep(ask.timeout) => {
                Err(format!("{host} took longer than {seconds} seconds"))
            }
        }
    }

    async fn exchange(&self, ask: &Ask) -> Result<Received, String> {
        let mut hop = Hop::first(ask);
        for _ in 0..=HOPS {
            let response = self.connect(&hop).await?;
            let next = match ask.redirects {
                Redirects::Follow => hop.next(&response)?,
                Redirects::Keep => None,
            };
            match next {
                Some(next) => hop = next,
                None => return Received::read(response).await,
            }
        }
        let host = ask.url.host_str().unwrap_or_default();
        Err(format!("{host} sends us on more than {HOPS} times"))
    }

    async fn connect(&self, hop: &Hop<'_>) -> Result<Response, String> {
        let client = if self.reach.names(&hop.url) {
            &self.open
        } else {
            // An address is not looked up, so the resolver never sees it.
            let host = hop.url.host_str().unwrap_or_default();
            if let Some(address) = reach::literal(host) {
                reach::check(host, address).map_err(|refusal| refusal.to_string())?;
            }
            &self.guarded
        };
        let mut request = client.request(hop.method.clone(), hop.url.clone());
        request = request.headers(hop.headers.clone());
        if let Some(body) = hop.body {
            request = request.body(body.to_owned());
        }
        request.send().await.map_err(|error| failed(&error))
    }
}

/// Reads an address that a tool may call.
pub(super) fn address(text: &str) -> Result<Url, String> {
    let url = Url::parse(text).map_err(|error| format!("`{text}` is not an address: {error}"))?;
    web_only(url)
}

fn web_only(url: Url) -> Result<Url, String> {
    match url.scheme() {
        "http" | "https" => Ok(url),
        other => Err(format!(
            "only http and https addresses can be called, not {other}"
        )),
    }
}

/// One request on the way to an answer.
struct Hop<'a> {
    method: Method,
    url: Url,
    headers: HeaderMap,
    body: Option<&'a str>,
}

impl<'a> Hop<'a> {
    fn first(ask: &'a Ask) -> Self {
        Self {
            method: ask.method.clone(),
            url: ask.url.clone(),
            headers: ask.headers.clone(),
            body: ask.body.as_deref(),
        }
    }

    /// Where a response sends us, if it does.
    fn next(&self, response: &Response) -> Result<Option<Self>, String> {
        let status = response.status().as_u16();
        let place = response.headers().get(LOCATION);
        let (301 | 302 | 303 | 307 | 308, Some(place)) = (status, place) else {
            return Ok(None);
        };
        let place = String::from_utf8_lossy(place.as_bytes());
        let url = self.url.join(&place);
        let url = url.map_err(|error| format!("it sends us to `{place}`: {error}"))?;
        let url = web_only(url)?;
        let mut next = Self {
            method: self.method.clone(),
            url,
            headers: self.headers.clone(),
            body: self.body,
        };
        let becomes_get = match status {
            303 => next.method != Method::HEAD,
            301 | 302 => next.method == Method::POST,
            _ => false,
        };
        if becomes_get {
            next.method = Method::GET;
            next.body = None;
            next.headers.remove(CONTENT_TYPE);
        }
        if next.url.origin() != self.url.origin() {
            // Any header may be a credential, and a body may hold one.
            next.headers.clear();
            if next.method != Method::GET && next.method != Method::HEAD {
                let host = next.url.host_str().unwrap_or_default();
                return Err(format!(
                    "it sends us on to {host}, and only GET and HEAD requests go on to another host"
                ));
            }
        }
        Ok(Some(next))
    }
}

/// Why there is no answer. A refusal of ours is told as it is, without the layers around it.
fn failed(error: &reqwest::Error) -> String {
    let mut cause = error.source();
    while let Some(error) = cause {
        if let Some(refusal) = error.downcast_ref::<Refusal>() {
            return refusal.to_string();
        }
        cause = error.source();
    }
    told(error)
}

/// Finds the addresses behind a name.
type Lookup = fn(&str) -> Boxed<'static, io::Result<Vec<SocketAddr>>>;

fn lookup(name: &str) -> Boxed<'static, io::Result<Vec<SocketAddr>>> {
    let name = name.to_owned();
    Box::pin(async move { Ok(tokio::net::lookup_host((name, 0)).await?.collect()) })
}

/// Hands the client the addresses that it connects to, and no others.
struct Resolver {
    lookup: Lookup,
    guarded: bool,
}

impl Resolve for Resolver {
    fn resolve(&self, name: Name) -> Resolving {
        let name = name.as_str().to_owned();
        let found = (self.lookup)(&name);
        let guarded = self.guarded;
        Box::pin(async move {
            let found = found.await?;
            if guarded {
                // One private address among public ones is a trap, not a mistake.
                for address in &found {
                    reach::check(&name, address.ip())?;
                }
            }
            Ok(Box::new(found.into_iter()) as Addrs)
        })
    }
}

#[cfg(test)]
mod tests {
    use std::net::TcpListener;
    use std::sync::atomic::{AtomicUsize, Ordering};

    use segno_core::time::Timestamp;

    use super::*;

    /// Time that does not pass.
    struct Still;

    impl Clock for Still {
        fn now(&self) -> Timestamp {
            Timestamp(0)
        }

        fn elapsed(&self) -> Duration {
            Duration::ZERO
        }

        fn sleep(&self, _: Duration) -> Boxed<'_, ()> {
            Box::pin(std::future::pending())
        }
    }

    /// A name server of which everyone may fear the worst.
    fn planted(name: &str) -> Boxed<'static, io::Result<Vec<SocketAddr>>> {
        let found: &[&str] = match name {
            "inside.example" => &["127.0.0.1:0"],
            "mixed.example" => &["93.184.215.14:0", "127.0.0.1:0"],
            "mapped.example" => &["[::ffff:127.0.0.1]:0"],
            "cloud.example" => &["169.254.169.254:0"],
            _ => &[],
        };
        let found = found.iter().map(|address| address.parse().unwrap());
        Box::pin(std::future::ready(Ok(found.collect())))
    }

    fn get(url: &str) -> Ask {
        Ask {
            method: Method::GET,
            url: address(url).unwrap(),
            headers: HeaderMap::new(),
            body: None,
            timeout: Duration::from_secs(1),
            redirects: Redirects::Follow,
        }
    }

    fn send(allowed: &[&str], url: &str) -> Result<Received, String> {
        let reach = Reach::new(allowed.iter().map(ToString::to_string).collect()).unwrap();
        let web = Web::with_lookup(reach, Arc::new(Still), planted).unwrap();
        let runtime = tokio::runtime::Builder::new_current_thread();
        let runtime = { runtime }.enable_all().build().unwrap();
        runtime.block_on(web.send(get(url)))
    }

    /// A server that hangs up on everyone: where it is, and how many came.
    fn rude() -> (u16, Arc<AtomicUsize>) {
        let listener = TcpListener::bind("127.0.0.1:0").unwrap();
        let port = listener.local_addr().unwrap().port();
        let came = Arc::new(AtomicUsize::new(0));
        let count = Arc::clone(&came);
        std::thread::spawn(move || {
            while let Ok((stream, _)) = listener.accept() {
                count.fetch_add(1, Ordering::SeqCst);
                drop(stream);
            }
        });
        (port, came)
    }

    #[test]
    fn a_name_that_leads_inside_is_not_connected_to() {
        let (port, came) = rude();
        for name in [
            "inside.example",
            "mixed.example",
            "mapped.example",
            "cloud.example",
        ] {
            let refused = send(&["other.example"], &format!("http://{name}:{port}/"));
            let refused = refused.err().unwrap();
            let start = format!("{name} may not be called: it leads to ");
            assert!(refused.starts_with(&start), "{refused}");
        }
        assert_eq!(came.load(Ordering::SeqCst), 0);
    }

    #[test]
    fn a_name_that_was_allowed_may_lead_inside_on_its_port_alone() {
        let (port, came) = rude();
        let url = format!("http://inside.example:{port}/");
        let other = send(&["inside.example:1"], &url).err().unwrap();
        assert!(other.contains("may not be called"), "{other}");
        assert_eq!(came.load(Ordering::SeqCst), 0);
        let hung_up = send(&[&format!("inside.example:{port}")], &url).err();
        let hung_up = hung_up.unwrap();
        assert!(!hung_up.contains("may not be called"), "{hung_up}");
        assert_ne!(came.load(Ordering::SeqCst), 0);
    }

    #[test]
    fn however_an_address_is_written_it_is_the_same_address() {
        for url in [
            "http://127.0.0.1/",
            "http://127.1/",
            "http://2130706433/",
            "http://0x7f000001/",
            "http://0x7f.0.0.1/",
            "http://0177.0.0.1/",
            "http://017700000001/",
            "http://１２７.0.0.1/",
            "http://127。0。0。1/",
            "http://%31%32%37.0.0.1/",
            "http://127.0.0.1./",
            "http://0/",
            "http://[::1]/",
            "http://[::]/",
            "http://[::ffff:7f00:1]/",
            "http://[::ffff:127.0.0.1]/",
            "http://someone:word@127.0.0.1/",
            "http://169.254.169.254/latest/meta-data/",
            "http://2852039166/",
            "http:\\\\127.0.0.1/",
            "http:127.0.0.1/",
        ] {
            let refused = send(&["example.com"], url).err().unwrap();
            assert!(
                refused.contains("may not be called: it is"),
                "{url}: {refused}"
            );
        }
    }

    #[test]
    fn only_the_web_can_be_called() {
        for url in [
            "file:///etc/passwd",
            "ftp://example.com/",
            "data:text/plain,x",
            "unix:/run/docker.sock",
            "gopher://example.com/",
            "example.com",
            "//example.com",
            "",
            "http://",
            "http://[::1",
            "http://1.2.3.4.5/",
        ] {
            assert!(address(url).is_err(), "{url}");
        }
    }
}
