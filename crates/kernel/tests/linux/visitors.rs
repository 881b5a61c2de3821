//! Abstract sockets, whose names have no permissions: who is at the other end, and that nobody
//! can keep a visitor waiting.

use catena_kernel::abstract_socket;
use rustix::net::{AddressFamily, SocketAddrUnix, SocketType, bind, listen, socket};
use rustix::process::{Uid, geteuid};
use rustix::thread::set_thread_res_uid;

use crate::needs_privilege;

#[test]
fn both_ends_of_an_abstract_socket_tell_their_user() {
    needs_privilege!("both_ends_of_an_abstract_socket_tell_their_user");
    let name = format!("catena-kernel-test/users/{}", std::process::id());
    let stranger = Uid::from_raw(65_534);
    let as_stranger = || {
        set_thread_res_uid(None, stranger, None).unwrap();
        abstract_socket::bind(&name).unwrap()
    };
    // Only this thread becomes somebody else; it ends with its work.
    let listener = std::thread::scope(|scope| scope.spawn(as_stranger).join().unwrap());
    let visitor = abstract_socket::connect(&name).unwrap();
    assert_eq!(abstract_socket::peer_uid(&visitor).unwrap(), stranger.as_raw());
    let (visited, _) = listener.accept().unwrap();
    assert_eq!(abstract_socket::peer_uid(&visited).unwrap(), geteuid().as_raw());
}

#[test]
fn a_listener_that_lets_visitors_queue_is_not_waited_for_without_end() {
    let name = format!("catena-kernel-test/queue/{}", std::process::id());
    let address = SocketAddrUnix::new_abstract_name(name.as_bytes()).unwrap();
    let socket = socket(AddressFamily::UNIX, SocketType::STREAM, None).unwrap();
    bind(&socket, &address).unwrap();
    listen(&socket, 0).unwrap();
    let _queued = abstract_socket::connect(&name).unwrap();
    let refused = abstract_socket::connect(&name).unwrap_err();
    assert_eq!(refused.errno(), Some(rustix::io::Errno::AGAIN.raw_os_error()));
}
