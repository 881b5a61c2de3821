//! The way of a chain whose headers have tags, in headers that have another tag or none. Nodes between pass them on,
//! since they need no key; the node where they come out ends them. Knows how they are made, where they go in and by
//! which links they come; refuses to know who counts them.

use super::frame;
use crate::vocabulary::LinkEnd;
use catena_model::discovery::LinkReport;
use catena_model::status::PathReport;
use catena_model::topology::CableEnd;
use catena_wire::scalar::{EtherType, MacAddr, Spi};
use catena_wire::source_route::SourceRouteError;
use catena_wire::source_route::native::{self, NativeHeader, PortWidth, TagKey};

/// Keys that are no domain's, as domains draw theirs. The tag of one is right by chance once in 65,536 times.
const FOREIGN: [TagKey; 2] = [TagKey([0x5e; 16]), TagKey([0xa1; 16])];
/// As on links: the local bit of a source is turned there.
const SOURCE: MacAddr = MacAddr([0, 0, 0, 0, 0, 2]);

/// A way over links.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct SealedWay {
    path: Spi,
    ports: Vec<u8>,
    /// The link by which its first node sends.
    pub(super) entrance: LinkEnd,
    /// Where it comes in, link by link; the last one is that of the node where it comes out.
    pub(super) seen: Vec<LinkEnd>,
}

/// Do packets take this path now, and under headers that have a tag?
pub(super) fn is_sealed(path: &PathReport) -> bool {
    path.encapsulation.is_tagged() && path.phase == "classified"
}

/// The first way over a link that packets of these paths take, if there is one.
pub(super) fn find(paths: &[PathReport], links: &[LinkReport]) -> Option<SealedWay> {
    let link_at = |end: &CableEnd| {
        links.iter().find(|link| link.node == end.node && link.number == Some(end.port))
    };
    let way = |path: &PathReport| {
        let ports = &path.routes.iter().find(|route| route.ports.len() > 1)?.ports;
        let (_, between) = ports.split_last()?;
        let sent: Vec<&LinkReport> = between.iter().map(link_at).collect::<Option<_>>()?;
        let far = |link: &&LinkReport| {
            link.cable.as_ref().map(|far| link_end(far.node.as_str(), &far.interface))
        };
        let first = sent.first()?;
        Some(SealedWay {
            path: Spi::new(path.path.0).ok()?,
            ports: ports.iter().map(|end| end.port.get()).collect(),
            entrance: link_end(first.node.as_str(), &first.interface),
            seen: sent.iter().map(far).collect::<Option<_>>()?,
        })
    };
    paths.iter().find_map(way)
}

fn link_end(node: &str, interface: &str) -> LinkEnd {
    LinkEnd { node: node.to_owned(), interface: interface.to_owned() }
}

impl SealedWay {
    /// As the first node of the way would send them, but for the tag.
    pub(super) fn frames(&self) -> Result<Vec<Vec<u8>>, SourceRouteError> {
        let tags = FOREIGN.iter().map(Some).chain([None]);
        let made = tags.map(|tag| {
            let header = NativeHeader {
                width: PortWidth::Eight,
                way: &self.ports,
                path: Some(self.path),
                tag,
                detours: &[],
                ether_type: EtherType::IPV4,
            };
            let mut made = frame(SOURCE, |room| header.emit(room))?;
            native::advance(&mut made)?;
            Ok(made)
        });
        made.collect()
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use catena_wire::source_route::native::NativeView;
    use serde_json::{Value, json};

    fn link(node: &str, interface: &str, number: u8, far: (&str, &str, u8)) -> Value {
        let (at, by, other) = far;
        json!({"node": node, "interface": interface, "number": number, "state": "up",
            "cable": {"node": at, "number": other, "interface": by}, "trouble": null, "load_permille": null,
            "flooded": 0, "refused": 0, "neighbours": []})
    }

    fn path(encapsulation: &str, phase: &str) -> PathReport {
        let end = |node: &str, port: u8| json!({"node": node, "port": port});
        let route = |ports: &[Value]| json!({"from": "h1", "function": "f", "instance": "v", "ports": ports});
        let told = json!({"path": 77, "chain": "00000000-0000-4000-8000-000000000001", "chain_name": "c",
            "direction": "forward", "encapsulation": encapsulation, "phase": phase, "since": 3, "hops": [],
            "routes": [route(&[end("h1", 9)]), route(&[end("h1", 4), end("a1", 6), end("h2", 8)])]});
        serde_json::from_value(told).unwrap()
    }

    #[test]
    fn a_way_with_another_tag_is_that_of_the_chain_and_comes_in_by_each_link_on_it() {
        let links =
            [link("h1", "l-a1", 4, ("a1", "l-h1", 5)), link("a1", "l-h2", 6, ("h2", "l-a1", 7))];
        let links: Vec<LinkReport> = serde_json::from_value(links.as_slice().into()).unwrap();
        let tagged = path("source-route/native-tagged", "classified");
        let others = [
            path("source-route/native", "classified"),
            path("source-route/native-tagged", "superseded"),
        ];
        assert!(is_sealed(&tagged) && !others.iter().any(is_sealed));
        let mut without = tagged.clone();
        without.routes.truncate(1);
        let none = find(std::slice::from_ref(&without), &links);
        assert_eq!((none, find(std::slice::from_ref(&tagged), &[])), (None, None));
        let way = find(&[without, tagged], &links).unwrap();
        assert_eq!(way.entrance, link_end("h1", "l-a1"));
        assert_eq!(way.seen, [link_end("a1", "l-h1"), link_end("h2", "l-a1")]);
        let frames = way.frames().unwrap();
        let tags: Vec<bool> = frames.iter().map(|one| native::has_tag(one)).collect();
        assert_eq!(tags, [true, true, false]);
        for frame in &frames {
            let view = NativeView::parse(frame).unwrap();
            let ports: Vec<u8> = (1..=view.count()).rev().map(|at| view.port(at)).collect();
            assert_eq!((ports, view.counter()), (vec![4, 6, 8], 2));
            assert_eq!(view.path().map(Spi::get), Some(77));
            assert!(frame.ends_with(&super::super::MARKER));
        }
        assert_ne!(frames[0], frames[1], "by two keys");
    }
}
