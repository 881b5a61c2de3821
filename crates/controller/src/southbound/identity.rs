//! Which node a verified peer certificate belongs to. Knows the place of the name in it.

use super::pki::NODE_URI_PREFIX;
use catena_model::NodeName;
use x509_parser::extensions::GeneralName;

/// The node that a certificate (DER) names, if it names exactly one.
pub(crate) fn node_of(certificate: &[u8]) -> Option<NodeName> {
    let (_, certificate) = x509_parser::parse_x509_certificate(certificate).ok()?;
    let alternatives = certificate.subject_alternative_name().ok()??;
    let mut nodes = alternatives.value.general_names.iter().filter_map(|name| match name {
        GeneralName::URI(uri) => uri.strip_prefix(NODE_URI_PREFIX),
        _ => None,
    });
    let node = NodeName::new(nodes.next()?).ok()?;
    nodes.next().is_none().then_some(node)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::southbound::pki::Authority;

    #[test]
    fn the_node_is_read_from_the_uri_of_its_certificate_alone() {
        let data = tempfile::tempdir().unwrap();
        let authority = Authority::open(data.path()).unwrap();
        let der = |pem: &str| x509_parser::pem::parse_x509_pem(pem.as_bytes()).unwrap().1.contents;
        let node = NodeName::new("rack-2.host_9").unwrap();
        let issued = authority.issue_node(&node).unwrap();
        assert_eq!(node_of(&der(&issued.certificate)), Some(node));
        assert_eq!(node_of(&der(&authority.issue_controller().unwrap().certificate)), None);
        assert_eq!(node_of(&der(authority.certificate())), None);
        assert_eq!(node_of(b"no certificate"), None);
    }
}
