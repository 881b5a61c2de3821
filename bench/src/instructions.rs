//! Instructions of a packet, counted by valgrind in another run of this benchmark.

use std::path::Path;
use std::process::Command;

/// Packets whose instructions are counted.
const PACKETS: usize = 1 << 14;
/// Those of one vector, which the first run has.
const VECTOR: usize = 256;

/// Instructions per packet of the benchmark with these words, which takes `--packets`: those of a run without those
/// of a run of one vector.
#[allow(clippy::cast_precision_loss)]
pub(crate) fn per_packet(bench: &Path, words: &[&str]) -> Result<f64, String> {
    let all = |packets: usize| {
        let mut valgrind = Command::new("valgrind");
        valgrind.args(["--tool=callgrind", "--callgrind-out-file=/dev/null"]).arg(bench);
        valgrind.args(words).args(["--packets", &packets.to_string()]);
        let said = said(&mut valgrind)?;
        let collected = said.split("Collected :").nth(1).map(str::trim_start);
        let digits = collected.map(|rest| rest.split_whitespace().next().unwrap_or_default());
        let count = digits.and_then(|digits| digits.parse::<u64>().ok());
        count.ok_or_else(|| "valgrind tells no count of instructions".to_owned())
    };
    let spent = all(PACKETS + VECTOR)?.saturating_sub(all(VECTOR)?);
    Ok(spent as f64 / PACKETS as f64)
}

/// What a command said, if it went well.
pub(crate) fn said(command: &mut Command) -> Result<String, String> {
    let name = command.get_program().to_string_lossy().into_owned();
    let output = command.output().map_err(|error| format!("{name}: {error}"))?;
    let [out, err] = [&output.stdout, &output.stderr].map(|bytes| String::from_utf8_lossy(bytes));
    if !output.status.success() {
        let last = err.lines().last().unwrap_or_default();
        return Err(format!("{name} ended with {}: {last}", output.status));
    }
    Ok(format!("{out}{err}"))
}
