//! Functions whose profiles are asked for. Knows where configurations stand; refuses to know what they mean.

use crate::document::Written;
use crate::failure::Failure;
use catena_client::deploy::{ChainStep, Direction, Document, FunctionDocument};
use catena_model::bundle::Configuration;
use catena_model::profile::{FieldSet, Profile};
use catena_model::resource::FunctionTemplate;
use catena_nf::registry::{ConfigError, Surroundings, make_apart, rules};
use catena_plan::parallelism::{Profiles, StageMember};
use catena_rules::ReadRules;
use serde::Deserialize;
use serde_json::Value;
use std::collections::BTreeMap;
use std::path::Path;

/// Kinds that come with Catena, each with a configuration that uses most of it.
const KINDS: &str = include_str!("kinds.json");

/// Profiles of kinds that do not come with it, each with a star behind its name.
const DECLARED: &str = include_str!("declared.json");

#[derive(Deserialize)]
struct Kind {
    name: String,
    kind: String,
    config: Value,
}

/// A chain of a document, its functions in order.
pub(super) struct Chain {
    pub(super) name: String,
    pub(super) members: Vec<StageMember>,
    pub(super) is_symmetric: bool,
}

/// Those that come with Catena.
pub(super) fn of_kinds() -> Result<Vec<StageMember>, Failure> {
    let kinds: Vec<Kind> = serde_json::from_str(KINDS)?;
    let members = kinds.into_iter().map(|Kind { name, kind, config }| {
        let configuration = Configuration::new(kind, config.to_string());
        Ok(StageMember { profile: profile(&name, &configuration)?, name })
    });
    members.collect()
}

/// Those that the papers have and Catena does not run: their profiles are declared, and held against no code.
pub(super) fn of_declared() -> Result<Vec<StageMember>, Failure> {
    let profiles: Profiles = serde_json::from_str(DECLARED)?;
    Ok(profiles.members()?)
}

/// Those of a file of profiles.
pub(super) fn of_profiles(file: &Path) -> Result<Vec<StageMember>, Failure> {
    let name = file.display();
    let text = std::fs::read_to_string(file).map_err(|error| {
        Failure::failed(format!("{name} cannot be read: {error}; name a file of profiles"))
    })?;
    let profiles: Profiles = serde_json::from_str(&text).map_err(|error| {
        Failure::failed(format!(
            "{name}: {error}; profiles are written {{\"profiles\": {{\"NAME\": {{\"R\": [\"ip.src\"], \"D\": true}}}}}}"
        ))
    })?;
    profiles.members().map_err(|error| Failure::failed(format!("{name}: {error}")))
}

/// Those of a document, and its chains.
pub(super) fn of_document(file: &Path) -> Result<(Vec<StageMember>, Vec<Chain>), Failure> {
    let document = Written::read(file)?.document;
    let mut known = BTreeMap::new();
    for function in &document.functions {
        known.insert(function.name.clone(), profile_in(function)?);
    }
    let chains = document.chains.iter().map(|chain| {
        let members = chain
            .chain
            .iter()
            .map(|step| StageMember { name: step.name.clone(), profile: profile_at(step, &known) });
        Chain { name: chain.name(), members: members.collect(), is_symmetric: chain.symmetric }
    });
    let chains = chains.collect();
    let members = known.into_iter().map(|(name, profile)| StageMember { name, profile });
    Ok((members.collect(), chains))
}

/// What an analysis looks through.
pub(crate) struct Subject {
    pub(crate) functions: BTreeMap<String, ReadRules>,
    pub(crate) chains: Vec<RuledChain>,
}

/// A chain with its functions in order.
pub(crate) struct RuledChain {
    pub(crate) name: String,
    pub(crate) functions: Vec<(String, Profile)>,
    pub(crate) is_symmetric: bool,
}

/// The functions of a document with their rules, and its chains. `foreign` are those of functions that others run.
pub(crate) fn with_rules(
    document: &Document,
    foreign: &BTreeMap<String, ReadRules>,
) -> Result<Subject, Failure> {
    let profiles = foreign.iter().map(|(name, rules)| (name.clone(), profile_of(rules)));
    let (mut functions, mut known) = (foreign.clone(), profiles.collect::<BTreeMap<_, _>>());
    for function in document.functions.iter().filter(|one| !foreign.contains_key(&one.name)) {
        let configuration = function.template.as_ref().and_then(FunctionTemplate::configuration);
        let rules =
            configuration.map_or(Ok(ReadRules::Opaque), |configuration| rules(&configuration));
        functions
            .insert(function.name.clone(), rules.map_err(|error| wrong(&function.name, &error))?);
        known.insert(function.name.clone(), profile_in(function)?);
    }
    let chains = document.chains.iter().map(|chain| {
        let functions =
            chain.chain.iter().map(|step| (step.name.clone(), profile_at(step, &known)));
        let functions = functions.collect();
        RuledChain { name: chain.name(), functions, is_symmetric: chain.symmetric }
    });
    let chains = chains.collect();
    Ok(Subject { functions, chains })
}

/// Refuses rules of functions that are in no chain, and of those that have rules of their own.
pub(super) fn check_foreign(
    document: &Document,
    foreign: &BTreeMap<String, ReadRules>,
    file: &Path,
) -> Result<(), Failure> {
    let file = file.display();
    for name in foreign.keys() {
        let own = document.functions.iter().find(|function| function.name == *name);
        let template = own.and_then(|function| function.template.as_ref());
        if template.and_then(FunctionTemplate::configuration).is_some() {
            return Err(Failure::failed(format!(
                "the function {name} of {file} has rules of its own; leave `--rules {name}=…` out"
            )));
        }
        let mut steps = document.chains.iter().flat_map(|chain| &chain.chain);
        if !steps.any(|step| step.name == *name) {
            return Err(Failure::failed(format!(
                "no chain of {file} goes through {name}; name a function of a chain in `--rules`"
            )));
        }
    }
    Ok(())
}

/// What a function that others run is, as far as its rules say.
pub(super) fn profile_of(rules: &ReadRules) -> Profile {
    match rules {
        ReadRules::Encryption(_) | ReadRules::Translation(_) | ReadRules::Opaque => {
            Profile::unknown()
        }
        // Neither rewrites a packet, and both leave traces.
        ReadRules::Filter(_) | ReadRules::Inspection(_) => Profile {
            has_effects: true,
            effects_are_sums: false,
            drops: matches!(rules, ReadRules::Filter(_)),
            ..Profile::IDENTITY
        },
    }
}

/// What a function of a document is; of one that others run nothing is known.
fn profile_in(function: &FunctionDocument) -> Result<Profile, Failure> {
    let configuration = function.template.as_ref().and_then(FunctionTemplate::configuration);
    configuration.map_or_else(|| Ok(Profile::unknown()), |it| profile(&function.name, &it))
}

/// What a function is at its place in a chain: one that gets copies does nothing to packets.
fn profile_at(step: &ChainStep, known: &BTreeMap<String, Profile>) -> Profile {
    let profile = known.get(&step.name).copied().unwrap_or_else(Profile::unknown);
    if step.direction != Direction::Tap {
        return profile;
    }
    Profile { writes: FieldSet::EMPTY, replaces: false, drops: false, generates: false, ..profile }
}

/// What a function of a configuration is.
pub(crate) fn profile(name: &str, configuration: &Configuration) -> Result<Profile, Failure> {
    let made = make_apart(configuration, &Surroundings::default());
    Ok(*made.map_err(|error| wrong(name, &error))?.function.profile())
}

fn wrong(name: &str, error: &ConfigError) -> Failure {
    Failure::failed(format!("the function {name}: {error}"))
}
