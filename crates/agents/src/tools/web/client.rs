//! The HTTP client of all tools. It checks the target of every redirect, and the address behind a
//! name at the time of connecting, so that a name cannot lead somewhere else in between (DNS
//! rebinding).

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
use crate::http::describe_error;
use crate::tools::network_policy::{self, AddressRefused, NetworkPolicy};

/// How many redirects are followed.
const MAX_REDIRECTS: usize = 5;

/// The HTTP client for tools. Clones share their connections.
#[derive(Clone)]
pub struct Web {
    policy: NetworkPolicy,
    clock: Arc<dyn Clock>,
    /// Connects to public addresses only.
    public_only: Client,
    /// Connects to any address: for hosts that the user allowed.
    unrestricted: Client,
}

/// A request.
pub(super) struct HttpRequest {
    pub(super) method: Method,
    pub(super) url: Url,
    pub(super) headers: HeaderMap,
    pub(super) body: Option<String>,
    pub(super) timeout: Duration,
    pub(super) redirects: Redirects,
}

/// How redirects are handled.
#[derive(Clone, Copy, PartialEq, Eq)]
pub(super) enum Redirects {
    Follow,
    /// Returned as the response.
    Return,
}

impl Web {
    /// A client that reaches what `policy` allows.
    pub fn new(policy: NetworkPolicy, clock: Arc<dyn Clock>) -> Result<Self, Error> {
        Self::with_lookup(policy, clock, lookup)
    }

    fn with_lookup(
        policy: NetworkPolicy,
        clock: Arc<dyn Clock>,
        lookup: Lookup,
    ) -> Result<Self, Error> {
        let _ = rustls::crypto::ring::default_provider().install_default();
        let client = |resolver: Resolver| {
            Client::builder()
                .dns_resolver(resolver)
                .redirect(reqwest::redirect::Policy::none())
                // A proxy would connect for us, to addresses that we do not see.
                .no_proxy()
                .user_agent(concat!("segno/", env!("CARGO_PKG_VERSION")))
                .build()
                .map_err(|error| Error::new(ErrorKind::Network, describe_error(&error)))
        };
        let resolver = |public_only| Resolver {
            lookup,
            public_only,
        };
        Ok(Self {
            policy,
            clock,
            public_only: client(resolver(true))?,
            unrestricted: client(resolver(false))?,
        })
    }

    /// Sends a request and reads the response, whatever its status.
    pub(super) async fn send(&self, request: HttpRequest) -> Result<Received, String> {
        let seconds = request.timeout.as_secs();
        let host = request.url.host_str().unwrap_or_default().to_owned();
        tokio::select! {
            received = self.exchange(&request) => received,
            () = self.clock.sleep(request.timeout) => {
                Err(format!("the request to {host} took longer than {seconds} seconds"))
            }
        }
    }

    async fn exchange(&self, request: &HttpRequest) -> Result<Received, String> {
        let mut hop = Hop::first(request);
        for _ in 0..=MAX_REDIRECTS {
            let response = self.connect(&hop).await?;
            let next = match request.redirects {
                Redirects::Follow => hop.next(&response)?,
                Redirects::Return => None,
            };
            match next {
                Some(next) => hop = next,
                None => return Received::read(response).await,
            }
        }
        let host = request.url.host_str().unwrap_or_default();
        Err(format!("{host} redirects more than {MAX_REDIRECTS} times"))
    }

    async fn connect(&self, hop: &Hop<'_>) -> Result<Response, String> {
        let client = if self.policy.allows_host(&hop.url) {
            &self.unrestricted
        } else {
            // An IP address is not looked up, so the resolver never sees it.
            let host = hop.url.host_str().unwrap_or_default();
            if let Some(address) = network_policy::parse_ip(host) {
                network_policy::check_public(host, address)
                    .map_err(|refusal| refusal.to_string())?;
            }
            &self.public_only
        };
        let mut request = client.request(hop.method.clone(), hop.url.clone());
        request = request.headers(hop.headers.clone());
        if let Some(body) = hop.body {
            request = request.body(body.to_owned());
        }
        request.send().await.map_err(|error| failed(&error))
    }
}

/// Parses a URL that a tool may call.
pub(super) fn parse_url(text: &str) -> Result<Url, String> {
    let url = Url::parse(text).map_err(|error| format!("`{text}` is not a URL: {error}"))?;
    check_scheme(url)
}

fn check_scheme(url: Url) -> Result<Url, String> {
    match url.scheme() {
        "http" | "https" => Ok(url),
        other => Err(format!(
            "only http and https URLs are supported, not {other}"
        )),
    }
}

/// One request in a chain of redirects.
struct Hop<'a> {
    method: Method,
    url: Url,
    headers: HeaderMap,
    body: Option<&'a str>,
}

impl<'a> Hop<'a> {
    fn first(request: &'a HttpRequest) -> Self {
        Self {
            method: request.method.clone(),
            url: request.url.clone(),
            headers: request.headers.clone(),
            body: request.body.as_deref(),
        }
    }

    /// The next request, if the response is a redirect.
    fn next(&self, response: &Response) -> Result<Option<Self>, String> {
        let status = response.status().as_u16();
        let location = response.headers().get(LOCATION);
        let (301 | 302 | 303 | 307 | 308, Some(location)) = (status, location) else {
            return Ok(None);
        };
        let location = String::from_utf8_lossy(location.as_bytes());
        let url = self.url.join(&location);
        let url = url.map_err(|error| format!("it redirects to `{location}`: {error}"))?;
        let url = check_scheme(url)?;
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
            // Any header may be a credential, and a body may contain one.
            next.headers.clear();
            if next.method != Method::GET && next.method != Method::HEAD {
                let host = next.url.host_str().unwrap_or_default();
                return Err(format!(
                    "it redirects to {host}, and only GET and HEAD requests are redirected to another host"
                ));
            }
        }
        Ok(Some(next))
    }
}

/// Describes why there is no response. A refusal by [`NetworkPolicy`] is shown as it is, without the layers
/// around it.
fn failed(error: &reqwest::Error) -> String {
    let mut cause = error.source();
    while let Some(error) = cause {
        if let Some(refusal) = error.downcast_ref::<AddressRefused>() {
            return refusal.to_string();
        }
        cause = error.source();
    }
    describe_error(error)
}

/// Resolves a name to addresses.
type Lookup = fn(&str) -> Boxed<'static, io::Result<Vec<SocketAddr>>>;

fn lookup(name: &str) -> Boxed<'static, io::Result<Vec<SocketAddr>>> {
    let name = name.to_owned();
    Box::pin(async move { Ok(tokio::net::lookup_host((name, 0)).await?.collect()) })
}

/// Gives the client only the addresses that it may connect to.
struct Resolver {
    lookup: Lookup,
    public_only: bool,
}

impl Resolve for Resolver {
    fn resolve(&self, name: Name) -> Resolving {
        let name = name.as_str().to_owned();
        let found = (self.lookup)(&name);
        let public_only = self.public_only;
        Box::pin(async move {
            let found = found.await?;
            if public_only {
                // One private address among public ones is an attack, not a mistake.
                for address in &found {
                    network_policy::check_public(&name, address.ip())?;
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

    /// A clock that does not advance.
    struct FixedClock;

    impl Clock for FixedClock {
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

    /// A hostile name server.
    fn hostile_lookup(name: &str) -> Boxed<'static, io::Result<Vec<SocketAddr>>> {
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

    fn get(url: &str) -> HttpRequest {
        HttpRequest {
            method: Method::GET,
            url: parse_url(url).unwrap(),
            headers: HeaderMap::new(),
            body: None,
            timeout: Duration::from_secs(1),
            redirects: Redirects::Follow,
        }
    }

    fn send(allowed: &[&str], url: &str) -> Result<Received, String> {
        let policy = NetworkPolicy::new(allowed.iter().map(ToString::to_string).collect()).unwrap();
        let web = Web::with_lookup(policy, Arc::new(FixedClock), hostile_lookup).unwrap();
        let runtime = tokio::runtime::Builder::new_current_thread();
        let runtime = { runtime }.enable_all().build().unwrap();
        runtime.block_on(web.send(get(url)))
    }

    /// A server that closes every connection: its port, and how many connections came.
    fn closing_server() -> (u16, Arc<AtomicUsize>) {
        let listener = TcpListener::bind("127.0.0.1:0").unwrap();
        let port = listener.local_addr().unwrap().port();
        let connections = Arc::new(AtomicUsize::new(0));
        let count = Arc::clone(&connections);
        std::thread::spawn(move || {
            while let Ok((stream, _)) = listener.accept() {
                count.fetch_add(1, Ordering::SeqCst);
                drop(stream);
            }
        });
        (port, connections)
    }

    #[test]
    fn name_with_a_private_address_is_refused() {
        let (port, connections) = closing_server();
        for name in [
            "inside.example",
            "mixed.example",
            "mapped.example",
            "cloud.example",
        ] {
            let refused = send(&["other.example"], &format!("http://{name}:{port}/"));
            let refused = refused.err().unwrap();
            let start = format!("access to {name} is denied: it resolves to ");
            assert!(refused.starts_with(&start), "{refused}");
        }
        assert_eq!(connections.load(Ordering::SeqCst), 0);
    }

    #[test]
    fn allowed_name_is_private_on_its_port_only() {
        let (port, connections) = closing_server();
        let url = format!("http://inside.example:{port}/");
        let other = send(&["inside.example:1"], &url).err().unwrap();
        assert!(other.contains("is denied"), "{other}");
        assert_eq!(connections.load(Ordering::SeqCst), 0);
        let hung_up = send(&[&format!("inside.example:{port}")], &url).err();
        let hung_up = hung_up.unwrap();
        assert!(!hung_up.contains("is denied"), "{hung_up}");
        assert_ne!(connections.load(Ordering::SeqCst), 0);
    }

    #[test]
    fn every_spelling_of_a_private_ip_is_refused() {
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
            assert!(refused.contains("is denied: it is"), "{url}: {refused}");
        }
    }

    #[test]
    fn only_http_and_https_urls_are_accepted() {
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
            assert!(parse_url(url).is_err(), "{url}");
        }
    }
}
