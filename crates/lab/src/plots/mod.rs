//! Figures of a run: what they show (`figure`, pure) and how they are drawn (`draw`).

mod draw;
mod figure;

use crate::error::{LabError, Result};
use crate::run::RunReport;
use crate::vocabulary::Plot;
use std::path::{Path, PathBuf};

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
