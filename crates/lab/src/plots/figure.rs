//! What a figure shows, as data. Knows reports; refuses to know pixels.

use crate::run::{DelayRow, RunEvidence, RunReport, Update, UsersRow};
use crate::vocabulary::{Plot, PlotKind};
use serde_json::Value;

/// A figure ready to be drawn.
#[derive(Clone, Debug, PartialEq)]
pub(crate) struct Figure {
    /// File name without ending.
    pub(crate) file: String,
    pub(crate) title: String,
    pub(crate) x_label: String,
    pub(crate) y_label: String,
    /// Names of stacked parts or of lines, in order.
    pub(crate) legend: Vec<String>,
    pub(crate) form: Form,
    /// Below the figure, one entry per line.
    pub(crate) caption: Vec<String>,
}

#[derive(Clone, Debug, PartialEq)]
pub(crate) enum Form {
    /// One column per abscissa, made of parts.
    Stacked(Vec<Column>),
    /// One line per name, a value per second.
    Lines(Vec<Vec<f64>>),
    /// One line per name, a value at each label; what was not measured there is no number.
    Curves { labels: Vec<String>, lines: Vec<Vec<f64>> },
    /// One bar per label.
    Bars(Vec<Bar>),
}

/// A stacked column.
#[derive(Clone, Debug, PartialEq)]
pub(crate) struct Column {
    pub(crate) label: String,
    pub(crate) parts: Vec<f64>,
    /// Half the width of the interval around the whole.
    pub(crate) half_width: f64,
}

/// A bar with the lowest and the highest of what was measured.
#[derive(Clone, Debug, PartialEq)]
pub(crate) struct Bar {
    pub(crate) label: String,
    pub(crate) value: f64,
    pub(crate) low: f64,
    pub(crate) high: f64,
}

const GIGABIT: f64 = 1e9;
const MEGABIT: f64 = 1e6;
const MILLISECONDS: f64 = 1e3;
const NANOSECONDS_OF_MILLISECOND: f64 = 1e6;

/// The figures of one `plot` entry; none if the run did not measure what it shows.
pub(crate) fn figures(plot: &Plot, report: &RunReport) -> Vec<Figure> {
    match plot.kind {
        PlotKind::DeploySteps => deploy_steps(plot, report).into_iter().collect(),
        PlotKind::Timeline => timelines(plot, report),
        PlotKind::Bars => bars(plot, report).into_iter().collect(),
        PlotKind::Changes => changes(plot, report),
        PlotKind::DelayBySize => {
            DelayOf::ALL.map(|of| by_size(plot, report, of)).into_iter().flatten().collect()
        }
        PlotKind::DelayByTraffic => by_traffic(plot, report).into_iter().collect(),
        PlotKind::DelayByHops => {
            DelayOf::ALL.map(|of| by_hops(plot, report, of)).into_iter().flatten().collect()
        }
    }
}

fn caption(report: &RunReport, what: String) -> Vec<String> {
    let text = |key: &str| report.machine[key].as_str().unwrap_or("unknown").to_owned();
    let machine = format!(
        "{}, {} cores, Linux {}, {}",
        text("cpu_model"),
        report.machine["cpu_cores"],
        text("kernel"),
        text("system")
    );
    vec![what, machine, report.not_controlled.to_owned()]
}

fn deploy_steps(plot: &Plot, report: &RunReport) -> Option<Figure> {
    if report.lengths.is_empty() {
        return None;
    }
    let columns = report.lengths.iter().map(|row| Column {
        label: row.length.to_string(),
        parts: [row.fc, row.pp, row.ppg, row.pc].map(|step| step.mean * MILLISECONDS).into(),
        half_width: row.total.half_width_95 * MILLISECONDS,
    });
    let per_function = report.deploy_seconds_per_function.unwrap_or_default() * MILLISECONDS;
    let study = plot.paper.get("per_function").and_then(Value::as_f64);
    let study =
        study.map_or_else(String::new, |ms| format!("; the study's OpenStack: about {ms} ms"));
    let repeats = report.lengths.iter().map(|row| row.samples).min().unwrap_or_default();
    Some(Figure {
        file: plot.file.clone(),
        title: plot.title.clone(),
        x_label: "functions in the chain".into(),
        y_label: "time, ms".into(),
        legend: ["flow classifier", "port pairs", "port pair groups", "port chain"]
            .map(str::to_owned)
            .into(),
        form: Form::Stacked(columns.collect()),
        caption: caption(
            report,
            format!(
                "mean of {repeats} repeats, bars: 95 % interval of the total; {per_function:.2} ms \
                 per added function{study}"
            ),
        ),
    })
}

fn timelines(plot: &Plot, report: &RunReport) -> Vec<Figure> {
    let proofs = report.evidence.runs.iter().filter_map(|run| Some((run, run.proof.as_ref()?)));
    let figure = |(run, proof): (&crate::run::RunEvidence, &Value)| {
        let line = |name: &String| -> Vec<f64> {
            let bits = proof["bits_per_second"][name.as_str()].as_array();
            bits.into_iter().flatten().filter_map(Value::as_f64).map(|b| b / MEGABIT).collect()
        };
        Figure {
            file: format!("{}-{}", plot.file, run.case),
            title: format!("{}, {}", plot.title, run.case),
            x_label: "time, s".into(),
            y_label: "throughput, Mbit/s of UDP payload".into(),
            legend: plot.of.clone(),
            form: Form::Lines(plot.of.iter().map(line).collect()),
            caption: caption(
                report,
                "per second, from captures inside the functions' namespaces; one run".into(),
            ),
        }
    };
    proofs.map(figure).collect()
}

/// For each change what was under way on the old path, and, in a figure of its own, how long until
/// that was found empty.
#[allow(clippy::cast_precision_loss, reason = "packets under way and milliseconds are few")]
fn changes(plot: &Plot, report: &RunReport) -> Vec<Figure> {
    let runs = report.evidence.runs.iter();
    let runs = runs.filter_map(|run| Some((run, run.update.as_ref()?, run.update_proof.as_ref()?)));
    let figures = |(run, update, proof): (&RunEvidence, &Update, &Value)| {
        let each = proof["each"].as_array();
        let flying = each.into_iter().flatten().map(|one| one["in_flight"].as_f64());
        let flying: Vec<f64> = flying.map(Option::unwrap_or_default).collect();
        let took = update.changes.iter().map(|change| {
            let until = change.over.unwrap_or(change.answered);
            until.saturating_sub(change.asked) as f64 / NANOSECONDS_OF_MILLISECOND
        });
        let what = format!(
            "{} changes under a stream of {} packets: {} lost, {} duplicated, {} mixed, {} \
             overtaken, from captures at every function; one run",
            proof["changes"],
            proof["sent"],
            proof["lost"],
            proof["duplicated"],
            proof["mixed"],
            proof["overtaken"]
        );
        let figure = |ending: &str, y_label: &str, line: Vec<f64>| Figure {
            file: format!("{}-{}{ending}", plot.file, run.case),
            title: format!("{}, {}", plot.title, run.case),
            x_label: "change of the chain".into(),
            y_label: y_label.into(),
            legend: Vec::new(),
            form: Form::Lines(vec![line]),
            caption: caption(report, what.clone()),
        };
        [
            figure("", "packets under way on the old path", flying),
            figure("-time", "from the request to the receipt, ms", took.collect()),
        ]
    };
    runs.flat_map(figures).collect()
}

/// Which delay of a stream is drawn: the mean, as in the study, the median, which a few frames that
/// met a busy processor do not move, or what one frame in a hundred exceeds.
#[derive(Clone, Copy)]
enum DelayOf {
    Mean,
    Median,
    P99,
}

impl DelayOf {
    const ALL: [Self; 3] = [Self::Mean, Self::Median, Self::P99];

    fn us(self, row: &UsersRow) -> f64 {
        match self {
            Self::Mean => row.delay_us,
            Self::Median => row.median_us,
            Self::P99 => row.p99_us,
        }
    }

    const fn file_ending(self) -> &'static str {
        match self {
            Self::Mean => "",
            Self::Median => "-median",
            Self::P99 => "-p99",
        }
    }

    const fn name(self) -> &'static str {
        match self {
            Self::Mean => "mean delay",
            Self::Median => "median delay",
            Self::P99 => "p99 delay",
        }
    }
}

/// Delay by packet size, one line for each content (figure 4 of the 5G study).
fn by_size(plot: &Plot, report: &RunReport, of: DelayOf) -> Option<Figure> {
    let users = report.evidence.users.as_ref()?;
    let rows = &users.sizes;
    let legend = of_rows(rows, |row| row.content.to_owned());
    let label = |row: &UsersRow| row.size.to_string();
    let name = |row: &UsersRow| row.content.to_owned();
    let mut figure = curves((plot, report, of), rows, ("packet size, bytes", label), legend, name)?;
    if let Some(said) = &users.open_vswitch {
        let text = format!("beside ours, user space over the same veth and functions: {said}");
        figure.caption.insert(1, text);
    }
    Some(figure)
}

/// Delay by hops, one line for each rate (figure 5 of the 5G study).
fn by_hops(plot: &Plot, report: &RunReport, of: DelayOf) -> Option<Figure> {
    let rows = &report.evidence.users.as_ref()?.hops;
    let name = |row: &UsersRow| format!("{:.0} % of the no-drop rate", row.share * 100.0);
    let label = |row: &UsersRow| row.hops.to_string();
    curves((plot, report, of), rows, ("hops, two for each slice", label), of_rows(rows, name), name)
}

fn of_rows(rows: &[UsersRow], name: impl Fn(&UsersRow) -> String) -> Vec<String> {
    let mut names: Vec<String> = Vec::new();
    for row in rows {
        let name = name(row);
        if !names.contains(&name) {
            names.push(name);
        }
    }
    names
}

fn curves(
    (plot, report, delay): (&Plot, &RunReport, DelayOf),
    rows: &[UsersRow],
    (x_label, label): (&str, impl Fn(&UsersRow) -> String),
    legend: Vec<String>,
    name: impl Fn(&UsersRow) -> String,
) -> Option<Figure> {
    let labels = of_rows(rows, &label);
    let line = |of: &String| -> Vec<f64> {
        let at = |at: &String| {
            let row = rows.iter().find(|row| name(row) == *of && label(row) == *at);
            row.map_or(f64::NAN, |row| delay.us(row))
        };
        labels.iter().map(at).collect()
    };
    let lines: Vec<Vec<f64>> = legend.iter().map(line).collect();
    let repeats = rows.iter().map(|row| row.runs.len()).min()?;
    let longest = rows.iter().map(|row| row.max_us).fold(0.0, f64::max);
    let frames: u64 = rows.iter().flat_map(|row| &row.runs).map(|run| run.sent).sum();
    let lost: u64 = rows.iter().flat_map(|row| &row.runs).map(|run| run.lost).sum();
    let what = format!(
        "{} from the sender's stamp to the receiver's interface, of {repeats} runs without \
         the best and the worst; the longest of all {longest:.0} us; {lost} of {frames} frames lost, \
         which count as late; sizes are those of the user's IP packet, before 100 bytes of tunnels; \
         the study's averages: below 2 us by size and 3 us (11 us beyond 4,096 hops) at up to 20 \
         Gbit/s, inside the switch alone, on another machine",
        delay.name()
    );
    Some(Figure {
        file: format!("{}{}", plot.file, delay.file_ending()),
        title: plot.title.clone(),
        x_label: x_label.to_owned(),
        y_label: format!("{}, us", delay.name()),
        legend,
        form: Form::Curves { labels, lines },
        caption: caption(report, what),
    })
}

/// Mean delay of our own datagrams by traffic, one line for each chain, and one for what is predicted of it.
fn by_traffic(plot: &Plot, report: &RunReport) -> Option<Figure> {
    let is_shown = |row: &&DelayRow| plot.of.is_empty() || plot.of.contains(&row.chain);
    let rows: Vec<&DelayRow> = report.evidence.delays.iter().filter(is_shown).collect();
    let (mut labels, mut chains): (Vec<String>, Vec<(&str, &str)>) = (Vec::new(), Vec::new());
    for row in &rows {
        if !labels.contains(&row.traffic) {
            labels.push(row.traffic.clone());
        }
        let chain = (row.chain.as_str(), row.label.as_str());
        if !chains.contains(&chain) {
            chains.push(chain);
        }
    }
    let line = |chain: &str, value: fn(&DelayRow) -> Option<f64>| -> Vec<f64> {
        let at = |label: &String| {
            let row = rows.iter().find(|row| row.chain == chain && row.traffic == *label);
            row.and_then(|row| value(row)).map_or(f64::NAN, |ns| ns / NANOSECONDS_OF_MILLISECOND)
        };
        labels.iter().map(at).collect()
    };
    let measured = |(chain, label): &(&str, &str)| {
        let ns: fn(&DelayRow) -> Option<f64> = |row| Some(row.mean_ns.mean);
        ((*label).to_owned(), line(chain, ns))
    };
    let predicted = |(chain, label): &(&str, &str)| {
        (format!("{label}, model"), line(chain, |row| row.predicted_ns))
    };
    let curves = chains.iter().map(measured).chain(chains.iter().map(predicted));
    let is_known = |(_, line): &(String, Vec<f64>)| line.iter().any(|value| value.is_finite());
    let (legend, lines): (Vec<String>, Vec<Vec<f64>>) = curves.filter(is_known).unzip();
    let repeats = rows.iter().map(|row| row.samples_ns.len()).min()?;
    let paper: Vec<String> =
        plot.paper.iter().map(|(name, value)| format!("{name}: {value}")).collect();
    let paper = match paper.as_slice() {
        [] => String::new(),
        some => format!("; printed in the study, on other machines: {}", some.join("; ")),
    };
    let what = format!(
        "mean of {repeats} runs with other draws, from the sender's system call to the receiver's, the first tenth of each \
         run left out; the model knows the functions alone{paper}"
    );
    Some(Figure {
        file: plot.file.clone(),
        title: plot.title.clone(),
        x_label: "traffic".into(),
        y_label: "mean delay, ms".into(),
        legend,
        form: Form::Curves { labels, lines },
        caption: caption(report, what),
    })
}

fn bars(plot: &Plot, report: &RunReport) -> Option<Figure> {
    let is_shown = |row: &&crate::run::ThroughputRow| {
        plot.group.is_none() || row.group.as_deref() == plot.group.as_deref()
    };
    let bars: Vec<Bar> = report
        .throughput
        .iter()
        .filter(is_shown)
        .map(|row| Bar {
            label: row.label.clone(),
            value: row.median / GIGABIT,
            low: row.samples.iter().copied().fold(f64::INFINITY, f64::min) / GIGABIT,
            high: row.samples.iter().copied().fold(0.0, f64::max) / GIGABIT,
        })
        .collect();
    if bars.is_empty() {
        return None;
    }
    // Of another machine: told, and not drawn beside ours.
    let study = bars.iter().filter_map(|bar| {
        let value = plot.paper.get(&bar.label)?;
        let value = value.as_str().map_or_else(|| value.to_string(), str::to_owned);
        Some(format!("{} {value}", bar.label))
    });
    let study: Vec<String> = study.collect();
    let study = match study.as_slice() {
        [] => String::new(),
        some => format!("; the study's OpenStack on 10 GbE, Gbit/s: {}", some.join(", ")),
    };
    let what = format!(
        "median of {} runs in rounds over all chains, lines: lowest and highest; iperf3, one \
         stream{study}",
        report.repeats
    );
    Some(Figure {
        file: plot.file.clone(),
        title: plot.title.clone(),
        x_label: String::new(),
        y_label: "throughput, Gbit/s".into(),
        legend: Vec::new(),
        form: Form::Bars(bars),
        caption: caption(report, what),
    })
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::run::Evidence;
    use crate::vocabulary::Lab;
    use std::path::Path;

    fn report(lab: &str, evidence: Evidence) -> (Lab, RunReport) {
        let folder = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../labs");
        let lab = Lab::read(&folder.join(lab), false).unwrap();
        let report = RunReport::new(&lab, false, evidence, Vec::new(), Vec::new());
        (lab, report)
    }

    #[test]
    fn what_the_study_found_on_its_machines_is_told_and_not_drawn() {
        let run = |rate| {
            let mut run = RunEvidence::new("C1-nsh".into(), None, Some("C1".into()));
            run.traffic = vec![crate::run::TrafficResult {
                bits_per_second: Some(rate),
                ..crate::run::TrafficResult::default()
            }];
            run
        };
        let runs = vec![run(6e9), run(8e9), run(7e9)];
        let evidence = Evidence { runs, ..Evidence::default() };
        let (lab, report) = report("openstack-tcp.yaml", evidence);
        let plot = lab.plots.iter().find(|plot| plot.group.as_deref() == Some("location"));
        let figure = figures(plot.unwrap(), &report).remove(0);
        let bar = Bar { label: "source".into(), value: 7.0, low: 6.0, high: 8.0 };
        assert_eq!(figure.form, Form::Bars(vec![bar]));
        assert!(figure.caption[0].ends_with("Gbit/s: source 7.01"), "{:?}", figure.caption);
    }

    #[test]
    fn every_axis_of_changes_has_one_unit() {
        let mut run = RunEvidence::new("nsh".into(), None, None);
        run.update = Some(Update {
            chain: "moving".into(),
            first: vec![],
            first_encapsulation: None,
            first_dscp: None,
            changes: vec![],
        });
        run.update_proof = Some(serde_json::json!({"each": [{"in_flight": 3}]}));
        let evidence = Evidence { runs: vec![run], ..Evidence::default() };
        let (lab, report) = report("chain-updates.yaml", evidence);
        let drawn = figures(&lab.plots[0], &report);
        let axes: Vec<(&str, &str)> =
            drawn.iter().map(|one| (one.file.as_str(), one.y_label.as_str())).collect();
        assert_eq!(
            axes,
            [
                ("updates-nsh", "packets under way on the old path"),
                ("updates-nsh-time", "from the request to the receipt, ms"),
            ]
        );
        assert_eq!(drawn[0].form, Form::Lines(vec![vec![3.0]]));
    }
}
