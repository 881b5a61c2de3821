//! The pictures of a result: lines over linear or logarithmic axes, as SVG and PNG.

use crate::error::BenchError;
use crate::results::{Notes, median};
use plotters::coord::Shift;
use plotters::coord::ranged1d::{AsRangedCoord, ValueFormatter};
use plotters::prelude::*;
use plotters::style::{FontStyle, register_font};
use std::path::Path;

const SIZE: (u32, u32) = (1_100, 560);
/// Room for the names of the lines beside them, so that they cover none.
const LEGEND_WIDTH: u32 = 230;
const FONT: &str = "sans-serif";
/// Told apart also by those who see few colours (Okabe and Ito); the first is ours.
const COLOURS: [RGBColor; 7] = [
    RGBColor(0, 114, 178),
    RGBColor(230, 159, 0),
    RGBColor(0, 158, 115),
    RGBColor(213, 94, 0),
    RGBColor(86, 180, 233),
    RGBColor(204, 121, 167),
    RGBColor(0, 0, 0),
];

/// A picture.
pub(crate) struct Plot {
    /// Name of its files, without an ending.
    pub(crate) stem: String,
    pub(crate) title: String,
    pub(crate) x: Axis,
    pub(crate) y: Axis,
    /// Those without points are left out.
    pub(crate) lines: Vec<Line>,
}

/// An axis.
pub(crate) struct Axis {
    name: String,
    is_logarithmic: bool,
}

impl Axis {
    pub(crate) fn linear(name: &str) -> Self {
        Self { name: name.into(), is_logarithmic: false }
    }

    pub(crate) fn logarithmic(name: &str) -> Self {
        Self { name: name.into(), is_logarithmic: true }
    }

    /// The part of the axis to be shown.
    fn range(&self, values: impl Iterator<Item = f64> + Clone) -> std::ops::Range<f64> {
        let most = values.clone().fold(f64::MIN, f64::max);
        let least = values.fold(f64::MAX, f64::min);
        if self.is_logarithmic {
            least.max(0.001) / 2.0..most.max(0.001) * 2.0
        } else {
            least.min(0.0)..most.max(least.min(0.0) + 1e-6) * 1.05
        }
    }
}

/// A number at an axis, without a fraction that says nothing: three steps of 0.1 are 0.3.
fn number(value: &f64) -> String {
    ((value * 1e9).round() / 1e9).to_string()
}

/// A line: name and points.
pub(crate) struct Line {
    pub(crate) name: String,
    pub(crate) points: Vec<(f64, f64)>,
}

/// The medians of figures, at the places of each.
pub(crate) fn line(
    notes: &Notes,
    name: &str,
    is_ours: bool,
    figures: impl IntoIterator<Item = (f64, String)>,
) -> Line {
    let point = |(at, figure): (f64, String)| {
        let samples = notes.samples(&figure)?;
        Some((at, median(if is_ours { &samples.ours } else { &samples.peer })?))
    };
    Line { name: name.into(), points: figures.into_iter().filter_map(point).collect() }
}

impl Plot {
    /// Writes `stem.svg` and `stem.png` into a folder; false, and no file, when there is no point.
    pub(crate) fn draw(&self, folder: &Path) -> Result<bool, BenchError> {
        if self.points().next().is_none() {
            return Ok(false);
        }
        // A font that cannot be read would show as an error of the drawing.
        let _ = register_font(FONT, FontStyle::Normal, dejavu::sans::regular());
        let stem = folder.join(&self.stem);
        let (svg, png) = (stem.with_extension("svg"), stem.with_extension("png"));
        let failed = |path: &Path, reason: String| BenchError::Write { path: path.into(), reason };
        self.paint(&SVGBackend::new(&svg, SIZE).into_drawing_area())
            .map_err(|reason| failed(&svg, reason))?;
        self.paint(&BitMapBackend::new(&png, SIZE).into_drawing_area())
            .map_err(|reason| failed(&png, reason))?;
        Ok(true)
    }

    fn points(&self) -> impl Iterator<Item = (f64, f64)> + Clone + '_ {
        self.lines.iter().flat_map(|line| line.points.iter().copied())
    }

    fn paint<B: DrawingBackend>(&self, area: &DrawingArea<B, Shift>) -> Result<(), String> {
        let x = self.x.range(self.points().map(|(x, _)| x));
        let y = self.y.range(self.points().map(|(_, y)| y));
        match (self.x.is_logarithmic, self.y.is_logarithmic) {
            (false, false) => self.chart(area, x, y),
            (false, true) => self.chart(area, x, y.log_scale()),
            (true, false) => self.chart(area, x.log_scale().base(2.0), y),
            (true, true) => self.chart(area, x.log_scale().base(2.0), y.log_scale()),
        }
    }

    fn chart<B, X, Y>(&self, area: &DrawingArea<B, Shift>, x: X, y: Y) -> Result<(), String>
    where
        B: DrawingBackend,
        X: AsRangedCoord<Value = f64>,
        Y: AsRangedCoord<Value = f64>,
        X::CoordDescType: ValueFormatter<f64>,
        Y::CoordDescType: ValueFormatter<f64>,
    {
        let told = |error: DrawingAreaErrorKind<B::ErrorType>| error.to_string();
        area.fill(&WHITE).map_err(told)?;
        let (width, _) = area.dim_in_pixel();
        let (left, right) = area.split_horizontally(width.saturating_sub(LEGEND_WIDTH));
        let mut chart = ChartBuilder::on(&left)
            .caption(&self.title, (FONT, 20))
            .margin(16)
            // The last number of the axis stands half beyond it.
            .margin_right(40)
            .x_label_area_size(44)
            .y_label_area_size(80)
            .build_cartesian_2d(x, y)
            .map_err(told)?;
        let mesh = &mut chart.configure_mesh();
        mesh.x_desc(&self.x.name).y_desc(&self.y.name).label_style((FONT, 13));
        mesh.x_label_formatter(&number).y_label_formatter(&number);
        mesh.draw().map_err(told)?;
        let lines = self.lines.iter().filter(|line| !line.points.is_empty());
        for ((place, line), colour) in (0..).zip(lines).zip(COLOURS.into_iter().cycle()) {
            chart
                .draw_series(LineSeries::new(line.points.iter().copied(), colour.stroke_width(2)))
                .map_err(told)?;
            let marks = line.points.iter().map(|point| Circle::new(*point, 3, colour.filled()));
            chart.draw_series(marks).map_err(told)?;
            let y = 60 + place * 22;
            let sample = PathElement::new([(0, y), (18, y)], colour.stroke_width(3));
            right.draw(&sample).map_err(told)?;
            right
                .draw_text(&line.name, &(FONT, 13).into_text_style(&right), (26, y - 7))
                .map_err(told)?;
        }
        area.present().map_err(told)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_number_at_an_axis_is_as_long_as_people_write_it() {
        let told = [0.1 * 3.0, 2.0, -0.25, 1e6, 1.0 + 1e-12].map(|value| number(&value));
        assert_eq!(told, ["0.3", "2", "-0.25", "1000000", "1"]);
    }

    #[test]
    fn names_stand_beside_the_lines_and_cover_none() {
        let folder = tempfile::tempdir().unwrap();
        let line = |name: &str, at: f64| Line {
            name: name.into(),
            points: vec![(1.0, at), (16_384.0, 2.0 * at)],
        };
        let plot = Plot {
            stem: "lines".into(),
            title: "Lines".into(),
            x: Axis::logarithmic("hops"),
            y: Axis::linear("ns"),
            lines: vec![line("first of them", 9.0), line("second of them", 9.5)],
        };
        assert!(plot.draw(folder.path()).unwrap());
        let svg = std::fs::read_to_string(folder.path().join("lines.svg")).unwrap();
        for name in ["first of them", "second of them"] {
            let before = svg.split(name).next().unwrap();
            let x = before.rsplit("x=\"").next().unwrap().split('"').next().unwrap();
            let x: u32 = x.parse().unwrap();
            assert!(x >= SIZE.0 - LEGEND_WIDTH, "{name} at {x}");
        }
    }
}
