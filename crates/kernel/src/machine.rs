//! What machine this is, for results that must say where they were taken.
//! It only reads; the root path is an argument so that tests can show it another machine.

use std::fs;
use std::path::Path;

/// The machine a result was taken on. A fact that cannot be read says `unknown` (or 0).
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct MachineDescription {
    /// Processor model, as the kernel names it.
    pub cpu_model: String,
    /// Logical processors online.
    pub cpu_cores: usize,
    /// Memory, in bytes.
    pub memory_bytes: u64,
    /// Kernel release, e.g. `6.1.0-13-amd64`.
    pub kernel: String,
    /// Default TCP congestion control.
    pub tcp_congestion_control: String,
    /// Operating system, e.g. `Debian GNU/Linux 12 (bookworm)`.
    pub system: String,
}

/// Describes the machine whose `/proc` and `/etc` lie under `root` (`/` for this one).
pub fn machine_description(root: &Path) -> MachineDescription {
    let read = |path: &str| fs::read_to_string(root.join(path)).unwrap_or_default();
    let cpu = read("proc/cpuinfo");
    let first = |key: &str| value_of(&cpu, key, ':').map(str::to_owned);
    let line = |path: &str| non_empty(read(path).trim());
    MachineDescription {
        // Arm kernels give no model name.
        cpu_model: first("model name").or_else(|| first("Hardware")).unwrap_or_else(unknown),
        cpu_cores: cpu.lines().filter(|l| key_of(l, ':') == Some("processor")).count(),
        memory_bytes: memory_bytes(&read("proc/meminfo")),
        kernel: line("proc/sys/kernel/osrelease"),
        tcp_congestion_control: line("proc/sys/net/ipv4/tcp_congestion_control"),
        system: value_of(&read("etc/os-release"), "PRETTY_NAME", '=')
            .map_or_else(unknown, |name| name.trim_matches('"').to_owned()),
    }
}

fn unknown() -> String {
    "unknown".to_owned()
}

fn non_empty(text: &str) -> String {
    if text.is_empty() { unknown() } else { text.to_owned() }
}

fn key_of(line: &str, separator: char) -> Option<&str> {
    line.split_once(separator).map(|(key, _)| key.trim())
}

fn value_of<'a>(text: &'a str, wanted: &str, separator: char) -> Option<&'a str> {
    text.lines().find_map(|line| {
        let (key, value) = line.split_once(separator)?;
        (key.trim() == wanted).then(|| value.trim())
    })
}

/// `MemTotal:  16384000 kB`, where the kernel's kB are 1,024 bytes.
fn memory_bytes(meminfo: &str) -> u64 {
    const KIBIBYTE: u64 = 1024;
    value_of(meminfo, "MemTotal", ':')
        .and_then(|value| value.split_whitespace().next())
        .and_then(|number| number.parse::<u64>().ok())
        .map_or(0, |kibibytes| kibibytes.saturating_mul(KIBIBYTE))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn this_machine_has_a_processor_memory_and_a_kernel() {
        let machine = machine_description(Path::new("/"));
        assert!(machine.cpu_cores > 0);
        assert!(machine.memory_bytes > 0);
        assert_ne!(machine.kernel, "unknown");
    }

    #[test]
    fn a_machine_without_files_is_unknown_not_an_error() {
        let machine = machine_description(Path::new("/nonexistent"));
        assert_eq!(machine.cpu_model, "unknown");
        assert_eq!(machine.cpu_cores, 0);
        assert_eq!(machine.memory_bytes, 0);
    }

    #[test]
    fn the_kernels_kilobytes_are_1024_bytes() {
        assert_eq!(memory_bytes("MemFree: 1 kB\nMemTotal:       2048 kB\n"), 2_097_152);
        assert_eq!(memory_bytes("MemTotal: many kB\n"), 0);
    }
}
