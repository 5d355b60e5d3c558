//! Where a server listens, and what clients call it.

use std::net::SocketAddr;

use super::encryption::Encryption;
use crate::failure::Failure;

/// Refuses addresses where everyone on the way would read the tokens, and those that no client could
/// name.
pub(super) fn check(
    addresses: &[SocketAddr],
    named: &[String],
    encryption: &Encryption,
) -> Result<(), Failure> {
    let Some(address) = addresses.iter().find(|it| !it.ip().is_loopback()) else {
        return Ok(());
    };
    let port = address.port();
    if !encryption.is_encrypted() {
        return Err(Failure::usage(
            format!(
                "{address} can be reached from other machines, and the connection is not encrypted"
            ),
            Some(format!(
                "encrypt it with `--tls self-signed`, or `--tls-cert FILE --tls-key FILE`; or listen on 127.0.0.1:{port} and reach it through `ssh -L {port}:127.0.0.1:{port} HOST`, or through a proxy with HTTPS: `segno serve --behind-https --host NAME`"
            )),
        ));
    }
    let is_any = addresses.iter().any(|it| it.ip().is_unspecified());
    if is_any && named.is_empty() {
        return Err(Failure::usage(
            format!(
                "{address} is every address of this machine, and the server answers only to hosts that it knows"
            ),
            Some("name what clients call it: `--host NAME`, or `--host ADDRESS`".to_owned()),
        ));
    }
    Ok(())
}

/// The bound addresses, and the host names that were given.
pub(super) struct Addresses {
    bound: Vec<SocketAddr>,
    named: Vec<String>,
    is_encrypted: bool,
    has_proxy: bool,
}

impl Addresses {
    pub(super) fn new(bound: Vec<SocketAddr>, named: &[String], encryption: &Encryption) -> Self {
        let has_proxy = encryption.has_proxy();
        // A proxy has a port of its own; without one, clients use a port of ours.
        let with_ports = |name: &String| -> Vec<String> {
            if has_proxy || !encryption.is_encrypted() || has_port(name) {
                return vec![name.clone()];
            }
            let ports = bound.iter().map(SocketAddr::port);
            ports.map(|port| format!("{name}:{port}")).collect()
        };
        Self {
            named: named.iter().flat_map(with_ports).collect(),
            bound,
            is_encrypted: encryption.is_encrypted(),
            has_proxy,
        }
    }

    /// Whether browsers reach the server by HTTPS.
    pub(super) fn is_encrypted(&self) -> bool {
        self.is_encrypted
    }

    /// The addresses for browsers, the best one first.
    pub(super) fn urls(&self) -> Vec<String> {
        let scheme = |is_encrypted| if is_encrypted { "https" } else { "http" };
        let outside = scheme(self.is_encrypted);
        let direct = scheme(self.is_encrypted && !self.has_proxy);
        let named = self.named.iter().map(|host| format!("{outside}://{host}"));
        let bound = self
            .bound
            .iter()
            .map(|address| format!("{direct}://{address}"));
        named.chain(bound).collect()
    }

    /// The values of `Host` that clients of these addresses send.
    pub(super) fn hosts(&self) -> Vec<String> {
        // What clients of the Unix socket send.
        let mut hosts = vec!["localhost".to_owned()];
        for address in &self.bound {
            let port = address.port();
            hosts.push(address.to_string());
            hosts.push(format!("localhost:{port}"));
            if address.ip().is_unspecified() {
                hosts.push(format!("127.0.0.1:{port}"));
            }
            if address.ip().is_ipv6() {
                hosts.push(format!("[::1]:{port}"));
            }
        }
        hosts.extend(self.named.iter().cloned());
        hosts
    }

    /// The names and addresses that a certificate must have.
    pub(super) fn certificate_names(&self) -> Vec<String> {
        let mut names: Vec<String> = ["localhost", "127.0.0.1", "::1"].map(str::to_owned).into();
        let bound = self.bound.iter().map(SocketAddr::ip);
        names.extend(
            bound
                .filter(|it| !it.is_unspecified())
                .map(|it| it.to_string()),
        );
        names.extend(self.named.iter().map(|name| without_port(name)));
        names.sort();
        names.dedup();
        names
    }
}

fn has_port(host: &str) -> bool {
    let after_address = host.rsplit(']').next().unwrap_or(host);
    after_address.contains(':')
}

fn without_port(host: &str) -> String {
    let name = match host.rsplit_once(':') {
        Some((name, _)) if has_port(host) => name,
        _ => host,
    };
    name.trim_matches(['[', ']']).to_owned()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn hosts_have_their_ports() {
        for (host, is_set, name) in [
            ("box", false, "box"),
            ("box:80", true, "box"),
            ("[::1]:80", true, "::1"),
            ("[fe80::1]", false, "fe80::1"),
        ] {
            assert_eq!(
                (has_port(host), without_port(host).as_str()),
                (is_set, name)
            );
        }
    }
}
