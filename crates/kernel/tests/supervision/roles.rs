//! What this binary does when a scenario starts it as something else.

use std::io::{Read, Write};
use std::os::fd::AsRawFd;
use std::path::Path;
use std::process::{Command, Stdio};
use std::time::Duration;

use catena_kernel::namespace::{NetNamespace, delete_named};
use catena_kernel::netlink::Netlink;
use catena_kernel::process::{
    Isolation, become_init, enter_namespace, inherited_fd, spawn_bound, spawn_isolated,
};
use catena_kernel::{mounts, signals};

/// First argument of a role.
pub(crate) const MARK: &str = "--catena-kernel-role";

/// This binary in a role.
pub(crate) fn role(arguments: &[&str]) -> Command {
    let mut command = Command::new(std::env::current_exe().unwrap());
    command.arg(MARK).args(arguments);
    command
}

/// Plays the role; returning ends the process.
pub(crate) fn play(arguments: &[String]) {
    let arguments: Vec<&str> = arguments.iter().map(String::as_str).collect();
    match arguments.as_slice() {
        ["sleep", ..] => sleep_forever(),
        ["lab", mark] => lab(mark),
        ["starter", mark] => starter(mark),
        ["binder", mark] => binder(mark),
        ["init", script] => init(script),
        ["write", number] => write_to(number),
        ["terminated"] => say_the_signal(),
        other => panic!("unknown role {other:?}"),
    }
}

fn sleep_forever() {
    loop {
        std::thread::sleep(Duration::from_secs(3600));
    }
}

fn say(text: &str) {
    println!("{text}");
    std::io::stdout().flush().unwrap();
}

/// First process of its namespaces: makes namespaces by name, a pair, and children in them.
fn lab(mark: &str) {
    assert_eq!(std::process::id(), 1);
    assert!(Path::new("/proc/1").exists() && !Path::new("/proc/2").exists(), "/proc fits");
    mounts::mount_tmpfs(Path::new("/run"), "mode=0755").unwrap();
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build().unwrap();
    let own = NetNamespace::current().unwrap();
    let named = Path::new("/run/netns");
    let nodes = ["S", "D"].map(|name| NetNamespace::create_named(named, name).unwrap());
    runtime.block_on(async {
        let links = Netlink::open(&own).unwrap();
        for (number, node) in nodes.iter().enumerate() {
            let near = format!("{mark}{number}");
            links.add_veth(&near, "eth0", node, 1500, None, None).await.unwrap();
            links.set_up(&near).await.unwrap();
            let again = NetNamespace::open(&named.join(node.name())).unwrap();
            assert!(again.same_as(node).unwrap());
        }
    });
    namespaces_have_one_owner_per_name(named);
    for node in &nodes {
        let mut child = role(&["sleep", mark]);
        enter_namespace(&mut child, node);
        // Out of its session and group: nothing but the namespace ties it.
        std::os::unix::process::CommandExt::process_group(&mut child, 0);
        child.spawn().unwrap();
    }
    say("ready");
    sleep_forever();
}

fn namespaces_have_one_owner_per_name(dir: &Path) {
    NetNamespace::create_named(dir, "twice").unwrap();
    assert!(NetNamespace::create_named(dir, "twice").unwrap_err().is_already_there());
    delete_named(dir, "twice").unwrap();
    assert!(NetNamespace::open(&dir.join("twice")).unwrap_err().is_not_found());
    for name in ["", "..", "a/b"] {
        assert!(NetNamespace::create_named(dir, name).is_err(), "{name:?}");
    }
}

/// Starts an isolated child that shall die with it, which starts one of its own.
fn starter(mark: &str) {
    let everything = Isolation {
        net: true,
        pid: true,
        mount: true,
        dies_with_parent: true,
        keep_fds: Vec::new(),
    };
    let mut lab = role(&["lab", mark]);
    lab.stdout(Stdio::piped());
    let mut child = spawn_isolated(lab, everything).unwrap();
    let mut ready = [0; 6];
    child.stdout.take().unwrap().read_exact(&mut ready).unwrap();
    say(&child.id().to_string());
    sleep_forever();
}

/// Starts a bound child from a thread that ends at once.
fn binder(mark: &str) {
    let child = role(&["sleep", mark]);
    let number = std::thread::spawn(move || spawn_bound(child).unwrap().id()).join().unwrap();
    say(&number.to_string());
    sleep_forever();
}

fn init(script: &str) {
    let mut main = Command::new("sh");
    main.args(["-c", script]);
    std::process::exit(become_init(main).unwrap());
}

fn write_to(number: &str) {
    let passed = inherited_fd(number.parse().unwrap()).unwrap();
    assert!(inherited_fd(passed.as_raw_fd()).is_err(), "each number is given out once");
    rustix::io::write(&passed, b"inherited").unwrap();
}

fn say_the_signal() {
    let held = signals::BlockedSignals::block(&[signals::Signal::TERM]).unwrap();
    say("waiting");
    let received = held.wait().unwrap();
    assert!(!received.from_terminal);
    say(&format!("{:?}", received.signal));
}
