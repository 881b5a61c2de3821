//! Figures of a run: what they show (`figure`, pure) and how they are drawn (`draw`).

mod draw;
mod figure;

use crate::error::{LabError, Result};
use crate::run::RunReport;
use crate::vocabulary::Plot;
use figure::{Bar, Figure, Form};
use std::path::{Path, PathBuf};

/// Bars beside one another, for whoever has measured something without a lab file.
#[derive(Clone, Debug)]
pub struct BarChart {
    /// Above it.
    pub title: String,
    /// What the bars say, with its unit.
    pub y_label: String,
    /// Name, value, and the lowest and the highest that it stands for.
    pub bars: Vec<(String, f64, [f64; 2])>,
    /// Below it.
    pub caption: Vec<String>,
}

/// Draws charts below one another into a file that ends in `.svg` or `.png`.
///
/// # Errors
/// It ends in something else, or cannot be written.
pub fn draw_charts(charts: &[BarChart], file: &Path) -> Result<()> {
    let bar = |(label, value, [low, high]): &(String, f64, [f64; 2])| Bar {
        label: label.clone(),
        value: *value,
        low: *low,
        high: *high,
    };
    let figure = |chart: &BarChart| Figure {
        file: String::new(),
        title: chart.title.clone(),
        x_label: String::new(),
        y_label: chart.y_label.clone(),
        legend: Vec::new(),
        form: Form::Bars(chart.bars.iter().map(bar).collect()),
        caption: chart.caption.clone(),
    };
    let figures: Vec<Figure> = charts.iter().map(figure).collect();
    draw::draw_sheet(&figures, file)
        .map_err(|reason| LabError::Figure { file: file.display().to_string(), reason })
}

/// Draws one `plot` entry of a lab file; the files written are the answer.
pub(crate) fn draw(plot: &Plot, report: &RunReport, folder: &Path) -> Result<Vec<PathBuf>> {
    let mut files = Vec::new();
    for figure in figure::figures(plot, report) {
        let drawn = draw::draw(&figure, folder).map_err(|(file, reason)| LabError::Figure {
            file: file.display().to_string(),
            reason,
        })?;
        files.extend(drawn);
    }
    Ok(files)
}
