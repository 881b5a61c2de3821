//! `catena function` and `catena instance`: how functions fail, and how instances leave without
//! breaking a flow.

use crate::Format;
use crate::connection::Connection;
use crate::failure::Failure;
use crate::output::say;
use catena_client::Client;
use catena_model::resource::FailurePolicy;
use catena_model::status::{InstanceReport, InstanceUse};
use clap::{Subcommand, ValueEnum};
use comfy_table::{Table, presets};
use std::time::{Duration, Instant};

/// Between two looks at an instance that drains.
const LOOK_EVERY: Duration = Duration::from_millis(200);

#[derive(Subcommand)]
pub(crate) enum FunctionCommand {
    /// All service functions with their instances.
    List,
    /// Say what becomes of packets when an instance dies; its instances are probed from then on.
    Update {
        /// Name or id.
        name: String,
        /// What becomes of the packets.
        #[arg(long, value_enum)]
        on_failure: OnFailure,
    },
}

/// The words of the command line.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub(crate) enum OnFailure {
    /// Nobody looks: packets go to it as before.
    Unwatched,
    /// To another instance; if none is left, dropped by name.
    Reroute,
    /// Past the function (fail-open).
    Bypass,
    /// Dropped by name (fail-close).
    Block,
}

impl From<OnFailure> for FailurePolicy {
    fn from(word: OnFailure) -> Self {
        match word {
            OnFailure::Unwatched => Self::Unwatched,
            OnFailure::Reroute => Self::Reroute,
            OnFailure::Bypass => Self::Bypass,
            OnFailure::Block => Self::Block,
        }
    }
}

#[derive(Subcommand)]
pub(crate) enum InstanceCommand {
    /// All instances: where, with which share, how used.
    List {
        /// How they are printed.
        #[arg(short, long, value_enum, default_value = "table")]
        output: Format,
    },
    /// Let an instance take no new flow, and wait until those that it has have ended.
    Drain {
        /// Name or id.
        name: String,
        /// Seconds to wait at most; the drain goes on after that.
        #[arg(long, default_value_t = 600)]
        wait: u64,
    },
    /// Let an instance take new flows again.
    Resume {
        /// Name or id.
        name: String,
    },
}

pub(crate) fn run_function(
    connection: &Connection,
    command: FunctionCommand,
) -> Result<(), Failure> {
    let client = connection.client()?;
    match command {
        FunctionCommand::List => {
            let mut table = Table::new();
            let header = ["function", "kind", "on failure", "instances"];
            table.load_preset(presets::NOTHING).set_header(header);
            for function in client.functions()? {
                let kind = if function.is_tap { "tap" } else { "through" };
                let instances = function.instances.join(" ");
                let policy = function.on_failure.name().into();
                table.add_row([function.name, kind.into(), policy, instances]);
            }
            say!("{table}");
        }
        FunctionCommand::Update { name, on_failure } => {
            let function = client.set_failure_policy(&name, on_failure.into())?;
            say!("function {}   on failure: {}", function.name, function.on_failure.name());
        }
    }
    Ok(())
}

pub(crate) fn run_instance(
    connection: &Connection,
    command: InstanceCommand,
) -> Result<(), Failure> {
    let client = connection.client()?;
    match command {
        InstanceCommand::List { output } => list(&client.instances()?, output),
        InstanceCommand::Drain { name, wait } => drain(&client, &name, Duration::from_secs(wait)),
        InstanceCommand::Resume { name } => {
            let instance = client.set_draining(&name, false)?;
            say!("instance {}   takes new flows again", instance.name);
            Ok(())
        }
    }
}

fn list(instances: &[InstanceReport], output: Format) -> Result<(), Failure> {
    if output == Format::Json {
        say!("{}", serde_json::to_string_pretty(instances)?);
        return Ok(());
    }
    let mut table = Table::new();
    let header = ["instance", "function", "node", "weight", "use", "flows left"];
    table.load_preset(presets::NOTHING).set_header(header);
    for instance in instances {
        table.add_row([
            instance.name.clone(),
            instance.function.clone().unwrap_or_else(|| "-".into()),
            instance.node.as_ref().map_or("-".into(), ToString::to_string),
            instance.weight.to_string(),
            instance.used.name().into(),
            instance.flows_left.to_string(),
        ]);
    }
    say!("{table}");
    Ok(())
}

/// Tells how many flows are left whenever that changes.
fn drain(client: &Client, name: &str, wait: Duration) -> Result<(), Failure> {
    let began = Instant::now();
    let mut instance = client.set_draining(name, true)?;
    say!("instance {}   takes no new flow", instance.name);
    let mut told = None;
    while instance.used == InstanceUse::Draining {
        if told != Some(instance.flows_left) {
            say!("instance {}   {} flows left", instance.name, instance.flows_left);
            told = Some(instance.flows_left);
        }
        if began.elapsed() >= wait {
            return Err(Failure::failed(format!(
                "instance '{}' still has {} flows after {} s; the drain goes on: `catena instance \
                 list` shows it, `catena instance resume {}` takes it back",
                instance.name,
                instance.flows_left,
                wait.as_secs(),
                instance.name,
            )));
        }
        std::thread::sleep(LOOK_EVERY);
        instance = client.instance(&instance.id.to_string())?;
    }
    if instance.used == InstanceUse::Taking {
        return Err(Failure::failed(format!("instance '{}' was taken back", instance.name)));
    }
    say!("instance {}   no flow and no packet left: safe to stop", instance.name);
    Ok(())
}
