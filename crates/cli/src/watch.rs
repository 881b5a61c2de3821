//! `catena watch`: what happens, a line for each change or for each event, until the reader has
//! enough.

use crate::chain_names::ChainNames;
use crate::connection::Connection;
use crate::failure::Failure;
use crate::output::{Format, say, tell};
use crate::receipt;
use crate::story::Story;
use catena_client::Client;
use catena_model::event::EventLine;
use catena_model::status::ChainStatus;
use catena_model::{Event, NodeName};
use clap::Args;
use std::collections::BTreeSet;
use std::ops::ControlFlow;
use std::sync::mpsc::{self, Receiver, RecvTimeoutError};
use std::time::{Duration, Instant, SystemTime, UNIX_EPOCH};

/// Events that may wait to be told; the controller waits for nobody, and puts more together.
const WAITING_MAX: usize = 64;

#[derive(Args)]
pub(crate) struct WatchArguments {
    /// Only what concerns the chain or node of this name.
    #[arg(long)]
    only: Option<String>,
    /// First what was declared after this revision, as an earlier watch told it.
    #[arg(long)]
    after: Option<u64>,
    #[command(flatten)]
    form: WatchForm,
}

/// How much is told, and how.
#[derive(Args, Clone, Copy)]
pub(crate) struct WatchForm {
    /// A line for each event, not one for each change.
    #[arg(short, long)]
    verbose: bool,
    /// How it is printed: lines for people, or each event as the API's JSON.
    #[arg(short, long, value_enum, default_value = "table")]
    output: Format,
}

pub(crate) fn run(connection: &Connection, arguments: &WatchArguments) -> Result<(), Failure> {
    let only = arguments.only.as_deref();
    tell_events(&connection.client()?, only, arguments.after, arguments.form)
}

/// Tells events as they come; `only` those of the chain or node of a name.
pub(crate) fn tell_events(
    client: &Client,
    only: Option<&str>,
    after: Option<u64>,
    form: WatchForm,
) -> Result<(), Failure> {
    let is_told = |line: &EventLine| only.is_none_or(|only| is_about(&line.event, only));
    match form.output {
        Format::Table | Format::Wide if !form.verbose => tell_changes(client, is_told, after),
        // Each event is one of a stream: a line of its own.
        Format::Json => tell_each(client, is_told, after, Format::Jsonl),
        format => tell_each(client, is_told, after, format),
    }
}

fn tell_each(
    client: &Client,
    is_told: impl Fn(&EventLine) -> bool,
    after: Option<u64>,
    format: Format,
) -> Result<(), Failure> {
    let mut trouble = Ok(());
    let mut names = ChainNames::default();
    client.watch(after, |line| {
        if !is_told(&line) {
            return ControlFlow::Continue(());
        }
        names.hear(&line.event);
        let told = tell(format, &line, |_| say!("{}  {}", time_of_day(), sentence(&line, &names)));
        if told.is_err() {
            trouble = told;
            return ControlFlow::Break(());
        }
        ControlFlow::Continue(())
    })?;
    trouble
}

/// Tells each change when it is over, or as it is when that takes too long.
fn tell_changes(
    client: &Client,
    is_told: impl Fn(&EventLine) -> bool + Send,
    after: Option<u64>,
) -> Result<(), Failure> {
    std::thread::scope(|scope| {
        let (events, heard) = mpsc::sync_channel(WAITING_MAX);
        let reader = scope.spawn(move || {
            client.watch(after, |line| {
                let is_heard = !is_told(&line) || events.send(line).is_ok();
                if is_heard { ControlFlow::Continue(()) } else { ControlFlow::Break(()) }
            })
        });
        tell_story(&heard, |line| say!("{}  {line}", time_of_day()));
        let end = reader.join().map_err(|_| Failure::failed("the reader of events ended"))?;
        Ok(end?)
    })
}

/// Goes on until no more events come.
fn tell_story(events: &Receiver<EventLine>, mut say: impl FnMut(String)) {
    let mut story = Story::default();
    loop {
        let now = Instant::now();
        // Also while one event follows the other.
        story.tell_due(now).into_iter().for_each(&mut say);
        let left = story.due().map_or(Duration::MAX, |due| due.saturating_duration_since(now));
        match events.recv_timeout(left) {
            Ok(line) => story.hear(&line, Instant::now()).into_iter().for_each(&mut say),
            Err(RecvTimeoutError::Timeout) => {}
            Err(RecvTimeoutError::Disconnected) => break,
        }
    }
    story.end().into_iter().for_each(say);
}

/// The name of the chain or node that an event is about.
fn subject(event: &Event) -> Option<&str> {
    match event {
        Event::Node { node, .. } | Event::Link { node, .. } | Event::LinkGone { node, .. } => {
            Some(node.as_str())
        }
        Event::Chain { name, .. }
        | Event::ChainWithdrawing { name, .. }
        | Event::ChainGone { name, .. } => Some(name),
        Event::Changed { receipt } => Some(&receipt.name),
        Event::Declared(declared) => declared.name.as_deref(),
        Event::Cable { .. } | Event::Trouble { .. } => None,
    }
}

/// Is an event about the chain or node of this name?
fn is_about(event: &Event, name: &str) -> bool {
    match event {
        Event::Cable { ends, .. } => ends.iter().any(|end| end.node.as_str() == name),
        event => subject(event) == Some(name),
    }
}

pub(crate) fn sentence(line: &EventLine, names: &ChainNames) -> String {
    let chain = |chain, name| format!("chain {}", names.words(chain, name));
    match &line.event {
        Event::Declared(declaration) => {
            let verb = if declaration.is_removed { "removed" } else { "declared" };
            let resource = names.resource(declaration);
            format!("{resource}   {verb}, revision {}", line.revision)
        }
        Event::Node { node, is_connected, acknowledged, refusal } => {
            let agent = if *is_connected { "connected" } else { "away" };
            let refusal = refusal.as_ref().map(|reason| format!(", refused: {reason}"));
            format!("node {node}   {agent}, program {acknowledged}{}", refusal.unwrap_or_default())
        }
        Event::Link { node, interface, number, state, trouble } => {
            let number = number.map(|number| format!(", port {number}")).unwrap_or_default();
            let trouble =
                trouble.as_ref().map(|trouble| format!(": {trouble}")).unwrap_or_default();
            format!("link {node}:{interface}   {}{number}{trouble}", state.word())
        }
        Event::LinkGone { node, interface } => format!("link {node}:{interface}   gone"),
        Event::Cable { ends: [one, other], is_gone } => {
            format!("cable {one} – {other}   {}", if *is_gone { "gone" } else { "found" })
        }
        Event::Chain { name, status } => {
            format!("{}   {}", chain(status.chain, name), state(status))
        }
        Event::ChainWithdrawing { chain: id, name, nodes } => {
            format!("{}   {}", chain(*id, name), withdrawing(nodes))
        }
        Event::ChainGone { chain: id, name } => format!("{}   gone", chain(*id, name)),
        Event::Changed { receipt } => {
            format!("{}   {}", chain(receipt.chain, &receipt.name), receipt::line(receipt))
        }
        Event::Trouble { reason: Some(reason) } => format!("trouble   {reason}"),
        Event::Trouble { reason: None } => "trouble   over".into(),
    }
}

/// What is to be known of a chain that nobody declares any more.
pub(crate) fn withdrawing(nodes: &BTreeSet<NodeName>) -> String {
    let nodes: Vec<&str> = nodes.iter().map(NodeName::as_str).collect();
    format!("removed, but still in force on {}", nodes.join(", "))
}

/// The state of a chain in words.
pub(crate) fn state(status: &ChainStatus) -> String {
    let path = status.path.map(|path| format!(", path {path}")).unwrap_or_default();
    let reason = match status.reason.as_str() {
        "" => String::new(),
        reason => format!(": {reason}"),
    };
    format!("{}{path}{reason}", status.state.name())
}

/// The time of day in UTC; a clock before 1970 shows midnight.
fn time_of_day() -> String {
    let since = SystemTime::now().duration_since(UNIX_EPOCH).unwrap_or_default().as_secs();
    format!("{:02}:{:02}:{:02}", since / 3_600 % 24, since / 60 % 60, since % 60)
}

#[cfg(test)]
mod tests {
    use super::*;
    use catena_model::event::Declaration;
    use catena_model::id::{BlueprintNumber, ChainId, PathId};
    use catena_model::status::ChainState;

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
            (
                Event::Declared(Declaration {
                    is_removed: false,
                    kind: "function".into(),
                    id: "f".into(),
                    name: Some("ids".into()),
                }),
                Some("ids"),
                "function ids   declared, revision 7",
            ),
            (
                Event::ChainWithdrawing {
                    chain,
                    name: "web".into(),
                    nodes: ["n1", "n2"].map(|node| node.parse().unwrap()).into(),
                },
                Some("web"),
                "chain web   removed, but still in force on n1, n2",
            ),
            (Event::ChainGone { chain, name: "web".into() }, Some("web"), "chain web   gone"),
            (Event::Trouble { reason: None }, None, "trouble   over"),
        ];
        for (event, about, text) in events {
            assert_eq!(subject(&event), about);
            let line = EventLine { revision: 7, event };
            assert_eq!(sentence(&line, &ChainNames::default()), text);
        }
    }
}
