//! `bench peers`: what the peers cost on this machine just now, without ours beside them. A look
//! before a run; the figures that count are measured side by side.

use super::frames::{LOCAL, LOCAL_MAC, REMOTE, flow, in_tunnel, on_path, plain};
use super::{Caches, Mode, Switch, Tunnel, Unavailable, Windows};
use super::{options, rules, testpmd, versions};
use crate::error::BenchError;
use crate::results::{median, quantile};
use catena_wire::scalar::{Spi, Vni};

/// What is looked at.
#[derive(Clone, Copy, Debug, clap::Args)]
pub(crate) struct Options {
    /// Flows and positions of each case.
    #[arg(long, default_value_t = 1_024)]
    entries: u32,
    /// Bytes of a bare frame.
    #[arg(long, default_value_t = 64)]
    size: usize,
}

const TUNNEL_VNI: u32 = 77;

/// Frames of a case, the rules for them, and whether they come in a tunnel.
type Case = (&'static str, Vec<Vec<u8>>, Vec<String>, Option<Tunnel>);

/// Runs each case and prints it.
#[allow(clippy::unnecessary_wraps)]
pub(crate) fn run(chosen: &Options) -> Result<(), BenchError> {
    for (name, value) in versions().into_iter().chain(options()) {
        println!("{name}: {value}");
    }
    let bare: Vec<_> = (0..chosen.entries).filter_map(|at| plain(&flow(at), chosen.size)).collect();
    for mode in [Mode::Io, Mode::MacSwap, Mode::Checksum] {
        print(&format!("testpmd {mode:?}"), testpmd(mode, &bare, Windows::default()));
    }
    let mut switch = match Switch::start() {
        Ok(switch) => switch,
        Err(reason) => {
            println!("Open vSwitch is not measured: {reason}");
            return Ok(());
        }
    };
    for (name, frames, rules, tunnel) in cases(chosen, bare) {
        for caches in [Caches::Default, Caches::Exact, Caches::Classifier] {
            let seen = switch.measure(&frames, &rules, caches, tunnel, Windows::default());
            print(&format!("Open vSwitch {name}, caches {caches:?}"), seen);
        }
    }
    Ok(())
}

fn cases(chosen: &Options, bare: Vec<Vec<u8>>) -> Vec<Case> {
    let all = || 0..chosen.entries;
    let rules_of = |rule: &dyn Fn(u32) -> String| all().map(rule).collect::<Vec<_>>();
    let path = |at: u32| Spi::new(at + 1).ok();
    let nsh = || {
        let frame = |at| on_path(path(at)?, &plain(&flow(at), 42)?);
        all().filter_map(frame).collect::<Vec<_>>()
    };
    let vni = Vni::new(TUNNEL_VNI).ok();
    let tunnelled =
        all().filter_map(|at| in_tunnel(at, vni?, &plain(&flow(at), 42)?)).collect::<Vec<_>>();
    let tunnel = Tunnel { remote: REMOTE, local: LOCAL, local_mac: LOCAL_MAC };
    vec![
        ("port to port", bare.clone(), vec![rules::pass()], None),
        ("5-tuple", bare.clone(), rules_of(&|at| rules::classify(&flow(at))), None),
        ("NSH push", bare, rules_of(&|at| rules::push(&flow(at), at + 1, 255)), None),
        ("NSH hop", nsh(), rules_of(&|at| rules::forward(at + 1, 255)), None),
        ("NSH pop", nsh(), rules_of(&|at| rules::pop(at + 1, 255)), None),
        (
            "VXLAN to inner 5-tuple",
            tunnelled,
            rules_of(&|at| rules::from_tunnel(TUNNEL_VNI, &flow(at))),
            Some(tunnel),
        ),
    ]
}

fn print(name: &str, seen: Result<Vec<f64>, Unavailable>) {
    match seen {
        Ok(samples) => {
            let at = |share| quantile(&samples, share).unwrap_or(f64::NAN);
            let middle = median(&samples).unwrap_or(f64::NAN);
            println!("{name}: {middle:.1} ns per packet ({:.1}–{:.1})", at(0.0), at(1.0));
        }
        Err(reason) => println!("{name}: not measured: {reason}"),
    }
}
