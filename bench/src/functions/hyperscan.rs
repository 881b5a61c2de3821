//! Hyperscan, a program of a few lines around Debian's library, which is compiled when it is measured.

use crate::peers::program::{Running, find, run, version};
use crate::peers::{Folder, Unavailable};
use std::io::{BufRead, BufReader, Write};
use std::path::Path;
use std::process::{ChildStdout, Command, Stdio};

const PACKAGE: &str = "libhyperscan-dev";
const SOURCE: &str = include_str!("hyperscan.c");
const HEADER: &str = "/usr/include/hs/hs.h";

/// It runs, with contents and payloads of its own.
pub(super) struct Hyperscan {
    program: Running,
    said: BufReader<ChildStdout>,
    bits: f64,
    pub(super) version: String,
    _folder: Folder,
}

impl Hyperscan {
    #[allow(clippy::cast_precision_loss)]
    pub(super) fn start(contents: &[Vec<u8>], payloads: &[Vec<u8>]) -> Result<Self, Unavailable> {
        let folder = Folder::new()?;
        let program = compile(&folder)?;
        let [contents, bytes] = [("contents", contents), ("payloads", payloads)]
            .map(|(name, records)| (folder.0.join(name), write(records)));
        for (path, text) in [&contents, &bytes] {
            std::fs::write(path, text).map_err(|error| Unavailable::new("hyperscan", error))?;
        }
        let mut command = Command::new(program);
        command.args([&contents.0, &bytes.0]);
        command.stdin(Stdio::piped()).stdout(Stdio::piped()).stderr(Stdio::inherit());
        let mut program = Running::start(&mut command)?;
        let said = program.0.stdout.take();
        let said = said.ok_or_else(|| Unavailable::new("hyperscan", "it has no output"))?;
        let payload_bytes: usize = payloads.iter().map(Vec::len).sum();
        let mut started = Self {
            program,
            said: BufReader::new(said),
            bits: payload_bytes as f64 * 8.0,
            version: String::new(),
            _folder: folder,
        };
        started.version = format!(
            "{PACKAGE} {} ({})",
            version(PACKAGE).unwrap_or_default(),
            started.hear()?.trim_start_matches("ready ")
        );
        started.gbit()?;
        Ok(started)
    }

    /// Gbit/s of payload, one scan of all.
    pub(super) fn gbit(&mut self) -> Result<f64, Unavailable> {
        let fail = |reason: String| Unavailable::new("hyperscan", reason);
        let input = self.program.0.stdin.as_mut().ok_or_else(|| fail("it has no input".into()))?;
        writeln!(input, "scan").map_err(|error| fail(error.to_string()))?;
        let said = self.hear()?;
        let ns: Option<f64> = said.split(' ').next().and_then(|ns| ns.parse().ok());
        let ns = ns.filter(|ns| *ns > 0.0);
        ns.map(|ns| self.bits / ns).ok_or_else(|| fail(format!("it said: {said}")))
    }

    fn hear(&mut self) -> Result<String, Unavailable> {
        let mut line = String::new();
        match self.said.read_line(&mut line) {
            Ok(1..) => Ok(line.trim().to_owned()),
            Ok(0) => Err(Unavailable::new("hyperscan", "it ended")),
            Err(error) => Err(Unavailable::new("hyperscan", error)),
        }
    }
}

fn compile(folder: &Folder) -> Result<std::path::PathBuf, Unavailable> {
    if !Path::new(HEADER).exists() {
        let mut install = Command::new("apt-get");
        install.args(["install", "-y", "-qq", "--no-install-recommends", PACKAGE]);
        run(install.env("DEBIAN_FRONTEND", "noninteractive"))?;
    }
    let compiler = find("gcc", "gcc")?;
    let (source, program) = (folder.0.join("hyperscan.c"), folder.0.join("hyperscan"));
    std::fs::write(&source, SOURCE).map_err(|error| Unavailable::new("hyperscan", error))?;
    run(Command::new(compiler).arg("-O2").arg("-o").arg(&program).arg(&source).arg("-lhs"))?;
    Ok(program)
}

/// Records of a length and bytes.
fn write(records: &[Vec<u8>]) -> Vec<u8> {
    let record = |bytes: &Vec<u8>| [&(bytes.len() as u32).to_le_bytes()[..], bytes].concat();
    records.iter().flat_map(record).collect()
}
