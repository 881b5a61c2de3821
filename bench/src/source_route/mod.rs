//! What a switch costs that reads the way of a frame in the frame, beside one that looks it up: the same loop, the
//! same buffers, the same outputs. In memory and on one core.

mod entries;
mod entry_figures;
mod kernel;
mod paper;
mod peers;
mod placed;
mod planning;
mod set_up;
mod source;
mod southbound;
mod split;
mod switch;

use crate::chain_tcp::MovedStreams;
use crate::engine::{EdgeWork, Kind, cpu_ns};
use crate::error::BenchError;
use crate::machine::calibrate;
use crate::plot::{Axis, Plot, line};
use crate::publish::{Run, publish};
use crate::results::{Better, Figure, Goal, Notes};
use peers::{ExactMatch, LongestPrefix};
use source::{Flows, Numbers, Source, Ways};
use split::Stage;
use std::path::Path;
use switch::{Forward, Switch};

/// How much is measured.
#[derive(Clone, Debug, clap::Args)]
pub(crate) struct Options {
    /// Less of everything.
    #[arg(long)]
    pub(crate) quick: bool,
    /// Only this part of a switch, without a clock; for valgrind, with `--packets`.
    #[arg(long, requires = "packets")]
    only: Option<Stage>,
    /// With `--only`: so many packets.
    #[arg(long)]
    packets: Option<usize>,
}

const SAMPLES: usize = 15;
const SAMPLES_QUICK: usize = 5;
/// Packets of a sample.
const PACKETS: usize = 1 << 18;
/// Frame sizes, in bytes; 85 are those of the paper.
const SIZES: [(usize, &str); 7] = [
    (64, "forward_64_ns"),
    (85, "forward_85_ns"),
    (128, "forward_128_ns"),
    (256, "forward_256_ns"),
    (512, "forward_512_ns"),
    (1_024, "forward_1024_ns"),
    (1_500, "forward_1500_ns"),
];
/// Entries of the tables that exact matches are looked up in, what the figures are called, and their goals.
const ENTRIES: [(u32, &str, f64); 3] =
    [(100, "vs_exact_100", 1.0), (10_000, "vs_exact_10k", 1.0), (1_000_000, "vs_exact_1m", 1.3)];
/// Prefixes of the paper's table.
const PREFIXES: usize = 380_000;
/// Headers that are made for one sample.
const HEADERS: usize = 1 << 14;
/// Goals: nanoseconds of the element, and of the same by a division, microseconds of a header, millions of
/// packets a second.
const ELEMENT_NS: f64 = 15.0;
const POLKA_NS: f64 = 10.0;
const HEADER_US: f64 = 2.0;
const MPPS: f64 = 15.0;

/// Streams over source routes.
pub(crate) const STREAMS: MovedStreams = MovedStreams {
    lab: "bench-source-route-tcp",
    encapsulation: "source-route/native",
    name: "source routes",
    stem: "source-route-tcp",
    goal: Goal::None,
    kernel_alone: None,
};

/// What is done, for people.
const ABOUT: &str = "A switch between links, nanoseconds of processor time per frame of 64 bytes, in \
    vectors of 256, source and sink included, but for `element` (reading the port, \
    writing the counter, finding the exit, over frames that stand in memory one behind \
    the other), `polka` (the same, the port being what a number of ten ports leaves, \
    divided by a polynomial of degree 16) and `header` (ten ports of a known way and a path to bytes, by the \
    format alone). 65,536 headers of ten ports in the profile `native`, at random \
    places of their way. The peers are forwarders of our own in the same loop, with \
    the same buffers and outputs: an exact match of the five-tuple in a table with \
    open addressing, and the longest of 380,000 prefixes by a table of 2^24 places; \
    both ask for the memory of 32 packets before they look. They count packets and \
    bytes by port, ours keeps its whole account. `vs_nsh_forward`: our own engine that \
    gets the frame by NSH in a tunnel, looks its path up and gives it to a function that \
    reads NSH. Measured in turns.\n\n\
    `split_…`: where the time of a frame of 64 bytes goes, by what each of three loops has more than the \
    one before: source and sink; with the element; the whole switch. What is in neither of the \
    two, the account above all, is `rest`, so the parts add to the whole. A processor does several \
    things at once: the instructions of the element fill the time in which source and sink wait for \
    memory, so it adds less to them than it takes alone (`element_ns`). \
    Instructions by valgrind. There is no encapsulation and none to take off: frames are on \
    Ethernet links as they are. The paper's cycles: I/O 1,008, encapsulation 259, decapsulation 81, \
    element 156, others 458: 1,962 together, where it prints 1,965.\n\n\
    `kernel_…`: the program at a switch's links in the kernel, run on frames in memory without \
    sending them (BPF_PROG_TEST_RUN, wall clock, the middle of 256 frames that take 40 ports each, one way and warm), \
    which is no peer of the engine's forward with its source and sink. What the kernel takes \
    to receive and to send a frame is in neither, nor are the rings by which frames come to the \
    engine, which cost many times this (`workers` tells how much): these the kernel path spares.\n\n\
    `setup_…`: `labs/reactive.yaml`, so many flows a second of one packet each, which waits until \
    the controller has answered; means of the whole and of its parts, which add to it, in \
    microseconds, and what 99 of 100 flows did not exceed (a quarter too high at most). `header`: \
    making it; `controller`: what else that does; `channel`: the way there and back; `edge`: the \
    data plane. The paper (its table 2) has 250 for the header, 240 for controller and stack, \
    100 for the way and 300 for the switch, 890 in all.\n\n\
    `control_up_bytes_…`, `control_down_bytes_…`: in the same runs, the paper's bytes of one switch by \
    the rate of flows: what the kernel counts on the connection of the edge with the controller, both \
    ways, from the first flow until the last packet has come, for each flow that was answered. \
    Messages of gRPC with their HTTP/2 and TLS are in it, headers of TCP and IP are not, as in the \
    sizes. What goes there without any flow is in it, too, and not taken off: keepalives, and the \
    counters that the controller asks each node for about once a second; `control_rest_…` has it, \
    measured for three seconds before each run; divided by the rate it is what each flow bears of it. \
    Flows that come together share a message, hence fewer bytes at higher rates. The peer is the \
    sizes of OpenFlow 1.0 for a flow at one switch that knows rules: packet-in 146 bytes, flow-mod \
    80; to be told a header, as our edge is, takes 132 by them. They have no TLS.\n\n\
    Where goals are missed, and why. `vs_exact_…` with tables that the caches hold, and `vs_lpm_380k`: source and \
    sink take most of a frame's time (`split_io_ns`), on both sides alike. A look-up in such a table, asked \
    for 32 packets ahead, takes as little as our account does (`split_rest_ns`), so there is no third of \
    the whole to be won, and a few hundredths hang on the machine and on what else it does; against tables \
    that they do not hold there is (`vs_exact_1m`). Tried: five ways, docs/internals/source-routes.md, \
    «What a switch costs». `polka_ns` beyond `element_ns` is the division alone: for twenty octets as many \
    look-ups in tables of 5 KiB, each step waiting for the one before. Tried: octets in front one by one, \
    filled up to a step with 0, and four at a time (kept; the same document). `setup_…_p99_us`: most of a \
    set-up is `channel`, in which data plane, agent and controller wake one another, four times, on two \
    cores that they share with who sends the flows: the slowest of a hundred are those that found both \
    cores at something else, which grows with the rate; and the first header after a pause is made with \
    cold caches. Tried: one message for all flows of a vector, so that bytes and wakings fall with the rate; \
    and the kernel's flows looked after 32 at a time in place of 512, for which an edge's packets wait \
    twenty times a second: `setup_1000_edge_p99_us` was 1,049 at commit 91b91aa5d129.\n\n\
    `tcp_…`: one TCP stream through one to six functions of `labs/bench-source-route-tcp.yaml` \
    over source routes (`native`), beside the same chains over NSH, to which they are moved in \
    turns, both with the kernel path on. The first function stands beside the source, so `c1` is on \
    no source route and the same for both. From two functions on source routing does not win: over \
    NSH super-frames of 64 KiB stay whole in the kernel from end to end, while the edges of source \
    routes are the engine's, which cuts each into frames, as no kernel segments behind such a header.\n\n\
    `edge_…`: an edge of `native`, 1,024 flows: from an endpoint, classified, and out of a \
    function that knows nothing of chains, by a link; the peer does the same over NSH into a \
    tunnel. `slow`: both without the fast path.\n\n\
    `plan_…`: the real planner in process, processor time of its thread, without store and \
    network, over fat trees of switches with k ports (k = 32: 1,280 switches, 8,193 hosts) \
    whose nodes acknowledge at once: all nodes met and all links found; 1,000 chains of one \
    to ten functions of 100 tenants declared at once, until packets of each go through it; \
    one chain more («peer»: the same among none); a cable between switches that dies \
    («ways»: how many turned, of how many). Five samples of `one_more`, and one of \
    everything else, a run.\n\n\
    `entries_…`: counted in the planner's programs for one chain from a gateway at a core \
    switch of the tree with k = 8, one way or both: headers that hosts write, beside the \
    switches that its packets visit (3N in a pod, 5N - 2 across pods), which is what a \
    network of rules needs entries for. `ports`: ports in all its headers, the hosts' own \
    links and the functions' ports included (5N in a pod); `hosts`: paths, rules, port \
    numbers and ways that hosts know beside; `told_bytes`: bytes of all changes of programs \
    until the chain is in force. A header leads over as many functions as it has room for \
    with all ways round dead cables, 64 bytes of these; `entries_formula` has one for each \
    ten switches, with an edge at every switch, functions that change nothing and no way \
    round. `chains_held`: chains \
    of ten functions by tables of 2,000 entries, at hosts, with all that these know of a \
    chain, beside at switches. \
    `control_…_k…`, `control_…_vs_…`: by the sizes of OpenFlow 1.0 (packet-in 146 bytes, flow-mod 80, headers \
    132), a flow's bytes in the paper's model, where each switch asks, or each at the \
    core; for a chain of ten functions beside a controller that is asked switch by switch \
    and beside one that tells the whole way at once. Source routing does not win \
    everywhere: from switches to a controller that tells the whole way at once, it saves \
    nothing; the five times fewer bytes upwards of the paper are those of five times fewer \
    switches that ask. `placed_…`: the same chain with its functions at the hosts that the \
    planner proposes, none twice, beside five choices of hosts by chance and the first hosts by \
    their names. `bytes_…`: what a header adds for ten and thirty ports: above \
    eleven, stacks of labels are longer than a header of plain ports would be.";

/// All figures, in the order of the table.
pub(crate) fn figures() -> Vec<Figure> {
    let lower = |name, unit, goal| Figure::new(name, unit, Better::Lower, goal);
    let mut all = vec![
        lower("copy_1500_ns", "ns", Goal::None),
        lower("element_ns", "ns", Goal::Value(ELEMENT_NS)),
        lower("polka_ns", "ns", Goal::Value(POLKA_NS)),
        lower("header_us", "µs", Goal::Value(HEADER_US)),
        Figure::new("forward_64_mpps", "Mpps", Better::Higher, Goal::Value(MPPS)),
    ];
    all.extend(SIZES.map(|(_, name)| lower(name, "ns", Goal::None)));
    all.extend(ENTRIES.map(|(_, name, goal)| lower(name, "ns", Goal::Ratio(goal))));
    all.push(lower("vs_lpm_380k", "ns", Goal::Ratio(1.3)));
    all.push(lower("vs_nsh_forward", "ns", Goal::Ratio(1.0)));
    all.push(lower("edge_push_ns", "ns", Goal::None));
    all.push(lower("edge_proxy_out_ns", "ns", Goal::None));
    all.push(lower("edge_push_slow_ns", "ns", Goal::None));
    all.push(lower("edge_proxy_out_slow_ns", "ns", Goal::None));
    all.extend(split::figures());
    all.extend(kernel::figures());
    all.extend(set_up::figures());
    all.extend(southbound::figures());
    all.extend(STREAMS.figures());
    all.extend(planning::figures());
    all.extend(entry_figures::figures());
    all.extend(placed::figures());
    all
}

/// Measures, writes the results and prints them.
pub(crate) fn run(options: &Options, folder: &Path) -> Result<(), BenchError> {
    if let (Some(stage), Some(packets)) = (options.only, options.packets) {
        return split::pass(stage, packets);
    }
    let mut notes = Notes::default();
    calibrate(&mut notes);
    let samples = if options.quick { SAMPLES_QUICK } else { SAMPLES };
    element(samples, &mut notes)?;
    header(samples, &mut notes)?;
    let mut missing = split::measure(samples, PACKETS, &mut notes)?;
    sizes(samples, &mut notes)?;
    missing.extend(kernel::measure(samples, &mut notes)?);
    beside(samples, &mut notes)?;
    edges(samples, &mut notes)?;
    planning::measure(options.quick, &mut notes)?;
    entry_figures::measure(&mut notes)?;
    placed::measure(&mut notes)?;
    let root = folder.parent().unwrap_or(folder);
    missing.extend(set_up::measure(options.quick, root, &mut notes));
    let streams = STREAMS.measure(options.quick, root, &mut notes);
    missing.extend(streams.missing);
    let mut plots = vec![plot(&notes), planning::plot(&notes)];
    plots.extend(entry_figures::plots(&notes));
    let last = [placed::plot, kernel::plot, set_up::plot, southbound::plot];
    plots.extend(last.map(|plot| plot(&notes)));
    plots.push(STREAMS.plot(&notes));
    let text = |key: &str, value: String| (key.to_owned(), value);
    publish(
        Run {
            name: "source-route",
            about: ABOUT.to_owned()
                + &missing.iter().map(|what| format!(" Not measured: {what}.")).collect::<String>(),
            versions: [text("ours", env!("CARGO_PKG_VERSION").into())].into(),
            options: [
                text("quick", options.quick.to_string()),
                text("packets of a sample", PACKETS.to_string()),
                text("kernel path of streams", streams.kernel_path),
            ]
            .into(),
            notes,
            plots,
        },
        folder,
    )
}

/// A node's step without anything around it.
fn element(samples: usize, notes: &mut Notes) -> Result<(), BenchError> {
    let (ways, numbers) = (Ways::new(64)?, Numbers::new()?);
    for _ in 0..samples {
        notes.take("element_ns", true, ways.element_ns(PACKETS, cpu_ns)?);
        notes.take("polka_ns", true, numbers.element_ns(PACKETS, cpu_ns)?);
    }
    Ok(())
}

#[allow(clippy::cast_precision_loss)]
fn header(samples: usize, notes: &mut Notes) -> Result<(), BenchError> {
    for _ in 0..samples {
        let begun = cpu_ns();
        source::make_headers(HEADERS)?;
        notes.take("header_us", true, (cpu_ns() - begun) / HEADERS as f64 / 1_000.0);
    }
    Ok(())
}

fn sizes(samples: usize, notes: &mut Notes) -> Result<(), BenchError> {
    for (bytes, figure) in SIZES {
        eprintln!("bench: {bytes} bytes");
        let (mut switch, mut source) = (Switch::new()?, Source::of(Ways::new(bytes)?.frames()));
        for _ in 0..samples {
            let ns = switch::ns(&mut switch, &mut source, PACKETS)?;
            notes.take(figure, true, ns);
            if bytes == 64 {
                notes.take("forward_64_mpps", true, 1_000.0 / ns);
            }
        }
    }
    Ok(())
}

/// In turns with those that look ways up.
fn beside(samples: usize, notes: &mut Notes) -> Result<(), BenchError> {
    let (mut ours, mut source) = (Switch::new()?, Source::of(Ways::new(64)?.frames()));
    let mut turns = |figure, peer: &mut dyn Forward, flows: Flows| -> Result<(), BenchError> {
        let mut theirs = Source::of(flows.frames());
        for _ in 0..samples {
            notes.take(figure, true, switch::ns(&mut ours, &mut source, PACKETS)?);
            notes.take(figure, false, switch::ns(peer, &mut theirs, PACKETS)?);
        }
        Ok(())
    };
    for (entries, figure, _) in ENTRIES {
        eprintln!("bench: {entries} entries");
        let flows = Flows::exact(entries)?;
        turns(figure, &mut ExactMatch::new(&flows)?, flows)?;
    }
    eprintln!("bench: {PREFIXES} prefixes");
    let flows = Flows::anywhere()?;
    turns("vs_lpm_380k", &mut LongestPrefix::new(PREFIXES)?, flows)?;
    let mut forward = EdgeWork::nsh_forward()?;
    for _ in 0..samples {
        notes.take("vs_nsh_forward", true, switch::ns(&mut ours, &mut source, PACKETS)?);
        notes.take("vs_nsh_forward", false, forward.ns(PACKETS)?);
    }
    Ok(())
}

type MakeWork = fn(Kind) -> Result<EdgeWork, BenchError>;

/// Edges, in turns with the same over NSH.
fn edges(samples: usize, notes: &mut Notes) -> Result<(), BenchError> {
    eprintln!("bench: edges");
    let slow = |kind| Kind { has_fast_path: false, ..kind };
    let kinds = [Kind::ROUTED, Kind::ORDINARY];
    let works: [(&str, MakeWork, [Kind; 2]); 4] = [
        ("edge_push_ns", EdgeWork::push, kinds),
        ("edge_proxy_out_ns", EdgeWork::proxy_out, kinds),
        ("edge_push_slow_ns", EdgeWork::push, kinds.map(slow)),
        ("edge_proxy_out_slow_ns", EdgeWork::proxy_out, kinds.map(slow)),
    ];
    for (figure, work, [ours, peer]) in works {
        let (mut ours, mut peer) = (work(ours)?, work(peer)?);
        for _ in 0..samples {
            notes.take(figure, true, ours.ns(PACKETS)?);
            notes.take(figure, false, peer.ns(PACKETS)?);
        }
    }
    Ok(())
}

pub(crate) fn plot(notes: &Notes) -> Plot {
    let points = || ENTRIES.map(|(entries, figure, _)| (f64::from(entries), figure.to_owned()));
    Plot {
        stem: "source-route".into(),
        title: "Cost of a frame by what the switch knows".into(),
        x: Axis::logarithmic("entries of the table (logarithmic)"),
        y: Axis::linear("nanoseconds per frame"),
        lines: vec![
            line(notes, "source route, no table", true, points()),
            line(notes, "exact match", false, points()),
        ],
    }
}
