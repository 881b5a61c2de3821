//! Keys by which Linux checks segment routing headers, by generic netlink: iproute2 asks a terminal for them.

use catena_kernel::namespace::{NetNamespace, run_in};
use rustix::net::{AddressFamily, SocketFlags, SocketType, netlink, socket_with};

/// The family that knows the others (Linux `genetlink.h`), what it is asked, and what it answers.
const CONTROLLER: u16 = 0x10;
const GET_FAMILY: u8 = 3;
const FAMILY_ID: u16 = 1;
const FAMILY_NAME: u16 = 2;
/// Setting a key, and what it takes (Linux `seg6_genl.h`, `seg6_hmac.h`).
const SET_HMAC: u8 = 1;
const KEY_ID: u16 = 3;
const SECRET: u16 = 4;
const SECRET_BYTES: u16 = 5;
const ALGORITHM: u16 = 6;
const SHA_256: u8 = 2;
/// Of any message (Linux `netlink.h`).
const REQUEST_AND_ACKNOWLEDGE: u16 = 1 | 4;
const ERROR: u16 = 2;
const HEADERS_BYTES: usize = 16 + 4;

/// Gives a namespace a key of HMAC-SHA-256.
pub(super) fn set(namespace: &NetNamespace, key_id: u32, secret: &[u8]) {
    let name = attribute(FAMILY_NAME, b"SEG6\0");
    let answer = ask(namespace, CONTROLLER, GET_FAMILY, &name);
    let family = u16::from_ne_bytes(value(&answer, FAMILY_ID)[..2].try_into().unwrap());
    let bytes = u8::try_from(secret.len()).unwrap();
    let key = [
        attribute(KEY_ID, &key_id.to_ne_bytes()),
        attribute(ALGORITHM, &[SHA_256]),
        attribute(SECRET_BYTES, &[bytes]),
        attribute(SECRET, secret),
    ];
    let answer = ask(namespace, family, SET_HMAC, &key.concat());
    assert_eq!(kind(&answer), ERROR, "a change is acknowledged");
}

fn attribute(kind: u16, value: &[u8]) -> Vec<u8> {
    let length = u16::try_from(4 + value.len()).unwrap();
    let mut bytes = [&length.to_ne_bytes()[..], &kind.to_ne_bytes(), value].concat();
    bytes.resize(bytes.len().next_multiple_of(4), 0);
    bytes
}

/// The first message that is answered, which is no error.
fn ask(namespace: &NetNamespace, family: u16, command: u8, attributes: &[u8]) -> Vec<u8> {
    let length = u32::try_from(HEADERS_BYTES + attributes.len()).unwrap();
    let message = [
        &length.to_ne_bytes()[..],
        &family.to_ne_bytes(),
        &REQUEST_AND_ACKNOWLEDGE.to_ne_bytes(),
        &[0; 8],
        &[command, 1, 0, 0],
        attributes,
    ]
    .concat();
    let socket = run_in(namespace, || {
        let protocol = Some(netlink::GENERIC);
        socket_with(AddressFamily::NETLINK, SocketType::RAW, SocketFlags::CLOEXEC, protocol)
    });
    let socket = socket.unwrap().unwrap();
    assert_eq!(rustix::io::write(&socket, &message), Ok(message.len()));
    let mut answer = vec![0; 4096];
    let length = rustix::io::read(&socket, &mut answer).unwrap();
    answer.truncate(length);
    if kind(&answer) == ERROR {
        let errno = i32::from_ne_bytes(answer[16..20].try_into().unwrap());
        assert_eq!(errno, 0, "{}", std::io::Error::from_raw_os_error(-errno));
    }
    answer
}

fn kind(message: &[u8]) -> u16 {
    u16::from_ne_bytes([message[4], message[5]])
}

/// The value of an attribute of an answer.
fn value(message: &[u8], kind: u16) -> &[u8] {
    let mut rest = &message[HEADERS_BYTES..];
    loop {
        let length = usize::from(u16::from_ne_bytes([rest[0], rest[1]]));
        if u16::from_ne_bytes([rest[2], rest[3]]) == kind {
            return &rest[4..length];
        }
        rest = &rest[length.next_multiple_of(4)..];
    }
}
