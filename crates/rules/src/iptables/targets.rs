//! What a rule does: its target and the target's options.

use super::words::Words;
use crate::refusal::Refusal;
use crate::rule_set::{ChainIndex, Reject, Statement, Verdict};

/// Reads the target and ends the row of statements by counting and by what the target does. `led` finds
/// a chain that rules may lead to.
pub(super) fn read(
    words: &mut Words<'_>,
    is_v6: bool,
    led: impl Fn(&str) -> Option<ChainIndex>,
    statements: &mut Vec<Statement>,
) -> Result<(), Refusal> {
    statements.push(Statement::Count);
    let Some(option) = words.next_word() else { return Ok(()) };
    let name = words.need(&format!("the target of {option}"))?;
    let is_goto = matches!(&*option, "-g" | "--goto");
    if let Some(chain) = led(&name) {
        let verdict = if is_goto { Verdict::Goto(chain) } else { Verdict::Jump(chain) };
        statements.push(Statement::Verdict(verdict));
        return nothing_more(words);
    }
    if is_goto {
        let what = format!("there is no chain {name} to go to");
        return Err(Refusal::wrong(what, format!("declare it by a line ':{name} - [0:0]'")));
    }
    let statement = match &*name {
        "ACCEPT" => Statement::Verdict(Verdict::Accept),
        "DROP" => Statement::Verdict(Verdict::Drop),
        "RETURN" => Statement::Verdict(Verdict::Return),
        "REJECT" => Statement::Verdict(Verdict::Reject(reject(words, is_v6)?)),
        "LOG" => Statement::Log(log(words)?),
        _ => {
            let what = format!("the target {name} is no chain of this rule set and not supported");
            return Err(Refusal::unsupported(what));
        }
    };
    statements.push(statement);
    nothing_more(words)
}

fn nothing_more(words: &mut Words<'_>) -> Result<(), Refusal> {
    match words.next_word() {
        None => Ok(()),
        Some(word) => {
            Err(Refusal::unsupported(format!("{word} behind the target is not supported")))
        }
    }
}

/// How senders are told, by the names of RFC 792 and RFC 4443 that iptables has.
fn reject(words: &mut Words<'_>, is_v6: bool) -> Result<Reject, Refusal> {
    let default = if is_v6 { Reject::IcmpV6(4) } else { Reject::Icmp(3) };
    if words.peek() != Some("--reject-with") {
        return Ok(default);
    }
    words.next_word();
    let how = words.need("what --reject-with says")?;
    let codes: &[(&str, u8)] = if is_v6 {
        &[
            ("icmp6-no-route", 0),
            ("no-route", 0),
            ("icmp6-adm-prohibited", 1),
            ("adm-prohibited", 1),
            ("icmp6-addr-unreachable", 3),
            ("addr-unreach", 3),
            ("icmp6-port-unreachable", 4),
            ("port-unreach", 4),
            ("icmp6-policy-fail", 5),
            ("policy-fail", 5),
            ("icmp6-reject-route", 6),
            ("reject-route", 6),
        ]
    } else {
        &[
            ("icmp-net-unreachable", 0),
            ("icmp-host-unreachable", 1),
            ("icmp-proto-unreachable", 2),
            ("icmp-port-unreachable", 3),
            ("icmp-net-prohibited", 9),
            ("icmp-host-prohibited", 10),
            ("icmp-admin-prohibited", 13),
        ]
    };
    if how == "tcp-reset" {
        return Ok(Reject::TcpReset);
    }
    let code = codes.iter().find(|(name, _)| *name == how).map(|(_, code)| *code);
    let code = code.ok_or_else(|| {
        let version = if is_v6 { "IPv6" } else { "IPv4" };
        Refusal::wrong(
            format!("no packet of {version} is rejected with {how}"),
            "say tcp-reset, or one of the ICMP messages that iptables -j REJECT -h lists",
        )
    })?;
    Ok(if is_v6 { Reject::IcmpV6(code) } else { Reject::Icmp(code) })
}

/// The prefix of what is told; what else of LOG there is decides what the kernel writes, and is ours.
fn log(words: &mut Words<'_>) -> Result<String, Refusal> {
    let mut prefix = String::new();
    while let Some(word) = words.next_word() {
        match &*word {
            "--log-prefix" => prefix = words.need("what --log-prefix says")?,
            "--log-level" => {
                words.need("what --log-level says")?;
            }
            "--log-tcp-sequence" | "--log-tcp-options" | "--log-ip-options" | "--log-uid"
            | "--log-macdecode" => {}
            _ => return Err(Refusal::unsupported(format!("{word} of LOG is not supported"))),
        }
    }
    Ok(prefix)
}
