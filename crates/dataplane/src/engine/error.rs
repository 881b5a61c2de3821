//! Why a program cannot be run.

use catena_model::id::{NetworkId, PortId};
use catena_model::resource::Encapsulation;
use catena_model::topology::PortNumber;
use catena_model::{PathId, SliceId};

/// Why a program cannot be run.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum CompileError {
    /// A table has more entries than its limit.
    #[error("the program has {have} {what}; at most {max} are carried")]
    TooMany {
        /// What there is too much of.
        what: &'static str,
        /// How many the program has.
        have: usize,
        /// The limit.
        max: usize,
    },
    /// Two entries have the same identity.
    #[error("{what} {id} is in the program twice")]
    Twice {
        /// The kind of entry.
        what: &'static str,
        /// Its identity.
        id: String,
    },
    /// A port is in a network that the program does not hold.
    #[error("port {port} is in network {network}, which is not in the program")]
    PortWithoutNetwork {
        /// The port.
        port: PortId,
        /// The network.
        network: NetworkId,
    },
    /// A rule sends into a path that the program does not hold.
    #[error("rule '{rule}' sends into path {path}, which is not in the program")]
    RuleWithoutPath {
        /// Name of the rule.
        rule: String,
        /// The path.
        path: PathId,
    },
    /// A slice, or a path of one, speaks of a path that the program does not hold.
    #[error("slice {slice} speaks of path {path}, which is not in the program")]
    SliceWithoutPath {
        /// The slice.
        slice: SliceId,
        /// The path.
        path: PathId,
    },
    /// A port number of source routes leads to a port that the program does not hold.
    #[error("port number {number} leads to port {port}, which is not in the program")]
    ExitWithoutPort {
        /// The number.
        number: PortNumber,
        /// The port.
        port: PortId,
    },
    /// A route does not begin with a link of this node.
    #[error("the route to port {to} begins with {}, which is no link of this node",
        first.map_or_else(|| "nothing".to_owned(), |first| format!("port number {first}")))]
    RouteWithoutLink {
        /// Where it leads.
        to: PortId,
        /// Its first port number.
        first: Option<PortNumber>,
    },
    /// Headers shall end at a place that is not on their route.
    #[error(
        "headers on the route to port {to} shall end behind {at} of its ports: that is not before its end, or there is no \
         such route"
    )]
    BorderBesideRoute {
        /// Where the route leads.
        to: PortId,
        /// How many ports are taken before.
        at: u8,
    },
    /// A detour of a route does not lead on.
    #[error(
        "the route to port {to} has a detour from its port {at} to its port {rejoin}, counted from 0: one leads on, and \
         to no further than its last"
    )]
    DetourLeadsBack {
        /// Where the route leads.
        to: PortId,
        /// Place of the port that it is for.
        at: usize,
        /// Place of the port with which the route goes on.
        rejoin: usize,
    },
    /// What the node should divide numbers of ways by is no irreducible polynomial, or a pass before it is left out.
    #[error(
        "the identity {identity:#06x} of pass {pass} is none: passes follow one another from 0, each with a polynomial that no other divides"
    )]
    Identity {
        /// The pass.
        pass: u8,
        /// The coefficients below t^16.
        identity: u16,
    },
    /// A bundled function cannot be made.
    #[error("function '{function}' of path {path} cannot be run: {why}")]
    Function {
        /// Its instance.
        function: String,
        /// The path.
        path: PathId,
        /// What its maker says, or what is missing.
        why: String,
    },
    /// A path identifier lies outside the pool of its encapsulation.
    #[error("path {path} cannot be carried as {}: its identifier is outside the pool", encapsulation.name())]
    PathIdentifier {
        /// The path.
        path: PathId,
        /// The encapsulation.
        encapsulation: Encapsulation,
    },
}

/// A limit that is held.
pub(crate) fn at_most(what: &'static str, have: usize, max: usize) -> Result<(), CompileError> {
    if have > max { Err(CompileError::TooMany { what, have, max }) } else { Ok(()) }
}
