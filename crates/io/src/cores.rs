//! Which core a thread runs on. Knows numbers; refuses to know whose a core is.

use rustix::thread::{CpuSet, sched_setaffinity};

use crate::error::IoError;

/// Keeps the calling thread on one core from now on.
///
/// # Errors
/// There is no such core, or this process must not use it.
pub fn stay_on_core(core: u32) -> Result<(), IoError> {
    let core = core as usize;
    IoError::check_range("a core's number", core, 0, CpuSet::MAX_CPU - 1)?;
    let mut cores = CpuSet::new();
    cores.set(core);
    sched_setaffinity(None, &cores).map_err(IoError::system("staying on a core"))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_thread_stays_on_its_core_and_a_core_that_is_not_there_is_refused() {
        let work = || {
            let first = rustix::thread::sched_getaffinity(None).unwrap();
            let core = (0..CpuSet::MAX_CPU).find(|core| first.is_set(*core)).unwrap();
            stay_on_core(core as u32).unwrap();
            assert_eq!(rustix::thread::sched_getcpu(), core);
            assert_eq!(rustix::thread::sched_getaffinity(None).unwrap().count(), 1);
            assert!(stay_on_core(CpuSet::MAX_CPU as u32).is_err());
            assert!(stay_on_core(CpuSet::MAX_CPU as u32 - 1).is_err());
        };
        // On a thread of its own: the one that runs tests stays where it may.
        std::thread::spawn(work).join().unwrap();
    }
}
