//! The clock that all processes of a machine share, by what it is known again, and the time of day. Knows
//! the kernel; refuses to know what is timed.

use catena_model::check::clock_identity;
use rustix::time::{ClockId, clock_gettime};
use std::path::Path;
use std::time::{Duration, SystemTime, UNIX_EPOCH};

/// The kernel's monotonic clock, in nanoseconds.
pub(super) fn now_ns() -> u64 {
    let now = clock_gettime(ClockId::Monotonic);
    let seconds = u64::try_from(now.tv_sec).unwrap_or(0);
    seconds.saturating_mul(1_000_000_000).saturating_add(u64::try_from(now.tv_nsec).unwrap_or(0))
}

/// The real clock, in whole seconds since 1970.
pub(super) fn real_seconds() -> u64 {
    real().as_secs()
}

/// What the real clock has passed since it was such a second, in nanoseconds.
pub(super) fn since(seconds: u64) -> u64 {
    let passed = real().saturating_sub(Duration::from_secs(seconds));
    u64::try_from(passed.as_nanos()).unwrap_or(u64::MAX)
}

/// Whoever has a clock of before 1970 has times of then.
fn real() -> Duration {
    SystemTime::now().duration_since(UNIX_EPOCH).unwrap_or_default()
}

/// Tells that clock from others; none: it cannot be known.
pub(super) fn identity(proc: &Path) -> Option<u64> {
    let boot = std::fs::read_to_string(proc.join("sys/kernel/random/boot_id")).ok()?;
    let namespace = std::fs::read_link(proc.join("self/ns/time")).ok();
    let namespace = namespace.map(|link| link.to_string_lossy().into_owned());
    clock_identity(&boot, namespace.as_deref())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn this_machine_has_one_clock_and_another_start_has_another() {
        let own = identity(Path::new("/proc"));
        assert!(own.is_some() && own == identity(Path::new("/proc")));
        let folder = tempfile::tempdir().unwrap();
        assert_eq!(identity(folder.path()), None);
        let random = folder.path().join("sys/kernel/random");
        std::fs::create_dir_all(&random).unwrap();
        let mut found = Vec::new();
        for boot in ["3f2a4b6c-0000-4000-8000-000000000001", "3f2a4b6c-0000-4000-8000-000000000002"]
        {
            std::fs::write(random.join("boot_id"), format!("{boot}\n")).unwrap();
            found.push(identity(folder.path()).unwrap());
        }
        assert_ne!(found[0], found[1]);
        std::fs::write(random.join("boot_id"), "no number\n").unwrap();
        assert_eq!(identity(folder.path()), None);
    }
}
