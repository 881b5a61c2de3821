//! The node's locator: keeps what segments lead to it away from the host's stack, which knows nothing of it and would
//! answer. Refuses to know what takes such packets.

use catena_kernel::KernelError;
use catena_kernel::netlink::Netlink;
use catena_model::program::{Locator, SegmentPlace};
use std::net::Ipv6Addr;
use std::time::Duration;

/// How often it is looked whether the claim is there still: interfaces that come and go may take routes along.
const CLAIM_RETRY: Duration = Duration::from_secs(5);

/// Claims the locator of this place, and none that the node had before.
pub(crate) async fn keep(node: Netlink, place: Option<SegmentPlace>) {
    let own = place.map(|place| (place.locator.address(), Locator::BITS));
    let mut warned = String::new();
    loop {
        match claim(&node, own).await {
            Ok(()) => warned.clear(),
            Err(error) if error.to_string() != warned => {
                warned = error.to_string();
                tracing::warn!("packets of segments may come to the host's stack, too: {warned}");
            }
            Err(_) => {}
        }
        if own.is_none() {
            return;
        }
        tokio::time::sleep(CLAIM_RETRY).await;
    }
}

async fn claim(node: &Netlink, own: Option<(Ipv6Addr, u8)>) -> Result<(), KernelError> {
    let former = node.claimed_prefixes().await?;
    for prefix in former.into_iter().filter(|prefix| Some(*prefix) != own) {
        node.release_prefix(prefix).await?;
    }
    match own {
        Some(own) => node.claim_prefix(own).await,
        None => Ok(()),
    }
}
