//! How long and how hard a run is. Knows knobs; refuses to know what they do.

use crate::planted::Planted;

/// Which kinds of fault a run may have; with fewer of them a failing seed is easier to read.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[allow(clippy::struct_excessive_bools)]
pub struct Faults {
    /// Processes are killed, at any moment and at any operation of their disk.
    pub crashes: bool,
    /// Hosts lose their power: what was not synced may be lost or torn.
    pub power_cuts: bool,
    /// Nodes are cut off, in both directions or in one.
    pub partitions: bool,
    /// Sessions break and what is on its way in them is gone.
    pub breaks: bool,
    /// No disk takes anything for a while.
    pub full_disk: bool,
    /// A commit of the controller takes long.
    pub slow_disk: bool,
    /// Former programs come again.
    pub replays: bool,
    /// Interfaces of ports vanish and come back.
    pub interfaces: bool,
    /// Functions keep packets for seconds.
    pub slow_functions: bool,
    /// Cables die, flap and fall silent; links vanish and come back.
    pub cables: bool,
}

impl Faults {
    /// All of them.
    pub const ALL: Self = Self {
        crashes: true,
        power_cuts: true,
        partitions: true,
        breaks: true,
        full_disk: true,
        slow_disk: true,
        replays: true,
        interfaces: true,
        slow_functions: true,
        cables: true,
    };
    /// None of them: changes and packets alone.
    pub const NONE: Self = Self {
        crashes: false,
        power_cuts: false,
        partitions: false,
        breaks: false,
        full_disk: false,
        slow_disk: false,
        replays: false,
        interfaces: false,
        slow_functions: false,
        cables: false,
    };

    /// Those with these names, separated by commas (the fields of this type); none: an unknown name.
    #[must_use]
    pub fn parse(names: &str) -> Option<Self> {
        let mut faults = Self::NONE;
        for name in names.split(',').filter(|name| !name.is_empty()) {
            *match name {
                "crashes" => &mut faults.crashes,
                "power_cuts" => &mut faults.power_cuts,
                "partitions" => &mut faults.partitions,
                "breaks" => &mut faults.breaks,
                "full_disk" => &mut faults.full_disk,
                "slow_disk" => &mut faults.slow_disk,
                "replays" => &mut faults.replays,
                "interfaces" => &mut faults.interfaces,
                "slow_functions" => &mut faults.slow_functions,
                "cables" => &mut faults.cables,
                _ => return None,
            } = true;
        }
        Some(faults)
    }
}

/// Which switches there are, and how they are plugged together.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Fabric {
    /// None: hosts speak over an IP network.
    #[default]
    None,
    /// Two or three, each with a cable to each other.
    Mesh,
    /// So many in a ring that not every way round it has room in a header: operators mark switches as edges.
    Ring,
}

impl Fabric {
    /// Are there switches and cables, and chains that go by source routes?
    pub(crate) const fn has_switches(self) -> bool {
        !matches!(self, Self::None)
    }
}

/// One run.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Config {
    /// Things that the operator, chance and packets do before everything is healed.
    pub turns: u32,
    /// What may go wrong.
    pub faults: Faults,
    /// A mistake planted on purpose.
    pub planted: Planted,
    /// Its switches.
    pub fabric: Fabric,
}

impl Default for Config {
    fn default() -> Self {
        Self { turns: 300, faults: Faults::ALL, planted: Planted::None, fabric: Fabric::None }
    }
}
