//! A node's classifier and its edge of source routes as rules of OpenFlow 1.3, in the words of `ovs-ofctl`: for
//! equipment of other makers in its place. Knows how a rule is written down; refuses to know what it is made of.

use crate::id::{BlueprintNumber, NodeName};
use serde::{Deserialize, Serialize};
use std::collections::BTreeMap;
use std::fmt::Write as _;
use utoipa::ToSchema;

/// The table in which frames begin.
pub const TABLE_FIRST: u8 = 0;
/// The table that turns the local bit of the source (IEEE 802) of what goes to a link or comes from one.
pub const TABLE_SOURCE: u8 = 1;
/// Where ordinary traffic of the node's ports goes: no rule of ours is there.
pub const TABLE_ORDINARY: u8 = 10;
/// Where packets go that a chain takes and these rules cannot carry: no rule of ours is there, so they end.
pub const TABLE_UNSAID: u8 = 20;

/// What a node does, as far as OpenFlow 1.3 can say it: `GET /v1/nodes/{node}/openflow13`.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
pub struct OpenFlowRules {
    /// The node.
    pub node: NodeName,
    /// The blueprint of its program.
    pub number: BlueprintNumber,
    /// The rules.
    pub rules: Vec<OpenFlowRule>,
    /// What the node does and no rule says.
    pub unsaid: Vec<Unsaid>,
}

/// A rule.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
pub struct OpenFlowRule {
    /// What it is for, for people.
    pub purpose: String,
    /// Its table.
    pub table: u8,
    /// Higher goes first.
    pub priority: u16,
    /// The port that a frame must have come by; none: any.
    pub from: Option<SwitchPort>,
    /// What a frame must look like, in the words of `ovs-ofctl`.
    pub matches: Vec<String>,
    /// What is written, in order, in the same words.
    pub actions: Vec<String>,
    /// The port that a frame leaves by behind the last table; none: none is said here.
    pub to: Option<SwitchPort>,
    /// The table that it goes on to; none: this was the last.
    pub then: Option<u8>,
}

/// A port of the switch, by what it is at the node.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize, ToSchema)]
pub struct SwitchPort {
    /// The interface of a link, or the name of a tenant's port, or its identity if it has none.
    pub name: String,
    /// What it is called at the switch unless that is said: the interface on the node's side, as far as it is known.
    pub at_switch: String,
}

/// Something that a node does and OpenFlow 1.3 cannot say.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize, ToSchema)]
pub struct Unsaid {
    /// What.
    pub what: String,
    /// Why.
    pub why: String,
}

/// Why rules cannot be written down.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum OpenFlowError {
    /// A port was named that no rule has.
    #[error("no rule has a port '{name}'; those that have names are: {known}")]
    UnknownPort {
        /// The name.
        name: String,
        /// Those that there are.
        known: String,
    },
    /// One port of the switch would be two of the node.
    #[error(
        "'{one}' and '{other}' would both be port '{at_switch}' of the switch; say which is which: \
         --port '{one}=PORT'"
    )]
    SamePort {
        /// A port.
        one: String,
        /// Another.
        other: String,
        /// What both would be.
        at_switch: String,
    },
    /// No port of a switch is called so.
    #[error(
        "'{at_switch}' is no name of a port of a switch (at the node: '{name}'); say what it is called \
         there, without spaces, quotes, commas and brackets: --port '{name}=PORT'"
    )]
    PortName {
        /// The port at the node.
        name: String,
        /// What it would be.
        at_switch: String,
    },
}

/// What cannot be part of the name of a port in a rule.
const NOT_IN_NAMES: [char; 7] = ['"', '\\', '#', ',', '(', ')', '='];

impl OpenFlowRules {
    /// One line a rule, as `ovs-ofctl -O OpenFlow13 add-flows` takes them, with comments. `names`: what ports are
    /// called at the switch, by their names at the node.
    ///
    /// # Errors
    /// A port is named that no rule has, or what ports are called tells them not apart.
    pub fn text(&self, names: &BTreeMap<String, String>) -> Result<String, OpenFlowError> {
        let ports = self.ports(names)?;
        let mut text = String::new();
        let mut line = |words: &str| _ = writeln!(text, "{words}");
        line(&format!("# {} by blueprint {}, for OpenFlow 1.3", self.node, self.number.0));
        line(&format!(
            "# table {TABLE_ORDINARY} is for ordinary traffic of these ports, and yours"
        ));
        line(&format!(
            "# table {TABLE_UNSAID} gets packets of chains that no rule carries; empty, it ends them"
        ));
        for Unsaid { what, why } in &self.unsaid {
            line(&format!("# not said: {}: {}", one_line(what), one_line(why)));
        }
        let mut purpose = "";
        for rule in &self.rules {
            if rule.purpose != purpose {
                purpose = &rule.purpose;
                line(&format!("# {}", one_line(purpose)));
            }
            line(&rule.text(&ports));
        }
        Ok(text)
    }

    /// What each port is called at the switch, by its name at the node.
    fn ports(
        &self,
        names: &BTreeMap<String, String>,
    ) -> Result<BTreeMap<&str, String>, OpenFlowError> {
        let all = self.rules.iter().flat_map(|rule| rule.from.iter().chain(&rule.to));
        let ports: BTreeMap<&str, String> = all
            .map(|port| {
                let named = names.get(&port.name).unwrap_or(&port.at_switch);
                (port.name.as_str(), named.clone())
            })
            .collect();
        if let Some(name) = names.keys().find(|name| !ports.contains_key(name.as_str())) {
            let known = ports.keys().copied().collect::<Vec<_>>().join(", ");
            return Err(OpenFlowError::UnknownPort { name: name.clone(), known });
        }
        let mut taken: BTreeMap<&str, &str> = BTreeMap::new();
        for (name, at_switch) in &ports {
            let is_bad = |letter: char| letter.is_whitespace() || NOT_IN_NAMES.contains(&letter);
            if at_switch.is_empty() || at_switch.contains(is_bad) {
                let (name, at_switch) = ((*name).to_owned(), at_switch.clone());
                return Err(OpenFlowError::PortName { name, at_switch });
            }
            if let Some(one) = taken.insert(at_switch, name) {
                let (one, other) = (one.to_owned(), (*name).to_owned());
                return Err(OpenFlowError::SamePort { one, other, at_switch: at_switch.clone() });
            }
        }
        Ok(ports)
    }
}

impl OpenFlowRule {
    fn text(&self, ports: &BTreeMap<&str, String>) -> String {
        let called = |port: &SwitchPort| {
            let name = ports.get(port.name.as_str()).unwrap_or(&port.at_switch);
            let is_number = name.bytes().all(|letter| letter.is_ascii_digit());
            if is_number { name.clone() } else { format!("\"{name}\"") }
        };
        let mut conditions = vec![format!("table={},priority={}", self.table, self.priority)];
        conditions.extend(self.from.as_ref().map(|port| format!("in_port={}", called(port))));
        conditions.extend(self.matches.iter().cloned());
        let mut actions = self.actions.clone();
        actions.extend(self.to.as_ref().map(|port| match self.then {
            Some(_) => format!("write_actions(output:{})", called(port)),
            None => format!("output:{}", called(port)),
        }));
        actions.extend(self.then.map(|table| format!("goto_table:{table}")));
        if actions.is_empty() {
            actions.push("drop".into());
        }
        format!("{},actions={}", conditions.join(","), actions.join(","))
    }
}

/// A comment ends with its line, whatever somebody has called his things.
fn one_line(text: &str) -> String {
    text.chars().map(|letter| if letter.is_control() { ' ' } else { letter }).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn port(name: &str, at_switch: &str) -> SwitchPort {
        SwitchPort { name: name.into(), at_switch: at_switch.into() }
    }

    fn rule(from: SwitchPort, to: Option<SwitchPort>, then: Option<u8>) -> OpenFlowRule {
        let (matches, actions) = (vec!["ip".into()], Vec::new());
        let purpose = "rule 'a\nactions=drop'".into();
        OpenFlowRule {
            purpose,
            table: 0,
            priority: 9,
            from: Some(from),
            matches,
            actions,
            to,
            then,
        }
    }

    fn rules(rules: Vec<OpenFlowRule>) -> OpenFlowRules {
        let unsaid = vec![Unsaid { what: "a\nb".into(), why: "c".into() }];
        let node = NodeName::new("h1").unwrap();
        OpenFlowRules { node, number: BlueprintNumber(3), rules, unsaid }
    }

    #[test]
    fn a_rule_is_a_line_whatever_things_are_called() {
        let rules = rules(vec![
            rule(port("p", "eth0"), Some(port("l", "l-1")), Some(1)),
            rule(port("l", "l-1"), Some(port("p", "eth0")), None),
            rule(port("p", "eth0"), None, None),
        ]);
        let names = BTreeMap::from([("p".to_owned(), "7".to_owned())]);
        let text = rules.text(&names).unwrap();
        let lines: Vec<&str> = text.lines().collect();
        assert!(lines[..5].iter().all(|line| line.starts_with("# ")), "{text}");
        assert_eq!(lines[3], "# not said: a b: c");
        let written = [
            "table=0,priority=9,in_port=7,ip,actions=write_actions(output:\"l-1\"),goto_table:1",
            "table=0,priority=9,in_port=\"l-1\",ip,actions=output:7",
            "table=0,priority=9,in_port=7,ip,actions=drop",
        ];
        assert_eq!(lines[5..], written);
    }

    #[test]
    fn ports_that_nothing_tells_apart_or_that_have_no_such_name_are_refused() {
        let rules = rules(vec![rule(port("p", "eth0"), Some(port("q q", "eth0")), None)]);
        let refused = |names: &[(&str, &str)]| {
            let names = names.iter().map(|(a, b)| ((*a).to_owned(), (*b).to_owned())).collect();
            rules.text(&names).unwrap_err().to_string()
        };
        assert!(refused(&[]).starts_with("'p' and 'q q' would both be port 'eth0'"));
        assert!(refused(&[("q", "eth1")]).starts_with("no rule has a port 'q'"));
        assert!(refused(&[("p", "eth1,drop")]).starts_with("'eth1,drop' is no name"));
        assert!(refused(&[("p", "")]).starts_with("'' is no name"));
    }
}
