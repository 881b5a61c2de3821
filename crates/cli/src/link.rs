//! `catena link`: the links between nodes, and what was found at their ends.

use crate::connection::Connection;
use crate::failure::Failure;
use crate::output::{Format, block, say, table, tell};
use catena_model::discovery::{LinkCondition, LinkReport, Neighbour, Trust};
use catena_model::topology::PortNumber;
use clap::Subcommand;

#[derive(Subcommand)]
pub(crate) enum LinkCommand {
    /// All links with what is at their other end; `-o wide` draws them, node by node.
    List {
        /// How they are printed.
        #[arg(short, long, value_enum, default_value = "table")]
        output: Format,
    },
    /// One link with all its neighbours.
    Show {
        /// The node and its port, by number or interface: NODE:PORT.
        #[arg(value_name = "NODE:PORT")]
        link: String,
        /// How it is printed.
        #[arg(short, long, value_enum, default_value = "table")]
        output: Format,
    },
}

pub(crate) fn run(connection: &Connection, command: LinkCommand) -> Result<(), Failure> {
    let client = connection.client()?;
    match command {
        LinkCommand::List { output } => {
            let links = client.links()?;
            tell(output, &links, |is_wide| {
                list(&links);
                if is_wide {
                    drawing(&links).iter().for_each(|line| say!("{line}"));
                }
            })
        }
        LinkCommand::Show { link, output } => {
            let link = client.link(&link)?;
            tell(output, &link, |_| show(&link))
        }
    }
}

fn list(links: &[LinkReport]) {
    let mut table = table(["node", "port", "interface", "state", "leads to", "load", "trouble"]);
    for link in links {
        table.add_row([
            link.node.to_string(),
            number(link.number),
            link.interface.clone(),
            link.state.word().into(),
            link.cable.as_ref().map_or_else(|| "-".into(), ToString::to_string),
            load(link),
            link.trouble.clone().unwrap_or_default(),
        ]);
    }
    block(table);
}

fn show(link: &LinkReport) {
    say!(
        "link {}:{}   port number {}   {}",
        link.node,
        link.interface,
        number(link.number),
        link.state.word()
    );
    if let Some(far) = &link.cable {
        say!("leads to {far}   load {}", load(link));
    }
    if let Some(mtu) = link.mtu {
        say!("MTU {mtu}");
    }
    if let Some(trouble) = &link.trouble {
        say!("trouble: {trouble}");
    }
    if link.flooded + link.refused > 0 {
        say!("LLDP frames not read: {} above its rate, {} refused", link.flooded, link.refused);
    }
    let mut shown = table(["neighbour", "its port", "its number", "system", "taken for"]);
    for neighbour in &link.neighbours {
        shown.add_row([
            neighbour.chassis.clone(),
            neighbour.port.clone(),
            number(neighbour.number),
            neighbour.system.clone(),
            taken_for(neighbour),
        ]);
    }
    if !link.neighbours.is_empty() {
        block(shown);
    }
}

/// Each node with its ports, and where each of them leads.
fn drawing(links: &[LinkReport]) -> Vec<String> {
    let mut lines = Vec::new();
    for ports in links.chunk_by(|one, other| one.node == other.node) {
        let node = ports.first().map(|link| link.node.to_string());
        lines.extend([String::new()].into_iter().chain(node));
        for (place, link) in (1..).zip(ports) {
            let branch = if place == ports.len() { '└' } else { '├' };
            lines.push(format!(
                "{branch}─ {} {} {}",
                number(link.number),
                link.interface,
                way(link)
            ));
        }
    }
    lines
}

/// Where a port leads.
fn way(link: &LinkReport) -> String {
    let foreign = link.neighbours.iter().find(|neighbour| neighbour.trust != Trust::Ours);
    match (&link.cable, foreign) {
        (Some(far), _) => format!("──── {far}   load {}", load(link)),
        (None, _) if link.state != LinkCondition::Up => format!("─╳   {}", link.state.word()),
        (None, Some(foreign)) => format!("──?  '{}' ({})", foreign.chassis, foreign.trust.word()),
        (None, None) => "──?".into(),
    }
}

fn taken_for(neighbour: &Neighbour) -> String {
    let complaint = neighbour.trust.complaint();
    let complaint = complaint.map(|complaint| format!("foreign: {complaint}"));
    complaint.unwrap_or_else(|| "a node of this domain".into())
}

fn number(number: Option<PortNumber>) -> String {
    number.map_or_else(|| "-".into(), |number| number.to_string())
}

fn load(link: &LinkReport) -> String {
    let load = link.load_permille;
    load.map_or_else(|| "-".into(), |load| format!("{}.{} %", load / 10, load % 10))
}

#[cfg(test)]
mod tests {
    use super::*;
    use catena_model::discovery::FarEnd;

    fn link(node: &str, port: u8, leads_to: Option<(&str, u8)>) -> LinkReport {
        let far = |(node, port): (&str, u8)| FarEnd {
            node: node.parse().unwrap(),
            number: PortNumber::new(port).unwrap(),
            interface: format!("eth{port}"),
        };
        LinkReport {
            node: node.parse().unwrap(),
            interface: format!("eth{port}"),
            number: PortNumber::new(port),
            state: LinkCondition::Up,
            cable: leads_to.map(far),
            trouble: None,
            load_permille: Some(125),
            mtu: Some(9_000),
            flooded: 0,
            refused: 0,
            neighbours: Vec::new(),
        }
    }

    #[test]
    fn each_node_is_drawn_with_where_its_ports_lead() {
        let stranger = Neighbour {
            chassis: "press".into(),
            port: "1".into(),
            system: String::new(),
            number: None,
            trust: Trust::Unsigned,
        };
        let links = [
            link("leaf1", 1, Some(("spine1", 2))),
            LinkReport { state: LinkCondition::Down, ..link("leaf1", 2, None) },
            LinkReport { neighbours: vec![stranger], ..link("leaf1", 3, None) },
            link("spine1", 2, Some(("leaf1", 1))),
            LinkReport { number: None, state: LinkCondition::NoNumber, ..link("spine1", 9, None) },
        ];
        let drawn = [
            "",
            "leaf1",
            "├─ 1 eth1 ──── spine1:2 (eth2)   load 12.5 %",
            "├─ 2 eth2 ─╳   down",
            "└─ 3 eth3 ──?  'press' (unsigned)",
            "",
            "spine1",
            "├─ 2 eth2 ──── leaf1:1 (eth1)   load 12.5 %",
            "└─ - eth9 ─╳   no-number",
        ];
        assert_eq!(drawing(&links), drawn);
    }
}
