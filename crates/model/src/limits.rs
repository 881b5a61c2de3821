//! Every bound of the system that more than one crate must respect, by name and unit. Declared
//! once: the constants and the reference page come from the same lines.

/// A bound as people read it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Limit {
    /// Name of the constant.
    pub name: &'static str,
    /// Its value.
    pub value: u64,
    /// What is counted.
    pub unit: &'static str,
    /// Why it is there.
    pub sentence: &'static str,
}

macro_rules! limits {
    ($($name:ident: $type:ty = $value:expr, $unit:literal, $sentence:literal;)+) => {
        $(
            #[doc = $sentence]
            pub const $name: $type = $value;
        )+

        /// All bounds, in the order of declaration.
        pub const LIMITS: &[Limit] = &[
            $(Limit {
                name: stringify!($name),
                value: $value as u64,
                unit: $unit,
                sentence: $sentence,
            }),+
        ];
    };
}

limits! {
    CHAIN_FUNCTIONS_MAX: usize = 62, "functions",
        "Functions in one chain: each may be on another host, and NSH's time to live of 63 ends after 62 tunnels (RFC 8300 section 2.2).";
    CHAIN_ANSWER_RULES_MAX: usize = 1_024, "rules",
        "Rules by which the answers of one symmetric chain find its way back: for each route through the chains before it, each combination of their classifiers, each form that functions give to a packet.";
    FUNCTION_RULES_MAX: usize = 16_384, "rules",
        "Rules of one bundled function's configuration.";
    FUNCTION_CONFIG_BYTES_MAX: usize = 8 * 1024 * 1024, "bytes",
        "One bundled function's configuration.";
    PROJECT_RULE_SETS_BYTES_MAX: usize = 64 * 1024 * 1024, "bytes",
        "Rule sets that one project has sent by themselves, all together.";
    RULE_SET_UNNAMED_S: u64 = 3_600, "seconds",
        "How long a rule set is kept that no function has named since it was sent.";
    FUNCTION_FLOWS_MAX: usize = 65_536, "flows",
        "Connections that one bundled function looks after at once; what finds no room is treated by its policy, by name.";
    FUNCTION_FLOWBITS_MAX: usize = 512, "names",
        "Names of flowbits in the rules of one ids or ips.";
    FUNCTION_REASSEMBLY_BYTES_MAX: usize = 64 * 1024 * 1024, "bytes",
        "Streams and packets in fragments that one ids or ips puts together at once.";
    FUNCTION_THRESHOLDS_MAX: usize = 65_536, "counters",
        "Sources and destinations whose matches one ids or ips counts at once.";
    FUNCTION_ERRORS_PER_SECOND: u64 = 1_000, "messages",
        "ICMP errors that a bundled function's rejections may cause in a second; what is rejected beyond ends without (RFC 1812 section 4.3.2.8; the number is Linux's).";
    FUNCTION_ERRORS_BURST: u64 = 50, "messages",
        "The same at once.";
    FUNCTION_RULES_TOLD_MAX: usize = 1_024, "rules",
        "Rules of one bundled function whose hits counters tell; how many more there are is told with them.";
    FUNCTION_ALERTS_KEPT_MAX: usize = 4_096, "alerts",
        "The latest alerts of one instance that its node's agent keeps for whoever asks.";
    FUNCTION_ALERTS_KEPT_BYTES_MAX: usize = 256 * 1024, "bytes",
        "All of them together.";
    FUNCTION_ALERTS_TOLD_MAX: usize = 1_024, "alerts",
        "Alerts of one instance in one answer.";
    FUNCTION_DATAGRAMS_PER_SECOND: u64 = 10_000, "datagrams",
        "What one agent sends to collectors for the functions of its node; what is beyond counts as not sent.";
    NODE_EXPORT_DATAGRAMS_PER_SECOND: u64 = 10_000, "datagrams",
        "What one agent sends to collectors of telemetry; what is beyond counts as not sent.";
    NODE_FUNCTION_MESSAGES_BYTES_MAX: usize = 1024 * 1024, "bytes",
        "Messages of all functions of a data plane that wait for its agent; what finds no room is lost, and counted.";
    NODE_FUNCTIONS_MAX: usize = 256, "functions",
        "Bundled functions that one node runs inside its data plane; an instance whose configuration changes counts twice until its former path has drained.";
    SEGMENT_MEMBERS_MAX: usize = 16, "functions",
        "Bundled functions beside each other in a chain that are one hop of its paths; those behind them are another.";
    NAT_ADDRESSES_MAX: usize = 256, "addresses",
        "Outside addresses that the flows of one NAT share: each keeps 24 KiB of free ports.";
    NAT_PREFIXES_MAX: usize = 1_024, "prefixes",
        "Inside prefixes of one NAT.";
    NAT_FRAGMENTS_MAX: usize = 4_096, "packets",
        "Packets in fragments whose first one a NAT remembers for those behind it; one more takes the room of the one seen longest ago.";
    NAT_FRAGMENT_S: u64 = 30, "seconds",
        "How long a NAT remembers a first fragment; Linux gives up a packet that is not whole after as long.";
    NODE_FUNCTION_PORTS_MAX: usize = 64, "ports",
        "Ports of bundled functions that may be declared at one node: its data plane has room for four times as many functions, for those whose configuration changes.";
    BALANCER_SERVICES_MAX: usize = 256, "services",
        "Virtual services of one balancer.";
    BALANCER_BACKENDS_MAX: usize = 256, "backends",
        "Backends of one virtual service.";
    BALANCER_BACKENDS_IN_ALL_MAX: usize = 4_096, "backends",
        "Backends of all virtual services of one balancer.";
    BALANCER_SLOTS_MAX: usize = 8 * 1024 * 1024, "slots",
        "Slots of the lookup tables of all virtual services of one balancer, two bytes each.";
    QOS_CLASSES_MAX: usize = 256, "classes",
        "Classes of one marker, policer or shaper: a packet is held against one after the other.";
    QOS_MATCHES_MAX: usize = 16, "matches",
        "Matches of one class of a marker, policer or shaper, one of which a packet must meet.";
    FUNCTION_HELD_PACKETS_MAX: usize = 65_536, "packets",
        "Packets that wait in one shaper, or in a function that works for times, at once.";
    FUNCTION_HELD_BYTES_MAX: usize = 64 * 1024 * 1024, "bytes",
        "Frames of packets that wait in one shaper, or in a function that works for times, at once.";
    ROUTER_ROUTES_MAX: usize = 4_096, "routes",
        "Routes of one bundled router.";
    FUNCTION_FRAGMENTED_MAX: usize = 1_024, "packets",
        "Packets in fragments that one bundled function follows at once; the oldest gives way.";
    FUNCTION_INSTANCES_MAX: usize = 256, "instances",
        "Instances of one service function.";
    NODE_INSTANCES_MAX: usize = 256, "instances",
        "Instances of functions that one node runs itself, each a process.";
    HOST_NUMA_NODES_MAX: usize = 256, "nodes",
        "NUMA nodes that a host tells of; of more, the first.";
    NODE_RULES_MAX: usize = 131_072, "rules",
        "Classification rules in one node's program.";
    NODE_PATHS_MAX: usize = 65_536, "paths",
        "Paths in one node's program.";
    NODE_ADDRESSES_MAX: usize = 524_288, "addresses",
        "MACs in one node's program, and IP addresses: those of the ports of all networks that the node has, or that its paths deliver in.";
    NODE_SLICES_MAX: usize = 1_048_576, "slices",
        "Slices in one node's program, and paths of slices; each path has the hops of its chain's.";
    DELTA_ENTRIES_MAX: usize = 16_384, "entries",
        "Entries of one part of a change of a node's program; more travel as several parts.";
    DELTA_BYTES_MAX: usize = 1024 * 1024, "bytes",
        "Bytes of one part of a change of a node's program, unless one entry alone has more.";
    SLICE_COUNTERS_MAX: usize = 4_096, "slices",
        "Slices whose counters one answer of a node holds.";
    NODE_INJECTED_SLICES_MAX: usize = 256, "slices",
        "Slices that are put in at one node by hand.";
    TUNNEL_LAYERS_MAX: usize = 8, "layers",
        "Tunnel headers, one inside the other, that the parser follows; deeper frames are dropped by name.";
    NODE_SCHEDULED_SLICES_MAX: usize = 16_384, "slices",
        "Slices with a rate or a delay class that one node keeps state of; beyond it an idle one gives its place, and where none is idle one of the port whose slices have most, for a port with fewer; the rest is dropped.";
    NODE_SLICE_PACKETS_WAITING_MAX: usize = 1_024, "packets",
        "Packets of slices with a delay class that wait at one node.";
    SLICE_PACKETS_WAITING_MAX: usize = 128, "packets",
        "Of these, what one slice may have, and no more than are free for others: so no six slices that flood take a place that a seventh had without them, and each after it finds half of those that are left.";
    SLICE_QUANTUM_BYTES_MIN: u32 = 64, "bytes",
        "Least share of a round of a slice of the class shared; a smaller one counts as this.";
    NODE_WORKERS_MAX: usize = 16, "workers",
        "Threads of one data plane that share its packets.";
    NODE_FUNCTION_THREADS_MAX: usize = 64, "threads",
        "Threads of one data plane that ask functions for its workers.";
    WORK_INSIDE_ITERATIONS_MAX: u64 = 1_000_000, "iterations",
        "Iterations for a packet, in the mean, of a function inside a data plane that does nothing but work; more has a process of its own.";
    NODE_PORTS_MAX: usize = 16_384, "ports",
        "Ports in one node's program.";
    PORT_FLOOD_FRAMES_PER_SECOND: u32 = 1_000, "frames per second",
        "What one port may send to everybody in its network (broadcast, multicast), and as many at once, where --flood-rate says nothing else; of each worker of its node.";
    NODE_FLOWS_MAX: usize = 65_536, "flows",
        "Flows that the proxies of one node remember; beyond it a new flow takes the place of one whose packets cannot be inside any more, or of the port or path that has most.";
    NODE_CLASSIFIED_FLOWS_MAX: usize = 262_144, "flows",
        "Flows whose path the classifier of one node remembers; beyond it, of eight at a time one of the path with most flows is forgotten, the one unseen for longest.";
    KERNEL_FLOWS_MAX: u32 = 65_536, "flows",
        "Flows that the kernel path of one node repeats; beyond it one of the port, path or network with most goes back to the engine, and none more of that is taken.";
    NODE_FRAMES_COMING_UP_MAX: u32 = 1_024, "frames",
        "Frames of one node on their way from the kernel's program to the engine; a port may have four times as many as are left for others, a function's port and the tunnels eight times as many as are left.";
    KERNEL_LINKS_MAX: u8 = 64, "links",
        "Links of one switch between which the kernel passes frames on; those of further links are passed on by the engine.";
    KERNEL_EPOCHS_MAX: u32 = 131_072, "epochs",
        "Paths and networks of one node that flows in the kernel can depend on.";
    KERNEL_ACCOUNTS_MAX: u32 = 16_384, "accounts",
        "Different lists of counter updates that flows in the kernel have; flows that need another stay with the engine.";
    NODE_PACKETS_INSIDE_MAX: usize = 65_536, "packets",
        "Packets inside functions shared by two versions of a path that the proxies of one node know one by one; beyond it the oldest is forgotten.";
    FRAGMENT_WAIT_MS: u64 = 1_000, "milliseconds",
        "How long a later fragment waits for the first of its packet.";
    PORT_FRAGMENTS_WAITING_MAX: usize = 128, "packets",
        "Later fragments of one port, or of one hop of a path out of tunnels, that wait for the first of their packets.";
    PORT_FRAGMENT_BYTES_WAITING_MAX: usize = 262_144, "bytes",
        "Bytes of the same.";
    NODE_FRAGMENTS_WAITING_MAX: usize = 512, "packets",
        "Later fragments that wait at one node; beyond it the port with most of them gives one up for a port with fewer.";
    MESSAGE_BYTES_MAX: usize = 64 * 1024 * 1024, "bytes",
        "Largest message between controller, agent and data plane.";
    TENANT_MTU_BYTES: u16 = 1_400, "bytes",
        "MTU of tenant networks: the underlay's 1,500 less the largest of our tunnel headers without context (74), rounded down.";
    TOO_BIG_ANSWERS_PER_SECOND: u32 = 100, "answers",
        "How often in a second senders behind one port are told that a packet is too big; what is not told is counted as mtu_untold.";
    TOO_BIG_ANSWERS_BURST: u32 = 50, "answers",
        "How many of these may come at once.";
    SEGMENT_ERRORS_PER_SECOND: u32 = 100, "messages",
        "How often in a second a worker of a node tells others by ICMPv6 that their packets of segments cannot go on, and why.";
    SEGMENT_ERRORS_BURST: u32 = 50, "messages",
        "How many of these may go at once.";
    NSH_CONTEXT_BYTES_MAX: usize = 128, "bytes",
        "Context headers that one packet may carry in NSH MD type 2 (RFC 8300 section 2.5); what carries more is dropped.";
    NSH_CONTEXT_BYTES_AT_TENANT_MTU: usize = 36, "bytes",
        "Of these, what fits beside a packet of TENANT_MTU_BYTES on an IPv4 underlay of 1,500; more asks for a wider underlay or narrower tenant networks.";
    NSH_PATH_IDS_MAX: u32 = 0xff_ffff, "identifiers",
        "Path identifiers of NSH: 24 bits without zero (RFC 8300 section 2.3).";
    MPLS_PATH_IDS_MAX: u32 = 0xf_feff, "identifiers",
        "Path identifiers of MPLS: 20 bits without the special-purpose labels 0 to 15 (RFC 8595, RFC 7274) and the last 256, which name ports in sr-mpls.";
    SLICE_PATH_IDS_FROM: u32 = 0x8_0000, "identifiers",
        "First path identifier that slices have: those of MPLS from here on, those of NSH behind all of MPLS.";
    SOURCE_ROUTE_SLICE_PATH_IDS_FROM: u32 = 0xf0_0000, "identifiers",
        "First path identifier of slices on source routes, which have 24 bits as NSH has: those of NSH end before it.";
    ROUTE_DETOUR_BYTES_MAX: usize = 64, "bytes",
        "What ways round dead cables may take in the header of a source route, beside its own ports and no more than \
         the header has room for; cables at the start of the route go first.";
    NODE_ONWARD_MAX: usize = 65_536, "ways",
        "Ways between other nodes in one node's program, for headers over several functions; where it knows no further, its headers end.";
    ROUTE_FUNCTIONS_MAX: usize = 16, "functions",
        "Functions that one header of a source route leads to; behind the last, its node writes the next.";
    ROUTE_COMBINATIONS_MAX: usize = 64, "ways",
        "Ways between instances behind the first function of a header, of which its writer knows each; where there are more, the header ends.";
    ROUTE_JOINED_BYTES_MAX: usize = 100, "bytes",
        "What a header that leads to several functions may add to a frame: with a packet of TENANT_MTU_BYTES it fits a link of 1,500.";
    MARKED_PATH_IDS_MAX: u32 = 0xffff, "identifiers",
        "Path identifiers of safe-9 and classic-80, which have 16 bits for them behind the ports of a way.";
    LABELLED_ROUTE_PORTS_MAX: usize = 32, "port numbers",
        "Ports of a way in sr-mpls, which has four bytes for each.";
    RESIDUE_ROUTE_PORTS_MAX: usize = 65, "port numbers",
        "Ports of a way in polka: the first is taken before there is a number, which has 128 bytes for all others.";
    NODE_ROUTE_IDENTITIES: usize = 2, "polynomials",
        "What a node divides numbers of ways by in polka, one for each pass; there are 4,080, so nodes with links beyond the 2,040th have none.";
    SEGMENTS_MAX: usize = 16, "segments",
        "Segments of one SRv6 header, which has 304 bytes then: nodes that follow one another on a path; where there are more, the last of them writes the next header.";
    SETUP_IDLE_MS: u32 = 60_000, "milliseconds",
        "A pause after which a flow of a chain with reactive set-up is asked for again.";
    SETUP_FLOW_PACKETS_MAX: usize = 16, "packets",
        "Packets of one flow that are held until its set-up is answered.";
    SETUP_NODE_PACKETS_MAX: usize = 512, "packets",
        "Packets that are held so at one node, of each of its workers; a port may have four times as many as are left for others.";
    SETUP_PORT_FLOWS_MAX: usize = 256, "flows",
        "Flows of one port whose set-up is not answered yet.";
    SETUP_PORT_FLOWS_PER_SECOND: u32 = 10_000, "flows per second",
        "Flows of one port that the controller is asked for; of each worker of its node.";
    SETUP_PORT_FLOWS_BURST: u32 = 256, "flows",
        "How many of these may come at once.";
    SETUP_ASK_AGAIN_MS: u64 = 50, "milliseconds",
        "How long an answer is waited for before the controller is asked for the flow once more.";
    SETUP_WAIT_MS: u64 = 1_000, "milliseconds",
        "How long packets of a flow are held; then the controller counts as away for it.";
    SETUP_MESSAGE_FLOWS_MAX: usize = 256, "flows",
        "Flows that one message asks for, or answers.";
    PATH_ENDS_MESSAGE_MAX: usize = 512, "packets",
        "Packets with telemetry that one message tells of.";
    PATH_ENDS_WAITING_MAX: usize = 4_096, "packets",
        "Packets with telemetry that a data plane or an agent has still to tell of; beyond it the oldest go, and are counted.";
    PATH_ENDS_WAITING_HOPS_MAX: usize = 32_768, "hops",
        "Hops of all of those together.";
    WAY_FLUSH_MS: u64 = 2, "milliseconds",
        "How long packets whose way has turned wait before they leave by the new one, so that what is still on the former way is before them.";
    WAY_FLUSH_PACKETS_MAX: usize = 512, "packets",
        "Packets that wait so at one node, of each of its workers; a port may have four times as many as are left for others, and beyond that its packets leave at once.";
    ROUTE_PORTS_MAX: usize = 128, "port numbers",
        "Ports of one source route at most, those of hosts counted.";
    PATH_ID_QUARANTINE_BLUEPRINTS: u64 = 16, "blueprints",
        "How many blueprints must follow the removal of a path before its identifier is used again.";
    NODE_LINKS_MAX: usize = 255, "links",
        "Links, ports of functions and headers of a node that have a port number: a source route has 8 bits for each, and 0 is none.";
    NODE_LINKS_TOLD_MAX: usize = 512, "links",
        "Links that a node tells of: those that get no number are named, too.";
    LINK_NEIGHBOURS_MAX: usize = 8, "neighbours",
        "Neighbours that a link tells of; one more is refused and counted.";
    LINK_LLDP_FRAMES_PER_SECOND: u32 = 100, "frames per second",
        "LLDP frames that are read of one link; what is beyond is dropped and counted.";
    HELLO_PERIOD_MS: u64 = 75, "milliseconds",
        "How often the data planes at the ends of a cable speak to each other.";
    HELLO_MISSES_MAX: u8 = 3, "periods",
        "Periods in a row without a word after which a neighbour is silent.";
    PROBE_PERIOD_MS: u64 = 80, "milliseconds",
        "How often a watched instance is probed.";
    PROBES_UNANSWERED_MAX: u32 = 3, "probes",
        "Probes in a row without an answer after which an instance is dead.";
    PROBE_ANSWER_WAIT_MS: u64 = 40, "milliseconds",
        "How long the last of those may take: an instance that dies right after an answer is found dead 3 periods and this wait later, after 280 of at most 300.";
    PROBE_GAP_MS: u64 = 50, "milliseconds",
        "A data plane that did not run for this long does not count the answers that are missing.";
    EXPLAIN_QUESTIONS_MAX: usize = 128, "questions",
        "Nodes that are asked about one packet and its copies.";
    CHAIN_ANSWER_WAIT_MS: u64 = 5_000, "milliseconds",
        "How long a chain request waits for its nodes before it answers with what is missing.";
    DRAIN_WAIT_MAX_MS: u64 = 2_000, "milliseconds",
        "After this a former path is removed though packets are missing on it: what is missing is told as lost.";
    PIN_IDLE_REWRITING_MS: u32 = 2_000, "milliseconds",
        "A pause after which no packet of a flow is inside a function that changes its bytes: the flow may take the path of after.";
    PIN_IDLE_DRAINING_MS: u32 = 30_000, "milliseconds",
        "A pause after which a flow has ended, so that its instance needs not wait for it to be drained.";
    PIN_WAIT_MAX_MS: u64 = 300_000, "milliseconds",
        "How long flows stay on a former path at most; then they are moved.";
    RECEIPTS_MAX: usize = 4_096, "receipts",
        "Receipts that a controller keeps, the last of each chain.";
}
