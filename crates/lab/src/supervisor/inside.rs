//! The two processes inside a lab's namespaces: the first one, which collects orphans, and the
//! supervisor, which builds the lab and answers visitors. When either ends, the kernel removes
//! everything: neither has anything to clean up.

use super::control;
use super::protocol::{Answer, LabNode, LabStatus};
use super::roles::{LAB_DIRECTORY, Roles, log_directory};
use super::state::{LabState, Running};
use crate::error::{LabError, Result};
use crate::open_vswitch::{BRIDGE, Switch};
use crate::vocabulary::Lab;
use crate::wiring::{self, CONTROLLER, MANAGEMENT_SWITCH, Namespaces, WiringPlan};
use catena_kernel::mounts;
use catena_kernel::namespace::{NAMED_NAMESPACES, NetNamespace};
use catena_kernel::process::{become_init, inherit_fds, inherited_fd, set_name};
use std::fs;
use std::io::Read;
use std::os::fd::{OwnedFd, RawFd};
use std::os::unix::net::UnixListener;
use std::path::{Path, PathBuf};
use std::process::Command;
use std::sync::Arc;
use std::time::{Duration, Instant};

/// Size of the lab's own `/run`: logs, store, programs.
const RUN_OPTIONS: &str = "mode=0755,size=512m";
/// How often the supervisor looks whether it is still wanted.
const END_WAIT: Duration = Duration::from_secs(3600);

/// What the starter tells the processes inside, as words of a command line.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct InsideArguments {
    /// Descriptor of the listening control socket.
    pub(crate) control: RawFd,
    /// Descriptor of the listening API socket.
    pub(crate) api: RawFd,
    /// Descriptor of the lab's merged document.
    pub(crate) document: RawFd,
    /// Address of the latter, for people.
    pub(crate) address: String,
    /// The file that the document came from, for people: it may be out of sight in here.
    pub(crate) file: PathBuf,
}

impl InsideArguments {
    /// As words.
    pub(crate) fn to_words(&self) -> Vec<String> {
        let Self { control, api, document, address, file } = self;
        let descriptors = [control, api, document].map(ToString::to_string);
        descriptors.into_iter().chain([address.clone(), file.display().to_string()]).collect()
    }

    fn from_words(words: &[String]) -> Result<Self> {
        let wrong = || LabError::Tool {
            tool: "catena lab init".into(),
            problem: "is not for people".into(),
            advice: "use: catena lab up FILE".into(),
        };
        let [control, api, document, address, file] = words else { return Err(wrong()) };
        let number = |word: &String| word.parse().map_err(|_| wrong());
        Ok(Self {
            control: number(control)?,
            api: number(api)?,
            document: number(document)?,
            address: address.clone(),
            file: PathBuf::from(file),
        })
    }
}

/// `catena lab init …`: the first process of the lab's PID namespace. Answers the exit code of
/// the supervisor that it starts.
///
/// # Errors
/// The words are not those of a starter, or the supervisor cannot be started.
pub fn init_main(words: &[String]) -> Result<i32> {
    let arguments = InsideArguments::from_words(words)?;
    set_name("lab-init")?;
    mounts::mount_tmpfs(Path::new("/run"), RUN_OPTIONS)?;
    let mut supervisor = Command::new(show_binary()?);
    supervisor.args(["lab", "supervise"]).args(words);
    let descriptors = [arguments.control, arguments.api, arguments.document].map(inherited_fd);
    let descriptors = descriptors.into_iter().collect::<std::result::Result<Vec<_>, _>>()?;
    inherit_fds(&mut supervisor, descriptors);
    Ok(become_init(supervisor)?)
}

/// This program's file inside the lab: its own path may lie below the `/run` that is covered now,
/// or be overwritten while the lab runs.
fn show_binary() -> Result<PathBuf> {
    let inside = Path::new(LAB_DIRECTORY).join("catena");
    let show = || {
        fs::create_dir_all(LAB_DIRECTORY)?;
        fs::File::create(&inside)?;
        Ok(rustix::mount::mount_bind("/proc/self/exe", &inside)?)
    };
    show().map_err(|error: std::io::Error| {
        LabError::io("show this program at", inside.display().to_string(), error)
    })?;
    Ok(inside)
}

fn own_binary() -> Result<PathBuf> {
    std::env::current_exe().map_err(|error| LabError::io("find", "this program's file", error))
}

fn read_document(descriptor: RawFd) -> Result<String> {
    let mut text = String::new();
    fs::File::from(inherited_fd(descriptor)?)
        .read_to_string(&mut text)
        .map_err(|error| LabError::io("read", "the lab's document", error))?;
    Ok(text)
}

/// `catena lab supervise …`: builds the lab, then answers visitors until the end is wanted.
///
/// # Errors
/// The words are not those of a starter, or its sockets are not there. A lab that cannot be
/// built is told to whoever watches, and is then an error as well.
pub fn supervise_main(words: &[String]) -> Result<()> {
    let arguments = InsideArguments::from_words(words)?;
    set_name("lab-supervisor")?;
    let control = UnixListener::from(inherited_fd(arguments.control)?);
    let api = inherited_fd(arguments.api)?;
    let lab = Lab::reread(&arguments.file, read_document(arguments.document)?)?;
    let state = Arc::new(LabState::new(first_status(&lab, &arguments)));
    control::serve(control, Arc::clone(&state))?;
    match build(&lab, &state, api) {
        Ok(()) => state.change(|known| known.story.push(Answer::Ready)),
        Err(error) => {
            let reason = error.to_string();
            state.change(|known| known.story.push(Answer::Failed { reason }));
        }
    }
    while !state.wait_for_end(END_WAIT) {}
    Ok(())
}

fn first_status(lab: &Lab, arguments: &InsideArguments) -> LabStatus {
    let node = |name: &str, role: &str, host: Option<&str>| LabNode {
        name: name.to_owned(),
        role: role.to_owned(),
        host: host.map(str::to_owned),
    };
    let mut nodes: Vec<LabNode> =
        [MANAGEMENT_SWITCH, CONTROLLER].map(|name| node(name, "management", None)).into();
    nodes.extend(lab.hosts.iter().map(|name| node(name, "host", None)));
    let switches = lab.bridges.iter().chain(&lab.switches);
    nodes.extend(switches.map(|name| node(name, "switch", None)));
    nodes.extend(lab.routers.iter().map(|name| node(name, "router", None)));
    nodes.extend(lab.endpoints.iter().map(|(name, e)| node(name, "endpoint", Some(&e.on))));
    nodes.extend(lab.functions.iter().map(|(name, f)| node(name, "function", Some(&f.on))));
    LabStatus {
        name: lab.name.clone(),
        file: arguments.file.display().to_string(),
        api: arguments.address.clone(),
        state: String::new(),
        seconds: 0.0,
        nodes,
        processes: Vec::new(),
    }
}

fn build(lab: &Lab, state: &LabState, api: OwnedFd) -> Result<()> {
    let start = Instant::now();
    for directory in [Path::new(LAB_DIRECTORY), &log_directory()] {
        fs::create_dir_all(directory)
            .map_err(|error| LabError::io("create", directory.display().to_string(), error))?;
    }
    let plan = wiring::plan(lab)?;
    // Inside the lab's own mounts a name is nobody else's.
    let named = |name: &str| NetNamespace::create_named(Path::new(NAMED_NAMESPACES), name);
    let namespaces = wiring::make(&plan, &named)?;
    state.change(|known| known.namespaces.clone_from(&namespaces));
    start_open_vswitches(&plan, &namespaces, state)?;
    let routers = match lab.routers.len() {
        0 => String::new(),
        count => format!("{count} routers, "),
    };
    let text = format!(
        "{} hosts, {} switches, {routers}{} endpoints, {} functions, {} cables",
        lab.hosts.len(),
        lab.bridges.len() + lab.switches.len(),
        lab.endpoints.len(),
        lab.functions.len() + lab.bundled.len(),
        plan.cables.len()
    );
    state.step(text, start);
    let start = Instant::now();
    let binary = own_binary()?;
    let roles = Roles { binary: &binary, namespaces: &namespaces, state };
    plan.nodes.iter().try_for_each(|node| roles.enroll(node))?;
    roles.start_controller(api)?;
    plan.nodes.iter().try_for_each(|node| roles.start_agent(node))?;
    state.step(format!("controller and {} agents started", plan.nodes.len()), start);
    Ok(())
}

/// Starts those that stand in cables: as they come, with what lets cables be found through them.
fn start_open_vswitches(
    plan: &WiringPlan,
    namespaces: &Namespaces,
    state: &LabState,
) -> Result<()> {
    for (name, room) in plan.open_vswitches.iter().filter_map(|name| namespaces.get_key_value(name))
    {
        let folder = Path::new(LAB_DIRECTORY).join(format!("ovs-{name}"));
        fs::create_dir_all(&folder)
            .map_err(|error| LabError::io("create", folder.display().to_string(), error))?;
        let switch = Switch { folder: &folder, room: room.clone() };
        let mut children = Vec::new();
        let started = switch.start(&mut children, &["other-config:forward-bpdu=true"]);
        state.change(|known| {
            let processes = children.into_iter().zip(["database", "switch"]);
            let named = |(child, of)| Running { name: format!("{of} {name}"), child };
            known.processes.extend(processes.map(named));
        });
        started?;
        let ends = plan.cables.iter().flat_map(|cable| &cable.ends);
        for end in ends.filter(|end| end.namespace == *name) {
            switch.configure(&["add-port", BRIDGE, &end.interface])?;
        }
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_the_starter_tells_is_what_the_processes_inside_hear() {
        let told = InsideArguments {
            control: 7,
            api: 9,
            document: 11,
            address: "127.0.0.1:8080".into(),
            file: "labs/x.yaml".into(),
        };
        assert_eq!(InsideArguments::from_words(&told.to_words()).unwrap(), told);
        assert!(InsideArguments::from_words(&["seven".into()]).is_err());
    }
}
