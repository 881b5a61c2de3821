//! What the kernel says that it can hold processes back with, beside its own list of security modules.

use catena_kernel::confinement;
use std::process::Command;

#[test]
fn landlock_is_there_when_the_kernels_list_of_modules_has_it() {
    crate::needs_privilege!("landlock_is_there_when_the_kernels_list_of_modules_has_it");
    let listed = "mount -t securityfs none /mnt && cat /mnt/lsm";
    let listed = Command::new("unshare").args(["--mount", "sh", "-c", listed]).output().unwrap();
    assert!(listed.status.success(), "{listed:?}");
    let listed = String::from_utf8(listed.stdout).unwrap();
    let is_listed = listed.trim().split(',').any(|module| module == "landlock");
    assert_eq!(confinement::landlock_version().is_some(), is_listed, "{listed}");
}
