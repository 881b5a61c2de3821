//! The one binary `catena`: the roles of a deployment and the verbs of its operators.
//!
//! Knows the command line and exit codes (0 done, 1 failed, 2 wrong usage, 3 the plan has changes,
//! 4 check failed).
//! Refuses to know how anything is done: each verb is one call into another room.
#![forbid(unsafe_code)]

mod alerts;
mod apply;
mod chain;
mod chain_delays;
mod chain_names;
mod chain_show;
mod connection;
mod diff;
mod doctor;
mod document;
mod explain;
mod failure;
mod forms;
mod function;
mod function_project;
mod graph;
mod kernel_path;
mod keystone;
mod lab;
mod link;
mod logs;
mod model;
mod nf;
mod nf_account;
mod nf_beside;
mod nf_configured;
mod nf_ids;
mod nf_instance;
mod nf_monitor;
mod node;
mod optimize;
mod output;
mod packing;
mod path;
mod path_compare;
mod path_live;
mod placement;
mod plan;
mod policy;
mod prediction;
mod receipt;
mod roles;
mod slice;
mod status;
mod stock;
mod story;
mod token;
mod top;
mod user;
mod watch;

use clap::{Parser, Subcommand};
use std::process::ExitCode;

#[derive(Parser)]
#[command(name = "catena", version, about = "Service function chaining: declare, steer, measure")]
struct Arguments {
    #[command(flatten)]
    connection: connection::Connection,
    #[command(subcommand)]
    command: Command,
}

#[derive(Subcommand)]
enum Command {
    /// Run the controller: REST API, planner, southbound server.
    Controller(roles::ControllerArguments),
    /// Run the agent of this node.
    Agent(roles::AgentArguments),
    /// Run the data plane of this node (the agent starts it).
    Dataplane(roles::DataplaneArguments),
    /// Nodes: list, show and set them, export what they run, make certificates.
    #[command(subcommand)]
    Node(node::NodeCommand),
    /// Links between nodes: what discovery found at their ends.
    #[command(subcommand)]
    Link(link::LinkCommand),
    /// Chains: deploy, undeploy, list, show.
    #[command(subcommand)]
    Chain(chain::ChainCommand),
    /// Service functions: list them, say how they fail; write one of your own.
    #[command(subcommand)]
    Function(function::FunctionCommand),
    /// Catena's own network functions without a controller: read their rules, run one between two interfaces.
    #[command(subcommand)]
    Nf(nf::NfCommand),
    /// Queues in numbers, without a controller: how long packets wait for functions, and stay with them.
    #[command(subcommand)]
    Model(model::ModelCommand),
    /// What functions have to do with each other, from files and without a controller.
    #[command(subcommand)]
    Policy(policy::PolicyCommand),
    /// Instances of functions: list them, drain one.
    #[command(subcommand)]
    Instance(function::InstanceCommand),
    /// Flow classifiers: which packets enter a chain.
    #[command(subcommand, visible_alias = "classifier")]
    FlowClassifier(stock::FlowClassifierCommand),
    /// As `openstack sfc port pair`.
    #[command(subcommand)]
    PortPair(stock::PortPairCommand),
    /// As `openstack sfc port pair group`.
    #[command(subcommand)]
    PortPairGroup(stock::PortPairGroupCommand),
    /// As `openstack sfc port chain`.
    #[command(subcommand)]
    PortChain(stock::PortChainCommand),
    /// As `openstack sfc service graph`.
    #[command(subcommand)]
    ServiceGraph(stock::ServiceGraphCommand),
    /// Labs: bring up, run, look into, take down.
    #[command(subcommand)]
    Lab(lab::LabCommand),
    /// Graphs: chains that go on in others.
    #[command(subcommand)]
    Graph(graph::GraphCommand),
    /// Slices of 5G networks: make, list, show, change, remove.
    #[command(subcommand)]
    Slice(slice::SliceCommand),
    /// Paths: what nodes know of chains.
    #[command(subcommand)]
    Path(path::PathCommand),
    /// Make everything as a document says: all of it, at once, or nothing.
    Apply(apply::ApplyArguments),
    /// What a document would change, before it is applied, and which rate, load and delay to expect of its chains then
    /// (exit code 3: something would change).
    Plan(plan::PlanArguments),
    /// Where a document and what is declared differ, line by line (exit code 3: somewhere).
    Diff(diff::DiffArguments),
    /// Why a packet goes where it goes: described, captured, or the next real one.
    Explain(explain::ExplainArguments),
    /// Tokens: who else may use the API.
    #[command(subcommand)]
    Token(token::TokenCommand),
    /// Is this machine fit; and a report for whoever mends a fault (exit code 4: it is not fit).
    Doctor(doctor::DoctorArguments),
    /// How everything stands.
    Status,
    /// Chains, nodes and drops as they move (a terminal; keys are shown at its foot).
    Top(top::TopArguments),
    /// What happens, line by line: nodes, links, chains, receipts of changes.
    Watch(watch::WatchArguments),
}

fn main() -> ExitCode {
    let arguments = Arguments::parse();
    init_logs(&arguments.command);
    let connection = arguments.connection;
    let outcome = match arguments.command {
        Command::Controller(arguments) => roles::controller(arguments),
        Command::Agent(arguments) => roles::agent(arguments),
        Command::Dataplane(arguments) => roles::dataplane(arguments),
        Command::Node(command) => node::run(&connection, command),
        Command::Link(command) => link::run(&connection, command),
        Command::Slice(command) => slice::run(&connection, command),
        Command::Chain(command) => chain::run(&connection, command),
        Command::Function(command) => function::run_function(&connection, command),
        Command::Nf(command) => nf::run(command),
        Command::Model(command) => command.run(),
        Command::Policy(command) => command.run(),
        Command::Instance(command) => function::run_instance(&connection, command),
        Command::FlowClassifier(command) => stock::run(&connection, command),
        Command::PortPair(command) => stock::run(&connection, command),
        Command::PortPairGroup(command) => stock::run(&connection, command),
        Command::PortChain(command) => stock::run(&connection, command),
        Command::ServiceGraph(command) => stock::run(&connection, command),
        Command::Lab(command) => lab::run(command),
        Command::Graph(command) => graph::run(&connection, command),
        Command::Path(command) => path::run(&connection, command),
        Command::Apply(arguments) => apply::run(&connection, &arguments),
        Command::Diff(arguments) => diff::run(&connection, &arguments),
        Command::Plan(arguments) => plan::run(&connection, &arguments),
        Command::Explain(arguments) => explain::run(&connection, arguments),
        Command::Token(command) => token::run(&connection, command),
        Command::Doctor(arguments) => doctor::run(&connection, &arguments),
        Command::Status => status::run(&connection),
        Command::Top(arguments) => top::run(&connection, &arguments),
        Command::Watch(arguments) => watch::run(&connection, &arguments),
    };
    match outcome {
        Ok(()) => ExitCode::SUCCESS,
        Err(failure) => {
            if !failure.message.is_empty() {
                eprintln!("catena: {}", output::complaint(&failure.message));
            }
            ExitCode::from(failure.exit)
        }
    }
}

/// Long-running roles tell what they do; verbs only speak when something is wrong.
fn init_logs(command: &Command) {
    let default = match command {
        Command::Controller(_) | Command::Agent(_) | Command::Dataplane(_) => "info",
        _ => "warn",
    };
    // It warns of every attribute that a kernel newer than itself tells of, and we read none of those.
    let default = format!("{default},netlink_packet_route=error");
    let filter = tracing_subscriber::EnvFilter::try_from_env("CATENA_LOG")
        .unwrap_or_else(|_| tracing_subscriber::EnvFilter::new(default));
    tracing_subscriber::fmt()
        .with_env_filter(filter)
        .with_writer(|| logs::OneLine(std::io::stderr()))
        .with_ansi(false)
        // A full disk or a closed pipe behind stderr must not end the process that logs.
        .log_internal_errors(false)
        .init();
}
