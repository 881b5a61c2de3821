//! The balancer (`catena nf run balancer`) beside haproxy, both before the same nginx at four addresses: one
//! stream of TCP, and connections for a page each.

use super::line::{lead, line};
use crate::chain_tcp::{Bed, End, Ends, Node, SOURCE_ADDRESS, Wires, gbit};
use crate::peers::program::{Running, find, run};
use crate::peers::{Folder, Unavailable};
use crate::results::{Better, Figure, Goal, Notes};
use std::io::{Read, Write};
use std::net::TcpStream;
use std::path::Path;
use std::process::{Command, Stdio};
use std::time::{Duration, Instant};

const SERVICE: &str = "203.0.113.10";
const SERVERS: [&str; 4] = ["10.20.0.1", "10.20.0.2", "10.20.0.3", "10.20.0.4"];
const PAGES_PORT: u16 = 80;
const STREAM_PORT: u16 = 5_201;
const ROUNDS: usize = 3;
const SECONDS: u32 = 2;
/// Clients that ask at once, each again as soon as it is answered.
const CLIENTS: usize = 4;
const START_WAIT: Duration = Duration::from_millis(700);

pub(super) fn figures() -> [Figure; 2] {
    let figure = |name, unit| Figure::new(name, unit, Better::Higher, Goal::Quotient(None));
    [
        figure("balancer_stream_vs_haproxy", "Gbit/s"),
        figure("balancer_connections_vs_haproxy", "per s"),
    ]
}

/// In turns; answers what could not be measured, and why.
pub(super) fn measure(is_quick: bool, root: &Path, notes: &mut Notes) -> Vec<String> {
    let (rounds, seconds) = if is_quick { (1, 1) } else { (ROUNDS, SECONDS) };
    let mut missing = std::collections::BTreeSet::new();
    for round in 1..=rounds {
        eprintln!("bench: the balancer beside haproxy, round {round}");
        // One after the other: both beds are of the same names.
        let ours = balancer(root).and_then(|bed| bed.measure(seconds));
        let peer = haproxy().and_then(|bed| bed.measure(seconds));
        match [ours, peer] {
            [Ok(ours), Ok(peer)] => {
                for (figure, at) in figures().iter().zip([0, 1]) {
                    notes.take(figure.name, true, ours[at]);
                    notes.take(figure.name, false, peer[at]);
                }
            }
            [ours, peer] => {
                let reasons = [("balancer", ours.err()), ("haproxy", peer.err())];
                let told =
                    |(who, why): (&str, Option<Unavailable>)| Some(format!("{who} ({})", why?));
                missing.extend(reasons.into_iter().filter_map(told));
            }
        }
    }
    missing.into_iter().collect()
}

/// Clients, who balances, and servers.
struct Balanced {
    bed: Bed,
    _programs: Vec<Running>,
    _folder: Folder,
}

impl Ends for Balanced {
    fn at(&self, end: End) -> Command {
        self.bed.at(end)
    }

    fn address(&self) -> &'static str {
        SERVICE
    }
}

impl Balanced {
    /// Gbit/s of a stream, and connections a second.
    fn measure(&self, seconds: u32) -> Result<[f64; 2], Unavailable> {
        let stream = gbit(self, STREAM_PORT, seconds)?;
        let me = std::env::current_exe().map_err(|error| Unavailable::new("pages", error))?;
        let mut pages = self.at(End::Source);
        pages.arg(me).args(["pages", SERVICE, &PAGES_PORT.to_string(), &seconds.to_string()]);
        let said = run(&mut pages)?;
        let connections = said.trim().parse();
        connections.map(|count| [stream, count]).map_err(|_| Unavailable::new("pages", said))
    }
}

/// A cable over one node, with servers at its end.
fn wired(
    folder: &Folder,
    middle: Node,
) -> Result<(Wires, [crate::chain_tcp::Plug; 4], Running), Unavailable> {
    let mut wires = Wires::new()?;
    let steps = line(&mut wires, &[middle])?;
    let [[client, left], [right, server]] =
        <[_; 2]>::try_from(steps).map_err(|_| Unavailable::new("a cable", "it has other steps"))?;
    for address in SERVERS {
        let address = format!("{address}/32");
        wires.ip(server.node, &["addr", "add", &address, "dev", &server.device])?;
    }
    let nginx = find("nginx", "nginx")?;
    let config = folder.0.join("nginx.conf");
    let text = format!(
        "daemon off; pid {0}/nginx.pid; error_log /dev/null crit; worker_processes 1;\n\
         events {{ worker_connections 1024; }}\n\
         http {{ access_log off; keepalive_timeout 0;\n\
         server {{ listen {PAGES_PORT}; location / {{ return 200 \"welcome\\n\"; }} }} }}\n",
        folder.0.display()
    );
    std::fs::write(&config, text).map_err(|error| Unavailable::new("nginx.conf", error))?;
    let mut command = wires.inside(server.node);
    command.arg(nginx).arg("-p").arg(&folder.0).arg("-c").arg(&config);
    command.stdin(Stdio::null()).stdout(Stdio::null()).stderr(Stdio::null());
    let nginx = Running::start(&mut command)?;
    Ok((wires, [client, left, right, server], nginx))
}

fn ready(wires: Wires, programs: Vec<Running>, folder: Folder) -> Result<Balanced, Unavailable> {
    std::thread::sleep(START_WAIT);
    let mut balanced = Balanced { bed: Bed::of(wires, None), _programs: programs, _folder: folder };
    let mut all = balanced._programs.iter_mut();
    match all.any(|one| one.0.try_wait().is_ok_and(|ended| ended.is_some())) {
        true => Err(Unavailable::new("a program", "it ended at once")),
        false => Ok(balanced),
    }
}

fn balancer(root: &Path) -> Result<Balanced, Unavailable> {
    let folder = Folder::new()?;
    let (wires, [client, left, right, server], nginx) = wired(&folder, Node::Host(1))?;
    lead(&wires, "default", &client, &server)?;
    lead(&wires, "default", &server, &client)?;
    let backends = |port: u16| {
        SERVERS.map(|address| format!("{{address: {address}, port: {port}}}")).join(", ")
    };
    let service = |port: u16| {
        format!(
            "- {{name: s{port}, address: {SERVICE}, protocol: tcp, port: {port}, backends: [{}]}}\n",
            backends(port)
        )
    };
    let config = folder.0.join("balancer.yaml");
    let text = format!("services:\n{}{}", service(PAGES_PORT), service(STREAM_PORT));
    std::fs::write(&config, text).map_err(|error| Unavailable::new("balancer.yaml", error))?;
    let mut bump = wires.inside(left.node);
    bump.arg(crate::servers::program(root)).args(["nf", "run", "balancer", "--config"]);
    bump.arg(&config).args(["--in", &left.device, "--out", &right.device]);
    bump.stdin(Stdio::null()).stdout(Stdio::null()).stderr(Stdio::null());
    let bump = Running::start(&mut bump)?;
    ready(wires, vec![nginx, bump], folder)
}

fn haproxy() -> Result<Balanced, Unavailable> {
    let program = find("haproxy", "haproxy")?;
    let folder = Folder::new()?;
    let (wires, [client, left, right, server], nginx) = wired(&folder, Node::Host(1))?;
    lead(&wires, "default", &client, &left)?;
    lead(&wires, SOURCE_ADDRESS, &left, &client)?;
    lead(&wires, "default", &right, &server)?;
    lead(&wires, "default", &server, &right)?;
    for (plug, address) in [(&left, SERVICE), (&right, "10.20.0.254")] {
        let address = format!("{address}/32");
        wires.ip(plug.node, &["addr", "add", &address, "dev", &plug.device])?;
    }
    let backend = |port: u16| {
        let servers = (1..)
            .zip(SERVERS)
            .map(|(number, address)| format!(" server s{number} {address}:{port}\n"));
        let servers: String = servers.collect();
        format!("listen p{port}\n bind {SERVICE}:{port}\n balance roundrobin\n{servers}")
    };
    let config = folder.0.join("haproxy.cfg");
    let text = format!(
        "defaults\n mode tcp\n timeout connect 5s\n timeout client 60s\n timeout server 60s\n{}{}",
        backend(PAGES_PORT),
        backend(STREAM_PORT)
    );
    std::fs::write(&config, text).map_err(|error| Unavailable::new("haproxy.cfg", error))?;
    let mut command = wires.inside(left.node);
    command.arg(program).args(["-db", "-f"]).arg(&config);
    command.stdin(Stdio::null()).stdout(Stdio::null()).stderr(Stdio::null());
    let haproxy = Running::start(&mut command)?;
    ready(wires, vec![nginx, haproxy], folder)
}

/// Asks for pages for so many seconds, a connection each, and prints how many came a second: the client's end.
pub(crate) fn ask_for_pages(address: &str, port: u16, seconds: u64) -> std::io::Result<()> {
    let until = Instant::now() + Duration::from_secs(seconds);
    let ask = || -> std::io::Result<()> {
        let mut stream = TcpStream::connect((address, port))?;
        stream.write_all(b"GET / HTTP/1.0\r\n\r\n")?;
        let mut page = String::new();
        stream.read_to_string(&mut page)?;
        match page.ends_with("welcome\n") {
            true => Ok(()),
            false => Err(std::io::Error::other("another page came")),
        }
    };
    let client = || -> std::io::Result<u32> {
        let mut count = 0;
        while Instant::now() < until {
            ask()?;
            count += 1;
        }
        Ok(count)
    };
    let counts = std::thread::scope(|scope| {
        let clients: Vec<_> = (0..CLIENTS).map(|_| scope.spawn(client)).collect();
        let ended = |client: std::thread::ScopedJoinHandle<'_, _>| {
            client.join().unwrap_or_else(|_| Err(std::io::Error::other("a client broke")))
        };
        clients.into_iter().map(ended).collect::<std::io::Result<Vec<u32>>>()
    })?;
    println!("{:.1}", f64::from(counts.iter().sum::<u32>()) / seconds as f64);
    Ok(())
}
