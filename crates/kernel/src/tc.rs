//! The filter that keeps the host's stack from seeing what a packet socket took.
//!
//! Packet sockets see a frame before the ingress hook of traffic control does. A classic BPF
//! program there that says «shot» for every frame thus leaves the tap its copy, and the stack
//! nothing: it can neither forward nor answer. No address, `arp off` and no route are not enough.
//! In its place a program of the fast path may steer what it knows and swallow the rest itself.
//! It refuses to touch any filter but its own.

use std::os::fd::{AsRawFd, BorrowedFd};

use rtnetlink::packet_core::{
    DefaultNla, NLM_F_CREATE, NLM_F_EXCL, NLM_F_REPLACE, Nla, NlasIterator,
};
use rtnetlink::packet_route::RouteNetlinkMessage;
use rtnetlink::packet_route::tc::{TcAttribute, TcHandle, TcHeader, TcMessage, TcOption};

use crate::netlink::Netlink;
use crate::{KernelError, Result};

// linux/pkt_cls.h, attributes of a `bpf` filter.
const TCA_BPF_OPS_LEN: u16 = 4;
const TCA_BPF_OPS: u16 = 5;
const TCA_BPF_FD: u16 = 6;
const TCA_BPF_NAME: u16 = 7;
const TCA_BPF_FLAGS: u16 = 8;
/// The program's result is the verdict itself.
const TCA_BPF_FLAG_ACT_DIRECT: u32 = 1;
const TC_ACT_SHOT: u32 = 2;

/// `BPF_RET | BPF_K`: return the constant.
const BPF_RETURN_CONSTANT: u16 = 0x06;

const FILTER_KIND: &str = "bpf";
const FILTER_NAME: &[u8] = b"catena-swallow\0";
const STEERING_NAME: &[u8] = b"catena-fastpath\0";
/// First of all filters of the hook: nothing another filter says can let a frame through.
const FILTER_PRIORITY: u16 = 1;
const FILTER_HANDLE: TcHandle = TcHandle { major: 0, minor: 1 };
const INGRESS_HOOK: TcHandle = TcHandle { major: u16::MAX, minor: TcHandle::MIN_INGRESS };

/// A filter of ours at the first place of an interface's ingress hook.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Own {
    /// It swallows every frame.
    Swallows,
    /// It is a program of the fast path.
    Steers,
}

/// Lets no frame that arrives on this interface reach the stack, in place of any program of
/// [`steer_ingress`]. Done twice it is done once.
///
/// # Errors
/// The interface is missing, the kernel lacks the `clsact` hook or the `bpf` filter, or
/// `CAP_NET_ADMIN` is missing.
pub async fn swallow_ingress(netlink: &Netlink, ifindex: u32) -> Result<()> {
    const OPERATION: &str = "swallow the ingress of";
    match take_place(netlink, ifindex, OPERATION, filter_options()).await? {
        Own::Swallows => Ok(()),
        Own::Steers => replace_filter(netlink, ifindex, OPERATION, filter_options()).await,
    }
}

/// Gives every frame that arrives on this interface to a tc program, in one step in place of the
/// filter of [`swallow_ingress`] or of an earlier program: no frame meets neither.
///
/// # Errors
/// As [`swallow_ingress`]; the descriptor may also be no program for traffic control.
pub async fn steer_ingress(netlink: &Netlink, ifindex: u32, program: BorrowedFd<'_>) -> Result<()> {
    const OPERATION: &str = "steer the ingress of";
    take_place(netlink, ifindex, OPERATION, steering_options(program)).await?;
    replace_filter(netlink, ifindex, OPERATION, steering_options(program)).await
}

/// Takes a program of [`steer_ingress`] away, whoever put it there: the stack sees the interface's
/// frames. Where none stands nothing is done.
///
/// # Errors
/// The interface is missing or the request is refused.
pub async fn release_steering(netlink: &Netlink, ifindex: u32) -> Result<()> {
    match standing(netlink, ifindex).await? {
        Some(Own::Steers) => release_ingress(netlink, ifindex).await,
        Some(Own::Swallows) | None => Ok(()),
    }
}

/// Puts a filter of ours where none stands, and answers which of ours stands then.
async fn take_place(
    netlink: &Netlink,
    ifindex: u32,
    operation: &'static str,
    options: Vec<TcOption>,
) -> Result<Own> {
    add_hook(netlink, ifindex, operation).await?;
    let object = object(netlink, ifindex);
    let filter = new_filter(ifindex, options)?;
    let flags = NLM_F_CREATE | NLM_F_EXCL;
    already_is_fine(netlink.change(operation, &object, filter, flags).await)?;
    standing(netlink, ifindex).await?.ok_or_else(|| {
        let reason = "a filter of another owner holds the first ingress place";
        KernelError::invalid(object, reason)
    })
}

async fn replace_filter(
    netlink: &Netlink,
    ifindex: u32,
    operation: &'static str,
    options: Vec<TcOption>,
) -> Result<()> {
    let filter = new_filter(ifindex, options)?;
    let flags = NLM_F_CREATE | NLM_F_REPLACE;
    netlink.change(operation, &object(netlink, ifindex), filter, flags).await
}

/// Answers whether there was none.
async fn add_hook(netlink: &Netlink, ifindex: u32, operation: &'static str) -> Result<bool> {
    let hook = RouteNetlinkMessage::NewQueueDiscipline(hook(ifindex)?);
    let object = object(netlink, ifindex);
    match netlink.change(operation, &object, hook, NLM_F_CREATE | NLM_F_EXCL).await {
        Err(error) if error.is_already_there() => Ok(false),
        made => made.map(|()| true),
    }
}

fn hook(ifindex: u32) -> Result<TcMessage> {
    let header = TcHeader {
        handle: TcHandle { major: u16::MAX, minor: 0 },
        parent: TcHandle::CLSACT,
        ..header(ifindex)?
    };
    Ok(TcMessage::from_parts(header, vec![TcAttribute::Kind("clsact".to_owned())]))
}

fn new_filter(ifindex: u32, options: Vec<TcOption>) -> Result<RouteNetlinkMessage> {
    let filter = TcMessage::from_parts(
        TcHeader {
            handle: FILTER_HANDLE,
            parent: INGRESS_HOOK,
            info: priority_and_protocol(),
            ..header(ifindex)?
        },
        vec![TcAttribute::Kind(FILTER_KIND.to_owned()), TcAttribute::Options(options)],
    );
    Ok(RouteNetlinkMessage::NewTrafficFilter(filter))
}

/// Whether the filter of [`swallow_ingress`] is in place.
///
/// # Errors
/// The interface is missing or the request is refused.
pub async fn is_swallowing(netlink: &Netlink, ifindex: u32) -> Result<bool> {
    Ok(standing(netlink, ifindex).await? == Some(Own::Swallows))
}

/// The filter of ours that is in place; none: there is none, or that of another owner.
async fn standing(netlink: &Netlink, ifindex: u32) -> Result<Option<Own>> {
    let question =
        TcMessage::from_parts(TcHeader { parent: INGRESS_HOOK, ..header(ifindex)? }, Vec::new());
    let question = RouteNetlinkMessage::GetTrafficFilter(question);
    let object = object(netlink, ifindex);
    let answers = netlink.list("list the ingress filters of", &object, question).await?;
    Ok(answers.iter().find_map(|answer| match answer {
        RouteNetlinkMessage::NewTrafficFilter(filter) => own(filter),
        _ => None,
    }))
}

/// Makes the hook that [`swallow_ingress`] needs; answers whether the interface had none.
///
/// # Errors
/// The interface is missing, or the kernel lacks the `clsact` hook.
pub async fn make_hook(netlink: &Netlink, ifindex: u32) -> Result<bool> {
    add_hook(netlink, ifindex, "make the hook of").await
}

/// Takes the hook away again, and all filters with it.
///
/// # Errors
/// The interface or its hook is missing, or the request is refused.
pub async fn remove_hook(netlink: &Netlink, ifindex: u32) -> Result<()> {
    let hook = RouteNetlinkMessage::DelQueueDiscipline(hook(ifindex)?);
    netlink.change("remove the hook of", &object(netlink, ifindex), hook, 0).await
}

/// Takes the filter away again: the stack sees the interface's frames. The empty hook stays.
///
/// # Errors
/// The interface is missing, or nothing is swallowed there.
pub async fn release_ingress(netlink: &Netlink, ifindex: u32) -> Result<()> {
    let filter = TcMessage::from_parts(
        TcHeader {
            handle: FILTER_HANDLE,
            parent: INGRESS_HOOK,
            info: priority_and_protocol(),
            ..header(ifindex)?
        },
        vec![TcAttribute::Kind(FILTER_KIND.to_owned())],
    );
    let filter = RouteNetlinkMessage::DelTrafficFilter(filter);
    netlink.change("release the ingress of", &object(netlink, ifindex), filter, 0).await
}

fn header(ifindex: u32) -> Result<TcHeader> {
    let index = i32::try_from(ifindex)
        .map_err(|_| KernelError::invalid(format!("link index {ifindex}"), "out of range"))?;
    Ok(TcHeader { index, ..TcHeader::default() })
}

fn object(netlink: &Netlink, ifindex: u32) -> String {
    format!("link {ifindex} in network namespace {}", netlink.namespace().name())
}

fn already_is_fine(result: Result<()>) -> Result<()> {
    match result {
        Err(error) if error.is_already_there() => Ok(()),
        other => other,
    }
}

/// `tcm_info`: priority in the upper half, EtherType (all, in network order) in the lower.
fn priority_and_protocol() -> u32 {
    let every_protocol = (libc::ETH_P_ALL as u16).to_be();
    u32::from(FILTER_PRIORITY) << 16 | u32::from(every_protocol)
}

/// One `struct sock_filter` in the machine's byte order: code, two unused jumps, constant.
fn program() -> Vec<u8> {
    let mut instruction = Vec::with_capacity(8);
    instruction.extend(BPF_RETURN_CONSTANT.to_ne_bytes());
    instruction.extend([0, 0]);
    instruction.extend(TC_ACT_SHOT.to_ne_bytes());
    instruction
}

fn filter_options() -> Vec<TcOption> {
    let instructions: u16 = 1;
    vec![
        TcOption::Other(DefaultNla::new(TCA_BPF_OPS_LEN, instructions.to_ne_bytes().to_vec())),
        TcOption::Other(DefaultNla::new(TCA_BPF_OPS, program())),
        TcOption::Other(DefaultNla::new(TCA_BPF_NAME, FILTER_NAME.to_vec())),
        TcOption::Other(DefaultNla::new(
            TCA_BPF_FLAGS,
            TCA_BPF_FLAG_ACT_DIRECT.to_ne_bytes().to_vec(),
        )),
    ]
}

fn steering_options(program: BorrowedFd<'_>) -> Vec<TcOption> {
    let option = |kind, value| TcOption::Other(DefaultNla::new(kind, value));
    vec![
        option(TCA_BPF_FD, program.as_raw_fd().to_ne_bytes().to_vec()),
        option(TCA_BPF_NAME, STEERING_NAME.to_vec()),
        option(TCA_BPF_FLAGS, TCA_BPF_FLAG_ACT_DIRECT.to_ne_bytes().to_vec()),
    ]
}

/// Which of ours a filter is; none: it is another's.
fn own(filter: &TcMessage) -> Option<Own> {
    if filter.header.handle != FILTER_HANDLE || filter.header.info != priority_and_protocol() {
        return None;
    }
    let (mut swallows, mut steers, mut is_verdict) = (false, false, false);
    for attribute in &filter.attributes {
        let TcAttribute::Options(options) = attribute else { continue };
        for option in options {
            // Of a kind the library does not know it gives the attribute unopened.
            let mut nested = vec![0; option.value_len()];
            option.emit_value(&mut nested);
            for part in NlasIterator::new(nested.as_slice()).flatten() {
                match part.kind() {
                    TCA_BPF_OPS => swallows = part.value() == program(),
                    TCA_BPF_NAME => steers = part.value() == STEERING_NAME,
                    TCA_BPF_FLAGS => {
                        is_verdict = part.value() == TCA_BPF_FLAG_ACT_DIRECT.to_ne_bytes();
                    }
                    _ => {}
                }
            }
        }
    }
    match (swallows, steers) {
        (true, _) if is_verdict => Some(Own::Swallows),
        (false, true) if is_verdict => Some(Own::Steers),
        _ => None,
    }
}
