//! The picture of a result: processor time per function, ours and the peer's, on a logarithmic axis.

use crate::error::BenchError;
use plotters::coord::Shift;
use plotters::prelude::*;
use plotters::style::{FontStyle, register_font};
use std::path::Path;

const SIZE: (u32, u32) = (900, 560);
const FONT: &str = "sans-serif";
const OURS: RGBColor = RGBColor(0, 114, 178);
const PEER: RGBColor = RGBColor(230, 159, 0);

/// A line: name and points.
pub(crate) struct Line {
    pub(crate) name: &'static str,
    pub(crate) is_ours: bool,
    pub(crate) points: Vec<(f64, f64)>,
}

/// Writes `stem.svg` and `stem.png`.
pub(crate) fn draw(
    stem: &Path,
    title: &str,
    x: &str,
    y: &str,
    lines: &[Line],
) -> Result<(), BenchError> {
    // A font that cannot be read would show as an error of the drawing.
    let _ = register_font(FONT, FontStyle::Normal, dejavu::sans::regular());
    let failed = |path: &Path, reason: String| BenchError::Write { path: path.into(), reason };
    let (svg, png) = (stem.with_extension("svg"), stem.with_extension("png"));
    paint(&SVGBackend::new(&svg, SIZE).into_drawing_area(), title, x, y, lines)
        .map_err(|reason| failed(&svg, reason))?;
    paint(&BitMapBackend::new(&png, SIZE).into_drawing_area(), title, x, y, lines)
        .map_err(|reason| failed(&png, reason))
}

fn paint<B: DrawingBackend>(
    area: &DrawingArea<B, Shift>,
    title: &str,
    x: &str,
    y: &str,
    lines: &[Line],
) -> Result<(), String> {
    let told = |error: DrawingAreaErrorKind<B::ErrorType>| error.to_string();
    area.fill(&WHITE).map_err(told)?;
    let points = || lines.iter().flat_map(|line| &line.points);
    let right = points().map(|(x, _)| *x).fold(1.0, f64::max);
    let top = points().map(|(_, y)| *y).fold(1.0, f64::max) * 2.0;
    let bottom = points().map(|(_, y)| *y).fold(top, f64::min).max(0.001) / 2.0;
    let mut chart = ChartBuilder::on(area)
        .caption(title, (FONT, 20))
        .margin(16)
        .x_label_area_size(44)
        .y_label_area_size(80)
        .build_cartesian_2d(0.0..right * 1.05, (bottom..top).log_scale())
        .map_err(told)?;
    chart.configure_mesh().x_desc(x).y_desc(y).label_style((FONT, 13)).draw().map_err(told)?;
    for line in lines {
        let colour = if line.is_ours { OURS } else { PEER };
        chart
            .draw_series(LineSeries::new(line.points.iter().copied(), colour.stroke_width(2)))
            .map_err(told)?
            .label(line.name)
            .legend(move |(x, y)| PathElement::new([(x, y), (x + 18, y)], colour.stroke_width(3)));
    }
    let labels = &mut chart.configure_series_labels();
    labels
        .background_style(WHITE)
        .border_style(BLACK)
        .label_font((FONT, 13))
        .draw()
        .map_err(told)?;
    area.present().map_err(told)
}
