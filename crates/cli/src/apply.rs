//! `catena apply`: makes everything as a document says, all of it in one revision or nothing.

use crate::connection::Connection;
use crate::document::{DocumentArgument, Written};
use crate::failure::Failure;
use crate::optimize::optimize;
use crate::output::{Format, progress, say, tell};
use crate::packing;
use crate::placement;
use crate::plan::{draft, tell_taken};
use crate::receipt;
use catena_client::{Client, ClientError};
use catena_model::preview::{
    Applied, ApplyRequest, ChangeKind, Draining, MOVED_ON, NodeProgress, SliceWaiting,
    SlicesDraining, SlicesProgress,
};
use catena_model::status::ChainState;
use clap::Args;
use std::time::{Duration, Instant};

/// Longest wait: the controller holds no answer back for longer.
const WAIT_MAX_S: u64 = 20;
/// How often it is tried again when something else is declared meanwhile.
const TRIES_MAX: usize = 5;

#[derive(Args)]
pub(crate) struct ApplyArguments {
    #[command(flatten)]
    document: DocumentArgument,
    /// Only if nothing has been declared since this plan was made.
    #[arg(long)]
    plan: Option<u64>,
    /// Remove what the document declares, instead.
    #[arg(long)]
    undeploy: bool,
    /// Send firewalls without rules that nothing would miss and with neighbours said as one, proved to do the same with
    /// every packet; what would change what becomes of packets is only suggested. The files stay as they are. Rules
    /// with 'monitored' in their comment stay.
    #[arg(long, conflicts_with = "undeploy")]
    optimize: bool,
    /// Wait until chains and slices are active and their former paths are gone; say how far the
    /// nodes are and what became of packets on old paths. Exit code 1 when something of that is not
    /// over in time.
    #[arg(long)]
    wait: bool,
    /// For at most so many seconds; without it, as long as the controller waits for chains (5 s).
    #[arg(long, requires = "wait", value_name = "SECONDS",
          value_parser = clap::value_parser!(u64).range(1..=WAIT_MAX_S))]
    timeout: Option<u64>,
    /// How it is printed.
    #[arg(short, long, value_enum, default_value = "table")]
    output: Format,
}

pub(crate) fn run(connection: &Connection, arguments: &ApplyArguments) -> Result<(), Failure> {
    let client = connection.client()?;
    let mut document = arguments.document.read()?;
    if arguments.optimize {
        for told in optimize(&mut document.document)? {
            progress(format_args!("{told}"));
        }
    }
    let began = Instant::now();
    let applied = apply(&client, &document, arguments)?;
    let Some(applied) = applied else {
        say!("no changes");
        return Ok(());
    };
    tell(arguments.output, &applied, |_| {
        for line in lines(&applied, arguments.wait.then(|| began.elapsed())) {
            say!("{line}");
        }
    })?;
    match unfinished(&applied).filter(|_| arguments.wait) {
        None => Ok(()),
        Some(what) => Err(Failure::failed(what)),
    }
}

/// What was not over when the waiting was.
fn unfinished(applied: &Applied) -> Option<String> {
    let inactive = applied.chains.iter().find(|chain| chain.status.state != ChainState::Active);
    if let Some(chain) = inactive {
        return Some(format!(
            "chain '{}' is declared but {}: {}",
            chain.name,
            chain.status.state.name(),
            chain.status.reason
        ));
    }
    if let Some(Draining { chain, path, reason }) = applied.draining.first() {
        return Some(format!(
            "it is declared, but the former path {path} of chain '{chain}' still drains: {reason}. \
             'catena path list' shows when it is gone; wait longer with --timeout"
        ));
    }
    unfinished_slices(applied.slices.as_ref()?)
}

fn unfinished_slices(slices: &SlicesProgress) -> Option<String> {
    let SlicesProgress { count, settled, waiting, draining } = slices;
    if let Some(SliceWaiting { slice, reason }) = waiting {
        return Some(format!(
            "it is declared, but {settled} of {count} slices are in force; slice '{slice}' is not: \
             {reason}. 'catena slice show {slice}' tells more; wait longer with --timeout"
        ));
    }
    let SlicesDraining { paths, reason } = draining.as_ref()?;
    Some(format!(
        "it is declared, but {paths} former paths of slices still drain: {reason}. Wait longer \
         with --timeout"
    ))
}

/// None: there is nothing to change.
fn apply(
    client: &Client,
    document: &Written,
    arguments: &ApplyArguments,
) -> Result<Option<Applied>, Failure> {
    let wait_ms = arguments.timeout.map(|seconds| seconds.saturating_mul(1_000));
    let request = ApplyRequest { plan: arguments.plan, wait: arguments.wait, wait_ms };
    let mut tries = 0;
    loop {
        tries += 1;
        let draft = draft(client, document, arguments.undeploy)?;
        let mut taken = match arguments.undeploy {
            true => Vec::new(),
            false => placement::take(&draft, &document.document)?,
        };
        let plan = draft.plan()?;
        if plan.is_empty() {
            return Ok(None);
        }
        taken.extend(plan.packing.iter().flat_map(packing::lines));
        match draft.apply(request) {
            Ok(applied) => {
                tell_taken(&taken);
                return Ok(Some(applied));
            }
            // Nobody asked for a certain plan: what was declared meanwhile is taken into account.
            Err(ClientError::Refused { status: 409, ref kind, .. })
                if kind == MOVED_ON && arguments.plan.is_none() && tries < TRIES_MAX => {}
            Err(error) => return Err(error.into()),
        }
    }
}

fn lines(applied: &Applied, waited: Option<Duration>) -> Vec<String> {
    let count = |kind| applied.resources.iter().filter(|change| change.change == kind).count();
    let mut lines = vec![format!(
        "revision {}   {} created, {} updated, {} deleted",
        applied.revision,
        count(ChangeKind::Create),
        count(ChangeKind::Update),
        count(ChangeKind::Delete),
    )];
    let Some(waited) = waited else { return lines };
    for chain in &applied.chains {
        let path = chain.status.path.map(|path| format!(", path {path}")).unwrap_or_default();
        lines.push(format!("chain {}   {}{path}", chain.name, chain.status.state.name()));
    }
    if !applied.nodes.is_empty() {
        let nodes: Vec<String> = applied.nodes.iter().map(node).collect();
        lines.push(format!("{}      {:.1} s", nodes.join("  "), waited.as_secs_f64()));
    }
    lines.extend(applied.receipts.iter().map(receipt::line));
    let draining = |one: &Draining| {
        format!("draining chain {} · former path {} · {}", one.chain, one.path, one.reason)
    };
    lines.extend(applied.draining.iter().map(draining));
    if let Some(slices) = &applied.slices {
        lines.push(format!("slices   {} of {} in force", slices.settled, slices.count));
        let draining = |left: &SlicesDraining| {
            format!("draining slices · {} former paths · {}", left.paths, left.reason)
        };
        lines.extend(slices.draining.as_ref().map(draining));
    }
    lines
}

fn node(node: &NodeProgress) -> String {
    let NodeProgress { node, is_connected, wanted, acknowledged } = node;
    match (is_connected, acknowledged >= wanted) {
        (true, true) => format!("{node} {acknowledged} ✓"),
        (true, false) => format!("{node} {acknowledged} of {wanted}"),
        (false, _) => format!("{node} away"),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use catena_model::id::{BlueprintNumber, ChainId, PathId};
    use catena_model::preview::ResourceChange;
    use catena_model::status::{ChainStatus, ChainSummary};

    #[test]
    fn who_waits_reads_how_far_each_node_is() {
        let progress = |name: &str, is_connected, acknowledged| NodeProgress {
            node: name.parse().unwrap(),
            is_connected,
            wanted: BlueprintNumber(119),
            acknowledged: BlueprintNumber(acknowledged),
        };
        let status = ChainStatus {
            chain: ChainId(uuid::Uuid::from_u128(1)),
            state: ChainState::Active,
            reason: String::new(),
            path: Some(PathId(42)),
        };
        let applied = Applied {
            revision: 15,
            resources: vec![ResourceChange {
                kind: "chain".into(),
                name: "web".into(),
                change: ChangeKind::Create,
            }],
            chains: vec![ChainSummary { name: "web".into(), status }],
            receipts: Vec::new(),
            nodes: vec![
                progress("n1", true, 119),
                progress("n2", true, 118),
                progress("n3", false, 7),
            ],
            draining: vec![Draining {
                chain: "web".into(),
                path: PathId(41),
                reason: "node 'n3' is not connected".into(),
            }],
            slices: Some(SlicesProgress {
                count: 4,
                settled: 3,
                waiting: Some(SliceWaiting {
                    slice: "teid-7".into(),
                    reason: "its chain has no path yet".into(),
                }),
                draining: Some(SlicesDraining { paths: 2, reason: "packets are inside".into() }),
            }),
        };
        let expected = ["revision 15   1 created, 0 updated, 0 deleted"];
        assert_eq!(lines(&applied, None), expected);
        let expected = [
            expected[0],
            "chain web   active, path 42",
            "n1 119 ✓  n2 118 of 119  n3 away      1.8 s",
            "draining chain web · former path 41 · node 'n3' is not connected",
            "slices   3 of 4 in force",
            "draining slices · 2 former paths · packets are inside",
        ];
        assert_eq!(lines(&applied, Some(Duration::from_millis(1_800))), expected);
        let left = unfinished(&applied).unwrap();
        assert!(left.contains("former path 41 of chain 'web' still drains"), "{left}");
        let applied = Applied { draining: Vec::new(), ..applied };
        let left = unfinished(&applied).unwrap();
        assert!(left.contains("3 of 4 slices are in force; slice 'teid-7' is not"), "{left}");
        let slices = applied.slices.clone().unwrap();
        let of = |slices| unfinished(&Applied { slices, ..applied.clone() });
        let left = of(Some(SlicesProgress { waiting: None, ..slices.clone() })).unwrap();
        assert!(left.contains("2 former paths of slices still drain: packets are"), "{left}");
        assert_eq!(of(Some(SlicesProgress { waiting: None, draining: None, ..slices })), None);
        assert_eq!(of(None), None);
    }
}
