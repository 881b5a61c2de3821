//! Whose packet it is, as context headers of NSH MD type 2 say it: the tenant's network as forwarding
//! context (RFC 9263 section 4.1, context types 3 and 4; none is for STT), the user as subscriber and its
//! QoS flow as performance policy (RFC 8979 sections 3 and 4).

use super::{ContextHeader, ContextHeaders, NshError};
use crate::inside::Inside;
use crate::scalar::{Qfi, Teid, TunnelId, Vni};

/// Context type of a forwarding context that holds a virtual network identifier, in the upper half
/// of the first byte.
const CONTEXT_TYPE_VNI: u8 = 3;
/// The same for one that holds a session identifier or key of GRE, in the second word.
const CONTEXT_TYPE_SESSION: u8 = 4;

/// Whose packet it is, as far as that is known.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct UserContext {
    /// The tenant's network.
    pub tunnel_id: Option<TunnelId>,
    /// The user.
    pub teid: Option<Teid>,
    /// The user's QoS flow.
    pub qfi: Option<Qfi>,
}

impl From<&Inside> for UserContext {
    fn from(inside: &Inside) -> Self {
        let Inside { tunnel_id, teid, qfi, .. } = *inside;
        Self { tunnel_id, teid, qfi }
    }
}

impl UserContext {
    /// What context headers say of whose packet it is; none: nothing.
    #[must_use]
    pub fn read(headers: ContextHeaders<'_>) -> Option<Self> {
        let mut found = Self::default();
        for header in headers.filter(|header| header.class == ContextHeader::CLASS_BASE) {
            match (header.kind, header.value) {
                (ContextHeader::FORWARDING, &[kind, a, b, c]) if kind >> 4 == CONTEXT_TYPE_VNI => {
                    let vni = Vni::new(u32::from_be_bytes([0, a, b, c])).ok();
                    found.tunnel_id = vni.map(TunnelId::Vni);
                }
                (ContextHeader::FORWARDING, &[kind, _, _, _, a, b, c, d])
                    if kind >> 4 == CONTEXT_TYPE_SESSION =>
                {
                    found.tunnel_id = Some(TunnelId::GreKey(u32::from_be_bytes([a, b, c, d])));
                }
                (ContextHeader::SUBSCRIBER, &[a, b, c, d]) => {
                    found.teid = Some(Teid(u32::from_be_bytes([a, b, c, d])));
                }
                (ContextHeader::PERFORMANCE_POLICY, &[0, 0, 0, qfi]) => {
                    found.qfi = Qfi::new(u32::from(qfi)).ok();
                }
                _ => {}
            }
        }
        (found != Self::default()).then_some(found)
    }

    /// Writes what is known at the start of `into` and answers its length.
    ///
    /// # Errors
    /// When `into` is too short.
    pub fn emit(&self, into: &mut [u8]) -> Result<usize, NshError> {
        let mut len = 0;
        let mut add = |kind: u8, value: &[u8]| {
            let header = ContextHeader { class: ContextHeader::CLASS_BASE, kind, value };
            len += header.emit(into.get_mut(len..).unwrap_or_default())?;
            Ok(())
        };
        match self.tunnel_id {
            None | Some(TunnelId::SttContext(_)) => {}
            Some(TunnelId::Vni(vni)) => {
                let [_, high, middle, low] = vni.get().to_be_bytes();
                add(ContextHeader::FORWARDING, &[CONTEXT_TYPE_VNI << 4, high, middle, low])?;
            }
            Some(TunnelId::GreKey(key)) => {
                let [a, b, c, d] = key.to_be_bytes();
                let value = [CONTEXT_TYPE_SESSION << 4, 0, 0, 0, a, b, c, d];
                add(ContextHeader::FORWARDING, &value)?;
            }
        }
        if let Some(teid) = self.teid {
            add(ContextHeader::SUBSCRIBER, &teid.0.to_be_bytes())?;
        }
        if let Some(qfi) = self.qfi {
            add(ContextHeader::PERFORMANCE_POLICY, &[0, 0, 0, qfi.get()])?;
        }
        Ok(len)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_known_of_a_user_is_read_as_it_was_written() {
        let networks =
            [None, Some(TunnelId::Vni(Vni::new(77).unwrap())), Some(TunnelId::GreKey(0x0102_0304))];
        let teids = [None, Some(Teid(0xfeed))];
        let qfis = [None, Some(Qfi::new(9).unwrap())];
        for (tunnel_id, teid) in networks.iter().flat_map(|one| teids.map(|teid| (*one, teid))) {
            for qfi in qfis {
                let user = UserContext { tunnel_id, teid, qfi };
                let mut bytes = [0; 64];
                let len = user.emit(&mut bytes).unwrap();
                let headers = ContextHeaders::parse(&bytes[..len]).unwrap();
                let expected = Some(user).filter(|user| *user != UserContext::default());
                assert_eq!(UserContext::read(headers), expected);
                let short = len.checked_sub(1).map(|short| user.emit(&mut bytes[..short]));
                assert!(short.is_none_or(|written| written.is_err()));
            }
        }
    }

    #[test]
    fn a_subscriber_is_type_zero_of_the_base_class() {
        let user = UserContext { teid: Some(Teid(0x0a0b_0c0d)), ..UserContext::default() };
        let mut bytes = [0; 8];
        assert_eq!(user.emit(&mut bytes), Ok(8));
        // RFC 8979 section 3: class, type and length, then the identifier.
        assert_eq!(bytes, [0, 0, 0, 4, 0x0a, 0x0b, 0x0c, 0x0d]);
    }
}
