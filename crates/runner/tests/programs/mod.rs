//! Programs of others in namespaces, and a function between two interfaces there.

use catena_kernel::namespace::NetNamespace;
use catena_kernel::packet::open_packet_socket;
use catena_kernel::process::{enter_namespace, spawn_bound};
use catena_nf::Function;
use catena_runner::{Account, Bump, Clock, Lines, run};
use std::io::Write;
use std::os::unix::net::UnixStream;
use std::process::{Command, Stdio};
use std::thread::JoinHandle;

/// Runs a program; it may fail.
pub(crate) fn output(namespace: &NetNamespace, words: &str) -> (bool, String) {
    let mut words = words.split(' ');
    let mut command = Command::new(words.next().expect("a program"));
    command.args(words).stdin(Stdio::null()).stdout(Stdio::piped()).stderr(Stdio::piped());
    enter_namespace(&mut command, namespace);
    let child = spawn_bound(command).expect("it is installed");
    let output = child.wait_with_output().expect("it ends");
    let said = [output.stdout, output.stderr].concat();
    (output.status.success(), String::from_utf8_lossy(&said).into_owned())
}

/// The same; it must not.
pub(crate) fn must(namespace: &NetNamespace, words: &str) -> String {
    let (is_well, said) = output(namespace, words);
    assert!(is_well, "{words}: {said}");
    said
}

/// A function that runs between the interfaces `in` and `out` of a namespace.
pub(crate) struct Running {
    stop: UnixStream,
    _ask: UnixStream,
    thread: JoinHandle<Account>,
}

impl Running {
    pub(crate) fn start(
        function: Box<dyn Function>,
        middle: &NetNamespace,
        lines: Option<Lines>,
    ) -> Self {
        let sockets = ["in", "out"].map(|end| open_packet_socket(middle, end).expect("a socket"));
        let (stop, stopped) = UnixStream::pair().expect("two ends");
        let (ask, asked) = UnixStream::pair().expect("two ends");
        asked.set_nonblocking(true).expect("it can be set");
        let mut bump = Bump::new(function, catena_runner::open(sockets).expect("rings"));
        if let Some(lines) = lines {
            bump = bump.with_lines(lines);
        }
        let thread = std::thread::spawn(move || {
            run(&mut bump, Clock::start(), (stopped, asked.into()), || Ok(()), |_, _| {})
                .expect("it runs");
            bump.close_lines();
            bump.account()
        });
        Self { stop, _ask: ask, thread }
    }

    /// Ends it, and answers what it has counted.
    pub(crate) fn stop(mut self) -> Account {
        self.stop.write_all(b"!").expect("it hears");
        self.thread.join().expect("it ends")
    }
}
