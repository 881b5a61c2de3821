//! What becomes of frames on source routes that only pass: where the program finds it by link, profile and port
//! number, and by what it divides numbers of ways. Knows rows and words; refuses to know which links there are, and
//! what they are good for.
//!
//! Links have places, as there are fewer of them than numbers: a row is of two places and a profile. Nothing here is
//! of a flow, a chain or a path.

use crate::maps::SharedArray;
use crate::records::Transit;
use crate::tables::{Gate, halves, joined};
use crate::transform::Guard;
use catena_model::account::Volume;
use catena_wire::source_route::Profile;
use std::io;
use std::os::fd::BorrowedFd;
use std::sync::atomic::{AtomicU64, Ordering};

/// Passes of which a node may have a polynomial.
pub const PASSES_MAX: u8 = 16;
/// Row of the first polynomial; in front of it are the places of all port numbers, each one more than it is.
pub(crate) const DIVISORS_FROM: u16 = 256;
/// Words of a [`Transit`].
const TRANSIT_WORDS: usize = size_of::<Transit>() / size_of::<u64>();

/// From one place by a profile to another place.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Way {
    /// The place of the link that brings frames.
    pub from: u8,
    /// Their profile.
    pub profile: Profile,
    /// The place of the link that they name.
    pub to: u8,
}

/// The rows of one node's program.
#[derive(Debug)]
pub struct Transits {
    rows: SharedArray<TRANSIT_WORDS>,
    numbers: SharedArray<1>,
    places: usize,
}

impl Transits {
    pub(crate) fn map(rows: BorrowedFd<'_>, numbers: BorrowedFd<'_>) -> io::Result<Self> {
        let rows = SharedArray::map(rows)?;
        let places = (rows.rows() / Profile::ALL.len()).isqrt();
        Ok(Self { rows, numbers: SharedArray::map(numbers)?, places })
    }

    /// Links that have room; 0: the program passes nothing on.
    #[must_use]
    pub fn places(&self) -> u8 {
        u8::try_from(self.places).unwrap_or(u8::MAX)
    }

    /// Forgets all links and polynomials; frames that are counted go on from where they were.
    pub fn forget_all(&self) {
        (0..self.numbers.rows()).for_each(|row| self.set_number(row, 0));
        for row in 0..self.rows.rows() {
            if let Some([_, _, _, exit, ..]) = self.rows.row(row) {
                exit.store(0, Ordering::Release);
            }
        }
    }

    /// The link with this number has this place; none: it has none.
    pub fn set_place(&self, number: u8, place: Option<u8>) {
        self.set_number(number.into(), place.map_or(0, |place| u64::from(place) + 1));
    }

    /// The place of the link with this number.
    #[must_use]
    pub fn place(&self, number: u8) -> Option<u8> {
        let [word] = self.numbers.row(number.into())?;
        u8::try_from(word.load(Ordering::Acquire).checked_sub(1)?).ok()
    }

    /// By what numbers of ways of a pass are divided, as its coefficients; 0: they are not.
    pub fn divide_by(&self, pass: u8, polynomial: u32) {
        if pass < PASSES_MAX {
            self.set_number(usize::from(DIVISORS_FROM) + usize::from(pass), polynomial.into());
        }
    }

    /// By what numbers of ways of a pass are divided; 0: they are not.
    #[must_use]
    pub fn divisor(&self, pass: u8) -> u32 {
        let word = self.numbers.row(usize::from(DIVISORS_FROM) + usize::from(pass));
        word.map_or(0, |[word]| word.load(Ordering::Acquire) as u32)
    }

    fn set_number(&self, row: usize, to: u64) {
        if let Some([word]) = self.numbers.row(row) {
            word.store(to, Ordering::Release);
        }
    }

    /// Lets frames pass by an interface, as soon as their gate is open, and as long as both guards hold. It is
    /// closed; the guards that the row had before must have ended.
    pub fn set(&self, way: Way, interface: u32, guards: [Guard; 2]) {
        let Some([first, second, gate, exit, ..]) = self.row(way) else { return };
        Gate { word: gate }.close();
        exit.store(joined(interface, 0), Ordering::Release);
        for (word, Guard { slot, epoch }) in [first, second].into_iter().zip(guards) {
            word.store(joined(slot, epoch), Ordering::Release);
        }
    }

    /// Sends all up.
    pub fn clear(&self, way: Way) {
        if let Some([_, _, _, exit, ..]) = self.row(way) {
            exit.store(0, Ordering::Release);
        }
    }

    /// The gate of a row.
    #[must_use]
    pub fn gate(&self, way: Way) -> Option<Gate<'_>> {
        let [_, _, word, ..] = self.row(way)?;
        Some(Gate { word })
    }

    /// What has passed, as it came, since the program was loaded.
    #[must_use]
    pub fn passed(&self, way: Way) -> Volume {
        let entry = self.entry(way);
        Volume { packets: entry.packets, bytes: entry.bytes }
    }

    /// A row as it stands.
    #[must_use]
    pub fn entry(&self, way: Way) -> Transit {
        let Some(row) = self.row(way) else { return Transit::default() };
        let word = |word: &AtomicU64| word.load(Ordering::Acquire);
        let guard = |of: &AtomicU64| {
            let (slot, epoch) = halves(word(of));
            Guard { slot, epoch }
        };
        let [first, second, gate, exit, seen_ns, packets, bytes, reserved] = row;
        let (interface, fitting) = halves(word(exit));
        Transit {
            guards: [guard(first), guard(second)],
            gate: word(gate),
            interface,
            fitting: fitting.cast_signed(),
            seen_ns: word(seen_ns),
            packets: word(packets),
            bytes: word(bytes),
            reserved: word(reserved),
        }
    }

    fn row(&self, Way { from, profile, to }: Way) -> Option<&[AtomicU64; TRANSIT_WORDS]> {
        let (from, to) = (usize::from(from), usize::from(to));
        if from >= self.places || to >= self.places {
            return None;
        }
        let first = (from * Profile::ALL.len() + profile as usize) * self.places;
        self.rows.row(first + to)
    }
}
