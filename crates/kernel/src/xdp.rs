//! AF_XDP sockets, and the program of five instructions that sends an interface's frames to one.
//! Opened by the privileged side, used by one that needs no privilege. It refuses to share memory
//! or read frames; that is the data plane's (`io`).
#![allow(unsafe_code)]

use std::io;
use std::os::fd::{AsRawFd, FromRawFd, OwnedFd};

use rustix::net::{AddressFamily, SocketFlags, SocketType, netdevice, socket_with};
use rustix::process::{Resource, Rlimit, setrlimit};

use crate::namespace::{NetNamespace, run_in};
use crate::{KernelError, Result};

/// Queues that a map has room for.
const QUEUES_MAX: u32 = 64;

/// Commands and words of bpf(2) (Linux `bpf.h`).
const MAP_CREATE: libc::c_int = 0;
const PROGRAM_LOAD: libc::c_int = 5;
const LINK_CREATE: libc::c_int = 28;
const MAP_OF_XDP_SOCKETS: u32 = 17;
const PROGRAM_OF_XDP: u32 = 6;
const ATTACH_TO_XDP: u32 = 37;
const HELPER_REDIRECT_MAP: i32 = 51;
/// What becomes of a frame whose queue has no socket: the stack gets it (`XDP_PASS`).
const PASS: i32 = 2;
/// It ends there (`XDP_DROP`).
const DROP: i32 = 1;
/// By the stack's own place for such programs, whatever the driver has (`XDP_FLAGS_SKB_MODE`).
const BEFORE_DRIVERS_OWN: u32 = 1 << 1;
/// Where `struct xdp_md` has the queue, in bytes.
const QUEUE_AT: i16 = 16;
/// The second word of an instruction that names a map by its descriptor.
const MAP_DESCRIPTOR: u8 = 1;

/// An instruction (`struct bpf_insn`).
#[derive(Clone, Copy)]
#[repr(C)]
struct Instruction {
    code: u8,
    registers: u8,
    offset: i16,
    value: i32,
}

/// What bpf(2) takes, as long as any command's.
#[derive(Clone, Copy)]
#[repr(C, align(8))]
struct Attributes([u32; 32]);

/// An AF_XDP socket, and the program that asks a map which socket gets a frame.
#[derive(Debug)]
pub struct XdpSocket {
    /// To be given its memory and bound.
    pub socket: OwnedFd,
    /// Which socket gets the frames of which queue; takes sockets that have their memory.
    pub map: OwnedFd,
    /// Index of the interface.
    pub interface: u32,
    /// The program's hold on the interface: frames go to the stack again when it is closed.
    pub link: OwnedFd,
}

/// Opens an AF_XDP socket inside `namespace` and attaches a program to the interface that sends each
/// frame to the socket of its queue, once the map has one, and to the stack until then.
///
/// # Errors
/// [`KernelError::NotFoundYet`] if the interface is missing; otherwise what the kernel refuses: it
/// has another XDP program, or `CAP_NET_ADMIN`, `CAP_NET_RAW` or `CAP_BPF` is missing.
pub fn open_xdp_socket(namespace: &NetNamespace, interface: &str) -> Result<XdpSocket> {
    let object = format!("XDP socket on {interface} in network namespace {}", namespace.name());
    run_in(namespace, || open_here(interface))?.map_err(|e| match e.raw_os_error() {
        Some(libc::ENODEV) => KernelError::not_found_yet(format!(
            "interface {interface} in network namespace {}",
            namespace.name()
        )),
        _ => KernelError::system("open", object, e),
    })
}

/// Holds back all frames that come in by an interface; they do again when it is dropped.
#[derive(Debug)]
pub struct Silence(#[allow(dead_code, reason = "held, and closed")] OwnedFd);

/// Makes an interface of the calling thread's network namespace deaf before anybody listens at it, packet sockets
/// included, while its carrier stays.
///
/// # Errors
/// There is no such interface, it has another XDP program, or `CAP_NET_ADMIN` or `CAP_BPF` is missing.
pub fn silence_here(interface: &str) -> Result<Silence> {
    let one = |code, value| Instruction { code, registers: 0, offset: 0, value };
    let drop_all = [one(0xb7, DROP), one(0x95, 0)];
    let attach = || -> io::Result<OwnedFd> {
        let index = index_of(interface)?;
        let program = load(&drop_all)?;
        let word = program.as_raw_fd().cast_unsigned();
        made(LINK_CREATE, &[word, index, ATTACH_TO_XDP, BEFORE_DRIVERS_OWN])
    };
    attach().map(Silence).map_err(|e| KernelError::system("silence", interface.to_owned(), e))
}

/// Lets this process, and those that it starts, lock as much memory as they like: that is how frames
/// are shared with the kernel.
///
/// # Errors
/// `CAP_SYS_RESOURCE` is missing.
pub fn allow_locked_memory() -> Result<()> {
    let freely = Rlimit { current: None, maximum: None };
    setrlimit(Resource::Memlock, freely).map_err(|errno| {
        KernelError::system("raise", "the limit of locked memory", io::Error::from(errno))
    })
}

fn open_here(interface: &str) -> io::Result<XdpSocket> {
    let socket = socket_with(AddressFamily::XDP, SocketType::RAW, SocketFlags::CLOEXEC, None)?;
    let index = index_of(interface)?;
    let word = |fd: &OwnedFd| fd.as_raw_fd().cast_unsigned();
    // Type, bytes of a key, bytes of a value, entries.
    let map = made(MAP_CREATE, &[MAP_OF_XDP_SOCKETS, 4, 4, QUEUES_MAX])?;
    let program = load(&program(map.as_raw_fd()))?;
    let link = made(LINK_CREATE, &[word(&program), index, ATTACH_TO_XDP, 0])?;
    Ok(XdpSocket { socket, map, interface: index, link })
}

/// An AF_XDP socket answers no questions about interfaces.
fn index_of(interface: &str) -> io::Result<u32> {
    let flags = SocketFlags::CLOEXEC;
    let asking = socket_with(AddressFamily::UNIX, SocketType::DGRAM, flags, None)?;
    Ok(netdevice::name_to_index(&asking, interface)?)
}

fn load(instructions: &[Instruction]) -> io::Result<OwnedFd> {
    let count = u32::try_from(instructions.len()).unwrap_or_default();
    let [code_low, code_high] = address(instructions.as_ptr());
    let licence = c"GPL";
    let [licence_low, licence_high] = address(licence.as_ptr());
    made(PROGRAM_LOAD, &[PROGRAM_OF_XDP, count, code_low, code_high, licence_low, licence_high])
}

/// Gives each frame to the socket of its queue, and to the stack when there is none.
fn program(map: i32) -> [Instruction; 6] {
    let one = |code, registers, offset, value| Instruction { code, registers, offset, value };
    let (context, queue, pass) = (1_u8, 2_u8, 3_u8);
    [
        one(0x61, queue | context << 4, QUEUE_AT, 0),
        one(0x18, context | MAP_DESCRIPTOR << 4, 0, map),
        one(0, 0, 0, 0),
        one(0xb7, pass, 0, PASS),
        one(0x85, 0, 0, HELPER_REDIRECT_MAP),
        one(0x95, 0, 0, 0),
    ]
}

/// The two words of a pointer as the kernel reads it.
fn address<T>(pointer: *const T) -> [u32; 2] {
    let bytes = (pointer as u64).to_ne_bytes();
    let [a, b, c, d, e, f, g, h] = bytes;
    [u32::from_ne_bytes([a, b, c, d]), u32::from_ne_bytes([e, f, g, h])]
}

/// A command that makes something; its descriptor closes on exec, as all of bpf(2) do.
fn made(command: libc::c_int, words: &[u32]) -> io::Result<OwnedFd> {
    let fd = call(command, words)?;
    let fd = i32::try_from(fd).map_err(io::Error::other)?;
    // SAFETY: the kernel has just made this descriptor for us alone.
    Ok(unsafe { OwnedFd::from_raw_fd(fd) })
}

fn call(command: libc::c_int, words: &[u32]) -> io::Result<libc::c_long> {
    let mut attributes = Attributes([0; 32]);
    for (place, word) in attributes.0.iter_mut().zip(words) {
        *place = *word;
    }
    // SAFETY: the pointer and the length describe `attributes`, which the kernel reads. Pointers in
    // it are to values of the caller, which live until it returns, are as long as the command wants
    // and are only read.
    let answer = unsafe {
        let size = size_of::<Attributes>();
        libc::syscall(libc::SYS_bpf, command, &raw mut attributes, size)
    };
    if answer >= 0 { Ok(answer) } else { Err(io::Error::last_os_error()) }
}
