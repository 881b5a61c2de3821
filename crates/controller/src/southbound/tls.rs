//! The TLS of the southbound port: version 1.3 alone, nodes of our authority alone, and a certificate
//! of the controller that is renewed while it runs.

use super::pki::{Authority, NODE_CERTIFICATE_DAYS};
use crate::error::ControllerError;
use std::path::PathBuf;
use std::sync::{Arc, Mutex, PoisonError};
use std::time::{Duration, SystemTime};
use tokio_rustls::rustls::crypto::{CryptoProvider, ring};
use tokio_rustls::rustls::pki_types::pem::PemObject;
use tokio_rustls::rustls::pki_types::{CertificateDer, PrivateKeyDer};
use tokio_rustls::rustls::server::{ClientHello, ResolvesServerCert, WebPkiClientVerifier};
use tokio_rustls::rustls::sign::CertifiedKey;
use tokio_rustls::rustls::version::TLS13;
use tokio_rustls::rustls::{RootCertStore, ServerConfig};

/// A certificate is renewed so long after it was made: a third of its time is left then.
const RENEW_AFTER: Duration = Duration::from_secs(NODE_CERTIFICATE_DAYS * 24 * 3_600 / 3 * 2);

/// How agents are met.
pub(super) fn server_config(authority: Authority) -> Result<Arc<ServerConfig>, ControllerError> {
    let provider = Arc::new(ring::default_provider());
    let fail = failure(&authority);
    let mut roots = RootCertStore::empty();
    let root = CertificateDer::from_pem_slice(authority.certificate().as_bytes());
    roots.add(root.map_err(|e| fail(&e))?).map_err(|e| fail(&e))?;
    let nodes = WebPkiClientVerifier::builder_with_provider(roots.into(), Arc::clone(&provider));
    let nodes = nodes.build().map_err(|e| fail(&e))?;
    let own = Arc::new(OwnCertificate::new(authority, Arc::clone(&provider), SystemTime::now())?);
    let config = ServerConfig::builder_with_provider(provider);
    let config = config.with_protocol_versions(&[&TLS13]).map_err(|e| fail(&e))?;
    let mut config = config.with_client_cert_verifier(nodes).with_cert_resolver(own);
    config.alpn_protocols = vec![b"h2".to_vec()];
    Ok(Arc::new(config))
}

fn failure(authority: &Authority) -> impl Fn(&dyn std::error::Error) -> ControllerError + use<> {
    let path: PathBuf = authority.directory().into();
    move |error| ControllerError::Certificate { path: path.clone(), reason: error.to_string() }
}

/// The controller's certificate of the moment.
#[derive(Debug)]
struct OwnCertificate {
    authority: Authority,
    provider: Arc<CryptoProvider>,
    current: Mutex<Current>,
}

#[derive(Debug)]
struct Current {
    key: Arc<CertifiedKey>,
    made: SystemTime,
}

impl OwnCertificate {
    fn new(
        authority: Authority,
        provider: Arc<CryptoProvider>,
        now: SystemTime,
    ) -> Result<Self, ControllerError> {
        let key = make(&authority, &provider, now)?;
        let current = Mutex::new(Current { key, made: now });
        Ok(Self { authority, provider, current })
    }

    /// The certificate to show at a moment: another one when most of its time is over.
    fn at(&self, now: SystemTime) -> Arc<CertifiedKey> {
        let mut current = self.current.lock().unwrap_or_else(PoisonError::into_inner);
        if now.duration_since(current.made).is_ok_and(|age| age >= RENEW_AFTER) {
            match make(&self.authority, &self.provider, now) {
                Ok(key) => *current = Current { key, made: now },
                // The one that is there is good for a while yet, and this is tried with each agent.
                Err(error) => {
                    tracing::error!("the controller's certificate is not renewed: {error}");
                }
            }
        }
        Arc::clone(&current.key)
    }
}

impl ResolvesServerCert for OwnCertificate {
    fn resolve(&self, _: ClientHello<'_>) -> Option<Arc<CertifiedKey>> {
        Some(self.at(SystemTime::now()))
    }
}

fn make(
    authority: &Authority,
    provider: &CryptoProvider,
    now: SystemTime,
) -> Result<Arc<CertifiedKey>, ControllerError> {
    let fail = failure(authority);
    let issued = authority.issue_controller_at(now)?;
    let certificate = CertificateDer::from_pem_slice(issued.certificate.as_bytes());
    let key = PrivateKeyDer::from_pem_slice(issued.key.as_bytes()).map_err(|e| fail(&e))?;
    let chain = vec![certificate.map_err(|e| fail(&e))?];
    Ok(Arc::new(CertifiedKey::from_der(chain, key, provider).map_err(|e| fail(&e))?))
}

#[cfg(test)]
mod tests {
    use super::*;
    use rustls::client::WebPkiServerVerifier;
    use rustls::client::danger::ServerCertVerifier as _;
    use rustls::pki_types::UnixTime;
    use std::time::UNIX_EPOCH;

    #[test]
    fn a_controller_that_runs_for_years_shows_a_certificate_that_is_good() {
        let data = tempfile::tempdir().unwrap();
        let authority = Authority::open(data.path()).unwrap();
        let provider = Arc::new(ring::default_provider());
        let mut roots = RootCertStore::empty();
        roots
            .add(CertificateDer::from_pem_slice(authority.certificate().as_bytes()).unwrap())
            .unwrap();
        let agent = WebPkiServerVerifier::builder_with_provider(roots.into(), provider.clone());
        let agent = agent.build().unwrap();
        let begin = SystemTime::now();
        let own = OwnCertificate::new(authority, provider, begin).unwrap();
        let name = "controller".try_into().unwrap();
        let mut shown = Vec::new();
        for day in (0..3 * 365).step_by(30) {
            let now = begin + Duration::from_secs(day * 24 * 3_600);
            let certificate = own.at(now).cert[0].clone();
            let moment = UnixTime::since_unix_epoch(now.duration_since(UNIX_EPOCH).unwrap());
            let verdict = agent.verify_server_cert(&certificate, &[], &name, &[], moment);
            assert!(verdict.is_ok(), "day {day}: {verdict:?}");
            if shown.last() != Some(&certificate) {
                shown.push(certificate);
            }
        }
        assert_eq!(shown.len(), 5, "one at the beginning, and one each eight months");
    }
}
