//! `catena policy analyze`: what rule sets say, alone and together. Reads them as the functions do that run them;
//! refuses to judge.

use super::members;
use super::reading::{self, ReadingArguments, named_file, refused};
use crate::document::Written;
use crate::failure::Failure;
use crate::nf_ids::named_value;
use crate::output::{Format, say, tell};
use catena_plan::policy::{
    Analysis, ChainFunction, Finding, RuleRanges, Severity, analyse_chain, analyse_rules,
};
use catena_rules::{ReadRules, snort, vpn};
use clap::Args;
use serde::Serialize;
use std::collections::{BTreeMap, BTreeSet};
use std::path::{Path, PathBuf};

#[derive(Args)]
pub(crate) struct AnalyzeArguments {
    /// Files with rules: as `iptables-save` or `nft -j list ruleset` writes them; ending in `.rules`, of Snort and
    /// Suricata; policies between groups; or selectors of a vpn. They are taken for a chain of functions in this order.
    #[arg(required_unless_present = "file", conflicts_with = "file", value_name = "FILE")]
    rules: Vec<PathBuf>,
    /// A document, in YAML or JSON, whose functions and chains are looked through; `-` is standard input.
    #[arg(short, long, value_name = "DOCUMENT")]
    file: Option<PathBuf>,
    /// Rules of a function of the document that others run, such as an openvpn, in a file as above; may be given
    /// several times.
    #[arg(long = "rules", value_name = "FUNCTION=FILE", value_parser = named_file, requires = "file")]
    foreign: Vec<(String, PathBuf)>,
    /// What is wrong on the way back of the files is told, too; of a document, it is of its symmetric chains.
    #[arg(long, conflicts_with = "file")]
    symmetric: bool,
    #[command(flatten)]
    reading: ReadingArguments,
    /// A variable that rules of an ids name, such as HOME_NET; may be given several times.
    #[arg(long = "variable", value_name = "NAME=VALUE", value_parser = named_value, conflicts_with = "file")]
    variables: Vec<(String, String)>,
    /// Form of the answer.
    #[arg(short, long, value_enum, default_value_t = Format::Table)]
    output: Format,
}

/// A finding, with where it belongs.
#[derive(Serialize)]
pub(super) struct Told {
    /// The function or the chain.
    of: String,
    severity: Severity,
    #[serde(flatten)]
    finding: Finding,
}

/// How large a rule set is.
#[derive(Serialize)]
struct Size {
    rules: usize,
    /// Rules that could go.
    needless: usize,
}

/// All that was found.
#[derive(Serialize)]
pub(super) struct Report {
    pub(super) findings: Vec<Told>,
    functions: BTreeMap<String, Size>,
    overlaps: Vec<Met>,
    /// Functions whose rules are not known.
    unknown: BTreeSet<String>,
}

/// How often rules of two functions of a chain meet.
#[derive(Serialize)]
struct Met {
    chain: String,
    first: String,
    second: String,
    pairs: usize,
    exact: bool,
}

impl AnalyzeArguments {
    pub(super) fn run(&self) -> Result<(), Failure> {
        let report = self.report()?;
        tell(self.output, &report, |is_wide| show(&report, is_wide))?;
        let is_wrong = report.findings.iter().any(|told| told.severity == Severity::Error);
        if is_wrong { Err(Failure::check()) } else { Ok(()) }
    }

    pub(super) fn report(&self) -> Result<Report, Failure> {
        let subject = match &self.file {
            Some(file) => {
                let document = Written::read(file)?.document;
                let foreign = self.foreign()?;
                members::check_foreign(&document, &foreign, file)?;
                members::with_rules(&document, &foreign)?
            }
            None => self.files()?,
        };
        let (mut findings, mut functions, mut met) = (Vec::new(), BTreeMap::new(), Vec::new());
        for (name, rules) in &subject.functions {
            let Analysis { findings: found, rules, needless } = analyse_rules(rules)?;
            findings.extend(found.into_iter().map(|finding| told(name, finding)));
            functions.insert(name.clone(), Size { rules, needless });
        }
        let mut unknown: BTreeSet<String> = BTreeSet::new();
        for chain in &subject.chains {
            let is_known = |name: &&String| {
                subject.functions.get(*name).is_some_and(|rules| *rules != ReadRules::Opaque)
            };
            let names = chain.functions.iter().map(|(name, _)| name);
            unknown.extend(names.filter(|name| !is_known(name)).cloned());
            let members = chain.functions.iter().map(|(name, profile)| {
                let rules = subject.functions.get(name).unwrap_or(&ReadRules::Opaque);
                ChainFunction { name, rules, profile: *profile }
            });
            let members: Vec<ChainFunction<'_>> = members.collect();
            if self.output != Format::Table {
                met.extend(overlaps_of(&chain.name, &members));
            }
            let found = analyse_chain(&chain.name, &members, chain.is_symmetric)?;
            findings.extend(found.into_iter().map(|finding| told(&chain.name, finding)));
        }
        findings.sort_by_key(|told| told.severity);
        Ok(Report { findings, functions, overlaps: met, unknown })
    }

    /// Rule sets as a chain of functions, each called by its file.
    fn files(&self) -> Result<members::Subject, Failure> {
        let mut functions = BTreeMap::new();
        let mut chain = Vec::new();
        for file in &self.rules {
            let name = file.display().to_string();
            let rules = self.read(file)?;
            chain.push((name.clone(), members::profile_of(&rules)));
            functions.insert(name, rules);
        }
        let (name, is_symmetric) = ("these files".to_owned(), self.symmetric);
        let chain = members::RuledChain { name, functions: chain, is_symmetric };
        Ok(members::Subject { functions, chains: vec![chain] })
    }

    /// Rules of functions that others run.
    fn foreign(&self) -> Result<BTreeMap<String, ReadRules>, Failure> {
        let read = |(name, file): &(String, PathBuf)| Ok((name.clone(), self.read(file)?));
        self.foreign.iter().map(read).collect()
    }

    fn read(&self, file: &Path) -> Result<ReadRules, Failure> {
        let (name, text) = (file.display().to_string(), reading::text(file)?);
        let options = self.reading.options(&name);
        if file.extension().is_some_and(|ending| ending == "rules") {
            let variables = self.variables.iter().cloned().collect();
            let rules = snort::read(&text, &variables, &options);
            return rules.map(ReadRules::Inspection).map_err(|error| refused(&error));
        }
        if vpn::has_selectors(&text) {
            let selectors = vpn::read(&text, &options);
            return selectors.map(ReadRules::Encryption).map_err(|error| refused(&error));
        }
        Ok(ReadRules::Filter(vec![self.reading.rule_set(&name, &text)?]))
    }
}

fn told(of: &str, finding: Finding) -> Told {
    Told { of: of.to_owned(), severity: finding.kind.severity(), finding }
}

/// How often rules of a chain's functions meet, of each pair whose rules are known.
fn overlaps_of(chain: &str, members: &[ChainFunction<'_>]) -> Vec<Met> {
    let known = members.iter().filter_map(|one| Some((one.name, RuleRanges::of(one.rules)?)));
    let known: Vec<(&str, RuleRanges)> = known.collect();
    let pairs = known.iter().enumerate().flat_map(|(at, first)| {
        known.get(at + 1..).unwrap_or_default().iter().map(move |second| (first, second))
    });
    let met = pairs.filter_map(|((first, rules), (second, others))| {
        let met = rules.overlaps(others)?;
        let [first, second] = [first, second].map(|name| (*name).to_owned());
        Some(Met { chain: chain.to_owned(), first, second, pairs: met.pairs, exact: met.is_exact })
    });
    met.collect()
}

fn show(report: &Report, is_wide: bool) {
    let found = &report.findings;
    found.iter().for_each(show_one);
    let count = |severity, word: &str| {
        let count = found.iter().filter(|told| told.severity == severity).count();
        if count == 1 { format!("1 {word}") } else { format!("{count} {word}s") }
    };
    say!(
        "{}, {}, {}",
        count(Severity::Error, "error"),
        count(Severity::Warning, "warning"),
        count(Severity::Suggestion, "suggestion")
    );
    for name in &report.unknown {
        say!("{name}: nothing is known of its rules, and nothing was looked at");
    }
    for (name, size) in report.functions.iter().filter(|(_, size)| size.needless > 0) {
        say!("{name}: {} of {} rules could go", size.needless, size.rules);
    }
    for met in report.overlaps.iter().filter(|_| is_wide) {
        let most = if met.exact { "" } else { "at most " };
        say!(
            "{}: rules of {} and {} overlap in {most}{} pairs",
            met.chain,
            met.first,
            met.second,
            met.pairs
        );
    }
}

fn show_one(told: &Told) {
    let word = match told.severity {
        Severity::Error => "error",
        Severity::Warning => "warning",
        Severity::Suggestion => "suggestion",
    };
    let Finding { site, what, advice, class, others, .. } = &told.finding;
    say!("{word}: {site}: {what}");
    if let Some(class) = class {
        say!("    packets: {class}");
    }
    if !others.is_empty() {
        let others: Vec<String> = others.iter().map(ToString::to_string).collect();
        say!("    with: {}", others.join(", "));
    }
    say!("    {advice}");
    say!("");
}
