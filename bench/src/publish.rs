//! From samples to files: `results/NAME.json`, its pictures, and `RESULTS.md`, which is made of all
//! results in the folder.

use crate::error::BenchError;
use crate::machine::machine;
use crate::plot::Plot;
use crate::results::{Figure, Notes, Picture, Results, Row, row};
use crate::{
    BENCHES, chain_tcp, classifier, engine, functions, growth, openstack, slices, source_route,
    srv6, workers,
};
use comfy_table::{Table, presets};
use std::collections::BTreeMap;
use std::path::Path;

/// What benchmarks write, from the root of the tree: no figure is another for it.
const WRITTEN: [&str; 2] = ["bench/results", "bench/RESULTS.md"];

/// Refuses to measure for the tables of results what no commit holds.
///
/// # Errors
/// Which files have changed.
pub(crate) fn require_commit(folder: &Path) -> Result<(), BenchError> {
    let changed = catena_lab::changes_in(folder, &WRITTEN);
    if changed.is_empty() { Ok(()) } else { Err(BenchError::Uncommitted { changed }) }
}

/// What one benchmark brought.
pub(crate) struct Run {
    /// Its name on the command line and in [`BENCHES`].
    pub(crate) name: &'static str,
    /// What was done and what was not, for people: goes into `RESULTS.md`.
    pub(crate) about: String,
    pub(crate) versions: BTreeMap<String, String>,
    pub(crate) options: BTreeMap<String, String>,
    pub(crate) notes: Notes,
    pub(crate) plots: Vec<Plot>,
}

/// Writes the results of a run into the folder of the benchmarks and prints them.
pub(crate) fn publish(run: Run, folder: &Path) -> Result<(), BenchError> {
    let out = folder.join("results");
    std::fs::create_dir_all(&out).map_err(|error| failed(&out, error))?;
    let mut plots = Vec::new();
    for plot in &run.plots {
        if plot.draw(&out)? {
            plots.push(Picture { stem: plot.stem.clone(), title: plot.title.clone() });
        }
    }
    let results = Results {
        about: run.about,
        command: command(),
        commit: catena_lab::commit_of(folder, &WRITTEN),
        machine: machine(),
        versions: run.versions,
        options: run.options,
        rows: Vec::new(),
        samples: run.notes.into_samples(),
        plots,
    };
    let results = results.settled(&figures_of(run.name));
    keep(&results, &out.join(format!("{}.json", run.name)))?;
    println!("{}", table(&results.rows, presets::UTF8_FULL_CONDENSED));
    summarise(folder)
}

/// The rows of a run that is not published.
pub(crate) fn print_rows(notes: &Notes, figures: &[Figure]) {
    let rows = figures.iter().filter_map(|figure| row(figure, notes.samples(figure.name)?));
    println!("{}", table(&rows.collect::<Vec<_>>(), presets::UTF8_FULL_CONDENSED));
}

fn figures_of(name: &str) -> Vec<Figure> {
    let known = BENCHES.iter().find(|(known, _)| *known == name);
    known.map(|(_, figures)| figures()).unwrap_or_default()
}

/// The picture that follows from a result's samples.
fn picture_of(name: &str, notes: &Notes) -> Option<Plot> {
    match name {
        "chain-tcp" => Some(chain_tcp::throughput_plot(notes)),
        "classifier" => Some(classifier::plot(notes)),
        "engine" => Some(engine::hops_plot(notes)),
        "functions" => Some(functions::plot(notes)),
        "growth" | "growth-one-port" => Some(growth::plot(notes, name)),
        "openstack" => Some(openstack::picture(notes)),
        "slices" => Some(slices::cost_plot(notes)),
        "source-route" => Some(source_route::plot(notes)),
        "srv6" => srv6::plot().ok(),
        "workers" => Some(workers::plot(notes)),
        _ => None,
    }
}

fn keep(results: &Results, file: &Path) -> Result<(), BenchError> {
    let text = results.to_text().map_err(|error| failed(file, error))?;
    std::fs::write(file, text).map_err(|error| failed(file, error))
}

/// How to measure again: this program is only ever started by `cargo xtask bench`.
fn command() -> String {
    std::iter::once("cargo xtask bench".to_owned())
        .chain(std::env::args().skip(1))
        .collect::<Vec<String>>()
        .join(" ")
}

/// Makes `RESULTS.md` of all results, and their rows and pictures of their samples: what a figure
/// means may have changed since.
pub(crate) fn summarise(folder: &Path) -> Result<(), BenchError> {
    let out = folder.join("results");
    let mut files = BTreeMap::new();
    for entry in std::fs::read_dir(&out).map_err(|error| failed(&out, error))? {
        let path = entry.map_err(|error| failed(&out, error))?.path();
        let name = path.file_stem().and_then(|stem| stem.to_str()).map(str::to_owned);
        if let Some(name) = name.filter(|_| path.extension().is_some_and(|e| e == "json")) {
            files.insert(name, path);
        }
    }
    let mut page = String::from(
        "# Results\n\nMade by `cargo xtask bench NAME`, one section each. «ours» and «peer» are \
         medians of the samples, but for what was lost, which is their sum, and for the largest \
         delay, which is the largest of all; samples are in `results/`. The ratio says how many \
         times better ours is than the peer's; where a figure is named `X_vs_Y` it is X by Y.\n",
    );
    for (name, path) in files {
        let text = std::fs::read_to_string(&path).map_err(|error| failed(&path, error))?;
        let results: Results = serde_json::from_str(&text).map_err(|error| failed(&path, error))?;
        let results = results.settled(&figures_of(&name));
        keep(&results, &path)?;
        if let Some(picture) = picture_of(&name, &results.samples.clone().into()) {
            picture.draw(&out)?;
        }
        page.push_str(&section(&name, &results));
    }
    let file = folder.join("RESULTS.md");
    std::fs::write(&file, page).map_err(|error| failed(&file, error))
}

fn section(name: &str, results: &Results) -> String {
    let pairs = |map: &BTreeMap<String, String>| -> String {
        let pairs: Vec<String> = map.iter().map(|(key, value)| format!("{key} {value}")).collect();
        pairs.join(", ")
    };
    let mut text = format!(
        "\n## {name}\n\n`{}`, commit {}; {}. Versions: {}. Options: {}. {}\n\n{}\n",
        results.command,
        results.commit,
        pairs(&results.machine),
        pairs(&results.versions),
        pairs(&results.options),
        results.about,
        table(&results.rows, presets::ASCII_MARKDOWN)
    );
    for Picture { stem, title } in &results.plots {
        text.push_str(&format!("\n![{title}](results/{stem}.svg)\n"));
    }
    text
}

fn failed(path: &Path, error: impl std::fmt::Display) -> BenchError {
    BenchError::Write { path: path.into(), reason: error.to_string() }
}

fn table(rows: &[Row], preset: &str) -> Table {
    let mut table = Table::new();
    table.load_preset(preset);
    table.set_header(["figure", "unit", "ours", "peer", "ratio", "goal", "met", "n"]);
    let number = |value: Option<f64>| value.map_or_else(String::new, |value| format!("{value:.2}"));
    for row in rows {
        let met = row.met.map_or("", |met| if met { "yes" } else { "no" });
        table.add_row([
            row.figure.clone(),
            row.unit.clone(),
            number(Some(row.ours)),
            number(row.peer),
            number(row.ratio),
            number(row.goal),
            met.to_owned(),
            format!("{} / {}", row.n.0, row.n.1),
        ]);
    }
    table
}
