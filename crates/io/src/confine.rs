//! Giving up rights for good, and the user that one started as. Knows Linux capabilities
//! (capabilities(7)) and users; refuses to know who should keep which.

use rustix::io::Errno;
use rustix::process::{Gid, Uid};
use rustix::thread::{
    CapabilitySet, CapabilitySets, capabilities, capability_is_in_bounding_set,
    clear_ambient_capability_set, remove_capability_from_bounding_set, set_capabilities,
    set_no_new_privs, set_thread_groups, set_thread_res_gid, set_thread_res_uid,
};

use std::os::unix::fs::{MetadataExt, lchown};
use std::path::Path;

use crate::error::IoError;

/// Who a process becomes. Neither number is 0: root has nothing to gain here.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct User {
    /// Number of the user.
    pub uid: u32,
    /// Number of its group.
    pub gid: u32,
}

/// Drops all capabilities of the calling thread from every set, and the way to ever get one by
/// executing a file; becomes the user, if one is named, for good and without any other group.
/// Threads started later inherit this; those that exist do not: call it while there is only one.
/// Descriptors that are open keep working.
///
/// # Errors
/// The kernel's refusal; rights may then be dropped in part.
pub fn drop_privileges(user: Option<User>) -> Result<(), IoError> {
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
    if let Some(user) = user {
        become_user(user)?;
    }
    let none = CapabilitySets {
        effective: CapabilitySet::empty(),
        permitted: CapabilitySet::empty(),
        inheritable: CapabilitySet::empty(),
    };
    set_capabilities(None, none).map_err(IoError::system("dropping the capabilities"))?;
    set_no_new_privs(true).map_err(IoError::system("forbidding new privileges"))
}

/// Gives a folder of another user, with what is in it, to this one. Once: afterwards whatever stands
/// there may be a link that the user has made to what is not his.
///
/// # Errors
/// The folder cannot be read, or the calling process may not give files away.
pub fn give_to(folder: &Path, user: User) -> std::io::Result<()> {
    if std::fs::metadata(folder)?.uid() == user.uid {
        return Ok(());
    }
    for entry in std::fs::read_dir(folder)? {
        let entry = entry?;
        if entry.file_type()?.is_dir() {
            give_to(&entry.path(), user)?;
        } else {
            lchown(entry.path(), Some(user.uid), Some(user.gid))?;
        }
    }
    lchown(folder, Some(user.uid), Some(user.gid))
}

fn become_user(user: User) -> Result<(), IoError> {
    let (uid, gid) = (Uid::from_raw(user.uid), Gid::from_raw(user.gid));
    set_thread_groups(&[]).map_err(IoError::system("leaving all groups"))?;
    set_thread_res_gid(gid, gid, gid).map_err(IoError::system("becoming a group"))?;
    set_thread_res_uid(uid, uid, uid).map_err(IoError::system("becoming a user"))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_thread_that_dropped_its_privileges_has_none_and_gets_none() {
        std::thread::spawn(|| {
            drop_privileges(None).unwrap();
            drop_privileges(None).expect("to drop nothing is no error");
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
