//! The ports of the running program and how far each has come: waiting for an interface, being
//! attached, attached. Pure: time is an argument, and others open sockets and talk.

use crate::links::is_link;
use catena_model::id::PortId;
use catena_model::program::PortEntry;
use catena_model::resource::Attachment;
use catena_protocol::message::{PortState, PortStates};
use std::collections::BTreeMap;
use std::sync::Arc;
use std::time::{Duration, Instant};

/// How long a port without interface waits until it is looked for again.
const RETRY_AFTER: Duration = Duration::from_millis(200);
/// Ports that are being attached at one time.
const ATTACHING_MAX: usize = 64;

/// A port as it is from now on; none: it leaves.
pub(crate) type PortEdit = (PortId, Option<Arc<PortEntry>>);

/// How far a port has come.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Progress {
    /// No interface yet, or it is gone.
    Waiting { retry_at: Instant },
    /// Its socket is being opened, or is on its way to the data plane.
    Attaching,
    /// The data plane has it.
    Attached,
}

#[derive(Debug)]
struct Port {
    entry: PortEntry,
    progress: Progress,
    /// Number of the order that attached it, or should; none: not ordered yet; 0: ordered before
    /// this connection with the data plane.
    sequence: Option<u64>,
    /// Outcome of the last attempt, empty when it succeeded; none before the first has ended.
    reason: Option<String>,
}

impl Port {
    fn new(entry: &PortEntry, now: Instant) -> Self {
        let (progress, reason) = match is_inside(entry) {
            // What the data plane runs itself it has as soon as it has the program.
            true => (Progress::Attached, Some(String::new())),
            false => (Progress::Waiting { retry_at: now }, None),
        };
        Self { entry: entry.clone(), progress, sequence: None, reason }
    }
}

/// Is a function of the data plane behind the port, and no interface?
fn is_inside(entry: &PortEntry) -> bool {
    entry.attachment == Attachment::Inside
}

/// All ports that this node should have.
#[derive(Debug, Default)]
pub(crate) struct Ports {
    ports: BTreeMap<PortId, Port>,
    /// Why attached ports do not work all the same; empty: they do.
    hindrance: String,
    is_changed: bool,
}

impl Ports {
    /// Takes what becomes of ports; answers those that must be detached: they left the program, or
    /// their interface is another now.
    #[must_use]
    pub(crate) fn edit(&mut self, edits: Vec<PortEdit>, now: Instant) -> Vec<PortEntry> {
        let mut to_detach = Vec::new();
        for (id, entry) in edits {
            self.is_changed = true;
            let mut known = self.ports.remove(&id);
            let stays = |known: &Port| {
                entry.as_ref().is_some_and(|entry| entry.attachment == known.entry.attachment)
            };
            let left = known.take_if(|known| !stays(known));
            to_detach.extend(left.map(|port| port.entry).filter(|entry| !is_inside(entry)));
            if let Some(entry) = entry {
                let port = known.unwrap_or_else(|| Port::new(&entry, now));
                self.ports.insert(id, Port { entry: Arc::unwrap_or_clone(entry), ..port });
            }
        }
        to_detach
    }

    /// Takes all ports of a program, as `edit` does.
    #[must_use]
    pub(crate) fn replace(&mut self, wanted: Vec<PortEdit>, now: Instant) -> Vec<PortEntry> {
        let mut edits: BTreeMap<PortId, _> = self.ports.keys().map(|id| (*id, None)).collect();
        edits.extend(wanted);
        self.edit(edits.into_iter().collect(), now)
    }

    /// A data plane answered that has these ports: those of the program count as being attached until
    /// it is known whether they have their interfaces.
    pub(crate) fn adopt(&mut self, is_attached: impl Fn(PortId) -> bool, now: Instant) {
        for (id, port) in &mut self.ports {
            *port = Port::new(&port.entry, now);
            if is_attached(*id) && !is_inside(&port.entry) {
                (port.progress, port.sequence) = (Progress::Attaching, Some(0));
            }
        }
        self.is_changed = true;
    }

    /// The data plane has another interface for the port: the port's own is looked for.
    pub(crate) fn begin_again(&mut self, id: PortId, now: Instant) {
        if let Some(port) = self.ports.get_mut(&id) {
            *port = Port::new(&port.entry, now);
        }
    }

    /// The port as the program has it.
    #[must_use]
    pub(crate) fn entry(&self, id: PortId) -> Option<&PortEntry> {
        self.ports.get(&id).map(|port| &port.entry)
    }

    /// The data plane is gone, for this reason, and no port is attached any more.
    pub(crate) fn lost(&mut self, reason: &str, now: Instant) {
        for port in self.ports.values_mut() {
            *port = Port { reason: Some(reason.into()), ..Port::new(&port.entry, now) };
        }
        self.is_changed = true;
    }

    /// Attached ports do not work, for this reason; empty: they do.
    pub(crate) fn hinder(&mut self, hindrance: &str) {
        if self.hindrance != hindrance {
            self.hindrance = hindrance.into();
            self.is_changed = true;
        }
    }

    /// The ports whose interface should be looked for now; they count as being attached from here.
    #[must_use]
    pub(crate) fn take_due(&mut self, now: Instant) -> Vec<PortEntry> {
        let room = ATTACHING_MAX.saturating_sub(self.attaching());
        let is_due = |port: &&mut Port| matches!(port.progress, Progress::Waiting { retry_at } if retry_at <= now);
        let due = self.ports.values_mut().filter(is_due).take(room);
        due.map(|port| {
            port.progress = Progress::Attaching;
            port.entry.clone()
        })
        .collect()
    }

    /// When `take_due` has something next, if ever.
    #[must_use]
    pub(crate) fn next_retry(&self) -> Option<Instant> {
        if self.attaching() >= ATTACHING_MAX {
            return None;
        }
        let retry = |port: &Port| match port.progress {
            Progress::Waiting { retry_at } => Some(retry_at),
            Progress::Attaching | Progress::Attached => None,
        };
        self.ports.values().filter_map(retry).min()
    }

    /// Links changed: every waiting port is looked for at once.
    pub(crate) fn hurry(&mut self, now: Instant) {
        for port in self.ports.values_mut() {
            if let Progress::Waiting { retry_at } = &mut port.progress {
                *retry_at = now;
            }
        }
    }

    /// Is the port in the program, with this very interface?
    #[must_use]
    pub(crate) fn is_wanted(&self, entry: &PortEntry) -> bool {
        self.ports.get(&entry.id).is_some_and(|port| port.entry.attachment == entry.attachment)
    }

    /// The order of this number, to attach the port, is on its way to the data plane.
    pub(crate) fn sent(&mut self, id: PortId, sequence: u64) {
        if let Some(port) = self.ports.get_mut(&id) {
            port.sequence = Some(sequence);
        }
    }

    /// Is this the number of the last order to attach the port?
    #[must_use]
    pub(crate) fn is_current(&self, id: PortId, sequence: u64) -> bool {
        self.ports.get(&id).is_some_and(|port| port.sequence == Some(sequence))
    }

    /// The data plane has the port.
    pub(crate) fn attached(&mut self, id: PortId) {
        self.conclude(id, Progress::Attached, "");
    }

    /// The port has no interface, for this reason; it is looked for again later.
    pub(crate) fn missing(&mut self, id: PortId, reason: &str, now: Instant) {
        if let Some(port) = self.ports.get_mut(&id) {
            port.sequence = None;
        }
        self.conclude(id, Progress::Waiting { retry_at: now + RETRY_AFTER }, reason);
    }

    /// Has every port been tried, so that its state is known?
    #[must_use]
    pub(crate) fn is_settled(&self) -> bool {
        self.ports.values().all(|port| port.reason.is_some())
    }

    /// Why a port has no interface, as far as that was tried; empty: it has.
    pub(crate) fn reason(&self, id: PortId) -> Option<&str> {
        self.ports.get(&id)?.reason.as_deref()
    }

    /// All states, if they changed since they were last taken.
    #[must_use]
    pub(crate) fn take_changes(&mut self) -> Option<PortStates> {
        std::mem::take(&mut self.is_changed).then(|| self.states())
    }

    /// All states that are known: a port that was not tried yet is left out. Links are none.
    #[must_use]
    pub(crate) fn states(&self) -> PortStates {
        let state = |(id, port): (&PortId, &Port)| {
            let reason = port.reason.as_ref().filter(|_| !is_link(*id))?;
            let is_hindered = port.progress == Progress::Attached && reason.is_empty();
            let reason = if is_hindered { self.hindrance.clone() } else { reason.clone() };
            Some(PortState { port_id: id.to_string(), reason })
        };
        PortStates { ports: self.ports.iter().filter_map(state).collect() }
    }

    /// Every port with an interface.
    #[must_use]
    pub(crate) fn attached_entries(&self) -> Vec<PortEntry> {
        let is_attached =
            |port: &&Port| port.progress == Progress::Attached && !is_inside(&port.entry);
        let attached = self.ports.values().filter(is_attached);
        attached.map(|port| port.entry.clone()).collect()
    }

    fn attaching(&self) -> usize {
        self.ports.values().filter(|port| port.progress == Progress::Attaching).count()
    }

    fn conclude(&mut self, id: PortId, progress: Progress, reason: &str) {
        let Some(port) = self.ports.get_mut(&id) else { return };
        port.progress = progress;
        if port.reason.as_deref() == Some(reason) {
            return;
        }
        self.is_changed = true;
        port.reason = Some(reason.into());
        if reason.is_empty() {
            tracing::info!(port = port.entry.name, "port attached");
        } else {
            tracing::info!(port = port.entry.name, "port has no interface: {reason}");
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use catena_model::id::NetworkId;
    use catena_model::program::PortRole;
    use catena_model::resource::InterfaceRef;
    use catena_wire::scalar::MacAddr;
    use uuid::Uuid;

    fn entry(number: u128, interface: &str) -> PortEntry {
        PortEntry {
            id: PortId(Uuid::from_u128(number)),
            name: format!("p{number}"),
            network: NetworkId(Uuid::from_u128(99)),
            mac: MacAddr([2, 0, 0, 0, 0, 1]),
            role: PortRole::Endpoint,
            attachment: Attachment::Interface(InterfaceRef {
                namespace: None,
                interface: interface.into(),
            }),
            own_sources: None,
        }
    }

    /// The ports of a program.
    fn wanted(entries: &[PortEntry]) -> Vec<PortEdit> {
        entries.iter().map(|entry| (entry.id, Some(Arc::new(entry.clone())))).collect()
    }

    fn reasons(ports: &Ports) -> Vec<String> {
        ports.states().ports.into_iter().map(|state| state.reason).collect()
    }

    #[test]
    fn a_port_without_interface_is_looked_for_again_and_told_once() {
        let now = Instant::now();
        let mut ports = Ports::default();
        assert!(ports.edit(wanted(&[entry(1, "a")]), now).is_empty());
        assert_eq!(ports.take_due(now), [entry(1, "a")]);
        assert!(ports.take_due(now).is_empty(), "one attempt at a time");
        assert!(!ports.is_settled());
        assert_eq!(reasons(&ports), [""; 0], "nobody knows yet");
        ports.missing(entry(1, "a").id, "no such interface", now);
        assert!(ports.is_settled());
        assert!(ports.take_changes().is_some());
        for round in 1..4 {
            let later = now + RETRY_AFTER * round;
            assert_eq!(ports.next_retry(), Some(later));
            assert_eq!(ports.take_due(later).len(), 1);
            ports.missing(entry(1, "a").id, "no such interface", later);
            assert_eq!(ports.take_changes(), None, "nothing new");
        }
        assert_eq!(ports.take_due(now + RETRY_AFTER * 9).len(), 1);
        ports.attached(entry(1, "a").id);
        assert_eq!(reasons(&ports), [""]);
        assert!(ports.take_changes().is_some());
        assert_eq!(ports.next_retry(), None);
    }

    #[test]
    fn a_program_detaches_what_left_it_and_what_changed_its_interface() {
        let now = Instant::now();
        let mut ports = Ports::default();
        assert!(ports.edit(wanted(&[entry(1, "a"), entry(2, "b"), entry(3, "c")]), now).is_empty());
        assert_eq!(ports.take_due(now).len(), 3);
        for number in 1..=3 {
            ports.attached(entry(number, "").id);
        }
        let mut edits = wanted(&[entry(2, "other")]);
        edits.push((entry(3, "c").id, None));
        let gone = ports.edit(edits, now);
        assert_eq!(gone, [entry(2, "b"), entry(3, "c")]);
        assert_eq!(ports.attached_entries(), [entry(1, "a")]);
        assert!(ports.is_wanted(&entry(2, "other")) && !ports.is_wanted(&entry(2, "b")));
        assert_eq!(ports.take_due(now), [entry(2, "other")]);
        // All of another program at once.
        let gone = ports.replace(wanted(&[entry(2, "b"), entry(4, "d")]), now);
        assert_eq!(gone, [entry(1, "a"), entry(2, "other")]);
        assert_eq!(ports.take_due(now), [entry(2, "b"), entry(4, "d")]);
    }

    #[test]
    fn a_new_data_plane_gets_every_port_and_an_adopted_one_only_what_it_lacks() {
        let now = Instant::now();
        let mut ports = Ports::default();
        assert!(ports.edit(wanted(&[entry(1, "a"), entry(2, "b"), entry(3, "c")]), now).is_empty());
        let lacks = entry(2, "b").id;
        ports.adopt(|id| id != lacks, now);
        assert_eq!(ports.take_due(now), [entry(2, "b")]);
        ports.attached(lacks);
        assert!(!ports.is_settled(), "whether the others have their interfaces is not known");
        ports.attached(entry(1, "a").id);
        ports.begin_again(entry(3, "c").id, now);
        assert_eq!(ports.attached_entries(), [entry(1, "a"), entry(2, "b")]);
        assert_eq!(ports.take_due(now), [entry(3, "c")]);
        ports.adopt(|_| false, now);
        assert_eq!(ports.take_due(now).len(), 3);
    }

    #[test]
    fn what_was_said_of_an_interface_that_is_gone_meanwhile_does_not_count() {
        let now = Instant::now();
        let id = entry(1, "a").id;
        let mut ports = Ports::default();
        assert!(ports.edit(wanted(&[entry(1, "a")]), now).is_empty());
        ports.adopt(|_| true, now);
        assert!(ports.is_current(id, 0));
        ports.missing(id, "its interface is gone", now);
        assert!(!ports.is_current(id, 0));
    }

    #[test]
    fn only_the_last_order_for_a_port_counts() {
        let now = Instant::now();
        let id = entry(1, "a").id;
        let mut ports = Ports::default();
        assert!(ports.edit(wanted(&[entry(1, "a")]), now).is_empty());
        assert_eq!(ports.take_due(now).len(), 1);
        ports.sent(id, 5);
        assert!(ports.is_current(id, 5));
        // Removed and wanted again before the data plane has answered.
        assert_eq!(ports.edit(vec![(id, None)], now).len(), 1);
        assert!(ports.edit(wanted(&[entry(1, "a")]), now).is_empty());
        assert!(!ports.is_current(id, 5) && !ports.is_current(id, 0));
        ports.adopt(|_| true, now);
        assert!(ports.is_current(id, 0));
    }

    #[test]
    fn without_a_data_plane_every_port_says_so() {
        let now = Instant::now();
        let mut ports = Ports::default();
        assert!(ports.edit(wanted(&[entry(1, "a"), entry(2, "b")]), now).is_empty());
        ports.attached(entry(1, "a").id);
        ports.lost("no data plane", now);
        assert_eq!(reasons(&ports), ["no data plane"; 2]);
        assert!(ports.take_changes().is_some());
        ports.adopt(|id| id == entry(1, "a").id, now);
        ports.attached(entry(1, "a").id);
        assert_eq!(reasons(&ports), [""], "the other is not known yet");
    }

    #[test]
    fn attached_ports_say_why_they_do_not_work_and_others_keep_their_own_reason() {
        let now = Instant::now();
        let mut ports = Ports::default();
        assert!(ports.edit(wanted(&[entry(1, "a"), entry(2, "b")]), now).is_empty());
        ports.attached(entry(1, "a").id);
        ports.missing(entry(2, "b").id, "no such interface", now);
        assert!(ports.take_changes().is_some());
        ports.hinder("ct-punt1 is down");
        assert_eq!(reasons(&ports), ["ct-punt1 is down", "no such interface"]);
        assert!(ports.take_changes().is_some());
        ports.hinder("ct-punt1 is down");
        assert_eq!(ports.take_changes(), None, "nothing new");
        ports.hinder("");
        assert_eq!(reasons(&ports), ["", "no such interface"]);
    }

    #[test]
    fn the_number_of_ports_being_attached_is_bounded() {
        let now = Instant::now();
        let mut ports = Ports::default();
        let many: Vec<_> = (0..200).map(|number| entry(number, "a")).collect();
        assert!(ports.edit(wanted(&many), now).is_empty());
        assert_eq!(ports.take_due(now).len(), ATTACHING_MAX);
        assert_eq!(ports.next_retry(), None);
        assert!(!ports.is_settled());
    }
}
