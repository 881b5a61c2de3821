//! The receipt of a change in words. Knows its fields; refuses to judge them.

use catena_model::NodeName;
use catena_model::status::{DrainProof, DrainedPath, Receipt};
use std::collections::{BTreeMap, BTreeSet};

/// The receipt in one line.
pub(crate) fn line(receipt: &Receipt) -> String {
    let sum = |field: fn(&DrainedPath) -> u64| {
        receipt.drained.iter().map(field).fold(0, u64::saturating_add)
    };
    let lost = sum(|path| path.lost_in_function.saturating_add(path.lost_between_nodes));
    let dropped = sum(|path| path.dropped.values().copied().fold(0, u64::saturating_add));
    let mut words = vec![
        moved(receipt),
        format!("in flight {}", sum(|path| path.in_flight)),
        format!("lost {lost}"),
    ];
    if dropped > 0 {
        words.push(format!("dropped {dropped} by name"));
    }
    words.extend(at_links(receipt));
    let ambiguous = sum(|path| path.ambiguous);
    if ambiguous > 0 {
        words.push(format!("{ambiguous} told apart by order alone"));
    }
    words.push(proof(receipt));
    words.push(format!("{} ms", receipt.took_ms));
    format!("receipt {}", words.join(" · "))
}

/// What links lost while paths drained over them. Paths that drained together were told of the same packets at other
/// moments: the most of each is told.
fn at_links(receipt: &Receipt) -> Vec<String> {
    let losses = || receipt.drained.iter().filter_map(|path| path.at_links.as_ref());
    let mut most: BTreeMap<(&NodeName, &str), BTreeMap<String, u64>> = BTreeMap::new();
    for loss in losses().flat_map(|losses| &losses.links) {
        let by_name = loss.dropped.iter().map(|(reason, count)| (reason.to_string(), *count));
        let full = (loss.ring_full > 0).then(|| ("ring_full".to_owned(), loss.ring_full));
        let known = most.entry((&loss.node, &loss.link)).or_default();
        for (reason, count) in by_name.chain(full) {
            let before = known.entry(reason).or_default();
            *before = count.max(*before);
        }
    }
    let line = |((node, link), counts): (&(&NodeName, &str), &BTreeMap<String, u64>)| {
        let counts: Vec<String> =
            counts.iter().map(|(reason, count)| format!("{count} {reason}")).collect();
        format!("link {link} of {node} lost {} of all chains", counts.join(", "))
    };
    let mut words: Vec<String> = most.iter().map(line).collect();
    let silent: BTreeSet<&str> =
        losses().flat_map(|losses| &losses.unknown_at).map(NodeName::as_str).collect();
    if !silent.is_empty() {
        let silent: Vec<&str> = silent.into_iter().collect();
        words.push(format!("losses at links of {} not known", silent.join(", ")));
    }
    words
}

fn moved(receipt: &Receipt) -> String {
    let paths = |count: usize| if count == 1 { "1 path".into() } else { format!("{count} paths") };
    match (receipt.drained.len(), receipt.paths.len()) {
        (0, new) => format!("{} in use", paths(new)),
        (old, 0) => format!("removed {}", paths(old)),
        (old, _) => format!("moved {}", paths(old)),
    }
}

fn proof(receipt: &Receipt) -> String {
    let bound = receipt.drained.iter().find_map(|path| match path.proof {
        DrainProof::Counted => None,
        DrainProof::Bound { after_ms } => Some(after_ms),
    });
    match bound {
        _ if receipt.drained.is_empty() => "nothing to drain".into(),
        None => "drained by count".into(),
        Some(after_ms) => format!("drained by the bound of {after_ms} ms"),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use catena_model::DropReason;
    use catena_model::id::{BlueprintNumber, ChainId, PathId};
    use catena_model::losses::{LinkLoss, LinkLosses};
    use std::collections::BTreeMap;

    fn receipt(drained: Vec<DrainedPath>, paths: Vec<PathId>) -> Receipt {
        Receipt {
            chain: ChainId(uuid::Uuid::from_u128(1)),
            name: "web".into(),
            blueprint: BlueprintNumber(9),
            paths,
            drained,
            took_ms: 31,
        }
    }

    fn drained(proof: DrainProof) -> DrainedPath {
        DrainedPath {
            path: PathId(4),
            proof,
            in_flight: 12,
            pinned_flows: 0,
            moved_flows: 0,
            lost_in_function: 0,
            lost_between_nodes: 0,
            dropped: BTreeMap::new(),
            ambiguous: 0,
            at_links: None,
        }
    }

    #[test]
    fn a_receipt_of_absurd_numbers_is_still_a_line() {
        let mut absurd = drained(DrainProof::Counted);
        (absurd.lost_in_function, absurd.lost_between_nodes) = (u64::MAX, 1);
        let said = line(&receipt(vec![absurd.clone(), absurd], Vec::new()));
        assert!(said.contains(&format!("lost {}", u64::MAX)), "{said}");
    }

    #[test]
    fn a_receipt_names_what_moved_what_was_lost_and_how_that_is_known() {
        let counted = receipt(vec![drained(DrainProof::Counted)], vec![PathId(5)]);
        assert_eq!(
            line(&counted),
            "receipt moved 1 path · in flight 12 · lost 0 · drained by count · 31 ms"
        );
        let mut late = drained(DrainProof::Bound { after_ms: 2_000 });
        late.lost_in_function = 2;
        late.lost_between_nodes = 1;
        late.ambiguous = 5;
        late.dropped = BTreeMap::from([(DropReason::TtlExpired, 4)]);
        let loss = |count| LinkLoss {
            node: NodeName::new("e1").unwrap(),
            link: "e1-a1".into(),
            dropped: BTreeMap::from([(DropReason::LinkDead, count)]),
            ring_full: 7,
        };
        let unknown_at = BTreeSet::from([NodeName::new("a2").unwrap()]);
        late.at_links = Some(LinkLosses { links: vec![loss(3)], unknown_at });
        let mut other = drained(DrainProof::Counted);
        other.at_links = Some(LinkLosses { links: vec![loss(2)], ..LinkLosses::default() });
        let late = receipt(vec![late, other], Vec::new());
        assert_eq!(
            line(&late),
            "receipt removed 2 paths · in flight 24 · lost 3 · dropped 4 by name · \
             link e1-a1 of e1 lost 3 link_dead, 7 ring_full of all chains · \
             losses at links of a2 not known · 5 told apart by order alone · drained by the bound of 2000 ms · 31 ms"
        );
        assert_eq!(
            line(&receipt(Vec::new(), vec![PathId(5)])),
            "receipt 1 path in use · in flight 0 · lost 0 · nothing to drain · 31 ms"
        );
    }
}
