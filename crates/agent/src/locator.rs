//! The node's locator: keeps what segments lead to it away from the host's stack, which knows nothing of it and would
//! answer; and looks whether there are ways to the locators of others. Refuses to know what takes such packets.
//!
//! What the program in force says is claimed, and not what an operator has asked for: a locator that the controller
//! refuses may be another's, and what the data plane still takes must not come to the host as well.

use crate::links::Links;
use catena_kernel::KernelError;
use catena_kernel::netlink::Netlink;
use catena_model::NodeName;
use catena_model::program::Locator;
use std::collections::BTreeMap;
use std::net::Ipv6Addr;
use std::time::Duration;
use tokio::sync::watch;

/// How often it is looked whether the claim, and the ways, are there still: interfaces that come and go take routes
/// along.
const LOOK_PAUSE: Duration = Duration::from_secs(1);

/// The interface by which packets for segments of a node leave, where nothing but that says how: of a route that takes
/// less than its link, or puts a header in front, no more is known here.
pub(crate) type WaysToLocators = BTreeMap<Locator, u32>;

/// Claims this node's locator as long as the program has it, and none that it had before; says by which interface those
/// of others are reached, and which no route leads to.
pub(crate) async fn keep(
    node: Netlink,
    name: NodeName,
    mut programmed: watch::Receiver<Links>,
    ways: watch::Sender<Option<WaysToLocators>>,
) {
    let mut told = [String::new(), String::new()];
    // Whoever writes it down may be gone.
    while programmed.has_changed().is_ok() {
        let links = programmed.borrow_and_update().clone();
        if links.is_told() {
            let own = links.locators().find(|(node, _)| **node == name).map(|(_, locator)| locator);
            let trouble = claim(&node, own).await.err().map(|error| {
                format!("packets of segments may come to the host's stack, too: {error}")
            });
            tell(&mut told[0], trouble);
            let (found, trouble) = match own {
                Some(own) => ways_to(&node, own, &links).await,
                None => (Some(WaysToLocators::new()), None),
            };
            // Where nobody can look, those that were found before are not gone for it; and where none were, what goes
            // by tunnels waits for no route of segments.
            ways.send_if_modified(|told| {
                let found = found.or_else(|| told.clone()).or_else(|| Some(WaysToLocators::new()));
                std::mem::replace(told, found.clone()) != found
            });
            tell(&mut told[1], trouble);
        }
        tokio::select! {
            () = tokio::time::sleep(LOOK_PAUSE) => {}
            changed = programmed.changed() => if changed.is_err() { break },
        }
    }
}

/// Warns of a trouble that was not told last.
fn tell(told: &mut String, trouble: Option<String>) {
    let trouble = trouble.unwrap_or_default();
    if trouble != *told && !trouble.is_empty() {
        tracing::warn!("{trouble}");
    }
    *told = trouble;
}

async fn claim(node: &Netlink, own: Option<Locator>) -> Result<(), KernelError> {
    let own: Option<(Ipv6Addr, u8)> = own.map(|own| (own.address(), Locator::BITS));
    let former = node.claimed_prefixes().await?;
    let is_claimed = own.is_some_and(|own| former.contains(&own));
    for prefix in former.into_iter().filter(|prefix| Some(*prefix) != own) {
        node.release_prefix(prefix).await?;
    }
    match own.filter(|_| !is_claimed) {
        Some(own) => node.claim_prefix(own).await,
        None => Ok(()),
    }
}

/// The ways to the locators of other nodes, and what to say of those to which no route leads; no ways: they cannot be
/// looked for.
async fn ways_to(
    node: &Netlink,
    own: Locator,
    links: &Links,
) -> (Option<WaysToLocators>, Option<String>) {
    let (mut ways, mut nodes) = (WaysToLocators::new(), Vec::new());
    for (name, locator) in links.locators().filter(|(_, locator)| *locator != own) {
        match node.way_to(locator.address().into()).await {
            Ok(Some(way)) if way.is_plain => {
                ways.insert(locator, way.interface);
            }
            Ok(Some(_)) => {}
            Ok(None) => nodes.push(format!("node '{name}' ({locator})")),
            Err(error) => {
                let trouble =
                    format!("ways to segments of other nodes are not looked for: {error}");
                return (None, Some(trouble));
            }
        }
    }
    let trouble = (!nodes.is_empty()).then(|| {
        format!(
            "no route leads to segments of {}: packets for them end here; add a route to each locator",
            nodes.join(", ")
        )
    });
    (Some(ways), trouble)
}
