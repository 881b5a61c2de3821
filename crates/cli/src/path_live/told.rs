//! What was measured of a chain, for people: a table, receipts, a drawing. Knows units; refuses to measure.

use super::journey::{Delay, Live, Measured};
use crate::failure::Failure;
use crate::output::{Table, block, progress, say, table};
use crate::receipt;
use crate::top::sample::short;
use catena_lab::{BarChart, draw_charts};
use std::path::Path;

const NS_PER_US: f64 = 1e3;
/// In place of a number that nobody knows.
const UNKNOWN: &str = "-";
const NO_TRAFFIC: &str = "no traffic";
const NOT_OBSERVED: &str = "not observed";

pub(super) fn tell(live: &Live) {
    block(figures(live));
    for line in remarks(live) {
        say!("{line}");
    }
}

fn figures(live: &Live) -> Table {
    let mut table = table([
        "encapsulation",
        "packets/s",
        "bit/s",
        "dropped",
        "probes",
        "p50 µs",
        "p99 µs",
        "in the way",
    ]);
    for one in &live.measured {
        table.add_row(row(one));
    }
    table
}

fn row(one: &Measured) -> Vec<String> {
    let title = one.encapsulation.title();
    if let Some(trouble) = &one.trouble {
        let unknown = [UNKNOWN; 6].map(str::to_owned);
        return [title].into_iter().chain(unknown).chain([trouble.clone()]).collect();
    }
    let counted = |value: Option<f64>| value.map_or_else(|| NO_TRAFFIC.to_owned(), short);
    let delay = |value: fn(&Delay) -> u64| {
        one.delay.as_ref().map_or_else(|| NOT_OBSERVED.to_owned(), |delay| us(value(delay)))
    };
    let probes = one.delay.as_ref().map_or(0, |delay| delay.probes);
    vec![
        title,
        counted(one.packets_per_second),
        counted(one.bits_per_second),
        one.dropped.to_string(),
        probes.to_string(),
        delay(|delay| delay.p50_ns),
        delay(|delay| delay.p99_ns),
        String::new(),
    ]
}

fn us(ns: u64) -> String {
    format!("{:.0}", ns as f64 / NS_PER_US)
}

fn remarks(live: &Live) -> Vec<String> {
    let mut lines = Vec::new();
    let measured = || live.measured.iter().filter(|one| one.trouble.is_none());
    if measured().any(|one| one.packets_per_second.is_none()) {
        lines.push(format!(
            "no traffic: no packet came to the end of chain '{}' in {} s; send some, and measure again",
            live.chain, live.seconds
        ));
    }
    for one in measured() {
        let name = one.encapsulation.name();
        let what = if one.delay.is_some() { "not of all probes" } else { NOT_OBSERVED };
        lines.extend(one.no_delay.as_ref().map(|why| format!("{name}   {what}: {why}")));
    }
    for one in &live.measured {
        let name = one.encapsulation.name();
        lines.extend(one.receipt.as_ref().map(|one| format!("{name}   {}", receipt::line(one))));
    }
    let back = live.receipt.as_ref();
    let began = live.began.name();
    lines.extend(back.map(|one| format!("back to {began}   {}", receipt::line(one))));
    lines
}

/// Draws what was measured.
pub(super) fn draw(live: &Live, file: &Path) -> Result<(), Failure> {
    let charts = charts(live);
    if charts.is_empty() {
        return Err(Failure::failed(format!(
            "nothing was measured of chain '{}', so {} was not drawn",
            live.chain,
            file.display()
        )));
    }
    draw_charts(&charts, file)?;
    progress(format_args!("drawn: {}", file.display()));
    Ok(())
}

fn charts(live: &Live) -> Vec<BarChart> {
    let mut charts = Vec::new();
    let mut chart =
        |what: &str, y_label: &str, bars: Vec<(String, f64, [f64; 2])>, said: String| {
            if !bars.is_empty() {
                let title = format!("Chain '{}': {what}", live.chain);
                let y_label = y_label.to_owned();
                charts.push(BarChart { title, y_label, bars, caption: vec![said] });
            }
        };
    let name = |one: &Measured| one.encapsulation.name().to_owned();
    let carried = live.measured.iter().filter_map(|one| {
        let packets = one.packets_per_second?;
        Some((name(one), packets, [packets; 2]))
    });
    let said = format!("packets at the end of its paths, counted for {} s with each", live.seconds);
    chart("packets carried", "packets each second", carried.collect(), said);
    let delays = live.measured.iter().filter_map(|one| {
        let delay = one.delay.as_ref()?;
        let [p50, p99] = [delay.p50_ns, delay.p99_ns].map(|ns| ns as f64 / NS_PER_US);
        Some((name(one), p50, [p50, p99]))
    });
    let probes = live.measured.iter().filter_map(|one| Some(one.delay.as_ref()?.probes)).min();
    let said = format!(
        "bar: median, line: p99 of {} probes or more, from their first node to the end of the path, by the slow path \
         of each data plane",
        probes.unwrap_or_default()
    );
    chart("how long probes took", "µs", delays.collect(), said);
    charts
}

#[cfg(test)]
mod tests {
    use super::*;
    use catena_model::resource::Encapsulation;

    fn measured(encapsulation: Encapsulation) -> Measured {
        Measured {
            encapsulation,
            trouble: None,
            packets_per_second: Some(5_512.4),
            bits_per_second: Some(8.1e6),
            dropped: 2,
            delay: Some(Delay { probes: 64, p50_ns: 181_400, p99_ns: 912_000 }),
            no_delay: None,
            receipt: None,
        }
    }

    fn live(measured: Vec<Measured>) -> Live {
        let (chain, began) = ("web".into(), Encapsulation::Nsh);
        Live { chain, began, seconds: 5, measured, receipt: None }
    }

    #[test]
    fn what_nobody_observed_has_no_figure() {
        let sound = measured(Encapsulation::Nsh);
        let figures = ["5.5k", "8.1M", "2", "64", "181", "912", ""];
        assert_eq!(row(&sound)[1..], figures.map(str::to_owned));
        let silent = Measured {
            packets_per_second: None,
            bits_per_second: None,
            delay: None,
            no_delay: Some("path 4: 2 of 16 probes dropped at h1: no_route".into()),
            ..measured(Encapsulation::Mpls)
        };
        let figures = [NO_TRAFFIC, NO_TRAFFIC, "2", "0", NOT_OBSERVED, NOT_OBSERVED, ""];
        assert_eq!(row(&silent)[1..], figures.map(str::to_owned));
        let trouble = Some("it has a slice".to_owned());
        let refused = Measured { trouble, ..measured(Encapsulation::SourceRouteSafe9) };
        assert_eq!(row(&refused)[1..], ["-", "-", "-", "-", "-", "-", "it has a slice"]);
        let said = remarks(&live(vec![silent, refused]));
        assert_eq!(
            said,
            [
                "no traffic: no packet came to the end of chain 'web' in 5 s; send some, and measure again",
                "mpls   not observed: path 4: 2 of 16 probes dropped at h1: no_route",
            ]
        );
    }

    #[test]
    fn only_what_was_measured_is_drawn() {
        let folder = tempfile::tempdir().unwrap();
        let file = folder.path().join("web.svg");
        let trouble = Some("it has a slice".to_owned());
        let nothing = || Measured {
            trouble: trouble.clone(),
            packets_per_second: None,
            delay: None,
            ..measured(Encapsulation::Mpls)
        };
        let refused = draw(&live(vec![nothing()]), &file).unwrap_err();
        assert!(
            refused.message.contains("nothing was measured of chain 'web'"),
            "{}",
            refused.message
        );
        assert!(!file.exists());
        draw(&live(vec![nothing(), measured(Encapsulation::SourceRouteNative)]), &file).unwrap();
        let svg = std::fs::read_to_string(&file).unwrap();
        for word in
            ["source-route/native", "packets carried", "5512.40", "how long probes took", "181.40"]
        {
            assert!(svg.contains(word), "{word}");
        }
        assert!(!svg.contains(">mpls<"));
    }
}
