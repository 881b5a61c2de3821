//! Functions whose profiles are asked for. Knows where configurations stand; refuses to know what they mean.

use crate::document::Written;
use crate::failure::Failure;
use catena_client::deploy::Direction;
use catena_model::bundle::Configuration;
use catena_model::profile::Profile;
use catena_nf::registry::{Surroundings, make_apart};
use catena_plan::parallelism::{Member, Profiles};
use serde::Deserialize;
use serde_json::Value;
use std::collections::BTreeMap;
use std::path::Path;

/// Kinds that come with Catena, each with a configuration that uses most of it.
const KINDS: &str = include_str!("kinds.json");

#[derive(Deserialize)]
struct Kind {
    name: String,
    kind: String,
    config: Value,
}

/// A chain of a document, its functions in order.
pub(super) struct Chain {
    pub(super) name: String,
    pub(super) members: Vec<Member>,
    pub(super) is_symmetric: bool,
}

/// Those that come with Catena.
pub(super) fn of_kinds() -> Result<Vec<Member>, Failure> {
    let kinds: Vec<Kind> = serde_json::from_str(KINDS)?;
    let members = kinds.into_iter().map(|Kind { name, kind, config }| {
        let configuration = Configuration { kind, config: config.to_string() };
        Ok(Member { profile: profile(&name, &configuration)?, name })
    });
    members.collect()
}

/// Those of a file of profiles.
pub(super) fn of_profiles(file: &Path) -> Result<Vec<Member>, Failure> {
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
pub(super) fn of_document(file: &Path) -> Result<(Vec<Member>, Vec<Chain>), Failure> {
    let document = Written::read(file)?.document;
    let mut known = BTreeMap::new();
    for function in &document.functions {
        let configuration =
            function.template.as_ref().and_then(|template| template.configuration());
        let profile = match configuration {
            Some(configuration) => profile(&function.name, &configuration)?,
            None => Profile::unknown(),
        };
        known.insert(function.name.clone(), profile);
    }
    let chains = document.chains.iter().map(|chain| {
        let members = chain.chain.iter().map(|step| {
            let profile = known.get(&step.name).copied().unwrap_or_else(Profile::unknown);
            let profile = if step.direction == Direction::Tap { tapped(profile) } else { profile };
            Member { name: step.name.clone(), profile }
        });
        Chain { name: chain.name(), members: members.collect(), is_symmetric: chain.symmetric }
    });
    let chains = chains.collect();
    let members = known.into_iter().map(|(name, profile)| Member { name, profile });
    Ok((members.collect(), chains))
}

/// A function that gets copies does nothing to packets.
fn tapped(profile: Profile) -> Profile {
    Profile {
        writes: Profile::IDENTITY.writes,
        replaces: false,
        drops: false,
        generates: false,
        ..profile
    }
}

/// What a function of a configuration is.
fn profile(name: &str, configuration: &Configuration) -> Result<Profile, Failure> {
    let made = make_apart(configuration, &Surroundings::default());
    let made = made.map_err(|error| Failure::failed(format!("the function {name}: {error}")))?;
    Ok(*made.function.profile())
}
