//! `/v1/openapi.json`: the native API described for programs, made from the table of routes and the
//! types of its requests and answers. Knows which type belongs to which route; refuses to say
//! anything of its own about a type.

use super::routes::{Operation, ROUTES, Route};
use catena_model::access::{NewToken, TokenReport, TokenRequest};
use catena_model::account::SliceCounters;
use catena_model::check::CheckReport;
use catena_model::event::EventLine;
use catena_model::preview::{Applied, ApplyRequest, Plan};
use catena_model::resource::{ContextHeader, FailurePolicy, FunctionSettings, FunctionTemplate};
use catena_model::slice::{InjectedSlice, SliceDocument, SliceReport};
use catena_model::status::{
    ChainReport, ChainSummary, FunctionReport, GraphReport, InstanceReport, NodeDetail, NodeReport,
    PathReport, Receipt,
};
use serde::Deserialize;
use std::collections::BTreeMap;
use utoipa::openapi::extensions::ExtensionsBuilder;
use utoipa::openapi::path::{
    HttpMethod, OperationBuilder, ParameterBuilder, ParameterIn, PathItem, PathsBuilder,
};
use utoipa::openapi::request_body::RequestBodyBuilder;
use utoipa::openapi::schema::{
    ArrayBuilder, ComponentsBuilder, KnownFormat, ObjectBuilder, SchemaFormat, SchemaType, Type,
};
use utoipa::openapi::{
    Content, InfoBuilder, OpenApi, OpenApiBuilder, Ref, RefOr, Required, ResponseBuilder, Schema,
};
use utoipa::{PartialSchema, ToSchema};

/// What a problem looks like (RFC 9457).
#[derive(ToSchema)]
#[allow(dead_code, reason = "it is only described here; problems write themselves")]
struct ProblemDetails {
    /// `about:blank`: the title says what it is.
    r#type: String,
    /// What went wrong, the same for all of its kind.
    title: String,
    /// The status code.
    status: u16,
    /// What went wrong here, why, and what to do about it.
    detail: String,
}

/// What `PATCH` changes of a chain.
#[derive(Deserialize, ToSchema)]
#[serde(deny_unknown_fields)]
pub(super) struct ChainChange {
    /// Metadata that travels with its packets.
    pub(super) context: Vec<ContextHeader>,
}

/// What `PATCH` changes of a function; what is not given stays.
#[derive(Deserialize, ToSchema)]
#[serde(deny_unknown_fields)]
pub(super) struct FunctionChange {
    /// What becomes of packets when an instance dies.
    #[serde(default)]
    pub(super) on_failure: Option<FailurePolicy>,
    /// Do frames leave it with the source MAC that they came with?
    #[serde(default)]
    pub(super) keeps_mac: Option<bool>,
    /// How its instances are to be run; null takes it away.
    #[serde(default, deserialize_with = "super::change::given")]
    #[schema(value_type = Option<FunctionTemplate>)]
    pub(super) template: Option<Option<FunctionTemplate>>,
}

/// What `PATCH` changes of an instance.
#[derive(Deserialize, ToSchema)]
#[serde(deny_unknown_fields)]
pub(super) struct InstanceChange {
    /// Shall it take no new flow?
    pub(super) is_draining: bool,
}

/// The identity of a draft.
#[derive(ToSchema)]
#[allow(dead_code, reason = "it is only described here")]
struct DraftReport {
    /// What requests name in `Catena-Draft`.
    draft: uuid::Uuid,
}

type Schemas = BTreeMap<String, RefOr<Schema>>;

/// A body: its media type and what it holds.
type Body = (&'static str, RefOr<Schema>);

/// The whole document.
pub(super) fn document() -> OpenApi {
    let mut schemas = Schemas::new();
    let problem = ("application/problem+json", one::<ProblemDetails>(&mut schemas));
    let mut paths = PathsBuilder::new();
    for route in ROUTES {
        let operation = operation(route, &problem, &mut schemas);
        paths = paths.path(route.path, PathItem::new(method(route), operation));
    }
    let components = schemas
        .into_iter()
        .fold(ComponentsBuilder::new(), |built, (name, schema)| built.schema(name, schema));
    let info =
        InfoBuilder::new().title("Catena").version(env!("CARGO_PKG_VERSION")).description(Some(
            "The native API of Catena. Resources of networking-sfc are below /v2.0, as its own \
             reference describes them.",
        ));
    OpenApiBuilder::new()
        .info(info.build())
        .paths(paths.build())
        .components(Some(components.build()))
        .build()
}

fn method(route: &Route) -> HttpMethod {
    match route.method.as_str() {
        "POST" => HttpMethod::Post,
        "PUT" => HttpMethod::Put,
        "PATCH" => HttpMethod::Patch,
        "DELETE" => HttpMethod::Delete,
        _ => HttpMethod::Get,
    }
}

fn operation(
    route: &Route,
    problem: &Body,
    schemas: &mut Schemas,
) -> utoipa::openapi::path::Operation {
    let status = match route.operation {
        Operation::OpenDraft | Operation::CreateToken | Operation::CreateSlice => "201",
        Operation::CloseDraft
        | Operation::DeleteToken
        | Operation::DeleteSlice
        | Operation::ForgetNode => "204",
        _ => "200",
    };
    let mut answer = ResponseBuilder::new().description(route.summary);
    if let Some((kind, schema)) = answered(route.operation, schemas) {
        answer = answer.content(kind, Content::new(Some(schema)));
    }
    let refusal = ResponseBuilder::new()
        .description("What went wrong, why, and what to do about it.")
        .content(problem.0, Content::new(Some(problem.1.clone())));
    let least = ExtensionsBuilder::new().add("x-least-role", route.least.name()).build();
    let mut built = OperationBuilder::new()
        .operation_id(Some(format!("{:?}", route.operation)))
        .summary(Some(route.summary))
        .extensions(Some(least))
        .response(status, answer.build())
        .response("default", refusal.build());
    for name in route.path.split('/').filter_map(|part| part.strip_prefix('{')) {
        let parameter = ParameterBuilder::new()
            .name(name.trim_end_matches('}'))
            .parameter_in(ParameterIn::Path)
            .required(Required::True)
            .description(Some("Name, id or the beginning of an id that no other begins with."))
            .schema(Some(text()));
        built = built.parameter(parameter.build());
    }
    if route.operation == Operation::Watch {
        let after = ParameterBuilder::new()
            .name("after")
            .parameter_in(ParameterIn::Query)
            .required(Required::False)
            .description(Some("First what was declared after this revision."))
            .schema(Some(number()));
        built = built.parameter(after.build());
    }
    if let Some((kind, schema)) = taken(route.operation, schemas) {
        let body = RequestBodyBuilder::new().content(kind, Content::new(Some(schema)));
        built = built.request_body(Some(body.required(Some(Required::True)).build()));
    }
    built.build()
}

/// The body that a request must have.
fn taken(operation: Operation, schemas: &mut Schemas) -> Option<Body> {
    use Operation as O;
    let schema = match operation {
        O::UpdateChain => one::<ChainChange>(schemas),
        O::UpdateFunction => one::<FunctionChange>(schemas),
        O::PutFunction => one::<FunctionSettings>(schemas),
        O::UpdateInstance => one::<InstanceChange>(schemas),
        O::ApplyDraft => one::<ApplyRequest>(schemas),
        O::CreateToken => one::<TokenRequest>(schemas),
        O::CreateSlice | O::PutSlice => one::<SliceDocument>(schemas),
        O::PutInjected => many::<SliceDocument>(schemas),
        O::CreateMany => return Some(("application/x-ndjson", anything())),
        O::Explain => anything(),
        _ => return None,
    };
    Some(("application/json", schema))
}

/// The body of an answer.
fn answered(operation: Operation, schemas: &mut Schemas) -> Option<Body> {
    use Operation as O;
    let schema = match operation {
        O::ReadMetrics => return Some(("text/plain", text().into())),
        O::Watch => return Some(("application/x-ndjson", one::<EventLine>(schemas))),
        O::CreateMany => return Some(("application/x-ndjson", anything())),
        O::CloseDraft | O::DeleteToken | O::DeleteSlice | O::ForgetNode => return None,
        O::ShowOpenApi | O::ReadStatus | O::Explain => anything(),
        O::ListNodes => many::<NodeReport>(schemas),
        O::ShowNode => one::<NodeDetail>(schemas),
        O::ListNodeSlices => many::<SliceCounters>(schemas),
        O::ListInjected | O::PutInjected => many::<InjectedSlice>(schemas),
        O::ListPaths => many::<PathReport>(schemas),
        O::ShowPath => one::<PathReport>(schemas),
        O::ListGraphs => many::<GraphReport>(schemas),
        O::ShowGraph => one::<GraphReport>(schemas),
        O::ListChains => many::<ChainSummary>(schemas),
        O::ShowChain | O::UpdateChain => one::<ChainReport>(schemas),
        O::ShowReceipt => one::<Receipt>(schemas),
        O::CheckChain => one::<CheckReport>(schemas),
        O::ListFunctions => many::<FunctionReport>(schemas),
        O::ShowFunction | O::UpdateFunction | O::PutFunction => one::<FunctionReport>(schemas),
        O::ListInstances => many::<InstanceReport>(schemas),
        O::ShowInstance | O::UpdateInstance => one::<InstanceReport>(schemas),
        O::OpenDraft => one::<DraftReport>(schemas),
        O::PreviewDraft => one::<Plan>(schemas),
        O::ApplyDraft => one::<Applied>(schemas),
        O::ListSlices => many::<SliceReport>(schemas),
        O::ShowSlice | O::CreateSlice | O::PutSlice => one::<SliceReport>(schemas),
        O::ListTokens => many::<TokenReport>(schemas),
        O::CreateToken => one::<NewToken>(schemas),
    };
    Some(("application/json", schema))
}

/// A reference to a type, which is described once with all that it holds.
fn one<T: ToSchema>(schemas: &mut Schemas) -> RefOr<Schema> {
    let mut inner = Vec::new();
    T::schemas(&mut inner);
    schemas.extend(inner);
    schemas.insert(T::name().into_owned(), <T as PartialSchema>::schema());
    Ref::from_schema_name(T::name()).into()
}

fn many<T: ToSchema>(schemas: &mut Schemas) -> RefOr<Schema> {
    ArrayBuilder::new().items(one::<T>(schemas)).build().into()
}

fn text() -> Schema {
    ObjectBuilder::new().schema_type(SchemaType::Type(Type::String)).build().into()
}

fn number() -> Schema {
    let format = SchemaFormat::KnownFormat(KnownFormat::Int64);
    let number = ObjectBuilder::new().schema_type(SchemaType::Type(Type::Integer));
    number.format(Some(format)).build().into()
}

/// An object whose form the book tells.
fn anything() -> RefOr<Schema> {
    ObjectBuilder::new().schema_type(SchemaType::Type(Type::Object)).build().into()
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::Value;

    #[test]
    fn every_route_is_described_and_nothing_that_is_no_route() {
        let document = serde_json::to_value(document()).unwrap();
        let mut described = Vec::new();
        for (path, methods) in document["paths"].as_object().unwrap() {
            for method in methods.as_object().unwrap().keys() {
                described.push((method.to_uppercase(), path.clone()));
            }
        }
        let mut routes: Vec<(String, String)> =
            ROUTES.iter().map(|r| (r.method.to_string(), r.path.to_owned())).collect();
        described.sort();
        routes.sort();
        assert_eq!(described, routes);
    }

    #[test]
    fn every_reference_leads_to_a_description() {
        fn references(value: &Value, found: &mut Vec<String>) {
            match value {
                Value::Object(map) => {
                    found.extend(map.get("$ref").and_then(Value::as_str).map(str::to_owned));
                    map.values().for_each(|value| references(value, found));
                }
                Value::Array(items) => items.iter().for_each(|value| references(value, found)),
                _ => {}
            }
        }
        let document = serde_json::to_value(document()).unwrap();
        let mut found = Vec::new();
        references(&document, &mut found);
        assert!(found.len() > ROUTES.len(), "{found:?}");
        for reference in found {
            let pointer = reference.trim_start_matches('#');
            assert!(document.pointer(pointer).is_some(), "{reference} leads nowhere");
        }
    }
}
