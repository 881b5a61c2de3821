//! `/v1/openapi.json`: the native API described for programs, made from the table of routes and the
//! types of its requests and answers. Refuses to say anything of its own about a type.

use super::problem::PROBLEM;
use super::route::{Route, Schemas};
use utoipa::openapi::extensions::ExtensionsBuilder;
use utoipa::openapi::path::{
    HttpMethod, Operation, OperationBuilder, ParameterBuilder, ParameterIn, PathItem, PathsBuilder,
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

/// The whole document.
pub(super) fn document(routes: &[Route]) -> OpenApi {
    let mut schemas = Schemas::new();
    let mut paths = PathsBuilder::new();
    for route in routes {
        let operation = operation(route, &mut schemas);
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
    match route.method {
        "POST" => HttpMethod::Post,
        "PUT" => HttpMethod::Put,
        "PATCH" => HttpMethod::Patch,
        "DELETE" => HttpMethod::Delete,
        _ => HttpMethod::Get,
    }
}

fn operation(route: &Route, schemas: &mut Schemas) -> Operation {
    let mut answer = ResponseBuilder::new().description(route.summary);
    if let Some((kind, describe)) = route.answers {
        answer = answer.content(kind, Content::new(Some(describe(schemas))));
    }
    let refusal = ResponseBuilder::new()
        .description("What went wrong, why, and what to do about it.")
        .content(PROBLEM, Content::new(Some(one::<ProblemDetails>(schemas))));
    let least = ExtensionsBuilder::new().add("x-least-role", route.least.name()).build();
    let mut built = OperationBuilder::new()
        .operation_id(Some(route.name))
        .summary(Some(route.summary))
        .extensions(Some(least))
        .response(route.status.as_str(), answer.build())
        .response("default", refusal.build());
    for name in route.path.split('/').filter_map(|part| part.strip_prefix('{')) {
        let parameter = ParameterBuilder::new()
            .name(name.trim_end_matches('}'))
            .parameter_in(ParameterIn::Path)
            .required(Required::True)
            .description(Some(match name {
                "rule_set}" => "The SHA-256 of its text: 64 hexadecimal digits.",
                _ => "Name, id or the beginning of an id that no other begins with.",
            }))
            .schema(Some(text(schemas)));
        built = built.parameter(parameter.build());
    }
    if let Some((name, summary)) = route.number {
        let parameter = ParameterBuilder::new()
            .name(name)
            .parameter_in(ParameterIn::Query)
            .required(Required::False)
            .description(Some(summary))
            .schema(Some(number()));
        built = built.parameter(parameter.build());
    }
    if let Some((kind, describe)) = route.takes {
        let body = RequestBodyBuilder::new().content(kind, Content::new(Some(describe(schemas))));
        built = built.request_body(Some(body.required(Some(Required::True)).build()));
    }
    built.build()
}

/// A reference to a type, which is described once with all that it holds.
pub(super) fn one<T: ToSchema>(schemas: &mut Schemas) -> RefOr<Schema> {
    let mut inner = Vec::new();
    T::schemas(&mut inner);
    schemas.extend(inner);
    schemas.insert(T::name().into_owned(), <T as PartialSchema>::schema());
    Ref::from_schema_name(T::name()).into()
}

/// A list of them.
pub(super) fn many<T: ToSchema>(schemas: &mut Schemas) -> RefOr<Schema> {
    ArrayBuilder::new().items(one::<T>(schemas)).build().into()
}

/// A text.
pub(super) fn text(_: &mut Schemas) -> RefOr<Schema> {
    plain(Type::String)
}

fn number() -> Schema {
    let format = SchemaFormat::KnownFormat(KnownFormat::Int64);
    let number = ObjectBuilder::new().schema_type(SchemaType::Type(Type::Integer));
    number.format(Some(format)).build().into()
}

/// An object whose form the book tells.
pub(super) fn anything(_: &mut Schemas) -> RefOr<Schema> {
    plain(Type::Object)
}

fn plain(kind: Type) -> RefOr<Schema> {
    Schema::from(ObjectBuilder::new().schema_type(SchemaType::Type(kind)).build()).into()
}

#[cfg(test)]
mod tests {
    use super::super::routes::ROUTES;
    use super::*;
    use serde_json::Value;

    #[test]
    fn every_route_is_described_and_nothing_that_is_no_route() {
        let document = serde_json::to_value(document(ROUTES)).unwrap();
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
        let document = serde_json::to_value(document(ROUTES)).unwrap();
        let mut found = Vec::new();
        references(&document, &mut found);
        assert!(found.len() > ROUTES.len(), "{found:?}");
        for reference in found {
            let pointer = reference.trim_start_matches('#');
            assert!(document.pointer(pointer).is_some(), "{reference} leads nowhere");
        }
    }
}
