//! Kernel settings (`/proc/sys`) as one network namespace sees them.
//! It refuses to know which settings a function needs.

use std::fs;
use std::path::PathBuf;

use crate::namespace::{NetNamespace, run_in};
use crate::{KernelError, Result};

/// Writes a setting, e.g. `net.ipv4.ip_forward`. A name part that holds a dot itself (an
/// interface `eth0.5`) is written with slashes: `net/ipv4/conf/eth0.5/rp_filter`.
///
/// # Errors
/// The key is malformed or unknown, or the kernel refuses the value.
pub fn write_in(namespace: &NetNamespace, key: &str, value: &str) -> Result<()> {
    let path = path_of(key)?;
    run_in(namespace, || fs::write(&path, value))?
        .map_err(|e| KernelError::system("set", object(namespace, key, Some(value)), e))
}

/// Reads a setting, without the newline at its end.
///
/// # Errors
/// The key is malformed or unknown.
pub fn read_in(namespace: &NetNamespace, key: &str) -> Result<String> {
    let path = path_of(key)?;
    let text = run_in(namespace, || fs::read_to_string(&path))?
        .map_err(|e| KernelError::system("read", object(namespace, key, None), e))?;
    Ok(text.trim_end().to_owned())
}

fn object(namespace: &NetNamespace, key: &str, value: Option<&str>) -> String {
    let assignment = value.map(|v| format!("={v}")).unwrap_or_default();
    format!("setting {key}{assignment} in network namespace {}", namespace.name())
}

fn path_of(key: &str) -> Result<PathBuf> {
    let relative = if key.contains('/') { key.to_owned() } else { key.replace('.', "/") };
    let whole = relative.split('/').all(|part| !part.is_empty() && part != "." && part != "..");
    if !whole || relative.contains('\0') {
        return Err(KernelError::invalid(
            format!("setting name {key:?}"),
            "it must be parts joined by dots",
        ));
    }
    Ok(PathBuf::from("/proc/sys").join(relative))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn dots_become_directories_unless_the_key_has_slashes() {
        assert_eq!(
            path_of("net.ipv4.ip_forward").unwrap(),
            PathBuf::from("/proc/sys/net/ipv4/ip_forward")
        );
        assert_eq!(
            path_of("net/ipv4/conf/eth0.5/rp_filter").unwrap(),
            PathBuf::from("/proc/sys/net/ipv4/conf/eth0.5/rp_filter")
        );
    }

    #[test]
    fn a_key_cannot_leave_the_settings_directory() {
        for key in ["", ".", "net..ipv4", "../../etc/passwd", "/etc/passwd", "net/../../x"] {
            assert!(path_of(key).is_err(), "{key:?} must be refused");
        }
    }
}
