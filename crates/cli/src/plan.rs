//! `catena plan`: what a chain document would change, before it is deployed.

use crate::Format;
use crate::chain;
use crate::connection::Connection;
use crate::failure::Failure;
use crate::output::say;
use catena_client::Draft;
use catena_client::deploy::Deployment;
use catena_model::preview::{ChangeKind, Preview};
use clap::Args;
use std::path::PathBuf;

#[derive(Args)]
pub(crate) struct PlanArguments {
    /// The chain document.
    file: PathBuf,
    /// What removing its chain would do, instead.
    #[arg(long)]
    undeploy: bool,
    /// How it is printed.
    #[arg(short, long, value_enum, default_value = "table")]
    output: Format,
}

pub(crate) fn run(connection: &Connection, arguments: &PlanArguments) -> Result<(), Failure> {
    let document = chain::read(&arguments.file)?;
    let draft = Draft::open(&connection.client()?)?;
    if arguments.undeploy {
        Deployment::undeploy(draft.client(), &document.name())?;
    } else {
        Deployment::apply(draft.client(), &document)?;
    }
    let preview = draft.preview()?;
    match arguments.output {
        Format::Json => say!("{}", serde_json::to_string_pretty(&preview)?),
        Format::Table => {
            let verb = if arguments.undeploy { "undeploy" } else { "deploy" };
            let apply = format!("catena chain {verb} {}", arguments.file.display());
            for line in lines(&preview, &apply) {
                say!("{line}");
            }
        }
    }
    if preview.is_empty() { Ok(()) } else { Err(Failure::changes()) }
}

/// The preview for people.
fn lines(preview: &Preview, apply: &str) -> Vec<String> {
    if preview.is_empty() {
        return vec!["no changes".into()];
    }
    let mut lines = Vec::new();
    for chain in &preview.chains {
        let verb = match chain.kind {
            ChangeKind::Create => "new",
            ChangeKind::Update => "changed",
            ChangeKind::Delete => "removed",
        };
        lines.push(format!(
            "chain {} {verb}   blueprint {} → {}",
            chain.name, preview.from, preview.to
        ));
        lines.extend(chain.lines.iter().map(|line| format!("  {line}")));
    }
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
    let count = |kind| preview.chains.iter().filter(|chain| chain.kind == kind).count();
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
    use catena_model::preview::{ChainChange, NodeChange};

    fn preview() -> Preview {
        Preview {
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
        }
    }

    #[test]
    fn a_preview_names_the_change_the_nodes_and_what_is_interrupted() {
        let mut preview = preview();
        let expected = [
            "chain web changed   blueprint 118 → 121",
            "  ~ v1 ─► v7   was: v7 ─► v1",
            "node host1   3 programs   paths +1 −1, rules +1 −1",
            "disruption   none: 1 path swapped make-before-break",
            "changes: 0 create, 1 update, 0 delete. Apply with: catena chain deploy web.json",
        ];
        assert_eq!(lines(&preview, "catena chain deploy web.json"), expected);
        preview.disruption = vec!["node 'host2' is away".into()];
        let told = lines(&preview, "");
        assert!(told.contains(&"disruption   node 'host2' is away".to_owned()), "{told:#?}");
    }

    #[test]
    fn a_preview_without_changes_says_so() {
        let mut preview = preview();
        preview.chains.clear();
        preview.nodes.clear();
        assert_eq!(lines(&preview, ""), ["no changes"]);
    }
}
