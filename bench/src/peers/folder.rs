//! A folder for one run of a peer, gone with it.

use super::Unavailable;
use std::path::PathBuf;
use std::sync::atomic::{AtomicU32, Ordering};

/// A folder that ends with this.
pub(crate) struct Folder(pub(crate) PathBuf);

impl Folder {
    pub(crate) fn new() -> Result<Self, Unavailable> {
        static NEXT: AtomicU32 = AtomicU32::new(0);
        let next = NEXT.fetch_add(1, Ordering::Relaxed);
        let path = std::env::temp_dir().join(format!("catena-peer-{}-{next}", std::process::id()));
        std::fs::create_dir_all(&path).map_err(|error| Unavailable::new("a folder", error))?;
        Ok(Self(path))
    }
}

impl Drop for Folder {
    fn drop(&mut self) {
        // What cannot be deleted is in the folder for such things.
        let _ = std::fs::remove_dir_all(&self.0);
    }
}
