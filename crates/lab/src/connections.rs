//! What has gone over TCP connections, as the kernel counts it. Knows `ss`; refuses to know what is said there.

use crate::error::{LabError, Result};
use crate::supervisor::Doorway;
use std::net::SocketAddr;
use std::process::{Command, Stdio};

/// An established TCP connection. Headers of TCP and IP are in no count; what was sent again is.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Connection {
    /// The end that is here.
    pub local: SocketAddr,
    /// The other end.
    pub peer: SocketAddr,
    /// Bytes that were sent from here.
    pub sent_bytes: u64,
    /// Bytes that came.
    pub received_bytes: u64,
}

/// The connections of a node by which something has gone each way.
///
/// # Errors
/// `ss` is missing or does not work there.
pub fn connections(doorway: &Doorway) -> Result<Vec<Connection>> {
    let mut command = Command::new("ss");
    command.args(["-HOtin", "state", "established"]);
    command.stdin(Stdio::null()).stdout(Stdio::piped()).stderr(Stdio::piped());
    let done = doorway.spawn(command)?.wait_with_output();
    let done = done.map_err(|error| LabError::io("wait for", "ss", error))?;
    if done.status.success() {
        return Ok(String::from_utf8_lossy(&done.stdout).lines().filter_map(connection).collect());
    }
    Err(LabError::Tool {
        tool: "ss".into(),
        problem: format!("cannot list connections: {}", String::from_utf8_lossy(&done.stderr)),
        advice: "look whether it is that of iproute2: ss -V".into(),
    })
}

/// Of a line of `ss`: two queues, both ends, and what the kernel tells; what is 0 is not told.
fn connection(line: &str) -> Option<Connection> {
    let mut words = line.split_whitespace().skip(2);
    let mut end = || words.next()?.parse().ok();
    let (local, peer) = (end()?, end()?);
    let told: Vec<&str> = words.collect();
    let count = |name: &str| told.iter().find_map(|word| word.strip_prefix(name)?.parse().ok());
    let (sent_bytes, received_bytes) = (count("bytes_sent:")?, count("bytes_received:")?);
    Some(Connection { local, peer, sent_bytes, received_bytes })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_connection_is_read_by_the_names_of_its_counts() {
        let line = "0      96     172.30.1.254:6650 172.30.1.1:41366 bbr wscale:10,10 rto:212 rtt:9.3/0.4 \
            mss:1448 bytes_sent:12725 bytes_retrans:7 bytes_acked:12629 bytes_received:31050 segs_out:7";
        let told = connection(line).unwrap();
        assert_eq!((told.sent_bytes, told.received_bytes), (12_725, 31_050));
        assert_eq!(told.local, "172.30.1.254:6650".parse().unwrap());
        assert_eq!(told.peer, "172.30.1.1:41366".parse().unwrap());
        let six = "0 0 [fd00::1]:80 [fd00::2]:9 cubic bytes_sent:1 bytes_received:2";
        assert_eq!(connection(six).map(|told| told.received_bytes), Some(2));
    }

    #[test]
    fn what_is_not_told_is_not_taken_for_nothing() {
        for line in [
            "",
            "0 0 10.0.0.1:1 10.0.0.2:2 cubic bytes_sent:5 segs_out:1",
            "0 0 10.0.0.1:1 10.0.0.2:2 cubic bytes_received:5",
            "0 0 10.0.0.1:1 bytes_sent:5 bytes_received:5",
            "0 0 10.0.0.1:1 10.0.0.2:2 cubic bytes_sent:many bytes_received:5",
        ] {
            assert_eq!(connection(line), None, "{line}");
        }
    }
}
