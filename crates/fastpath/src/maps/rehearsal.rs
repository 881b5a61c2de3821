//! A program run on a frame without sending anything. Knows `BPF_PROG_TEST_RUN`; refuses to know what
//! the program means.

use super::{address, address_mut, bpf, number};
use std::io;
use std::os::fd::BorrowedFd;

const BPF_PROG_TEST_RUN: libc::c_int = 10;

/// `union bpf_attr` for a rehearsal.
#[repr(C)]
#[derive(Default)]
struct RunRequest {
    program: u32,
    verdict: u32,
    data_in_bytes: u32,
    data_out_bytes: u32,
    data_in: u64,
    data_out: u64,
    repeat: u32,
    duration_ns: u32,
    context_in_bytes: u32,
    context_out_bytes: u32,
    context_in: u64,
    context_out: u64,
    flags: u32,
    cpu: u32,
    batch: u32,
    pad: u32,
}

/// Words of `struct __sk_buff`, and where the fields that a rehearsal sets or reads are.
const CONTEXT_WORDS: usize = 48;
const CONTEXT_INTERFACE: usize = 10;
const CONTEXT_NOTES: usize = 12;
const CONTEXT_SEGMENT_BYTES: usize = 44;

/// What a program did with a frame in a rehearsal.
pub(crate) struct Run {
    pub(crate) verdict: u32,
    pub(crate) bytes: Vec<u8>,
    /// The first two words of the packet's control block.
    pub(crate) notes: [u32; 2],
    /// Of one run, in the middle of all.
    pub(crate) nanoseconds: u32,
}

/// Runs a program on a frame without sending anything (`BPF_PROG_TEST_RUN`). Needs `CAP_NET_ADMIN`
/// only to make the program, not to run it.
pub(crate) fn run(
    program: BorrowedFd<'_>,
    frame: &[u8],
    ifindex: u32,
    segment_bytes: u16,
    repeat: u32,
) -> io::Result<Run> {
    /// Room for what a program puts in front, each time.
    const ROOM_BYTES: usize = 4_096;
    let mut bytes = vec![0_u8; frame.len() + ROOM_BYTES];
    let (mut before, mut after) = ([0_u32; CONTEXT_WORDS], [0_u32; CONTEXT_WORDS]);
    before[CONTEXT_INTERFACE] = ifindex;
    before[CONTEXT_SEGMENT_BYTES] = u32::from(segment_bytes);
    let mut request = RunRequest {
        program: number(program),
        data_in_bytes: frame.len() as u32,
        data_out_bytes: bytes.len() as u32,
        data_in: frame.as_ptr() as u64,
        data_out: bytes.as_mut_ptr() as u64,
        repeat,
        context_in_bytes: size_of_val(&before) as u32,
        context_out_bytes: size_of_val(&after) as u32,
        context_in: address(&before),
        context_out: address_mut(&mut after),
        ..RunRequest::default()
    };
    // SAFETY: frame, bytes and both contexts are live and of the lengths that are given; what the
    // kernel writes into are bytes and words.
    unsafe { bpf(BPF_PROG_TEST_RUN, &mut request)? };
    bytes.truncate(request.data_out_bytes as usize);
    Ok(Run {
        verdict: request.verdict,
        bytes,
        notes: [after[CONTEXT_NOTES], after[CONTEXT_NOTES + 1]],
        nanoseconds: request.duration_ns,
    })
}
