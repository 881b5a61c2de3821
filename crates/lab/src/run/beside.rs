//! Two summaries of the same labs beside each other, row by row. Knows which figures have a
//! direction worth comparing; refuses to know how either was measured.

use comfy_table::{CellAlignment, Table, presets};
use serde_json::Value;

/// A figure of two runs.
#[derive(Clone, Debug, PartialEq)]
struct Row {
    name: String,
    unit: &'static str,
    kernel: f64,
    engine: f64,
}

/// A table of all figures that both summaries have, with the kernel path's as a multiple of the
/// engine's. See [`super::summary()`] for what a summary holds.
#[must_use]
pub fn beside(kernel: &Value, engine: &Value) -> String {
    let mut table = Table::new();
    table.load_preset(presets::UTF8_FULL_CONDENSED).set_header([
        "figure",
        "unit",
        "kernel path",
        "engine alone",
        "kernel / engine",
    ]);
    for row in rows(kernel, engine) {
        let ratio = if row.engine > 0.0 {
            format!("{:.2}", row.kernel / row.engine)
        } else {
            "–".to_owned()
        };
        let figures = [row.kernel, row.engine].map(|figure| format!("{figure:.2}"));
        let [kernel, engine] = figures;
        table.add_row([row.name, row.unit.to_owned(), kernel, engine, ratio]);
    }
    for column in table.column_iter_mut().skip(2) {
        column.set_cell_alignment(CellAlignment::Right);
    }
    table.to_string()
}

fn rows(kernel: &Value, engine: &Value) -> Vec<Row> {
    let mut rows = Vec::new();
    let mut add = |name: String, unit, pair: [&Value; 2]| {
        if let [Some(kernel), Some(engine)] = pair.map(Value::as_f64) {
            rows.push(Row { name, unit, kernel, engine });
        }
    };
    for (group, what) in [("tcp", "TCP, "), ("location", "TCP, one function at ")] {
        for (label, figure) in kernel[group].as_object().into_iter().flatten() {
            add(format!("{what}{label}"), "Gbit/s", [figure, &engine[group][label.as_str()]]);
        }
    }
    for length in kernel["deploy"]["lengths"].as_array().into_iter().flatten() {
        let others = engine["deploy"]["lengths"].as_array().into_iter().flatten();
        if let Some(other) = others.into_iter().find(|other| other["length"] == length["length"]) {
            let name = format!("deploy, {} functions", length["length"]);
            add(name, "ms", [&length["total_ms"], &other["total_ms"]]);
        }
    }
    for (group, key, name, unit) in [
        ("update", "packets_per_second", "changes under datagrams", "packets/s"),
        ("update", "lost", "changes under datagrams, lost", "packets"),
        ("update_tcp", "gbit_per_second", "changes under TCP", "Gbit/s"),
    ] {
        add(name.to_owned(), unit, [&kernel[group][key], &engine[group][key]]);
    }
    rows
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;

    #[test]
    fn each_figure_that_both_have_stands_beside_the_other_with_its_ratio() {
        let kernel = json!({
            "tcp": {"C0": 8.0, "C6": 6.0, "C7": 1.0},
            "deploy": {"lengths": [{"length": 2, "total_ms": 10.0}, {"length": 9}]},
            "update": {"packets_per_second": null, "lost": 0},
            "ok": true,
        });
        let engine = json!({
            "tcp": {"C6": 1.5, "C0": 4.0},
            "deploy": {"lengths": [{"length": 2, "total_ms": 20.0}]},
            "update": {"packets_per_second": 5.0, "lost": 0},
        });
        let found: Vec<(String, f64, f64)> =
            rows(&kernel, &engine).into_iter().map(|r| (r.name, r.kernel, r.engine)).collect();
        let expected = [
            ("TCP, C0", 8.0, 4.0),
            ("TCP, C6", 6.0, 1.5),
            ("deploy, 2 functions", 10.0, 20.0),
            ("changes under datagrams, lost", 0.0, 0.0),
        ];
        assert_eq!(found, expected.map(|(name, a, b)| (name.to_owned(), a, b)));
        let table = beside(&kernel, &engine);
        let line = |word: &str| table.lines().find(|line| line.contains(word)).unwrap().to_owned();
        assert!(line("C6").contains("4.00") && line("deploy").contains("0.50"), "{table}");
        assert!(line("lost").contains('–'), "nothing is a multiple of none: {table}");
    }
}
