//! From a figure to SVG and PNG, with a font of the program's own. Knows pixels and colours;
//! refuses to know what the figure means.

use super::figure::{Bar, Column, Figure, Form};
use plotters::coord::Shift;
use plotters::prelude::*;
use plotters::style::{FontStyle, register_font};
use std::path::{Path, PathBuf};
use std::sync::Once;

/// Width and height, in pixels.
const SIZE: (u32, u32) = (1_000, 620);
const CAPTION_LINE_PIXELS: u32 = 17;
const FONT: &str = "sans-serif";
const TITLE_POINTS: u32 = 22;
const LABEL_POINTS: u32 = 15;
const CAPTION_POINTS: u32 = 12;
/// Letters of a caption line that fit the width.
const CAPTION_LINE_LETTERS: usize = 170;
/// Room above the highest value.
const HEADROOM: f64 = 1.15;
/// Colours that people with any colour vision tell apart (Okabe and Ito).
const COLOURS: [RGBColor; 8] = [
    RGBColor(0, 114, 178),
    RGBColor(230, 159, 0),
    RGBColor(0, 158, 115),
    RGBColor(213, 94, 0),
    RGBColor(204, 121, 167),
    RGBColor(86, 180, 233),
    RGBColor(0, 0, 0),
    RGBColor(150, 140, 0),
];
/// Width of the last line of a figure, and of the first.
const LINE_PIXELS: (u8, u8) = (2, 11);

fn colour(index: usize) -> RGBColor {
    COLOURS.get(index % COLOURS.len()).copied().unwrap_or(BLACK)
}

fn register() {
    static REGISTERED: Once = Once::new();
    REGISTERED.call_once(|| {
        // A font that cannot be read would show as an error of every drawing.
        let _ = register_font(FONT, FontStyle::Normal, dejavu::sans::regular());
    });
}

/// Writes `folder/<file>.svg` and `folder/<file>.png`.
pub(crate) fn draw(figure: &Figure, folder: &Path) -> Result<Vec<PathBuf>, (PathBuf, String)> {
    register();
    let svg = folder.join(format!("{}.svg", figure.file));
    let one = std::slice::from_ref(figure);
    paint_sheet(&SVGBackend::new(&svg, SIZE).into_drawing_area(), one)
        .map_err(|error| (svg.clone(), error))?;
    let png = folder.join(format!("{}.png", figure.file));
    paint_sheet(&BitMapBackend::new(&png, SIZE).into_drawing_area(), one)
        .map_err(|error| (png.clone(), error))?;
    Ok(vec![svg, png])
}

/// Writes figures below one another into one file, as its ending says: `svg` or `png`.
pub(crate) fn draw_sheet(figures: &[Figure], file: &Path) -> Result<(), String> {
    register();
    let count = u32::try_from(figures.len()).unwrap_or(u32::MAX);
    let size = (SIZE.0, SIZE.1.saturating_mul(count));
    match file.extension().and_then(|ending| ending.to_str()) {
        Some("svg") => paint_sheet(&SVGBackend::new(file, size).into_drawing_area(), figures),
        Some("png") => paint_sheet(&BitMapBackend::new(file, size).into_drawing_area(), figures),
        _ => Err("its name ends in neither .svg nor .png".into()),
    }
}

fn paint_sheet<B: DrawingBackend>(area: &DrawingArea<B, Shift>, figures: &[Figure]) -> Painted {
    let parts = area.split_evenly((figures.len(), 1));
    parts.iter().zip(figures).try_for_each(|(part, figure)| paint(part, figure))?;
    area.present().map_err(|error| error.to_string())
}

type Painted = Result<(), String>;

fn paint<B: DrawingBackend>(area: &DrawingArea<B, Shift>, figure: &Figure) -> Painted {
    let told = |error: DrawingAreaErrorKind<B::ErrorType>| error.to_string();
    area.fill(&WHITE).map_err(told)?;
    let lines: Vec<String> = figure.caption.iter().flat_map(|text| wrap(text)).collect();
    let count = u32::try_from(lines.len()).unwrap_or_default();
    let height = SIZE.1.saturating_sub((count + 1) * CAPTION_LINE_PIXELS);
    let (upper, lower) = area.split_vertically(height);
    match &figure.form {
        Form::Stacked(columns) => paint_stacked(&upper, figure, columns)?,
        Form::Lines(lines) => paint_lines(&upper, figure, lines)?,
        Form::Curves { labels, lines } => paint_curves(&upper, figure, labels, lines)?,
        Form::Bars(bars) => paint_bars(&upper, figure, bars)?,
    }
    let style = (FONT, CAPTION_POINTS).into_font().color(&BLACK.mix(0.75));
    for (index, line) in lines.iter().enumerate() {
        let y = i32::try_from(index).unwrap_or_default() * 17 + 4;
        lower.draw_text(line, &style, (20, y)).map_err(told)?;
    }
    Ok(())
}

fn wrap(text: &str) -> Vec<String> {
    let mut lines: Vec<String> = Vec::new();
    for word in text.split_whitespace() {
        match lines.last_mut() {
            Some(line) if line.len() + 1 + word.len() <= CAPTION_LINE_LETTERS => {
                line.push(' ');
                line.push_str(word);
            }
            _ => lines.push(word.to_owned()),
        }
    }
    lines
}

fn top(values: impl Iterator<Item = f64>) -> f64 {
    let highest = values.filter(|value| value.is_finite()).fold(0.0, f64::max);
    if highest > 0.0 { highest * HEADROOM } else { 1.0 }
}

/// Room above the lines for the names of so many, as a factor: a legend covers no line.
fn room(names: usize) -> f64 {
    const NAME_PIXELS: f64 = 22.0;
    const PLOT_PIXELS: f64 = 440.0;
    1.0 / (1.0 - (place(names) * NAME_PIXELS / PLOT_PIXELS).min(0.5))
}

/// A number at an axis, without a fraction that says nothing.
fn number(value: &f64) -> String {
    if value.fract().abs() < 1e-9 { format!("{value:.0}") } else { format!("{value}") }
}

#[allow(clippy::cast_precision_loss, reason = "figures have few columns")]
fn place(index: usize) -> f64 {
    index as f64
}

/// A chart over columns that stand at 0, 1, 2 …, with their labels below.
macro_rules! column_chart {
    ($area:expr, $figure:expr, $labels:expr, $top:expr) => {{
        let labels: Vec<String> = $labels;
        let mut chart = ChartBuilder::on($area)
            .caption(&$figure.title, (FONT, TITLE_POINTS))
            .margin(14)
            .x_label_area_size(48)
            .y_label_area_size(72)
            .build_cartesian_2d(-0.6..place(labels.len()) - 0.4, 0.0..$top)
            .map_err(|error| error.to_string())?;
        let label = |x: &f64| -> String {
            let nearest = x.round();
            if (x - nearest).abs() > 0.01 || nearest < 0.0 {
                return String::new();
            }
            let at = (0..labels.len()).find(|index| (place(*index) - nearest).abs() < 0.5);
            at.and_then(|index| labels.get(index).cloned()).unwrap_or_default()
        };
        chart
            .configure_mesh()
            .disable_x_mesh()
            .x_labels(labels.len() * 2 + 1)
            .x_label_formatter(&label)
            .x_desc(&$figure.x_label)
            .y_desc(&$figure.y_label)
            .label_style((FONT, LABEL_POINTS))
            .axis_desc_style((FONT, LABEL_POINTS))
            .draw()
            .map_err(|error| error.to_string())?;
        chart
    }};
}

/// The legend of a chart whose series have names.
macro_rules! legend {
    ($chart:expr, $place:expr) => {
        $chart
            .configure_series_labels()
            .background_style(WHITE.mix(0.85))
            .border_style(BLACK.mix(0.3))
            .label_font((FONT, LABEL_POINTS))
            .position($place)
            .draw()
            .map_err(|error| error.to_string())
    };
}

fn paint_stacked<B: DrawingBackend>(
    area: &DrawingArea<B, Shift>,
    figure: &Figure,
    columns: &[Column],
) -> Painted {
    let highest = columns.iter().map(|c| c.parts.iter().sum::<f64>() + c.half_width);
    let labels = columns.iter().map(|column| column.label.clone()).collect();
    let mut chart = column_chart!(area, figure, labels, top(highest));
    for (part, name) in figure.legend.iter().enumerate() {
        let fill = colour(part).filled();
        let boxes = columns.iter().enumerate().filter_map(|(index, column)| {
            let below: f64 = column.parts.iter().take(part).sum();
            let own = column.parts.get(part)?;
            let (left, right) = (place(index) - 0.35, place(index) + 0.35);
            Some(Rectangle::new([(left, below), (right, below + own)], fill))
        });
        chart
            .draw_series(boxes)
            .map_err(|error| error.to_string())?
            .label(name)
            .legend(move |(x, y)| Rectangle::new([(x, y - 5), (x + 14, y + 5)], fill));
    }
    let errors = columns.iter().enumerate().map(|(index, column)| {
        let total: f64 = column.parts.iter().sum();
        let (low, high) = (total - column.half_width, total + column.half_width);
        ErrorBar::new_vertical(place(index), low, total, high, BLACK.filled(), 8)
    });
    chart.draw_series(errors).map_err(|error| error.to_string())?;
    // Columns rise to the right.
    legend!(chart, SeriesLabelPosition::UpperLeft)
}

fn paint_lines<B: DrawingBackend>(
    area: &DrawingArea<B, Shift>,
    figure: &Figure,
    lines: &[Vec<f64>],
) -> Painted {
    let seconds = lines.iter().map(Vec::len).max().unwrap_or_default();
    let highest = top(lines.iter().flatten().copied()) * room(figure.legend.len());
    let mut chart = ChartBuilder::on(area)
        .caption(&figure.title, (FONT, TITLE_POINTS))
        .margin(14)
        // The last number of the axis stands half beyond it.
        .margin_right(36)
        .x_label_area_size(48)
        .y_label_area_size(72)
        .build_cartesian_2d(0.0..place(seconds.max(1)), 0.0..highest)
        .map_err(|error| error.to_string())?;
    chart
        .configure_mesh()
        .x_label_formatter(&number)
        .x_desc(&figure.x_label)
        .y_desc(&figure.y_label)
        .label_style((FONT, LABEL_POINTS))
        .axis_desc_style((FONT, LABEL_POINTS))
        .draw()
        .map_err(|error| error.to_string())?;
    for (index, line) in lines.iter().enumerate() {
        let style = colour(index).stroke_width(width(index, lines.len()));
        // A second's value stands in the middle of that second.
        let points: Vec<(f64, f64)> =
            line.iter().enumerate().map(|(second, value)| (place(second) + 0.5, *value)).collect();
        let drawn = chart
            .draw_series(LineSeries::new(points.clone(), style))
            .map_err(|error| error.to_string())?;
        if let Some(name) = figure.legend.get(index) {
            drawn.label(name).legend(move |(x, y)| PathElement::new([(x, y), (x + 16, y)], style));
        }
        chart
            .draw_series(points.iter().map(|point| mark(index, *point)))
            .map_err(|error| error.to_string())?;
    }
    legend!(chart, SeriesLabelPosition::UpperRight)
}

fn paint_curves<B: DrawingBackend>(
    area: &DrawingArea<B, Shift>,
    figure: &Figure,
    labels: &[String],
    lines: &[Vec<f64>],
) -> Painted {
    let highest = top(lines.iter().flatten().copied()) * room(figure.legend.len());
    let mut chart = column_chart!(area, figure, labels.to_vec(), highest);
    for ((index, line), name) in lines.iter().enumerate().zip(&figure.legend) {
        let style = colour(index).stroke_width(width(index, lines.len()));
        let points = line.iter().enumerate().map(|(at, value)| (place(at), *value));
        let points: Vec<(f64, f64)> = points.filter(|(_, value)| value.is_finite()).collect();
        chart
            .draw_series(LineSeries::new(points.clone(), style))
            .map_err(|error| error.to_string())?
            .label(name)
            .legend(move |(x, y)| PathElement::new([(x, y), (x + 16, y)], style));
        chart
            .draw_series(points.iter().map(|point| mark(index, *point)))
            .map_err(|error| error.to_string())?;
    }
    legend!(chart, SeriesLabelPosition::UpperLeft)
}

/// Lines that lie on one another are all seen: the later, the narrower.
fn width(index: usize, lines: usize) -> u32 {
    let behind = lines.saturating_sub(index + 1) * usize::from(LINE_PIXELS.1 - LINE_PIXELS.0);
    let wider = behind / lines.saturating_sub(1).max(1);
    u32::from(LINE_PIXELS.0) + u32::try_from(wider).unwrap_or_default()
}

/// So are their marks.
fn mark(index: usize, point: (f64, f64)) -> Circle<(f64, f64), i32> {
    let size = 3 + i32::try_from(index % 4).unwrap_or_default();
    Circle::new(point, size, colour(index).stroke_width(1))
}

fn paint_bars<B: DrawingBackend>(
    area: &DrawingArea<B, Shift>,
    figure: &Figure,
    bars: &[Bar],
) -> Painted {
    let highest = bars.iter().map(|bar| bar.high);
    let labels = bars.iter().map(|bar| bar.label.clone()).collect();
    let mut chart = column_chart!(area, figure, labels, top(highest));
    let text = (FONT, LABEL_POINTS).into_font().color(&BLACK);
    for (index, bar) in bars.iter().enumerate() {
        let x = place(index);
        let own = Rectangle::new([(x - 0.3, 0.0), (x + 0.3, bar.value)], colour(0).filled());
        chart.draw_series([own]).map_err(|error| error.to_string())?;
        let spread = ErrorBar::new_vertical(x, bar.low, bar.value, bar.high, BLACK.filled(), 10);
        chart.draw_series([spread]).map_err(|error| error.to_string())?;
        let value = EmptyElement::at((x - 0.3, bar.high))
            + Text::new(format!("{:.2}", bar.value), (2, -18), text.clone());
        chart.draw_series([value]).map_err(|error| error.to_string())?;
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    fn figure(file: &str, form: Form, legend: &[&str]) -> Figure {
        Figure {
            file: file.into(),
            title: "A title".into(),
            x_label: "abscissa".into(),
            y_label: "ordinate".into(),
            legend: legend.iter().map(|&name| name.to_owned()).collect(),
            form,
            caption: vec!["a caption of many words ".repeat(20), "its second entry".into()],
        }
    }

    fn bar(label: &str, value: f64) -> Bar {
        Bar { label: label.into(), value, low: value * 0.9, high: value * 1.1 }
    }

    #[test]
    fn every_form_becomes_svg_with_its_words_and_a_png() {
        let column = |label: &str, scale: f64| Column {
            label: label.into(),
            parts: vec![scale, 2.0 * scale, scale, 4.0 * scale],
            half_width: 0.5,
        };
        let stacked = Form::Stacked(vec![column("1", 1.0), column("2", 1.6), column("10", 3.0)]);
        let lines = Form::Lines(vec![vec![3.0, 3.0, 2.9], vec![2.0, 2.0, 0.0], vec![]]);
        let curves = Form::Curves {
            labels: ["64", "128", "256"].map(str::to_owned).into(),
            lines: vec![vec![3.0, 3.1, 3.4], vec![2.0, f64::NAN, 2.5]],
        };
        let bars = Form::Bars(vec![bar("C0", 9.1), bar("C1", 1.2)]);
        let folder = tempfile::tempdir().unwrap();
        // Where to leave them for a look, if anybody wants one.
        let kept = std::env::var_os("CATENA_FIGURES").map(PathBuf::from);
        let folder = kept.as_deref().unwrap_or(folder.path());
        for figure in [
            figure("stacked", stacked, &["fc", "pp", "ppg", "pc"]),
            figure("lines", lines, &["v1", "v2", "v3"]),
            figure("curves", curves, &["users", "plain"]),
            figure("bars", bars, &[]),
            figure("empty", Form::Lines(vec![]), &[]),
        ] {
            let files = draw(&figure, folder).unwrap();
            let svg = std::fs::read_to_string(&files[0]).unwrap();
            assert!(svg.contains("A title") && svg.contains("its second entry"), "{svg}");
            assert!(figure.legend.iter().all(|name| svg.contains(name.as_str())));
            let png = std::fs::read(&files[1]).unwrap();
            assert!(png.starts_with(b"\x89PNG") && png.len() > 5_000);
        }
    }

    #[test]
    fn a_sheet_has_all_its_figures_in_the_form_that_its_name_says() {
        let folder = tempfile::tempdir().unwrap();
        let figures =
            ["first", "second"].map(|file| figure(file, Form::Bars(vec![bar(file, 2.0)]), &[]));
        let at = |name: &str| folder.path().join(name);
        draw_sheet(&figures, &at("both.svg")).unwrap();
        let svg = std::fs::read_to_string(at("both.svg")).unwrap();
        assert!(svg.contains("first") && svg.contains("second"), "{svg}");
        draw_sheet(&figures, &at("both.png")).unwrap();
        let png = std::fs::read(at("both.png")).unwrap();
        let height = u32::from_be_bytes(png[20..24].try_into().unwrap());
        assert_eq!(height, 2 * SIZE.1);
        assert!(draw_sheet(&figures, &at("both.pdf")).unwrap_err().contains(".png"));
        assert!(draw_sheet(&figures, Path::new("/nonexistent/x.png")).is_err());
    }

    #[test]
    fn a_figure_that_cannot_be_written_names_its_file() {
        let figure = figure("x", Form::Bars(vec![bar("a", 1.0)]), &[]);
        let (file, _) = draw(&figure, Path::new("/nonexistent")).unwrap_err();
        assert_eq!(file, Path::new("/nonexistent/x.svg"));
    }
}
