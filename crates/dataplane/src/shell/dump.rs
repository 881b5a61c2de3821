//! Digests of what an engine holds, made where it is: its text is too long to be sent. Knows parts and keys; refuses
//! to know what they mean.

use crate::engine::Engine;
use catena_model::dump::DumpedPart;
use std::fmt::{self, Debug, Write};
use std::hash::{BuildHasher, Hasher, RandomState};
use std::io;

/// Takes text in and keeps its length and digest alone.
struct Digesting<H> {
    hasher: H,
    bytes: u64,
}

impl<H: Hasher> Write for Digesting<H> {
    fn write_str(&mut self, text: &str) -> fmt::Result {
        self.hasher.write(text.as_bytes());
        self.bytes += text.len() as u64;
        Ok(())
    }
}

/// A part as the text that it is for people.
pub(super) fn part(name: &str, what: &dyn Debug, key: &RandomState) -> DumpedPart {
    let mut digesting = Digesting { hasher: key.build_hasher(), bytes: 0 };
    // Neither a hasher nor a part refuses.
    let _ = write!(digesting, "{what:?}");
    let digest = format!("{:016x}", digesting.hasher.finish());
    DumpedPart { name: name.to_owned(), bytes: digesting.bytes, digest }
}

/// What an engine holds, and the kernel for it.
///
/// # Errors
/// The kernel's refusal.
pub(super) fn of_engine(engine: &Engine, key: &RandomState) -> io::Result<Vec<DumpedPart>> {
    let kernel = part("kernel", &engine.dump_kernel()?, key);
    let parts = engine.dump().into_iter().map(|(name, what)| part(name, what, key));
    Ok(parts.chain([kernel]).collect())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn parts_that_differ_have_other_digests_by_each_key() {
        let (key, other) = (RandomState::new(), RandomState::new());
        let one = part("flows", &[1, 2], &key);
        assert_eq!((one.name.as_str(), one.bytes), ("flows", "[1, 2]".len() as u64));
        assert_eq!(one, part("flows", &[1, 2], &key));
        assert_ne!(one.digest, part("flows", &[2, 1], &key).digest);
        assert_ne!(one.digest, part("flows", &[1, 2], &other).digest);
    }
}
