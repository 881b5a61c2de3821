//! Unix stream sockets with abstract names: no file to leave behind.
//! An abstract name belongs to the network namespace of the thread that binds it.

use std::fs;
use std::os::linux::net::SocketAddrExt;
use std::os::unix::net::{SocketAddr, UnixListener, UnixStream};

use crate::{KernelError, Result};

/// Listens under `name`.
///
/// # Errors
/// The name is too long (107 bytes) or taken in this network namespace.
pub fn bind(name: &str) -> Result<UnixListener> {
    UnixListener::bind_addr(&address(name)?)
        .map_err(|e| KernelError::system("listen on", format!("abstract socket {name}"), e))
}

/// Connects to the listener of `name`.
///
/// # Errors
/// Nobody listens under this name in this network namespace.
pub fn connect(name: &str) -> Result<UnixStream> {
    UnixStream::connect_addr(&address(name)?)
        .map_err(|e| KernelError::system("connect to", format!("abstract socket {name}"), e))
}

/// Names of all listening abstract sockets of this network namespace that begin with `prefix`,
/// sorted, without doubles.
///
/// # Errors
/// `/proc` is not mounted.
pub fn list(prefix: &str) -> Result<Vec<String>> {
    const TABLE: &str = "/proc/thread-self/net/unix";
    let table = fs::read(TABLE).map_err(|e| KernelError::system("read", TABLE, e))?;
    Ok(names_in(&String::from_utf8_lossy(&table), prefix))
}

fn address(name: &str) -> Result<SocketAddr> {
    SocketAddr::from_abstract_name(name)
        .map_err(|e| KernelError::system("use as a name of an abstract socket", name, e))
}

/// Columns: Num RefCount Protocol Flags Type St Inode Path; a listener has `__SO_ACCEPTCON`.
fn names_in(table: &str, prefix: &str) -> Vec<String> {
    const ACCEPTS_CONNECTIONS: u32 = 1 << 16;
    let mut names: Vec<String> = table
        .lines()
        .skip(1)
        .filter_map(|line| {
            let mut columns = line.split_whitespace();
            let flags = u32::from_str_radix(columns.nth(3)?, 16).ok()?;
            let name = columns.nth(3)?.strip_prefix('@')?;
            (flags & ACCEPTS_CONNECTIONS != 0 && name.starts_with(prefix)).then(|| name.to_owned())
        })
        .collect();
    names.sort();
    names.dedup();
    names
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_listening_abstract_names_with_the_prefix_are_listed() {
        let table = "Num       RefCount Protocol Flags    Type St Inode Path\n\
            0000000000000000: 00000002 00000000 00010000 0001 01 11 @catena/lab/b\n\
            0000000000000000: 00000003 00000000 00000000 0001 03 12 @catena/lab/a\n\
            0000000000000000: 00000002 00000000 00010000 0001 01 13 /run/catena/lab\n\
            0000000000000000: 00000002 00000000 00010000 0001 01 14\n\
            0000000000000000: 00000002 00000000 00010000 0001 01 15 @other\n\
            0000000000000000: 00000002 00000000 00010000 0001 01 16 @catena/lab/a\n";
        assert_eq!(names_in(table, "catena/"), ["catena/lab/a", "catena/lab/b"]);
    }
}
