//! `catena plan`: what a document would change, before it is applied, and what to expect of its chains then.

use crate::connection::Connection;
use crate::document::{DocumentArgument, Written};
use crate::failure::Failure;
use crate::output::{Format, progress, say, tell};
use crate::packing;
use crate::placement::{self, PlaceArguments};
use crate::prediction::{self, Expected, PredictArguments};
use catena_client::deploy::Deployment;
use catena_client::{Client, Draft};
use catena_model::preview::{ChangeKind, Plan, ResourceChange};
use clap::Args;
use serde_json::Value;

#[derive(Args)]
pub(crate) struct PlanArguments {
    #[command(flatten)]
    document: DocumentArgument,
    /// What removing all that it declares would do, instead.
    #[arg(long)]
    undeploy: bool,
    #[command(flatten)]
    place: PlaceArguments,
    #[command(flatten)]
    predict: PredictArguments,
    /// How it is printed.
    #[arg(short, long, value_enum, default_value = "table")]
    output: Format,
}

pub(crate) fn run(connection: &Connection, arguments: &PlanArguments) -> Result<(), Failure> {
    let written = arguments.document.read()?;
    let client = connection.client()?;
    let draft = draft(&client, &written, arguments.undeploy)?;
    if arguments.place.place {
        return placement::run(&draft, &written.document, &arguments.place, arguments.output);
    }
    if !arguments.undeploy {
        tell_taken(&placement::take(&draft, &written.document)?);
    }
    let plan = draft.plan()?;
    let expected = match arguments.undeploy {
        true => Vec::new(),
        false => prediction::of_document(&client, &draft, &written.document, &arguments.predict)?,
    };
    let undeploy = if arguments.undeploy { " --undeploy" } else { "" };
    let file = arguments.document.file.display();
    let apply = format!("catena apply -f {file}{undeploy} --plan {}", plan.plan);
    tell(arguments.output, &with_predictions(&plan, &expected)?, |_| {
        let expected_lines = expected.iter().flat_map(prediction::lines);
        let shared = prediction::shared(&expected);
        for line in lines(&plan, &apply).into_iter().chain(expected_lines).chain(shared) {
            say!("{line}");
        }
    })?;
    if plan.is_empty() { Ok(()) } else { Err(Failure::changes()) }
}

/// The plan for programs.
fn with_predictions(plan: &Plan, expected: &[Expected]) -> Result<Value, Failure> {
    let mut told = serde_json::to_value(plan)?;
    if let Value::Object(told) = &mut told {
        told.insert("predictions".into(), expected.iter().map(Expected::json).collect());
    }
    Ok(told)
}

/// Hosts that were taken are told beside what is printed for programs.
pub(crate) fn tell_taken(taken: &[String]) {
    for line in taken {
        progress(format_args!("{line}"));
    }
}

/// A draft in which a document is declared, or nothing is left of it.
pub(crate) fn draft(
    client: &Client,
    written: &Written,
    is_removed: bool,
) -> Result<Draft, Failure> {
    let draft = if is_removed {
        Deployment::draft_without(client, &written.document)
    } else {
        Deployment::draft(client, &written.document)
    };
    draft.map_err(|error| written.failure(error))
}

/// A change in a word.
const fn verb(kind: ChangeKind) -> &'static str {
    match kind {
        ChangeKind::Create => "new",
        ChangeKind::Update => "changed",
        ChangeKind::Delete => "removed",
    }
}

/// The plan for people.
fn lines(plan: &Plan, apply: &str) -> Vec<String> {
    if plan.is_empty() {
        return vec!["no changes".into()];
    }
    let preview = &plan.preview;
    let mut lines = Vec::new();
    for chain in &preview.chains {
        let verb = verb(chain.kind);
        lines.push(format!(
            "chain {} {verb}   blueprint {} → {}",
            chain.name, preview.from, preview.to
        ));
        lines.extend(chain.lines.iter().map(|line| format!("  {line}")));
    }
    // What a chain is made of is told with it.
    let is_told = |kind: &str| ["chain", "rule", "instance"].contains(&kind);
    for ResourceChange { kind, name, change } in &plan.resources {
        if !is_told(kind) {
            lines.push(format!("{kind} {name} {}", verb(*change)));
        }
    }
    lines.extend(plan.packing.iter().flat_map(packing::lines));
    for node in &preview.nodes {
        let programs = match node.programs {
            1 => "1 program".into(),
            several => format!("{several} programs"),
        };
        lines.push(format!("node {}   {programs}   {}", node.node, node.tables.join(", ")));
    }
    let swapped = match preview.paths_swapped {
        0 => String::new(),
        1 => ": 1 path swapped make-before-break".into(),
        paths => format!(": {paths} paths swapped make-before-break"),
    };
    match preview.disruption.as_slice() {
        [] => lines.push(format!("disruption   none{swapped}")),
        sentences => {
            lines.extend(sentences.iter().map(|sentence| format!("disruption   {sentence}")));
        }
    }
    let count = |kind| plan.resources.iter().filter(|change| change.change == kind).count();
    lines.push(format!(
        "changes: {} create, {} update, {} delete. Apply with: {apply}",
        count(ChangeKind::Create),
        count(ChangeKind::Update),
        count(ChangeKind::Delete),
    ));
    lines
}

#[cfg(test)]
mod tests {
    use super::*;
    use catena_model::id::BlueprintNumber;
    use catena_model::preview::{ChainChange, NodeChange, Preview};

    fn plan() -> Plan {
        let resource = |kind: &str, name: &str| ResourceChange {
            kind: kind.into(),
            name: name.into(),
            change: ChangeKind::Update,
        };
        let preview = Preview {
            from: BlueprintNumber(118),
            to: BlueprintNumber(121),
            chains: vec![ChainChange {
                name: "web".into(),
                kind: ChangeKind::Update,
                lines: vec!["~ v1 ─► v7   was: v7 ─► v1".into()],
            }],
            nodes: vec![NodeChange {
                node: "host1".parse().unwrap(),
                programs: 3,
                tables: vec!["paths +1 −1".into(), "rules +1 −1".into()],
            }],
            paths_swapped: 1,
            disruption: Vec::new(),
        };
        let resources = vec![resource("function", "ids"), resource("chain", "web")];
        Plan { plan: 17, preview, resources, packing: None }
    }

    #[test]
    fn a_plan_names_the_change_the_nodes_and_what_is_interrupted() {
        let mut plan = plan();
        let expected = [
            "chain web changed   blueprint 118 → 121",
            "  ~ v1 ─► v7   was: v7 ─► v1",
            "function ids changed",
            "node host1   3 programs   paths +1 −1, rules +1 −1",
            "disruption   none: 1 path swapped make-before-break",
            "changes: 0 create, 2 update, 0 delete. Apply with: catena apply -f web.yaml",
        ];
        assert_eq!(lines(&plan, "catena apply -f web.yaml"), expected);
        plan.preview.disruption = vec!["node 'host2' is away".into()];
        let told = lines(&plan, "");
        assert!(told.contains(&"disruption   node 'host2' is away".to_owned()), "{told:#?}");
    }

    #[test]
    fn a_plan_without_changes_says_so() {
        let mut plan = plan();
        plan.preview.chains.clear();
        plan.preview.nodes.clear();
        assert!(!plan.is_empty(), "a resource alone is a change");
        plan.resources.clear();
        assert_eq!(lines(&plan, ""), ["no changes"]);
    }
}
