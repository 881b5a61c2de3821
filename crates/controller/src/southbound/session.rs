//! Drives one agent's session: bytes in, bytes out, news to the reconciler. What a message means
//! is decided by the state machine in `protocol`.

use super::fleet::{Fleet, Membership, Reply, Taken};
use super::{instances, links, setups};
use crate::reconcile::{self, NodeNews, Signals};
use catena_model::id::PortId;
use catena_model::program::{Locator, SegmentPlace, Underlay};
use catena_model::topology::NodePlace;
use catena_model::{Answer, BlueprintNumber, NodeName};
use catena_protocol::message::{self, FromAgent, Hello, PortStates, ToAgent, from_agent, to_agent};
use catena_protocol::session::{ControllerOutput, ControllerSession, NodeEvent};
use std::collections::{BTreeMap, BTreeSet};
use std::net::{IpAddr, Ipv4Addr, Ipv6Addr};
use std::sync::Arc;
use std::time::Duration;
use tokio::sync::mpsc;
use tonic::{Status, Streaming};
use uuid::Uuid;

/// How long an agent may take to introduce itself.
const HELLO_WAIT: Duration = Duration::from_secs(5);
/// Questions that one session remembers.
const PENDING_MAX: usize = 256;

/// Smallest MTU of a data network, in bytes: what IPv6 asks of every link (RFC 8200 section 5).
const UNDERLAY_MTU_MIN: u16 = 1_280;

/// What an agent gets.
pub(crate) type Outgoing = mpsc::Sender<Result<ToAgent, Status>>;

/// Serves one agent until either side ends.
pub(crate) async fn converse(
    node: NodeName,
    mut incoming: Streaming<FromAgent>,
    outgoing: Outgoing,
    fleet: Arc<Fleet>,
    signals: Signals,
) {
    let first = tokio::time::timeout(HELLO_WAIT, incoming.message()).await;
    let Ok(Ok(Some(first))) = first else {
        refuse(&outgoing, "the agent did not introduce itself in time").await;
        return;
    };
    let agent = introduced(&first);
    // Who is refused takes no other's place.
    if let Err(error) = ControllerSession::new(node.clone(), Vec::new()).accept(first.clone()) {
        tracing::warn!(%node, "session refused: {error}");
        refuse(&outgoing, &error.to_string()).await;
        return;
    }
    let mut member = fleet.join(&node, agent);
    let number = member.session;
    let mut session = ControllerSession::new(node.clone(), std::mem::take(&mut member.may_run));
    session.accept(first).ok();
    tracing::info!(%node, session = number, "agent connected");
    let news = News { node: node.clone(), session: number, signals };
    if let Err(reason) = carry(session, member, &mut incoming, &outgoing, &news, &fleet).await {
        tracing::info!(%node, session = number, "session ended: {reason}");
        refuse(&outgoing, &reason).await;
    }
    fleet.leave(&node, number);
    let _ = news.tell(NodeNews::Lost).await;
}

/// What the agent calls itself.
fn introduced(first: &FromAgent) -> String {
    match &first.message {
        Some(from_agent::Message::Hello(hello)) => hello.agent.clone(),
        _ => String::new(),
    }
}

async fn refuse(outgoing: &Outgoing, reason: &str) {
    let _ = outgoing.send(Err(Status::failed_precondition(reason))).await;
}

/// Tells the reconciler about one node.
struct News {
    node: NodeName,
    session: u64,
    signals: Signals,
}

impl News {
    async fn tell(&self, news: NodeNews) -> Result<(), String> {
        let signal = reconcile::News::Node { node: self.node.clone(), session: self.session, news };
        self.signals.send(signal).await.map_err(|_| "the controller is stopping".into())
    }
}

async fn carry(
    mut session: ControllerSession,
    mut member: Membership,
    incoming: &mut Streaming<FromAgent>,
    outgoing: &Outgoing,
    news: &News,
    fleet: &Fleet,
) -> Result<(), String> {
    let mut pending: BTreeMap<u64, Reply> = BTreeMap::new();
    let mut told = None;
    let mut to_run = fleet.instances.follow(&news.node);
    // Who runs nothing and never did is not told so.
    let mut runs_instances = false;
    let connection = fleet.telemetry.connect();
    loop {
        while let Some(output) = session.poll_output() {
            match output {
                ControllerOutput::Send(message) => {
                    if matches!(message.message, Some(to_agent::Message::Delta(_))) {
                        fleet.may_run(&news.node, news.session, session.may_run());
                    }
                    outgoing.send(Ok(message)).await.map_err(|_| "the agent went away")?;
                }
                ControllerOutput::Event(NodeEvent::Answer(body)) => {
                    answer(&mut pending, &body, &news.node);
                }
                ControllerOutput::Event(NodeEvent::FlowsAsked(asked)) => {
                    let program = member.wanted.borrow().clone();
                    if let Some(message) = setups::answer(&asked, program.as_ref(), &news.node) {
                        outgoing.send(Ok(message)).await.map_err(|_| "the agent went away")?;
                    }
                }
                ControllerOutput::Event(NodeEvent::PathEnds(told)) => {
                    fleet.telemetry.tell(&news.node, connection, &told);
                }
                ControllerOutput::Event(NodeEvent::Instances(states)) => {
                    fleet.instances.tell(&news.node, news.session, &states);
                    if !std::mem::replace(&mut runs_instances, true) {
                        to_run.mark_changed();
                    }
                }
                ControllerOutput::Event(event) => {
                    if matches!(event, NodeEvent::Acknowledged(_)) {
                        fleet.may_run(&news.node, news.session, session.may_run());
                    }
                    tell(event, news, fleet, &mut told).await?;
                }
            }
        }
        tokio::select! {
            message = incoming.message() => match message {
                Ok(Some(message)) => session.accept(message).map_err(|e| e.to_string())?,
                Ok(None) => return Err("the agent closed it".into()),
                Err(status) => return Err(format!("the link broke ({})", status.code())),
            },
            changed = member.wanted.changed() => {
                changed.map_err(|_| "the controller is stopping")?;
                let wanted = member.wanted.borrow_and_update().clone();
                if let Some(wanted) = wanted {
                    session.want(wanted);
                }
            }
            changed = to_run.changed() => {
                changed.map_err(|_| "the controller is stopping")?;
                let specs = to_run.borrow_and_update().clone();
                let Some(specs) = specs.filter(|specs| runs_instances || !specs.is_empty()) else { continue };
                runs_instances = true;
                for part in instances::messages(&specs) {
                    let message = Some(to_agent::Message::Instances(part));
                    outgoing.send(Ok(ToAgent { message })).await.map_err(|_| "the agent went away")?;
                }
            }
            ask = member.asks.recv() => {
                let ask = ask.ok_or("a newer session of this node has begun")?;
                pending.retain(|_, reply| !reply.is_closed());
                if pending.len() < PENDING_MAX {
                    pending.insert(session.ask(ask.question), ask.reply);
                }
            }
            () = news.signals.closed() => return Err("the controller is stopping".into()),
        }
    }
}

/// Tells what an event means. Its links are news to the reconciler when others are among them than were `told`.
async fn tell(
    event: NodeEvent,
    news: &News,
    fleet: &Fleet,
    told: &mut Option<BTreeSet<String>>,
) -> Result<(), String> {
    let (links, capacity) = match &event {
        NodeEvent::Hello(hello) => {
            let clock = Some(hello.clock).filter(|clock| *clock != 0);
            fleet.telemetry.note_clock(&news.node, clock);
            (Some(links::interfaces(hello.links.clone())?), Some(hello.capacity()))
        }
        _ => (None, None),
    };
    let links = match event {
        NodeEvent::Links(states) => {
            let states = links::states(states)?;
            let interfaces = states.iter().map(|link| link.interface.clone()).collect();
            fleet.links.tell(&news.node, news.session, states);
            Some(interfaces)
        }
        event => {
            let known = translate(event)?;
            if let NodeNews::Met { place: NodePlace { underlay, segments, .. }, .. } = &known {
                place(fleet, &news.node, (*underlay, *segments))?;
            }
            news.tell(known).await?;
            links
        }
    };
    if let Some(capacity) = capacity {
        news.tell(NodeNews::Capacity(capacity)).await?;
    }
    if let Some(links) = links.filter(|links| told.as_ref() != Some(links)) {
        news.tell(NodeNews::Links(links.clone())).await?;
        *told = Some(links);
    }
    Ok(())
}

fn answer(pending: &mut BTreeMap<u64, Reply>, answer: &message::Answer, node: &NodeName) {
    let Some(reply) = pending.remove(&answer.request) else { return };
    match serde_json::from_slice::<Answer>(&answer.body) {
        Ok(Answer::Counters(counters)) if counters.node != *node => {
            tracing::warn!(%node, "counters came in the name of '{}'", counters.node);
        }
        Ok(answer) => {
            let _ = reply.send(answer);
        }
        Err(error) => tracing::warn!(%node, "an answer cannot be read: {error}"),
    }
}

fn translate(event: NodeEvent) -> Result<NodeNews, String> {
    Ok(match event {
        NodeEvent::Hello(hello) => met(&hello)?,
        NodeEvent::Acknowledged(number) => NodeNews::Acknowledged(BlueprintNumber(number)),
        NodeEvent::Refused { number, reason } => {
            NodeNews::Refused { number: BlueprintNumber(number), reason }
        }
        NodeEvent::Ports(states) => ports(states)?,
        NodeEvent::Links(_)
        | NodeEvent::Answer(_)
        | NodeEvent::FlowsAsked(_)
        | NodeEvent::PathEnds(_)
        | NodeEvent::Instances(_) => {
            return Err("nobody asked".into());
        }
    })
}

fn met(hello: &Hello) -> Result<NodeNews, String> {
    let address = underlay_address(&hello.underlay_address)?;
    let mtu = u16::try_from(hello.underlay_mtu)
        .ok()
        .filter(|mtu| *mtu >= UNDERLAY_MTU_MIN)
        .ok_or_else(|| {
            let mtu = hello.underlay_mtu;
            format!("the data network's MTU is at least {UNDERLAY_MTU_MIN} bytes, not {mtu}")
        })?;
    let running = BlueprintNumber(hello.program_number);
    let role = hello.node_role().map_err(|unknown| unknown.to_string())?;
    let protocol = hello.protocol_version;
    let segments = segments(hello)?;
    let underlay = Underlay { address, mtu };
    let place = NodePlace { underlay, role, protocol, is_edge: false, segments };
    Ok(NodeNews::Met { place, running })
}

/// An address that other hosts may send to.
fn underlay_address(text: &str) -> Result<IpAddr, String> {
    let refuse = |what: &str| {
        format!(
            "'{text}' is {what} on the data network; start the agent with an address of its node \
             that the others reach (--underlay)"
        )
    };
    let address: IpAddr = text.parse().map_err(|_| refuse("no address"))?;
    // Two ways to write one address are one address.
    let address = address.to_canonical();
    match address {
        _ if address.is_unspecified() => Err(refuse("no address of anybody")),
        _ if address.is_loopback() => Err(refuse("the loopback address, not one")),
        _ if address.is_multicast() => Err(refuse("a multicast group, not an address")),
        IpAddr::V4(Ipv4Addr::BROADCAST) => Err(refuse("the broadcast address, not a node's")),
        _ => Ok(address),
    }
}

/// A node's place in the IPv6 underlay, if it says one.
fn segments(hello: &Hello) -> Result<Option<SegmentPlace>, String> {
    let (address, locator) = (&hello.segment_address, &hello.locator);
    if address.is_empty() && locator.is_empty() {
        return Ok(None);
    }
    let refuse = |what: &str| {
        format!(
            "'{address}' is {what} in the IPv6 underlay; start the agent with an address of its node that the others \
             reach (--underlay6)"
        )
    };
    let own: Ipv6Addr = address.parse().map_err(|_| refuse("no address"))?;
    match own {
        _ if own.is_unspecified() => return Err(refuse("no address of anybody")),
        _ if own.is_loopback() => return Err(refuse("the loopback address, not one")),
        _ if own.is_multicast() => return Err(refuse("a multicast group, not an address")),
        _ if own.is_unicast_link_local() => return Err(refuse("of one link alone")),
        _ if own.to_ipv4_mapped().is_some() => return Err(refuse("no address of IPv6")),
        _ => {}
    }
    let locator: Locator = locator.parse().map_err(|why| {
        format!("'{locator}' is no locator: {why}; give the agent a prefix of 48 bits (--locator)")
    })?;
    if locator.contains(own) {
        return Err(format!(
            "the address {own} is below the locator {locator}, whose packets never come to the node's host: give the \
             agent an address outside of it (--underlay6)"
        ));
    }
    Ok(Some(SegmentPlace { address: own, locator }))
}

fn place(
    fleet: &Fleet,
    node: &NodeName,
    (underlay, segments): (Underlay, Option<SegmentPlace>),
) -> Result<(), String> {
    fleet.place(node, underlay.address, segments).map_err(|Taken { what, by, is_connected }| {
        let (state, or) = match is_connected {
            true => ("connected", String::new()),
            false => ("away", format!(", or forget that node: catena node forget {by}")),
        };
        format!(
            "{what} is that of node '{by}', which is {state}; start this agent with its own{or}"
        )
    })
}

fn ports(states: PortStates) -> Result<NodeNews, String> {
    let state = |state: catena_protocol::message::PortState| {
        let id = Uuid::parse_str(&state.port_id)
            .map_err(|_| format!("'{}' is no port", state.port_id))?;
        Ok((PortId(id), state.reason))
    };
    let states = states.ports.into_iter().map(state).collect::<Result<Vec<_>, String>>()?;
    let (bound, unbound): (Vec<_>, Vec<_>) =
        states.into_iter().partition(|(_, reason)| reason.is_empty());
    Ok(NodeNews::Ports {
        bound: bound.into_iter().map(|(id, _)| id).collect(),
        unbound: unbound.into_iter().collect(),
    })
}
