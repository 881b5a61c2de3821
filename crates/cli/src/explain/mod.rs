//! `catena explain`: why a packet goes where it goes, one line for each decision.

use crate::connection::Connection;
use crate::failure::Failure;
use crate::output::{Format, say, tell};
use catena_client::capture;
use catena_model::explain::{
    Evidence, ExplainLine, ExplainQuery, ExplainReport, ExplainSubject, FrameBytes, WhyNotReport,
};
use clap::Args;
use std::path::PathBuf;

const MS_PER_SECOND: u64 = 1_000;

/// The word that may stand in front of a chain's name.
const CHAIN_WORD: &str = "chain";

#[derive(Args)]
pub(crate) struct ExplainArguments {
    /// The packet, such as 'tcp 10.0.1.7:40112 > 198.51.100.9:443'.
    #[arg(conflicts_with_all = ["pcap", "real"])]
    packet: Option<String>,
    /// The port it comes in by, as port:NAME or by its id [default with --pcap: the port with the
    /// packet's source MAC].
    #[arg(long)]
    from: Option<String>,
    /// Take the packet from a capture (pcap or pcapng).
    #[arg(long, value_name = "FILE", conflicts_with = "real")]
    pcap: Option<PathBuf>,
    /// Which packet of the capture, from 1.
    #[arg(
        long = "packet",
        value_name = "N",
        requires = "pcap",
        conflicts_with = "packet",
        default_value_t = 1
    )]
    number: usize,
    /// Take the next real packet that comes in by the port, and follow it: lines that no node has
    /// observed of it are marked as rehearsed.
    #[arg(long, requires = "from")]
    real: bool,
    /// What the real packet must look like, such as 'udp and dst port 443'.
    #[arg(
        long = "match",
        value_name = "FILTER",
        requires = "real",
        conflicts_with = "packet",
        default_value = ""
    )]
    filter: String,
    /// How long to wait for the real packet, in seconds.
    #[arg(
        long,
        value_name = "SECONDS",
        requires = "real",
        conflicts_with = "packet",
        default_value_t = 10
    )]
    wait: u64,
    /// Say also why a chain does not take the packet: NAME or chain NAME.
    #[arg(long, value_name = "CHAIN", num_args = 1..=2)]
    why_not: Vec<String>,
    /// How it is printed.
    #[arg(short, long, value_enum, default_value = "table")]
    output: Format,
}

pub(crate) fn run(connection: &Connection, arguments: ExplainArguments) -> Result<(), Failure> {
    let output = arguments.output;
    let query = query(arguments)?;
    let report = connection.client()?.explain(&query)?;
    tell(output, &report, |_| {
        for line in lines(&report) {
            say!("{line}");
        }
    })
}

fn query(arguments: ExplainArguments) -> Result<ExplainQuery, Failure> {
    let (why_not, misplaced) = chain(arguments.why_not);
    let described = arguments.packet.or(misplaced);
    let packet = match (described, arguments.pcap) {
        (Some(text), None) if !arguments.real => ExplainSubject::Described(text),
        (None, Some(file)) => {
            ExplainSubject::Frame(FrameBytes(capture::frame(&file, arguments.number)?))
        }
        (None, None) if arguments.real => ExplainSubject::Next {
            filter: arguments.filter,
            wait_ms: arguments.wait.saturating_mul(MS_PER_SECOND),
        },
        _ => {
            return Err(Failure::usage(
                "name one packet: 'tcp A:p > B:q', or --pcap FILE, or --real",
            ));
        }
    };
    if arguments.from.is_none() && !matches!(packet, ExplainSubject::Frame(_)) {
        return Err(Failure::usage("say where the packet comes in: --from port:NAME"));
    }
    Ok(ExplainQuery { from: arguments.from, packet, why_not })
}

/// The chain of `--why-not`, and what was taken for its second word but is the packet.
fn chain(words: Vec<String>) -> (Option<String>, Option<String>) {
    let mut words = words.into_iter();
    match (words.next(), words.next()) {
        (Some(word), Some(name)) if word == CHAIN_WORD => (Some(name), None),
        (first, second) => (first, second),
    }
}

/// The explanation for people.
fn lines(report: &ExplainReport) -> Vec<String> {
    let seen = report.seen_ago_ms.map_or_else(String::new, |ms| format!(", seen {ms} ms ago"));
    let bytes = report.frame.0.len();
    let mut lines =
        vec![format!("packet {} by port {}, {bytes} B{seen}", report.described, report.from)];
    let width = report.lines.iter().map(|line| line.node.as_str().len()).max().unwrap_or(0);
    let line = |line: &ExplainLine| {
        let (number, node, verb) = (line.number, line.node.as_str(), line.step.action.verb());
        let copy = if line.is_copy { "copy: " } else { "" };
        let rehearsed = match line.evidence {
            Some(Evidence::Rehearsed) => "   (rehearsed)",
            Some(Evidence::Observed) | None => "",
        };
        format!("{number:>2} {node:<width$} {verb:<11} {copy}{}{rehearsed}", line.step.text)
    };
    lines.extend(report.lines.iter().map(line));
    lines.push(format!("verdict {}", report.verdict));
    lines.extend(report.remarks.iter().map(|remark| format!("but     {remark}")));
    lines.extend(report.why_not.iter().flat_map(why_not));
    lines
}

fn why_not(report: &WhyNotReport) -> Vec<String> {
    let chain = &report.chain;
    let mut lines = vec![if report.is_taken {
        format!("chain '{chain}' takes it")
    } else {
        format!("chain '{chain}' does not take it")
    }];
    lines.extend(report.state.iter().map(|state| format!("  it is {state}")));
    if report.rules.is_empty() {
        lines.push("  it has no rule".to_owned());
    }
    lines.extend(report.rules.iter().map(|rule| format!("  rule '{}': {}", rule.rule, rule.text)));
    lines
}

#[cfg(test)]
mod tests {
    use super::*;
    use clap::{Command, FromArgMatches};

    fn parsed(words: &[&str]) -> Result<ExplainQuery, u8> {
        let command = ExplainArguments::augment_args(Command::new("explain"));
        let words = std::iter::once("explain").chain(words.iter().copied());
        let matches = command.try_get_matches_from(words).map_err(|_| 2)?;
        let arguments = ExplainArguments::from_arg_matches(&matches).map_err(|_| 2)?;
        query(arguments).map_err(|failure| failure.exit)
    }

    #[test]
    fn the_chain_of_why_not_may_stand_anywhere_and_with_its_word() {
        let packet = "tcp 10.0.0.1:1 > 10.0.0.2:2";
        for words in [
            &["--from", "port:S", packet, "--why-not", "web"][..],
            &["--from", "port:S", packet, "--why-not", "chain", "web"],
            &["--from", "port:S", "--why-not", "web", packet],
            &["--from", "port:S", "--why-not", "chain", "web", packet],
        ] {
            let query = parsed(words).unwrap();
            assert_eq!(query.why_not.as_deref(), Some("web"), "{words:?}");
            assert_eq!(query.packet, ExplainSubject::Described(packet.into()), "{words:?}");
        }
    }

    #[test]
    fn a_question_names_one_packet_and_where_it_comes_in() {
        let real = parsed(&["--from", "S", "--real", "--match", "udp", "--wait", "3"]).unwrap();
        let expected = ExplainSubject::Next { filter: "udp".into(), wait_ms: 3_000 };
        assert_eq!(real.packet, expected);
        for words in [
            &["--from", "S"][..],
            &["tcp 10.0.0.1:1 > 10.0.0.2:2"],
            &["--real"],
            &["--from", "S", "--real", "tcp 10.0.0.1:1 > 10.0.0.2:2"],
            &["--from", "S", "--packet", "3", "udp 10.0.0.1:1 > 10.0.0.2:2"],
            &["--from", "S", "--match", "udp", "udp 10.0.0.1:1 > 10.0.0.2:2"],
        ] {
            assert_eq!(parsed(words), Err(2), "{words:?}");
        }
    }
}
