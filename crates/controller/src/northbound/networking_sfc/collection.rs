//! What every kind of resource of this dialect can do, and how one is shown. Refuses to know which
//! kinds there are.

use super::attributes::{Attribute, Prepared, read_only};
use super::errors::ApiError;
use super::scope::{Edit, Labels, Scope, View};
use crate::northbound::hosts;
use catena_model::ProjectId;
use catena_model::id::ChainId;
use catena_model::status::Receipt;
use catena_plan::IndexedIntent;
use serde_json::{Map, Value, json};
use uuid::Uuid;

/// A resource as clients see it.
pub(super) type Shown = Map<String, Value>;

/// When a resource was made and changed, as the original tells it.
pub(super) const CREATED_AT: Attribute = read_only("created_at");
pub(super) const UPDATED_AT: Attribute = read_only("updated_at");
pub(super) const REVISION_NUMBER: Attribute = read_only("revision_number");

/// A resource with its stamp.
pub(super) fn stamped(mut shown: Shown, view: &View, id: Uuid) -> Shown {
    let stamp = view.stamps.get(&id).copied().unwrap_or_default();
    shown.insert("created_at".into(), json!(stamp.made()));
    shown.insert("updated_at".into(), json!(stamp.changed_last()));
    shown.insert("revision_number".into(), json!(stamp.revision));
    shown
}

/// One kind of resource of this dialect.
pub(super) trait Collection: Sync {
    /// Key of one resource in a body.
    fn singular(&self) -> &'static str;
    /// Name of the collection in paths and bodies.
    fn plural(&self) -> &'static str;
    fn table(&self) -> &'static [Attribute];
    fn not_found(&self, id: &str) -> ApiError;
    /// All that the caller may know of, ordered by identity; only those of a name, if one is given.
    fn labels<'a>(&self, scope: Scope<'a>, name: Option<&str>) -> Labels<'a>;
    /// How many a project has.
    fn count(&self, intent: &IndexedIntent, project: &ProjectId) -> usize;
    /// The resource with every attribute that it has.
    fn render(&self, view: &View, id: Uuid) -> Option<Shown>;
    /// The resource with the attributes that the caller may see.
    fn show(&self, view: &View, id: Uuid) -> Option<Shown> {
        let mut shown = self.render(view, id)?;
        let hidden = self.table().iter().filter(|attribute| !attribute.is_for(&view.identity));
        hidden.for_each(|attribute| drop(shown.remove(attribute.name)));
        if !view.identity.sees_all() {
            hosts::hide_in_map(&mut shown, &view.situation);
        }
        Some(shown)
    }
    fn create(&self, edit: &mut Edit<'_>, given: &Prepared) -> Result<Uuid, ApiError>;
    fn update(&self, edit: &mut Edit<'_>, id: Uuid, given: &Prepared) -> Result<(), ApiError>;
    fn delete(&self, edit: &mut Edit<'_>, id: Uuid) -> Result<(), ApiError>;
    /// Does making or deleting it change the paths of chains, so that its answer waits for them?
    fn waits(&self) -> bool {
        false
    }
    /// The chains whose paths a change of it may change: the answer to an update waits for them.
    fn chains(&self, _intent: &IndexedIntent, _id: Uuid) -> Vec<ChainId> {
        Vec::new()
    }
    /// What the answer to a change says of those that are over.
    fn receipts(&self, receipts: &[Receipt]) -> Option<(&'static str, Value)> {
        (!receipts.is_empty()).then(|| ("receipts", json!(receipts)))
    }
}

/// What a resource's `json!` made, as the map that it is.
pub(super) fn shown(resource: Value) -> Shown {
    match resource {
        Value::Object(map) => map,
        _ => Shown::new(),
    }
}
