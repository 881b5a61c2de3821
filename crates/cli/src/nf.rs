//! `catena nf`: network functions that come with Catena, without a controller. Reads the files that rules
//! stand in; refuses to know what rules mean, how interfaces are opened and what becomes of packets.

use crate::failure::Failure;
use crate::nf_account;
use crate::nf_beside;
use crate::nf_configured::{self, ConfiguredArguments};
use crate::nf_ids::{self, IdsArguments};
use crate::nf_instance::{self, InstanceArguments};
use crate::nf_monitor::{self, MonitorArguments};
use crate::output::{block, json_escaped, progress, say};
use catena_model::profile::{FieldSet, Profile, StateScope};
use catena_nf::Function;
use catena_nf::firewall::Firewall;
use catena_nf::firewall::sources::{RuleText, SourceError, Sources};
use catena_rules::Remark;
use catena_rules::qos::QosKind;
use catena_rules::rule_set::RuleSet;
use catena_rules::{Side, Unsupported};
use catena_runner::{Account, Clock, News, Outlet, Place, Setting, Walls, run_to_end, secret_seed};
use clap::{Args, Subcommand, ValueEnum};
use serde_json::json;
use std::collections::BTreeMap;
use std::path::{Path, PathBuf};

#[derive(Subcommand)]
pub(crate) enum NfCommand {
    /// Run a function between two interfaces: what comes in at one goes through it and out at the other.
    ///
    /// Needs CAP_NET_RAW, which it gives up once both interfaces are open, and no controller. What is no IP
    /// (ARP, LLDP) passes as it is. The host's own stack hears what comes as well: give the interfaces no
    /// address, and let the host not forward between them. SIGINT and SIGTERM end it with its account, SIGUSR1
    /// tells the account on the way.
    #[command(subcommand)]
    Run(RunCommand),
    /// Run a function as an agent runs an instance of its node: by its configuration as programs know it.
    #[command(hide = true)]
    Instance(InstanceArguments),
    /// Be a function that a data plane asks by a mailbox; its socket is the standard input.
    #[command(hide = true)]
    Beside,
    /// Start such functions for a data plane, whose socket is the standard input.
    #[command(hide = true)]
    Starter,
    /// Read a function's rules: what is wrong with them, what has no effect, and what the function then does.
    #[command(subcommand)]
    Check(CheckCommand),
}

#[derive(Subcommand)]
pub(crate) enum RunCommand {
    /// A firewall by rules of iptables or nftables: what forwarded packets meet, and where it leads.
    Firewall {
        #[command(flatten)]
        rules: FirewallArguments,
        #[command(flatten)]
        place: Place,
        /// Tell the account as one line of JSON.
        #[arg(long)]
        json: bool,
    },
    /// A balancer: connections of clients at `--in` to virtual addresses go to servers at `--out`, by their weights and
    /// health.
    ///
    /// It is no router, and answers no ARP for the virtual addresses: routers of both sides send it what is for the
    /// other.
    Balancer(ConfiguredArguments),
    /// An ids by rules of Snort and Suricata: it tells of attacks, as lines of EVE's JSON on the standard output, and
    /// lets everything pass.
    Ids(IdsArguments),
    /// An ips by rules of Snort and Suricata: it tells of attacks as the ids does, and ends what `drop` and `reject`
    /// name.
    Ips(IdsArguments),
    /// A NAT: hosts at `--in` share addresses at `--out`, and ports there lead to them.
    ///
    /// It is no router: hosts of both sides send it what is for the other.
    Nat(ConfiguredArguments),
    /// A marker: packets get the code point (DSCP) of their class.
    Marker(ConfiguredArguments),
    /// A policer: classes are metered by RFC 2697 or RFC 2698; by their colours, packets pass, get another code point
    /// or end.
    Policer(ConfiguredArguments),
    /// A shaper: packets of a class leave no faster than its rate, and wait until they may.
    Shaper(ConfiguredArguments),
    /// A router: packets for its hardware addresses go to the next hop of their route with one hop less.
    ///
    /// It resolves no addresses and answers no ARP: next hops are in its configuration, and hosts of both sides know
    /// its hardware addresses.
    Router(ConfiguredArguments),
    /// A function that does nothing but work, for experiments: packets wait for drawn times, or the processor is kept
    /// busy.
    Work(ConfiguredArguments),
    /// A monitor: flow records for a collector of IPFIX, who talks most, round trips of TCP, and scans.
    Monitor {
        #[command(flatten)]
        monitor: MonitorArguments,
        #[command(flatten)]
        place: Place,
        /// Tell the account, and what the monitor says, as one line of JSON.
        #[arg(long)]
        json: bool,
    },
}

#[derive(Subcommand)]
pub(crate) enum CheckCommand {
    /// A firewall by rules of iptables or nftables: what forwarded packets meet, and where it leads.
    Firewall {
        #[command(flatten)]
        rules: FirewallArguments,
        /// Tell what was read as one line of JSON.
        #[arg(long)]
        json: bool,
    },
}

/// What a firewall is made of.
#[derive(Args)]
pub(crate) struct FirewallArguments {
    /// Rules for IPv4 as `iptables-save` writes them, or rules of nftables as `nft -j list ruleset` does.
    #[arg(long, value_name = "FILE")]
    config: PathBuf,
    /// Rules for IPv6, as `ip6tables-save` writes them; without it IPv6 passes.
    #[arg(long, value_name = "FILE")]
    v6_config: Option<PathBuf>,
    /// Segments of TCP whose numbers do not fit their connection are no reason to call them invalid, as with
    /// nf_conntrack_tcp_be_liberal.
    #[arg(long)]
    tcp_be_liberal: bool,
    /// What becomes of rules that are not supported: the file is refused, or they are left out and listed.
    #[arg(long, value_enum, default_value = "refuse")]
    unsupported: UnsupportedChoice,
    /// An interface that rules name and the side it stands for; may be given several times. `--in` and
    /// `--out` stand for their sides by themselves.
    #[arg(long = "interface", value_name = "NAME=in|out", value_parser = named_side)]
    interfaces: Vec<(String, Side)>,
}

#[derive(Clone, Copy, ValueEnum)]
pub(crate) enum UnsupportedChoice {
    /// The file is refused.
    Refuse,
    /// Such rules are left out, and listed.
    Skip,
}

impl From<UnsupportedChoice> for Unsupported {
    fn from(choice: UnsupportedChoice) -> Self {
        match choice {
            UnsupportedChoice::Refuse => Self::Refuse,
            UnsupportedChoice::Skip => Self::Skip,
        }
    }
}

pub(crate) fn named_side(text: &str) -> Result<(String, Side), String> {
    let wrong = || format!("'{text}' names no side; write eth0=in or eth1=out");
    let (name, side) = text.rsplit_once('=').ok_or_else(wrong)?;
    let side = match side {
        "in" => Side::In,
        "out" => Side::Out,
        _ => return Err(wrong()),
    };
    if name.is_empty() { Err(wrong()) } else { Ok((name.to_owned(), side)) }
}

pub(crate) fn run(command: NfCommand) -> Result<(), Failure> {
    match command {
        NfCommand::Run(RunCommand::Firewall { rules, place, json }) => {
            check(&place)?;
            let own = [Side::In, Side::Out].map(|side| (place.name(side).to_owned(), side));
            let (sets, firewall) = rules.read(own.into())?;
            for remark in sets.iter().flat_map(RuleSet::remarks) {
                progress(format_args!("{remark}"));
            }
            let tell = |_: &Firewall, account: &Account| nf_account::tell(account, &place, json);
            run_function(Box::new(firewall), alone(&place, Clock::start(), None), tell)
        }
        NfCommand::Run(RunCommand::Nat(wanted)) => nf_configured::nat(&wanted),
        NfCommand::Run(RunCommand::Balancer(wanted)) => nf_configured::balancer(&wanted),
        NfCommand::Run(RunCommand::Ids(wanted)) => nf_ids::run(&wanted, false),
        NfCommand::Run(RunCommand::Ips(wanted)) => nf_ids::run(&wanted, true),
        NfCommand::Run(RunCommand::Marker(wanted)) => {
            nf_configured::classes(&wanted, QosKind::Marker)
        }
        NfCommand::Run(RunCommand::Policer(wanted)) => {
            nf_configured::classes(&wanted, QosKind::Policer)
        }
        NfCommand::Run(RunCommand::Shaper(wanted)) => {
            nf_configured::classes(&wanted, QosKind::Shaper)
        }
        NfCommand::Run(RunCommand::Router(wanted)) => nf_configured::router(&wanted),
        NfCommand::Run(RunCommand::Work(wanted)) => nf_configured::work(&wanted),
        NfCommand::Run(RunCommand::Monitor { monitor, place, json }) => {
            check(&place)?;
            nf_monitor::run(&monitor, &place, json)
        }
        NfCommand::Instance(wanted) => nf_instance::run(&wanted),
        NfCommand::Beside => nf_beside::serve(),
        NfCommand::Starter => nf_beside::start(),
        NfCommand::Check(CheckCommand::Firewall { rules, json }) => {
            let (sets, firewall) = rules.read(BTreeMap::new())?;
            tell_rules(&sets, firewall.profile(), json);
            Ok(())
        }
    }
}

impl FirewallArguments {
    /// The rule sets, and the firewall of them. `own`: interfaces whose sides are known.
    fn read(&self, own: BTreeMap<String, Side>) -> Result<(Vec<RuleSet>, Firewall), Failure> {
        let mut interfaces = own;
        interfaces.extend(self.interfaces.iter().cloned());
        let read = |file: &PathBuf| Ok::<_, Failure>((file.display().to_string(), text(file)?));
        let rules = read(&self.config)?;
        let v6_rules = self.v6_config.as_ref().map(read).transpose()?;
        fn source((file, text): &(String, String)) -> RuleText<'_> {
            RuleText { file, text }
        }
        let sources = Sources {
            rules: source(&rules),
            v6_rules: v6_rules.as_ref().map(source),
            interfaces,
            unsupported: self.unsupported.into(),
            tcp_be_liberal: self.tcp_be_liberal,
            seed: secret_seed()?,
        };
        sources.read().map_err(|error| refused(&error))
    }
}

/// What is left out in a template by a line is left out here by an option.
fn refused(error: &SourceError) -> Failure {
    let hint = if error.may_be_skipped() { " (here: --unsupported skip)" } else { "" };
    Failure::failed(format!("{error}{hint}"))
}

fn text(file: &Path) -> Result<String, Failure> {
    std::fs::read_to_string(file).map_err(|error| {
        let file = file.display();
        Failure::failed(format!(
            "the rules {file} cannot be read: {error}; name a file that iptables-save or nft -j list ruleset wrote"
        ))
    })
}

/// Is there a place to stand?
pub(crate) fn check(place: &Place) -> Result<(), Failure> {
    place.check().map_err(|error| Failure::usage(error.to_string()))
}

/// How a function runs that somebody has started by hand.
pub(crate) fn alone(place: &Place, clock: Clock, outlet: Option<Outlet>) -> Setting<'_> {
    Setting { place, walls: Walls::Privileges, clock, outlet }
}

/// Runs a function until a signal ends it, and tells its accounts.
pub(crate) fn run_function<F: Function + ?Sized>(
    function: Box<F>,
    setting: Setting<'_>,
    tell: impl Fn(&F, &Account),
) -> Result<(), Failure> {
    let place = setting.place;
    Ok(run_to_end(function, setting, |function, news| hear(place, function, &news, &tell))?)
}

/// What a function's process says on the way.
pub(crate) fn hear<F: Function + ?Sized>(
    place: &Place,
    function: &F,
    news: &News,
    tell: impl Fn(&F, &Account),
) {
    let words = news.in_words(place).unwrap_or_default();
    match news {
        News::Account(account) => tell(function, account),
        News::Running => progress(format_args!("{words}")),
        News::FilesWithinReach | News::PortError { .. } => tracing::warn!("{words}"),
    }
}

/// Says what was read, and what the function of it does.
fn tell_rules(sets: &[RuleSet], profile: &Profile, json: bool) {
    let rules: usize = sets.iter().map(RuleSet::rules).sum();
    let remarks: Vec<Remark<'_>> = sets.iter().flat_map(RuleSet::remarks).collect();
    if json {
        let remarks =
            remarks.iter().map(|one| json!({"file": one.file, "line": one.line, "what": one.what}));
        let value = json!({
            "rules": rules,
            "remarks": remarks.collect::<Vec<_>>(),
            "profile": {
                "reads": profile.reads.in_words(),
                "writes": profile.writes.in_words(),
                "drops": profile.drops,
                "has_effects": profile.has_effects,
                "state": scope(profile.state),
                "generates": profile.generates,
                "is_ordered": profile.is_ordered,
                "takes_super_frames": profile.takes_super_frames,
            },
        });
        block(json_escaped(&value.to_string()));
        return;
    }
    let skipped: usize = sets.iter().map(|set| set.skipped.len()).sum();
    say!(
        "rules          {rules}{}",
        if skipped > 0 { format!(", {skipped} left out") } else { String::new() }
    );
    for remark in &remarks {
        say!("remark         {remark}");
    }
    for (name, value) in profile_lines(profile) {
        say!("{name:<14} {value}");
    }
}

fn profile_lines(profile: &Profile) -> [(&'static str, String); 8] {
    let list = |set: &FieldSet| match set.in_words() {
        _ if *set == FieldSet::all() => "everything".to_owned(),
        names if names.is_empty() => "nothing".to_owned(),
        names => names.join(", "),
    };
    let yes_or_no = |is_so: bool| if is_so { "yes" } else { "no" }.to_owned();
    let whole = if profile.takes_super_frames { "whole" } else { "cut into wire packets first" };
    [
        ("reads", list(&profile.reads)),
        ("writes", list(&profile.writes)),
        ("drops", yes_or_no(profile.drops)),
        ("effects", yes_or_no(profile.has_effects)),
        ("state", scope(profile.state).to_owned()),
        ("generates", yes_or_no(profile.generates)),
        ("ordered", yes_or_no(profile.is_ordered)),
        ("super-frames", whole.to_owned()),
    ]
}

/// How far state reaches.
const fn scope(scope: StateScope) -> &'static str {
    match scope {
        StateScope::Packet => "none",
        StateScope::Flow => "of the flow",
        StateScope::Host => "of the host",
        StateScope::All => "of all packets",
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const V4: &str = "*filter\n:INPUT DROP [0:0]\n:FORWARD ACCEPT [0:0]\n\
        -A FORWARD -i eth0 -p tcp -m tcp --dport 23 -j REJECT --reject-with tcp-reset\nCOMMIT\n";
    const V6: &str = "*filter\n:FORWARD DROP [0:0]\nCOMMIT\n";

    fn arguments(folder: &Path, has_v6: bool) -> FirewallArguments {
        let file = |name: &str, text: &str| {
            let path = folder.join(name);
            std::fs::write(&path, text).unwrap();
            path
        };
        FirewallArguments {
            config: file("v4", V4),
            v6_config: has_v6.then(|| file("v6", V6)),
            tcp_be_liberal: false,
            unsupported: UnsupportedChoice::Refuse,
            interfaces: vec![("eth0".to_owned(), Side::In)],
        }
    }

    #[test]
    fn one_file_alone_lets_the_other_version_pass_and_says_so() {
        let folder = tempfile::tempdir().unwrap();
        for (has_v6, rest) in [(false, 2), (true, 1)] {
            let (sets, firewall) =
                arguments(folder.path(), has_v6).read(BTreeMap::new()).ok().unwrap();
            let remarks: Vec<_> = sets.iter().flat_map(RuleSet::remarks).collect();
            assert_eq!(remarks.len(), rest, "{remarks:?}");
            assert!(remarks.iter().any(|one| one.line == 2 && one.what.contains("INPUT")));
            assert!(firewall.profile().generates);
        }
    }

    #[test]
    fn a_side_is_named_by_its_word() {
        assert_eq!(named_side("eth0=in"), Ok(("eth0".to_owned(), Side::In)));
        assert_eq!(named_side("a=b=out"), Ok(("a=b".to_owned(), Side::Out)));
        for wrong in ["eth0", "=in", "eth0=up", ""] {
            assert!(named_side(wrong).unwrap_err().contains("eth0=in"), "{wrong}");
        }
    }
}
