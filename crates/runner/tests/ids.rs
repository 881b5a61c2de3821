//! Programs of others through an ids and an ips: curl, nmap's scripts for HTTP, hping3 and ping, and a real nginx
//! behind. What must alert alerts, as often as nginx has seen it; what is benign does not; what the ips ends never
//! arrives.
//!
//! Needs root, iproute2, nginx, curl, nmap, hping3 and ping: everything happens in namespaces of its own.

mod programs;

use catena_kernel::namespace::NetNamespace;
use catena_kernel::process::{enter_namespace, spawn_bound};
use catena_nf::ids::{Ids, IdsConfig};
use catena_rules::{ReadOptions, snort};
use catena_runner::{Account, Lines};
use programs::{Running, must, output};
use serde_json::Value;
use std::collections::BTreeMap;
use std::fs::{self, File};
use std::os::fd::{AsFd, AsRawFd};
use std::path::PathBuf;
use std::process::{Child, Command, Stdio};
use std::time::Duration;

const RULES: &str = r#"
ipvar HOME_NET [10.9.0.0/24,2001:db8:9::/64]
ipvar SERVERS [10.9.0.2,2001:db8:9::2]
alert http any any -> $SERVERS 80 (msg:"evil page"; flow:established,to_server; http.uri; content:"/cgi-bin/evil"; sid:1;)
alert http any any -> $SERVERS any (msg:"scanner of SQL"; flow:to_server; http.user_agent; content:"sqlmap"; nocase; startswith; sid:2;)
alert http any any -> any any (msg:"nmap's scripts"; flow:to_server; http.user_agent; content:"Nmap Scripting Engine"; fast_pattern; sid:3;)
alert http any any -> any any (msg:"a repository is looked for"; http.uri; content:"/.git/HEAD"; endswith; http.method; content:"GET"; sid:4;)
alert tcp any any -> $HOME_NET any (msg:"many handshakes"; flags:S; detection_filter:track by_src,count 40,seconds 600; sid:5;)
alert tcp any any -> $HOME_NET any (msg:"christmas tree"; flags:FPU,12; sid:6;)
alert icmp any any -> $HOME_NET any (msg:"large ping"; itype:8; dsize:>800; sid:7;)
alert tcp any any -> $SERVERS 80 (msg:"injection"; flow:established,to_server; content:"union select"; nocase; pcre:"/from\s+users/Ri"; sid:8;)
alert udp any any -> $HOME_NET 53 (msg:"long question"; dsize:>100; content:"XXXXXXXX"; threshold:type limit,track by_src,count 1,seconds 60; sid:9;)
alert http any any -> $SERVERS any (msg:"attack behind a cookie"; http.host; content:"shop.example"; http.header; content:"X-Api-Version|3a| ${jndi|3a|"; nocase; sid:10;)
"#;
const PREVENTING: &str = r#"
ipvar SERVERS [10.9.0.2,2001:db8:9::2]
pass http any any -> $SERVERS 80 (msg:"the shop may"; http.host; content:"shop.example"; sid:1;)
drop http any any -> $SERVERS 80 (msg:"evil page"; flow:to_server; http.uri; content:"/cgi-bin/evil"; sid:2;)
reject http any any -> $SERVERS 80 (msg:"scanner of SQL"; http.user_agent; content:"sqlmap"; nocase; sid:3;)
drop tcp any any -> any any (msg:"christmas tree"; flags:FPU; sid:4;)
reject udp any any -> any 9 (msg:"discard"; sid:5;)
"#;
const SERVER: &str = "10.9.0.2";

/// Who asks, what watches, and a web server.
struct World {
    client: NetNamespace,
    middle: NetNamespace,
    _server: NetNamespace,
    place: PathBuf,
    nginx: Child,
}

impl World {
    fn new(name: &str) -> Self {
        let make = |part: &str| {
            NetNamespace::create_unnamed(&format!("{name}-{part}")).expect("a namespace")
        };
        let (client, middle, server) = (make("client"), make("middle"), make("server"));
        let path = format!("/proc/{}/fd/{}", std::process::id(), middle.as_fd().as_raw_fd());
        for (namespace, end, peer, host) in
            [(&client, "asks", "in", 1), (&server, "serves", "out", 2)]
        {
            let link = format!("ip link add {end} type veth peer name {peer} netns {path}");
            must(namespace, &link);
            must(namespace, &format!("ip addr add 10.9.0.{host}/24 dev {end}"));
            must(namespace, &format!("ip addr add 2001:db8:9::{host}/64 dev {end} nodad"));
            must(namespace, &format!("ip link set {end} up"));
            must(namespace, "ip link set lo up");
            must(&middle, &format!("ip link set {peer} up"));
        }
        let place = std::env::temp_dir().join(format!("catena-ids-{}-{name}", std::process::id()));
        fs::create_dir_all(place.join("pages")).expect("a directory");
        let nginx = serve(&server, &place);
        Self { client, middle, _server: server, place, nginx }
    }

    fn run(&self, rules: &str, is_preventing: bool) -> Running {
        let options = ReadOptions { file: "web.rules".into(), ..ReadOptions::default() };
        let rules = snort::read(rules, &BTreeMap::new(), &options);
        let rules = rules.unwrap_or_else(|error| panic!("{error}"));
        let ids = Ids::new(rules, IdsConfig { is_preventing, ..IdsConfig::default() });
        let eve = File::create(self.place.join("eve.json")).expect("a file");
        Running::start(Box::new(ids.expect("an ids")), &self.middle, Some(Lines::new(eve)))
    }

    /// How often each rule was told of, and all lines.
    fn told(&self) -> (BTreeMap<u64, usize>, Vec<Value>) {
        let text = fs::read_to_string(self.place.join("eve.json")).expect("it was written");
        let lines: Vec<Value> =
            text.lines().map(|line| serde_json::from_str(line).expect("a line of JSON")).collect();
        let mut counts = BTreeMap::new();
        for line in &lines {
            assert_eq!(line["event_type"], "alert");
            let sid = line["alert"]["signature_id"].as_u64().expect("a number");
            *counts.entry(sid).or_insert(0) += 1;
        }
        (counts, lines)
    }

    /// What nginx has seen.
    fn seen(&self) -> Vec<String> {
        let log = fs::read_to_string(self.place.join("access.log")).unwrap_or_default();
        log.lines().map(str::to_owned).collect()
    }

    fn curl(&self, words: &str) -> (bool, String) {
        output(&self.client, &format!("curl -s -S -m 5 -o /dev/null {words}"))
    }
}

impl Drop for World {
    fn drop(&mut self) {
        // Whatever fails here, its namespaces end with it.
        let _ = self.nginx.kill();
        let _ = self.nginx.wait();
        let _ = fs::remove_dir_all(&self.place);
    }
}

/// Starts nginx, and waits until it listens.
fn serve(server: &NetNamespace, place: &std::path::Path) -> Child {
    let at = place.display();
    let config = format!(
        "daemon off; master_process off; worker_processes 1; user root; pid {at}/pid; error_log {at}/error.log;
         events {{}}
         http {{
           log_format asked '$request|$http_user_agent|$status';
           access_log {at}/access.log asked;
           client_body_temp_path {at}/b; proxy_temp_path {at}/p; fastcgi_temp_path {at}/f;
           uwsgi_temp_path {at}/u; scgi_temp_path {at}/s;
           server {{ listen 80; listen [::]:80; root {at}/pages;
             location /cgi-bin/ {{ return 200 'done'; }} location /search {{ return 200 'found'; }} }}
         }}"
    );
    fs::write(place.join("nginx.conf"), config).expect("there is room");
    fs::write(place.join("pages/index.html"), "a page").expect("there is room");
    fs::write(place.join("pages/large.bin"), vec![b'x'; 4 << 20]).expect("there is room");
    let mut command = Command::new("nginx");
    command.arg("-p").arg(place).arg("-c").arg(place.join("nginx.conf"));
    command.stdin(Stdio::null()).stdout(Stdio::null()).stderr(Stdio::null());
    enter_namespace(&mut command, server);
    let child = spawn_bound(command).expect("nginx is installed");
    let listens = || must(server, "ss -ltn").contains(":80 ");
    let mut tries = 0..100;
    assert!(tries.any(|_| listens() || {
        std::thread::sleep(Duration::from_millis(50));
        false
    }));
    child
}

/// What everybody does: none of it is an attack.
fn is_benign(world: &World) {
    for words in [
        "http://10.9.0.2/index.html",
        "http://10.9.0.2/large.bin",
        "http://[2001:db8:9::2]/index.html",
        "-A Mozilla/5.0 http://10.9.0.2/search?q=union",
        "-b sqlmap=1 http://10.9.0.2/search?q=evil",
        "-d name=select&from=users http://10.9.0.2/search",
        "-I http://10.9.0.2/",
    ] {
        let (is_well, said) = world.curl(words);
        assert!(is_well, "{words}: {said}");
    }
    must(&world.client, "ping -c 2 -i 0.05 -W 2 10.9.0.2");
    must(&world.client, "ping -c 2 -i 0.05 -W 2 2001:db8:9::2");
}

fn is_accounted_for(account: &Account) {
    assert_eq!(account.unaccounted, 0, "{account:?}");
    assert_eq!(account.messages.refused, 0, "{account:?}");
}

#[test]
fn an_ids_tells_of_what_a_web_server_sees_and_of_nothing_benign() {
    let world = World::new("ids");
    let running = world.run(RULES, false);
    is_benign(&world);
    let account = running.stop();
    is_accounted_for(&account);
    assert_eq!(world.told().1, Vec::<Value>::new(), "nothing of it is an attack");

    let running = world.run(RULES, false);
    for words in [
        "http://10.9.0.2/cgi-bin/evil",
        "--path-as-is http://10.9.0.2/x/../cgi-bin//%65vil?a=1",
        "http://[2001:db8:9::2]/cgi-bin/evil",
        "-A SQLmap/1.7 http://10.9.0.2/search?id=1",
        "-A sqlmap http://10.9.0.2/index.html http://10.9.0.2/large.bin",
        "-d id=1+UNION%20SELECT http://10.9.0.2/search",
        "-H X-Api-Version:${jndi:ldap://x} -H Host:shop.example http://10.9.0.2/",
        "-H Content-Type:text/plain --data-binary @injection http://10.9.0.2/search",
    ] {
        let words = words.replace("@injection", &format!("@{}", injection(&world).display()));
        // A method that nginx does not take is an answer as well.
        let (is_well, said) = world.curl(&words);
        assert!(is_well, "{words}: {said}");
    }
    let scripts = "nmap -n -Pn -sT -p 80 --script http-git,http-title,http-headers 10.9.0.2";
    let said = must(&world.client, scripts);
    assert!(said.contains("80/tcp open"), "{said}");
    output(&world.client, "hping3 -q -c 3 -i u20000 -F -P -U -p 80 10.9.0.2");
    output(&world.client, "hping3 -q -c 60 -i u5000 -S -p 81 10.9.0.2");
    output(&world.client, "hping3 -q -c 2 -i u20000 --udp -d 200 -p 53 10.9.0.2");
    must(&world.client, "ping -c 2 -i 0.05 -W 2 -s 1000 10.9.0.2");
    let account = running.stop();
    is_accounted_for(&account);
    let (told, lines) = world.told();
    let seen = world.seen();
    let of = |word: &str| seen.iter().filter(|line| line.to_lowercase().contains(word)).count();
    println!("{told:?}\n{account:?}");
    println!(
        "nginx has seen {} requests, {} of them by nmap's scripts",
        seen.len(),
        of("nmap scripting")
    );
    assert_eq!(told.get(&1), Some(&3), "three ways to one page");
    assert_eq!(told.get(&2).copied(), Some(of("|sqlmap")));
    assert_eq!(told.get(&3).copied(), Some(of("nmap scripting")));
    assert_eq!(told.get(&4).copied(), Some(of("get /.git/head ")));
    assert!(told.get(&5).is_some_and(|count| *count >= 20), "60 handshakes and those of others");
    assert_eq!(told.get(&6), Some(&3));
    assert_eq!(told.get(&7), Some(&2));
    assert_eq!(told.get(&8), Some(&1));
    assert_eq!(told.get(&9), Some(&1));
    assert_eq!(told.get(&10), Some(&1));
    assert!(of("nmap scripting") >= 3 && of("|sqlmap") == 3, "{seen:?}");
    let page = lines.iter().find(|line| line["alert"]["signature_id"] == 1).expect("it is there");
    assert_eq!((&page["src_ip"], &page["dest_ip"]), (&"10.9.0.1".into(), &SERVER.into()));
    assert_eq!(page["http"]["url"], "/cgi-bin/evil");
    assert_eq!(page["alert"]["action"], "allowed");
}

/// A body that is an attack.
fn injection(world: &World) -> PathBuf {
    let file = world.place.join("injection");
    let body = format!("{}id=1 UNION SELECT name,password FROM\t users", "~".repeat(3_000));
    fs::write(&file, body).expect("there is room");
    file
}

#[test]
fn an_ips_ends_attacks_before_a_web_server_sees_them_and_nothing_benign() {
    let world = World::new("ips");
    let running = world.run(PREVENTING, true);
    is_benign(&world);
    let benign = world.seen().len();
    let fails = |words: &str| {
        let (is_well, said) = world.curl(&format!("-m 2 {words}"));
        assert!(!is_well, "{words} arrived");
        said
    };
    fails("http://10.9.0.2/cgi-bin/evil");
    fails("http://[2001:db8:9::2]/cgi-bin/%65vil");
    let reset = fails("-A sqlmap/1.7 http://10.9.0.2/index.html");
    assert!(reset.contains("reset"), "{reset}");
    assert_eq!(world.seen().len(), benign, "nginx has seen none of it");
    let (is_well, said) = world.curl("-H Host:shop.example http://10.9.0.2/cgi-bin/evil");
    assert!(is_well, "what may pass passes: {said}");
    assert_eq!(world.seen().len(), benign + 1);
    // A closed port answers this with a reset, which tells whether it has arrived.
    let tree = output(&world.client, "hping3 -q -c 2 -i u20000 -F -P -U -p 81 10.9.0.2").1;
    assert!(tree.contains("100% packet loss"), "{tree}");
    let plain = output(&world.client, "hping3 -q -c 2 -i u20000 -F -P -p 81 10.9.0.2").1;
    assert!(plain.contains(" 0% packet loss"), "{plain}");
    let account = running.stop();
    is_accounted_for(&account);
    let (told, lines) = world.told();
    println!("{told:?}\n{account:?}");
    assert!(
        told.get(&2).is_some_and(|count| *count >= 2),
        "and as often as it is repeated: {told:?}"
    );
    assert!(told.get(&3).is_some_and(|count| *count >= 1), "{told:?}");
    assert_eq!(told.get(&4), Some(&2));
    assert!(lines.iter().all(|line| line["alert"]["action"] == "blocked"));
    let ended: u64 = account.dropped.rules.iter().map(|rule| rule.packets).sum();
    assert_eq!(ended, lines.len() as u64, "each packet that ended was told");
    assert!(account.created.get("tcp_reset").is_some_and(|count| *count >= 1), "{account:?}");
}
