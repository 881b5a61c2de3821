//! `catena policy compile`: a firewall's rules as flows of a switch. Reads them as the function does that runs them;
//! refuses to know what flows say.

use super::members;
use super::reading::{self, ReadingArguments};
use crate::document::Written;
use crate::failure::Failure;
use crate::output::say;
use catena_plan::policy::openflow::{CompiledFlows, SwitchSides, TABLE_UNSAID, compile};
use catena_rules::ReadRules;
use catena_rules::rule_set::RuleSet;
use clap::{Args, ValueEnum};
use std::collections::BTreeMap;
use std::path::{Path, PathBuf};

#[derive(Args)]
pub(crate) struct CompileArguments {
    /// Files with rules of a firewall, as `iptables-save` or `nft -j list ruleset` writes them. Packets meet them in
    /// this order.
    #[arg(required_unless_present = "file", conflicts_with = "file", value_name = "FILE")]
    rules: Vec<PathBuf>,
    /// A document, in YAML or JSON, whose firewall is compiled; `-` is standard input.
    #[arg(short, long, value_name = "DOCUMENT")]
    file: Option<PathBuf>,
    /// Which of the document's functions it is, where it has several firewalls.
    #[arg(long, value_name = "NAME", requires = "file")]
    function: Option<String>,
    #[command(flatten)]
    reading: ReadingArguments,
    /// The port of the switch, by name or number, where packets come in on their way forward: what passes goes from
    /// one of the two ports to the other. Without them it goes as the switch lets frames go (`NORMAL`).
    #[arg(long = "in", value_name = "PORT", requires = "outside")]
    inside: Option<String>,
    /// The port where they go out.
    #[arg(long = "out", value_name = "PORT", requires = "inside")]
    outside: Option<String>,
    /// Form of the flows.
    #[arg(short, long, value_enum, default_value_t = FlowForm::Openflow13)]
    output: FlowForm,
}

#[derive(Clone, Copy, ValueEnum)]
enum FlowForm {
    /// OpenFlow 1.3, as `ovs-ofctl -O OpenFlow13 add-flows` takes it.
    Openflow13,
}

impl CompileArguments {
    pub(super) fn run(&self) -> Result<(), Failure> {
        let FlowForm::Openflow13 = self.output;
        let compiled = self.compiled()?;
        compiled.text().lines().for_each(|line| say!("{line}"));
        match compiled.unsaid.len() {
            0 => Ok(()),
            count => Err(Failure::failed(format!(
                "of {count} rules a switch does not see enough of some packets, which go to table {TABLE_UNSAID}: see \
                 '# not said' among the flows"
            ))),
        }
    }

    pub(super) fn compiled(&self) -> Result<CompiledFlows, Failure> {
        let sides = self.inside.as_ref().zip(self.outside.as_ref());
        let sides = sides.map(|(inside, outside)| SwitchSides::new(inside, outside)).transpose()?;
        let sets = match &self.file {
            Some(file) => self.of_document(file)?,
            None => {
                let read = self.rules.iter().map(|file| {
                    self.reading.rule_set(&file.display().to_string(), &reading::text(file)?)
                });
                read.collect::<Result<Vec<RuleSet>, Failure>>()?
            }
        };
        Ok(compile(&sets, sides.as_ref())?)
    }

    /// The rules of a document's firewall.
    fn of_document(&self, file: &Path) -> Result<Vec<RuleSet>, Failure> {
        let functions = members::with_rules(&Written::read(file)?.document, &BTreeMap::new())?;
        let functions = functions.functions.into_iter();
        let is_named = |name: &String| self.function.as_ref().is_none_or(|wanted| wanted == name);
        let firewalls = functions.filter_map(|(name, rules)| match rules {
            ReadRules::Filter(sets) if is_named(&name) => Some((name, sets)),
            _ => None,
        });
        let mut firewalls: Vec<(String, Vec<RuleSet>)> = firewalls.collect();
        let names: Vec<&str> = firewalls.iter().map(|(name, _)| name.as_str()).collect();
        match (names.len(), &self.function) {
            (0, Some(name)) => Err(Failure::failed(format!(
                "the document has no firewall '{name}'; name one of its functions that is bundled as a firewall"
            ))),
            (0, None) => Err(Failure::failed(
                "the document has no firewall; name one that has, or a file with rules",
            )),
            (2.., _) => Err(Failure::failed(format!(
                "the document has several firewalls: {}; say which one by --function NAME",
                names.join(", ")
            ))),
            _ => Ok(firewalls.pop().map(|(_, sets)| sets).unwrap_or_default()),
        }
    }
}

#[cfg(test)]
mod tests;
