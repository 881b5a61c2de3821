//! The built-in authority: its own certificate, the controller's and those of nodes.
//!
//! Knows what each certificate must say and where the files are. A node's certificate is good for
//! dialling in only, so that no node can stand in for the controller.

use crate::config::make_private_directory;
use crate::error::ControllerError;
use catena_model::NodeName;
use rcgen::string::Ia5String;
use rcgen::{
    BasicConstraints, CertificateParams, DnType, ExtendedKeyUsagePurpose, IsCa, Issuer, KeyPair,
    KeyUsagePurpose, SanType, date_time_ymd,
};
use std::fmt;
use std::fs::{File, OpenOptions};
use std::io::Write as _;
use std::os::unix::fs::OpenOptionsExt;
use std::path::{Path, PathBuf};
use std::time::{Duration, SystemTime, UNIX_EPOCH};

/// Days for which a node's certificate is valid; enroll the node again before they are over.
pub const NODE_CERTIFICATE_DAYS: u64 = 365;
/// Days for which the authority is valid.
const AUTHORITY_DAYS: u64 = 3_650;
/// Name that agents expect of the controller.
const CONTROLLER_NAME: &str = "controller";
/// What a node's URI begins with (SPIFFE).
pub(crate) const NODE_URI_PREFIX: &str = "spiffe://catena/node/";

const DIRECTORY: &str = "pki";
const CA_CERTIFICATE: &str = "ca.pem";
const CA_KEY: &str = "ca.key";
const LOCK: &str = "lock";

/// A certificate with its key, both PEM.
#[derive(Clone)]
pub(crate) struct Issued {
    pub(crate) certificate: String,
    pub(crate) key: String,
}

/// Who signs certificates in this domain.
pub(crate) struct Authority {
    directory: PathBuf,
    certificate: String,
    key: String,
}

impl fmt::Debug for Authority {
    /// Without the key.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Authority").field("directory", &self.directory).finish_non_exhaustive()
    }
}

impl Authority {
    /// Opens the authority of a data directory; makes it at the first time.
    ///
    /// Safe while another process does the same.
    pub(crate) fn open(data_dir: &Path) -> Result<Self, ControllerError> {
        let directory = data_dir.join(DIRECTORY);
        make_private_directory(data_dir)?;
        make_private_directory(&directory)?;
        let _lock = lock(&directory.join(LOCK))?;
        let (certificate_path, key_path) = (directory.join(CA_CERTIFICATE), directory.join(CA_KEY));
        // The certificate is written last: when it is there, the key is too.
        if !certificate_path.exists() {
            let issued = make_authority().map_err(|e| certificate_error(&directory, &e))?;
            write_private(&key_path, &issued.key)?;
            write_private(&certificate_path, &issued.certificate)?;
        }
        let certificate = read(&certificate_path)?;
        let key = read(&key_path)?;
        Ok(Self { directory, certificate, key })
    }

    /// The authority's own certificate, PEM.
    pub(crate) fn certificate(&self) -> &str {
        &self.certificate
    }

    /// Where its files are.
    pub(crate) fn directory(&self) -> &Path {
        &self.directory
    }

    /// A fresh certificate of the controller, made at this moment; kept in memory only.
    pub(crate) fn issue_controller_at(&self, now: SystemTime) -> Result<Issued, ControllerError> {
        self.issue(CONTROLLER_NAME, ExtendedKeyUsagePurpose::ServerAuth, now, |params| {
            params.subject_alt_names =
                vec![SanType::DnsName(Ia5String::try_from(CONTROLLER_NAME)?)];
            Ok(())
        })
    }

    #[cfg(test)]
    pub(crate) fn issue_controller(&self) -> Result<Issued, ControllerError> {
        self.issue_controller_at(SystemTime::now())
    }

    /// A fresh certificate of a node.
    pub(crate) fn issue_node(&self, node: &NodeName) -> Result<Issued, ControllerError> {
        let now = SystemTime::now();
        self.issue(node.as_str(), ExtendedKeyUsagePurpose::ClientAuth, now, |params| {
            let uri = format!("{NODE_URI_PREFIX}{node}");
            params.subject_alt_names = vec![SanType::URI(Ia5String::try_from(uri)?)];
            Ok(())
        })
    }

    fn issue(
        &self,
        name: &str,
        usage: ExtendedKeyUsagePurpose,
        now: SystemTime,
        alternative: impl FnOnce(&mut CertificateParams) -> Result<(), rcgen::Error>,
    ) -> Result<Issued, ControllerError> {
        let make = || -> Result<Issued, rcgen::Error> {
            let issuer =
                Issuer::from_ca_cert_pem(&self.certificate, KeyPair::from_pem(&self.key)?)?;
            let key = KeyPair::generate()?;
            let mut params = params(name, NODE_CERTIFICATE_DAYS, now);
            params.key_usages = vec![KeyUsagePurpose::DigitalSignature];
            params.extended_key_usages = vec![usage];
            params.use_authority_key_identifier_extension = true;
            alternative(&mut params)?;
            let certificate = params.signed_by(&key, &issuer)?;
            Ok(Issued { certificate: certificate.pem(), key: key.serialize_pem() })
        };
        make().map_err(|e| certificate_error(&self.directory, &e))
    }
}

/// Writes `ca.pem`, `node.pem` and `node.key` for a node's agent; the key is readable by its owner
/// alone. Works before a controller has ever run on the data directory, and while one runs.
///
/// # Errors
/// When a directory or file cannot be written, or the authority is damaged.
pub fn enroll(data_dir: &Path, node: &NodeName, out_dir: &Path) -> Result<(), ControllerError> {
    let authority = Authority::open(data_dir)?;
    let issued = authority.issue_node(node)?;
    make_private_directory(out_dir)?;
    write_private(&out_dir.join("node.key"), &issued.key)?;
    write_private(&out_dir.join("node.pem"), &issued.certificate)?;
    write_private(&out_dir.join("ca.pem"), authority.certificate())
}

fn make_authority() -> Result<Issued, rcgen::Error> {
    let key = KeyPair::generate()?;
    let mut params = params("catena authority", AUTHORITY_DAYS, SystemTime::now());
    params.is_ca = IsCa::Ca(BasicConstraints::Constrained(0));
    params.key_usages = vec![KeyUsagePurpose::KeyCertSign, KeyUsagePurpose::DigitalSignature];
    let certificate = params.self_signed(&key)?;
    Ok(Issued { certificate: certificate.pem(), key: key.serialize_pem() })
}

fn params(common_name: &str, days: u64, now: SystemTime) -> CertificateParams {
    let mut params = CertificateParams::default();
    params.distinguished_name.push(DnType::CommonName, common_name);
    let now = now.duration_since(UNIX_EPOCH).unwrap_or_default();
    let epoch = date_time_ymd(1970, 1, 1);
    // The key is new: a beginning protects nothing, and would shut out nodes whose clock is behind,
    // and everybody once this clock has been ahead.
    params.not_before = epoch;
    params.not_after = epoch + now + Duration::from_secs(days * 24 * 3_600);
    params
}

/// Held for as long as the returned file is open.
fn lock(path: &Path) -> Result<File, ControllerError> {
    let fail = |source| ControllerError::File { path: path.to_path_buf(), source };
    let file = OpenOptions::new()
        .create(true)
        .truncate(false)
        .write(true)
        .mode(0o600)
        .open(path)
        .map_err(fail)?;
    rustix::fs::flock(&file, rustix::fs::FlockOperation::LockExclusive)
        .map_err(|e| fail(e.into()))?;
    Ok(file)
}

/// Whole or not at all, also when the power goes.
fn write_private(path: &Path, text: &str) -> Result<(), ControllerError> {
    let fail = |source| ControllerError::File { path: path.to_path_buf(), source };
    let mut unfinished = path.as_os_str().to_owned();
    unfinished.push(".new");
    let unfinished = PathBuf::from(unfinished);
    let mut file = OpenOptions::new()
        .create(true)
        .truncate(true)
        .write(true)
        .mode(0o600)
        .open(&unfinished)
        .map_err(fail)?;
    file.write_all(text.as_bytes()).map_err(fail)?;
    file.sync_all().map_err(fail)?;
    std::fs::rename(&unfinished, path).map_err(fail)
}

fn read(path: &Path) -> Result<String, ControllerError> {
    std::fs::read_to_string(path)
        .map_err(|source| ControllerError::File { path: path.to_path_buf(), source })
}

fn certificate_error(directory: &Path, error: &rcgen::Error) -> ControllerError {
    ControllerError::Certificate { path: directory.to_path_buf(), reason: error.to_string() }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::os::unix::fs::PermissionsExt;

    #[test]
    fn enrolling_twice_uses_one_authority_and_keys_are_private() {
        let data = tempfile::tempdir().unwrap();
        let out = tempfile::tempdir().unwrap();
        let node = NodeName::new("host1").unwrap();
        enroll(data.path(), &node, &out.path().join("a")).unwrap();
        enroll(data.path(), &node, &out.path().join("b")).unwrap();
        let text = |file: &str| std::fs::read_to_string(out.path().join(file)).unwrap();
        assert_eq!(text("a/ca.pem"), text("b/ca.pem"));
        assert_ne!(text("a/node.key"), text("b/node.key"));
        let keys = [out.path().join("a/node.key"), data.path().join("pki/ca.key")];
        for key in keys {
            assert_eq!(std::fs::metadata(key).unwrap().permissions().mode() & 0o777, 0o600);
        }
    }

    #[test]
    fn the_first_enrolments_may_race() {
        let data = tempfile::tempdir().unwrap();
        let authorities: Vec<String> = std::thread::scope(|scope| {
            let open = || Authority::open(data.path()).unwrap().certificate;
            let threads: Vec<_> = (0..8).map(|_| scope.spawn(open)).collect();
            threads.into_iter().map(|thread| thread.join().unwrap()).collect()
        });
        assert!(authorities.windows(2).all(|pair| pair[0] == pair[1]));
    }

    /// What decides in a session, with the clock as an argument: agents and the controller may each
    /// be a day behind or ahead, and have been when the certificates were made.
    #[test]
    fn a_clock_that_jumps_either_way_shuts_nobody_out_before_a_certificate_ends() {
        use rustls::client::WebPkiServerVerifier;
        use rustls::client::danger::ServerCertVerifier as _;
        use rustls::pki_types::pem::PemObject as _;
        use rustls::pki_types::{CertificateDer, UnixTime};
        use rustls::server::WebPkiClientVerifier;
        use std::sync::Arc;

        let der = |pem: &str| CertificateDer::from_pem_slice(pem.as_bytes()).unwrap();
        let data = tempfile::tempdir().unwrap();
        let authority = Authority::open(data.path()).unwrap();
        let node = authority.issue_node(&NodeName::new("host1").unwrap()).unwrap();
        let controller = authority.issue_controller().unwrap();
        let mut roots = rustls::RootCertStore::empty();
        roots.add(der(authority.certificate())).unwrap();
        let roots = Arc::new(roots);
        let provider = Arc::new(rustls::crypto::ring::default_provider());
        let nodes = WebPkiClientVerifier::builder_with_provider(roots.clone(), provider.clone());
        let nodes = nodes.build().unwrap();
        let controllers = WebPkiServerVerifier::builder_with_provider(roots, provider);
        let controllers = controllers.build().unwrap();
        let (node, controller) = (der(&node.certificate), der(&controller.certificate));
        let name = CONTROLLER_NAME.try_into().unwrap();
        let now = SystemTime::now().duration_since(UNIX_EPOCH).unwrap();
        let day = Duration::from_secs(24 * 3_600);
        let are_good = |moment: Duration| {
            let moment = UnixTime::since_unix_epoch(moment);
            let of_node = nodes.verify_client_cert(&node, &[], moment).is_ok();
            let own = controllers.verify_server_cert(&controller, &[], &name, &[], moment).is_ok();
            [of_node, own]
        };
        for moment in [now - day, now, now + day, now + 364 * day, Duration::from_secs(1)] {
            assert_eq!(are_good(moment), [true; 2], "{moment:?}");
        }
        assert_eq!(are_good(now + 366 * day), [false; 2], "and every certificate ends");
    }
}
