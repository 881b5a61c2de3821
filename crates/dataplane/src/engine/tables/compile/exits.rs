//! Port numbers and routes: what is made of them, and which paths go by them. Knows entries; refuses to know headers.

use super::{Following, edits};
use crate::engine::error::{CompileError, at_most};
use crate::engine::tables::exits::Exits;
use catena_model::entry::Entries;
use catena_model::id::PortId;
use catena_model::limits::ROUTE_PORTS_MAX;
use catena_model::program::{DetourEntry, PathEntry};
use catena_model::topology::PortNumber;
use std::collections::BTreeSet;
use std::sync::Arc;

impl Following<'_> {
    /// Numbers are few, so they are looked at whole where any of them, or a port, is another.
    pub(super) fn follow_exits(&mut self) -> Result<(), CompileError> {
        let has_ports =
            |entries: &Entries| entries.exits.values().any(|exit| exit.link().is_none());
        let former = &self.former.entries;
        let divides_otherwise = !edits(&former.identities, &self.entries.identities).is_empty();
        let are_others = divides_otherwise || !edits(&former.exits, &self.entries.exits).is_empty();
        if are_others || has_ports(self.entries) {
            // The tables of remainders are what takes the longest, and each has kilobytes.
            let divides_as = (!divides_otherwise).then_some(&*self.former.exits);
            self.next.exits = Arc::new(Exits::of(self.entries, divides_as)?);
        }
        for (_, pathlet) in self.next.exits.pathlets() {
            // Its link may have gone since: frames end there by name until the header rests no more.
            check((pathlet.to, &pathlet.ports), &[])?;
            if pathlet.ports.is_empty() {
                return Err(CompileError::RouteWithoutLink { to: pathlet.to, first: None });
            }
        }
        for (_, _, onward) in edits(&self.former.entries.onward, &self.entries.onward) {
            onward.map_or(Ok(()), |way| check((way.to, &way.ports), &way.detours))?;
        }
        let routes = edits(&self.former.entries.routes, &self.entries.routes);
        let borders = edits(&self.former.entries.borders, &self.entries.borders);
        let cut = borders.iter().map(|((_, port, _), ..)| *port);
        let stitches = edits(&self.former.entries.stitches, &self.entries.stitches);
        for (_, _, stitch) in &stitches {
            let before =
                stitch.filter(|stitch| stitch.at == 0).and_then(|stitch| stitch.to.first());
            if let Some((_, to)) = before {
                return Err(CompileError::BorderBesideRoute { to: *to, at: 0 });
            }
        }
        let stitches = stitches.iter().filter_map(|((_, to, ..), ..)| to.first());
        let cut = cut.chain(stitches.map(|(_, port)| *port));
        let turned: BTreeSet<PortId> =
            routes.iter().map(|((_, port), ..)| *port).chain(cut).collect();
        if !are_others && turned.is_empty() {
            return Ok(());
        }
        for route in self.entries.routes.values() {
            self.check((route.to, &route.ports), &route.detours)?;
        }
        for border in self.entries.borders.values() {
            let route = self.entries.routes.get(&(border.node.clone(), border.to));
            let is_on_it = |ports: usize| (1..ports).contains(&border.at.into());
            if !route.is_some_and(|route| is_on_it(route.ports.len())) {
                return Err(CompileError::BorderBesideRoute { to: border.to, at: border.at });
            }
        }
        // Who goes by a route is not written down: all that go by any are looked through.
        let goes_by = |path: &PathEntry| {
            let mut instances = path.hops.iter().flat_map(|hop| &hop.instances);
            are_others || instances.any(|one| turned.contains(&one.ingress))
        };
        let paths = self
            .entries
            .paths
            .values()
            .filter(|path| path.encapsulation.is_source_route() && goes_by(path));
        self.turned.paths.extend(paths.map(|path| path.id));
        Ok(())
    }

    fn check(
        &self,
        (to, ports): (PortId, &[PortNumber]),
        detours: &[DetourEntry],
    ) -> Result<(), CompileError> {
        check((to, ports), detours)?;
        match ports.first() {
            Some(number) if self.next.exits.is_link(*number) => Ok(()),
            first => Err(CompileError::RouteWithoutLink { to, first: first.copied() }),
        }
    }
}

/// Has a header room for a way and its detours, and does each of those lead on?
fn check(
    (to, ports): (PortId, &[PortNumber]),
    detours: &[DetourEntry],
) -> Result<(), CompileError> {
    at_most("ports in one route", ports.len(), ROUTE_PORTS_MAX)?;
    for detour in detours {
        let (at, rejoin) = (usize::from(detour.at), usize::from(detour.rejoin));
        let leads_on = at < rejoin && rejoin < ports.len() && !detour.ports.is_empty();
        if !leads_on {
            return Err(CompileError::DetourLeadsBack { to, at, rejoin });
        }
        at_most("ports in one route", ports.len() + detour.ports.len(), ROUTE_PORTS_MAX)?;
    }
    Ok(())
}
