//! A request as it came, and who sends it. Knows escapes, headers and proxies; refuses to know routes.

use super::app::App;
use super::body::Broken;
use crate::auth::Identity;
use axum::body::Bytes;
use axum::http::{HeaderMap, header};
use ipnet::IpNet;
use percent_encoding::percent_decode_str;
use std::net::IpAddr;
use std::sync::Arc;

/// What is known of a request beside what is in it.
#[derive(Clone, Copy, Debug)]
pub(super) struct Peer(pub(super) IpAddr);

/// A request, read whole.
pub(super) struct Call {
    /// What stands in the path where its route has braces; empty if it has none.
    pub(super) name: String,
    pub(super) query: Vec<(String, String)>,
    pub(super) headers: HeaderMap,
    /// Empty until it is read; or why it did not come whole.
    pub(super) body: Result<Bytes, Broken>,
    /// By which the client called, as far as we may believe it.
    pub(super) scheme: &'static str,
}

/// A call of somebody who may make it, and what it is answered from.
pub(super) struct Asked {
    pub(super) app: Arc<App>,
    pub(super) call: Call,
    pub(super) identity: Identity,
}

impl Call {
    /// A word behind the question mark.
    pub(super) fn word(&self, name: &str) -> Option<&str> {
        self.query.iter().find(|(key, _)| key == name).map(|(_, text)| text.as_str())
    }

    /// Scheme and host, as the client called us.
    pub(super) fn base(&self) -> String {
        let host = self.headers.get(header::HOST).and_then(|host| host.to_str().ok());
        format!("{}://{}", self.scheme, host.unwrap_or("localhost"))
    }

    /// Is the body declared to be JSON?
    pub(super) fn has_json(&self) -> bool {
        self.has_kind("application/json")
    }

    /// Is the body declared to be of a media type?
    pub(super) fn has_kind(&self, kind: &str) -> bool {
        let declared = self.headers.get(header::CONTENT_TYPE).and_then(|v| v.to_str().ok());
        let essence = declared.and_then(|text| text.split(';').next());
        essence.is_some_and(|text| text.trim().eq_ignore_ascii_case(kind))
    }
}

/// The parts of a path, decoded: an escaped slash parts nothing.
pub(super) fn parts(path: &str) -> Vec<String> {
    let parts = path.split('/').filter(|part| !part.is_empty());
    parts.map(|part| percent_decode_str(part).decode_utf8_lossy().into_owned()).collect()
}

/// The keys and values of a query.
pub(super) fn pairs(query: &str) -> Vec<(String, String)> {
    form_urlencoded::parse(query.as_bytes()).into_owned().collect()
}

/// The scheme by which a client called: what a proxy in front of us says of it, if we may believe that
/// proxy.
pub(super) fn scheme(peer: Option<IpAddr>, trusted: &[IpNet], headers: &HeaderMap) -> &'static str {
    let is_trusted = peer
        .is_some_and(|peer| trusted.iter().any(|proxies| proxies.contains(&peer.to_canonical())));
    let said = headers.get_all("x-forwarded-proto").iter().next_back();
    let said = said.filter(|_| is_trusted).and_then(|said| said.to_str().ok());
    // The last of several is the nearest proxy's.
    match said.and_then(|said| said.rsplit(',').next()).map(str::trim) {
        Some(said) if said.eq_ignore_ascii_case("https") => "https",
        _ => "http",
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use axum::http::HeaderValue;

    #[test]
    fn queries_and_paths_are_decoded_and_broken_escapes_stay() {
        assert_eq!(parts("//a%20b%2Fc/%76/"), ["a b/c", "v"]);
        for broken in ["%", "%2", "%zz", "%+1", "100%"] {
            assert_eq!(parts(broken), [broken]);
        }
        let expected = [("name", "a b"), ("x", ""), ("y", "1=2"), ("%zz", "/")];
        let expected: Vec<_> = expected.map(|(k, v)| (k.into(), v.into())).into();
        assert_eq!(pairs("name=a+b&x&&y=1=2&%zz=%2F"), expected);
    }

    #[test]
    fn only_a_trusted_proxy_says_how_a_client_called() {
        let trusted: [IpNet; 2] = ["192.0.2.0/24".parse().unwrap(), "::1/128".parse().unwrap()];
        let by = |peer: &str, said: &str| {
            let mut headers = HeaderMap::new();
            headers.insert("x-forwarded-proto", HeaderValue::from_str(said).unwrap());
            scheme(Some(peer.parse().unwrap()), &trusted, &headers)
        };
        for peer in ["192.0.2.7", "::ffff:192.0.2.7", "::1"] {
            assert_eq!(by(peer, "https"), "https", "{peer}");
        }
        assert_eq!(by("192.0.2.7", "HTTPS"), "https");
        assert_eq!(by("192.0.2.7", "http, https"), "https");
        assert_eq!(by("192.0.2.7", "https, http"), "http", "the nearest proxy's word");
        assert_eq!(by("192.0.2.7", "javascript"), "http");
        assert_eq!(by("203.0.113.1", "https"), "http", "anybody can say so");
        assert_eq!(scheme(Some("192.0.2.7".parse().unwrap()), &trusted, &HeaderMap::new()), "http");
        assert_eq!(scheme(None, &trusted, &HeaderMap::new()), "http");
    }
}
