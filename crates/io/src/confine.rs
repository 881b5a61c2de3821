//! Giving up rights for good. Knows Linux capabilities (capabilities(7)); refuses to know who
//! should keep which.

use rustix::io::Errno;
use rustix::thread::{
    CapabilitySet, CapabilitySets, capabilities, capability_is_in_bounding_set,
    clear_ambient_capability_set, remove_capability_from_bounding_set, set_capabilities,
    set_no_new_privs,
};

use crate::error::IoError;

/// Drops all capabilities of the calling thread from every set, and the way to ever get one by
/// executing a file. Threads started later inherit this; those that exist do not: call it while
/// there is only one. Descriptors that are open keep working.
///
/// # Errors
/// The kernel's refusal; rights may then be dropped in part.
pub fn drop_privileges() -> Result<(), IoError> {
    let held = capabilities(None).map_err(IoError::system("reading the capabilities"))?;
    clear_ambient_capability_set().map_err(IoError::system("clearing the ambient capabilities"))?;
    // Without CAP_SETPCAP the bounding set stays, but then, too, nothing can be gained from it.
    if held.effective.contains(CapabilitySet::SETPCAP) {
        for number in 0..u64::BITS {
            let capability = CapabilitySet::from_bits_retain(1 << number);
            match capability_is_in_bounding_set(capability) {
                Ok(true) => remove_capability_from_bounding_set(capability)
                    .map_err(IoError::system("bounding the capabilities"))?,
                Ok(false) => {}
                // The kernel knows no capability of this number or above.
                Err(Errno::INVAL) => break,
                Err(errno) => return Err(IoError::system("reading the bounding set")(errno)),
            }
        }
    }
    let none = CapabilitySets {
        effective: CapabilitySet::empty(),
        permitted: CapabilitySet::empty(),
        inheritable: CapabilitySet::empty(),
    };
    set_capabilities(None, none).map_err(IoError::system("dropping the capabilities"))?;
    set_no_new_privs(true).map_err(IoError::system("forbidding new privileges"))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_thread_that_dropped_its_privileges_has_none_and_gets_none() {
        std::thread::spawn(|| {
            drop_privileges().unwrap();
            drop_privileges().expect("to drop nothing is no error");
            let status = std::fs::read_to_string("/proc/thread-self/status").unwrap();
            let value = |name: &str| {
                let line = status.lines().find(|line| line.starts_with(name)).unwrap();
                line.split_whitespace().nth(1).unwrap().to_owned()
            };
            for set in ["CapInh:", "CapPrm:", "CapEff:", "CapAmb:"] {
                assert_eq!(value(set), "0000000000000000", "{set}");
            }
            assert_eq!(value("NoNewPrivs:"), "1");
        })
        .join()
        .unwrap();
    }
}
