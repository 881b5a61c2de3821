//! Ports of functions: found from both ends, late ones, and the kinds that can never be one.

use std::io::IoSlice;
use std::os::fd::AsFd;
use std::os::unix::net::UnixStream;

use catena_kernel::attach::{FunctionNamespace, function_statistics, resolve_switch_side};
use catena_kernel::fds::{receive_with_fds, send_with_fds};
use catena_kernel::{KernelError, abstract_socket};

use crate::{Node, needs_privilege, receive};

const FUNCTION_MAC: [u8; 6] = [0x02, 0, 0, 0, 0, 0x51];

/// A namespace of this process by path: what an unnamed one can be found by.
fn path_of(node: &Node) -> FunctionNamespace {
    use std::os::fd::AsRawFd;
    let number = node.namespace.as_fd().as_raw_fd();
    FunctionNamespace::named(&format!("/proc/self/fd/{number}"))
}

#[tokio::test]
async fn the_switch_side_is_the_peer_of_the_functions_interface() {
    needs_privilege!("the_switch_side_is_the_peer_of_the_functions_interface");
    let (node, function) = (Node::new("node"), Node::new("function"));
    let add =
        node.links.add_veth("tap0", "eth0", &function.namespace, 1450, None, Some(FUNCTION_MAC));
    add.await.unwrap();
    let index = node.links.link("tap0").await.unwrap().unwrap().index;
    let side = resolve_switch_side(&node.namespace, &path_of(&function), "eth0").await.unwrap();
    assert_eq!((side.ifindex, side.name.as_str()), (index, "tap0"));
    assert_eq!((side.function_mac, side.function_mtu), (Some(FUNCTION_MAC), 1450));
    let direct =
        resolve_switch_side(&node.namespace, &FunctionNamespace::Node, "tap0").await.unwrap();
    assert_eq!(direct, side, "named from the node's side it is the same port");
}

#[tokio::test]
async fn a_port_may_come_after_it_was_asked_for() {
    needs_privilege!("a_port_may_come_after_it_was_asked_for");
    let (node, function) = (Node::new("node"), Node::new("function"));
    for missing in [
        FunctionNamespace::named("catena-kernel-missing"),
        FunctionNamespace::Pid(u32::MAX),
        FunctionNamespace::Node,
        path_of(&function),
    ] {
        let error = resolve_switch_side(&node.namespace, &missing, "eth0").await.unwrap_err();
        assert!(matches!(error, KernelError::NotFoundYet { .. }), "{missing:?}: {error}");
    }
    node.connect("tap0", &function, "eth0").await;
    resolve_switch_side(&node.namespace, &path_of(&function), "eth0").await.unwrap();
}

#[tokio::test]
async fn a_link_without_a_peer_is_no_port_of_a_function() {
    needs_privilege!("a_link_without_a_peer_is_no_port_of_a_function");
    let (node, function) = (Node::new("node"), Node::new("function"));
    function.links.add_bridge("br0", 0).await.unwrap();
    for interface in ["br0", "lo"] {
        let error =
            resolve_switch_side(&node.namespace, &path_of(&function), interface).await.unwrap_err();
        assert!(matches!(error, KernelError::NotVeth { .. }), "{error}");
    }
}

#[tokio::test]
async fn a_peer_on_another_node_is_refused_even_where_the_indexes_agree() {
    needs_privilege!("a_peer_on_another_node_is_refused_even_where_the_indexes_agree");
    let (node, other) = (Node::new("node"), Node::new("other"));
    let (function, neighbour) = (Node::new("function"), Node::new("neighbour"));
    // Both pairs get the same indexes: node.tap0 ↔ neighbour.eth0, other.tap0 ↔ function.eth0.
    node.connect("tap0", &neighbour, "eth0").await;
    other.connect("tap0", &function, "eth0").await;
    let decoy = node.links.link("tap0").await.unwrap().unwrap();
    let real = other.links.link("tap0").await.unwrap().unwrap();
    assert_eq!((decoy.index, decoy.peer_index), (real.index, real.peer_index));
    let error =
        resolve_switch_side(&node.namespace, &path_of(&function), "eth0").await.unwrap_err();
    assert!(matches!(error, KernelError::PeerElsewhere { .. }), "{error}");
    resolve_switch_side(&other.namespace, &path_of(&function), "eth0").await.unwrap();
    // Both ends inside the function: the peer is not on the node either.
    function.links.add_veth("x0", "x1", &function.namespace, 1500, None, None).await.unwrap();
    let error = resolve_switch_side(&node.namespace, &path_of(&function), "x0").await.unwrap_err();
    assert!(matches!(error, KernelError::PeerElsewhere { .. }), "{error}");
}

#[tokio::test]
async fn the_functions_own_counters_are_seen_from_either_side() {
    needs_privilege!("the_functions_own_counters_are_seen_from_either_side");
    let (node, function) = (Node::new("node"), Node::new("function"));
    node.connect("tap0", &function, "eth0").await;
    node.address("tap0", "192.0.2.1", 24).await;
    function.address("eth0", "192.0.2.2", 24).await;
    let receiver = function.udp("192.0.2.2", 7000);
    node.udp("192.0.2.1", 0).send_to(b"counted", "192.0.2.2:7000").unwrap();
    assert_eq!(receive(&receiver), "counted");
    for (place, interface) in [(path_of(&function), "eth0"), (FunctionNamespace::Node, "tap0")] {
        let counters = function_statistics(&node.namespace, &place, interface).await.unwrap();
        assert!(counters.rx_packets >= 1 && counters.tx_packets >= 1, "{counters:?}");
    }
}

#[test]
fn descriptors_arrive_with_the_bytes_they_were_sent_with() {
    let (left, right) = UnixStream::pair().unwrap();
    let (reader, writer) = rustix::pipe::pipe().unwrap();
    assert_eq!(send_with_fds(&left, b"port 7", &[writer.as_fd()]).unwrap(), 6);
    drop(writer);
    let mut bytes = [0; 64];
    let (length, mut descriptors) = receive_with_fds(&right, &mut bytes).unwrap();
    assert_eq!((&bytes[..length], descriptors.len()), (&b"port 7"[..], 1));
    let passed = descriptors.remove(0);
    rustix::io::writev(&passed, &[IoSlice::new(b"through")]).unwrap();
    let length = rustix::io::read(&reader, &mut bytes).unwrap();
    assert_eq!(&bytes[..length], b"through");
    drop(passed);
    assert_eq!(rustix::io::read(&reader, &mut bytes), Ok(0), "no copy stayed open");
    drop(left);
    assert_eq!(receive_with_fds(&right, &mut bytes).unwrap().0, 0, "closed");
}

#[test]
fn descriptors_without_a_byte_or_too_many_are_refused() {
    let (left, _right) = UnixStream::pair().unwrap();
    assert!(send_with_fds(&left, b"", &[left.as_fd()]).is_err());
    let many = vec![left.as_fd(); catena_kernel::fds::DESCRIPTORS_MAX + 1];
    assert!(send_with_fds(&left, b"x", &many).is_err());
}

#[test]
fn an_abstract_socket_is_listed_while_it_listens() {
    let name = format!("catena-kernel-test/{}", std::process::id());
    let listener = abstract_socket::bind(&name).unwrap();
    assert_eq!(abstract_socket::list(&name).unwrap(), std::slice::from_ref(&name));
    assert!(abstract_socket::bind(&name).is_err(), "the name is taken");
    abstract_socket::connect(&name).unwrap();
    drop(listener);
    assert!(abstract_socket::connect(&name).is_err());
}
