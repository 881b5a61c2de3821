//! The gate that fragments pass before anything is decided by their ports. Knows where ports matter
//! and what a packet that waits must find again; refuses to know what is learned of a first one.

use super::slices;
use crate::engine::account::counters::Counters;
use crate::engine::action::context::Context;
use crate::engine::encap::PathPosition;
use crate::engine::packet::index::PortIndex;
use crate::engine::packet::parse;
use crate::engine::state::fragments::{
    FragmentName, FragmentScope, FragmentVerdict, FragmentWay, Fragments, Held, Standing,
};
use crate::engine::tables::classifier::with_fields;
use crate::engine::tables::slices::Scope;
use crate::engine::vector::owner::Owner;
use crate::engine::vector::{Step, Work};
use catena_io::BufferPool;
use catena_model::DropReason;
use catena_model::classifier::FieldWord;
use catena_wire::frame::{Fragment, FrameView};
use catena_wire::scalar::IpProtocol;
use catena_wire::varying::VaryingFields;

impl Fragments {
    /// Judges a packet of a port or tunnel by what is known of the others of its packet, if it is a
    /// fragment and anything here depends on ports.
    ///
    /// # Errors
    /// By which name it ends.
    pub(crate) fn judge(
        &mut self,
        work: &mut Work,
        context: &Context<'_>,
    ) -> Result<FragmentVerdict, DropReason> {
        if work.view.fragment == Fragment::Whole || !do_ports_matter(work, context) {
            return Ok(FragmentVerdict::GoesOn);
        }
        check_first(work, context)?;
        let (scope, is_once) = match (work.step, work.owner) {
            (Step::OnPath { position, .. }, _) => {
                let hop = context.tables.positions.place(position).hop;
                (FragmentScope::Path(context.counters.path_ref(position).serial, hop), true)
            }
            (Step::FromFunction(port), Owner::Port { serial, .. }) => {
                let port = context.tables.port(port);
                (FragmentScope::by_port(serial, port, work.view.source), !port.is_shared())
            }
            (_, Owner::Port { serial, .. }) => (FragmentScope::Port(serial), true),
            (_, Owner::Tunnels) => return Ok(FragmentVerdict::GoesOn),
        };
        let way = way(work, context);
        let seen = (work.buffer.bytes(), &mut work.view, &mut work.user);
        match self.resolve(context.now_ns, scope, (is_once, way), seen)? {
            // Nobody waits with what is asked about: where it enters it would end, and what comes
            // out of functions is assumed.
            FragmentVerdict::Orphan(_) if context.is_uncharged => match work.step {
                Step::FromEndpoint(_) => Err(DropReason::FragmentWithoutFirst),
                _ => Ok(FragmentVerdict::GoesOn),
            },
            sight => Ok(sight),
        }
    }

    /// The same for a packet that an aware function sends at a position.
    ///
    /// # Errors
    /// By which name it ends.
    pub(crate) fn judge_headed(
        &mut self,
        work: &mut Work,
        (port, position): (PortIndex, PathPosition),
        context: &Context<'_>,
    ) -> Result<FragmentVerdict, DropReason> {
        if work.view.fragment == Fragment::Whole {
            return Ok(FragmentVerdict::GoesOn);
        }
        check_first(work, context)?;
        let hop = context.tables.positions.place(position).hop;
        let path = context.counters.path_ref(position).serial;
        let scope = FragmentScope::Headed(context.slots.serial(port), path, hop);
        let seen = (work.buffer.bytes(), &mut work.view, &mut work.user);
        match self.resolve(context.now_ns, scope, (true, None), seen)? {
            FragmentVerdict::Orphan(_) if context.is_uncharged => Ok(FragmentVerdict::GoesOn),
            sight => Ok(sight),
        }
    }

    /// Sets a later fragment aside until its first comes.
    pub(crate) fn set_aside(
        &mut self,
        work: Work,
        name: FragmentName,
        position: Option<PathPosition>,
        context: &mut Context<'_>,
    ) {
        let standing = position.map(|position| Standing {
            position,
            path: context.tables.positions.id(position),
            serial: context.counters.path_ref(position).serial,
            hop: context.tables.positions.place(position).hop,
            epoch: context.epoch,
        });
        let (owner, packets) = (work.owner, work.volume.packets);
        context.counters.held(owner, packets);
        if let Some((refused, reason)) = self.hold(context.now_ns, name, work, standing) {
            context.counters.given_back(refused.owner, refused.volume.packets);
            context.end_work(refused, reason);
        }
    }

    /// Ends those that have waited for their first for too long.
    pub(crate) fn end_overdue(
        &mut self,
        now_ns: u64,
        counters: &mut Counters,
        pool: &mut BufferPool,
    ) {
        while let Some(Work { buffer, owner, path, volume, .. }) = self.next_ended(now_ns) {
            counters.given_back(owner, volume.packets);
            counters.dropped(owner, path, DropReason::FragmentWithoutFirst, volume.packets);
            pool.put(buffer);
        }
    }

    /// The next fragment that waited for this first one, where it stands now; those whose port or
    /// path has gone meanwhile end.
    pub(crate) fn next_free(
        &mut self,
        name: &FragmentName,
        context: &mut Context<'_>,
    ) -> Option<(Work, Option<PathPosition>)> {
        while let Some(Held { mut work, standing, .. }) = self.next_of(name) {
            context.counters.given_back(work.owner, work.volume.packets);
            match renew(&mut work, standing, context) {
                Ok(position) => return Some((work, position)),
                Err(reason) => context.end_work(work, reason),
            }
        }
        None
    }
}

/// Lets a fragment that waited stand by the tables in force; answers where on a path that is.
fn renew(
    work: &mut Work,
    standing: Option<Standing>,
    context: &Context<'_>,
) -> Result<Option<PathPosition>, DropReason> {
    let tables = context.tables;
    let position = match standing {
        Some(standing) if standing.epoch == context.epoch => Some(standing.position),
        Some(Standing { position, path, serial, hop, .. }) => {
            let renewed = tables.positions.renew_later(position, path, hop);
            let renewed = renewed.filter(|it| context.counters.path_ref(*it).serial == serial);
            Some(renewed.ok_or(DropReason::PathRemoved)?)
        }
        None => None,
    };
    let port = match work.owner {
        owner if context.slots.is_from_node(owner) => None,
        Owner::Port { slot, .. } => match context.slots.owner(slot) {
            (owner, Some(port)) if owner == work.owner => Some(port),
            _ => return Err(DropReason::UnknownPort),
        },
        Owner::Tunnels => None,
    };
    work.step = match (work.step, port, position) {
        (Step::Headed { encapsulation, .. }, Some(port), _) => Step::Headed { port, encapsulation },
        (_, Some(port), None) if tables.port(port).is_function() => Step::FromFunction(port),
        (_, Some(port), None) => Step::FromEndpoint(port),
        (_, _, Some(position)) => {
            work.path = Some(context.counters.path_ref(position));
            Step::OnPath { position, network: None }
        }
        (_, None, None) => return Err(DropReason::NoPath),
    };
    Ok(position)
}

/// Does a first fragment show what rules look at?
///
/// # Errors
/// It ends before that: whoever put its packet together would see what the rules here did not (RFC 1858).
fn check_first(work: &Work, context: &Context<'_>) -> Result<(), DropReason> {
    let FrameView { fragment, protocol, varying, .. } = work.view;
    if fragment != Fragment::First || protocol != Some(IpProtocol::TCP) {
        return Ok(());
    }
    let mask = context.tables.rules.fields_anywhere();
    let shown = |varying| FieldWord::of(&varying).masked(mask);
    let tcp_flags = Some(varying.tcp_flags.unwrap_or_default());
    let is_hidden = shown(varying) != shown(VaryingFields { tcp_flags, ..varying });
    if is_hidden { Err(DropReason::MalformedTransport) } else { Ok(()) }
}

/// Does it depend on ports what becomes of the packet?
fn do_ports_matter(work: &Work, context: &Context<'_>) -> bool {
    let tables = context.tables;
    match work.step {
        Step::OnPath { .. } => true,
        Step::FromFunction(port) => {
            !parse::is_never_classified(&work.view)
                && (tables.port(port).is_on_path()
                    || tables.rules.could_take(port, None, &work.view))
        }
        Step::FromEndpoint(port) => {
            let network = tables.port(port).network;
            let places = [Scope::port(port), Scope::network(network)];
            !parse::is_never_classified(&work.view)
                && (tables.slices.take_from(&places)
                    || tables.rules.could_take(port, Some(network), &work.view))
        }
        _ => false,
    }
}

/// Which way the packet of a first fragment goes from its port; none: it is none, or there is but
/// one way.
///
/// Of a slice it is its path alone: the datagrams of a tunnel, often of many users, have few names
/// that return soon.
fn way(work: &Work, context: &Context<'_>) -> Option<FragmentWay> {
    let tables = context.tables;
    let flow = work.view.flow.filter(|_| work.view.fragment == Fragment::First)?;
    let (port, network) = match work.step {
        Step::FromEndpoint(port) => (port, Some(tables.port(port).network)),
        Step::FromFunction(port) if tables.rules.could_take(port, None, &work.view) => (port, None),
        _ => return None,
    };
    let sliced = network.and_then(|network| slices::path_of(work, port, network, tables));
    Some(match (sliced, tables.rules.find(port, network, &work.view, &flow)) {
        (Some(path), _) => FragmentWay::of_slice(path),
        // Which instances, and which chains behind the first one, depends on the flow and what it shows.
        (None, Some(_)) => {
            let hash = flow.seeded_hash(tables.choice_seed);
            FragmentWay::of_flow(with_fields(hash, FieldWord::of(&work.view.varying)))
        }
        (None, None) => FragmentWay::PLAIN,
    })
}
