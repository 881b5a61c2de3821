//! Open vSwitch with its user-space datapath over DPDK: one forwarding thread, a looping source, a
//! sink, and rules in OpenFlow.

use super::daemon::Daemon;
use super::program::{find, run};
use super::thread_clock::{ThreadClock, check_sent, per_packet};
use super::{FORWARDING_CORE, Unavailable, Windows, capture, hugepages};
use std::net::Ipv4Addr;
use std::path::Path;
use std::process::Command;
use std::thread::sleep;
use std::time::{Duration, Instant};

const PACKAGE: &str = "openvswitch-switch-dpdk";
/// The first packet of each flow takes the slow way: so long may it go on.
const SETTLE_WAIT: Duration = Duration::from_secs(60);
/// Statistics that were cleared go on for a moment.
const CLEAR_WAIT: Duration = Duration::from_millis(300);

/// Which of its look-up caches are on.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Caches {
    /// As it comes: the exact-match cache, filled by one packet in a hundred.
    Default,
    /// The exact-match cache, filled at once.
    Exact,
    /// None: its classifier alone, which is faster than the caches where NSH frames hash alike.
    Classifier,
}

/// Outer end of a VXLAN tunnel that ends at the switch.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Tunnel {
    pub(crate) remote: Ipv4Addr,
    pub(crate) local: Ipv4Addr,
    /// Destination of the outer Ethernet header, as `02:…`.
    pub(crate) local_mac: &'static str,
}

/// A running switch.
pub(crate) struct Switch {
    // The first ends first.
    daemon: Daemon,
    _pages: hugepages::HugePages,
    has_tunnel: bool,
    /// A port's device keeps its name for a while after its end.
    next_device: u32,
}

pub(super) fn described() -> String {
    format!(
        "ovs-vswitchd-dpdk, helpers on core 0, one PMD on core {FORWARDING_CORE}, \
         dpdk-extra='--in-memory --no-pci' dpdk-socket-mem=1200 max-idle=600000 \
         flow-limit=2000000; source net_pcap infinite_rx=1, sink net_null copy=0 no-rx=1"
    )
}

impl Switch {
    /// Starts it with one empty bridge.
    ///
    /// # Errors
    /// It cannot run here.
    pub(crate) fn start() -> Result<Self, Unavailable> {
        let program = find("ovs-vswitchd-dpdk", PACKAGE)?;
        let pages = hugepages::HugePages::reserve()?;
        let pmd = format!("pmd-cpu-mask={:x}", 1 << FORWARDING_CORE);
        let settings = [
            "dpdk-init=true",
            "dpdk-lcore-mask=1",
            &pmd,
            "dpdk-extra=--in-memory --no-pci",
            "dpdk-socket-mem=1200",
            "max-idle=600000",
            "flow-limit=2000000",
        ];
        let daemon = Daemon::start(&program, "0", &settings)?;
        Ok(Self { daemon, _pages: pages, has_tunnel: false, next_device: 0 })
    }

    /// Nanoseconds of the forwarding thread per packet, one for each window: these frames in a
    /// loop, under these rules.
    ///
    /// # Errors
    /// It does not take them, does not come to rest, or loses packets.
    pub(crate) fn measure(
        &mut self,
        frames: &[Vec<u8>],
        rules: &[String],
        caches: Caches,
        tunnel: Option<Tunnel>,
        windows: Windows,
    ) -> Result<Vec<f64>, Unavailable> {
        let insertion = match caches {
            Caches::Default => 100,
            Caches::Exact => 1,
            Caches::Classifier => 0,
        };
        let insertion = format!("other_config:emc-insert-inv-prob={insertion}");
        self.daemon.configure(&["set", "Open_vSwitch", ".", &insertion])?;
        self.unplug()?;
        let bridge = match tunnel {
            Some(tunnel) => self.end_tunnel(tunnel)?,
            None => "br0",
        };
        self.daemon.set_rules(rules)?;
        let source = self.daemon.file("frames.pcap");
        capture::write(&source, frames)?;
        self.plug(bridge, &source)?;
        self.settle()?;
        self.observe(windows)
    }

    fn observe(&self, windows: Windows) -> Result<Vec<f64>, Unavailable> {
        let clock = ThreadClock::of(self.daemon.pid(), "pmd")?;
        self.daemon.ask(&["dpif-netdev/pmd-stats-clear"])?;
        sleep(CLEAR_WAIT);
        let (sent, first) = (self.sent()?, self.statistic("packets received")?);
        let mut samples = Vec::new();
        let mut last = first;
        for _ in 0..windows.count {
            let (ns, packets) = (clock.ns()?, self.statistic("packets received")?);
            sleep(windows.length);
            let (ns_now, now) = (clock.ns()?, self.statistic("packets received")?);
            samples.push(per_packet((ns, ns_now), (packets, now))?);
            last = now;
        }
        // Read after the last count of the received: what is on its way in between is on our side.
        let sent = self.sent()?.saturating_sub(sent);
        check_sent("Open vSwitch", sent, last.saturating_sub(first))?;
        Ok(samples)
    }

    /// Until no packet takes the slow way any more.
    fn settle(&self) -> Result<(), Unavailable> {
        let began = Instant::now();
        loop {
            sleep(CLEAR_WAIT * 2);
            self.daemon.ask(&["dpif-netdev/pmd-stats-clear"])?;
            sleep(CLEAR_WAIT);
            let missed = self.statistic("miss with success upcall")?
                + self.statistic("miss with failed upcall")?;
            if missed == 0 && self.statistic("packets received")? > 0 {
                return Ok(());
            }
            if began.elapsed() > SETTLE_WAIT {
                let reason = format!("after {SETTLE_WAIT:?} packets still took the slow path");
                return Err(Unavailable::new("Open vSwitch", reason));
            }
        }
    }

    /// A number of the forwarding thread's statistics.
    fn statistic(&self, name: &str) -> Result<u64, Unavailable> {
        let text = self.daemon.ask(&["dpif-netdev/pmd-stats-show"])?;
        let text = text.split("main thread").next().unwrap_or_default();
        let value = text.lines().find_map(|line| {
            let (key, value) = line.trim().split_once(':')?;
            (key == name).then(|| value.split_whitespace().next()?.parse().ok()).flatten()
        });
        value.ok_or_else(|| Unavailable::new("Open vSwitch", format!("it tells no '{name}'")))
    }

    /// Packets sent to the sink so far.
    fn sent(&self) -> Result<u64, Unavailable> {
        let bridge = self.daemon.file("br0.mgmt");
        let text = run(self.daemon.command("ovs-ofctl").arg("dump-ports").arg(bridge).arg("out0"))?;
        let sent = text.split("tx pkts=").nth(1).and_then(|rest| rest.split(',').next());
        sent.and_then(|sent| sent.parse().ok())
            .ok_or_else(|| Unavailable::new("Open vSwitch", "it tells nothing of its sink"))
    }

    fn unplug(&mut self) -> Result<(), Unavailable> {
        for port in ["in0", "out0", "vx0"] {
            self.daemon.configure(&["--if-exists", "del-port", port])?;
        }
        if self.has_tunnel {
            self.daemon.configure(&["--if-exists", "del-br", "br-phy"])?;
            self.has_tunnel = false;
        }
        Ok(())
    }

    fn plug(&mut self, bridge: &str, source: &Path) -> Result<(), Unavailable> {
        self.next_device += 1;
        let number = self.next_device;
        let sink = format!("net_null_out{number},size=64,copy=0,no-rx=1");
        let source = format!("net_pcap_in{number},rx_pcap={},infinite_rx=1", source.display());
        for (bridge, port, device, request) in
            [("br0", "out0", sink, "ofport_request=2"), (bridge, "in0", source, "ofport_request=1")]
        {
            let device = format!("options:dpdk-devargs={device}");
            let set = ["--", "set", "Interface", port, "type=dpdk", &device, request];
            self.daemon.configure(&[&["add-port", bridge, port][..], &set].concat())?;
            let error = self.daemon.configure(&["get", "Interface", port, "error"])?;
            if !["[]", "\"\"", ""].contains(&error.trim()) {
                return Err(Unavailable::new("Open vSwitch", format!("port {port}: {error}")));
            }
        }
        Ok(())
    }

    /// A second bridge with the tunnel's address, to which the source belongs; the inner packets
    /// come out of port 9 of the first.
    fn end_tunnel(&mut self, tunnel: Tunnel) -> Result<&'static str, Unavailable> {
        let address = format!("other_config:hwaddr={}", tunnel.local_mac);
        let bridge = ["set", "bridge", "br-phy", "datapath_type=netdev", "fail-mode=secure"];
        self.has_tunnel = true;
        self.daemon.configure(&[&["add-br", "br-phy", "--"][..], &bridge, &[&address]].concat())?;
        let pid = self.daemon.pid().to_string();
        let local = format!("{}/24", tunnel.local);
        for words in
            [&["addr", "replace", &local, "dev", "br-phy"][..], &["link", "set", "br-phy", "up"]]
        {
            run(Command::new("nsenter").args(["-t", &pid, "--net", "ip"]).args(words))?;
        }
        let remote = format!("options:remote_ip={}", tunnel.remote);
        let set = ["type=vxlan", &remote, "options:key=flow", "ofport_request=9"];
        let add = ["add-port", "br0", "vx0", "--", "set", "Interface", "vx0"];
        self.daemon.configure(&[&add[..], &set].concat())?;
        sleep(Duration::from_millis(600));
        let bridge = self.daemon.file("br-phy.mgmt");
        let up = "priority=1,in_port=1,actions=LOCAL";
        run(self.daemon.command("ovs-ofctl").arg("add-flow").arg(&bridge).arg(up))?;
        Ok("br-phy")
    }
}
