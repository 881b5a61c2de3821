//! Whose packet it is, as NSH MD type 2 carries it: the tenant's network as forwarding context
//! (RFC 9263 section 4.1, context types 3 and 4; none is for STT), the user as subscriber and its
//! QoS flow as performance policy (RFC 8979 sections 3 and 4). Knows which header says what; refuses
//! to know its layout.

use crate::engine::packet::subscriber::Shown;
use catena_model::DropReason;
use catena_model::limits::NSH_CONTEXT_BYTES_MAX;
use catena_wire::nsh::{ContextHeader, ContextHeaders};
use catena_wire::scalar::{Qfi, Teid, TunnelId, Vni};

/// Context type of a forwarding context that holds a virtual network identifier, in the upper half
/// of the first byte.
const CONTEXT_TYPE_VNI: u8 = 3;
/// The same for one that holds a session identifier or key of GRE, in the second word.
const CONTEXT_TYPE_SESSION: u8 = 4;

/// Writes what is known of the user behind other context headers, and answers the length of all.
pub(crate) fn write(
    shown: Shown,
    into: &mut [u8; NSH_CONTEXT_BYTES_MAX],
    mut len: usize,
) -> Result<usize, DropReason> {
    let mut add = |kind: u8, value: &[u8]| {
        let header = ContextHeader { class: ContextHeader::CLASS_BASE, kind, value };
        let room = into.get_mut(len..).unwrap_or_default();
        len += header.emit(room).map_err(|_| DropReason::ContextTooLong)?;
        Ok(())
    };
    match shown.tunnel_id {
        None | Some(TunnelId::SttContext(_)) => {}
        Some(TunnelId::Vni(vni)) => {
            let [_, high, middle, low] = vni.get().to_be_bytes();
            add(ContextHeader::FORWARDING, &[CONTEXT_TYPE_VNI << 4, high, middle, low])?;
        }
        Some(TunnelId::GreKey(key)) => {
            let [a, b, c, d] = key.to_be_bytes();
            add(ContextHeader::FORWARDING, &[CONTEXT_TYPE_SESSION << 4, 0, 0, 0, a, b, c, d])?;
        }
    }
    if let Some(teid) = shown.teid {
        add(ContextHeader::SUBSCRIBER, &teid.0.to_be_bytes())?;
    }
    if let Some(qfi) = shown.qfi {
        add(ContextHeader::PERFORMANCE_POLICY, &[0, 0, 0, qfi.get()])?;
    }
    Ok(len)
}

/// What the metadata of a packet say of whose it is; none: they say nothing of it.
pub(crate) fn read(context: &[u8]) -> Option<Shown> {
    let headers = ContextHeaders::parse(context).ok()?;
    let mut shown = Shown::default();
    for header in headers.filter(|header| header.class == ContextHeader::CLASS_BASE) {
        match (header.kind, header.value) {
            (ContextHeader::FORWARDING, &[kind, a, b, c]) if kind >> 4 == CONTEXT_TYPE_VNI => {
                let vni = Vni::new(u32::from_be_bytes([0, a, b, c])).ok();
                shown.tunnel_id = vni.map(TunnelId::Vni);
            }
            (ContextHeader::FORWARDING, &[kind, _, _, _, a, b, c, d])
                if kind >> 4 == CONTEXT_TYPE_SESSION =>
            {
                shown.tunnel_id = Some(TunnelId::GreKey(u32::from_be_bytes([a, b, c, d])));
            }
            (ContextHeader::SUBSCRIBER, &[a, b, c, d]) => {
                shown.teid = Some(Teid(u32::from_be_bytes([a, b, c, d])));
            }
            (ContextHeader::PERFORMANCE_POLICY, &[0, 0, 0, qfi]) => {
                shown.qfi = Qfi::new(u32::from(qfi)).ok();
            }
            _ => {}
        }
    }
    (shown != Shown::default()).then_some(shown)
}
