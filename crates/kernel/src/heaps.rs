//! The heaps that the C library keeps for the threads of this process.
#![allow(unsafe_code)]

/// Lets all threads share so many heaps (`M_ARENA_MAX` of mallopt(3)). Else the GNU C library makes one for
/// each thread, up to eight for each processor, and what was given back to one serves no thread of another.
/// To be called while there are few threads: it asks for the limit once. A C library that knows no such
/// limit is left as it is; 0 is none.
pub fn share(heaps: u8) {
    // SAFETY: it takes two numbers and changes nothing but where threads that come are given memory.
    #[cfg(target_env = "gnu")]
    unsafe {
        libc::mallopt(libc::M_ARENA_MAX, heaps.into());
    }
    #[cfg(not(target_env = "gnu"))]
    let _ = heaps;
}

#[cfg(test)]
#[cfg(target_env = "gnu")]
mod tests {
    use super::*;
    use std::process::Command;
    use std::sync::Barrier;
    use std::thread;

    /// The C library begins each heap but the first at a multiple of this.
    const HEAP_BYTES: u64 = 64 * 1024 * 1024;

    fn heaps() -> usize {
        let maps = std::fs::read_to_string("/proc/self/maps").unwrap();
        let is_heap = |line: &&str| {
            let (start, rest) = line.split_once('-').unwrap();
            let start = u64::from_str_radix(start, 16).unwrap();
            start.is_multiple_of(HEAP_BYTES) && rest.contains(" rw-p 00000000 00:00 0")
        };
        maps.lines().filter(is_heap).count()
    }

    fn heaps_with_threads(threads: usize) -> usize {
        let all_are_there = Barrier::new(threads + 1);
        thread::scope(|scope| {
            for _ in 0..threads {
                scope.spawn(|| {
                    let kept: Vec<Box<u64>> = (0..1_000).map(Box::new).collect();
                    all_are_there.wait();
                    all_are_there.wait();
                    drop(kept);
                });
            }
            all_are_there.wait();
            let heaps = heaps();
            all_are_there.wait();
            heaps
        })
    }

    /// In a process of its own: the C library makes up its mind once, and other tests have threads, too.
    #[test]
    fn threads_share_as_many_heaps_as_are_said() {
        const ALONE: &str = "CATENA_TEST_HEAPS_ALONE";
        const NAME: &str = "heaps::tests::threads_share_as_many_heaps_as_are_said";
        let Ok(limit) = std::env::var(ALONE) else {
            for limit in ["0", "2"] {
                let mut alone = Command::new(std::env::current_exe().unwrap());
                let ended = alone.args(["--exact", NAME]).env(ALONE, limit).output().unwrap();
                assert!(ended.status.success(), "limit {limit}: {ended:?}");
            }
            return;
        };
        let limit = limit.parse().unwrap();
        share(limit);
        let heaps = heaps_with_threads(6);
        match usize::from(limit) {
            0 => assert!(heaps >= 6, "{heaps}"),
            // The first heap is not at such a multiple.
            limit => assert_eq!(heaps, limit - 1),
        }
    }
}
