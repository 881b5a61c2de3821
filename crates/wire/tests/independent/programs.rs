//! Runs tshark and scapy on packets, or says that they are missing.

use std::fs;
use std::path::{Path, PathBuf};
use std::process::Command;

/// Debian's interpreter: python3-scapy belongs to it and not to another one earlier in the path.
const PYTHON: &str = "/usr/bin/python3";

/// A directory of one test, removed when dropped.
struct Workplace(PathBuf);

impl Workplace {
    fn new(test: &str) -> Self {
        let path = std::env::temp_dir().join(format!("catena-wire-{}-{test}", std::process::id()));
        fs::create_dir_all(&path).unwrap();
        Self(path)
    }
}

impl Drop for Workplace {
    fn drop(&mut self) {
        // What cannot be removed from a temporary directory is no reason to fail a test.
        let _ = fs::remove_dir_all(&self.0);
    }
}

/// Writes packets as a capture of Ethernet (classic pcap, microseconds, little endian).
fn write_capture(path: &Path, packets: &[Vec<u8>]) {
    const MAGIC: u32 = 0xa1b2_c3d4;
    const VERSION_2_4: u32 = 4 << 16 | 2;
    const SNAPSHOT_BYTES: u32 = 1 << 18;
    const ETHERNET: u32 = 1;
    let mut file = Vec::new();
    for word in [MAGIC, VERSION_2_4, 0, 0, SNAPSHOT_BYTES, ETHERNET] {
        file.extend(word.to_le_bytes());
    }
    for (second, packet) in (1..).zip(packets) {
        let length = u32::try_from(packet.len()).unwrap();
        for word in [second, 0, length, length] {
            file.extend(u32::to_le_bytes(word));
        }
        file.extend(packet);
    }
    fs::write(path, file).unwrap();
}

/// One row per packet: what tshark reads in each field, several readings joined by a comma. `None`
/// when there is no tshark.
pub(crate) fn tshark(test: &str, packets: &[Vec<u8>], fields: &[&str]) -> Option<Vec<Vec<String>>> {
    tshark_with(test, &[], packets, fields)
}

/// The same with more options.
pub(crate) fn tshark_with(
    test: &str,
    options: &[&str],
    packets: &[Vec<u8>],
    fields: &[&str],
) -> Option<Vec<Vec<String>>> {
    if Command::new("tshark").arg("--version").output().is_err() {
        println!("SKIPPED: {test}: tshark is not installed");
        return None;
    }
    let workplace = Workplace::new(test);
    let capture = workplace.0.join("packets.pcap");
    write_capture(&capture, packets);
    let mut command = Command::new("tshark");
    command.env("WIRESHARK_CONFIG_DIR", &workplace.0).arg("-n").arg("-r").arg(&capture);
    for check in ["ip", "tcp", "udp"] {
        command.args(["-o", &format!("{check}.check_checksum:TRUE")]);
    }
    // STT is known by its look alone, behind a protocol that is TCP's.
    command.args(["-o", "ip.try_heuristic_first:TRUE"]);
    command.args(["-d", "udp.port==6635,mpls", "-d", "udp.port==4790,vxlan_gpe"]);
    // Nothing in a label stack says what follows it; ours is Ethernet, without a control word.
    command.args(["-d", "mpls.label==0-1048575,pwethnocw"]);
    command.args(options);
    command.args(["-T", "fields", "-E", "separator=|", "-E", "occurrence=a", "-E", "aggregator=,"]);
    for field in fields {
        command.args(["-e", field]);
    }
    let output = command.output().unwrap();
    let text = String::from_utf8(output.stdout).unwrap();
    assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
    Some(text.lines().map(|line| line.split('|').map(str::to_owned).collect()).collect())
}

/// The lines a script prints that has scapy's names and `packets`, a list of byte strings. `None`
/// when there is no scapy.
pub(crate) fn scapy(test: &str, script: &str, packets: &[Vec<u8>]) -> Option<Vec<String>> {
    const IMPORTS: &str = "\
        import sys\n\
        from scapy.all import *\n\
        from scapy.contrib.nsh import NSH\n\
        from scapy.contrib.mpls import MPLS\n\
        from scapy.layers.vxlan import VXLAN\n\
        packets = [bytes.fromhex(text) for text in sys.argv[1:]]\n";
    let python = |script: String, arguments: &[String]| {
        Command::new(PYTHON).arg("-c").arg(script).args(arguments).output()
    };
    if !python("import scapy".to_owned(), &[]).is_ok_and(|output| output.status.success()) {
        println!("SKIPPED: {test}: python3-scapy is not installed");
        return None;
    }
    let arguments: Vec<String> = packets
        .iter()
        .map(|packet| packet.iter().map(|byte| format!("{byte:02x}")).collect())
        .collect();
    let output = python(format!("{IMPORTS}{script}"), &arguments).unwrap();
    assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
    Some(String::from_utf8(output.stdout).unwrap().lines().map(str::to_owned).collect())
}
