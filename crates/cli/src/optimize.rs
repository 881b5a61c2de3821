//! `catena apply --optimize`: firewalls of a document without rules that nothing would miss, before they are sent.
//!
//! Knows where rules stand in a document, and how to tell. Refuses to judge rules, and to change what becomes of a
//! packet: what would is suggested.

use crate::failure::Failure;
use crate::policy::members;
use catena_client::deploy::{Document, FunctionDocument};
use catena_model::resource::FunctionTemplate;
use catena_nf::registry::rules;
use catena_plan::policy::{
    ChainFunction, Finding, MONITORED, Severity, Shortened, analyse_chain, analyse_rules, shorten,
};
use catena_rules::ReadRules;
use catena_rules::groups::is_policy;
use catena_rules::rule_set::RuleSet;
use serde_json::{Map, Value};
use std::collections::BTreeMap;

/// Where a firewall's configuration has its rules, in the order in which they are read.
const FILES: [&str; 2] = ["file", "v6_file"];

/// Shortens what may be, and says what was done and what is only suggested.
pub(crate) fn optimize(document: &mut Document) -> Result<Vec<String>, Failure> {
    let mut told = Vec::new();
    for function in &mut document.functions {
        told.extend(shorten_function(function)?);
    }
    // What is only suggested keeps nobody from applying.
    told.extend(
        suggestions(document)
            .unwrap_or_else(|failure| vec![format!("nothing is suggested: {}", failure.message)]),
    );
    Ok(told)
}

fn shorten_function(function: &mut FunctionDocument) -> Result<Vec<String>, Failure> {
    let (name, mut told) = (function.name.clone(), Vec::new());
    let Some(template) = function.template.as_mut() else { return Ok(told) };
    let Some(sets) = filters(&name, template)? else { return Ok(told) };
    let (whole, mut proved) = (template.configuration(), Vec::new());
    let files = FILES.into_iter().filter(|file| template.config.contains_key(*file));
    for (file, set) in files.collect::<Vec<_>>().into_iter().zip(&sets) {
        let before = set.rules();
        let Some(text) = text_of(&mut template.config, file) else { continue };
        let language = match text.trim_start().starts_with('{') {
            true => Some("rules of nftables"),
            false => is_policy(text).then_some("policies between groups"),
        };
        if let Some(language) = language {
            told.push(format!("{name}: {}: {language} are told of and not rewritten", set.file));
            proved.push(None);
            continue;
        }
        let shortened = shorten(set, text)?.ok_or_else(|| unproved(&name, &set.file))?;
        text.clone_from(&shortened.text);
        told.push(said(&name, &set.file, before, &shortened));
        proved.push(Some(shortened));
    }
    // What is sent is what was proved: it is read again, as the function reads it.
    let read = filters(&name, template)?.unwrap_or_default();
    let is_proved = |(shortened, read): (&Option<Shortened>, &RuleSet)| {
        shortened.as_ref().is_none_or(|shortened| shortened.is_read_as(read))
    };
    if proved.len() != read.len() || !proved.iter().zip(&read).all(is_proved) {
        return Err(unproved(&name, "its rules"));
    }
    if let (Some(whole), Some(left)) = (whole, template.configuration())
        && whole != left
        && let Some([before, after]) = pace::pace([&whole, &left], &sets)
    {
        told.push(format!(
            "{name}: a packet that its rules are about takes {before:.0} → {after:.0} ns in it, asked on this machine"
        ));
    }
    Ok(told)
}

/// The rule sets of a firewall; none: it is none.
fn filters(name: &str, template: &FunctionTemplate) -> Result<Option<Vec<RuleSet>>, Failure> {
    let Some(configuration) = template.configuration() else { return Ok(None) };
    let read = rules(&configuration);
    match read.map_err(|error| Failure::failed(format!("the function {name}: {error}")))? {
        ReadRules::Filter(sets) => Ok(Some(sets)),
        _ => Ok(None),
    }
}

fn text_of<'c>(config: &'c mut Map<String, Value>, file: &str) -> Option<&'c mut String> {
    match config.get_mut(file)?.get_mut("text")? {
        Value::String(text) => Some(text),
        _ => None,
    }
}

fn unproved(name: &str, file: &str) -> Failure {
    Failure::failed(format!(
        "the function {name}: {file} cannot be shortened: what would be left was not proved to do the same; apply the \
         document without --optimize, and see `catena policy analyze`"
    ))
}

fn said(name: &str, file: &str, before: usize, shortened: &Shortened) -> String {
    let Shortened { removed, merged, monitored, .. } = shortened;
    let after = before - removed.len() - merged.len();
    let mut said = format!("{name}: {file}: {before} → {after} rules");
    let listed = |lines: &mut dyn Iterator<Item = String>| lines.collect::<Vec<_>>().join(", ");
    if !removed.is_empty() {
        said += &format!("; not missed: lines {}", listed(&mut removed.iter().map(u32::to_string)));
    }
    if !merged.is_empty() {
        let pairs = &mut merged.iter().map(|(first, second)| format!("{first} with {second}"));
        said += &format!("; said as one: {}", listed(pairs));
    }
    if !monitored.is_empty() {
        let lines = listed(&mut monitored.iter().map(u32::to_string));
        said += &format!("; not missed, and kept since they are {MONITORED}: lines {lines}");
    }
    said
}

/// What is left to whoever wrote the document, since it would change what becomes of packets.
fn suggestions(document: &Document) -> Result<Vec<String>, Failure> {
    let subject = members::with_rules(document, &BTreeMap::new())?;
    let mut told = Vec::new();
    for (name, rules) in &subject.functions {
        let found = analyse_rules(rules)?.findings.into_iter();
        let wrong = found.filter(|finding| finding.kind.severity() == Severity::Error);
        told.extend(wrong.map(|finding| suggested(name, &finding)));
    }
    for chain in &subject.chains {
        let functions = chain.functions.iter().map(|(name, profile)| {
            let rules = subject.functions.get(name).unwrap_or(&ReadRules::Opaque);
            ChainFunction { name, rules, profile: *profile }
        });
        let found = analyse_chain(&chain.name, &functions.collect::<Vec<_>>(), chain.is_symmetric)?;
        told.extend(found.iter().map(|finding| suggested(&chain.name, finding)));
    }
    Ok(told)
}

fn suggested(of: &str, finding: &Finding) -> String {
    let Finding { site, what, advice, class, .. } = finding;
    let class = class.as_ref().map(|class| format!("; it changes: {class}")).unwrap_or_default();
    format!("suggested, {of}: {site}: {what}; {advice}{class}")
}

mod pace;
#[cfg(test)]
mod tests;
