//! `catena watch`: what happens, line by line, until the reader has enough.

use crate::Format;
use crate::connection::Connection;
use crate::failure::Failure;
use crate::output::say;
use crate::receipt;
use catena_model::Event;
use clap::Args;
use std::ops::ControlFlow;
use std::time::{SystemTime, UNIX_EPOCH};

#[derive(Args)]
pub(crate) struct WatchArguments {
    /// Only what concerns the chain or node of this name.
    #[arg(long)]
    only: Option<String>,
    /// How each event is printed: a line for people, or the API's JSON.
    #[arg(short, long, value_enum, default_value = "table")]
    output: Format,
}

pub(crate) fn run(connection: &Connection, arguments: &WatchArguments) -> Result<(), Failure> {
    let client = connection.client()?;
    let only = arguments.only.as_deref();
    let mut trouble = Ok(());
    client.watch(|event| {
        if only.is_some_and(|only| subject(&event) != Some(only)) {
            return ControlFlow::Continue(());
        }
        match arguments.output {
            Format::Table => say!("{}  {}", time_of_day(), sentence(&event)),
            Format::Json => match serde_json::to_string(&event) {
                Ok(line) => say!("{line}"),
                Err(error) => {
                    trouble = Err(Failure::from(error));
                    return ControlFlow::Break(());
                }
            },
        }
        ControlFlow::Continue(())
    })?;
    trouble
}

/// The name of the chain or node that an event is about.
fn subject(event: &Event) -> Option<&str> {
    match event {
        Event::Node { node, .. } => Some(node.as_str()),
        Event::Chain { name, .. } | Event::ChainGone { name, .. } => Some(name),
        Event::Changed { receipt } => Some(&receipt.name),
        Event::Trouble { .. } => None,
    }
}

fn sentence(event: &Event) -> String {
    match event {
        Event::Node { node, is_connected, acknowledged, refusal } => {
            let agent = if *is_connected { "connected" } else { "away" };
            let refusal = refusal.as_ref().map(|reason| format!(", refused: {reason}"));
            format!("node {node}   {agent}, program {acknowledged}{}", refusal.unwrap_or_default())
        }
        Event::Chain { name, status } => {
            let path = status.path.map(|path| format!(", path {path}")).unwrap_or_default();
            let reason = match status.reason.as_str() {
                "" => String::new(),
                reason => format!(": {reason}"),
            };
            format!("chain {name}   {}{path}{reason}", status.state.name())
        }
        Event::ChainGone { name, .. } => format!("chain {name}   gone"),
        Event::Changed { receipt } => {
            format!("chain {}   {}", receipt.name, receipt::line(receipt))
        }
        Event::Trouble { reason: Some(reason) } => format!("trouble   {reason}"),
        Event::Trouble { reason: None } => "trouble   over".into(),
    }
}

/// The time of day in UTC; a clock before 1970 shows midnight.
fn time_of_day() -> String {
    let since = SystemTime::now().duration_since(UNIX_EPOCH).unwrap_or_default().as_secs();
    format!("{:02}:{:02}:{:02}", since / 3_600 % 24, since / 60 % 60, since % 60)
}

#[cfg(test)]
mod tests {
    use super::*;
    use catena_model::id::{BlueprintNumber, ChainId, PathId};
    use catena_model::status::{ChainState, ChainStatus};

    #[test]
    fn each_event_is_a_sentence_about_its_subject() {
        let chain = ChainId(uuid::Uuid::from_u128(1));
        let status =
            |state, reason: &str, path| ChainStatus { chain, state, reason: reason.into(), path };
        let events = [
            (
                Event::Node {
                    node: "host1".parse().unwrap(),
                    is_connected: false,
                    acknowledged: BlueprintNumber(7),
                    refusal: Some("too many rules".into()),
                },
                Some("host1"),
                "node host1   away, program 7, refused: too many rules",
            ),
            (
                Event::Chain {
                    name: "web".into(),
                    status: status(ChainState::Active, "", Some(PathId(42))),
                },
                Some("web"),
                "chain web   active, path 42",
            ),
            (
                Event::Chain {
                    name: "web".into(),
                    status: status(ChainState::Building, "no port", None),
                },
                Some("web"),
                "chain web   building: no port",
            ),
            (Event::ChainGone { chain, name: "web".into() }, Some("web"), "chain web   gone"),
            (Event::Trouble { reason: None }, None, "trouble   over"),
        ];
        for (event, about, text) in events {
            assert_eq!(subject(&event), about);
            assert_eq!(sentence(&event), text);
        }
    }
}
