//! What a figure shows, as data. Knows reports; refuses to know pixels.

use crate::run::{RunEvidence, RunReport, Update, UsersRow};
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
    /// Ours beside the study's.
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

/// A bar with what the study found.
#[derive(Clone, Debug, PartialEq)]
pub(crate) struct Bar {
    pub(crate) label: String,
    pub(crate) value: f64,
    pub(crate) low: f64,
    pub(crate) high: f64,
    /// The study's value, and how it is written.
    pub(crate) paper: Option<(f64, String)>,
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
            DelayOf::BOTH.map(|of| by_size(plot, report, of)).into_iter().flatten().collect()
        }
        PlotKind::DelayByHops => {
            DelayOf::BOTH.map(|of| by_hops(plot, report, of)).into_iter().flatten().collect()
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

/// For each change: what was under way on the old path, and how long until it was found empty.
#[allow(clippy::cast_precision_loss, reason = "packets under way and milliseconds are few")]
fn changes(plot: &Plot, report: &RunReport) -> Vec<Figure> {
    let runs = report.evidence.runs.iter();
    let runs = runs.filter_map(|run| Some((run, run.update.as_ref()?, run.update_proof.as_ref()?)));
    let figure = |(run, update, proof): (&RunEvidence, &Update, &Value)| {
        let each = proof["each"].as_array();
        let flying = each.into_iter().flatten().map(|one| one["in_flight"].as_f64());
        let took = update.changes.iter().map(|change| {
            let until = change.over.unwrap_or(change.answered);
            until.saturating_sub(change.asked) as f64 / NANOSECONDS_OF_MILLISECOND
        });
        Figure {
            file: format!("{}-{}", plot.file, run.case),
            title: format!("{}, {}", plot.title, run.case),
            x_label: "change of the chain".into(),
            y_label: "packets; milliseconds".into(),
            legend: vec![
                "packets under way on the old path".into(),
                "from the request to the receipt, ms".into(),
            ],
            form: Form::Lines(vec![
                flying.map(Option::unwrap_or_default).collect(),
                took.collect(),
            ]),
            caption: caption(
                report,
                format!(
                    "{} changes under a stream of {} packets: {} lost, {} duplicated, {} mixed, \
                     from captures at every function; one run",
                    proof["changes"],
                    proof["sent"],
                    proof["lost"],
                    proof["duplicated"],
                    proof["mixed"]
                ),
            ),
        }
    };
    runs.map(figure).collect()
}

/// Which delay of a stream is drawn: the study's mean, or the median, which a few frames that met a
/// busy processor do not move.
#[derive(Clone, Copy)]
enum DelayOf {
    Mean,
    Median,
}

impl DelayOf {
    const BOTH: [Self; 2] = [Self::Mean, Self::Median];

    fn us(self, row: &UsersRow) -> f64 {
        match self {
            Self::Mean => row.delay_us,
            Self::Median => row.median_us,
        }
    }

    const fn file_ending(self) -> &'static str {
        match self {
            Self::Mean => "",
            Self::Median => "-median",
        }
    }

    const fn name(self) -> &'static str {
        match self {
            Self::Mean => "mean delay",
            Self::Median => "median delay",
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
    let frames: u64 = rows.iter().flat_map(|row| &row.runs).map(|run| run.sent).sum();
    let lost: u64 = rows.iter().flat_map(|row| &row.runs).map(|run| run.lost).sum();
    let what = format!(
        "{} from the sender's stamp to the receiver's interface, of {repeats} runs without \
         the best and the worst; {lost} of {frames} frames lost; sizes are those of the user's IP \
         packet, before 100 bytes of tunnels; the study: below 2 us by size and 3 us (11 us beyond \
         4,096 hops) at up to 20 Gbit/s, inside the switch alone",
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
            paper: plot.paper.get(&row.label).and_then(paper_value),
        })
        .collect();
    if bars.is_empty() {
        return None;
    }
    let what = format!(
        "median of {} runs, lines: lowest and highest; iperf3, one stream; grey: the study's \
         OpenStack on 10 GbE, where it gives a value",
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

/// A number, or a bound such as `> 8`, drawn at its number.
fn paper_value(value: &Value) -> Option<(f64, String)> {
    match value {
        Value::Number(number) => Some((number.as_f64()?, number.to_string())),
        Value::String(text) => {
            let number = text.trim_start_matches(|c: char| !c.is_ascii_digit());
            Some((number.trim().parse().ok()?, text.clone()))
        }
        _ => None,
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;

    #[test]
    fn values_and_bounds_of_the_study_are_both_drawn() {
        assert_eq!(paper_value(&json!(7.01)), Some((7.01, "7.01".into())));
        assert_eq!(paper_value(&json!("> 8")), Some((8.0, "> 8".into())));
        assert_eq!(paper_value(&json!("much")), None);
        assert_eq!(paper_value(&json!(null)), None);
    }
}
