//! `catena function` and `catena instance`: how functions fail, and how instances leave without
//! breaking a flow.

use crate::alerts;
use crate::connection::Connection;
use crate::failure::Failure;
use crate::forms;
use crate::function_project::{self, ProjectArguments};
use crate::output::{Format, block, say, table, tell};
use catena_client::{Client, Kind};
use catena_model::NodeName;
use catena_model::account::{FunctionCounters, MessageCounters, RuleHits};
use catena_model::instance::Door;
use catena_model::resource::{FailurePolicy, Runs};
use catena_model::status::{Condition, FunctionReport, InstanceReport, InstanceUse};
use clap::{Subcommand, ValueEnum};
use std::time::{Duration, Instant};

/// Between two looks at an instance that drains.
const LOOK_EVERY: Duration = Duration::from_millis(200);

#[derive(Subcommand)]
pub(crate) enum FunctionCommand {
    /// All service functions with their instances.
    List {
        /// How they are printed.
        #[arg(short, long, value_enum, default_value = "table")]
        output: Format,
    },
    /// One service function with its template and conditions.
    Show {
        /// Name or id.
        name: String,
        /// How it is printed.
        #[arg(short, long, value_enum, default_value = "table")]
        output: Format,
    },
    /// What a bundled function tells of packets, one line of JSON each as Suricata writes them (EVE).
    Alerts {
        /// Name or id.
        name: String,
        /// Go on with those that come.
        #[arg(short, long)]
        follow: bool,
    },
    /// Write a project for a function of your own, in Rust: a program that runs between two interfaces, and as a
    /// command of a template.
    ///
    /// It asks no controller and changes nothing there. Functions of chains come with documents: `catena apply`.
    Create(ProjectArguments),
    /// Remove a service function that no chain uses.
    Delete {
        /// Name or id.
        name: String,
    },
    /// Say what becomes of packets when an instance dies (its instances are probed from then on), or
    /// that frames leave the function with the source MAC that they came with.
    Update {
        /// Name or id.
        name: String,
        /// What becomes of the packets.
        #[arg(long, value_enum, required_unless_present = "keeps_mac")]
        on_failure: Option<OnFailure>,
        /// Does it keep MACs? Then chains of any networks may share it.
        #[arg(long)]
        keeps_mac: Option<bool>,
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
    /// One instance.
    Show {
        /// Name or id.
        name: String,
        /// How it is printed.
        #[arg(short, long, value_enum, default_value = "table")]
        output: Format,
    },
    /// Remove an instance that no function uses.
    Delete {
        /// Name or id.
        name: String,
    },
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
    let command = match command {
        FunctionCommand::Create(wanted) => return function_project::create(&wanted),
        other => other,
    };
    let client = connection.client()?;
    match command {
        FunctionCommand::Create(_) => {}
        FunctionCommand::List { output } => {
            let functions = client.functions()?;
            tell(output, &functions, |is_wide| list_functions(&functions, is_wide))?;
        }
        FunctionCommand::Show { name, output } => {
            let function = client.function(&name)?;
            tell(output, &function, |_| show_function(&function))?;
        }
        FunctionCommand::Alerts { name, follow } => alerts::run(&client, &name, follow)?,
        FunctionCommand::Delete { name } => {
            let function = client.function(&name)?;
            client.delete(Kind::PortPairGroup, &function.id.to_string())?;
            say!("function '{}' is gone", function.name);
        }
        FunctionCommand::Update { name, on_failure, keeps_mac } => {
            let policy = on_failure.map(FailurePolicy::from);
            let function = client.change_function(&name, policy, keeps_mac)?;
            let (kind, policy) = (kind(&function), function.on_failure.name());
            say!("function {}   {kind}   on failure: {policy}", function.name);
        }
    }
    Ok(())
}

fn list_functions(functions: &[FunctionReport], is_wide: bool) {
    let mut table = table(["function", "kind", "on failure", "instances", "conditions"]);
    for function in functions {
        let name = match is_wide {
            true => format!("{} ({})", function.name, function.id),
            false => function.name.clone(),
        };
        let instances = function.instances.join(" ");
        let conditions: Vec<String> = function.conditions.iter().map(condition).collect();
        let policy = function.on_failure.name().into();
        table.add_row([name, kind(function).into(), policy, instances, conditions.join(", ")]);
    }
    block(table);
}

fn kind(function: &FunctionReport) -> &'static str {
    match function {
        FunctionReport { is_tap: true, .. } => "tap",
        FunctionReport { keeps_mac: true, .. } => "through, keeps MACs",
        _ => "through",
    }
}

fn condition(condition: &Condition) -> String {
    let mark = if condition.holds { '✓' } else { '✗' };
    format!("{mark} {}: {}", condition.name, condition.text)
}

fn show_function(function: &FunctionReport) {
    let (kind, policy) = (kind(function), function.on_failure.name());
    say!("function {}   {kind}   on failure: {policy}", function.name);
    say!("instances   {}", function.instances.join(" "));
    let Some(template) = &function.template else { return };
    let runs = match &template.runs {
        Runs::Image(image) => format!("image {image}"),
        Runs::Command(words) => format!("command {}", words.join(" ")),
        Runs::External(name) => format!("somebody else's: {name}"),
        Runs::Bundled(kind) => format!("the bundled {kind}"),
    };
    match &template.runs {
        Runs::Bundled(_) if template.door == Door::Beside => {
            say!("template    {runs}, each in a process of its own beside a data plane");
        }
        Runs::Bundled(_) if template.door.is_inside() => {
            say!("template    {runs}, inside the data planes");
        }
        _ if template.is_run_by_nodes() => {
            let hosts: Vec<&str> = template.on.iter().map(NodeName::as_str).collect();
            // Who does not see hosts is not told of them.
            let on =
                if hosts.is_empty() { String::new() } else { format!(", on {}", hosts.join(" ")) };
            say!("template    {runs}, {} instances{on}", template.instances.max(1));
            for (instance, host) in &function.hosts {
                say!("placed      {instance} on {host}");
            }
        }
        _ => say!(
            "template    {runs}, {} instances wanted; nothing here runs them yet",
            template.instances
        ),
    }
    let cpu = template.cpu_milli.map(|milli| format!("{milli} thousandths of a core"));
    let memory = template.memory_mib.map(|mib| format!("{mib} MiB"));
    let bounds: Vec<String> = cpu.into_iter().chain(memory).collect();
    if !bounds.is_empty() {
        say!("each        {}", bounds.join(", "));
    }
    for (key, value) in &template.labels {
        say!("label       {key}={value}");
    }
    for known in &function.conditions {
        say!("{}", condition(known));
    }
    for remark in &function.remarks {
        say!("remark      {remark}");
    }
    function.counters.iter().for_each(show_counters);
}

/// The rules of an instance that packets have met.
fn show_counters(counters: &FunctionCounters) {
    let FunctionCounters { name, rules, rules_untold, events, errors_withheld, messages, .. } =
        counters;
    if rules.is_empty() {
        say!("{name}: no packet has met a rule");
    } else {
        let mut table = table(["rule", "packets", "bytes"]);
        for RuleHits { rule, packets, bytes } in rules {
            table.add_row([rule.clone(), packets.to_string(), bytes.to_string()]);
        }
        say!("{name}");
        block(table);
    }
    if *rules_untold > 0 {
        say!("{name}: {rules_untold} further rules that packets have met are not told");
    }
    if *events > 0 {
        say!("{name}: told of {events} packets");
    }
    if messages.handed_out > 0 {
        say!("{name}: {}", told_of(messages));
    }
    if !messages.trouble.is_empty() {
        say!("{name}: {}", messages.trouble);
    }
    if *errors_withheld > 0 {
        say!("{name}: {errors_withheld} ICMP errors not made, as there were too many in a second");
    }
    for line in asked(counters) {
        say!("{line}");
    }
}

/// How an instance is asked, where there is a choice, and whether it died of that.
fn asked(counters: &FunctionCounters) -> Vec<String> {
    let FunctionCounters { name, deaths, copied_bytes, choice, .. } = counters;
    let times = match deaths {
        0 => None,
        1 => Some("once".to_owned()),
        more => Some(format!("{more} times")),
    };
    let died = times.map(|times| format!("{name}: died {times} and began anew"));
    let form =
        choice.as_ref().map(|choice| format!("{name}: asked by {}", forms::in_words(choice)));
    let copied = (*copied_bytes > 0)
        .then(|| format!("{name}: {copied_bytes} bytes of packets copied to its process"));
    died.into_iter().chain(copied).chain(form).collect()
}

/// What became of messages, those that nothing became of left out.
fn told_of(messages: &MessageCounters) -> String {
    let MessageCounters { handed_out, unwanted, lost, kept, sent, unsent, trouble: _ } = messages;
    let parts = [
        (*kept, "kept as alerts"),
        (*sent, "sent to its collector"),
        (*unsent, "not sent"),
        (*unwanted, "for no collector"),
        (*lost, "lost for want of room"),
    ];
    let parts = parts.into_iter().filter(|(count, _)| *count > 0);
    let parts: Vec<String> = parts.map(|(count, what)| format!("{count} {what}")).collect();
    match parts.is_empty() {
        true => format!("{handed_out} messages"),
        false => format!("{handed_out} messages: {}", parts.join(", ")),
    }
}

pub(crate) fn run_instance(
    connection: &Connection,
    command: InstanceCommand,
) -> Result<(), Failure> {
    let client = connection.client()?;
    match command {
        InstanceCommand::List { output } => {
            let instances = client.instances()?;
            tell(output, &instances, |is_wide| list(&instances, is_wide))
        }
        InstanceCommand::Show { name, output } => {
            let instance = client.instance(&name)?;
            tell(output, &instance, |is_wide| list(std::slice::from_ref(&instance), is_wide))
        }
        InstanceCommand::Delete { name } => {
            let instance = client.instance(&name)?;
            client.delete(Kind::PortPair, &instance.id.to_string())?;
            say!("instance '{}' is gone", instance.name);
            Ok(())
        }
        InstanceCommand::Drain { name, wait } => drain(&client, &name, Duration::from_secs(wait)),
        InstanceCommand::Resume { name } => {
            let instance = client.set_draining(&name, false)?;
            say!("instance {}   takes new flows again", instance.name);
            Ok(())
        }
    }
}

fn list(instances: &[InstanceReport], is_wide: bool) {
    let mut table = table(["instance", "function", "node", "weight", "use", "flows left"]);
    for instance in instances {
        let name = match is_wide {
            true => format!("{} ({})", instance.name, instance.id),
            false => instance.name.clone(),
        };
        table.add_row([
            name,
            instance.function.clone().unwrap_or_else(|| "-".into()),
            instance.node.as_ref().map_or("-".into(), ToString::to_string),
            instance.weight.to_string(),
            instance.used.name().into(),
            instance.flows_left.to_string(),
        ]);
    }
    block(table);
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

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used)]

    use super::*;
    use serde_json::json;

    #[test]
    fn deaths_and_the_form_are_told_of_whom_there_are_any() {
        let mut counters: FunctionCounters = serde_json::from_value(json!({
            "instance": uuid::Uuid::nil(), "name": "edge-1", "configuration": "00".repeat(32), "rules": [],
            "rules_untold": 0, "events": 0, "errors_withheld": 0,
        }))
        .unwrap();
        assert_eq!(asked(&counters), [""; 0]);
        counters.deaths = 1;
        assert_eq!(asked(&counters), ["edge-1: died once and began anew"]);
        counters.deaths = 2;
        counters.copied_bytes = 1_500;
        counters.choice =
            Some(serde_json::from_value(json!({"form": "fuse", "fuse_ns": 812_000})).unwrap());
        assert_eq!(
            asked(&counters),
            [
                "edge-1: died 2 times and began anew",
                "edge-1: 1500 bytes of packets copied to its process",
                "edge-1: asked by fuse (fuse 812 µs, pipeline –, fork –)",
            ]
        );
    }
}
