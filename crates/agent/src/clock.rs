//! By which clock packets are stamped here, so that the controller knows whose stamps may be compared. Knows where the
//! kernel says so; refuses to read the clock.

use catena_model::check::clock_identity;
use std::path::Path;

/// The clock of the data plane, which is a process of this machine; none: it cannot be known.
pub(crate) fn identity(root: &Path) -> Option<u64> {
    let boot = std::fs::read_to_string(root.join("proc/sys/kernel/random/boot_id")).ok()?;
    let namespace = std::fs::read_link(root.join("proc/self/ns/time")).ok();
    let namespace = namespace.map(|link| link.to_string_lossy().into_owned());
    clock_identity(&boot, namespace.as_deref())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn this_machine_has_a_clock_and_one_that_says_nothing_has_none() {
        assert!(identity(Path::new("/")).is_some());
        assert_eq!(identity(tempfile::tempdir().unwrap().path()), None);
    }
}
