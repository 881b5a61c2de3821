//! The form of a result (PERFORMANCE.md section 4): every row follows from the samples kept beside
//! it, so that anybody can compute it again.

use serde::{Deserialize, Serialize};
use std::collections::BTreeMap;

/// Which way is better.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub(crate) enum Better {
    /// More.
    Higher,
    /// Less.
    Lower,
}

/// What a goal is held against.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(crate) enum Goal {
    /// None is set.
    None,
    /// The value of ours.
    Value(f64),
    /// The ratio: how many times better ours is.
    Ratio(f64),
    /// The ratio is ours by the peer's, whichever way is better; held against this, if anything.
    Quotient(Option<f64>),
}

/// What the samples of a figure come to.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Fold {
    /// The middle one.
    Median,
    /// All of them together: of what must not be, one in many is not to vanish.
    Sum,
    /// The largest.
    Most,
    /// That of the last: a count that is the same each time.
    Count,
}

/// A figure: what its samples mean.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Figure {
    pub(crate) name: &'static str,
    pub(crate) unit: &'static str,
    pub(crate) better: Better,
    pub(crate) goal: Goal,
    pub(crate) fold: Fold,
}

impl Figure {
    /// A figure that is the median of its samples.
    pub(crate) fn new(name: &'static str, unit: &'static str, better: Better, goal: Goal) -> Self {
        Self { name, unit, better, goal, fold: Fold::Median }
    }

    /// The same of what its samples come to otherwise.
    pub(crate) fn by(self, fold: Fold) -> Self {
        Self { fold, ..self }
    }

    fn of(&self, samples: &[f64]) -> Option<f64> {
        match self.fold {
            Fold::Median => median(samples),
            Fold::Sum => (!samples.is_empty()).then(|| samples.iter().sum()),
            Fold::Most => samples.iter().copied().reduce(f64::max),
            Fold::Count => samples.last().copied(),
        }
    }

    /// A sample as it is kept: counts whole, all else as far as a measurement can tell.
    pub(crate) fn rounded(&self, sample: f64) -> f64 {
        match self.fold {
            Fold::Sum | Fold::Count => sample,
            Fold::Median | Fold::Most => significant(sample),
        }
    }
}

/// A number with so many digits as the spread of any measurement here leaves it.
fn significant(value: f64) -> f64 {
    const DIGITS: usize = 4;
    // Rounded as it is written, so that what is kept is what is computed with.
    format!("{value:.*e}", DIGITS - 1).parse().unwrap_or(value)
}

/// The samples of one figure.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub(crate) struct Samples {
    pub(crate) ours: Vec<f64>,
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub(crate) peer: Vec<f64>,
}

/// The samples of a run, by figure.
#[derive(Clone, Debug, Default, PartialEq)]
pub(crate) struct Notes(BTreeMap<String, Samples>);

impl From<BTreeMap<String, Samples>> for Notes {
    fn from(samples: BTreeMap<String, Samples>) -> Self {
        Self(samples)
    }
}

impl Notes {
    /// Keeps a sample.
    pub(crate) fn take(&mut self, figure: &str, is_ours: bool, sample: f64) {
        let samples = self.0.entry(figure.to_owned()).or_default();
        if is_ours {
            samples.ours.push(sample);
        } else {
            samples.peer.push(sample);
        }
    }

    /// The samples of a figure, if there are any.
    pub(crate) fn samples(&self, figure: &str) -> Option<&Samples> {
        self.0.get(figure)
    }

    /// Gives a figure the same peer as another.
    pub(crate) fn take_peer_of(&mut self, other: &str, figure: &str) {
        let peer = self.0.get(other).map(|samples| samples.peer.clone()).unwrap_or_default();
        self.0.entry(figure.to_owned()).or_default().peer = peer;
    }

    /// All samples.
    pub(crate) fn into_samples(self) -> BTreeMap<String, Samples> {
        self.0
    }
}

/// One row.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub(crate) struct Row {
    pub(crate) figure: String,
    pub(crate) unit: String,
    pub(crate) better: Better,
    /// What the samples of ours come to: their median, sum or largest, as the figure says.
    pub(crate) ours: f64,
    /// The same of the peer's.
    pub(crate) peer: Option<f64>,
    /// How many times better ours is, or ours by the peer's: as the figure says.
    pub(crate) ratio: Option<f64>,
    pub(crate) goal: Option<f64>,
    pub(crate) met: Option<bool>,
    /// Samples of ours and of the peer.
    pub(crate) n: (usize, usize),
    /// Lowest and highest sample of ours.
    pub(crate) spread: (f64, f64),
}

/// A whole run.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub(crate) struct Results {
    /// What was done, for people.
    #[serde(default)]
    pub(crate) about: String,
    /// What was called.
    #[serde(default)]
    pub(crate) command: String,
    /// Of which commit; `-dirty`: with changes that were not committed.
    #[serde(default)]
    pub(crate) commit: String,
    pub(crate) machine: BTreeMap<String, String>,
    pub(crate) versions: BTreeMap<String, String>,
    pub(crate) options: BTreeMap<String, String>,
    pub(crate) rows: Vec<Row>,
    pub(crate) samples: BTreeMap<String, Samples>,
    /// The pictures beside the file.
    #[serde(default)]
    pub(crate) plots: Vec<Picture>,
}

/// A picture: `stem.svg` and `stem.png`.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub(crate) struct Picture {
    pub(crate) stem: String,
    pub(crate) title: String,
}

impl Results {
    /// With samples rounded, and the rows of these figures made of them.
    pub(crate) fn settled(mut self, figures: &[Figure]) -> Self {
        for figure in figures {
            let Some(Samples { ours, peer }) = self.samples.get_mut(figure.name) else { continue };
            ours.iter_mut().chain(peer).for_each(|sample| *sample = figure.rounded(*sample));
        }
        let of = |figure: &Figure| row(figure, self.samples.get(figure.name)?);
        self.rows = figures.iter().filter_map(of).collect();
        for row in &mut self.rows {
            row.ratio = row.ratio.map(significant);
        }
        self
    }

    /// As it is kept: a line for each row and for the samples of each figure, so that another run
    /// changes the lines of what it measured otherwise.
    ///
    /// # Errors
    /// A number is none.
    pub(crate) fn to_text(&self) -> Result<String, serde_json::Error> {
        let line = |key: &str, value: String| format!("  \"{key}\": {value}");
        let rows = self.rows.iter().map(serde_json::to_string).collect::<Result<Vec<_>, _>>()?;
        let samples = self.samples.iter().map(|(name, samples)| {
            Ok(format!("{}: {}", serde_json::to_string(name)?, serde_json::to_string(samples)?))
        });
        let samples = samples.collect::<Result<Vec<String>, serde_json::Error>>()?;
        let block = |lines: &[String], [open, close]: [char; 2]| match lines {
            [] => format!("{open}{close}"),
            lines => format!("{open}\n    {}\n  {close}", lines.join(",\n    ")),
        };
        let parts = [
            line("about", serde_json::to_string(&self.about)?),
            line("command", serde_json::to_string(&self.command)?),
            line("commit", serde_json::to_string(&self.commit)?),
            line("machine", serde_json::to_string(&self.machine)?),
            line("versions", serde_json::to_string(&self.versions)?),
            line("options", serde_json::to_string(&self.options)?),
            line("rows", block(&rows, ['[', ']'])),
            line("samples", block(&samples, ['{', '}'])),
            line("plots", serde_json::to_string(&self.plots)?),
        ];
        Ok(format!("{{\n{}\n}}\n", parts.join(",\n")))
    }
}

/// The row of a figure; none without samples.
pub(crate) fn row(figure: &Figure, samples: &Samples) -> Option<Row> {
    let ours = figure.of(&samples.ours)?;
    let peer = figure.of(&samples.peer);
    let ratio = peer.map(|peer| match (figure.better, figure.goal) {
        (Better::Lower, Goal::None | Goal::Value(_) | Goal::Ratio(_)) => peer / ours,
        (Better::Higher, _) | (_, Goal::Quotient(_)) => ours / peer,
    });
    let reaches = |value: f64, goal: f64, better: Better| match better {
        Better::Lower => value <= goal,
        Better::Higher => value >= goal,
    };
    let (goal, met) = match figure.goal {
        Goal::None => (None, None),
        Goal::Value(goal) => (Some(goal), Some(reaches(ours, goal, figure.better))),
        Goal::Ratio(goal) => (Some(goal), ratio.map(|ratio| reaches(ratio, goal, Better::Higher))),
        Goal::Quotient(goal) => {
            let met = ratio.zip(goal).map(|(ratio, goal)| reaches(ratio, goal, figure.better));
            (goal, met)
        }
    };
    let lowest = samples.ours.iter().copied().fold(f64::INFINITY, f64::min);
    let highest = samples.ours.iter().copied().fold(f64::NEG_INFINITY, f64::max);
    Some(Row {
        figure: figure.name.into(),
        unit: figure.unit.into(),
        better: figure.better,
        ours,
        peer,
        ratio,
        goal,
        met,
        n: (samples.ours.len(), samples.peer.len()),
        spread: (lowest, highest),
    })
}

pub(crate) fn median(samples: &[f64]) -> Option<f64> {
    quantile(samples, 0.5)
}

/// The sample below which this share of all lies.
pub(crate) fn quantile(samples: &[f64], share: f64) -> Option<f64> {
    let mut sorted = samples.to_vec();
    sorted.sort_by(f64::total_cmp);
    let last = sorted.len().checked_sub(1)?;
    #[allow(clippy::cast_possible_truncation, clippy::cast_sign_loss, clippy::cast_precision_loss)]
    let at = (last as f64 * share).round() as usize;
    sorted.get(at).copied()
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::BENCHES;

    /// Computes every row again from the samples beside it.
    fn recompute(results: &Results, figures: &[Figure]) {
        for found in &results.rows {
            let figure = figures.iter().find(|figure| figure.name == found.figure).unwrap();
            let again = row(figure, &results.samples[&found.figure]).unwrap();
            let close = |a: f64, b: f64| (a - b).abs() <= 1e-9 * a.abs().max(b.abs());
            assert!(close(again.ours, found.ours), "{again:?} {found:?}");
            assert_eq!(again.peer.is_some(), found.peer.is_some(), "{found:?}");
            assert_eq!(again.ratio.map(significant), found.ratio, "{found:?}");
            assert_eq!((again.n, again.met), (found.n, found.met), "{found:?}");
        }
    }

    #[test]
    fn every_row_of_a_result_follows_from_its_samples() {
        let samples = |at: usize| Samples {
            ours: vec![at as f64 + 1.0, 2.5, 0.1],
            peer: if at.is_multiple_of(2) { vec![300.0, 100.0] } else { Vec::new() },
        };
        for (name, figures) in BENCHES {
            let figures = figures();
            let samples: BTreeMap<String, Samples> = figures
                .iter()
                .enumerate()
                .map(|(at, figure)| (figure.name.to_owned(), samples(at)))
                .collect();
            assert_eq!(samples.len(), figures.len(), "two figures of {name} have one name");
            let rows = figures.iter().filter_map(|figure| row(figure, &samples[figure.name]));
            let none = BTreeMap::new;
            let results = Results {
                about: String::new(),
                command: String::new(),
                commit: String::new(),
                rows: rows.collect(),
                samples,
                machine: none(),
                versions: none(),
                options: none(),
                plots: Vec::new(),
            };
            let text = results.settled(&figures).to_text().unwrap();
            let read: Results = serde_json::from_str(&text).unwrap();
            assert_eq!(read.rows.len(), figures.len());
            recompute(&read, &figures);
            // A line for each row and each figure's samples, and few beside them.
            assert!(text.lines().count() < 2 * figures.len() + 20, "{}", text.lines().count());
            assert_eq!(read.clone().settled(&figures).to_text().unwrap(), text);
        }
    }

    #[test]
    fn every_row_of_the_results_in_the_tree_follows_from_its_samples() {
        for entry in std::fs::read_dir(crate::folder().join("results")).unwrap() {
            let path = entry.unwrap().path();
            if path.extension().is_none_or(|extension| extension != "json") {
                continue;
            }
            let stem = path.file_stem().unwrap().to_str().unwrap();
            let bench = BENCHES.iter().find(|(name, _)| *name == stem);
            let (_, figures) = bench.unwrap_or_else(|| panic!("{stem} is no benchmark of ours"));
            let text = std::fs::read_to_string(&path).unwrap();
            let results: Results = serde_json::from_str(&text).unwrap();
            recompute(&results, &figures());
            assert!(!results.command.is_empty() && !results.commit.is_empty(), "{stem}");
            assert!(results.to_text().unwrap() == text, "{stem} is not written as it is read");
        }
    }

    #[test]
    fn a_goal_is_met_from_its_own_side_alone() {
        let figure = |better, goal| Figure::new("f", "u", better, goal);
        let samples = Samples { ours: vec![2.0, 1.0, 3.0], peer: vec![200.0] };
        let met = |better, goal| row(&figure(better, goal), &samples).unwrap().met;
        assert_eq!(met(Better::Lower, Goal::Ratio(100.0)), Some(true));
        assert_eq!(met(Better::Lower, Goal::Ratio(101.0)), Some(false));
        assert_eq!(met(Better::Lower, Goal::Value(1.9)), Some(false));
        assert_eq!(met(Better::Higher, Goal::Value(2.0)), Some(true));
        assert_eq!(met(Better::Higher, Goal::None), None);
        assert_eq!(met(Better::Lower, Goal::Quotient(Some(0.01))), Some(true));
        assert_eq!(met(Better::Lower, Goal::Quotient(Some(0.009))), Some(false));
        assert_eq!(met(Better::Higher, Goal::Quotient(Some(0.02))), Some(false));
        assert_eq!(met(Better::Lower, Goal::Quotient(None)), None);
        assert_eq!(row(&figure(Better::Lower, Goal::None), &Samples::default()), None);
    }

    #[test]
    fn one_loss_in_many_runs_is_a_loss_and_the_largest_delay_is_the_largest() {
        let figure = Figure::new("lost", "packets", Better::Lower, Goal::Value(0.0));
        let ours = vec![0.0, 0.0, 76_912.0, 0.0];
        let samples = Samples { ours, peer: Vec::new() };
        let found = |fold| row(&figure.by(fold), &samples).unwrap();
        assert_eq!((found(Fold::Sum).ours, found(Fold::Sum).met), (76_912.0, Some(false)));
        assert_eq!((found(Fold::Most).ours, found(Fold::Most).met), (76_912.0, Some(false)));
        assert_eq!((found(Fold::Median).ours, found(Fold::Median).met), (0.0, Some(true)));
        // Counts are kept as they are.
        assert_eq!(figure.by(Fold::Sum).rounded(76_912.0), 76_912.0);
        assert_eq!(figure.rounded(76_912.0), 76_910.0);
        assert_eq!(figure.rounded(0.001_234_56), 0.001_235);
    }

    /// Loss is never told by its median.
    #[test]
    fn every_figure_of_loss_is_a_sum() {
        for (name, figures) in BENCHES {
            for figure in figures() {
                let is_loss = figure.name.ends_with("_lost") || figure.unit == "packets";
                assert_eq!(is_loss, figure.fold == Fold::Sum, "{name}: {}", figure.name);
            }
        }
    }
}
