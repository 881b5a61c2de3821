//! A link of a lab's node at whose other end no node is: by it frames come that nobody of the domain has sent.
//! Knows its two ends; refuses to know such frames.

use super::plan::End;
use crate::vocabulary::{Claim, Lab};

/// The link.
pub(crate) const STRANGE_LINK: &str = "strange";
/// Its other end, in the same namespace.
pub(crate) const STRANGE_END: &str = "outside";

/// The node that has it; none: the lab has no use for it.
pub(crate) fn strange_node(lab: &Lab) -> Option<&str> {
    let node = lab.switches.first().or_else(|| Some(&lab.cables.first()?.ends[0].node));
    node.map(String::as_str).filter(|_| lab.asks_for(&Claim::Forged))
}

/// The link, if this node has it.
pub(super) fn link_of(lab: &Lab, node: &str) -> Option<String> {
    (strange_node(lab) == Some(node)).then(|| STRANGE_LINK.to_owned())
}

/// Its ends.
pub(super) fn ends(lab: &Lab) -> Option<[End; 2]> {
    let node = strange_node(lab)?;
    Some([STRANGE_LINK, STRANGE_END].map(|interface| End::of_link(node, interface)))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::wiring::plan;
    use std::path::Path;

    #[test]
    fn a_lab_that_forges_frames_has_one_link_more_that_leads_to_no_node() {
        let folder = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../labs");
        let read = |name: &str| Lab::read(&folder.join(name), false).unwrap();
        let (lab, other) = (read("fat-tree-cut.yaml"), read("fat-tree.yaml"));
        let (wiring, without) = (plan(&lab).unwrap(), plan(&other).unwrap());
        let links = |wiring: &crate::wiring::WiringPlan| {
            wiring.nodes.iter().flat_map(|node| node.links.clone()).collect::<Vec<_>>()
        };
        assert_eq!(links(&wiring).len(), links(&without).len() + 1);
        let node = strange_node(&lab).unwrap();
        let own = wiring.nodes.iter().find(|plan| plan.name == node).unwrap();
        assert!(own.links.iter().any(|link| link == STRANGE_LINK));
        let cable = wiring.cables.iter().find(|cable| cable.ends[0].interface == STRANGE_LINK);
        let far = &cable.unwrap().ends[1];
        assert_eq!((far.namespace.as_str(), far.interface.as_str()), (node, STRANGE_END));
        assert_eq!(strange_node(&other), None);
    }
}
