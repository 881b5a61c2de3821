//! The one list of reasons for which a report says nothing. Knows names; refuses to know who is refused.

macro_rules! refusals {
    ($($variant:ident $name:literal $sentence:literal,)+) => {
        /// Why a report changes no figure.
        #[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
        #[repr(u8)]
        pub enum Refusal {
            $(
                #[doc = $sentence]
                $variant,
            )+
        }

        impl Refusal {
            /// Every reason, in the order of declaration: the index of each is `self as usize`.
            pub const ALL: &'static [Refusal] = &[$(Refusal::$variant),+];
            /// How many reasons there are.
            pub const COUNT: usize = Self::ALL.len();

            /// The short name that counters have.
            #[must_use]
            pub const fn name(self) -> &'static str {
                match self { $(Refusal::$variant => $name),+ }
            }

            /// One sentence for people.
            #[must_use]
            pub const fn sentence(self) -> &'static str {
                match self { $(Refusal::$variant => $sentence),+ }
            }
        }
    };
}

refusals! {
    UnknownNode "unknown_node" "The node that told it is on no path that is watched.",
    Flooded "flooded" "The node tells more than its rate.",
    Repeated "repeated" "The report, or the packet that it tells of, was told before.",
    OutOfOrder "out_of_order" "A later report of the node came before it, or a later connection.",
    UnplannedPath "unplanned_path" "No such path is planned in this version.",
    ForeignReporter "foreign_reporter" "The node has no business with what it tells: it serves another place of the path, or none.",
    UnplannedHop "unplanned_hop" "The packet has more hops than its path, or the delay is of none.",
    Malformed "malformed" "A record contradicts itself.",
    ForeignDevice "foreign_device" "A hop was served by a node that is none of its path.",
    OtherOrder "other_order" "The nodes of the path came in another order than planned.",
    TimeOutsideBounds "time_outside_bounds" "A stamp is in the future, too long ago, or does not fit those of other nodes or of former packets.",
    CounterBackwards "counter_backwards" "A node has seen fewer packets of the flow than before.",
    CounterContradiction "counter_contradiction" "A node has seen more packets of the flow than came to it, or counts from the beginning again.",
}

/// How many were refused, by name.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Refusals([u64; Refusal::COUNT]);

impl Refusals {
    pub(super) fn count(&mut self, refusal: Refusal) {
        if let Some(count) = self.0.get_mut(refusal as usize) {
            *count = count.saturating_add(1);
        }
    }

    /// For this reason.
    #[must_use]
    pub fn of(&self, refusal: Refusal) -> u64 {
        self.0.get(refusal as usize).copied().unwrap_or_default()
    }

    /// For any.
    #[must_use]
    pub fn all(&self) -> u64 {
        self.0.iter().fold(0, |sum, count| sum.saturating_add(*count))
    }
}
