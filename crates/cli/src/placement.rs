//! Hosts for the functions of a document's chains: told by `catena plan --place`, and taken where a document wants a
//! function run and says not where. Knows how to tell and to take them; refuses to choose one.

use crate::failure::Failure;
use crate::output::{Format, Table, block, say, table, tell};
use catena_client::deploy::{ChainDocument, ChainStep, Document};
use catena_client::{ClientError, Draft};
use catena_model::NodeName;
use catena_model::placement::{PlacedFunction, PlacementRequest, Proposal, WayCost};
use catena_model::resource::{FunctionSettings, FunctionTemplate};
use catena_model::status::FunctionReport;
use clap::Args;
use std::collections::BTreeMap;

#[derive(Args)]
pub(crate) struct PlaceArguments {
    /// Propose hosts for functions that stand nowhere, instead: those that cost a chain the fewest racks, then the
    /// fewest ports in its headers.
    #[arg(long, conflicts_with = "undeploy")]
    pub(crate) place: bool,
    /// These functions may stand elsewhere, too, one after the other.
    #[arg(long, requires = "place", value_delimiter = ',', value_name = "FUNCTIONS")]
    free: Vec<String>,
    /// Functions of one chain that a host takes.
    #[arg(long, requires = "place", default_value_t = 1, value_name = "N")]
    per_host: usize,
}

pub(crate) fn run(
    draft: &Draft,
    document: &Document,
    arguments: &PlaceArguments,
    output: Format,
) -> Result<(), Failure> {
    let chains: Vec<String> = document.chains.iter().map(ChainDocument::name).collect();
    if chains.is_empty() {
        return Err(Failure::failed("the document has no chain whose functions could be placed"));
    }
    let (free, per_host) = (arguments.free.clone(), arguments.per_host);
    let proposals = draft.placement(&PlacementRequest { chains, free, per_host })?;
    tell(output, &proposals, |_| proposals.iter().for_each(show))
}

/// What the API answers who may not see nodes.
const FORBIDDEN: u16 = 403;

/// Takes proposed hosts into a draft, for each function of the document that has a template without one, and stands
/// nowhere; what was taken, or why nothing was, line by line.
pub(crate) fn take(draft: &Draft, document: &Document) -> Result<Vec<String>, Failure> {
    let mut told = Vec::new();
    let mut unplaced: BTreeMap<String, FunctionReport> = BTreeMap::new();
    for function in document.functions.iter().filter(|function| function.template.is_some()) {
        let known = draft.client().function(&function.name)?;
        // What nodes run is placed when the draft is looked at, by what hosts have.
        let is_free = |template: &FunctionTemplate| template.on.is_empty() && !template.is_placed();
        if known.template.as_ref().is_some_and(is_free) {
            unplaced.insert(known.name.clone(), known);
        }
    }
    for chain in &document.chains {
        // A chain may go through what another has just been given a host for.
        let is_asked_for = |step: &ChainStep| unplaced.contains_key(&step.name);
        if !chain.chain.iter().any(is_asked_for) {
            continue;
        }
        let chains = vec![chain.name()];
        let request = PlacementRequest { chains, free: Vec::new(), per_host: 1 };
        let proposals = match draft.placement(&request) {
            Err(ClientError::Refused { status: FORBIDDEN, .. }) => {
                told.push("no hosts are proposed: only who operates the nodes sees them".into());
                break;
            }
            proposals => proposals?,
        };
        for proposal in &proposals {
            if let Some(trouble) = &proposal.trouble {
                told.push(format!("chain {}   no hosts are proposed: {trouble}", proposal.chain));
            }
            for placed in &proposal.functions {
                let Some(host) = &placed.host else { continue };
                let Some(known) = unplaced.remove(&placed.function) else { continue };
                put_on(draft, known, host)?;
                let way = proof(proposal);
                told.push(format!("function {}   on {host}, as proposed: {way}", placed.function));
            }
        }
    }
    Ok(told)
}

fn put_on(draft: &Draft, known: FunctionReport, host: &NodeName) -> Result<(), Failure> {
    let FunctionReport { id, on_failure, keeps_mac, mut template, .. } = known;
    if let Some(template) = &mut template {
        template.on = [host.clone()].into();
    }
    let settings = FunctionSettings { on_failure, keeps_mac, template };
    draft.client().put_function(&id.to_string(), &settings)?;
    Ok(())
}

fn show(proposal: &Proposal) {
    say!("{}", title(proposal));
    if proposal.trouble.is_some() {
        return;
    }
    block(hosts(&proposal.functions));
    block(costs(proposal));
    say!("{}", proof(proposal));
}

fn title(proposal: &Proposal) -> String {
    let Proposal { chain, trouble, functions, .. } = proposal;
    match trouble {
        Some(trouble) => format!("chain {chain}   no proposal: {trouble}"),
        None if functions.iter().all(|function| function.host.is_none()) => {
            format!(
                "chain {chain}   every function stands somewhere; --free names those that may move"
            )
        }
        None => format!("chain {chain}"),
    }
}

fn hosts(functions: &[PlacedFunction]) -> Table {
    let names = |nodes: &[NodeName]| match nodes {
        [] => "-".to_owned(),
        some => some.iter().map(NodeName::as_str).collect::<Vec<_>>().join(", "),
    };
    let mut table = table(["function", "now", "proposed", "rack"]);
    for function in functions {
        let host = function.host.as_ref().map_or("stays", NodeName::as_str);
        let row = [function.function.clone(), names(&function.now), host.to_owned()];
        table.add_row(row.into_iter().chain([names(&function.rack)]));
    }
    table
}

fn costs(proposal: &Proposal) -> Table {
    let mut table = table(["way", "racks", "ports", "pathlets of ten"]);
    let ways = [("now", proposal.now), ("proposed", proposal.proposed)];
    for (name, cost) in ways {
        table.add_row([name.to_owned()].into_iter().chain(cells(cost)));
    }
    table
}

fn cells(cost: Option<WayCost>) -> [String; 3] {
    let unknown = || "-".to_owned();
    cost.map_or_else(
        || [unknown(), unknown(), unknown()],
        |cost| {
            let pathlets = cost.pathlets.map_or_else(unknown, |count| count.to_string());
            [cost.racks.to_string(), cost.ports.to_string(), pathlets]
        },
    )
}

/// How good the proposal is.
fn proof(proposal: &Proposal) -> String {
    let Some(WayCost { racks, ports, .. }) = proposal.proposed.filter(|_| !proposal.is_proved)
    else {
        return "no other hosts cost less".into();
    };
    format!(
        "not all hosts were weighed: any choice has {} racks or more, and {} ports or more (gap {}, {})",
        proposal.racks_least,
        proposal.ports_least,
        racks.saturating_sub(proposal.racks_least),
        ports.saturating_sub(proposal.ports_least),
    )
}

#[cfg(test)]
mod tests {
    use super::*;

    fn proposal() -> Proposal {
        let node = |name: &str| name.parse::<NodeName>().unwrap();
        let function = |function: &str, now: &[&str], host: Option<&str>| PlacedFunction {
            function: function.into(),
            now: now.iter().map(|name| node(name)).collect(),
            host: host.map(node),
            rack: host.map(|_| node("leaf1")).into_iter().collect(),
        };
        let cost = |racks, ports| Some(WayCost { racks, ports, pathlets: Some(1) });
        Proposal {
            chain: "web".into(),
            trouble: None,
            functions: vec![function("v1", &["h1", "h3"], None), function("v2", &[], Some("h2"))],
            now: None,
            proposed: cost(2, 8),
            racks_least: 2,
            ports_least: 8,
            is_proved: true,
        }
    }

    #[test]
    fn a_proposal_names_hosts_what_they_cost_and_how_good_they_are() {
        let mut proposal = proposal();
        let told = hosts(&proposal.functions).to_string();
        let words = |line: &str| line.split_whitespace().map(str::to_owned).collect::<Vec<_>>();
        let rows: Vec<Vec<String>> = told.lines().map(words).collect();
        assert_eq!(
            rows[1..],
            [vec!["v1", "h1,", "h3", "stays", "-"], vec!["v2", "-", "h2", "leaf1"]]
        );
        let costs = costs(&proposal).to_string();
        let rows: Vec<Vec<String>> = costs.lines().map(words).collect();
        assert_eq!(rows[1..], [["now", "-", "-", "-"], ["proposed", "2", "8", "1"]]);
        assert_eq!(proof(&proposal), "no other hosts cost less");
        (proposal.is_proved, proposal.ports_least) = (false, 5);
        assert_eq!(
            proof(&proposal),
            "not all hosts were weighed: any choice has 2 racks or more, and 5 ports or more (gap 0, 3)"
        );
        proposal.trouble = Some("3 functions are to be placed".into());
        assert_eq!(title(&proposal), "chain web   no proposal: 3 functions are to be placed");
        (proposal.trouble, proposal.functions) = (None, proposal.functions[..1].to_vec());
        assert!(title(&proposal).contains("--free"), "{}", title(&proposal));
    }
}
