//! Huge pages for a peer, and the number that was set before put back at its end.

use super::Unavailable;
use std::path::Path;

/// Huge pages of 2 MiB while a peer runs.
pub(super) const PAGES: u64 = 1_536;
const SETTING: &str = "/proc/sys/vm/nr_hugepages";

/// Restores what was set before when it ends.
pub(super) struct HugePages {
    before: u64,
}

impl HugePages {
    /// Asks for the pages; the kernel may have given fewer, which is an error.
    pub(super) fn reserve() -> Result<Self, Unavailable> {
        let fail = |reason: String| Unavailable::new("huge pages", reason);
        let before = read().map_err(fail)?;
        let pages = Self { before };
        if before < PAGES {
            set(PAGES).map_err(fail)?;
            let given = read().map_err(fail)?;
            if given < PAGES {
                return Err(fail(format!("{given} of {PAGES} were given; free some memory")));
            }
        }
        Ok(pages)
    }
}

impl Drop for HugePages {
    fn drop(&mut self) {
        // Nothing is left to do when even this is refused.
        let _ = set(self.before);
    }
}

fn read() -> Result<u64, String> {
    let text = std::fs::read_to_string(Path::new(SETTING)).map_err(|error| error.to_string())?;
    text.trim().parse().map_err(|_| format!("'{}' is no number", text.trim()))
}

fn set(pages: u64) -> Result<(), String> {
    std::fs::write(SETTING, pages.to_string()).map_err(|error| error.to_string())
}
