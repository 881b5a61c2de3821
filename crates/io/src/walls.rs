//! Walls that a thread puts around itself: which files and ports it reaches (Landlock), and which system calls it may
//! make (seccomp). Refuses to know who needs what.
//!
//! A call that is not listed ends the whole process at once (SIGSYS): a part of it does what nobody
//! wrote, and packets must not be left with it.

use crate::IoError;
pub use landlock::RulesetStatus;
use landlock::{
    ABI, Access, AccessFs, AccessNet, BitFlags, CompatLevel, Compatible, PathBeneath, PathFd,
    Ruleset, RulesetAttr, RulesetCreatedAttr, RulesetError, Scope,
};
use libc::c_long;
use seccompiler::{
    BpfProgram, SeccompAction, SeccompCmpArgLen, SeccompCmpOp, SeccompCondition, SeccompFilter,
    SeccompRule, TargetArch, apply_filter,
};
use std::collections::BTreeMap;
use std::path::Path;

/// What Landlock can do that this code has been written for.
const LANDLOCK: ABI = ABI::V6;

/// System calls with what their arguments must be; without anything, they may be whatever they are.
pub type CallRules = BTreeMap<i64, Vec<SeccompRule>>;

/// Leaves the calling thread, and those that it starts, these paths, each for what is said beside it: no
/// other file, no TCP port, and neither a signal to nor an abstract socket of a process outside.
///
/// # Errors
/// The kernel refuses. What it cannot hold back is answered.
pub fn wall_in(reached: &[(&Path, BitFlags<AccessFs>)]) -> Result<RulesetStatus, IoError> {
    restrict(reached).map_err(|error| refused("walling files off", error))
}

fn restrict(reached: &[(&Path, BitFlags<AccessFs>)]) -> Result<RulesetStatus, RulesetError> {
    let mut rules = Ruleset::default()
        .set_compatibility(CompatLevel::BestEffort)
        .handle_access(AccessFs::from_all(LANDLOCK))?
        .handle_access(AccessNet::from_all(LANDLOCK))?
        .scope(Scope::from_all(LANDLOCK))?
        .create()?;
    for (path, access) in reached {
        let Ok(folder) = PathFd::new(path) else { continue };
        rules = rules.add_rule(PathBeneath::new(folder, *access))?;
    }
    Ok(rules.restrict_self()?.ruleset)
}

/// Leaves the calling thread these calls, for good; `denied` fail, as if there were no memory.
///
/// # Errors
/// The kernel takes no filters.
pub fn leave_calls(mut calls: CallRules, denied: &[c_long]) -> Result<(), IoError> {
    ask_what_is_asked_once();
    if !denied.is_empty() {
        let fails = denied.iter().map(|call| (*call, Vec::new())).collect();
        let denial = SeccompAction::Errno(libc::ENOMEM.unsigned_abs());
        let denial = program(fails, SeccompAction::Allow, denial)?;
        calls.extend(denied.iter().map(|call| (*call, Vec::new())));
        let list = program(calls, SeccompAction::KillProcess, SeccompAction::Allow)?;
        apply(&denial)?;
        return apply(&list);
    }
    apply(&program(calls, SeccompAction::KillProcess, SeccompAction::Allow)?)
}

/// What libraries ask the kernel when they first need it, and remember: the seed of a thread's maps,
/// the size of a page, where the clock is.
fn ask_what_is_asked_once() {
    drop(std::collections::hash_map::RandomState::new());
    let _ = rustix::param::page_size();
    let _ = rustix::time::clock_gettime(rustix::time::ClockId::Monotonic);
}

/// These calls, whatever their arguments; memory is never made executable.
#[must_use]
pub fn listed(calls: &[&[c_long]]) -> CallRules {
    let mut rules: CallRules = calls.concat().into_iter().map(|call| (call, Vec::new())).collect();
    let executable = u64::from(libc::PROT_EXEC.unsigned_abs());
    let is_not = SeccompCmpOp::MaskedEq(executable);
    if let Ok(rule) = rule(2, is_not, 0) {
        rules.insert(libc::SYS_mmap, vec![rule]);
    }
    rules
}

/// An argument has one of these values.
///
/// # Errors
/// There is no such argument.
pub fn one_of(argument: u8, values: &[u64]) -> Result<Vec<SeccompRule>, IoError> {
    values.iter().map(|value| rule(argument, SeccompCmpOp::Eq, *value)).collect()
}

fn rule(argument: u8, operator: SeccompCmpOp, value: u64) -> Result<SeccompRule, IoError> {
    SeccompCondition::new(argument, SeccompCmpArgLen::Dword, operator, value)
        .and_then(|condition| SeccompRule::new(vec![condition]))
        .map_err(|error| refused("making a list of system calls", error))
}

fn program(
    rules: CallRules,
    otherwise: SeccompAction,
    listed: SeccompAction,
) -> Result<BpfProgram, IoError> {
    TargetArch::try_from(std::env::consts::ARCH)
        .and_then(|machine| SeccompFilter::new(rules, otherwise, listed, machine))
        .and_then(BpfProgram::try_from)
        .map_err(|error| refused("making a list of system calls", error))
}

fn apply(program: &BpfProgram) -> Result<(), IoError> {
    apply_filter(program).map_err(|error| refused("setting a list of system calls", error))
}

fn refused(
    operation: &'static str,
    error: impl std::error::Error + Send + Sync + 'static,
) -> IoError {
    IoError::System { operation, source: std::io::Error::other(error) }
}
