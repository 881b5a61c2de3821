//! Starts controller and agents of a lab as processes of this same binary. Knows their command
//! lines; refuses to link them.

use super::start::{
    FUNCTION_FORM, FUNCTION_THREADS, INT_COLLECTOR, IPFIX_COLLECTOR, PORT_IO, WITHOUT_FAST_PATH,
    WORKERS,
};
use super::state::{LabState, Running};
use crate::error::{LabError, Result};
use crate::vocabulary::FunctionThreads;
use crate::wiring::{CONTROLLER, Namespaces, NodePlan, SOUTHBOUND_PORT, controller_address};
use catena_kernel::KernelError;
use catena_kernel::process::{enter_namespace, inherit_fds, spawn_bound};
use catena_model::program::SegmentPlace;
use std::fs::{self, File};
use std::os::fd::{AsRawFd, OwnedFd};
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};

/// Where a lab keeps its files, inside its own mount namespace.
pub(crate) const LAB_DIRECTORY: &str = "/run/catena";
/// Names the user of a lab's data planes; empty: they are root's.
const DATAPLANE_USER: &str = "CATENA_LAB_DATAPLANE_USER";
/// A number that no distribution gives away: nothing on the machine is this user's.
const DATAPLANE_UID: &str = "61181";
/// The same for the controller's user.
const CONTROLLER_UID: u32 = 61_182;

/// Where a process of the lab writes what it says.
pub(crate) fn log_directory() -> PathBuf {
    Path::new(LAB_DIRECTORY).join("log")
}

fn data_directory() -> PathBuf {
    Path::new(LAB_DIRECTORY).join("controller")
}

/// Everything needed to start the processes.
pub(crate) struct Roles<'l> {
    pub(crate) binary: &'l Path,
    pub(crate) namespaces: &'l Namespaces,
    pub(crate) state: &'l LabState,
}

impl Roles<'_> {
    fn command(&self, name: &str, namespace: &str, arguments: &[&str]) -> Result<Command> {
        let namespace = self.namespaces.get(namespace).ok_or_else(|| {
            KernelError::not_found_yet(format!("namespace {namespace} of the lab"))
        })?;
        let path = log_directory().join(format!("{name}.log"));
        let create = || {
            let log = File::options().create(true).append(true).open(&path)?;
            Ok((log.try_clone()?, log))
        };
        let (out, err) = create().map_err(|error: std::io::Error| {
            LabError::io("open", path.display().to_string(), error)
        })?;
        let mut command = Command::new(self.binary);
        command.args(arguments).stdin(Stdio::null()).stdout(out).stderr(err);
        enter_namespace(&mut command, namespace);
        Ok(command)
    }

    fn start(&self, name: &str, command: Command) -> Result<()> {
        let child = spawn_bound(command)?;
        let running = Running { name: name.to_owned(), child };
        self.state.change(|known| known.processes.push(running));
        Ok(())
    }

    /// Starts the controller on a socket that was opened before the lab had namespaces.
    pub(crate) fn start_controller(&self, api: OwnedFd) -> Result<()> {
        let listen = format!("fd:{}", api.as_raw_fd());
        let southbound = format!("{}:{SOUTHBOUND_PORT}", controller_address());
        let data = data_directory().display().to_string();
        let user = CONTROLLER_UID.to_string();
        let arguments = [
            "controller",
            "--user",
            &user,
            "--listen",
            &listen,
            "--southbound",
            &southbound,
            "--data",
            &data,
            "--auth",
            "none",
            "--overlap",
            "allowed",
        ];
        let mut command = self.command(CONTROLLER, CONTROLLER, &arguments)?;
        inherit_fds(&mut command, vec![api]);
        self.start(CONTROLLER, command)
    }

    /// Gives a node its certificate. Before the controller starts: what is made here is root's until
    /// the controller takes its folder over.
    pub(crate) fn enroll(&self, node: &NodePlan) -> Result<()> {
        // Only what is enrolled is private: the user of data planes passes by.
        let home = node_directory(node);
        fs::create_dir_all(&home)
            .map_err(|error| LabError::io("create", home.display().to_string(), error))?;
        let out = tls_directory(node).display().to_string();
        let data = data_directory().display().to_string();
        let arguments = ["node", "enroll", &node.name, "--data", &data, "--out", &out];
        let log = format!("enroll-{}", node.name);
        let status = spawn_bound(self.command(&log, CONTROLLER, &arguments)?)?
            .wait()
            .map_err(|error| LabError::io("wait for", log.clone(), error))?;
        if status.success() {
            return Ok(());
        }
        Err(LabError::Tool {
            tool: format!("catena node enroll {}", node.name),
            problem: format!("ended with {status}"),
            advice: format!("read {log}.log"),
        })
    }

    /// Starts the agent of a node, which starts its data plane.
    pub(crate) fn start_agent(&self, node: &NodePlan) -> Result<()> {
        let controller = format!("{}:{SOUTHBOUND_PORT}", controller_address());
        let tls = tls_directory(node).display().to_string();
        let state = node_directory(node).join("state");
        fs::create_dir_all(&state)
            .map_err(|error| LabError::io("create", state.display().to_string(), error))?;
        let state = state.display().to_string();
        let instances = node_directory(node).join("instances").display().to_string();
        let (underlay, mtu) = (node.data.to_string(), node.data_mtu.to_string());
        let mut arguments = vec![
            "agent",
            "--node",
            &node.name,
            "--controller",
            &controller,
            "--tls",
            &tls,
            "--state",
            &state,
            "--instances",
            &instances,
            "--underlay",
            &underlay,
            "--underlay-mtu",
            &mtu,
        ];
        let segments = node
            .segments
            .map(|SegmentPlace { address, locator }| (address.to_string(), locator.to_string()));
        if let Some((address, locator)) = &segments {
            arguments.extend(["--underlay6", address, "--locator", locator]);
        }
        arguments.extend(["--role", node.role.word()]);
        arguments.extend(node.links.iter().flat_map(|link| ["--link", link.as_str()]));
        if std::env::var_os(WITHOUT_FAST_PATH).is_some() {
            arguments.push("--no-fastpath");
        }
        let user = std::env::var(DATAPLANE_USER).unwrap_or_else(|_| DATAPLANE_UID.to_owned());
        if !user.is_empty() {
            arguments.extend(["--dataplane-user", &user]);
        }
        let of_lab = |name: &str| std::env::var(name).ok();
        let (threads, form) = match node.function_threads {
            None => (of_lab(FUNCTION_THREADS), of_lab(FUNCTION_FORM)),
            Some(FunctionThreads { count, form }) => {
                let form = form.filter(|_| count > 0);
                (Some(count.to_string()), form.map(|form| form.name().to_owned()))
            }
        };
        let told = [
            ("--port-io", of_lab(PORT_IO)),
            ("--workers", of_lab(WORKERS)),
            ("--function-threads", threads),
            ("--function-form", form),
            ("--ipfix-collector", of_lab(IPFIX_COLLECTOR)),
            ("--int-collector", of_lab(INT_COLLECTOR)),
        ];
        for (option, value) in &told {
            arguments.extend(value.iter().flat_map(|value| [option, value.as_str()]));
        }
        let name = format!("agent-{}", node.name);
        let command = self.command(&name, &node.name, &arguments)?;
        self.start(&name, command)
    }
}

fn node_directory(node: &NodePlan) -> PathBuf {
    Path::new(LAB_DIRECTORY).join("node").join(&node.name)
}

fn tls_directory(node: &NodePlan) -> PathBuf {
    node_directory(node).join("tls")
}
