//! The walls around a process that reads what tenants send: which files and ports it reaches
//! (Landlock), and which system calls each of its threads may make (seccomp). Knows what the code of
//! this crate asks of the kernel; refuses to know why.

use catena_io::IoError;
use catena_io::walls::{self, leave_calls, listed, one_of};
use landlock::{AccessFs, RulesetStatus, make_bitflags};
use libc::c_long;
use std::path::Path;

/// All that a worker asks of the kernel, from its first packet to its end: it has none by which it
/// could end or let go of a descriptor. `bpf` and `mmap` are bounded further below.
const WORKER: [c_long; 16] = [
    // Waiting, and being waited for; channels yield where somebody else is about to write.
    libc::SYS_sched_yield,
    libc::SYS_epoll_pwait,
    libc::SYS_epoll_ctl,
    libc::SYS_ppoll,
    libc::SYS_futex,
    // Frames of TAPs, wakers, and the log.
    libc::SYS_read,
    libc::SYS_write,
    // Packet sockets, AF_XDP and tunnels.
    libc::SYS_recvmsg,
    libc::SYS_sendmmsg,
    libc::SYS_setsockopt,
    libc::SYS_getsockopt,
    // The tables of the kernel path.
    libc::SYS_bpf,
    // Memory.
    libc::SYS_brk,
    libc::SYS_mmap,
    libc::SYS_munmap,
    // Where the clock cannot be read without the kernel.
    libc::SYS_clock_gettime,
];

/// What a worker's libraries would like and do without: these fail. The allocator copies where it
/// cannot move, and who panics is told by name where the number of the thread is not known.
const WORKER_DENIED: [c_long; 2] = [libc::SYS_mremap, libc::SYS_gettid];

/// What the control thread has besides: files, sockets and rings, and an end. `socket` and `ioctl` are
/// bounded further below.
const CONTROL: &[c_long] = &[
    libc::SYS_mremap,
    libc::SYS_gettid,
    libc::SYS_getpid,
    libc::SYS_close,
    libc::SYS_openat,
    libc::SYS_fstat,
    libc::SYS_newfstatat,
    libc::SYS_statx,
    libc::SYS_lseek,
    libc::SYS_fsync,
    libc::SYS_fdatasync,
    libc::SYS_ftruncate,
    libc::SYS_getdents64,
    libc::SYS_unlinkat,
    libc::SYS_linkat,
    libc::SYS_fcntl,
    libc::SYS_writev,
    libc::SYS_accept4,
    libc::SYS_socket,
    libc::SYS_bind,
    libc::SYS_getsockname,
    libc::SYS_sendto,
    libc::SYS_prlimit64,
    libc::SYS_getrandom,
    libc::SYS_madvise,
    libc::SYS_restart_syscall,
    libc::SYS_rt_sigreturn,
    libc::SYS_rt_sigaction,
    libc::SYS_rt_sigprocmask,
    libc::SYS_sigaltstack,
    libc::SYS_tgkill,
    libc::SYS_exit_group,
    libc::SYS_renameat,
    // Patterns of functions make room for as many threads as there are processors.
    libc::SYS_sched_getaffinity,
];

/// Older names of calls above, which the C library of this processor still uses.
#[cfg(target_arch = "x86_64")]
const OLDER: &[c_long] = &[libc::SYS_unlink, libc::SYS_rename, libc::SYS_link, libc::SYS_poll];
#[cfg(not(target_arch = "x86_64"))]
const OLDER: &[c_long] = &[];

/// Commands of bpf(2), Linux `bpf.h`: of elements of a map that is open, one or several.
const BPF_OF_ELEMENTS: [u64; 4] = [1, 2, 3, 24];
/// Those that ask an open map what it is.
const BPF_OF_MAPS: [u64; 1] = [15];

/// Leaves the calling thread, and those that it starts, the files beneath the state directory and
/// the name of the control socket: no other file, no TCP port, and neither a signal to nor an
/// abstract socket of a process outside. What this kernel cannot hold back is told in the log.
///
/// # Errors
/// One of the two cannot be opened, or the kernel refuses.
pub(super) fn wall_in(state_dir: &Path, control_socket: &Path) -> Result<(), IoError> {
    let in_state = make_bitflags!(AccessFs::{
        ReadFile | ReadDir | WriteFile | Truncate | MakeReg | RemoveFile
    });
    let mut reached = vec![(state_dir, in_state)];
    let beside = control_socket.parent().filter(|beside| *beside != state_dir);
    reached.extend(beside.map(|beside| (beside, AccessFs::RemoveFile.into())));
    match walls::wall_in(&reached)? {
        RulesetStatus::FullyEnforced => {}
        RulesetStatus::PartiallyEnforced => {
            tracing::info!("this kernel's Landlock is older: some walls are missing");
        }
        RulesetStatus::NotEnforced => {
            tracing::warn!("this kernel has no Landlock: files are open to the data plane");
        }
    }
    Ok(())
}

/// Leaves the calling thread the system calls of a worker, for good.
///
/// # Errors
/// The kernel takes no filters.
pub(super) fn confine_worker() -> Result<(), IoError> {
    let mut listed = listed(&[&WORKER]);
    listed.insert(libc::SYS_bpf, one_of(0, &BPF_OF_ELEMENTS)?);
    leave_calls(listed, &WORKER_DENIED)
}

/// Leaves the calling thread the system calls of the control thread, for good.
///
/// # Errors
/// The kernel takes no filters.
pub(super) fn confine_control() -> Result<(), IoError> {
    let mut listed = listed(&[&WORKER, CONTROL, OLDER]);
    listed.insert(libc::SYS_bpf, one_of(0, &[&BPF_OF_ELEMENTS[..], &BPF_OF_MAPS].concat())?);
    let families = [libc::AF_INET, libc::AF_INET6].map(|family| u64::from(family.unsigned_abs()));
    listed.insert(libc::SYS_socket, one_of(0, &families)?);
    // A connection that does not block, and nothing else that devices can be told.
    listed.insert(libc::SYS_ioctl, one_of(1, &[libc::FIONBIO])?);
    leave_calls(listed, &[])
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::shell::program_log::{self, ProgramLog};
    use catena_model::NodeName;
    use catena_model::bundle::Configuration;
    use catena_model::entry::Program;
    use catena_nf::registry::{self, Surroundings};
    use catena_protocol::delta::deltas;
    use catena_protocol::message::Delta;
    use std::io::{Read, Write};
    use std::net::{TcpListener, UdpSocket};
    use std::os::unix::net::UnixStream;
    use std::os::unix::process::ExitStatusExt;
    use std::process::{Command, Output};

    /// Tells the process of a test what to try, and where.
    const ACT: &str = "CATENA_TEST_SANDBOX_ACT";
    const STATE: &str = "CATENA_TEST_SANDBOX_STATE";
    const SURVIVED: &str = "alive";

    #[test]
    #[ignore = "not a test: the process that other tests start"]
    fn the_process_within() {
        let Ok(act) = std::env::var(ACT) else { return };
        let state = std::env::var(STATE).unwrap();
        let state = Path::new(&state);
        catena_io::share_one_heap();
        catena_io::drop_privileges(None).unwrap();
        std::panic::set_hook(Box::new(|panic| eprintln!("{panic}")));
        let (told, hear) = std::sync::mpsc::channel();
        wall_in(state, &state.join("socket")).unwrap();
        std::thread::spawn(move || {
            let worker = act.strip_prefix("worker ");
            match worker {
                Some(_) => confine_worker().unwrap(),
                None => confine_control().unwrap(),
            }
            try_it(worker.unwrap_or(&act), &std::env::var(STATE).unwrap());
            told.send(()).unwrap();
            loop {
                std::thread::park();
            }
        });
        hear.recv().unwrap();
        std::io::stderr().write_all(SURVIVED.as_bytes()).unwrap();
    }

    fn try_it(act: &str, state: &str) {
        match act {
            "open" => drop(std::fs::File::open("/proc/self/status")),
            "execute" => drop(Command::new("true").status()),
            "thread" => drop(std::thread::spawn(|| ())),
            "unix" => drop(UnixStream::connect("/run/nobody")),
            "udp" => drop(UdpSocket::bind("127.0.0.1:0").unwrap()),
            "files" => {
                let own = format!("{state}/own");
                std::fs::write(&own, "mine").unwrap();
                std::fs::rename(&own, format!("{state}/other")).unwrap();
                assert_eq!(std::fs::read(format!("{state}/other")).unwrap(), b"mine");
                let foreign = std::fs::File::open("/etc/hostname");
                let kind = foreign.map(drop).unwrap_err().kind();
                assert_eq!(kind, std::io::ErrorKind::PermissionDenied);
            }
            // All that is done with files of programs.
            "programs" => {
                let (state, node) = (Path::new(state), NodeName::new("host1").unwrap());
                let mut parts = deltas(&node, &Program::default(), &Program::default());
                parts[0].number = 1;
                std::fs::write(state.join("program.pb"), "old").unwrap();
                program_log::read_old(state).unwrap_err();
                for _ in 0..2 {
                    let mut log = ProgramLog::begin(state, &parts).unwrap();
                    log.add(&[Delta { base: 1, number: 2, ..parts[0].clone() }]).unwrap();
                }
                let file = state.join("program.log");
                std::fs::write(&file, [&std::fs::read(&file).unwrap()[..], b"torn"].concat())
                    .unwrap();
                let (found, log) = ProgramLog::open(state, &node).unwrap().unwrap();
                assert!(found.number.0 == 2 && log.is_some());
                program_log::remove_old(state);
                assert_eq!(std::fs::read_dir(state).unwrap().count(), 1);
            }
            // Rules with patterns become a function.
            "patterns" => {
                let rule = r#"alert tcp any any -> any any (msg:"p"; pcre:"/\.php$/"; sid:1;)"#;
                let file = serde_json::json!({"name": "web.rules", "text": rule});
                let config = serde_json::json!({"file": file}).to_string();
                let ids = Configuration::new("ids", config);
                assert!(registry::make(&ids, &Surroundings::default()).is_ok());
            }
            // What a worker may do without asking: memory of any size, time, and last words.
            "work" => {
                let mut memory = vec![1_u8; 1 << 20];
                for _ in 0..6 {
                    memory.extend_from_within(..);
                }
                drop((0..100_000).map(|number| vec![number; 8]).collect::<Vec<_>>());
                assert!(std::time::Instant::now().elapsed().as_secs() < 3_600);
                catena_io::rest(std::time::Duration::from_micros(20));
                // As channels do when they meet each other; seldom, and then it must be allowed.
                std::thread::yield_now();
                let panic = std::panic::catch_unwind(|| panic!("last words"));
                assert!(panic.is_err());
            }
            other => panic!("{other}"),
        }
    }

    fn outcome(act: &str) -> Output {
        let state = tempfile::tempdir().unwrap();
        let role = ["--ignored", "--exact", "shell::sandbox::tests::the_process_within"];
        Command::new(std::env::current_exe().unwrap())
            .args(role)
            .args(["--nocapture", "--test-threads=1"])
            .env(ACT, act)
            .env(STATE, state.path())
            .output()
            .unwrap()
    }

    #[test]
    fn what_is_not_listed_ends_the_process_by_name() {
        let acts = ["worker open", "worker execute", "worker thread", "worker udp"];
        for act in acts.into_iter().chain(["execute", "thread", "unix"]) {
            let output = outcome(act);
            assert_eq!(output.status.signal(), Some(libc::SIGSYS), "{act}: {output:?}");
        }
    }

    #[test]
    fn what_is_listed_works_and_a_panic_says_its_words() {
        for act in ["worker work", "work", "udp", "files", "programs", "patterns"] {
            let output = outcome(act);
            let said = String::from_utf8_lossy(&output.stderr);
            assert!(output.status.success() && said.contains(SURVIVED), "{act}: {output:?}");
            assert!(!act.ends_with("work") || said.contains("last words"), "{act}: {said}");
        }
    }

    #[test]
    fn no_tcp_port_is_within_reach() {
        let listener = TcpListener::bind("127.0.0.1:0").unwrap();
        let port = listener.local_addr().unwrap().port();
        let (state, mut said) = (tempfile::tempdir().unwrap(), Vec::new());
        let path = state.path().to_owned();
        // Landlock is a thread's own as well.
        let refused = std::thread::spawn(move || {
            wall_in(&path, &path.join("socket")).unwrap();
            std::net::TcpStream::connect(("127.0.0.1", port)).map(drop)
        });
        let refused = refused.join().unwrap().unwrap_err();
        assert_eq!(refused.kind(), std::io::ErrorKind::PermissionDenied);
        listener.set_nonblocking(true).unwrap();
        assert!(listener.accept().map(|(mut peer, _)| peer.read_to_end(&mut said)).is_err());
    }
}
