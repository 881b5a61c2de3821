//! What this node says at its links, and whose word it is that comes in. Knows frames and the key; refuses to
//! know what is made of them.

use catena_model::discovery::DiscoveryKey;
use catena_model::topology::PortNumber;
use catena_wire::lldp::{self, Identifier, LldpError, LldpFrame, OwnTlv};
use catena_wire::scalar::MacAddr;
use ring::hmac;
use std::net::{Ipv4Addr, Ipv6Addr};
use std::time::Duration;

/// How often a node says at each link who it is.
pub(crate) const WORD_INTERVAL: Duration = Duration::from_secs(1);
/// How long its word holds: three may be lost (IEEE 802.1AB-2016 section 9.2.5.22).
const WORD_SECONDS: u16 = 3 * WORD_INTERVAL.as_secs() as u16 + 1;
/// Octets of a signature on the wire.
const SIGNATURE_BYTES: usize = 16;
/// Kinds of identifiers (IEEE 802.1AB-2016 sections 8.5.2 and 8.5.3).
const CHASSIS_MAC: u8 = 4;
const CHASSIS_ADDRESS: u8 = 5;
const PORT_MAC: u8 = 3;
const PORT_ADDRESS: u8 = 4;

/// Who says something.
pub(crate) struct Speaker<'s> {
    pub(crate) node: &'s str,
    /// When its agent was started, in nanoseconds since 1970.
    pub(crate) boot: u64,
    pub(crate) sequence: u64,
    pub(crate) key: DiscoveryKey,
}

/// What a node says at a link: the length of the frame.
pub(crate) fn say(
    speaker: &Speaker<'_>,
    (interface, mac): (&str, MacAddr),
    number: PortNumber,
    into: &mut [u8; lldp::FRAME_MAX],
) -> Result<usize, LldpError> {
    let frame = LldpFrame {
        source: mac,
        chassis: Identifier { subtype: Identifier::LOCAL, value: speaker.node.as_bytes() },
        port: Identifier { subtype: Identifier::INTERFACE_NAME, value: interface.as_bytes() },
        seconds: WORD_SECONDS,
        port_description: Some(interface.as_bytes()),
        system_name: Some(speaker.node.as_bytes()),
        own: Some(OwnTlv {
            boot: speaker.boot,
            sequence: speaker.sequence,
            port: number.get(),
            signature: [0; SIGNATURE_BYTES],
        }),
        signed: &[],
    };
    frame.emit(into, |signed| sign(speaker.key, signed))
}

/// Whose word a frame is.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Signature {
    /// Nobody signed it.
    None,
    /// The signature is by another key, or the frame was changed.
    Foreign,
    /// It is a node's of this domain, whoever brought it.
    Ours,
}

/// Whose word is it?
pub(crate) fn signature(frame: &LldpFrame<'_>, key: DiscoveryKey) -> Signature {
    let Some(own) = frame.own else { return Signature::None };
    // The same time for any number of octets that are right.
    let octets = sign(key, frame.signed).into_iter().zip(own.signature);
    let differences = octets.fold(0, |found, (right, claimed)| found | (right ^ claimed));
    if differences == 0 { Signature::Ours } else { Signature::Foreign }
}

/// HMAC with SHA-256, the left half (RFC 2104 section 5).
fn sign(key: DiscoveryKey, octets: &[u8]) -> [u8; SIGNATURE_BYTES] {
    let tag = hmac::sign(&hmac::Key::new(hmac::HMAC_SHA256, key.octets()), octets);
    tag.as_ref().first_chunk().copied().unwrap_or_default()
}

/// What somebody calls himself, for people.
pub(crate) fn chassis(frame: &LldpFrame<'_>) -> String {
    text(frame.chassis, CHASSIS_MAC, CHASSIS_ADDRESS)
}

/// What he calls his port. An address says less than what the port is called beside it.
pub(crate) fn port(frame: &LldpFrame<'_>) -> String {
    let described = frame.port_description.filter(|text| !text.is_empty());
    match described {
        Some(text) if frame.port.subtype == PORT_MAC => String::from_utf8_lossy(text).into_owned(),
        _ => text(frame.port, PORT_MAC, PORT_ADDRESS),
    }
}

fn text(Identifier { subtype, value }: Identifier<'_>, mac: u8, address: u8) -> String {
    let known = match value {
        [a, b, c, d, e, f] if subtype == mac => Some(MacAddr([*a, *b, *c, *d, *e, *f]).to_string()),
        // The family (IANA), then the address.
        [1, a, b, c, d] if subtype == address => Some(Ipv4Addr::new(*a, *b, *c, *d).to_string()),
        [2, rest @ ..] if subtype == address => {
            <[u8; 16]>::try_from(rest).ok().map(|octets| Ipv6Addr::from(octets).to_string())
        }
        _ => None,
    };
    known.unwrap_or_else(|| String::from_utf8_lossy(value).into_owned())
}

#[cfg(test)]
mod tests {
    use super::*;

    fn word(key: [u8; 16]) -> ([u8; lldp::FRAME_MAX], usize) {
        let speaker = Speaker { node: "leaf1", boot: 7, sequence: 9, key: DiscoveryKey::new(key) };
        let mut frame = [0; lldp::FRAME_MAX];
        let number = PortNumber::new(3).unwrap();
        let length =
            say(&speaker, ("eth3", MacAddr([2, 0, 0, 0, 0, 3])), number, &mut frame).unwrap();
        (frame, length)
    }

    #[test]
    fn a_word_is_its_speakers_whatever_of_it_is_changed() {
        let key = DiscoveryKey::new([7; 16]);
        let (frame, length) = word([7; 16]);
        let read = LldpFrame::parse(&frame[..length]).unwrap();
        assert_eq!(signature(&read, key), Signature::Ours);
        assert_eq!((chassis(&read), port(&read)), ("leaf1".into(), "eth3".into()));
        assert_eq!((read.seconds, read.own.unwrap().sequence), (4, 9));
        assert_eq!(signature(&read, DiscoveryKey::new([8; 16])), Signature::Foreign);
        // From the sender's address on; the last two octets end the list.
        for at in 6..length - 2 {
            let mut changed = frame;
            changed[at] ^= 1;
            if let Ok(read) = LldpFrame::parse(&changed[..length]) {
                assert_ne!(signature(&read, key), Signature::Ours, "octet {at}");
            }
        }
    }

    #[test]
    fn names_of_all_kinds_are_texts() {
        let text_of = |subtype, value: &[u8]| {
            text(Identifier { subtype, value }, CHASSIS_MAC, CHASSIS_ADDRESS)
        };
        assert_eq!(text_of(CHASSIS_MAC, &[2, 0, 0, 0, 0, 9]), "02:00:00:00:00:09");
        assert_eq!(text_of(CHASSIS_ADDRESS, &[1, 192, 0, 2, 7]), "192.0.2.7");
        assert_eq!(text_of(Identifier::LOCAL, b"leaf1"), "leaf1");
        assert_eq!(text_of(CHASSIS_MAC, b"\xff\xfe"), "\u{fffd}\u{fffd}");
    }
}
