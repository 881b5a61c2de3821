//! `catena slice`: slices of 5G networks, made, listed, shown, changed and removed.

use crate::connection::Connection;
use crate::failure::Failure;
use crate::output::{Format, block, say, table, tell};
use catena_model::program::{DelayClass, SliceRate};
use catena_model::slice::{SliceAtNode, SliceDocument, SliceReport};
use clap::{Args, Subcommand};

/// Milliseconds of a slice's rate that its bucket holds unless something else is said.
const BURST_MS: u64 = 10;
/// Least of that, in bytes: the largest frame that a path carries whole.
const BURST_BYTES_LEAST: u32 = 65_536;

#[derive(Subcommand)]
pub(crate) enum SliceCommand {
    /// Make a slice.
    Create {
        /// Its name.
        name: String,
        /// Name or id of its chain.
        #[arg(long)]
        chain: String,
        #[command(flatten)]
        fields: Fields,
    },
    /// All slices with their state.
    List {
        /// Only those of the chain of this name or id.
        #[arg(long)]
        chain: Option<String>,
        /// How they are printed.
        #[arg(short, long, value_enum, default_value = "table")]
        output: Format,
    },
    /// One slice.
    Show {
        /// Name or id.
        name: String,
        /// How it is printed.
        #[arg(short, long, value_enum, default_value = "table")]
        output: Format,
    },
    /// Change what is given of a slice; the rest stays.
    Set {
        /// Name or id.
        name: String,
        /// Name or id of another chain.
        #[arg(long)]
        chain: Option<String>,
        #[command(flatten)]
        fields: Fields,
    },
    /// Remove a slice.
    Delete {
        /// Name or id.
        name: String,
    },
}

/// What may be said of a slice.
#[derive(Args)]
pub(crate) struct Fields {
    /// The port that its packets enter by, by name or id.
    #[arg(long)]
    source_port: Option<String>,
    /// The chain at whose end it takes packets, by name or id, instead of at ports.
    #[arg(long, conflicts_with = "source_port")]
    after: Option<String>,
    /// Identifier of the tenant's network (VXLAN, VXLAN-GPE, GENEVE).
    #[arg(long, group = "network")]
    vni: Option<u32>,
    /// The tenant's network by its key of GRE, instead.
    #[arg(long, group = "network")]
    gre_key: Option<u32>,
    /// The tenant's network by its context identifier of STT, instead.
    #[arg(long, group = "network")]
    stt_context: Option<u64>,
    /// Users: one GTP-U tunnel, or the first and last of several (`1-100`).
    #[arg(long, value_parser = teids)]
    teids: Option<(u32, u32)>,
    /// QoS flow.
    #[arg(long)]
    qfi: Option<u32>,
    /// Let its packets carry tenant and user as metadata.
    #[arg(long, num_args = 0..=1, default_missing_value = "true")]
    metadata: Option<bool>,
    /// Rate in bits per second, or `none`; k, M and G stand for thousands.
    #[arg(long, value_parser = rate)]
    rate: Option<Rate>,
    /// Bytes that may come at once; without it, 10 ms of the rate and at least 65,536.
    #[arg(long, requires = "rate")]
    burst: Option<u32>,
    /// Whose packet goes first: `urgent`, `shared:QUANTUM` (bytes of each round) or `unscheduled`.
    #[arg(long, value_parser = class)]
    class: Option<DelayClass>,
}

/// A rate, or that there is none.
#[derive(Clone, Copy)]
struct Rate(Option<u64>);

fn teids(text: &str) -> Result<(u32, u32), String> {
    let (first, last) = text.split_once('-').unwrap_or((text, text));
    let number = |text: &str| text.trim().parse().map_err(|_| format!("'{text}' is no number"));
    Ok((number(first)?, number(last)?))
}

fn rate(text: &str) -> Result<Rate, String> {
    if text == "none" {
        return Ok(Rate(None));
    }
    let (digits, factor) = match text.strip_suffix(['k', 'M', 'G']) {
        Some(digits) if text.ends_with('k') => (digits, 1_000),
        Some(digits) if text.ends_with('M') => (digits, 1_000_000),
        Some(digits) => (digits, 1_000_000_000),
        None => (text, 1),
    };
    let number: u64 = digits.parse().map_err(|_| format!("'{text}' is no rate"))?;
    number.checked_mul(factor).map(|rate| Rate(Some(rate))).ok_or(format!("'{text}' is too much"))
}

fn class(text: &str) -> Result<DelayClass, String> {
    match text.split_once(':') {
        None if text == "urgent" => Ok(DelayClass::Urgent),
        None if text == "unscheduled" => Ok(DelayClass::Unscheduled),
        Some(("shared", quantum)) => {
            let quantum_bytes = quantum.parse().map_err(|_| format!("'{quantum}' is no number"))?;
            Ok(DelayClass::Shared { quantum_bytes })
        }
        _ => Err(format!("'{text}' is no class; use urgent, shared:QUANTUM or unscheduled")),
    }
}

impl Fields {
    /// Puts down what was given.
    fn say(self, slice: &mut SliceDocument) {
        let Self { source_port, after, teids, qfi, metadata, rate, burst, class, .. } = self;
        // One network instead of another.
        if self.vni.is_some() || self.gre_key.is_some() || self.stt_context.is_some() {
            slice.vni = self.vni;
            (slice.gre_key, slice.stt_context) = (self.gre_key, self.stt_context);
        }
        // One place instead of the other.
        if source_port.is_some() || after.is_some() {
            (slice.source_port, slice.after) = (source_port, after);
        }
        if teids.is_some() {
            (slice.teids, slice.teid) = (teids, None);
        }
        slice.qfi = qfi.or(slice.qfi);
        slice.carries_metadata = metadata.unwrap_or(slice.carries_metadata);
        if let Some(Rate(rate)) = rate {
            slice.rate = rate.map(|bits_per_second| {
                let usual = bits_per_second / 8 * BURST_MS / 1_000;
                let usual = u32::try_from(usual).unwrap_or(u32::MAX).max(BURST_BYTES_LEAST);
                SliceRate { bits_per_second, burst_bytes: burst.unwrap_or(usual) }
            });
        }
        slice.class = class.unwrap_or(slice.class);
    }
}

pub(crate) fn run(connection: &Connection, command: SliceCommand) -> Result<(), Failure> {
    let client = connection.client()?;
    match command {
        SliceCommand::Create { name, chain, fields } => {
            let mut slice = SliceDocument { name, chain, ..SliceDocument::default() };
            fields.say(&mut slice);
            say!("{}", line(&client.create_slice(&slice)?));
        }
        SliceCommand::List { chain, output } => {
            let slices = client.slices(chain.as_deref())?;
            tell(output, &slices, |is_wide| list(&slices, is_wide))?;
        }
        SliceCommand::Show { name, output } => {
            let slice = client.slice(&name)?;
            tell(output, &slice, |_| show(&slice))?;
        }
        SliceCommand::Set { name, chain, fields } => {
            let SliceReport { id, mut slice, .. } = client.slice(&name)?;
            slice.chain = chain.unwrap_or(slice.chain);
            fields.say(&mut slice);
            say!("{}", line(&client.put_slice(&id.to_string(), &slice)?));
        }
        SliceCommand::Delete { name } => {
            let id = client.slice(&name)?.id;
            client.delete_slice(&id.to_string())?;
            say!("slice '{name}' is gone");
        }
    }
    Ok(())
}

/// A slice in one line.
fn line(report: &SliceReport) -> String {
    let path = report.status.path.map(|path| format!(" on path {path}")).unwrap_or_default();
    let reason = match report.status.reason.as_str() {
        "" => String::new(),
        reason => format!(": {reason}"),
    };
    let state = report.status.state.name();
    format!(
        "slice '{}' of chain '{}' is {state}{path}{reason}",
        report.slice.name, report.slice.chain
    )
}

/// Network, users and QoS flow of a slice.
pub(crate) fn fields(slice: &SliceDocument) -> [String; 3] {
    let or_any = |number: Option<u32>| number.map_or("any".into(), |number| number.to_string());
    let teids = match (slice.teids, slice.teid) {
        (Some((first, last)), _) => format!("{first}-{last}"),
        (None, one) => or_any(one),
    };
    let network = match slice.tunnel_id() {
        Ok(Some(id)) => id.to_string(),
        Ok(None) | Err(_) => "any".into(),
    };
    [network, teids, or_any(slice.qfi)]
}

/// Where a slice takes packets.
pub(crate) fn place(slice: &SliceDocument) -> String {
    match (&slice.source_port, &slice.after) {
        (_, Some(chain)) => format!("end of {chain}"),
        (Some(port), None) => port.clone(),
        (None, None) => "any endpoint".into(),
    }
}

fn list(slices: &[SliceReport], is_wide: bool) {
    let titles =
        ["slice", "from", "chain", "network", "teids", "qfi", "rate", "class", "path", "state"];
    let mut table = table(titles);
    for SliceReport { id, slice, status, .. } in slices {
        let name = if is_wide { format!("{} ({id})", slice.name) } else { slice.name.clone() };
        let [network, teids, qfi] = fields(slice);
        let state = match status.reason.as_str() {
            "" => status.state.name().to_owned(),
            reason => format!("{} ({reason})", status.state.name()),
        };
        table.add_row([
            name,
            place(slice),
            slice.chain.clone(),
            network,
            teids,
            qfi,
            slice.rate.map_or("-".into(), |rate| format!("{} bit/s", rate.bits_per_second)),
            class_name(slice.class),
            status.path.map_or("-".into(), |path| path.to_string()),
            state,
        ]);
    }
    block(table);
}

/// A slice with what nodes counted.
fn show(slice: &SliceReport) {
    list(std::slice::from_ref(slice), true);
    let mut table =
        table(["node", "path", "entered", "finished", "tunnelled out", "in", "dropped", "jitter"]);
    for SliceAtNode { node, counters } in &slice.nodes {
        let path = counters.path.to_string();
        let path = if counters.is_injected { format!("{path} (injected)") } else { path };
        let drops: u64 = counters.dropped.values().sum();
        let jitter = counters.wait.map(|wait| format!("{} ns", wait.jitter_ns));
        table.add_row([
            node.as_ref().map_or("-".into(), ToString::to_string),
            path,
            counters.entered.packets.to_string(),
            counters.finished.packets.to_string(),
            counters.tunnelled_out.packets.to_string(),
            counters.tunnelled_in.packets.to_string(),
            drops.to_string(),
            jitter.unwrap_or("-".into()),
        ]);
    }
    if !slice.nodes.is_empty() {
        block(table);
    }
}

fn class_name(class: DelayClass) -> String {
    match class {
        DelayClass::Urgent => "urgent".into(),
        DelayClass::Shared { quantum_bytes } => format!("shared:{quantum_bytes}"),
        DelayClass::Unscheduled => "-".into(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn rates_users_and_classes_are_read_in_the_words_of_people() {
        assert_eq!(rate("10M").unwrap().0, Some(10_000_000));
        assert_eq!(rate("none").unwrap().0, None);
        assert_eq!((teids("7").unwrap(), teids("1-9").unwrap()), ((7, 7), (1, 9)));
        assert_eq!(class("shared:1500").unwrap(), DelayClass::Shared { quantum_bytes: 1_500 });
        for wrong in ["", "fast", "shared", "shared:x"] {
            assert!(class(wrong).is_err(), "{wrong}");
        }
        for wrong in ["", "M", "1T", "99999999999999999999", "18446744073709551615G"] {
            assert!(rate(wrong).is_err(), "{wrong}");
        }
        assert!(teids("a-b").is_err());
    }
}
