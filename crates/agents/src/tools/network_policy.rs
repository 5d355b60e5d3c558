//! Which network addresses tools may reach.
//!
//! What a model requests may come from a page that someone else wrote (server-side request
//! forgery). So the machine itself, the network around it and the metadata services of its cloud
//! cannot be reached, unless the user allowed them.

use std::fmt;
use std::net::{IpAddr, Ipv4Addr, Ipv6Addr};
use std::sync::Arc;

use reqwest::Url;

/// Public addresses, and the private ones that the user allowed.
#[derive(Debug, Clone, Default)]
pub struct NetworkPolicy {
    allowed: Arc<[Allowed]>,
}

/// A private host that may be reached; on any port if there is none.
#[derive(Debug)]
struct Allowed {
    host: String,
    port: Option<u16>,
}

/// An entry of the allow list that is no host.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("`{0}` is neither a host such as `localhost` nor a host and port such as `localhost:8080`")]
pub struct NotAHost(pub String);

/// An address that may not be reached, and why.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct AddressRefused {
    host: String,
    address: IpAddr,
    reason: &'static str,
}

impl fmt::Display for AddressRefused {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self {
            host,
            address,
            reason,
        } = self;
        if parse_ip(host) == Some(*address) {
            write!(f, "access to {host} is denied: it is {reason}")?;
        } else {
            write!(
                f,
                "access to {host} is denied: it resolves to {address}, which is {reason}"
            )?;
        }
        f.write_str("; the user can allow it with `network.allow_private` in config.toml")
    }
}

impl std::error::Error for AddressRefused {}

impl NetworkPolicy {
    /// Allows public addresses and these hosts: each a `host` or a `host:port`.
    pub fn new(allowed: Vec<String>) -> Result<Self, NotAHost> {
        let allowed: Result<Vec<_>, _> = allowed.into_iter().map(Allowed::parse).collect();
        Ok(Self {
            allowed: allowed?.into(),
        })
    }

    /// Why a URL can never be called, if that is known without a DNS lookup. The addresses behind a
    /// name are checked when it is called.
    pub fn refusal(&self, address: &str) -> Option<String> {
        let url = Url::parse(address).ok()?;
        let host = url.host_str()?;
        let is_own = host == "localhost" || host.ends_with(".localhost");
        let own = is_own.then_some(IpAddr::V4(Ipv4Addr::LOCALHOST));
        let leads_to = parse_ip(host).or(own).filter(|_| !self.allows_host(&url))?;
        let refused = check_public(host, leads_to).err();
        refused.map(|refusal| refusal.to_string())
    }

    /// Whether the user allowed the host of this URL, so that it may be private.
    pub(super) fn allows_host(&self, url: &Url) -> bool {
        let port = url.port_or_known_default();
        self.allowed.iter().any(|allowed| {
            let fits = allowed.port.is_none() || allowed.port == port;
            fits && url.host_str() == Some(&allowed.host)
        })
    }
}

impl Allowed {
    /// Parses a host by the URL parser, so that both are normalized the same way.
    fn parse(text: String) -> Result<Self, NotAHost> {
        let is_forbidden = |c: char| c.is_whitespace() || "/\\?#@".contains(c);
        if text.contains(is_forbidden) {
            return Err(NotAHost(text));
        }
        let whole = if text.parse::<Ipv6Addr>().is_ok() {
            format!("[{text}]")
        } else {
            text.clone()
        };
        // Each scheme hides its default port.
        let (plain, secure) = (
            Url::parse(&format!("http://{whole}/")),
            Url::parse(&format!("https://{whole}/")),
        );
        let (Ok(plain), Ok(secure)) = (plain, secure) else {
            return Err(NotAHost(text));
        };
        let port = plain.port().or(secure.port());
        match plain.host_str() {
            Some(host) => Ok(Self {
                host: host.to_owned(),
                port,
            }),
            None => Err(NotAHost(text)),
        }
    }
}

/// The IP address that a host is, if it is not a name.
pub(super) fn parse_ip(host: &str) -> Option<IpAddr> {
    host.trim_start_matches('[')
        .trim_end_matches(']')
        .parse()
        .ok()
}

/// Refuses an address that is not public.
pub(super) fn check_public(host: &str, address: IpAddr) -> Result<(), AddressRefused> {
    let reason = match address {
        IpAddr::V4(address) => private_v4(address),
        IpAddr::V6(address) => private_v6(address),
    };
    match reason {
        None => Ok(()),
        Some(reason) => Err(AddressRefused {
            host: host.to_owned(),
            address,
            reason,
        }),
    }
}

/// Why an address is not public.
fn private_v4(address: Ipv4Addr) -> Option<&'static str> {
    let reason = match address.octets() {
        [169, 254, 169, 254] | [168, 63, 129, 16] | [100, 100, 100, 200] => {
            "the metadata service of a cloud"
        }
        [0, ..] => "an unspecified address",
        [127, ..] => "this machine",
        [10, ..] | [172, 16..=31, ..] | [192, 168, ..] => "in a private network",
        [100, 64..=127, ..] => "in a provider's private network",
        [169, 254, ..] => "a link-local address",
        [192, 0, 2, _] | [198, 51, 100, _] | [203, 0, 113, _] => "a documentation address",
        [192, 0, 0, _] | [192, 88, 99, _] | [198, 18..=19, ..] => "a special-purpose address",
        [224..=239, ..] => "a multicast address",
        [255, 255, 255, 255] => "the broadcast address",
        [240..=255, ..] => "a reserved address",
        _ => return None,
    };
    Some(reason)
}

/// Why an address is not public. Only one eighth of IPv6 is, so unknown ranges are not.
fn private_v6(address: Ipv6Addr) -> Option<&'static str> {
    let reason = match address.segments() {
        [0, 0, 0, 0, 0, 0, 0, 0] => "an unspecified address",
        [0, 0, 0, 0, 0, 0, 0, 1] => "this machine",
        [0, 0, 0, 0, 0, 0xffff, ..] => "a mapped IPv4 address",
        // NAT64: leads to IPv4 from networks without it.
        [0x64, 0xff9b, 0, 0, 0, 0, ..] => {
            let [.., a, b, c, d] = address.octets();
            return private_v4(Ipv4Addr::new(a, b, c, d));
        }
        [0xfc00..=0xfdff, ..] => "in a private network",
        [0xfe80..=0xfebf, ..] => "a link-local address",
        [0xff00..=0xffff, ..] => "a multicast address",
        [0x2001, 0x0db8, ..] | [0x3fff, 0..=0x0fff, ..] => "a documentation address",
        // Tunnels and experiments; the other end of a tunnel may be anywhere.
        [0x2001, 0..=0x01ff, ..] | [0x2002, ..] => "a special-purpose address",
        [0x2000..=0x3fff, ..] => return None,
        _ => "not a public address",
    };
    Some(reason)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn is_public(address: &str) -> bool {
        check_public("host", address.parse().unwrap()).is_ok()
    }

    #[test]
    fn literal_private_urls_are_refused_early() {
        let policy = NetworkPolicy::new(vec!["127.0.0.1:8080".to_owned()]).unwrap();
        for (address, refused) in [
            ("http://127.0.0.1:8080/v1", false),
            ("http://127.0.0.1:8081/v1", true),
            ("http://localhost:8080", true),
            ("http://a.localhost", true),
            ("http://0x7f.1", true),
            ("http://[::1]/", true),
            ("https://api.example.com", false),
            ("https://8.8.8.8", false),
        ] {
            assert_eq!(policy.refusal(address).is_some(), refused, "{address}");
        }
    }

    #[test]
    fn all_private_ranges_are_refused() {
        for private in [
            "0.0.0.0",
            "0.255.255.255",
            "10.0.0.0",
            "10.255.255.255",
            "100.64.0.0",
            "100.100.100.200",
            "100.127.255.255",
            "127.0.0.0",
            "127.0.0.1",
            "127.255.255.255",
            "168.63.129.16",
            "169.254.0.0",
            "169.254.169.254",
            "169.254.255.255",
            "172.16.0.0",
            "172.31.255.255",
            "192.0.0.0",
            "192.0.0.192",
            "192.0.2.1",
            "192.88.99.1",
            "192.168.0.0",
            "192.168.255.255",
            "198.18.0.0",
            "198.19.255.255",
            "198.51.100.1",
            "203.0.113.1",
            "224.0.0.0",
            "239.255.255.255",
            "240.0.0.0",
            "255.255.255.254",
            "255.255.255.255",
            "::",
            "::1",
            "::2",
            "::127.0.0.1",
            "::ffff:127.0.0.1",
            "::ffff:8.8.8.8",
            "64:ff9b::127.0.0.1",
            "64:ff9b::10.0.0.1",
            "64:ff9b:1::1",
            "100::1",
            "2001::1",
            "2001:1ff:ffff::",
            "2001:db8::1",
            "2002:7f00:1::",
            "3fff::1",
            "3fff:fff:ffff::",
            "4000::1",
            "5f00::1",
            "fc00::1",
            "fd00:ec2::254",
            "fdff:ffff::1",
            "fe80::1",
            "febf::1",
            "fec0::1",
            "ff02::1",
            "ffff::1",
        ] {
            assert!(!is_public(private), "{private}");
        }
    }

    #[test]
    fn neighbours_of_private_ranges_are_public() {
        for public in [
            "1.0.0.0",
            "8.8.8.8",
            "9.255.255.255",
            "11.0.0.0",
            "100.63.255.255",
            "100.128.0.0",
            "126.255.255.255",
            "128.0.0.0",
            "168.63.129.15",
            "169.253.255.255",
            "169.255.0.0",
            "172.15.255.255",
            "172.32.0.0",
            "192.0.1.0",
            "192.0.3.0",
            "192.167.255.255",
            "192.169.0.0",
            "198.17.255.255",
            "198.20.0.0",
            "223.255.255.255",
            "64:ff9b::8.8.8.8",
            "2000::1",
            "2001:200::1",
            "2001:db7::1",
            "2001:db9::1",
            "2003::1",
            "2606:4700:4700::1111",
            "3fff:1000::1",
        ] {
            assert!(is_public(public), "{public}");
        }
    }

    #[test]
    fn only_the_allowed_host_and_port_match() {
        let policy = |allowed: &[&str]| {
            NetworkPolicy::new(allowed.iter().map(ToString::to_string).collect()).unwrap()
        };
        for (allowed, url, expected) in [
            ("localhost", "http://localhost/", true),
            ("localhost", "https://LOCALHOST:9999/x?y", true),
            ("LocalHost", "http://localhost/", true),
            ("localhost", "http://localhost./", false),
            ("localhost", "http://localhost.example.com/", false),
            ("localhost", "http://127.0.0.1/", false),
            ("localhost", "http://localhost@example.com/", false),
            ("localhost:80", "http://localhost/", true),
            ("localhost:80", "https://localhost/", false),
            ("localhost:443", "https://localhost/", true),
            ("localhost:443", "http://localhost/", false),
            ("localhost:8080", "http://localhost:8080/", true),
            ("localhost:8080", "http://localhost:8081/", false),
            ("127.0.0.1", "http://2130706433/", true),
            ("127.0.0.1:80", "http://127.1/", true),
            ("127.0.0.1", "http://127.0.0.2/", false),
            ("127.0.0.1", "http://[::ffff:127.0.0.1]/", false),
            ("::1", "http://[0:0::1]/", true),
            ("[::1]", "http://[::1]:70/", true),
            ("[::1]:70", "http://[::1]:70/", true),
            ("[::1]:70", "http://[::1]:71/", false),
        ] {
            let url = Url::parse(url).unwrap();
            assert_eq!(
                policy(&[allowed]).allows_host(&url),
                expected,
                "{allowed} {url}"
            );
        }
        assert!(!NetworkPolicy::default().allows_host(&Url::parse("http://localhost/").unwrap()));
    }

    #[test]
    fn invalid_hosts_cannot_be_allowed() {
        for wrong in [
            "",
            " ",
            "http://localhost",
            "localhost/path",
            "me@localhost",
            "localhost:port",
            "localhost:99999",
            ":80",
            "1.2.3.999",
            "*?",
        ] {
            let refused = NetworkPolicy::new(vec!["fine".to_owned(), wrong.to_owned()]);
            assert_eq!(refused.unwrap_err(), NotAHost(wrong.to_owned()));
        }
    }

    #[test]
    fn refusal_names_address_reason_and_setting() {
        let literal = check_public("[::1]", "::1".parse().unwrap()).unwrap_err();
        assert_eq!(
            literal.to_string(),
            "access to [::1] is denied: it is this machine; \
             the user can allow it with `network.allow_private` in config.toml"
        );
        let name = check_public("intra.example", "10.1.2.3".parse().unwrap()).unwrap_err();
        assert_eq!(
            name.to_string(),
            "access to intra.example is denied: it resolves to 10.1.2.3, which is in a private network; \
             the user can allow it with `network.allow_private` in config.toml"
        );
    }
}
