//! Many resources, one after the other, in as few transactions as it takes. Knows what one line makes
//! and that a line that fails takes no other with it; refuses to know where lines come from.

use super::attributes::{Prepared, Verb, prepare};
use super::collection::Collection;
use super::errors::ApiError;
use super::kinds::KINDS;
use super::resources::{make, view};
use super::scope::Edit;
use crate::auth::Identity;
use crate::declared::Draft;
use crate::northbound::app::App;
use axum::body::Bytes;
use serde_json::{Map, Value, json};
use std::sync::Arc;
use uuid::Uuid;

/// What a line makes.
type Line = (&'static dyn Collection, Arc<Prepared>);

/// Makes the resource of each line, in order and durably, and answers each with its status and
/// either the resource or the error.
pub(crate) async fn create_all(
    app: &Arc<App>,
    identity: &Identity,
    lines: &[Bytes],
) -> Vec<Map<String, Value>> {
    let judged: Vec<Result<Line, ApiError>> =
        lines.iter().map(|line| judge(identity, line)).collect();
    let good: Vec<Line> = judged.iter().flatten().cloned().collect();
    let made = match create(app, identity, good.clone()).await {
        Ok(made) => made,
        // One of them spoils what all of them come to: each is tried for itself.
        Err(_) if good.len() > 1 => {
            let mut made = Vec::with_capacity(good.len());
            for line in good {
                match create(app, identity, vec![line]).await {
                    Ok(one) => made.extend(one),
                    Err(error) => made.push(Err(error)),
                }
            }
            made
        }
        Err(error) => vec![Err(error)],
    };
    let mut made = made.into_iter();
    let view = view(app, identity.clone());
    let mut answers = Vec::with_capacity(lines.len());
    for line in judged {
        let outcome = line.and_then(|(collection, _)| {
            let id = made.next().unwrap_or_else(|| Err(ApiError::no_such_resource()))?;
            let shown = collection.show(&view, id);
            Ok((collection, shown.ok_or_else(|| collection.not_found(&id.to_string()))?))
        });
        answers.push(match outcome {
            Ok((collection, shown)) => Map::from_iter([
                ("status".to_owned(), json!(201)),
                (collection.singular().to_owned(), Value::Object(shown)),
            ]),
            Err(error) => error.told(),
        });
    }
    answers
}

/// The resource that a line asks for, in the envelope of its kind.
fn judge(identity: &Identity, line: &Bytes) -> Result<Line, ApiError> {
    let envelope: Value = serde_json::from_slice(line).map_err(|error| {
        ApiError::invalid("HTTPBadRequest", format!("The line is no JSON object: {error}."))
    })?;
    let mut all = KINDS.iter().map(|kind| kind.collection);
    let named = all.find(|collection| envelope.get(collection.singular()).is_some());
    let collection = named.ok_or_else(|| {
        let known: Vec<_> = KINDS.iter().map(|kind| kind.collection.singular()).collect();
        let known = known.join(", ");
        let message = format!("The line holds no resource; its one key must be one of {known}.");
        ApiError::invalid("HTTPBadRequest", message)
    })?;
    let (singular, plural) = (collection.singular(), collection.plural());
    let given = prepare(singular, plural, collection.table(), Verb::Create, identity, line)?;
    Ok((collection, Arc::new(given)))
}

async fn create(
    app: &Arc<App>,
    identity: &Identity,
    lines: Vec<Line>,
) -> Result<Vec<Result<Uuid, ApiError>>, ApiError> {
    let (identity, overlap, quotas) = (identity.clone(), app.overlap, Arc::clone(&app.quotas));
    let inventory = app.inventory();
    let edit = move |draft: &mut Draft| {
        let mut made = Vec::with_capacity(lines.len());
        for (collection, given) in &lines {
            // What a line that fails has written already must not stay.
            let before = draft.clone();
            // A search for hosts at each line would take too long.
            let (quotas, placing, inventory) = (&quotas, None, inventory.as_ref());
            let identity = &identity;
            let edit = &mut Edit { draft, identity, overlap, quotas, placing, inventory };
            let one = make(*collection, edit, given);
            if one.is_err() {
                *draft = before;
            }
            made.push(one);
        }
        Ok::<_, ApiError>(made)
    };
    Ok(app.declared.change(edit).await?.0)
}
