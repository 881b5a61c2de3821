//! Connections cost their owner: each door has seats of its own, and when they are taken the one that
//! has done nothing for longest makes room. Knows how many there may be and who is idle; refuses to
//! know what is said over them.

mod stream;
mod tally;

pub(crate) use stream::Seated;
pub(crate) use tally::Tally;

use rustix::process::{Resource, Rlimit, getrlimit, setrlimit};
use std::collections::BTreeMap;
use std::io;
use std::net::{IpAddr, SocketAddr};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::{Duration, Instant};
use tokio::net::{TcpListener, TcpStream};
use tokio::sync::oneshot;

/// Connections of the REST API at one time, streams among them.
const NORTH_MAX: u64 = 512;
/// Connections of nodes at one time: twice as many as a domain of a thousand nodes needs when all
/// dial again at once.
const SOUTH_MAX: u64 = 2_048;
/// Connections that one node may have: those from before a cut and the one after it.
const OF_ONE_NODE_MAX: usize = 8;
/// Descriptors that no connection gets: the store, certificates, Keystone, what comes to be refused.
const DESCRIPTORS_RESERVED: u64 = 256;
/// After an accept that failed for want of something, so long until the next.
const ACCEPT_PAUSE: Duration = Duration::from_millis(100);

/// The seats of one door.
pub(crate) struct Door {
    name: &'static str,
    max: usize,
    seats: Mutex<Seats>,
    refused: Tally,
}

#[derive(Default)]
struct Seats {
    next: u64,
    taken: BTreeMap<u64, Occupant>,
}

struct Occupant {
    /// What keeps it: requests that are answered, or its node's certificate. None: it is idle.
    busy: usize,
    /// Since when it is idle.
    since: Instant,
    /// Who it belongs to, once that is known.
    owner: Option<String>,
    /// Its end is told here.
    _leave: oneshot::Sender<()>,
}

/// A connection's place; given back when it is dropped.
pub(crate) struct Seat {
    door: Arc<Door>,
    number: u64,
}

/// While it lives its connection is not idle.
pub(crate) struct Busy(Arc<Seat>);

/// The two doors, with as many seats as this process has descriptors for.
pub(crate) fn doors() -> (Arc<Door>, Arc<Door>) {
    let (north, south) = seats(descriptors());
    (Door::new("REST API", north), Door::new("southbound", south))
}

/// The seats of the two doors, with so many descriptors.
fn seats(descriptors: u64) -> (u64, u64) {
    let free = descriptors.saturating_sub(DESCRIPTORS_RESERVED).max(32);
    (NORTH_MAX.min(free / 2), SOUTH_MAX.min(free / 2))
}

/// As many descriptors as this process may have, asked for.
fn descriptors() -> u64 {
    let wanted = NORTH_MAX + SOUTH_MAX + DESCRIPTORS_RESERVED;
    let Rlimit { current, maximum } = getrlimit(Resource::Nofile);
    let (Some(now), may) = (current, maximum.unwrap_or(wanted)) else { return wanted };
    let raised = wanted.min(may);
    if now >= raised {
        return now;
    }
    let limit = Rlimit { current: Some(raised), maximum };
    if setrlimit(Resource::Nofile, limit).is_ok() { raised } else { now }
}

impl Door {
    fn new(name: &'static str, max: u64) -> Arc<Self> {
        let max = usize::try_from(max).unwrap_or(usize::MAX);
        Arc::new(Self { name, max, seats: Mutex::default(), refused: Tally::new() })
    }

    /// The next connection that gets a seat.
    pub(crate) async fn accept(self: &Arc<Self>, listener: &TcpListener) -> (Seated, SocketAddr) {
        loop {
            match listener.accept().await {
                Ok((stream, peer)) => {
                    if let Some(seated) = self.admit(stream, peer) {
                        return (seated, peer);
                    }
                }
                Err(error) if is_of_one_connection(&error) => {}
                Err(error) => {
                    self.refused.note(|count| {
                        format!("{}: {count} connections cannot be taken: {error}", self.name)
                    });
                    tokio::time::sleep(ACCEPT_PAUSE).await;
                }
            }
        }
    }

    fn admit(self: &Arc<Self>, stream: TcpStream, peer: SocketAddr) -> Option<Seated> {
        // An answer is one small segment: waiting for more would only cost time.
        let _ = stream.set_nodelay(true);
        let (seat, leave) = self.sit(peer.ip())?;
        Some(Seated::new(stream, seat, leave))
    }

    fn sit(self: &Arc<Self>, peer: IpAddr) -> Option<(Arc<Seat>, oneshot::Receiver<()>)> {
        let (leave, told) = oneshot::channel();
        let (name, max) = (self.name, self.max);
        let mut seats = self.seats();
        if seats.taken.len() >= max {
            let idle = seats.taken.iter().filter(|(_, occupant)| occupant.busy == 0);
            let oldest = idle.min_by_key(|(_, occupant)| occupant.since).map(|(number, _)| *number);
            match oldest.and_then(|number| seats.taken.remove(&number)) {
                Some(_) => self.refused.note(|count| {
                    format!("{name}: all {max} connections are taken; {count} that did nothing were ended")
                }),
                None => {
                    self.refused.note(|count| {
                        format!("{name}: all {max} connections are in use; {count} were refused, the last from {peer}")
                    });
                    return None;
                }
            }
        }
        let number = seats.next;
        seats.next += 1;
        let occupant = Occupant { busy: 0, since: Instant::now(), owner: None, _leave: leave };
        seats.taken.insert(number, occupant);
        Some((Arc::new(Seat { door: Arc::clone(self), number }), told))
    }

    /// Those of an owner who has too many: the oldest end.
    fn bound(&self, seats: &mut Seats, owner: &str) {
        let own = seats.taken.iter().filter(|(_, seat)| seat.owner.as_deref() == Some(owner));
        let own: Vec<u64> = own.map(|(number, _)| *number).collect();
        let too_many = own.len().saturating_sub(OF_ONE_NODE_MAX);
        for number in own.into_iter().take(too_many) {
            seats.taken.remove(&number);
            self.refused.note(|count| {
                format!(
                    "{}: {owner} has more than {OF_ONE_NODE_MAX} connections; {count} were ended",
                    self.name
                )
            });
        }
    }

    fn seats(&self) -> MutexGuard<'_, Seats> {
        self.seats.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// Did the peer alone fail, before it was here?
fn is_of_one_connection(error: &io::Error) -> bool {
    use io::ErrorKind::{ConnectionAborted, ConnectionRefused, ConnectionReset};
    matches!(error.kind(), ConnectionAborted | ConnectionRefused | ConnectionReset)
}

impl Seat {
    /// It is not idle until the returned guard is dropped.
    pub(crate) fn busy(self: &Arc<Self>) -> Busy {
        if let Some(occupant) = self.door.seats().taken.get_mut(&self.number) {
            occupant.busy += 1;
        }
        Busy(Arc::clone(self))
    }

    /// It belongs to somebody who has proved who he is.
    pub(crate) fn belongs_to(&self, owner: &str) {
        let mut seats = self.door.seats();
        if let Some(occupant) = seats.taken.get_mut(&self.number) {
            occupant.owner = Some(owner.into());
        }
        self.door.bound(&mut seats, owner);
    }
}

impl Drop for Seat {
    fn drop(&mut self) {
        self.door.seats().taken.remove(&self.number);
    }
}

impl Busy {
    /// It is not idle any more, until it is over.
    pub(crate) fn for_good(self) {
        if let Some(occupant) = self.0.door.seats().taken.get_mut(&self.0.number) {
            occupant.busy += 1;
        }
    }
}

impl Drop for Busy {
    fn drop(&mut self) {
        if let Some(occupant) = self.0.door.seats().taken.get_mut(&self.0.number) {
            occupant.busy = occupant.busy.saturating_sub(1);
            occupant.since = Instant::now();
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::net::Ipv4Addr;

    const PEER: IpAddr = IpAddr::V4(Ipv4Addr::LOCALHOST);

    #[test]
    fn with_all_seats_taken_descriptors_are_left_for_what_must_go_on() {
        /// The store with its log and witness, certificates, a file of tokens, and as many requests
        /// to Keystone, descriptors of the runtime and connections that come to be refused.
        const NEEDED: u64 = 128;
        for descriptors in [512, 1_024, 2_048, 4_096, 1 << 20] {
            let (north, south) = seats(descriptors);
            assert!(north >= 32 && south >= 32, "{descriptors}: {north} and {south}");
            assert!(north + south + NEEDED <= descriptors, "{descriptors}: {north} and {south}");
        }
    }

    #[tokio::test]
    async fn who_has_done_nothing_for_longest_makes_room_and_who_is_busy_does_not() {
        let door = Door::new("test", 3);
        let (first, mut first_told) = door.sit(PEER).unwrap();
        let (second, mut second_told) = door.sit(PEER).unwrap();
        let (third, mut third_told) = door.sit(PEER).unwrap();
        drop(first.busy());
        let busy = third.busy();
        let (fourth, _fourth_told) = door.sit(PEER).unwrap();
        let is_ended = |told: &mut oneshot::Receiver<()>| {
            matches!(told.try_recv(), Err(oneshot::error::TryRecvError::Closed))
        };
        assert!(is_ended(&mut second_told), "the second was idle for longest");
        assert!(!is_ended(&mut first_told) && !is_ended(&mut third_told));
        let all = [first.busy(), fourth.busy()];
        assert!(door.sit(PEER).is_none(), "all are in use");
        drop((all, second));
        drop(busy);
        assert!(door.sit(PEER).is_some());
    }

    #[tokio::test]
    async fn one_owner_has_so_many_connections_and_no_more() {
        let door = Door::new("test", 100);
        let (other, mut other_told) = door.sit(PEER).unwrap();
        other.belongs_to("other");
        let mut own: Vec<_> = (0..=OF_ONE_NODE_MAX).map(|_| door.sit(PEER).unwrap()).collect();
        for (seat, _) in &own {
            seat.belongs_to("node");
        }
        let ended = own.iter_mut().map(|(_, told)| told.try_recv());
        let ended: Vec<bool> =
            ended.map(|told| told == Err(oneshot::error::TryRecvError::Closed)).collect();
        assert_eq!(ended.iter().filter(|ended| **ended).count(), 1);
        assert!(ended[0], "the oldest");
        assert_eq!(other_told.try_recv(), Err(oneshot::error::TryRecvError::Empty));
    }
}
