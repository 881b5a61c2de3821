//! A namespace of a lab as the tests enter it: with sockets, with programs, with its `/proc/net`.

use catena_kernel::namespace::{NetNamespace, run_in};
use catena_kernel::process::{enter_namespace, spawn_bound};
use std::fs;
use std::io;
use std::path::Path;
use std::process::{Child, Command, Output, Stdio};

/// A node of a running lab.
#[derive(Clone, Debug)]
pub(crate) struct Node {
    pub(crate) name: String,
    namespace: NetNamespace,
}

impl Node {
    /// The node of the lab whose first process is `init`.
    pub(crate) fn of(init: u32, name: &str) -> Self {
        let path = format!("/proc/{init}/root/run/netns/{name}");
        let namespace = NetNamespace::open(Path::new(&path))
            .unwrap_or_else(|error| panic!("node {name}: {error}"));
        Self { name: name.to_owned(), namespace }
    }

    /// One of nobody's, which ends with its last process.
    pub(crate) fn made(name: &str) -> Self {
        let namespace = NetNamespace::create_unnamed(name)
            .unwrap_or_else(|error| panic!("node {name}: {error}"));
        Self { name: name.to_owned(), namespace }
    }

    /// Where its interfaces are.
    pub(crate) fn namespace(&self) -> NetNamespace {
        self.namespace.clone()
    }

    /// Does something on a thread inside; a socket made there stays there.
    pub(crate) fn inside<T: Send>(&self, work: impl FnOnce() -> T + Send) -> T {
        run_in(&self.namespace, work).expect("the namespace can be entered")
    }

    /// Starts a program inside; it ends with the tests at the latest.
    pub(crate) fn start(&self, program: &str, arguments: &[&str]) -> Child {
        let mut command = Command::new(program);
        command.args(arguments).stdin(Stdio::null()).stdout(Stdio::piped()).stderr(Stdio::piped());
        enter_namespace(&mut command, &self.namespace);
        spawn_bound(command).unwrap_or_else(|error| panic!("{program} at {}: {error}", self.name))
    }

    /// Runs a program inside to its end, however it ends.
    pub(crate) fn attempt(&self, program: &str, arguments: &[&str]) -> Output {
        let child = self.start(program, arguments);
        child.wait_with_output().expect("a started program can be waited for")
    }

    /// Runs a program inside that must succeed.
    pub(crate) fn run(&self, program: &str, arguments: &[&str]) -> String {
        let output = self.attempt(program, arguments);
        let said = String::from_utf8_lossy(&output.stdout).into_owned();
        let wrong = String::from_utf8_lossy(&output.stderr);
        assert!(output.status.success(), "{program} {arguments:?} at {}: {said}{wrong}", self.name);
        said
    }

    /// Runs `ip` with words as people write them.
    pub(crate) fn ip(&self, words: &str) -> String {
        self.run("ip", &words.split(' ').collect::<Vec<_>>())
    }

    /// Writes a setting of the node's network.
    pub(crate) fn set(&self, key: &str, value: &str) {
        let path = format!("/proc/sys/{key}");
        self.inside(|| fs::write(&path, value)).unwrap_or_else(|error| panic!("{key}: {error}"));
    }

    /// What its kernel throws away while it asks who a neighbour is must not look like a loss of what is tested.
    pub(crate) fn keep_for_neighbours(&self, bytes: usize) {
        let keep = || -> io::Result<()> {
            for family in ["ipv4", "ipv6"] {
                for interface in fs::read_dir(format!("/proc/sys/net/{family}/neigh"))? {
                    fs::write(interface?.path().join("unres_qlen_bytes"), bytes.to_string())?;
                }
            }
            Ok(())
        };
        self.inside(keep).unwrap_or_else(|error| panic!("{}: {error}", self.name));
    }

    /// A counter of the node's own stack, as `/proc/net/snmp` has it.
    pub(crate) fn stack_counter(&self, protocol: &str, counter: &str) -> u64 {
        let text = self
            .inside(|| fs::read_to_string("/proc/thread-self/net/snmp"))
            .expect("/proc/net/snmp can be read");
        let prefix = format!("{protocol}: ");
        let mut lines = text.lines().filter_map(|line| line.strip_prefix(&prefix));
        let names = lines.next().expect("a line of names").split(' ');
        let values = lines.next().expect("a line of values").split(' ');
        let value = names.zip(values).find(|(name, _)| *name == counter);
        value.and_then(|(_, value)| value.parse().ok()).unwrap_or_else(|| panic!("no {counter}"))
    }

    /// Hardware address of one of its interfaces.
    pub(crate) fn mac(&self, interface: &str) -> String {
        // A `sysfs` shows the namespace of whoever mounted it; netlink shows the one that asks.
        let said = self.ip(&format!("-o link show dev {interface}"));
        let mut words = said.split_whitespace().skip_while(|word| *word != "link/ether");
        words.nth(1).unwrap_or_else(|| panic!("no address in {said}")).to_owned()
    }
}
