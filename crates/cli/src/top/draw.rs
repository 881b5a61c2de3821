//! The live view as text. Knows columns and colours; colour never carries a meaning alone.

use super::sample::{Sample, bit_rate, rate, short};
use super::screen::{Page, Screen};
use crate::prediction::seconds;
use catena_model::id::ChainId;
use catena_model::status::{ChainState, NodeReport};
use catena_model::text::is_unseen;
use ratatui::Frame;
use ratatui::layout::{Constraint, Layout, Rect};
use ratatui::style::{Color, Style, Stylize};
use ratatui::text::Line;
use ratatui::widgets::{Cell, Row, Table, TableState};
use std::time::Duration;

const SECONDS_PER_NS: f64 = 1e-9;

/// Draws the whole screen.
pub(super) fn draw(frame: &mut Frame<'_>, screen: &Screen) {
    let rows = [Constraint::Length(3), Constraint::Min(3), Constraint::Length(1)];
    let [head, body, foot] = Layout::vertical(rows).areas(frame.area());
    draw_head(frame, head, screen);
    match screen.page {
        Page::Chains => draw_chains(frame, body, screen),
        Page::Nodes => draw_nodes(frame, body, screen),
        Page::Drops => draw_drops(frame, body, screen),
        Page::Chain(chain) => draw_chain(frame, body, screen, chain),
    }
    frame.render_widget(foot_line(screen), foot);
    // The terminal would obey what people have put into names.
    for cell in &mut frame.buffer_mut().content {
        if cell.symbol().contains(is_unseen) {
            cell.set_symbol("\u{fffd}");
        }
    }
}

/// The health sentence, the packets' account and the pages.
fn draw_head(frame: &mut Frame<'_>, area: Rect, screen: &Screen) {
    let now = &screen.last;
    let connected = now.nodes.iter().filter(|node| node.status.is_connected).count();
    let active = now.chains.iter().filter(|c| c.status.state == ChainState::Active).count();
    let state = match (&screen.trouble, screen.is_paused) {
        (Some(trouble), _) => format!("   {trouble}"),
        (None, true) => "   paused".into(),
        (None, false) => String::new(),
    };
    let total = now.total();
    let (received, bits, dropped) = match &screen.before {
        None => (0.0, 0.0, 0.0),
        Some(before) => {
            let (then, passed) = (before.total(), now.since(before));
            (
                rate(then.received.packets, total.received.packets, passed),
                bit_rate(then.received, total.received, passed),
                rate(then.dropped_total(), total.dropped_total(), passed),
            )
        }
    };
    let lines = vec![
        Line::from(format!(
            "catena {}   nodes {connected}/{}   chains {active} of {} active{state}",
            screen.base,
            now.nodes.len(),
            now.chains.len(),
        ))
        .bold(),
        Line::from(format!(
            "received {}/s  {}bit/s   dropped {}/s   held {}   unaccounted {}   ring full {}",
            short(received),
            short(bits),
            short(dropped),
            total.held,
            total.unaccounted(),
            now.ring_full(),
        )),
        pages(screen),
    ];
    for (line, place) in lines.into_iter().zip(area.rows()) {
        frame.render_widget(line, place);
    }
}

fn pages(screen: &Screen) -> Line<'static> {
    let mark =
        |page: &str, is_open: bool| if is_open { format!("[{page}]") } else { format!(" {page} ") };
    let chains = matches!(screen.page, Page::Chains | Page::Chain(_));
    Line::from(format!(
        "{} {} {}",
        mark("1 chains", chains),
        mark("2 nodes", screen.page == Page::Nodes),
        mark("3 drops", screen.page == Page::Drops),
    ))
}

fn foot_line(screen: &Screen) -> Line<'static> {
    if screen.is_filtering {
        return Line::from(format!("filter: {}▏  enter keeps, esc clears", screen.filter)).bold();
    }
    let filter = match screen.filter.as_str() {
        "" => String::new(),
        filter => format!("   filter: {filter} (esc clears)"),
    };
    Line::from(format!(
        "↑↓ select  enter descend  esc back  / filter  p pause  tab next page  q quit{filter}"
    ))
    .dim()
}

fn draw_chains(frame: &mut Frame<'_>, area: Rect, screen: &Screen) {
    let rows = screen.chains().map(|chain| {
        let now = screen.last.chain(chain.status.chain);
        let (packets, bits, dropped) = match earlier(screen) {
            None => (0.0, 0.0, 0.0),
            Some((before, passed)) => {
                let then = before.chain(chain.status.chain);
                (
                    rate(then.entered.packets, now.entered.packets, passed),
                    bit_rate(then.entered, now.entered, passed),
                    rate(then.dropped, now.dropped, passed),
                )
            }
        };
        let path = chain.status.path.map_or("-".into(), |path| path.to_string());
        Row::new([
            Cell::from(chain.name.clone()),
            Cell::from(chain.status.state.name()).style(colour(chain.status.state)),
            Cell::from(path),
            number(packets),
            number(bits),
            number(dropped),
            Cell::from(now.dropped.to_string()),
            Cell::from(chain.status.reason.clone()),
        ])
    });
    let widths = [20, 9, 8, 8, 8, 8, 10].map(Constraint::Length);
    let widths = widths.into_iter().chain([Constraint::Min(10)]);
    let header = ["chain", "state", "path", "packets/s", "bits/s", "drops/s", "dropped", "reason"];
    table(frame, area, screen, header, rows, widths);
}

fn draw_nodes(frame: &mut Frame<'_>, area: Rect, screen: &Screen) {
    let rows = screen.nodes().map(|report| {
        let status = &report.status;
        let program = if status.acknowledged == status.wanted {
            status.wanted.to_string()
        } else {
            format!("{} of {}", status.acknowledged, status.wanted)
        };
        let agent = if status.is_connected { "ok" } else { "away" };
        let mut cells = vec![
            Cell::from(status.node.to_string()),
            Cell::from(agent).style(if status.is_connected { Color::Green } else { Color::Red }),
            Cell::from(program),
        ];
        cells.extend(node_cells(screen, report));
        Row::new(cells)
    });
    let widths = [20, 6, 12, 11, 11, 8, 10, 12, 10].map(Constraint::Length);
    let header = [
        "node",
        "agent",
        "program",
        "received/s",
        "forwarded/s",
        "drops/s",
        "dropped",
        "unaccounted",
        "ring full",
    ];
    table(frame, area, screen, header, rows, widths);
}

fn node_cells(screen: &Screen, report: &NodeReport) -> Vec<Cell<'static>> {
    let Some(counters) = &report.counters else {
        return ["-"; 6].map(Cell::from).into();
    };
    let now = counters.total();
    let then = earlier(screen).and_then(|(before, passed)| {
        let same = before.nodes.iter().find(|known| known.status.node == report.status.node)?;
        Some((same.counters.as_ref()?.total(), passed))
    });
    let rates = match &then {
        None => [0.0; 3],
        Some((then, passed)) => [
            rate(then.received.packets, now.received.packets, *passed),
            rate(then.forwarded.packets, now.forwarded.packets, *passed),
            rate(then.dropped_total(), now.dropped_total(), *passed),
        ],
    };
    let mut cells: Vec<Cell<'static>> = rates.into_iter().map(number).collect();
    cells.push(Cell::from(now.dropped_total().to_string()));
    cells.push(Cell::from(now.unaccounted().to_string()));
    cells.push(Cell::from(counters.ring_full().to_string()));
    cells
}

fn draw_drops(frame: &mut Frame<'_>, area: Rect, screen: &Screen) {
    let drops = screen.last.drops();
    let rows =
        drops.iter().filter(|(reason, _)| screen.passes(reason.name())).map(|(reason, n)| {
            let per_second = earlier(screen).map_or(0.0, |(before, passed)| {
                let then = before.total().dropped.get(reason).copied().unwrap_or_default();
                rate(then, *n, passed)
            });
            Row::new([
                Cell::from(reason.name()),
                number(per_second),
                Cell::from(n.to_string()),
                Cell::from(reason.sentence()),
            ])
        });
    let widths = [26, 10, 12].map(Constraint::Length).into_iter().chain([Constraint::Min(20)]);
    table(frame, area, screen, ["drop", "packets/s", "packets", "what it means"], rows, widths);
}

fn draw_chain(frame: &mut Frame<'_>, area: Rect, screen: &Screen, chain: ChainId) {
    let [title, hops] = Layout::vertical([Constraint::Length(1), Constraint::Min(2)]).areas(area);
    let known = screen.last.chains.iter().find(|known| known.status.chain == chain);
    let now = screen.last.chain(chain);
    let text = match known {
        None => "this chain is gone".to_owned(),
        Some(known) => format!(
            "{}   {}   entered {}   finished {}   dropped {}   {}",
            known.name,
            known.status.state.name(),
            now.entered.packets,
            now.finished.packets,
            now.dropped,
            known.status.reason,
        ),
    };
    frame.render_widget(Line::from(text).bold(), title);
    let then = earlier(screen).map(|(before, passed)| (before.chain(chain), passed));
    let rows = now.hops.iter().map(|(name, sums)| {
        let (packets, bits) = match &then {
            None => (0.0, 0.0),
            Some((then, passed)) => {
                let before = then.hops.get(name).copied().unwrap_or_default();
                let (from, to) = (before.delivered, sums.delivered);
                (rate(from.packets, to.packets, *passed), bit_rate(from, to, *passed))
            }
        };
        let inside = sums.delivered.packets.saturating_sub(sums.returned.packets);
        [
            Cell::from(name.path.to_string()),
            Cell::from(name.hop.to_string()),
            Cell::from(name.instance.clone()),
            Cell::from(name.node.clone()),
            number(packets),
            number(bits),
            Cell::from(sums.delivered.packets.to_string()),
            Cell::from(sums.returned.packets.to_string()),
            Cell::from(inside.to_string()),
        ]
        .into_iter()
        .chain(screen.last.quantiles(name).map(duration))
        .collect::<Row<'_>>()
    });
    let widths = [6, 3, 16, 10, 9, 7, 10, 10, 8, 9, 9, 9].map(Constraint::Length);
    let header = [
        "path",
        "hop",
        "instance",
        "node",
        "packets/s",
        "bits/s",
        "into it",
        "out of it",
        "not back",
        "p50",
        "p95",
        "p99",
    ];
    table(frame, hops, screen, header, rows, widths);
}

fn table<'r, const N: usize>(
    frame: &mut Frame<'_>,
    area: Rect,
    screen: &Screen,
    header: [&'static str; N],
    rows: impl IntoIterator<Item = Row<'r>>,
    widths: impl IntoIterator<Item = Constraint>,
) {
    let table = Table::new(rows, widths)
        .header(Row::new(header).style(Style::new().bold().underlined()))
        .highlight_symbol("▸ ")
        .row_highlight_style(Style::new().reversed());
    let mut state = TableState::default().with_selected(screen.selected);
    frame.render_stateful_widget(table, area, &mut state);
}

fn earlier(screen: &Screen) -> Option<(&Sample, Duration)> {
    screen.before.as_ref().map(|before| (before, screen.last.since(before)))
}

fn duration(ns: Option<u64>) -> Cell<'static> {
    Cell::from(ns.map_or("-".into(), |ns| seconds(ns as f64 * SECONDS_PER_NS)))
}

fn number(value: f64) -> Cell<'static> {
    Cell::from(short(value))
}

fn colour(state: ChainState) -> Style {
    Style::new().fg(match state {
        ChainState::Active => Color::Green,
        ChainState::Building | ChainState::Updating => Color::Yellow,
        ChainState::Degraded => Color::Red,
    })
}

#[cfg(test)]
mod tests;
