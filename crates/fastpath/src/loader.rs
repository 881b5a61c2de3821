//! Loads the program into the kernel and names what a kernel lacks. Knows the object file that the
//! build made; refuses to know what is put into the tables. Needs `CAP_BPF` and `CAP_NET_ADMIN`.

use crate::maps;
use crate::punt::PuntTag;
use crate::records::Event;
use crate::tables::{TABLE_NAMES, TABLES_COUNT};
use crate::transform::Kind;
use aya::maps::{Map, MapError};
use aya::programs::{ProgramError, SchedClassifier};
use aya::{Ebpf, EbpfError, EbpfLoader};
use catena_wire::source_route::Profile;
use std::os::fd::{AsFd, OwnedFd};

/// The first kernel with all that the program asks for.
const KERNEL_MIN: (u32, u32) = (6, 1);

/// The program, made from `bpf/` by the build.
static OBJECT: &[u8] = aya::include_bytes_aligned!(concat!(env!("OUT_DIR"), "/fastpath.o"));

/// How large the tables are.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Sizes {
    /// Flows; each takes about 600 bytes of the kernel's memory, from the start.
    pub flows: u32,
    /// Slots of epochs, slot 0 included.
    pub slots: u32,
    /// Gates, gate 0 included.
    pub gates: u32,
    /// Accounts; each takes 16 bytes for each processor.
    pub accounts: u32,
    /// Links between which frames are passed on; each takes 320 bytes for each of them.
    pub places: u32,
}

/// Why the program is not in the kernel.
#[derive(Debug, thiserror::Error)]
pub enum LoadError {
    /// The kernel is too old, or was built without something.
    #[error("the kernel lacks {what}, which there is since Linux {since}")]
    Missing {
        /// What it lacks.
        what: String,
        /// The first version that has it.
        since: &'static str,
    },
    /// A table, refused by the kernel.
    #[error("the kernel refuses a table of the fast path: {0}")]
    Table(#[from] MapError),
    /// The object, refused.
    #[error("the fast path cannot be loaded: {0}")]
    Object(#[from] EbpfError),
    /// The program, refused.
    #[error("the kernel refuses the fast path: {0}")]
    Program(#[from] ProgramError),
    /// A descriptor, refused.
    #[error("a descriptor of the fast path: {0}")]
    Descriptor(#[from] std::io::Error),
}

/// The program in the kernel. It stays there as long as an interface or a descriptor holds it.
#[derive(Debug)]
pub struct Program {
    port: OwnedFd,
    underlay: OwnedFd,
    link: OwnedFd,
    tables: Vec<OwnedFd>,
}

impl Program {
    /// Loads it.
    ///
    /// # Errors
    /// The kernel is too old, refuses, or rights are missing.
    pub fn load(sizes: Sizes) -> Result<Self, LoadError> {
        check_kernel()?;
        let cpus = aya::util::nr_cpus().map_err(|(_, error)| error)?.max(1) as u32;
        let events = cpus.saturating_mul(Event::ALL.len() as u32);
        let accounts = cpus.saturating_mul(sizes.accounts.max(1));
        let transits = sizes.places.saturating_pow(2).saturating_mul(Profile::ALL.len() as u32);
        let mut object = EbpfLoader::new()
            .set_global("accounts_max", &sizes.accounts.max(1), true)
            .set_max_entries("flows", sizes.flows.max(1))
            .set_max_entries("slots", sizes.slots.max(1))
            .set_max_entries("gates", sizes.gates.max(1))
            .set_max_entries("accounts", accounts)
            .set_max_entries("events", events)
            .set_global("places_max", &sizes.places, true)
            .set_max_entries("transits", transits.max(1))
            .load(OBJECT)?;
        let mut tables = Vec::with_capacity(TABLES_COUNT);
        for name in TABLE_NAMES {
            tables.push(table(&object, name)?);
        }
        let port = load_program(&mut object, "port")?;
        let underlay = load_program(&mut object, "underlay")?;
        let link = load_program(&mut object, "link")?;
        Ok(Self { port, underlay, link, tables })
    }

    /// The program that is in the kernel already, by its [`Program::identifiers`]: those of another
    /// process that still holds it. Needs `CAP_SYS_ADMIN`.
    ///
    /// # Errors
    /// It is gone, or its parts are not as many as this version has.
    pub fn adopt(identifiers: &[u32]) -> Result<Self, LoadError> {
        let Some((tables, &[port, underlay, link])) = identifiers.split_at_checked(TABLES_COUNT)
        else {
            return Err(absent("parts of this version").into());
        };
        let tables = tables.iter().map(|table| maps::table_by_identifier(*table));
        Ok(Self {
            port: maps::program_by_identifier(port)?,
            underlay: maps::program_by_identifier(underlay)?,
            link: maps::program_by_identifier(link)?,
            tables: tables.collect::<std::io::Result<_>>()?,
        })
    }

    /// What the kernel calls its tables and programs, in the order of [`Program::parts`].
    ///
    /// # Errors
    /// The kernel's refusal.
    pub fn identifiers(&self) -> std::io::Result<Vec<u32>> {
        self.parts().map(maps::identifier).collect()
    }

    /// The descriptors of the tables, in the order of [`TABLE_NAMES`], and then of the programs.
    pub fn parts(&self) -> impl Iterator<Item = std::os::fd::BorrowedFd<'_>> {
        self.tables().chain([self.port.as_fd(), self.underlay.as_fd(), self.link.as_fd()])
    }

    /// The program for the ingress hook of a port.
    #[must_use]
    pub fn for_port(&self) -> impl AsFd + '_ {
        self.port.as_fd()
    }

    /// The program for the ingress hook of the underlay's interface.
    #[must_use]
    pub fn for_underlay(&self) -> impl AsFd + '_ {
        self.underlay.as_fd()
    }

    /// The program for the ingress hook of a link between nodes.
    #[must_use]
    pub fn for_link(&self) -> impl AsFd + '_ {
        self.link.as_fd()
    }

    /// The descriptors of the tables, in the order of [`TABLE_NAMES`].
    pub fn tables(&self) -> impl Iterator<Item = std::os::fd::BorrowedFd<'_>> {
        self.tables.iter().map(AsFd::as_fd)
    }
}

/// Which of the programs that a frame can be rehearsed with.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Hook {
    /// That of a port.
    Port,
    /// That of the underlay.
    Underlay,
    /// That of a link between nodes.
    Link,
}

/// What a program would do with a frame, shown without sending anything.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Rehearsal {
    /// What it decides.
    pub verdict: Verdict,
    /// The frame as it would leave; a punted one without its tag.
    pub bytes: Vec<u8>,
    /// Time of one run, in nanoseconds.
    pub nanoseconds: u32,
}

/// What a program decides.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Verdict {
    /// It goes on to the kernel's stack.
    Stack,
    /// It ends here.
    End,
    /// It goes up to the engine by this interface, with this tag.
    Punt(u32, PuntTag),
    /// It leaves as the last operation says.
    Leave(Kind, u32),
}

impl Program {
    /// Runs a program on a frame that came in by an interface of this process's namespace, `repeat`
    /// times, each time on what the time before left; `segment_bytes` is that of a super-frame.
    /// Frames have at most about 3,500 bytes. What it counts is counted, and copies are sent.
    ///
    /// # Errors
    /// The kernel's refusal.
    pub fn rehearse(
        &self,
        hook: Hook,
        ifindex: u32,
        frame: &[u8],
        segment_bytes: Option<u16>,
        repeat: u32,
    ) -> std::io::Result<Rehearsal> {
        const TC_ACT_UNSPEC: u32 = (-1_i32).cast_unsigned();
        const TC_ACT_OK: u32 = 0;
        const TC_ACT_REDIRECT: u32 = 7;
        let program = match hook {
            Hook::Port => self.port.as_fd(),
            Hook::Underlay => self.underlay.as_fd(),
            Hook::Link => self.link.as_fd(),
        };
        let run = maps::run(program, frame, ifindex, segment_bytes.unwrap_or(0), repeat)?;
        let [interface, how] = run.notes;
        let kind = u8::try_from(how).ok().and_then(Kind::of).filter(|kind| kind.is_last());
        let tag = u16::try_from(how).ok().and_then(PuntTag::parse);
        let verdict = match (run.verdict, kind, tag) {
            (TC_ACT_OK | TC_ACT_UNSPEC, ..) => Verdict::Stack,
            // The smallest tag is larger than the largest kind.
            (TC_ACT_REDIRECT, Some(kind), _) => Verdict::Leave(kind, interface),
            (TC_ACT_REDIRECT, None, Some(tag)) => Verdict::Punt(interface, tag),
            _ => Verdict::End,
        };
        Ok(Rehearsal { verdict, bytes: run.bytes, nanoseconds: run.nanoseconds })
    }
}

fn check_kernel() -> Result<(), LoadError> {
    let release = rustix::system::uname().release().to_string_lossy().into_owned();
    let mut numbers = release.split(|c: char| !c.is_ascii_digit()).map(str::parse::<u32>);
    let version = (numbers.next(), numbers.next());
    let (Some(Ok(major)), Some(Ok(minor))) = version else { return Ok(()) };
    if (major, minor) >= KERNEL_MIN {
        return Ok(());
    }
    let what = format!("parts of eBPF (it is Linux {release})");
    Err(LoadError::Missing { what, since: "6.1" })
}

fn absent(name: &str) -> std::io::Error {
    std::io::Error::new(std::io::ErrorKind::NotFound, format!("the object has no {name}"))
}

fn table(object: &Ebpf, name: &str) -> Result<OwnedFd, LoadError> {
    let map = object.map(name).ok_or_else(|| absent(name))?;
    match map {
        Map::Array(map) | Map::HashMap(map) | Map::LruHashMap(map) => {
            Ok(map.fd().as_fd().try_clone_to_owned()?)
        }
        _ => Err(absent(name).into()),
    }
}

fn load_program(object: &mut Ebpf, name: &str) -> Result<OwnedFd, LoadError> {
    let program = object.program_mut(name).ok_or_else(|| absent(name))?;
    let program: &mut SchedClassifier = program.try_into()?;
    program.load()?;
    Ok(program.fd()?.as_fd().try_clone_to_owned()?)
}
