//! Who looks for attacks where packets are encrypted, and sees none.
//!
//! Knows which packets the ends of a vpn encrypt and decrypt. Refuses to know how.

use super::super::bdd::{Set, TooLarge};
use super::super::decision::own;
use super::super::finding::{Finding, FindingKind, Site, Way};
use super::super::headers::Headers;
use super::super::rule_sets::TOLD_MAX;
use super::{ChainFunction, ids_packets};
use catena_rules::ReadRules;
use catena_rules::rule_set::Rule;
use catena_rules::snort::{Action, IdsRules};
use catena_rules::vpn::Selectors;

/// An end of a vpn, at its place among the functions of a way.
struct End<'f> {
    at: usize,
    name: &'f str,
    selectors: Selectors,
    encrypted: Set,
    decrypted: Set,
}

/// Looks through the functions of a way, in the order in which packets meet them.
pub(super) fn inspections(
    functions: &[ChainFunction<'_>],
    way: Way,
    headers: &mut Headers,
) -> Result<Vec<Finding>, TooLarge> {
    let ends = ends(functions, way, headers)?;
    let mut findings = Vec::new();
    for (at, function) in functions.iter().enumerate() {
        let ReadRules::Inspection(rules) = function.rules else { continue };
        // Packets are encrypted behind who encrypts, until the next one decrypts; and before who decrypts.
        let (before, behind): (Vec<&End<'_>>, Vec<&End<'_>>) =
            ends.iter().partition(|end| end.at < at);
        let (mut in_clear, mut open) = (Set::NONE, Set::NONE);
        for end in before.into_iter().rev() {
            let hidden = headers.bdd.minus(end.encrypted, in_clear)?;
            in_clear = headers.bdd.or(in_clear, end.decrypted)?;
            let place = Place { name: function.name, end, way, is_behind: true };
            findings.extend(place.blind(rules, hidden, headers)?);
        }
        for end in behind {
            let hidden = headers.bdd.minus(end.decrypted, open)?;
            open = headers.bdd.or(open, end.encrypted)?;
            let place = Place { name: function.name, end, way, is_behind: false };
            findings.extend(place.blind(rules, hidden, headers)?);
        }
    }
    Ok(findings)
}

/// All ends of vpns, as packets of a way meet them.
fn ends<'f>(
    functions: &[ChainFunction<'f>],
    way: Way,
    headers: &mut Headers,
) -> Result<Vec<End<'f>>, TooLarge> {
    let mut ends = Vec::new();
    for (at, function) in functions.iter().enumerate() {
        let ReadRules::Encryption(selectors) = function.rules else { continue };
        let selectors = match way {
            Way::Forth => selectors.clone(),
            Way::Back => selectors.mirrored(),
        };
        let encrypted = packets(&selectors.encrypts, headers)?;
        let decrypted = packets(&selectors.decrypts, headers)?;
        ends.push(End { at, name: function.name, selectors, encrypted, decrypted });
    }
    Ok(ends)
}

/// Packets that one of some rules takes.
fn packets(rules: &[Rule], headers: &mut Headers) -> Result<Set, TooLarge> {
    rules.iter().try_fold(Set::NONE, |all, rule| {
        let packets = own(rule, (0, 0), headers)?;
        headers.bdd.or(all, packets)
    })
}

/// An ids with an end of a vpn.
struct Place<'p> {
    name: &'p str,
    end: &'p End<'p>,
    way: Way,
    /// Stands the ids behind it? Else before.
    is_behind: bool,
}

impl Place<'_> {
    /// What an ids does not see of packets that are encrypted at its place.
    fn blind(
        &self,
        rules: &IdsRules,
        hidden: Set,
        headers: &mut Headers,
    ) -> Result<Option<Finding>, TooLarge> {
        let (mut class, mut lines) = (Set::NONE, Vec::new());
        for rule in rules.rules.iter().filter(|rule| rule.action != Action::Pass) {
            let asked = ids_packets(rule, headers)?;
            let unseen = headers.bdd.and(asked, hidden)?;
            if !unseen.is_empty() {
                class = headers.bdd.or(class, unseen)?;
                lines.push(rule.line);
            }
        }
        let Some(line) = lines.first().copied() else { return Ok(None) };
        let Self { name, end: End { name: vpn, .. }, .. } = self;
        let (place, does, other) = match self.is_behind {
            true => ("behind", "encrypts", "before"),
            false => ("before", "decrypts", "behind"),
        };
        let what = format!(
            "{name} stands {place} {vpn}, which {does} packets that it looks for attacks in, so that {} of its {} \
             rules find none there",
            lines.len(),
            rules.rules.len()
        );
        Ok(Some(Finding {
            kind: FindingKind::BlindInspection,
            way: Some(self.way),
            site: Site { file: rules.file.clone(), line },
            what: self.way.tell(what),
            advice: format!("put {name} {other} {vpn} on that way, where packets are in the clear"),
            class: headers.in_words(class),
            others: self.selectors(class, headers)?,
        }))
    }

    /// The selectors that take some of these packets.
    fn selectors(&self, packets: Set, headers: &mut Headers) -> Result<Vec<Site>, TooLarge> {
        let selectors = &self.end.selectors;
        let rules = if self.is_behind { &selectors.encrypts } else { &selectors.decrypts };
        let mut sites: Vec<Site> = Vec::new();
        for rule in rules {
            let own = own(rule, (0, 0), headers)?;
            let site = Site { file: selectors.file.clone(), line: rule.line };
            if sites.len() < TOLD_MAX
                && !sites.contains(&site)
                && !headers.bdd.and(own, packets)?.is_empty()
            {
                sites.push(site);
            }
        }
        Ok(sites)
    }
}
