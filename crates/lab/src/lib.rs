//! Namespace labs: topology file, wiring, traffic, checks, figures.
//!
//! It knows how a test bed is described, made inside namespaces of its own, driven and judged.
//! It refuses to know how controller, agent and data plane work: it starts them as processes of
//! the same program and speaks to them through the API alone.
#![forbid(unsafe_code)]

mod connections;
mod error;
pub mod open_vswitch;
mod plots;
mod resources;
mod routes;
mod run;
mod supervisor;
mod up;
mod vocabulary;
mod wiring;

pub use connections::{Connection, connections};
pub use error::{LabError, Result};
pub use plots::{BarChart, draw_charts};
pub use run::user_frames;
pub use run::{
    ChainOutcome, Change, Comparison, Death, DelayRow, Delays, DeploySample, Evidence,
    FaultOutcome, Footprint, Forged, Forgery, FunctionEvidence, FunctionFigures, Isolation, Judged,
    LengthRow, Lowered, Mean, PredictedDelay, ProgramEnd, ProgramResult, Ratio, RunEvidence,
    RunOptions, RunReport, SetupEvidence, SetupTimes, SouthboundEvidence, Stateless, ThroughputRow,
    TimedDatagrams, TrafficResult, Update, UsersEvidence, UsersRow, beside, changes_in, command,
    commit_of, run, summary, write_summary,
};
pub use supervisor::{
    Doorway, LabNode, LabProcess, LabStatus, StartOptions, Started, down, find, init_main, list,
    shell, status, supervise_main,
};
pub use up::{RunningLab, up};
pub use vocabulary::{
    Arrivals, BitRate, Bundled, CableFault, Call, ChangeKind, Claim, CommandLine, Ending, Endpoint,
    Equipment, Expectation, FaultKind, Flood, Function, FunctionCount, FunctionThreads, Kill, Lab,
    LabChain, LabFileError, Link, LinkEnd, Load, LoadShare, Metric, Network, NodeCable, Ordered,
    Plain, Plot, PlotKind, Program, Relation, RuleSet, Seconds, Sign, Statement, Sweep, Tenant,
    Tool, Traffic, Updates, Users, Version,
};
pub use wiring::NoRoom;
