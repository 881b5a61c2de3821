//! What every resource's attributes have in common, as a table: may it be set on create, on
//! update, what is it otherwise, and how is a value checked. Bodies are judged here, in one place
//! and one order.

use super::errors::ApiError;
use super::values;
use crate::auth::Identity;
use catena_model::ProjectId;
use catena_model::resource::Label;
use serde_json::{Map, Value};
use uuid::Uuid;

/// One row of a resource's table.
pub(crate) struct Attribute {
    pub(crate) name: &'static str,
    pub(crate) create: OnCreate,
    /// May it be changed later?
    pub(crate) update: bool,
    /// Checks a value and brings it into its one form; gets the attribute's name for messages.
    pub(crate) convert: fn(&str, &Value) -> Result<Value, ApiError>,
    audience: Audience,
}

/// Whom an attribute is for.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Audience {
    /// Everybody.
    All,
    /// Everybody sees it; only whoever runs the deployment says what it is.
    SetByOperators,
    /// Only whoever runs the deployment sees and sets it.
    Operators,
}

impl Attribute {
    /// May somebody see it, as far as that depends on who he is?
    pub(crate) fn is_for(&self, identity: &Identity) -> bool {
        self.audience != Audience::Operators || identity.sees_all()
    }

    /// May somebody set it so? The original asks nobody's leave for the default.
    fn may_set(&self, identity: &Identity, value: &Value) -> bool {
        if identity.sees_all() || self.audience == Audience::All {
            return true;
        }
        let OnCreate::Default(default) = self.create else { return false };
        self.audience == Audience::SetByOperators && *value == default()
    }
}

/// What happens to an attribute on create.
pub(crate) enum OnCreate {
    /// It must be given.
    Required,
    /// It is this when not given.
    Default(fn() -> Value),
    /// It must not be given.
    Refused,
}

/// An attribute that may be left out on create.
pub(crate) const fn optional(
    name: &'static str,
    default: fn() -> Value,
    update: bool,
    convert: fn(&str, &Value) -> Result<Value, ApiError>,
) -> Attribute {
    Attribute { name, create: OnCreate::Default(default), update, convert, audience: Audience::All }
}

/// An attribute that must be given on create.
pub(crate) const fn required(
    name: &'static str,
    update: bool,
    convert: fn(&str, &Value) -> Result<Value, ApiError>,
) -> Attribute {
    Attribute { name, create: OnCreate::Required, update, convert, audience: Audience::All }
}

/// An attribute that only the server sets.
pub(crate) const fn read_only(name: &'static str) -> Attribute {
    let create = OnCreate::Refused;
    Attribute { name, create, update: false, convert: values::any, audience: Audience::All }
}

/// The same attribute, but only whoever runs the deployment sees or sets it.
pub(crate) const fn operators(attribute: Attribute) -> Attribute {
    Attribute { audience: Audience::Operators, ..attribute }
}

/// The same attribute, but only whoever runs the deployment sets it.
pub(crate) const fn set_by_operators(attribute: Attribute) -> Attribute {
    Attribute { audience: Audience::SetByOperators, ..attribute }
}

/// The JSON null, as a default.
pub(crate) fn null() -> Value {
    Value::Null
}

/// The empty text, as a default.
pub(crate) fn empty_text() -> Value {
    Value::String(String::new())
}

/// The empty list, as a default.
pub(crate) fn empty_list() -> Value {
    Value::Array(Vec::new())
}

/// The empty dictionary, as a default.
pub(crate) fn empty_dict() -> Value {
    Value::Object(Map::new())
}

/// Creating or updating.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Verb {
    Create,
    Update,
}

impl Verb {
    fn name(self) -> &'static str {
        match self {
            Self::Create => "create",
            Self::Update => "update",
        }
    }
}

/// A body that has passed the table: on create every settable attribute is there, on update those
/// that were given.
#[derive(Debug)]
pub(crate) struct Prepared {
    values: Map<String, Value>,
    pub(crate) project: ProjectId,
}

impl Prepared {
    /// A value as it was converted; none: not given on update.
    pub(crate) fn value(&self, name: &str) -> Option<&Value> {
        self.values.get(name)
    }

    /// A text; none: null, or not given on update.
    pub(crate) fn text(&self, name: &str) -> Option<String> {
        self.values.get(name)?.as_str().map(str::to_owned)
    }

    pub(crate) fn boolean(&self, name: &str) -> Option<bool> {
        self.values.get(name)?.as_bool()
    }

    pub(crate) fn number(&self, name: &str) -> Option<u64> {
        self.values.get(name)?.as_u64()
    }

    pub(crate) fn uuid(&self, name: &str) -> Option<Uuid> {
        Uuid::parse_str(self.values.get(name)?.as_str()?).ok()
    }

    pub(crate) fn uuids(&self, name: &str) -> Option<Vec<Uuid>> {
        let list = self.values.get(name)?.as_array()?;
        Some(list.iter().filter_map(|id| Uuid::parse_str(id.as_str()?).ok()).collect())
    }

    /// Owner and name of a new resource.
    pub(crate) fn label(&self) -> Label {
        Label {
            name: self.text("name").unwrap_or_default(),
            description: self.text("description").unwrap_or_default(),
            project: self.project.clone(),
        }
    }

    /// Changes what was given of the name and the description.
    pub(crate) fn relabel(&self, label: &mut Label) {
        if let Some(name) = self.text("name") {
            label.name = name;
        }
        if let Some(description) = self.text("description") {
            label.description = description;
        }
    }
}

/// Judges a body.
pub(crate) fn prepare(
    resource: &str,
    collection: &str,
    table: &[Attribute],
    verb: Verb,
    identity: &Identity,
    body: &[u8],
) -> Result<Prepared, ApiError> {
    let mut given = envelope(resource, collection, body)?;
    let project = project(&given, identity)?;
    refuse_unknown(&given, table)?;
    let mut values = Map::new();
    for attribute in table {
        let value = given.remove(attribute.name);
        let name = attribute.name;
        let value = match (verb, value, &attribute.create) {
            (Verb::Create, Some(_), OnCreate::Refused) => {
                let message = format!("Attribute '{name}' not allowed in POST");
                return Err(ApiError::bad_request(message));
            }
            (Verb::Create, None, OnCreate::Required) => {
                return Err(ApiError::bad_request(format!(
                    "Failed to parse request. Required attribute '{name}' not specified"
                )));
            }
            (Verb::Create, None, OnCreate::Default(default)) => default(),
            (Verb::Update, Some(_), _) if !attribute.update => {
                let message = format!("Cannot update read-only attribute {name}");
                return Err(ApiError::bad_request(message));
            }
            (_, Some(value), _) if !attribute.may_set(identity, &value) => {
                return Err(ApiError::not_authorized(resource, verb.name(), name));
            }
            (_, Some(value), _) => value,
            (_, None, _) => continue,
        };
        values.insert(name.into(), value);
    }
    if verb == Verb::Update
        && let Some(name) = PROJECT_NAMES.iter().find(|name| given.contains_key(**name))
    {
        return Err(ApiError::bad_request(format!("Cannot update read-only attribute {name}")));
    }
    for attribute in table {
        if let Some(value) = values.get_mut(attribute.name) {
            *value = (attribute.convert)(attribute.name, value)?;
        }
    }
    Ok(Prepared { values, project })
}

/// Both names of the owner.
const PROJECT_NAMES: [&str; 2] = ["project_id", "tenant_id"];

fn envelope(resource: &str, collection: &str, body: &[u8]) -> Result<Map<String, Value>, ApiError> {
    if body.is_empty() {
        return Err(ApiError::bad_request("Resource body required"));
    }
    let body: Value = serde_json::from_slice(body).map_err(|_| {
        ApiError::invalid("MalformedRequestBody", "Malformed request body: Cannot understand JSON.")
    })?;
    let Value::Object(mut body) = body else {
        return Err(ApiError::bad_request("Resource body required"));
    };
    if body.contains_key(collection) {
        return Err(ApiError::bad_request("Bulk operation not supported"));
    }
    match body.remove(resource) {
        Some(Value::Object(given)) => Ok(given),
        None | Some(Value::Null) => {
            Err(ApiError::bad_request(format!("Unable to find '{resource}' in request body")))
        }
        Some(other) => Err(ApiError::attribute(
            resource,
            format!("'{}' is not a dictionary.", values::shown(&other)),
        )),
    }
}

fn project(given: &Map<String, Value>, identity: &Identity) -> Result<ProjectId, ApiError> {
    let mut found: Option<&Value> = None;
    for name in PROJECT_NAMES {
        let Some(value) = given.get(name) else { continue };
        values::name(name, value)?;
        if found.is_some_and(|first| first != value) {
            let message = "'project_id' and 'tenant_id' do not match";
            return Err(ApiError::bad_request(message));
        }
        found = Some(value);
    }
    let Some(given) = found.and_then(Value::as_str).filter(|project| !project.is_empty()) else {
        return Ok(identity.project.clone());
    };
    let project = ProjectId(given.into());
    if identity.sees(&project) {
        return Ok(project);
    }
    Err(ApiError::bad_request(
        "Specifying a 'project_id' or 'tenant_id' of another project needs the role 'operator' or 'admin'.",
    ))
}

fn refuse_unknown(given: &Map<String, Value>, table: &[Attribute]) -> Result<(), ApiError> {
    let is_known = |name: &str| {
        PROJECT_NAMES.contains(&name) || table.iter().any(|attribute| attribute.name == name)
    };
    let unknown: Vec<&str> =
        given.keys().map(String::as_str).filter(|name| !is_known(name)).collect();
    if unknown.is_empty() {
        return Ok(());
    }
    Err(ApiError::bad_request(format!("Unrecognized attribute(s) '{}'", unknown.join(", "))))
}
