//! What this machine has for instances: processors and memory by NUMA node, and how fast its data network is. It only
//! reads; the root path is an argument so that tests can show it another machine. Limits that a container has been
//! given are not seen.

use catena_model::capacity::{CORE_MILLI, Capacity, NumaNode};
use std::fs;
use std::net::IpAddr;
use std::path::Path;

/// Where the kernel tells of NUMA nodes.
const NUMA: &str = "sys/devices/system/node";
/// KiB of one MiB.
const MIB_KIB: u64 = 1_024;
/// A processor number beyond this is none: no list of processors is taken apart for ever.
const PROCESSORS_MAX: u32 = 65_536;

/// What the machine has whose `/sys` and `/proc` lie under `root` (`/` for this one). `underlay`: the interfaces of
/// the data network; none: the one that has its address.
pub(crate) fn capacity(root: &Path, address: IpAddr, underlay: &[String]) -> Capacity {
    let mut numa = numa_nodes(root);
    if numa.is_empty() {
        numa.extend(whole(root));
    }
    let found = || interface(root, address).into_iter().collect();
    let interfaces = if underlay.is_empty() { found() } else { underlay.to_vec() };
    let speeds = interfaces.iter().filter_map(|name| {
        // A link that is down, or whose driver does not know, says -1 or nothing at all.
        let speed = read(root, &format!("sys/class/net/{name}/speed"))?;
        speed.trim().parse::<u64>().ok().filter(|speed| *speed > 0)
    });
    Capacity { numa, link_mbit: speeds.min() }
}

fn read(root: &Path, path: &str) -> Option<String> {
    fs::read_to_string(root.join(path)).ok()
}

/// Those that have memory or processors.
fn numa_nodes(root: &Path) -> Vec<NumaNode> {
    let Ok(folder) = fs::read_dir(root.join(NUMA)) else { return Vec::new() };
    let names = folder.flatten().filter_map(|entry| entry.file_name().into_string().ok());
    let number = |name: String| name.strip_prefix("node")?.parse::<u32>().ok();
    let mut numbers: Vec<u32> = names.filter_map(number).collect();
    numbers.sort_unstable();
    let node = |number| {
        let told = |what: &str| read(root, &format!("{NUMA}/node{number}/{what}"));
        let cores = told("cpulist").map_or(0, |list| processors(&list));
        let memory_mib = told("meminfo").map_or(0, |memory| total_mib(&memory));
        NumaNode { number, cpu_milli: cores * CORE_MILLI, memory_mib }
    };
    let nodes = numbers.into_iter().map(node);
    nodes.filter(|node| node.cpu_milli > 0 || node.memory_mib > 0).collect()
}

/// A machine whose kernel knows no NUMA.
fn whole(root: &Path) -> Option<NumaNode> {
    let online = read(root, "sys/devices/system/cpu/online").map(|list| processors(&list));
    let listed = || {
        let processors = read(root, "proc/cpuinfo")?;
        Some(processors.lines().filter(|line| line.starts_with("processor")).count() as u64)
    };
    let cores = online.filter(|cores| *cores > 0).or_else(listed).filter(|cores| *cores > 0)?;
    let memory_mib = total_mib(&read(root, "proc/meminfo")?);
    Some(NumaNode { number: 0, cpu_milli: cores * CORE_MILLI, memory_mib })
}

/// How many are in a list such as `0-3,8`.
fn processors(list: &str) -> u64 {
    let count = |part: &str| {
        let (first, last) = part.split_once('-').unwrap_or((part, part));
        let number = |text: &str| text.parse().ok().filter(|number| *number < PROCESSORS_MAX);
        let (first, last): (u32, u32) = (number(first)?, number(last)?);
        (first <= last).then(|| u64::from(last - first) + 1)
    };
    list.trim().split(',').filter_map(count).sum()
}

/// `MemTotal:  16384000 kB`, of a node behind `Node 0`; the kernel's kB are 1,024 bytes.
fn total_mib(memory: &str) -> u64 {
    let total = memory.lines().find_map(|line| line.split_once("MemTotal:"));
    let kib = total.and_then(|(_, value)| value.split_whitespace().next()?.parse::<u64>().ok());
    kib.map_or(0, |kib| kib / MIB_KIB)
}

/// The interface of an own address: the one whose network, without a gateway, has it.
fn interface(root: &Path, address: IpAddr) -> Option<String> {
    match address {
        IpAddr::V4(address) => {
            let routes = read(root, "proc/net/route")?;
            let of = |line: &str| {
                let words: Vec<&str> = line.split_whitespace().collect();
                let number = |at: usize| u32::from_str_radix(words.get(at)?, 16).ok();
                // In the order of the network, read as the machine's.
                let [network, gateway, mask] = [number(1)?, number(2)?, number(7)?];
                let own = u32::from_ne_bytes(address.octets());
                let has_it = gateway == 0 && mask != 0 && own & mask == network;
                has_it.then(|| (mask.count_ones(), (*words[0]).to_owned()))
            };
            routes.lines().filter_map(of).max_by_key(|(bits, _)| *bits).map(|(_, name)| name)
        }
        IpAddr::V6(address) => {
            let own = format!("{:032x}", u128::from(address));
            let addresses = read(root, "proc/net/if_inet6")?;
            let line = addresses.lines().find(|line| line.starts_with(&own))?;
            line.split_whitespace().last().map(str::to_owned)
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn machine(files: &[(&str, &str)]) -> tempfile::TempDir {
        let root = tempfile::tempdir().unwrap();
        for (path, text) in files {
            let path = root.path().join(path);
            fs::create_dir_all(path.parent().unwrap()).unwrap();
            fs::write(path, text).unwrap();
        }
        root
    }

    fn told(files: &[(&str, &str)], address: &str) -> Capacity {
        capacity(machine(files).path(), address.parse().unwrap(), &[])
    }

    fn node(number: u32, cores: u64, memory_mib: u64) -> NumaNode {
        NumaNode { number, cpu_milli: cores * 1_000, memory_mib }
    }

    #[test]
    fn processors_and_memory_are_told_by_numa_node() {
        let files = [
            ("sys/devices/system/node/node0/cpulist", "0-3,8-11\n"),
            (
                "sys/devices/system/node/node0/meminfo",
                "Node 0 MemTotal:    2097152 kB\nNode 0 MemFree: 1 kB\n",
            ),
            ("sys/devices/system/node/node10/cpulist", "\n"),
            ("sys/devices/system/node/node10/meminfo", "Node 10 MemTotal:    1048576 kB\n"),
            ("sys/devices/system/node/node1/cpulist", "4\n"),
            ("sys/devices/system/node/node1/meminfo", "Node 1 MemTotal:    1048576 kB\n"),
            // Neither processors nor memory: a node that has been taken out.
            ("sys/devices/system/node/node2/cpulist", "\n"),
            ("sys/devices/system/node/online", "0-1\n"),
            (
                "proc/net/route",
                "Iface Destination Gateway Flags RefCnt Use Metric Mask MTU Window IRTT\n\
                 eth0 00000000 010200C0 0003 0 0 0 00000000 0 0 0\n\
                 eth1 000200C0 00000000 0001 0 0 0 00FFFFFF 0 0 0\n",
            ),
            ("sys/class/net/eth1/speed", "25000\n"),
            ("sys/class/net/eth0/speed", "-1\n"),
        ];
        let capacity = told(&files, "192.0.2.7");
        assert_eq!(capacity.numa, [node(0, 8, 2_048), node(1, 1, 1_024), node(10, 0, 1_024)]);
        // The order of bytes of that file is the machine's.
        if cfg!(target_endian = "little") {
            assert_eq!(capacity.link_mbit, Some(25_000));
        }
        let root = machine(&files);
        let named = |name: &str| {
            super::capacity(root.path(), "192.0.2.7".parse().unwrap(), &[name.to_owned()])
        };
        assert_eq!((named("eth1").link_mbit, named("eth0").link_mbit), (Some(25_000), None));
    }

    #[test]
    fn a_machine_without_numa_is_one_node_and_one_that_says_nothing_has_none() {
        let online = ("sys/devices/system/cpu/online", "0-1\n");
        let memory = ("proc/meminfo", "MemTotal:       4194304 kB\nMemFree: 5 kB\n");
        let six = (
            "proc/net/if_inet6",
            "20010db8000000000000000000000001 02 40 00 80 eth2\n00000000000000000000000000000001 01 80 10 80 lo\n",
        );
        let speed = ("sys/class/net/eth2/speed", "1000\n");
        let capacity = told(&[online, memory, six, speed], "2001:db8::1");
        assert_eq!(
            (capacity.numa.as_slice(), capacity.link_mbit),
            (&[node(0, 2, 4_096)][..], Some(1_000))
        );
        let listed =
            ("proc/cpuinfo", "processor\t: 0\nmodel name\t: x\nprocessor\t: 1\nprocessor\t: 2\n");
        assert_eq!(told(&[listed, memory], "192.0.2.7").numa, [node(0, 3, 4_096)]);
        for files in [&[][..], &[online], &[memory]] {
            assert_eq!(told(files, "192.0.2.7"), Capacity::default());
        }
    }

    #[test]
    fn lists_of_processors_are_counted_and_what_is_none_is_not() {
        for (list, count) in [("0", 1), ("0-3,8", 5), ("", 0), ("3-1,x,4-", 0), ("0-4294967295", 0)]
        {
            assert_eq!(processors(list), count, "{list}");
        }
    }
}
