//! The balancer beside haproxy, both before the same three nginx: real clients get pages, shares are alike, and
//! a server that has ended gets no new connections, by active checks as well as by what clients meet.
//!
//! Needs root, iproute2, nginx and haproxy: everything happens in namespaces of its own.

mod programs;

use catena_kernel::namespace::{NetNamespace, run_in};
use catena_kernel::process::{enter_namespace, spawn_bound};
use catena_nf::balancer::Balancer;
use programs::{Running, must};
use std::collections::BTreeMap;
use std::fs;
use std::io::{Read, Write};
use std::net::{Ipv4Addr, SocketAddr, TcpStream};
use std::os::fd::{AsFd, AsRawFd};
use std::path::PathBuf;
use std::process::{Child, Command, Stdio};
use std::time::Duration;

const SERVICE: &str = "10.9.0.10";
const SERVER_MAC: &str = "02:00:00:00:09:02";
const CLIENT_MAC: &str = "02:00:00:00:09:01";
const SERVERS: usize = 3;
/// Connections by which shares are told: chance alone is half a point then.
const CONNECTIONS: usize = 9_000;
/// Connections behind the end of a server.
const AFTERWARDS: usize = 600;
/// Connections in a row that fail until clients' luck has told enough of a server.
const FAILURES: usize = 5;
/// Longer than checks take to find a server dead, or back.
const CHECKED: Duration = Duration::from_millis(1_500);
const WAIT: Duration = Duration::from_secs(5);

/// How it is known that a server has ended.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Health {
    Active,
    Passive,
}

/// Clients, who balances, and three nginx.
struct World {
    client: NetNamespace,
    middle: NetNamespace,
    server: NetNamespace,
    place: PathBuf,
    nginx: Vec<Option<Child>>,
    haproxy: Option<Child>,
}

impl World {
    fn new(name: &str) -> Self {
        let make = |part: &str| {
            NetNamespace::create_unnamed(&format!("{name}-{part}")).expect("a namespace")
        };
        let (client, middle, server) = (make("client"), make("middle"), make("server"));
        let path = format!("/proc/{}/fd/{}", std::process::id(), middle.as_fd().as_raw_fd());
        let ends = [(&client, "asks", CLIENT_MAC, "in"), (&server, "serves", SERVER_MAC, "out")];
        for (namespace, end, mac, peer) in ends {
            let link =
                format!("ip link add {end} address {mac} type veth peer name {peer} netns {path}");
            must(namespace, &link);
            must(namespace, &format!("ip link set {end} up"));
            must(namespace, "ip link set lo up");
            must(&middle, &format!("ip link set {peer} up"));
        }
        must(&client, "ip addr add 10.9.0.1/24 dev asks");
        (1..=SERVERS).for_each(|number| {
            must(&server, &format!("ip addr add 10.9.1.{number}/24 dev serves"));
        });
        let place = std::env::temp_dir().join(format!("catena-lb-{}-{name}", std::process::id()));
        fs::create_dir_all(&place).expect("a directory");
        let mut world = Self { client, middle, server, place, nginx: Vec::new(), haproxy: None };
        world.nginx = (1..=SERVERS).map(|number| Some(world.serve(number))).collect();
        world
    }

    /// Starts an nginx, whose page is its number, and waits until it listens.
    fn serve(&self, number: usize) -> Child {
        let at = self.place.join(number.to_string());
        fs::create_dir_all(&at).expect("a directory");
        let shown = at.display();
        let config = format!(
            "daemon off; master_process off; worker_processes 1; user root; pid {shown}/pid;
             error_log {shown}/error.log; events {{}}
             http {{ access_log off; keepalive_timeout 0;
               client_body_temp_path {shown}/b; proxy_temp_path {shown}/p; fastcgi_temp_path {shown}/f;
               uwsgi_temp_path {shown}/u; scgi_temp_path {shown}/s;
               server {{ listen 10.9.1.{number}:80; location / {{ return 200 '{number}'; }} }} }}"
        );
        fs::write(at.join("nginx.conf"), config).expect("there is room");
        let mut command = Command::new("nginx");
        command.arg("-p").arg(&at).arg("-c").arg(at.join("nginx.conf"));
        let nginx = start(command, &self.server);
        listens(&self.server, &format!("10.9.1.{number}:80"));
        nginx
    }

    fn end(&mut self, number: usize) {
        let mut nginx = self.nginx[number - 1].take().expect("it serves");
        nginx.kill().expect("it ran");
        nginx.wait().expect("it ends");
    }

    /// With ours between the interfaces: nobody there answers for an address.
    fn with_ours(&self, health: Health) -> Running {
        must(&self.client, &format!("ip neigh add {SERVICE} lladdr {SERVER_MAC} dev asks"));
        must(&self.server, &format!("ip neigh add 10.9.0.9 lladdr {CLIENT_MAC} dev serves"));
        must(&self.server, "ip route add 10.9.0.0/24 dev serves");
        let backends: Vec<String> = (1..=SERVERS)
            .map(|n| format!("{{address: 10.9.1.{n}, port: 80, mac: '{SERVER_MAC}'}}"))
            .collect();
        let watched = match health {
            Health::Active => format!(
                "health: {{kind: http, from: 10.9.0.9, mac: '{CLIENT_MAC}', interval_ms: 200, timeout_ms: 150, \
                 rise: 2, fall: 2}}"
            ),
            Health::Passive => format!("passive: {{consecutive_failures: {FAILURES}}}"),
        };
        let text = format!(
            "services: [{{name: web, address: {SERVICE}, protocol: tcp, port: 80, backends: [{}], {watched}}}]",
            backends.join(", ")
        );
        let config = catena_rules::balancer::read(&text, "web.yaml");
        let config = config.unwrap_or_else(|error| panic!("{error}"));
        Running::start(Box::new(Balancer::new(&config)), &self.middle, None)
    }

    fn with_haproxy(&mut self, health: Health) {
        must(&self.middle, &format!("ip addr add {SERVICE}/24 dev in"));
        must(&self.middle, "ip addr add 10.9.1.254/24 dev out");
        let check = match health {
            Health::Active => "check inter 200 fall 2 rise 2".to_owned(),
            Health::Passive => {
                format!("check inter 60s observe layer4 error-limit {FAILURES} on-error mark-down")
            }
        };
        let servers: String =
            (1..=SERVERS).map(|n| format!(" server s{n} 10.9.1.{n}:80 {check}\n")).collect();
        let text = format!(
            "defaults\n mode tcp\n retries 0\n timeout connect 2s\n timeout client 5s\n timeout server 5s\n\
             listen web\n bind {SERVICE}:80\n balance roundrobin\n{servers}"
        );
        let file = self.place.join("haproxy.cfg");
        fs::write(&file, text).expect("there is room");
        let mut command = Command::new("haproxy");
        command.args(["-db", "-f"]).arg(file);
        self.haproxy = Some(start(command, &self.middle));
        listens(&self.middle, &format!("{SERVICE}:80"));
    }

    /// So many connections, one after the other: whose page each got, 0 where it got none.
    fn ask(&self, connections: usize) -> Vec<usize> {
        let ask = || (0..connections).map(|_| page().unwrap_or(0)).collect();
        run_in(&self.client, ask).expect("a thread")
    }
}

impl Drop for World {
    fn drop(&mut self) {
        // Whatever fails here, its namespaces end with it.
        for child in self.nginx.iter_mut().chain([&mut self.haproxy]).flatten() {
            let _ = child.kill();
            let _ = child.wait();
        }
        let _ = fs::remove_dir_all(&self.place);
    }
}

fn start(mut command: Command, namespace: &NetNamespace) -> Child {
    command.stdin(Stdio::null()).stdout(Stdio::null()).stderr(Stdio::null());
    enter_namespace(&mut command, namespace);
    spawn_bound(command).expect("it is installed")
}

fn listens(namespace: &NetNamespace, place: &str) {
    let mut tries = 0..100;
    assert!(tries.any(|_| must(namespace, "ss -ltn").contains(place) || {
        std::thread::sleep(Duration::from_millis(50));
        false
    }));
}

/// The number of the server whose page comes.
fn page() -> std::io::Result<usize> {
    let service: Ipv4Addr = SERVICE.parse().expect("an address");
    let mut stream = TcpStream::connect_timeout(&SocketAddr::from((service, 80)), WAIT)?;
    stream.set_read_timeout(Some(WAIT))?;
    stream.write_all(b"GET / HTTP/1.0\r\n\r\n")?;
    let mut text = String::new();
    stream.read_to_string(&mut text)?;
    let number = text.rsplit("\r\n").next().and_then(|page| page.parse().ok());
    number.ok_or_else(|| std::io::Error::other("no page"))
}

/// What clients found.
#[derive(Debug)]
struct Found {
    /// Hundredths of connections at each server, and at none.
    shares: BTreeMap<usize, f64>,
    /// Connections that got no page behind the end of a server, before and after it was known.
    failed: [usize; 2],
    /// Was there any page of it?
    is_asked: bool,
    /// Hundredths at it once it is back.
    returned: f64,
}

fn shares(pages: &[usize]) -> BTreeMap<usize, f64> {
    let mut shares = BTreeMap::new();
    for page in pages {
        *shares.entry(*page).or_insert(0.0) += 100.0 / pages.len() as f64;
    }
    shares
}

fn look(world: &mut World, health: Health) -> Found {
    // Checks have found all of them alive.
    std::thread::sleep(CHECKED);
    let before = shares(&world.ask(CONNECTIONS));
    world.end(2);
    let mut failed = [0; 2];
    if health == Health::Active {
        std::thread::sleep(CHECKED);
    } else {
        let met = world.ask(AFTERWARDS);
        failed[0] = met.iter().filter(|page| **page == 0).count();
    }
    let afterwards = world.ask(AFTERWARDS);
    failed[1] = afterwards.iter().filter(|page| **page == 0).count();
    let is_asked = afterwards.contains(&2);
    let returned = if health == Health::Active {
        world.nginx[1] = Some(world.serve(2));
        std::thread::sleep(CHECKED);
        shares(&world.ask(CONNECTIONS / 3)).get(&2).copied().unwrap_or_default()
    } else {
        0.0
    };
    Found { shares: before, failed, is_asked, returned }
}

fn is_sound(who: &str, health: Health, found: &Found) {
    println!("{who} by {health:?} health: {found:?}");
    for number in 1..=SERVERS {
        let share = found.shares.get(&number).copied().unwrap_or_default();
        assert!((share - 100.0 / SERVERS as f64).abs() < 2.0, "{who}: {found:?}");
    }
    assert_eq!(found.shares.get(&0), None, "{who}: {found:?}");
    assert_eq!((found.failed[1], found.is_asked), (0, false), "{who}: {found:?}");
    match health {
        Health::Active => assert!((found.returned - 33.3).abs() < 4.0, "{who}: {found:?}"),
        // As many as it takes to know of it.
        Health::Passive => {
            assert!((1..=2 * FAILURES).contains(&found.failed[0]), "{who}: {found:?}");
        }
    }
}

#[test]
fn a_server_that_has_ended_gets_no_new_connections_and_shares_are_those_of_haproxy() {
    for health in [Health::Active, Health::Passive] {
        let name = format!("{health:?}").to_lowercase();
        let mut world = World::new(&format!("haproxy-{name}"));
        world.with_haproxy(health);
        let theirs = look(&mut world, health);
        is_sound("haproxy", health, &theirs);
        let mut world = World::new(&format!("ours-{name}"));
        let running = world.with_ours(health);
        let ours = look(&mut world, health);
        let account = running.stop();
        is_sound("ours", health, &ours);
        assert_eq!(account.unaccounted, 0, "{account:?}");
        for number in 1..=SERVERS {
            let [own, other] = [&ours, &theirs].map(|found| found.shares[&number]);
            assert!((own - other).abs() < 2.0, "{number}: {own} and {other}");
        }
    }
}
