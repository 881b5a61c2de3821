//! `catena path compare`: what a chain would cost under each encapsulation. Knows how to tell it; refuses to work it
//! out. What is measured is `path_live`'s.

use crate::connection::Connection;
use crate::failure::Failure;
use crate::output::{Format, block, say, table, tell};
use crate::path_live::{self, LiveArguments};
use catena_model::resource::Encapsulation;
use catena_model::status::{ComparedLeg, Comparison, NodeEntries};
use catena_model::topology::NodeRole;
use clap::Args;

#[derive(Args)]
pub(crate) struct CompareArguments {
    /// Name or id of the chain.
    chain: String,
    /// These encapsulations alone, one after the other, such as nsh,source-route/native.
    #[arg(long, value_delimiter = ',', value_parser = encapsulation)]
    encap: Vec<Encapsulation>,
    #[command(flatten)]
    live: LiveArguments,
    /// How it is printed; wide: each header, and each node.
    #[arg(short, long, value_enum, default_value = "table")]
    output: Format,
}

fn encapsulation(name: &str) -> Result<Encapsulation, String> {
    let known = || Encapsulation::ALL.map(Encapsulation::name).join(", ");
    Encapsulation::of_name(name).ok_or_else(|| format!("it is none; use {}", known()))
}

pub(crate) fn run(connection: &Connection, arguments: &CompareArguments) -> Result<(), Failure> {
    let stop = arguments.live.stop()?;
    let client = connection.client()?;
    let mut compared = client.compare(&arguments.chain)?;
    if !arguments.encap.is_empty() {
        let wanted =
            |one: &Encapsulation| compared.iter().find(|it| it.encapsulation == *one).cloned();
        compared = arguments.encap.iter().filter_map(wanted).collect();
    }
    if let Some(stop) = stop {
        let chain = (&client, arguments.chain.as_str());
        return path_live::run(chain, &compared, &arguments.live, stop, arguments.output);
    }
    tell(arguments.output, &compared, |is_wide| {
        summary(&compared);
        for one in compared.iter().filter(|one| is_wide && one.trouble.is_none()) {
            say!("{}", one.encapsulation.title());
            legs(&one.legs);
            entries(&one.entries);
        }
    })
}

fn summary(compared: &[Comparison]) {
    let mut table = table([
        "encapsulation",
        "headers",
        "bytes in each",
        "ports",
        "entries at hosts",
        "at switches",
        "in the way",
    ]);
    for one in compared {
        let of_legs =
            |value: &dyn Fn(&ComparedLeg) -> Option<usize>| span(one.legs.iter().filter_map(value));
        let at = |role: NodeRole| {
            let entries = one.entries.iter().filter(|entries| entries.role == role).map(total);
            if one.trouble.is_some() { "-".to_owned() } else { entries.sum::<usize>().to_string() }
        };
        table.add_row([
            one.encapsulation.title(),
            if one.trouble.is_some() { "-".into() } else { written(&one.legs).to_string() },
            of_legs(&|leg| Some(leg.added_bytes)),
            of_legs(&|leg| leg.ports),
            at(NodeRole::Host),
            at(NodeRole::Switch),
            one.trouble.clone().unwrap_or_default(),
        ]);
    }
    block(table);
}

/// The least and the most.
fn span(values: impl Iterator<Item = usize>) -> String {
    let mut sorted: Vec<usize> = values.collect();
    sorted.sort_unstable();
    match (sorted.first(), sorted.last()) {
        (Some(least), Some(most)) if least == most => least.to_string(),
        (Some(least), Some(most)) => format!("{least} to {most}"),
        _ => "-".into(),
    }
}

const fn total(entries: &NodeEntries) -> usize {
    entries.paths + entries.rules + entries.routes + entries.exits + entries.onward
}

fn written(legs: &[ComparedLeg]) -> usize {
    legs.iter().filter(|leg| leg.is_written).count()
}

fn legs(legs: &[ComparedLeg]) {
    let mut table = table(["from", "to", "function", "header", "bytes", "ports"]);
    for leg in legs {
        table.add_row([
            leg.from.to_string(),
            leg.to.to_string(),
            leg.function.clone(),
            if leg.is_written { "written" } else { "goes on" }.to_owned(),
            leg.added_bytes.to_string(),
            leg.ports.map_or_else(|| "-".into(), |ports| ports.to_string()),
        ]);
    }
    block(table);
}

fn entries(nodes: &[NodeEntries]) {
    let mut table = table(["node", "role", "paths", "rules", "routes", "exits", "onward"]);
    for node in nodes {
        let counts = [node.paths, node.rules, node.routes, node.exits, node.onward];
        let row = [node.node.to_string(), node.role.word().to_owned()];
        table.add_row(row.into_iter().chain(counts.map(|count| count.to_string())));
    }
    block(table);
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_span_is_one_number_where_all_are_alike() {
        assert_eq!(span([74, 74].into_iter()), "74");
        assert_eq!(span([12, 11, 14].into_iter()), "11 to 14");
        assert_eq!(span(std::iter::empty()), "-");
    }

    #[test]
    fn a_name_that_is_no_encapsulation_is_refused_with_those_that_are() {
        assert_eq!(encapsulation("nsh"), Ok(Encapsulation::Nsh));
        let refusal = encapsulation("gre").unwrap_err();
        assert!(refusal.contains("nsh, mpls, source-route/native"), "{refusal}");
    }
}
