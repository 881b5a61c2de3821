//! How a native request changes what is declared: its body, its subject by name, the durable change.

use super::problem::Problem;
use crate::declared::{Draft, Snapshot};
use crate::northbound::app::App;
use crate::northbound::call::Call;
use catena_model::resource::Label;
use serde::de::DeserializeOwned;
use uuid::Uuid;

/// The body of a call.
pub(super) fn body<T: DeserializeOwned>(call: &Call) -> Result<T, Problem> {
    let bytes = call.body.as_ref().map_err(|why| Problem::broken(*why))?;
    declared_json(call)?;
    serde_json::from_slice(bytes).map_err(|error| Problem::bad_body(&error.to_string()))
}

/// Is the body declared to be JSON, also an empty one? A browser sends any other kind, and none, for
/// any page without asking us.
pub(super) fn declared_json(call: &Call) -> Result<(), Problem> {
    if call.has_json() { Ok(()) } else { Err(Problem::not_json()) }
}

/// Makes a change where the disk may be waited for; answers what is declared then.
pub(super) async fn declare(
    app: &App,
    edit: impl FnOnce(&mut Draft) -> Result<(), Problem> + Send + 'static,
) -> Result<Snapshot, Problem> {
    let ((), snapshot) = app.declared.change(edit).await?;
    Ok(snapshot)
}

/// Digits of an identity that may stand for it, if they fit no other.
const ID_PREFIX_DIGITS_MIN: usize = 4;

/// The one that has this identity, or alone this name, or alone an identity that begins so: as people ask for it.
pub(super) fn find<'l>(
    kind: &str,
    all: impl Iterator<Item = (Uuid, &'l Label)>,
    name: &str,
) -> Result<Uuid, Problem> {
    find_by(kind, all, name, name.len() >= ID_PREFIX_DIGITS_MIN)
}

/// The one that has this identity, or alone this name: as what is declared means it, whose names may look like
/// the beginning of another's identity.
pub(super) fn named<'l>(
    kind: &str,
    all: impl Iterator<Item = (Uuid, &'l Label)>,
    name: &str,
) -> Result<Uuid, Problem> {
    find_by(kind, all, name, false)
}

fn find_by<'l>(
    kind: &str,
    all: impl Iterator<Item = (Uuid, &'l Label)>,
    name: &str,
    is_prefix: bool,
) -> Result<Uuid, Problem> {
    let wanted = Uuid::parse_str(name).ok();
    let (mut named, mut begun) = (Vec::new(), Vec::new());
    for (id, label) in all {
        if wanted == Some(id) {
            return Ok(id);
        }
        if label.name == name {
            named.push(id);
        } else if is_prefix && id.to_string().starts_with(name) {
            begun.push(id);
        }
    }
    match (named.as_slice(), begun.as_slice()) {
        ([one], _) | ([], [one]) => Ok(*one),
        ([], []) => Err(Problem::not_found(format!(
            "There is no {kind} '{name}'; 'catena {kind} list' shows all."
        ))),
        _ => Err(Problem::ambiguous(format!(
            "Several {kind}s are called '{name}'; ask for one by its id."
        ))),
    }
}
