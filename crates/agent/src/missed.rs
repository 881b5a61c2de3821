//! What came while no data plane took it: the interfaces' own counters at the end of the one,
//! compared with those at the beginning of the other.
//!
//! A lower bound: what the data plane held when it ended, and what came before its end was noticed,
//! nobody counts any more.

use catena_model::resource::Attachment;
use std::collections::BTreeMap;
use std::sync::atomic::{AtomicU64, Ordering};

/// Where the kernel tells of datagrams for which no socket was open, by IP version.
const SNMP: &str = "/proc/thread-self/net/snmp";
const SNMP_V6: &str = "/proc/thread-self/net/snmp6";

/// All that was missed since the agent's start.
#[derive(Debug, Default)]
pub(crate) struct Missed {
    /// Packets delivered by the interfaces of ports.
    pub(crate) at_ports: AtomicU64,
    /// Datagrams from other hosts.
    pub(crate) at_tunnels: AtomicU64,
}

/// What was counted when the data plane ended.
#[derive(Debug, Default)]
pub(crate) struct Baseline {
    ports: BTreeMap<Attachment, u64>,
    tunnels: Option<u64>,
}

impl Baseline {
    /// A port's interface has delivered so many packets. The first word counts: the next data plane
    /// may end before it has the port.
    pub(crate) fn note_port(&mut self, attachment: Attachment, delivered: u64) {
        self.ports.entry(attachment).or_insert(delivered);
    }

    /// So many datagrams have found no socket.
    pub(crate) fn note_tunnels(&mut self, unheard: Option<u64>) {
        self.tunnels = self.tunnels.or(unheard);
    }

    /// Is it to be compared with what the interface delivered until now?
    pub(crate) fn has(&self, attachment: &Attachment) -> bool {
        self.ports.contains_key(attachment)
    }

    /// A port is with a data plane again, and its interface has delivered so many packets. An
    /// interface that was made anew counts from zero: all of its packets were missed.
    pub(crate) fn port_is_back(&mut self, attachment: &Attachment, delivered: u64, into: &Missed) {
        let Some(before) = self.ports.remove(attachment) else { return };
        let missed = delivered.checked_sub(before).unwrap_or(delivered);
        into.at_ports.fetch_add(missed, Ordering::Relaxed);
    }

    /// The tunnel sockets are open again.
    pub(crate) fn tunnels_are_back(&mut self, unheard: Option<u64>, into: &Missed) {
        let before = self.tunnels.take();
        if let (Some(before), Some(now)) = (before, unheard) {
            into.at_tunnels.fetch_add(now.saturating_sub(before), Ordering::Relaxed);
        }
    }

    /// Nobody waits for this interface any more.
    pub(crate) fn forget(&mut self, attachment: &Attachment) {
        self.ports.remove(attachment);
    }
}

/// Datagrams for which this node had no open socket; none: the kernel does not tell.
pub(crate) fn unheard_datagrams() -> Option<u64> {
    let v4 = std::fs::read_to_string(SNMP).ok()?;
    let v6 = std::fs::read_to_string(SNMP_V6).unwrap_or_default();
    Some(unheard_v4(&v4)? + unheard_v6(&v6).unwrap_or_default())
}

fn unheard_v4(text: &str) -> Option<u64> {
    let mut lines = text.lines().filter_map(|line| line.strip_prefix("Udp: "));
    let (names, values) = (lines.next()?.split(' '), lines.next()?.split(' '));
    let (_, value) = names.zip(values).find(|(name, _)| *name == "NoPorts")?;
    value.parse().ok()
}

fn unheard_v6(text: &str) -> Option<u64> {
    let line = text.lines().find(|line| line.starts_with("Udp6NoPorts"))?;
    line.split_whitespace().nth(1)?.parse().ok()
}

#[cfg(test)]
mod tests {
    use super::*;
    use catena_model::resource::InterfaceRef;

    fn attachment(interface: &str) -> Attachment {
        InterfaceRef { namespace: None, interface: interface.into() }.into()
    }

    #[test]
    fn what_came_between_the_end_of_one_and_the_beginning_of_the_other_was_missed() {
        let (missed, mut baseline) = (Missed::default(), Baseline::default());
        baseline.note_port(attachment("a"), 100);
        baseline.note_port(attachment("a"), 120);
        baseline.note_port(attachment("new"), 100);
        baseline.note_port(attachment("gone"), 100);
        baseline.forget(&attachment("gone"));
        baseline.note_tunnels(Some(7));
        baseline.note_tunnels(Some(8));
        assert!(baseline.has(&attachment("a")) && !baseline.has(&attachment("gone")));
        baseline.port_is_back(&attachment("a"), 130, &missed);
        baseline.port_is_back(&attachment("a"), 150, &missed);
        baseline.port_is_back(&attachment("new"), 4, &missed);
        baseline.port_is_back(&attachment("gone"), 900, &missed);
        baseline.tunnels_are_back(Some(12), &missed);
        baseline.tunnels_are_back(Some(90), &missed);
        assert_eq!(missed.at_ports.load(Ordering::Relaxed), 34);
        assert_eq!(missed.at_tunnels.load(Ordering::Relaxed), 5);
    }

    #[test]
    fn the_kernels_text_is_read_as_it_is_written() {
        let v4 =
            "Tcp: RtoMin NoPorts\nTcp: 200 9\nUdp: InDatagrams NoPorts InErrors\nUdp: 5 17 0\n";
        assert_eq!(unheard_v4(v4), Some(17));
        assert_eq!(unheard_v6("Udp6InDatagrams  \t3\nUdp6NoPorts   \t4\n"), Some(4));
        assert_eq!(unheard_v4("Udp: InDatagrams\n"), None);
        assert!(unheard_datagrams().is_some());
    }
}
