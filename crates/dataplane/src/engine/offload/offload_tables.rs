//! The kernel's tables, as the engine sees them. Knows verbs and numbers; refuses to know
//! descriptors: the shell opens it, tests build one of their own.

use catena_fastpath::{FlowKey, Guard, Transform, Way};
use catena_model::account::Volume;
use catena_model::program::Locator;
use std::io;
use std::net::{IpAddr, Ipv4Addr};

/// What has passed by one transform since it was put in.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Passed {
    /// Wire packets.
    pub packets: u64,
    /// Time since the last of them, in nanoseconds.
    pub idle_ns: u64,
}

/// How far the hand-over of a flow to the kernel has come.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum HandOver {
    /// The kernel repeats the transform from now on.
    Done,
    /// Packets that were sent up while it waited are still on their way to the engine.
    Waits,
    /// The kernel has no such transform (any more).
    Gone,
}

/// What the kernel has lost since they were opened, in frames.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Losses {
    /// A step was refused half way.
    pub refused: u64,
    /// Copies that were refused.
    pub copies_refused: u64,
    /// Came to the program at an interface that is no port's.
    pub strays: u64,
}

/// The kernel's tables.
pub trait OffloadTables: Send {
    /// Another takes its place: nobody uses its tables through it any more.
    fn retire(&mut self) {}

    /// All that they hold but for what is counted; none: these have nothing to be told.
    ///
    /// # Errors
    /// The kernel's refusal.
    fn dump(&self) -> io::Result<Option<String>> {
        Ok(None)
    }

    /// How many flows it can hold; 0: it passes on by links alone.
    fn flows(&self) -> u32;

    /// How many accounts there are, from 0.
    fn accounts(&self) -> u32;

    /// How many slots of guards there are, from 0; slot 0 never changes.
    fn guards(&self) -> u32;

    /// Serves tunnels to this own address, and segments below this own locator; none: leaves them all to
    /// their sockets.
    fn serve_underlay(&mut self, own: Option<Ipv4Addr>, locator: Option<Locator>);

    /// What a node sends from this address has a meaning, and the keys of its flows this number; or it
    /// has none any more. False: the kernel refused.
    fn know_source(&mut self, node: IpAddr, number: Option<u16>) -> bool;

    /// Puts a transform in. It waits: its packets come up, marked as counted, until
    /// [`OffloadTables::hand_over`] succeeds. False: the kernel refused.
    fn install(&mut self, key: &FlowKey, transform: &Transform) -> bool;

    /// Lets the kernel repeat a transform, if no more than `forwarded` of its packets were counted
    /// while it waited.
    fn hand_over(&mut self, key: &FlowKey, forwarded: u32) -> HandOver;

    /// Takes a transform out and answers what had passed by it; none: it was not there.
    fn remove(&mut self, key: &FlowKey) -> Option<Passed>;

    /// What has passed by a transform; none: it is not there.
    fn passed(&mut self, key: &FlowKey) -> Option<Passed>;

    /// The sum of an account since the tables were made.
    fn account(&mut self, account: u32) -> Volume;

    /// Ends every transform that depends on this slot, and answers the epoch that it holds now.
    fn bump(&mut self, slot: u32) -> u32;

    /// Lets the kernel repeat transforms, or send every packet up.
    fn switch(&mut self, is_on: bool);

    /// How often a packet met a transform that had ended by this slot.
    fn stale(&mut self, slot: u32) -> u64;

    /// Frames that were sent up, for whatever reason, since the program was loaded.
    fn sent_up(&mut self) -> u64;

    /// What has been lost since they were opened.
    fn losses(&mut self) -> Losses;

    /// Links that have a place, by which frames are passed on; 0: the kernel passes none on.
    fn places(&self) -> u8;

    /// The link with this number has this place; none: it has none.
    fn set_place(&mut self, number: u8, place: Option<u8>);

    /// Ends all that passes a place, and answers what holds from now on.
    fn end_place(&mut self, place: u8) -> Guard;

    /// Divides the numbers of ways of a pass by this polynomial; 0: by none.
    fn divide_by(&mut self, pass: u8, polynomial: u32);

    /// Lets frames pass by an interface while the guards hold. It waits: they come up, marked as counted, until
    /// [`OffloadTables::open_way`] succeeds.
    fn let_pass(&mut self, way: Way, interface: u32, guards: [Guard; 2]);

    /// Sends all frames of a way up.
    fn let_none_pass(&mut self, way: Way);

    /// Frames of a way that came up marked as counted, since the program was loaded.
    fn counted(&mut self, way: Way) -> u64;

    /// Lets frames pass from now on, if no more than so many were counted. False: others are on their way up.
    fn open_way(&mut self, way: Way, forwarded: u64) -> bool;

    /// What has passed by a way, as it came, since the program was loaded.
    fn passed_on(&mut self, way: Way) -> Volume;
}
