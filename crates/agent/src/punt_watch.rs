//! Keeps the way from the kernel's program up to the engine open: a punt device that somebody has set
//! down is set up, one that is gone is made anew. Knows its two ends; refuses to know who reads them.

use crate::fast_path::{FastPath, PUNT_IN, PUNT_OUT};
use catena_kernel::KernelError;
use catena_kernel::netlink::{LinkChange, LinkWatch, Netlink};
use std::sync::{Arc, OnceLock};
use std::time::Duration;
use tokio::sync::watch;

/// How often it looks without being told of a change, and tries again after a refusal.
const LOOK_AGAIN: Duration = Duration::from_secs(1);

/// The punt device as it was last seen.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(crate) struct PuntDevice {
    /// Why frames do not come up; empty: they do.
    pub(crate) hindrance: String,
    /// How often it was made anew: whoever reads it needs another socket then.
    pub(crate) remade: u64,
}

/// Follows the punt device of this node, once it has one, for as long as anybody listens.
pub(crate) fn follow(
    node: Netlink,
    fast_path: Arc<OnceLock<FastPath>>,
) -> watch::Receiver<PuntDevice> {
    let (teller, told) = watch::channel(PuntDevice::default());
    tokio::spawn(async move {
        while !teller.is_closed() {
            let Some(fast_path) = fast_path.get() else {
                tokio::time::sleep(LOOK_AGAIN).await;
                continue;
            };
            // Watched from before the first look, so that no change is missed.
            match node.watch_links() {
                Ok(mut changes) => keep(&node, fast_path, &teller, &mut changes).await,
                Err(error) => {
                    tracing::warn!("the punt device is not watched for now: {error}");
                    tokio::time::sleep(LOOK_AGAIN).await;
                }
            }
        }
    });
    told
}

/// Keeps it up until changes cannot be read any more, or nobody listens.
async fn keep(
    node: &Netlink,
    fast_path: &FastPath,
    teller: &watch::Sender<PuntDevice>,
    changes: &mut LinkWatch,
) {
    while !teller.is_closed() {
        if let Err(error) = mend(node, fast_path, teller).await {
            tell(teller, &format!("{PUNT_IN} cannot be mended, and new flows are lost: {error}"));
        }
        let next = async {
            while !is_of_it(&changes.next().await?) {}
            Ok::<(), KernelError>(())
        };
        if let Ok(Err(error)) = tokio::time::timeout(LOOK_AGAIN, next).await {
            tracing::warn!("the punt device is not watched for now: {error}");
            return;
        }
    }
}

fn is_of_it(change: &LinkChange) -> bool {
    let name = match change {
        LinkChange::Present(link) => &link.name,
        LinkChange::Gone { name, .. } => name,
        LinkChange::Missed => return true,
    };
    [PUNT_IN, PUNT_OUT].contains(&name.as_str())
}

/// Looks, tells what is wrong before it is mended, and mends it.
async fn mend(
    node: &Netlink,
    fast_path: &FastPath,
    teller: &watch::Sender<PuntDevice>,
) -> Result<(), KernelError> {
    for end in [PUNT_IN, PUNT_OUT] {
        match node.link(end).await? {
            Some(link) if link.is_up => {}
            Some(_) => {
                tell(teller, &format!("{end} is down, and new flows are lost"));
                node.set_up(end).await?;
            }
            None => {
                tell(teller, &format!("{end} is gone, and new flows are lost"));
                fast_path.remake_punt_device().await?;
                teller.send_modify(|device| device.remade += 1);
            }
        }
    }
    tell(teller, "");
    Ok(())
}

fn tell(teller: &watch::Sender<PuntDevice>, hindrance: &str) {
    let is_new = |device: &mut PuntDevice| {
        let is_new = device.hindrance != hindrance;
        device.hindrance = hindrance.to_owned();
        is_new
    };
    if teller.send_if_modified(is_new) {
        if hindrance.is_empty() {
            tracing::warn!("the punt device is up again");
        } else {
            tracing::warn!("{hindrance}");
        }
    }
}
