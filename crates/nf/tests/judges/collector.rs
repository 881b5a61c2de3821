//! Collectors of others: `nfcapd` takes messages of IPFIX in, `nfdump` says what it has.

use catena_kernel::namespace::{NetNamespace, run_in};
use catena_kernel::process::{enter_namespace, spawn_bound};
use rustix::process::{Pid, Signal, kill_process};
use std::collections::BTreeMap;
use std::fs;
use std::net::UdpSocket;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, ExitStatus, Stdio};
use std::time::{Duration, Instant};

/// How long anything may take.
const PATIENCE: Duration = Duration::from_secs(20);

/// A directory of one test, removed when dropped.
pub(crate) struct Workplace(pub(crate) PathBuf);

impl Workplace {
    pub(crate) fn new(test: &str) -> Self {
        let path = std::env::temp_dir().join(format!("catena-nf-{}-{test}", std::process::id()));
        fs::create_dir_all(&path).expect("a directory");
        Self(path)
    }
}

impl Drop for Workplace {
    fn drop(&mut self) {
        // What cannot be removed from a temporary directory is no reason to fail a test.
        let _ = fs::remove_dir_all(&self.0);
    }
}

/// A row of `nfdump`, its columns by their names.
pub(crate) type Row = BTreeMap<String, String>;

/// A collector that listens.
pub(crate) struct Collector<'n> {
    namespace: &'n NetNamespace,
    child: Child,
    directory: PathBuf,
    port: u16,
}

impl<'n> Collector<'n> {
    /// Starts one, and waits until it listens.
    pub(crate) fn start(namespace: &'n NetNamespace, directory: &Path, port: u16) -> Self {
        let directory = directory.join(port.to_string());
        fs::create_dir(&directory).expect("a directory");
        let mut command = Command::new("nfcapd");
        command.args(["-b", "127.0.0.1", "-t", "86400", "-p", &port.to_string(), "-w"]);
        command.arg(&directory).stdout(Stdio::null());
        enter_namespace(&mut command, namespace);
        let log = fs::File::create(directory.with_extension("log")).expect("a file");
        command.stderr(log);
        let child = spawn_bound(command).expect("it starts");
        let collector = Self { namespace, child, directory, port };
        collector.wait_until(|queue| queue.is_some());
        collector
    }

    /// Waits until the bytes that wait at its socket, and the datagrams that found no room, are so.
    fn wait_until(&self, is_so: impl Fn(Option<(u64, u64)>) -> bool) {
        let read = || fs::read_to_string("/proc/thread-self/net/udp").expect("sockets");
        let began = Instant::now();
        let own = format!(":{:04X}", self.port);
        loop {
            let sockets = run_in(self.namespace, read).expect("it is entered");
            let rows = sockets.lines().map(|line| line.split_whitespace().collect::<Vec<_>>());
            let own = rows.into_iter().find(|row| row.get(1).is_some_and(|at| at.ends_with(&own)));
            let queue = own.map(|row| {
                let (_, waiting) = row[4].split_once(':').expect("two queues");
                let waiting = u64::from_str_radix(waiting, 16).expect("a number");
                (waiting, row.last().and_then(|drops| drops.parse().ok()).expect("a number"))
            });
            if is_so(queue) {
                return;
            }
            assert!(began.elapsed() < PATIENCE, "the collector does not get on: {queue:?}");
            std::thread::sleep(Duration::from_millis(5));
        }
    }

    /// Sends it messages.
    pub(crate) fn send(&self, messages: &[Vec<u8>]) {
        let open = || UdpSocket::bind("127.0.0.1:0");
        let socket = run_in(self.namespace, open).expect("it is entered").expect("a socket");
        for message in messages {
            socket.send_to(message, ("127.0.0.1", self.port)).expect("it is sent");
            self.wait_until(|queue| queue.is_some_and(|(waiting, _)| waiting < 50_000));
        }
    }

    /// Waits until it has read all that was sent, of which nothing may be lost.
    pub(crate) fn wait_until_read(&self) {
        self.wait_until(|queue| {
            let (waiting, lost) = queue.expect("it listens");
            assert_eq!(lost, 0, "datagrams are lost");
            waiting == 0
        });
    }

    /// Ends it when it has read all, and answers the flows that it has, and what it said.
    pub(crate) fn flows(self) -> (Vec<Row>, String) {
        self.wait_until_read();
        // What it has read last it may still work at.
        std::thread::sleep(Duration::from_millis(200));
        let pid = Pid::from_child(&self.child);
        kill_process(pid, Signal::TERM).expect("it runs");
        let status = ended(self.child);
        let log = fs::read_to_string(self.directory.with_extension("log")).expect("a log");
        assert!(status.success(), "{status}: {log}");
        let mut dump = Command::new("nfdump");
        dump.arg("-R").arg(&self.directory).args(["-o", "csv"]).env("TZ", "UTC");
        let output = dump.output().expect("it runs");
        assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
        (rows(&String::from_utf8_lossy(&output.stdout)), log)
    }
}

/// Waits for the end of a program, which must come.
pub(crate) fn ended(mut child: Child) -> ExitStatus {
    let began = Instant::now();
    loop {
        if let Some(status) = child.try_wait().expect("it is ours") {
            return status;
        }
        if began.elapsed() > PATIENCE {
            child.kill().expect("it runs");
            panic!("a program does not end: {child:?}");
        }
        std::thread::sleep(Duration::from_millis(5));
    }
}

/// The rows below a head of names, up to the summary.
fn rows(csv: &str) -> Vec<Row> {
    let mut lines = csv.lines();
    let names: Vec<&str> = lines.next().unwrap_or_default().split(',').collect();
    let flows = lines.take_while(|line| !line.is_empty() && *line != "Summary");
    let row = |line: &str| {
        let values = line.split(',').map(|value| value.trim().to_owned());
        names.iter().map(|name| (*name).to_owned()).zip(values).collect()
    };
    flows.map(row).collect()
}

/// Has this machine these programs? Says so if it has not.
pub(crate) fn has(test: &str, programs: &[(&str, &str)]) -> bool {
    programs.iter().all(|(program, version)| {
        let mut asked = Command::new(program);
        asked.arg(version).stdout(Stdio::null()).stderr(Stdio::null());
        let is_there = asked.status().is_ok();
        if !is_there {
            println!("SKIPPED: {test}: {program} is not installed");
        }
        is_there
    })
}
