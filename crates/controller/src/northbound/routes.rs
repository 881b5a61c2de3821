//! Which routes there are, and what each asks of who calls it. What is in neither of two tables, this
//! one for networking-sfc and the one of the native API, is not answered, whatever the code behind
//! it could do: nobody can forget to guard a route.

use super::native;
use axum::http::Method;
use catena_model::Role;

/// What a route asks of who calls it.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Access {
    /// Nothing: what it tells is no secret.
    Open,
    /// At least this role.
    Least(Role),
}

/// One method of one path. `HEAD` is answered as `GET`.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Route {
    /// The method.
    pub method: &'static str,
    /// The path; a part in braces stands for one object, and says of which kind.
    pub path: &'static str,
    /// What it asks.
    pub access: Access,
}

/// Methods of a path with what they ask.
type Methods = &'static [(&'static str, Access)];

const VIEWER: Access = Access::Least(Role::Viewer);
const TENANT: Access = Access::Least(Role::Tenant);
const OPERATOR: Access = Access::Least(Role::Operator);
const ADMIN: Access = Access::Least(Role::Admin);

const DOCUMENT: Methods = &[("GET", VIEWER)];
const COLLECTION: Methods = &[("GET", VIEWER), ("POST", TENANT)];
const ITEM: Methods = &[("GET", VIEWER), ("PUT", TENANT), ("DELETE", TENANT)];

/// The routes of networking-sfc.
const BORDER: &[(&str, Methods)] = &[
    ("/", &[("GET", Access::Open)]),
    ("/v2.0", DOCUMENT),
    ("/v2.0/extensions", DOCUMENT),
    ("/v2.0/extensions/{extension}", DOCUMENT),
    ("/v2.0/quotas", &[("GET", OPERATOR)]),
    ("/v2.0/quotas/{project}", &[("GET", VIEWER), ("PUT", ADMIN), ("DELETE", ADMIN)]),
    ("/v2.0/quotas/{project}/default", DOCUMENT),
    ("/v2.0/quotas/{project}/details", DOCUMENT),
    ("/v2.0/networks", COLLECTION),
    ("/v2.0/networks/{network}", ITEM),
    ("/v2.0/subnets", COLLECTION),
    ("/v2.0/subnets/{subnet}", ITEM),
    ("/v2.0/ports", COLLECTION),
    ("/v2.0/ports/{port}", ITEM),
    ("/v2.0/sfc/flow_classifiers", COLLECTION),
    ("/v2.0/sfc/flow_classifiers/{flow_classifier}", ITEM),
    ("/v2.0/sfc/port_pairs", COLLECTION),
    ("/v2.0/sfc/port_pairs/{port_pair}", ITEM),
    ("/v2.0/sfc/port_pair_groups", COLLECTION),
    ("/v2.0/sfc/port_pair_groups/{port_pair_group}", ITEM),
    ("/v2.0/sfc/port_chains", COLLECTION),
    ("/v2.0/sfc/port_chains/{port_chain}", ITEM),
    ("/v2.0/sfc/service_graphs", COLLECTION),
    ("/v2.0/sfc/service_graphs/{service_graph}", ITEM),
];

/// Every route of the API.
pub fn routes() -> impl Iterator<Item = Route> {
    let border = BORDER.iter().flat_map(|(path, methods)| {
        methods.iter().map(|(method, access)| Route { method, path, access: *access })
    });
    let native = native::routes::ROUTES.iter().map(|route| Route {
        method: route.method.as_str(),
        path: route.path,
        access: Access::Least(route.least),
    });
    border.chain(native)
}

/// The route of a request.
pub(super) fn find(method: &Method, path: &[String]) -> Option<Route> {
    routes().find(|route| route.method == method.as_str() && fits(route.path, path))
}

/// What a draft holds: below these paths a request is carried out on the copy.
const DRAFTED: [&str; 9] = [
    "/v1/bulk",
    "/v1/explain",
    "/v1/functions",
    "/v1/instances",
    "/v1/slices",
    "/v2.0/networks",
    "/v2.0/ports",
    "/v2.0/sfc",
    "/v2.0/subnets",
];

/// Is it carried out on the copy alone, when a request names a draft? Whatever only reads is.
pub(super) fn is_in_drafts(route: &Route) -> bool {
    let is_below = |path: &str| {
        route.path.strip_prefix(path).is_some_and(|rest| rest.is_empty() || rest.starts_with('/'))
    };
    match (route.method, route.path) {
        ("GET", path) => path != "/v1/watch",
        ("PATCH", "/v1/chains/{chain}") => true,
        _ => DRAFTED.iter().any(|path| is_below(path)),
    }
}

/// Has the path a method at all?
pub(super) fn is_known(path: &[String]) -> bool {
    routes().any(|route| fits(route.path, path))
}

/// How many parts of the path lead to the one object that it names; none: it names none.
pub(super) fn object_parts(route: &Route) -> Option<usize> {
    let named = parts(route.path).zip(1..).filter(|(part, _)| part.starts_with('{'));
    named.last().map(|(_, number)| number)
}

fn fits(pattern: &'static str, path: &[String]) -> bool {
    let mut given = path.iter();
    let fits = |part: &str| given.next().is_some_and(|own| part.starts_with('{') || part == own);
    parts(pattern).all(fits) && given.next().is_none()
}

fn parts(pattern: &'static str) -> impl Iterator<Item = &'static str> {
    pattern.split('/').filter(|part| !part.is_empty())
}

#[cfg(test)]
mod tests {
    use super::*;

    fn split(path: &str) -> Vec<String> {
        path.split('/').filter(|part| !part.is_empty()).map(str::to_owned).collect()
    }

    #[test]
    fn a_path_is_found_whole_or_not_at_all() {
        let found = |path| find(&Method::GET, &split(path)).map(|route| route.path);
        assert_eq!(found("/"), Some("/"));
        assert_eq!(found("/v2.0/sfc/port_chains/a"), Some("/v2.0/sfc/port_chains/{port_chain}"));
        assert_eq!(found("/v1/chains/a/receipt"), Some("/v1/chains/{chain}/receipt"));
        for path in ["/v1", "/v2.0/sfc", "/v2.0/sfc/port_chains/a/b", "/v1/chains/a/receipt/b"] {
            assert_eq!(found(path), None, "{path}");
            assert!(!is_known(&split(path)), "{path}");
        }
        assert_eq!(find(&Method::PATCH, &split("/v2.0/ports/a")), None);
        assert!(is_known(&split("/v2.0/ports/a")));
    }

    #[test]
    fn the_object_of_a_path_is_its_last_name() {
        let parts = |path| object_parts(&find(&Method::GET, &split(path)).unwrap());
        assert_eq!(parts("/v1/chains"), None);
        assert_eq!(parts("/v1/chains/a"), Some(3));
        assert_eq!(parts("/v1/chains/a/receipt"), Some(3));
        assert_eq!(parts("/v2.0/sfc/port_chains/a"), Some(4));
    }

    #[test]
    fn no_route_hides_another() {
        for route in routes() {
            let method: Method = route.method.parse().unwrap();
            assert_eq!(find(&method, &split(route.path)), Some(route));
        }
    }
}
