//! The hosts that this server answers to.
//!
//! A page of another site can make a browser send requests here, with a name that points at this
//! machine. Such a request has the other site's name as its host, or its origin.

use std::collections::BTreeSet;

use axum::extract::Request;
use axum::http::Method;
use axum::http::header::{HOST, HeaderMap, ORIGIN};

use crate::error::Refusal;

/// The values of `Host` that are accepted, and the origins that follow from them.
#[derive(Debug, Clone, Default)]
pub struct AllowedHosts {
    hosts: BTreeSet<String>,
    origins: BTreeSet<String>,
    is_encrypted: bool,
}

impl AllowedHosts {
    /// Accepts `hosts`, each with its port, and pages from them. With `is_encrypted`, browsers reach
    /// this server by HTTPS.
    pub fn new(hosts: impl IntoIterator<Item = String>, is_encrypted: bool) -> Self {
        let scheme = if is_encrypted { "https" } else { "http" };
        let hosts: BTreeSet<String> = hosts
            .into_iter()
            .map(|host| host.to_ascii_lowercase())
            .collect();
        // Browsers leave the usual port out.
        let usual = if is_encrypted { ":443" } else { ":80" };
        let short = hosts.iter().filter_map(|host| host.strip_suffix(usual));
        let hosts: BTreeSet<String> = short.map(str::to_owned).chain(hosts.clone()).collect();
        let origins = hosts.iter().map(|host| format!("{scheme}://{host}"));
        Self {
            origins: origins.collect(),
            hosts,
            is_encrypted,
        }
    }

    pub(crate) fn is_encrypted(&self) -> bool {
        self.is_encrypted
    }

    /// Refuses a request for another host, or from a page of another site.
    pub(super) fn check(&self, request: &Request) -> Result<(), Refusal> {
        let headers = request.headers();
        let host = self.only_host(headers)?;
        // An absolute address in the request line must name the same host.
        if let Some(authority) = request.uri().authority()
            && !authority.as_str().eq_ignore_ascii_case(&host)
        {
            return Err(Refusal::WrongHost {
                host: authority.to_string(),
            });
        }
        for origin in headers.get_all(ORIGIN) {
            let origin = String::from_utf8_lossy(origin.as_bytes()).into_owned();
            if !self.origins.contains(&origin.to_ascii_lowercase()) {
                return Err(Refusal::ForeignOrigin { origin });
            }
        }
        if let Some(site) = headers.get("sec-fetch-site") {
            let site = site.to_str().unwrap_or("unreadable");
            // A link on another site may open a page here, but nothing that such a page requests is
            // answered, and a page that is opened changes nothing.
            let opened = site == "cross-site" || site == "same-site";
            let opened = opened && *request.method() == Method::GET && is_navigation(headers);
            if !matches!(site, "same-origin" | "none") && !opened {
                return Err(Refusal::ForeignOrigin {
                    origin: format!("a {site} page"),
                });
            }
        }
        Ok(())
    }

    fn only_host(&self, headers: &HeaderMap) -> Result<String, Refusal> {
        let mut given = headers.get_all(HOST).iter();
        let host = match (given.next(), given.next()) {
            (Some(host), None) => String::from_utf8_lossy(host.as_bytes()).into_owned(),
            (None, _) => "(none)".to_owned(),
            (Some(_), Some(_)) => "(several)".to_owned(),
        };
        if self.hosts.contains(&host.to_ascii_lowercase()) {
            Ok(host)
        } else {
            Err(Refusal::WrongHost { host })
        }
    }
}

fn is_navigation(headers: &HeaderMap) -> bool {
    let is = |name: &str, wanted: &str| headers.get(name).is_some_and(|value| value == wanted);
    is("sec-fetch-mode", "navigate") && is("sec-fetch-dest", "document")
}
