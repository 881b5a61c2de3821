//! Open vSwitch as it comes, in place of ours: the same sender, functions and receiver in namespaces
//! of their own, plain packets, rules by port. Knows its programs; refuses to know what is measured.

use super::link::{Link, Room, refused, shared_ports};
use crate::error::{LabError, Result};
use crate::open_vswitch::{BRIDGE, Switch, run, wait};
use crate::vocabulary::{Lab, Users};
use crate::wiring::{self, Namespaces, PortPlan, WiringPlan};
use catena_kernel::namespace::NetNamespace;
use std::fmt::Write as _;
use std::fs;
use std::path::PathBuf;
use std::process::{Child, Command};

/// A running switch with sender and receiver at it.
pub(super) struct OpenVswitch {
    pub(super) link: Link,
    /// What it says of itself.
    pub(super) version: String,
    _processes: Processes,
    _namespaces: Namespaces,
}

/// The daemon and its database; ended in this order.
struct Processes {
    children: Vec<Child>,
    folder: PathBuf,
}

impl Drop for Processes {
    fn drop(&mut self) {
        for child in self.children.iter_mut().rev() {
            // It may have ended by itself.
            let _ = child.kill();
            let _ = child.wait();
        }
        // What cannot be deleted is where such things are kept.
        let _ = fs::remove_dir_all(&self.folder);
    }
}

impl OpenVswitch {
    /// Starts it with the rules for the chain of plain packets; none: there are no plain packets.
    pub(super) fn start(lab: &Lab, plan: &WiringPlan, users: &Users) -> Result<Option<Self>> {
        let Some(plain) = &users.plain else { return Ok(None) };
        let [from, to] = shared_ports(lab, plan, users)?;
        let mut stops = vec![from];
        for step in lab.chain(&plain.chain).into_iter().flat_map(|chain| &chain.document.chain) {
            let of = |port: &&PortPlan| port.device == step.name && port.network == from.network;
            let port = plan.ports.iter().find(of).filter(|port| port.host == from.host);
            let reason = "beside Open vSwitch, functions are on one host and one network";
            stops.push(port.ok_or_else(|| refused(lab, reason))?);
        }
        stops.push(to);
        let devices = stops.iter().map(|stop| stop.device.as_str());
        let part = plan.part(&devices.chain([from.host.as_str()]).collect::<Vec<&str>>());
        let namespaces = wiring::make(&part, &NetNamespace::create_unnamed)?;
        let room = |name: &str| {
            let found = namespaces.get(name).cloned();
            found.ok_or_else(|| refused(lab, "a namespace beside Open vSwitch is missing"))
        };
        let mut processes = Processes { children: Vec::new(), folder: folder()? };
        let switch = Switch { folder: &processes.folder.clone(), room: room(&from.host)? };
        switch.start(&mut processes.children, &["fail-mode=secure"])?;
        steer(&switch, &stops, plain.port)?;
        let rooms = [Room::Own(room(&users.from)?), Room::Own(room(&users.to)?)];
        let version = run(Command::new("ovs-vsctl").arg("--version"))?;
        let version = version.lines().next().unwrap_or_default().to_owned();
        Ok(Some(Self {
            link: Link::open(lab, &part, users, &rooms)?,
            version,
            _processes: processes,
            _namespaces: namespaces,
        }))
    }
}

/// Lets plain packets go from stop to stop, and everything else, such as questions for addresses, as in any switch.
fn steer(switch: &Switch<'_>, stops: &[&PortPlan], port: u16) -> Result<()> {
    let mut numbers = Vec::new();
    for stop in stops {
        let interface = wiring::switch_side(&stop.device, &stop.network);
        switch.configure(&["add-port", BRIDGE, &interface])?;
        let number = switch.configure(&["get", "Interface", &interface, "ofport"])?;
        numbers.push(number.trim().to_owned());
    }
    let mut rules = "priority=0,actions=NORMAL\n".to_owned();
    let ways = numbers.iter().zip(numbers.iter().zip(stops).skip(1));
    for (from, (to, stop)) in ways {
        let _ = write!(rules, "priority=10,in_port={from},udp,tp_dst={port},actions=");
        if stop.is_function {
            let [a, b, c, d, e, f] = stop.mac;
            let mac = format!("{a:02x}:{b:02x}:{c:02x}:{d:02x}:{e:02x}:{f:02x}");
            let _ = write!(rules, "set_field:{mac}->eth_dst,");
        }
        let _ = writeln!(rules, "output:{to}");
    }
    let file = switch.folder.join("rules");
    fs::write(&file, rules)
        .map_err(|error| LabError::io("write", file.display().to_string(), error))?;
    let bridge = switch.folder.join(format!("{BRIDGE}.mgmt"));
    wait("the bridge of Open vSwitch", || bridge.exists())?;
    run(switch.program("ovs-ofctl").arg("add-flows").arg(bridge).arg(file)).map(drop)
}

fn folder() -> Result<PathBuf> {
    let folder = std::env::temp_dir().join(format!("catena-lab-ovs-{}", std::process::id()));
    fs::create_dir(&folder)
        .map_err(|error| LabError::io("create", folder.display().to_string(), error))?;
    Ok(folder)
}
