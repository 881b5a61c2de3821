//! The kernel's tables by their descriptors: single elements by bpf(2), arrays as shared memory.
//! Knows the system call and the mapping; refuses to know what a record means.
//!
//! Needs no capability: since Linux 5.19 `kernel.unprivileged_bpf_disabled` stops only those who
//! make maps and programs, not those who hold a descriptor.
#![allow(unsafe_code)]

#[cfg(feature = "program")]
mod identifiers;
#[cfg(feature = "program")]
mod rehearsal;

#[cfg(feature = "program")]
pub(crate) use identifiers::{identifier, program_by_identifier, table_by_identifier};
#[cfg(feature = "program")]
pub(crate) use rehearsal::run;

use crate::records::{Entry, Port};
use crate::transform::FlowKey;
use rustix::mm::{MapFlags, ProtFlags, mmap, munmap};
use std::ffi::c_void;
use std::io;
use std::os::fd::{AsFd, AsRawFd, BorrowedFd, OwnedFd};
use std::ptr::NonNull;
use std::sync::atomic::AtomicU64;

// enum bpf_cmd of linux/bpf.h.
const BPF_MAP_LOOKUP_ELEM: libc::c_int = 1;
const BPF_MAP_UPDATE_ELEM: libc::c_int = 2;
const BPF_MAP_DELETE_ELEM: libc::c_int = 3;
const BPF_OBJ_GET_INFO_BY_FD: libc::c_int = 15;
const BPF_MAP_LOOKUP_BATCH: libc::c_int = 24;

/// Elements of one batch; more than a bucket of a hash table ever holds.
const BATCH_ELEMENTS: usize = 512;

/// What may be handed to the kernel as bytes and come back from it.
///
/// # Safety
/// Every pattern of bits is a value, and no byte of a value is padding.
pub(crate) unsafe trait Plain: Copy + Default {}

// SAFETY: all fields are whole numbers and arrays of them; their sizes add up (see `header`).
unsafe impl Plain for FlowKey {}
// SAFETY: as above.
unsafe impl Plain for Entry {}
// SAFETY: as above.
unsafe impl Plain for Port {}
// SAFETY: a number.
unsafe impl Plain for u32 {}
// SAFETY: octets.
unsafe impl Plain for [u8; 16] {}

/// `union bpf_attr` for single elements.
#[repr(C)]
struct ElementRequest {
    map: u32,
    pad: u32,
    key: u64,
    value: u64,
    flags: u64,
}

/// `union bpf_attr` for batches.
#[repr(C)]
struct BatchRequest {
    in_batch: u64,
    out_batch: u64,
    keys: u64,
    values: u64,
    count: u32,
    map: u32,
    element_flags: u64,
    flags: u64,
}

/// `union bpf_attr` for questions about an object.
#[repr(C)]
struct InfoRequest {
    fd: u32,
    length: u32,
    info: u64,
}

/// The first fields of `struct bpf_map_info`, and of `struct bpf_prog_info`.
#[repr(C)]
#[derive(Clone, Copy, Default)]
struct MapInfo {
    kind: u32,
    id: u32,
    key_bytes: u32,
    value_bytes: u32,
    elements_max: u32,
    flags: u32,
}

/// The system call; answers what the kernel answers, which is not negative.
///
/// # Safety
/// `request` begins as `union bpf_attr` does for this command; addresses in it are those of live
/// buffers, of the sizes that it or the map says, and writable where the kernel answers.
unsafe fn bpf<T>(command: libc::c_int, request: &mut T) -> io::Result<libc::c_int> {
    // SAFETY: `request` is live and its exact size is given; the rest is the caller's promise.
    let answer = unsafe {
        libc::syscall(libc::SYS_bpf, command, std::ptr::from_mut(request), size_of::<T>())
    };
    if answer < 0 {
        return Err(io::Error::last_os_error());
    }
    libc::c_int::try_from(answer).map_err(io::Error::other)
}

fn map_info(fd: BorrowedFd<'_>) -> io::Result<MapInfo> {
    let mut info = MapInfo::default();
    let mut request = InfoRequest {
        fd: number(fd),
        length: size_of::<MapInfo>() as u32,
        info: address_mut(&mut info),
    };
    // SAFETY: `info` is live and of the length that is given; it holds numbers.
    unsafe { bpf(BPF_OBJ_GET_INFO_BY_FD, &mut request)? };
    Ok(info)
}

fn number(fd: BorrowedFd<'_>) -> u32 {
    // An open descriptor is never negative.
    fd.as_raw_fd().unsigned_abs()
}

fn address<T>(value: &T) -> u64 {
    std::ptr::from_ref(value) as u64
}

fn address_mut<T>(value: &mut T) -> u64 {
    std::ptr::from_mut(value) as u64
}

fn other_layout() -> io::Error {
    io::Error::new(io::ErrorKind::InvalidData, "the map has another layout than this program")
}

/// A hash table.
#[derive(Debug)]
pub(crate) struct HashMap<K, V> {
    fd: OwnedFd,
    elements_max: u32,
    types: std::marker::PhantomData<(K, V)>,
}

impl<K: Plain, V: Plain> HashMap<K, V> {
    /// Takes the descriptor of a map with keys and values of these sizes.
    pub(crate) fn open(fd: OwnedFd) -> io::Result<Self> {
        let info = map_info(fd.as_fd())?;
        if info.key_bytes as usize != size_of::<K>() || info.value_bytes as usize != size_of::<V>()
        {
            return Err(other_layout());
        }
        Ok(Self { fd, elements_max: info.elements_max, types: std::marker::PhantomData })
    }

    pub(crate) fn elements_max(&self) -> u32 {
        self.elements_max
    }

    fn request(&self, key: &K, value: u64) -> ElementRequest {
        let (map, key) = (number(self.fd.as_fd()), address(key));
        ElementRequest { map, pad: 0, key, value, flags: 0 }
    }

    /// The value of a key.
    pub(crate) fn get(&self, key: &K) -> io::Result<Option<V>> {
        let mut value = V::default();
        let mut request = self.request(key, address_mut(&mut value));
        // SAFETY: key and value are live, of the sizes of the map (`open`), and plain.
        let outcome = unsafe { bpf(BPF_MAP_LOOKUP_ELEM, &mut request) };
        absent_is_none(outcome).map(|found| found.map(|()| value))
    }

    /// Sets the value of a key.
    pub(crate) fn set(&self, key: &K, value: &V) -> io::Result<()> {
        // SAFETY: key and value are live and of the sizes of the map (`open`); both are only read.
        unsafe { bpf(BPF_MAP_UPDATE_ELEM, &mut self.request(key, address(value))) }.map(drop)
    }

    /// Takes a key out; false if it is not there.
    pub(crate) fn remove(&self, key: &K) -> io::Result<bool> {
        // SAFETY: the key is live and of the size of the map (`open`); it is only read.
        let outcome = unsafe { bpf(BPF_MAP_DELETE_ELEM, &mut self.request(key, 0)) };
        absent_is_none(outcome).map(|found| found.is_some())
    }

    /// Calls `visit` for every element there is; one that comes or goes meanwhile may be left out.
    pub(crate) fn walk(&self, mut visit: impl FnMut(&K, &V)) -> io::Result<()> {
        let mut keys = vec![K::default(); BATCH_ELEMENTS];
        let mut values = vec![V::default(); BATCH_ELEMENTS];
        let (mut next, mut place) = (0_u64, 0_u64);
        let mut is_first = true;
        loop {
            let mut request = BatchRequest {
                in_batch: if is_first { 0 } else { address(&place) },
                out_batch: address_mut(&mut next),
                keys: keys.as_mut_ptr() as u64,
                values: values.as_mut_ptr() as u64,
                count: BATCH_ELEMENTS as u32,
                map: number(self.fd.as_fd()),
                element_flags: 0,
                flags: 0,
            };
            // SAFETY: both rows hold as many elements as are asked for, of the sizes of the map
            // (`open`) and plain; the two places are longer than the four bytes that a hash uses.
            let outcome = absent_is_none(unsafe { bpf(BPF_MAP_LOOKUP_BATCH, &mut request) })?;
            let count = request.count as usize;
            keys.iter().zip(&values).take(count).for_each(|(key, value)| visit(key, value));
            if outcome.is_none() {
                return Ok(());
            }
            (place, is_first) = (next, false);
        }
    }
}

fn absent_is_none(outcome: io::Result<libc::c_int>) -> io::Result<Option<()>> {
    match outcome {
        Ok(_) => Ok(Some(())),
        Err(error) if error.raw_os_error() == Some(libc::ENOENT) => Ok(None),
        Err(error) => Err(error),
    }
}

/// An array as memory shared with the kernel: rows of `ROW` words.
#[derive(Debug)]
pub(crate) struct SharedArray<const ROW: usize> {
    start: NonNull<AtomicU64>,
    rows: usize,
    bytes: usize,
}

// SAFETY: the memory is shared with the kernel anyway and reached by atomic operations alone.
unsafe impl<const ROW: usize> Send for SharedArray<ROW> {}
// SAFETY: as above.
unsafe impl<const ROW: usize> Sync for SharedArray<ROW> {}

impl<const ROW: usize> SharedArray<ROW> {
    /// Maps the array behind the descriptor, which is not needed any more then.
    pub(crate) fn map(fd: BorrowedFd<'_>) -> io::Result<Self> {
        let info = map_info(fd)?;
        if info.value_bytes as usize != ROW * size_of::<u64>() {
            return Err(other_layout());
        }
        let rows = info.elements_max as usize;
        let bytes = (rows * ROW * size_of::<u64>()).next_multiple_of(rustix::param::page_size());
        let protection = ProtFlags::READ | ProtFlags::WRITE;
        // SAFETY: a new mapping at an address of the kernel's choice touches no memory of ours.
        let start = unsafe {
            mmap(std::ptr::null_mut(), bytes, protection, MapFlags::SHARED, fd, 0)
                .map_err(io::Error::from)?
        };
        let start = NonNull::new(start.cast()).ok_or_else(other_layout)?;
        Ok(Self { start, rows, bytes })
    }

    /// Rows there are.
    pub(crate) fn rows(&self) -> usize {
        self.rows
    }

    /// A row.
    pub(crate) fn row(&self, index: usize) -> Option<&[AtomicU64; ROW]> {
        if index >= self.rows {
            return None;
        }
        // SAFETY: the row lies inside the mapping, which is aligned to a page and lives as long as
        // `self`; the kernel writes it by whole words, and so do we.
        Some(unsafe { self.start.add(index * ROW).cast::<[AtomicU64; ROW]>().as_ref() })
    }
}

impl<const ROW: usize> Drop for SharedArray<ROW> {
    fn drop(&mut self) {
        // SAFETY: the mapping was made by `map` with this length, and no row outlives `self`.
        // A refusal leaves it mapped, which harms nobody.
        let _ = unsafe { munmap(self.start.as_ptr().cast::<c_void>(), self.bytes) };
    }
}
