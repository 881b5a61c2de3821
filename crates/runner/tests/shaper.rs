//! A shaper between two interfaces beside `tc tbf` of the kernel, on the same stream: how much of it arrives in a
//! second while more is offered, and that every packet is accounted for.
//!
//! Needs root and iproute2: everything happens in namespaces of its own. The kernel's bucket counts 14 bytes of
//! Ethernet more for each packet than ours, one in a hundred here.

use catena_kernel::namespace::{NetNamespace, run_in};
use catena_kernel::packet::open_packet_socket;
use catena_kernel::process::{enter_namespace, spawn_bound};
use catena_nf::Function;
use catena_nf::shaper::Shaper;
use catena_rules::qos::{QosKind, read};
use catena_runner::{Account, Bump, Clock, run};
use std::io::Write;
use std::net::UdpSocket;
use std::os::fd::{AsFd, AsRawFd};
use std::os::unix::net::UnixStream;
use std::process::{Command, Stdio};
use std::time::{Duration, Instant};

const RATE: &str = "8mbit";
const BURST: u32 = 16_000;
const QUEUE: u32 = 60_000;
/// Of each datagram, and of the IP packet that carries it.
const PAYLOAD_BYTES: usize = 1_200;
const PACKET_BYTES: usize = PAYLOAD_BYTES + 28;
/// What is offered: four times the rate.
const GAP: Duration = Duration::from_micros(300);
const OFFERED: Duration = Duration::from_secs(3);
/// When what arrives is counted, behind the first datagram: the burst is over.
const WINDOW: (Duration, Duration) = (Duration::from_millis(500), Duration::from_millis(2_500));

/// A sender and a receiver, with something between them.
struct World {
    sender: NetNamespace,
    middle: NetNamespace,
    receiver: NetNamespace,
}

fn must(namespace: &NetNamespace, words: &str) -> String {
    let mut words = words.split(' ');
    let mut command = Command::new(words.next().expect("a program"));
    command.args(words).stdin(Stdio::null()).stdout(Stdio::piped()).stderr(Stdio::piped());
    enter_namespace(&mut command, namespace);
    let output = spawn_bound(command).expect("it starts").wait_with_output().expect("it ends");
    let said = String::from_utf8_lossy(&[output.stdout, output.stderr].concat()).into_owned();
    assert!(output.status.success(), "{said}");
    said
}

impl World {
    fn new(name: &str) -> Self {
        let make = |part: &str| {
            NetNamespace::create_unnamed(&format!("{name}-{part}")).expect("a namespace")
        };
        let world = Self { sender: make("from"), middle: make("by"), receiver: make("to") };
        let middle =
            format!("/proc/{}/fd/{}", std::process::id(), world.middle.as_fd().as_raw_fd());
        let hosts = [
            (&world.sender, "in", "02:00:00:00:00:01", "02:00:00:00:00:02", 1, 2),
            (&world.receiver, "out", "02:00:00:00:00:02", "02:00:00:00:00:01", 2, 1),
        ];
        for (host, end, mac, other_mac, own, other) in hosts {
            let peer = format!("peer name {end} netns {middle}");
            must(host, &format!("ip link add host address {mac} type veth {peer}"));
            must(host, "ip link set host up");
            must(host, &format!("ip addr add 10.0.0.{own}/24 dev host"));
            must(host, &format!("ip neigh add 10.0.0.{other} lladdr {other_mac} dev host"));
            must(&world.middle, &format!("ip link set {end} up"));
        }
        world
    }

    /// Offers a stream, and answers how many bytes of IP have arrived within the window, and how many datagrams in
    /// all.
    fn stream(&self) -> (usize, usize) {
        let receiver = run_in(&self.receiver, || UdpSocket::bind("10.0.0.2:9"));
        let receiver = receiver.expect("a thread").expect("a port");
        receiver.set_read_timeout(Some(Duration::from_secs(1))).expect("it can be set");
        let sender = run_in(&self.sender, || UdpSocket::bind("10.0.0.1:9"));
        let sender = sender.expect("a thread").expect("a port");
        let sending = std::thread::spawn(move || {
            let begun = Instant::now();
            let mut sent = 0;
            while begun.elapsed() < OFFERED {
                // As many as are due: a thread that sleeps wakes late.
                let due = begun.elapsed().as_micros() / GAP.as_micros();
                while sent < due {
                    sender.send_to(&[7; PAYLOAD_BYTES], "10.0.0.2:9").expect("it is sent");
                    sent += 1;
                }
                std::thread::sleep(GAP);
            }
        });
        let mut all = 0;
        let mut begun = None;
        let mut within = 0;
        while receiver.recv(&mut [0; 2_048]).is_ok() {
            let since = begun.get_or_insert_with(Instant::now).elapsed();
            within += usize::from(WINDOW.0 <= since && since < WINDOW.1);
            all += 1;
        }
        sending.join().expect("it sends");
        (within * PACKET_BYTES, all)
    }
}

#[test]
fn a_stream_comes_out_of_the_shaper_as_fast_as_out_of_the_kernels() {
    let kernel = World::new("kernel-tbf");
    for words in [
        "ip link add bridge type bridge",
        "ip link set in master bridge",
        "ip link set out master bridge",
        "ip link set bridge up",
    ] {
        must(&kernel.middle, words);
    }
    let tbf = format!("tbf rate {RATE} burst {BURST} limit {QUEUE}");
    must(&kernel.middle, &format!("tc qdisc add dev out root {tbf}"));
    let (theirs, their_packets) = kernel.stream();

    let world = World::new("our-shaper");
    let shape = format!("{{rate: {RATE}, burst: {BURST}, queue: {QUEUE}}}");
    let config = format!("classes: [{{name: all, match: {{direction: forward}}, shape: {shape}}}]");
    let config = read(&config, "shaper.yaml", QosKind::Shaper).expect("a configuration");
    let shaper: Box<dyn Function> = Box::new(Shaper::new(&config));
    let sockets =
        ["in", "out"].map(|end| open_packet_socket(&world.middle, end).expect("a socket"));
    let (mut stop, stopped) = UnixStream::pair().expect("two ends");
    let (_ask, asked) = UnixStream::pair().expect("two ends");
    asked.set_nonblocking(true).expect("it can be set");
    let mut bump = Bump::new(shaper, catena_runner::open(sockets).expect("rings"));
    let running = std::thread::spawn(move || -> Account {
        run(&mut bump, Clock::start(), (stopped, asked.into()), || Ok(()), |_, _| {})
            .expect("it runs");
        bump.account()
    });
    let (ours, packets) = world.stream();
    stop.write_all(b"!").expect("it hears");
    let account = running.join().expect("it ends");

    let ratio = ours as f64 / theirs as f64;
    println!(
        "kernel: {theirs} bytes, {their_packets} datagrams; ours: {ours}, {packets}; {ratio:.3}"
    );
    println!("{account:?}");
    assert!((0.85..1.15).contains(&ratio), "{ratio}");
    assert_eq!(account.unaccounted, 0, "{account:?}");
    assert_eq!(account.held.waiting, 0, "all has gone on within a second: {account:?}");
    assert_eq!(account.held.held, account.held.released);
    assert!(account.held.held > 1_000 && account.dropped.function_full > 1_000, "{account:?}");
    assert!(account.created.is_empty(), "what waited is no new packet: {account:?}");
}
