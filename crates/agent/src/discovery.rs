//! Links between nodes: finds the interfaces that are some, says at each of them who this node is, and tells who
//! is at the other end. Knows interfaces, frames and the key; refuses to know ways, and what a cable is: it takes
//! both ends to know that.

mod boot;
mod ear;
mod load;
mod neighbours;
pub(crate) mod patterns;
mod word;

use crate::links::Links;
use boot::Boot;
use catena_kernel::ethtool;
use catena_kernel::lldp_socket::LldpSocket;
use catena_kernel::netlink::{LinkInfo, LinkWatch, Netlink};
use catena_model::NodeName;
use catena_model::limits::NODE_LINKS_TOLD_MAX;
use catena_protocol::message::{self, LinkState, LinkStates};
use catena_wire::lldp::{FRAME_MAX, LldpFrame};
use catena_wire::scalar::MacAddr;
use ear::{Ear, Heard};
use load::{LOAD_INTERVAL, LoadMeter};
use neighbours::Neighbours;
use patterns::Patterns;
use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;
use std::time::{Duration, Instant};
use tokio::sync::{mpsc, watch};
use tokio::time::{MissedTickBehavior, interval};
use word::{Speaker, WORD_INTERVAL};

/// Frames of all links that wait to be looked at.
const HEARD_MAX: usize = 256;
/// Changes are looked at no more often than this.
const LOOK_INTERVAL: Duration = Duration::from_millis(20);
/// What changes is told no more often than this.
const TELL_INTERVAL: Duration = Duration::from_millis(250);

/// What is found out of links.
pub(crate) struct FoundLinks {
    /// How they are, told no more often than it is worth.
    pub(crate) states: watch::Receiver<LinkStates>,
    /// The interfaces of those that nothing is plugged into, told at once.
    pub(crate) dark: watch::Receiver<BTreeSet<Arc<str>>>,
}

/// Follows the links of this node, for as long as anybody listens. `programmed` is what the program says of them.
pub(crate) fn follow(
    node: Netlink,
    (name, patterns): (&NodeName, Patterns),
    programmed: watch::Receiver<Links>,
) -> FoundLinks {
    let (teller, states) = watch::channel(LinkStates::default());
    let (darkener, dark) = watch::channel(BTreeSet::new());
    let found = FoundLinks { states, dark };
    if patterns.is_empty() {
        return found;
    }
    let boot = Boot::now();
    let (mouth, heard) = mpsc::channel(HEARD_MAX);
    let discovery = Discovery {
        node,
        name: name.clone(),
        patterns,
        boot,
        sequence: 0,
        neighbours: Neighbours::new(name.to_string(), boot.told()),
        links: BTreeMap::new(),
        left_out: None,
        programmed,
        mouth,
        teller,
        darkener,
        told_at: None,
        tell_at: None,
        looked_at: None,
        look_at: None,
    };
    tokio::spawn(discovery.run(heard));
    found
}

/// An interface that is a link.
#[derive(Debug, Default)]
struct Link {
    index: u32,
    mac: Option<MacAddr>,
    is_up: bool,
    /// The longest IP packet that it takes, in bytes.
    mtu: u32,
    /// None: it cannot be listened at, for the reason that was told last.
    ear: Option<Ear>,
    complaint: String,
    /// Frames that were not read, and those that are none.
    flooded: u64,
    malformed: u64,
    load: LoadMeter,
    /// In Mbit/s, and when that was asked.
    speed: Option<(Option<u32>, Instant)>,
}

struct Discovery {
    node: Netlink,
    name: NodeName,
    patterns: Patterns,
    boot: Boot,
    sequence: u64,
    neighbours: Neighbours,
    links: BTreeMap<Arc<str>, Link>,
    /// An interface that would be one link more than a node may tell of, as it was told last.
    left_out: Option<String>,
    programmed: watch::Receiver<Links>,
    mouth: mpsc::Sender<Heard>,
    teller: watch::Sender<LinkStates>,
    darkener: watch::Sender<BTreeSet<Arc<str>>>,
    told_at: Option<Instant>,
    /// When they are told of, which was too early last time.
    tell_at: Option<Instant>,
    /// When the interfaces were seen last: before that nothing is known of them.
    looked_at: Option<Instant>,
    /// When they are to be looked at because something has changed.
    look_at: Option<Instant>,
}

impl Discovery {
    async fn run(mut self, mut heard: mpsc::Receiver<Heard>) {
        let mut ticks = interval(WORD_INTERVAL);
        ticks.set_missed_tick_behavior(MissedTickBehavior::Delay);
        // Watched from before the first look, so that no change is missed.
        let mut changes = self.watch();
        while !self.teller.is_closed() {
            tokio::select! {
                _ = ticks.tick() => {
                    changes = changes.or_else(|| self.watch());
                    self.look().await;
                    self.neighbours.expire(Instant::now());
                    if self.boot.follows() {
                        self.neighbours.begin_again(self.boot.told());
                    }
                    self.say();
                }
                is_readable = next_change(&mut changes) => {
                    if !is_readable {
                        changes = None;
                    }
                    // However many come in a row.
                    let earliest = self.looked_at.map_or(Instant::now(), |at| at + LOOK_INTERVAL);
                    self.look_at.get_or_insert(earliest);
                }
                () = until(self.look_at) => self.look().await,
                () = until(self.tell_at) => {}
                Some(heard) = heard.recv() => self.hear(&heard),
                Ok(()) = self.programmed.changed() => {
                    self.programmed.mark_unchanged();
                    self.say();
                }
            }
            self.tell();
        }
    }

    /// None: looking once a second is enough until there is one.
    fn watch(&self) -> Option<LinkWatch> {
        self.node.watch_links().ok()
    }

    /// Looks at all interfaces: which are links, which of them carry, and what they count.
    async fn look(&mut self) {
        self.look_at = None;
        let found = match self.node.links().await {
            Ok(found) => found,
            Err(error) => {
                tracing::warn!("the links of this node are not looked for: {error}");
                return;
            }
        };
        self.looked_at = Some(Instant::now());
        let found: BTreeMap<&str, &LinkInfo> = found
            .iter()
            // What cannot be printed cannot be told of.
            .filter(|link| link.name.bytes().all(|octet| octet.is_ascii_graphic()))
            .filter(|link| self.patterns.matches(&link.name))
            .map(|link| (link.name.as_str(), link))
            .collect();
        let neighbours = &mut self.neighbours;
        self.links.retain(|name, _| {
            let stays = found.contains_key(&**name);
            if !stays {
                neighbours.forget(name);
            }
            stays
        });
        for (name, info) in found {
            if !self.links.contains_key(name) && !self.takes_one_more(name) {
                continue;
            }
            self.bring_up_to_date(name, info);
        }
        let dark = self.links.iter().filter(|(_, link)| !link.is_up);
        let dark: BTreeSet<Arc<str>> = dark.map(|(name, _)| Arc::clone(name)).collect();
        self.darkener.send_if_modified(|told| {
            let is_news = *told != dark;
            *told = dark;
            is_news
        });
    }

    fn takes_one_more(&mut self, name: &str) -> bool {
        let has_room = self.links.len() < NODE_LINKS_TOLD_MAX;
        if !has_room && self.left_out.is_none() {
            tracing::warn!(
                "interface '{name}' is no link: a node tells of {NODE_LINKS_TOLD_MAX} at most; make fewer interfaces \
                 links (--link)"
            );
            self.left_out = Some(name.to_owned());
        }
        has_room
    }

    fn bring_up_to_date(&mut self, name: &str, info: &LinkInfo) {
        let link = self.links.entry(Arc::from(name)).or_default();
        if link.index != info.index {
            // Another interface that has the same name now.
            self.neighbours.forget(name);
            *link = Link { index: info.index, ..Link::default() };
        }
        link.mac = info.mac.map(MacAddr);
        link.mtu = info.mtu;
        link.is_up = info.is_up && info.has_carrier;
        if !link.is_up {
            self.neighbours.unplug(name);
        }
        if link.ear.is_none() {
            match LldpSocket::open(self.node.namespace(), name) {
                Ok(socket) => {
                    link.ear = Some(Ear::new(socket, Arc::from(name), self.mouth.clone()));
                }
                Err(error) if error.to_string() != link.complaint => {
                    link.complaint = error.to_string();
                    tracing::warn!(link = name, "nobody is found at its other end: {error}");
                }
                Err(_) => {}
            }
        }
        link.flooded += link.ear.as_ref().map(Ear::take_flooded).unwrap_or_default();
        let now = Instant::now();
        let is_due = |(_, at): &(_, Instant)| now.saturating_duration_since(*at) >= LOAD_INTERVAL;
        if link.speed.as_ref().is_none_or(is_due) {
            let speed = ethtool::speed_mbits(self.node.namespace(), name).ok().flatten();
            link.speed = Some((speed, now));
        }
        let speed = link.speed.and_then(|(speed, _)| speed);
        link.load.take(info.statistics, speed, now);
    }

    /// Says at every link that has a number who this node is.
    fn say(&mut self) {
        let programmed = self.programmed.borrow().clone();
        let Some(key) = programmed.key() else { return };
        self.sequence += 1;
        let speaker = Speaker {
            node: self.name.as_str(),
            boot: self.boot.told(),
            sequence: self.sequence,
            key,
        };
        let mut frame = [0; FRAME_MAX];
        for (name, link) in self.links.iter().filter(|(_, link)| link.is_up) {
            let (Some(ear), Some(mac)) = (&link.ear, link.mac) else { continue };
            let Some(number) = programmed.number_of(name) else { continue };
            let said = word::say(&speaker, (name, mac), number, &mut frame);
            if let Ok(length) = said {
                // What is lost is said again; an interface that went is seen by whoever looks.
                ear.say(frame.get(..length).unwrap_or_default()).ok();
            }
        }
    }

    fn hear(&mut self, heard: &Heard) {
        // Nobody knows whose a word is before there is a key.
        let Some(key) = self.programmed.borrow().key() else { return };
        let Some(link) = self.links.get_mut(&heard.link).filter(|link| link.is_up) else { return };
        match LldpFrame::parse(&heard.frame) {
            Ok(frame) => {
                let signature = word::signature(&frame, key);
                self.neighbours.hear(&heard.link, &frame, signature, Instant::now());
            }
            Err(_) => link.malformed += 1,
        }
    }

    /// Tells how the links are: when something differs, and from time to time what they carry.
    fn tell(&mut self) {
        if self.looked_at.is_none() {
            return;
        }
        let now = Instant::now();
        let passed = self.told_at.map(|at| now.saturating_duration_since(at));
        if passed.is_some_and(|passed| passed < TELL_INTERVAL) {
            self.tell_at = self.told_at.map(|at| at + TELL_INTERVAL);
            return;
        }
        self.tell_at = None;
        let states = self.states();
        let is_due = passed.is_none_or(|passed| passed >= LOAD_INTERVAL);
        let is_news =
            !self.teller.borrow().links.iter().map(matter).eq(states.links.iter().map(matter));
        if is_due || is_news {
            self.teller.send_replace(states);
            self.told_at = Some(now);
        }
    }

    fn states(&self) -> LinkStates {
        let programmed = self.programmed.borrow();
        let state = |(name, link): (&Arc<str>, &Link)| LinkState {
            interface: name.to_string(),
            number: programmed
                .number_of(name)
                .map(|number| number.get().into())
                .unwrap_or_default(),
            is_up: link.is_up,
            load_permille: link.load.permille().map(u32::from),
            flooded: link.flooded,
            refused: link.malformed + self.neighbours.refused(name),
            neighbours: self.neighbours.of(name).map(told).collect(),
            // The ports of the data plane are another's.
            hindrance: String::new(),
            is_doubted: false,
            mtu: link.mtu,
        };
        LinkStates { links: self.links.iter().map(state).collect() }
    }
}

fn told(neighbour: &catena_model::discovery::Neighbour) -> message::Neighbour {
    message::Neighbour {
        chassis: neighbour.chassis.clone(),
        port: neighbour.port.clone(),
        system: neighbour.system.clone(),
        number: neighbour.number.map(|number| number.get().into()).unwrap_or_default(),
        trust: neighbour.trust.word().into(),
    }
}

/// What is told at once when it differs.
fn matter(link: &LinkState) -> (&str, u32, bool, u32, &[message::Neighbour]) {
    (&link.interface, link.number, link.is_up, link.mtu, &link.neighbours)
}

/// Waits for a moment; none: for ever.
async fn until(at: Option<Instant>) {
    match at {
        Some(at) => tokio::time::sleep_until(at.into()).await,
        None => std::future::pending().await,
    }
}

/// Waits for a change of any interface; false: none can be read any more.
async fn next_change(changes: &mut Option<LinkWatch>) -> bool {
    match changes {
        Some(changes) => changes.next().await.is_ok(),
        None => std::future::pending().await,
    }
}
