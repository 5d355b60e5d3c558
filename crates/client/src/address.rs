//! Where a server is.

use std::fmt;
use std::path::PathBuf;
use std::str::FromStr;

use reqwest::Url;

/// The address of a server: an HTTP URL, or the Unix socket in its home.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Address {
    Http(Url),
    Socket(PathBuf),
}

impl FromStr for Address {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, String> {
        if let Some(path) = text.strip_prefix("unix:") {
            let path = PathBuf::from(path.strip_prefix("//").unwrap_or(path));
            if !path.is_absolute() {
                return Err("the path of a socket begins with `/`".to_owned());
            }
            return Ok(Self::Socket(path));
        }
        let url: Url = text.parse().map_err(|_| unknown())?;
        let is_plain = url.path() == "/" && url.query().is_none() && url.fragment().is_none();
        let has_user = !url.username().is_empty() || url.password().is_some();
        match url.scheme() {
            "http" | "https" if url.host_str().is_some() && is_plain && !has_user => {
                Ok(Self::Http(url))
            }
            _ => Err(unknown()),
        }
    }
}

fn unknown() -> String {
    "write it as http://HOST:PORT, https://HOST:PORT or unix:/PATH".to_owned()
}

impl Address {
    /// The address of a route.
    pub(crate) fn route(&self, path: &str) -> Url {
        let mut url = match self {
            Self::Http(url) => url.clone(),
            // The host that a server answers to on its socket.
            Self::Socket(_) => "http://localhost".parse().expect("it is a URL"),
        };
        let (path, query) = match path.split_once('?') {
            Some((path, query)) => (path, Some(query)),
            None => (path, None),
        };
        url.set_path(path);
        url.set_query(query);
        url
    }

    /// Whether a token would cross a network without encryption.
    pub fn is_open(&self) -> bool {
        let Self::Http(url) = self else {
            return false;
        };
        url.scheme() == "http"
            && !url.host_str().is_some_and(|host| {
                let address = host.trim_matches(['[', ']']).parse::<std::net::IpAddr>();
                host == "localhost" || address.is_ok_and(|address| address.is_loopback())
            })
    }
}

impl fmt::Display for Address {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Http(url) => f.write_str(url.as_str().trim_end_matches('/')),
            Self::Socket(path) => write!(f, "unix:{}", path.display()),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn addresses_are_read_and_written_alike() {
        for text in [
            "http://127.0.0.1:4747",
            "https://build-machine",
            "unix:/home/me/.local/state/segno/server/socket",
        ] {
            assert_eq!(text.parse::<Address>().unwrap().to_string(), text);
        }
    }

    #[test]
    fn other_addresses_are_refused() {
        for text in [
            "",
            "build-machine:4747",
            "ftp://host",
            "http://",
            "http://me:secret@host",
            "http://host/segno",
            "http://host?x",
            "unix:socket",
        ] {
            text.parse::<Address>().unwrap_err();
        }
    }

    #[test]
    fn token_never_crosses_a_network_in_the_open() {
        let is_open = |text: &str| text.parse::<Address>().unwrap().is_open();
        assert!(is_open("http://build-machine:4747"));
        assert!(is_open("http://192.0.2.7"));
        assert!(!is_open("https://build-machine"));
        assert!(!is_open("http://127.0.0.1:4747"));
        assert!(!is_open("http://[::1]:4747"));
        assert!(!is_open("http://localhost:4747"));
        assert!(!is_open("unix:/socket"));
    }
}
