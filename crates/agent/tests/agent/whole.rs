//! The agent with a real data plane process: started, outlived, adopted, started again.

use crate::authority::Authority;
use crate::controller::{PATIENCE, TestController, reasons};
use crate::machine::{Machine, is_privileged};
use crate::programs::{address, packed, port};
use catena_agent::DataplanePaths;
use catena_dataplane::shell;
use catena_kernel::namespace::run_in;
use catena_model::NodeName;
use rustix::process::{Pid, Signal, kill_process};
use std::fs;
use std::net::UdpSocket;
use std::num::NonZeroUsize;
use std::path::{Path, PathBuf};
use std::time::{Duration, Instant};

/// Tells the data plane process of a test where its files are.
const DIRECTORY: &str = "CATENA_TEST_DATAPLANE_DIRECTORY";
const ROLE: &str = "whole::the_data_plane_process";
const UDP_PORT: u16 = 7_000;

#[test]
#[ignore = "not a test: the process that other tests start as their data plane"]
fn the_data_plane_process() {
    let Some(dir) = std::env::var_os(DIRECTORY).map(PathBuf::from) else { return };
    let config = shell::Config {
        slice_bits_per_second: None,
        flood_frames_per_second: catena_dataplane::engine::FLOOD_FRAMES_PER_SECOND,
        node: NodeName::new("host1").unwrap(),
        control_socket: dir.join("control"),
        state_dir: dir.clone(),
        leads_session: true,
        starter: None,
        workers: NonZeroUsize::MIN,
        busy_poll_cores: Vec::new(),
        function_threads: 0,
        function_form: None,
        user: None,
        is_confined: true,
        stop: None,
    };
    shell::run(config).unwrap();
}

pub(crate) fn paths(dir: &Path) -> DataplanePaths {
    let mut variable = std::ffi::OsString::from(format!("{DIRECTORY}="));
    variable.push(dir);
    let this = std::env::current_exe().unwrap().into_os_string();
    let role = ["--ignored", "--exact", ROLE, "--nocapture"].map(Into::into);
    DataplanePaths {
        // Tests run in threads, which would have heaps of their own before there is a list of system calls.
        command: ["env".into(), variable, "MALLOC_ARENA_MAX=1".into(), this]
            .into_iter()
            .chain(role)
            .collect(),
        control_socket: dir.join("control"),
    }
}

/// Ends the data plane that a test leaves behind.
pub(crate) struct Leftover<'m>(pub(crate) &'m Machine);

impl Leftover<'_> {
    /// The data plane processes of this test; there is one, or none for a moment.
    fn processes(&self) -> Vec<Pid> {
        let mark = format!("{DIRECTORY}={}", self.0.dir.path().display());
        let is_ours = |pid: &i32| {
            let environment = fs::read(format!("/proc/{pid}/environ")).unwrap_or_default();
            environment.split(|byte| *byte == 0).any(|entry| entry == mark.as_bytes())
        };
        let entries = fs::read_dir("/proc").unwrap().flatten();
        let numbers = entries.filter_map(|entry| entry.file_name().to_str()?.parse().ok());
        numbers.filter(is_ours).filter_map(Pid::from_raw).collect()
    }

    fn only(&self) -> Pid {
        match self.processes()[..] {
            [pid] => pid,
            ref other => panic!("not one data plane but {other:?}"),
        }
    }
}

impl Drop for Leftover<'_> {
    fn drop(&mut self) {
        for pid in self.processes() {
            kill_process(pid, Signal::KILL).ok();
        }
    }
}

/// A datagram from 1 to 2, sent again until it arrives.
pub(crate) fn reach(machine: &Machine) {
    let bind = |number: u8, port: u16| {
        let bind = || UdpSocket::bind((address(number), port));
        run_in(machine.endpoint(number), bind).unwrap().unwrap()
    };
    let (sender, receiver) = (bind(1, 0), bind(2, UDP_PORT));
    receiver.set_read_timeout(Some(Duration::from_millis(100))).unwrap();
    let begun = Instant::now();
    loop {
        sender.send_to(b"hello", (address(2), UDP_PORT)).unwrap();
        if receiver.recv(&mut [0; 16]).is_ok() {
            return;
        }
        assert!(begun.elapsed() < PATIENCE, "2 cannot be reached from 1");
    }
}

#[tokio::test]
async fn a_data_plane_outlives_its_agent_and_an_agent_its_data_plane() {
    if !is_privileged("a_data_plane_outlives_its_agent_and_an_agent_its_data_plane") {
        return;
    }
    let machine = Machine::new().await;
    let left = Leftover(&machine);
    let authority = Authority::new();
    let tls = authority.enroll("host1", machine.dir.path());
    let dataplane = paths(machine.dir.path());
    let mut controller = TestController::start(machine.listener(), Some(&authority));
    let agent = machine.start(controller.address, &tls, &dataplane);
    let (mut session, hello) = controller.welcome().await;
    assert_eq!(hello.program_number, 0);
    for number in [1, 2] {
        machine.plug(number).await;
    }
    let (result, states) = session.send(packed(4, &[1, 2])).await;
    assert_eq!(result.refusal, "");
    let states = reasons(&states.unwrap());
    assert!(states.len() == 2 && states.values().all(String::is_empty), "{states:?}");
    reach(&machine);
    let pid = left.only();

    drop(agent);
    reach(&machine);
    assert_eq!(left.only(), pid);

    let _second = machine.start(controller.address, &tls, &dataplane);
    let (mut session, hello) = controller.welcome().await;
    assert_eq!(hello.program_number, 4);
    session.until(|states| states.len() == 2 && states.values().all(String::is_empty)).await;
    assert_eq!(left.only(), pid, "adopted, not started anew");
    let counters = session.counters(9).await;
    let line = counters.ports.iter().find(|line| line.port == port(2)).unwrap();
    assert!(line.interface.unwrap().received.packets >= 2, "{line:?}");
    assert_eq!(counters.total().unaccounted(), 0);

    kill_process(pid, Signal::KILL).unwrap();
    session.until(|states| states.len() == 2 && states.values().all(String::is_empty)).await;
    reach(&machine);
    assert_ne!(left.only(), pid);
    assert_eq!(session.send(packed(5, &[1, 2])).await.0.refusal, "");
}
