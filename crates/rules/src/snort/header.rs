//! The header of a rule: action, protocol, ends and direction.

use super::rule::{Action, Ends, Protocol};
use super::set::{Kind, Sets};
use crate::refusal::Refusal;

/// What stands before the brackets.
pub(super) struct Header {
    pub(super) action: Action,
    pub(super) protocol: Protocol,
    pub(super) source: Ends,
    pub(super) destination: Ends,
    pub(super) is_both_ways: bool,
}

pub(super) fn read(text: &str, sets: &mut Sets) -> Result<Header, Refusal> {
    let words = words(text);
    let [action, protocol, from, from_port, arrow, to, to_port] = words.as_slice() else {
        let what = format!("the header '{text}' has {} words of 7", words.len());
        let advice = "write: action protocol address port -> address port (options)";
        return Err(Refusal::wrong(what, advice));
    };
    let action = action_of(action)?;
    let protocol = protocol_of(protocol)?;
    let is_both_ways = match *arrow {
        "->" => false,
        "<>" => true,
        other => {
            let what = format!("'{other}' is no direction");
            return Err(Refusal::wrong(
                what,
                "write '->', or '<>' for both; in place of '<-' swap the ends",
            ));
        }
    };
    let has_ports = !matches!(protocol, Protocol::Ip | Protocol::Icmp);
    let mut ends = |addresses: &str, ports: &str| {
        let set = Ends {
            addresses: sets.read(Kind::Addresses, addresses)?,
            ports: sets.read(Kind::Ports, ports)?,
        };
        if !has_ports && ports != "any" {
            let what = format!("the port {ports} is asked of a protocol without ports");
            return Err(Refusal::wrong(what, "write 'any', or the protocol tcp or udp"));
        }
        Ok(set)
    };
    let source = ends(from, from_port)?;
    let destination = ends(to, to_port)?;
    Ok(Header { action, protocol, source, destination, is_both_ways })
}

fn action_of(word: &str) -> Result<Action, Refusal> {
    Ok(match word {
        "alert" => Action::Alert,
        "pass" => Action::Pass,
        "drop" => Action::Drop,
        "reject" => Action::Reject,
        "log" | "activate" | "dynamic" | "sdrop" | "block" | "rejectsrc" | "rejectdst"
        | "rejectboth" | "rewrite" | "react" | "config" => {
            return Err(Refusal::unsupported(format!("the action '{word}' is not supported")));
        }
        _ => {
            let what = format!("'{word}' is no action");
            return Err(Refusal::wrong(what, "write alert, pass, drop or reject"));
        }
    })
}

fn protocol_of(word: &str) -> Result<Protocol, Refusal> {
    Ok(match word {
        "ip" => Protocol::Ip,
        "tcp" => Protocol::Tcp,
        "tcp-pkt" => Protocol::TcpPacket,
        "tcp-stream" => Protocol::TcpStream,
        "udp" => Protocol::Udp,
        "icmp" => Protocol::Icmp,
        "http" | "http1" => Protocol::Http,
        _ => return Err(Refusal::unsupported(format!("the protocol '{word}' is not supported"))),
    })
}

/// Splits at spaces outside of brackets.
fn words(text: &str) -> Vec<&str> {
    let mut depth = 0_usize;
    text.split(|letter: char| {
        match letter {
            '[' => depth += 1,
            ']' => depth = depth.saturating_sub(1),
            _ => {}
        }
        letter.is_whitespace() && depth == 0
    })
    .filter(|word| !word.is_empty())
    .collect()
}
