//! Why an intent is refused: what, why and what to do next, in the names people gave.

/// What no data plane could carry.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum PlanError {
    /// More functions than a path has positions.
    #[error(
        "chain '{chain}' has {functions} functions, more than the limit of {limit}; \
         split it into two chains"
    )]
    TooManyFunctions {
        /// The chain.
        chain: String,
        /// Its length.
        functions: usize,
        /// [`catena_model::limits::CHAIN_FUNCTIONS_MAX`].
        limit: usize,
    },
    /// Its packets have no place for what nodes would write of them.
    #[error(
        "chain '{chain}' has telemetry, for which {carried} has no room; take its telemetry away first \
         ('telemetry': null), or carry it by one of {takers}"
    )]
    NoRoomForRecords {
        /// The chain.
        chain: String,
        /// What carries it.
        carried: &'static str,
        /// What has room.
        takers: String,
    },
    /// Nothing leads its packets over segments.
    #[error(
        "chain '{chain}' visits segments on its way ('via'), over which {carried} leads no packets; carry it by one \
         of {takers}, or let an operator take them away first ('via': {{}})"
    )]
    NoWayOverSegments {
        /// The chain.
        chain: String,
        /// What carries it.
        carried: &'static str,
        /// What leads over segments.
        takers: String,
    },
    /// Packets cannot visit these segments on their way to a function.
    #[error("chain '{chain}' visits segments on its way to '{function}' ('via'), and {fault}")]
    BadVia {
        /// The chain.
        chain: String,
        /// The function.
        function: String,
        /// What does not fit, and what to do.
        fault: String,
    },
    /// A function sees half of what it must see.
    #[error(
        "function '{function}' understands a connection by both of its directions, and chain '{chain}' leads one of \
         them through it; make the chain symmetric (`symmetric: true`)"
    )]
    OneDirection {
        /// The chain.
        chain: String,
        /// The function.
        function: String,
    },
    /// A bundled function leads from one network into another, and the chain does not.
    #[error("function '{function}' leads chain '{chain}' from one network into another: {fault}")]
    BadCrossing {
        /// The chain.
        chain: String,
        /// The function.
        function: String,
        /// What does not fit, and what to do.
        fault: String,
    },
    /// A packet would go round.
    #[error(
        "graph '{graph}' comes back to chain '{chain}': packets would go round in it; remove one of \
         the branches"
    )]
    GraphLoop {
        /// The graph.
        graph: String,
        /// A chain of the circle.
        chain: String,
    },
    /// A packet would be dropped on its way through the chains.
    #[error(
        "in graph '{graph}' a route from chain '{chain}' on has {length} functions and steps between \
         chains, more than the limit of {limit}; shorten a chain or remove a branch"
    )]
    RouteTooLong {
        /// The graph.
        graph: String,
        /// Where the route begins.
        chain: String,
        /// Its length.
        length: usize,
        /// [`catena_model::limits::CHAIN_FUNCTIONS_MAX`].
        limit: usize,
    },
    /// The answers of a symmetric chain cannot be told in bounded room.
    #[error(
        "the answers of chain '{chain}' would need more than {limit} rules, one for each route to it \
         and combination of classifiers; use fewer classifiers, fewer chains before it, or make it \
         one-way"
    )]
    TooManyAnswers {
        /// The chain.
        chain: String,
        /// [`catena_model::limits::CHAIN_ANSWER_RULES_MAX`].
        limit: usize,
    },
    /// Nobody knows what the answers of a symmetric chain show where a classifier of its packets looks.
    #[error(
        "classifier '{rule}' looks at the {title}, and nobody knows the {title} of answers to such \
         packets; make chain '{chain}' one-way, and another chain for the way back"
    )]
    UnknownAnswers {
        /// The chain.
        chain: String,
        /// The classifier.
        rule: String,
        /// What the field is called in sentences.
        title: &'static str,
    },
    /// More instances than one function may have.
    #[error(
        "function '{function}' has {instances} instances, more than the limit of {limit}; \
         remove some or split the function"
    )]
    TooManyInstances {
        /// The function.
        function: String,
        /// Its instances.
        instances: usize,
        /// [`catena_model::limits::FUNCTION_INSTANCES_MAX`].
        limit: usize,
    },
    /// A function that knows nothing of chains has one way out for each way in.
    #[error(
        "instances '{first}' and '{second}' both enter at port '{ingress}' but leave by '{first_egress}' \
         and '{second_egress}': an unaware function serves one egress per ingress; \
         use another ingress port for one of them"
    )]
    TwoEgresses {
        /// The instance met first.
        first: String,
        /// The other.
        second: String,
        /// Their common ingress.
        ingress: String,
        /// Egress of the first.
        first_egress: String,
        /// Egress of the other.
        second_egress: String,
    },
    /// The same flow would leave the same port at two positions of one chain.
    #[error(
        "chain '{chain}' leaves port '{egress}' at two positions ('{first}' and '{second}'): a packet \
         that comes back does not say which; give one of them another egress port"
    )]
    AmbiguousReturn {
        /// The chain.
        chain: String,
        /// The port.
        egress: String,
        /// The instance met first.
        first: String,
        /// The other.
        second: String,
    },
    /// The port that a packet on a source route comes out of would not say at which position it is.
    #[error(
        "chain '{chain}' is carried by {carried} and enters port '{ingress}' at two positions ('{first}' and \
         '{second}'): the port that a packet comes out of says which function it is for; give one of them another \
         ingress port, or the chain another encapsulation"
    )]
    AmbiguousArrival {
        /// The chain.
        chain: String,
        /// Its encapsulation.
        carried: &'static str,
        /// The port.
        ingress: String,
        /// The instance met first.
        first: String,
        /// The other.
        second: String,
    },
    /// Nodes would choose instances by what the header does not keep.
    #[error(
        "chain '{chain}' is carried by {carried}, which does not keep the MAC that function '{function}' chooses among \
         its instances by; take {field} out of its fields, or give the chain another encapsulation"
    )]
    LostField {
        /// The chain.
        chain: String,
        /// Its encapsulation.
        carried: &'static str,
        /// The field.
        field: &'static str,
        /// The function.
        function: String,
    },
    /// A packet that comes back would not say of which network it is.
    #[error(
        "chain '{chain}' brings packets of network '{network}' out of port '{egress}', where chains of \
         another network come out too, and a packet that comes back does not say of which it is: \
         {why}, and the function does not declare that it keeps MAC addresses; give the chain a \
         function of its own, take networks whose subnets do not overlap, or declare 'keeps_mac' if \
         frames leave the function with the source MAC that they came with"
    )]
    NetworksMeet {
        /// The chain.
        chain: String,
        /// Its network.
        network: String,
        /// The port of the function.
        egress: String,
        /// Why the addresses do not tell.
        why: &'static str,
    },
    /// An instance that would not understand what it is given.
    #[error(
        "chain '{chain}' is carried by {carried}, but instance '{instance}' speaks {spoken}; \
         carry the chain by {spoken}, or use an instance that speaks no encapsulation"
    )]
    ForeignEncapsulation {
        /// The chain.
        chain: String,
        /// Its encapsulation.
        carried: &'static str,
        /// The instance.
        instance: String,
        /// What it speaks.
        spoken: &'static str,
    },
    /// One instance on two nodes.
    #[error(
        "instance '{instance}' has its ingress on node '{ingress}' and its egress on node '{egress}'; \
         both ports of an instance must be on one node; correct binding:host_id"
    )]
    TornInstance {
        /// The instance.
        instance: String,
        /// Node of the ingress.
        ingress: String,
        /// Node of the egress.
        egress: String,
    },
    /// Rules that start in different networks would need different ends.
    #[error(
        "the rules of chain '{chain}' start in networks '{first}' and '{second}': a chain delivers into \
         one network; use one chain for each"
    )]
    TwoSourceNetworks {
        /// The chain.
        chain: String,
        /// A network.
        first: String,
        /// Another.
        second: String,
    },
    /// What a function sends of its own would come back to it.
    #[error(
        "chain '{chain}' starts at port '{port}', which belongs to one of its own functions: what \
         that function sends would come back to it; give the classifier another logical_source_port"
    )]
    SourceIsFunction {
        /// The chain.
        chain: String,
        /// The port.
        port: String,
    },
    /// The same by way of other chains.
    #[error(
        "chain '{chain}' starts at port '{port}', which belongs to a function of chain '{before}', \
         and what that function sends would come back to it through chains '{way}'; give one of \
         their classifiers another logical_source_port"
    )]
    SourceLoop {
        /// The chain.
        chain: String,
        /// The port.
        port: String,
        /// The chain of the function.
        before: String,
        /// All chains of the circle.
        way: String,
    },
    /// The same, where slices lead from one of them to another.
    #[error(
        "chain '{chain}' starts at port '{port}', which belongs to a function of chain '{before}', \
         and with slices at the end of chains what that function sends would come back to it through \
         chains '{way}'; let one of the slices begin elsewhere, or give the classifier another \
         logical_source_port"
    )]
    SliceSourceLoop {
        /// The chain.
        chain: String,
        /// The port.
        port: String,
        /// The chain of the function.
        before: String,
        /// All chains of the circle.
        way: String,
    },
    /// More than one node's data plane takes.
    #[error(
        "node '{node}' would have {count} {table}, more than the limit of {limit}; place some on \
         another node"
    )]
    NodeFull {
        /// The node.
        node: String,
        /// What is counted.
        table: &'static str,
        /// How many there would be.
        count: usize,
        /// The limit of [`catena_model::limits`].
        limit: usize,
    },
    /// Something the chain names does not exist.
    #[error("chain '{chain}' names the {kind} {id}, which does not exist; create it first")]
    Missing {
        /// The chain.
        chain: String,
        /// What kind of thing.
        kind: &'static str,
        /// Its identity.
        id: String,
    },
    /// A slice that cannot be, whatever else there is.
    #[error("slice '{slice}': {fault}")]
    BadSlice {
        /// The slice.
        slice: String,
        /// What is wrong, and what to do.
        fault: String,
    },
    /// Two slices take the same packets at the same place.
    #[error(
        "slices '{first}' and '{second}' take the same packets at the same place; give one of them \
         another 'vni', 'teids', 'qfi', 'source_port' or 'after'"
    )]
    SameSlice {
        /// A slice.
        first: String,
        /// The other.
        second: String,
    },
    /// A packet would never come to the end of its chains.
    #[error(
        "slices at the end of chains lead from chain '{chain}' back to it; let one of them begin at \
         a port, or at the end of another chain"
    )]
    SliceLoop {
        /// A chain of the circle.
        chain: String,
    },
    /// A packet would be dropped on its way through the chains.
    #[error(
        "with slices at the end of chains a route from chain '{chain}' on has {length} functions and \
         steps between chains, more than the limit of {limit}; shorten a chain, or let a slice \
         begin elsewhere"
    )]
    SliceRouteTooLong {
        /// Where the route begins.
        chain: String,
        /// Its length.
        length: usize,
        /// [`catena_model::limits::CHAIN_FUNCTIONS_MAX`].
        limit: usize,
    },
    /// Something a slice names does not exist.
    #[error("slice '{slice}' names the {kind} {id}, which does not exist; create it first")]
    SliceMissing {
        /// The slice.
        slice: String,
        /// What kind of thing.
        kind: &'static str,
        /// Its identity.
        id: String,
    },
    /// More of something than one node's data plane takes, of which a node may be told all.
    #[error("there would be {count} {what}, more than the limit of {limit}; remove some")]
    TooMany {
        /// Of what: slices, ports of a network, or their IP addresses.
        what: String,
        /// How many there would be.
        count: usize,
        /// [`catena_model::limits::NODE_SLICES_MAX`] or
        /// [`catena_model::limits::NODE_ADDRESSES_MAX`].
        limit: usize,
    },
}
