//! The routes of the native API: one table that the router, the OpenAPI document and the tests of
//! who may do what read. Knows paths and methods; refuses to know what is done.

use axum::http::Method;
use catena_model::Role;

/// What a route does.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Operation {
    ReadMetrics,
    ShowOpenApi,
    ReadStatus,
    Watch,
    ListNodes,
    ShowNode,
    ForgetNode,
    ListNodeSlices,
    ListInjected,
    PutInjected,
    ListChains,
    ShowChain,
    UpdateChain,
    ShowReceipt,
    CheckChain,
    ListPaths,
    ShowPath,
    ListGraphs,
    ShowGraph,
    ListFunctions,
    ShowFunction,
    UpdateFunction,
    PutFunction,
    ListInstances,
    ShowInstance,
    UpdateInstance,
    ListSlices,
    ShowSlice,
    CreateSlice,
    PutSlice,
    DeleteSlice,
    Explain,
    OpenDraft,
    PreviewDraft,
    ApplyDraft,
    CloseDraft,
    CreateMany,
    ListTokens,
    CreateToken,
    DeleteToken,
}

/// One method of one path.
#[derive(Debug)]
pub(crate) struct Route {
    pub(crate) method: Method,
    /// The path; a part in braces is a name.
    pub(crate) path: &'static str,
    pub(crate) operation: Operation,
    /// The least that somebody must be to pass.
    pub(crate) least: Role,
    /// What it is for, in one line.
    pub(crate) summary: &'static str,
}

const fn route(
    method: Method,
    path: &'static str,
    operation: Operation,
    least: Role,
    summary: &'static str,
) -> Route {
    Route { method, path, operation, least, summary }
}

/// Every route; what is not here is not answered.
pub(crate) static ROUTES: &[Route] = {
    use Operation as O;
    use Role::{Admin, Operator, Tenant, Viewer};
    const GET: Method = Method::GET;
    const PUT: Method = Method::PUT;
    const POST: Method = Method::POST;
    const PATCH: Method = Method::PATCH;
    const DELETE: Method = Method::DELETE;
    &[
        route(GET, "/metrics", O::ReadMetrics, Operator, "Counters in the Prometheus text form."),
        route(GET, "/v1/openapi.json", O::ShowOpenApi, Viewer, "This API, described for programs."),
        route(GET, "/v1/status", O::ReadStatus, Operator, "How everything stands."),
        route(GET, "/v1/watch", O::Watch, Operator, "What happens, one JSON object a line."),
        route(GET, "/v1/nodes", O::ListNodes, Operator, "Nodes with status and counters."),
        route(
            GET,
            "/v1/nodes/{node}",
            O::ShowNode,
            Operator,
            "A node and how full its tables are.",
        ),
        route(
            DELETE,
            "/v1/nodes/{node}",
            O::ForgetNode,
            Operator,
            "Forgets a node that is away for good and that no chain needs.",
        ),
        route(
            GET,
            "/v1/nodes/{node}/slices",
            O::ListNodeSlices,
            Operator,
            "What a node's data plane counted of each slice, page by page.",
        ),
        route(
            GET,
            "/v1/nodes/{node}/injected",
            O::ListInjected,
            Operator,
            "The slices that were put in at a node by hand.",
        ),
        route(
            PUT,
            "/v1/nodes/{node}/injected",
            O::PutInjected,
            Operator,
            "Puts slices in at a node by hand, instead of those that were.",
        ),
        route(GET, "/v1/paths", O::ListPaths, Viewer, "The paths that nodes know."),
        route(GET, "/v1/paths/{path}", O::ShowPath, Viewer, "A path with its hops."),
        route(GET, "/v1/graphs", O::ListGraphs, Viewer, "Graphs: chains that go on in others."),
        route(GET, "/v1/graphs/{graph}", O::ShowGraph, Viewer, "A graph with its chains."),
        route(GET, "/v1/chains", O::ListChains, Viewer, "Chains with their state."),
        route(GET, "/v1/chains/{chain}", O::ShowChain, Viewer, "A chain with fresh counters."),
        route(PATCH, "/v1/chains/{chain}", O::UpdateChain, Tenant, "Changes a chain's context."),
        route(
            GET,
            "/v1/chains/{chain}/receipt",
            O::ShowReceipt,
            Viewer,
            "The account of a chain's last change.",
        ),
        route(
            POST,
            "/v1/chains/{chain}/check",
            O::CheckChain,
            Tenant,
            "Sends probes along a chain and tells what they met.",
        ),
        route(GET, "/v1/functions", O::ListFunctions, Viewer, "Service functions."),
        route(GET, "/v1/functions/{function}", O::ShowFunction, Viewer, "A service function."),
        route(
            PATCH,
            "/v1/functions/{function}",
            O::UpdateFunction,
            Tenant,
            "Changes what networking-sfc has no words for.",
        ),
        route(
            PUT,
            "/v1/functions/{function}",
            O::PutFunction,
            Tenant,
            "Gives a function these settings and no others.",
        ),
        route(GET, "/v1/instances", O::ListInstances, Viewer, "Instances and how they are used."),
        route(GET, "/v1/instances/{instance}", O::ShowInstance, Viewer, "One instance."),
        route(
            PATCH,
            "/v1/instances/{instance}",
            O::UpdateInstance,
            Tenant,
            "Drains an instance, or takes it back.",
        ),
        route(GET, "/v1/slices", O::ListSlices, Viewer, "Slices with their state, page by page."),
        route(POST, "/v1/slices", O::CreateSlice, Tenant, "Makes a slice."),
        route(GET, "/v1/slices/{slice}", O::ShowSlice, Viewer, "A slice with fresh counters."),
        route(PUT, "/v1/slices/{slice}", O::PutSlice, Tenant, "Makes a slice what is given."),
        route(DELETE, "/v1/slices/{slice}", O::DeleteSlice, Tenant, "Removes a slice."),
        route(
            POST,
            "/v1/explain",
            O::Explain,
            Operator,
            "What the data planes would do with a packet.",
        ),
        route(
            POST,
            "/v1/plan",
            O::OpenDraft,
            Tenant,
            "Opens a draft: a copy of what is declared, for requests that name it in Catena-Draft.",
        ),
        route(
            GET,
            "/v1/plan/{draft}",
            O::PreviewDraft,
            Tenant,
            "What the changes made to a draft would do.",
        ),
        route(
            POST,
            "/v1/plan/{draft}/apply",
            O::ApplyDraft,
            Tenant,
            "Makes all changes of a draft in one revision, if nothing was declared since.",
        ),
        route(DELETE, "/v1/plan/{draft}", O::CloseDraft, Tenant, "Throws a draft away."),
        route(
            POST,
            "/v1/bulk",
            O::CreateMany,
            Tenant,
            "Makes the resource of each line, and answers each line when it is durable.",
        ),
        route(GET, "/v1/tokens", O::ListTokens, Admin, "Tokens, without their secrets."),
        route(POST, "/v1/tokens", O::CreateToken, Admin, "Makes a token; shows its secret once."),
        route(DELETE, "/v1/tokens/{token}", O::DeleteToken, Admin, "Deletes a token by its id."),
    ]
};

/// The route of a request, and the name in its path; empty if it has none.
pub(super) fn find<'c>(method: &Method, path: &'c [String]) -> Option<(&'static Route, &'c str)> {
    let of_method = ROUTES.iter().filter(|route| route.method == *method);
    of_method.into_iter().find_map(|route| Some((route, name_in(route.path, path)?)))
}

/// The name that a path has where the pattern has braces; none: it is another path.
fn name_in<'c>(pattern: &str, path: &'c [String]) -> Option<&'c str> {
    let mut name = "";
    let mut given = path.iter();
    for part in pattern.split('/').skip(1) {
        let given = given.next()?;
        if part.starts_with('{') {
            name = given;
        } else if part != given {
            return None;
        }
    }
    given.next().is_none().then_some(name)
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::collections::BTreeSet;

    fn parts(path: &str) -> Vec<String> {
        path.split('/').skip(1).map(str::to_owned).collect()
    }

    #[test]
    fn a_request_finds_its_route_and_what_is_not_in_the_table_is_not_answered() {
        let path = parts("/v1/chains/web/receipt");
        let (route, name) = find(&Method::GET, &path).unwrap();
        assert_eq!((route.operation, name), (Operation::ShowReceipt, "web"));
        let path = parts("/v1/chains");
        assert_eq!(find(&Method::GET, &path).unwrap().1, "");
        for (method, path) in [
            (Method::POST, "/v1/chains"),
            (Method::DELETE, "/v1/status"),
            (Method::GET, "/v1/chains/web/check"),
        ] {
            assert!(find(&method, &parts(path)).is_none(), "{method} {path}");
        }
        for path in ["/v1", "/v2/chains", "/v1/chains/web/receipt/x", "/metrics/x"] {
            assert!(find(&Method::GET, &parts(path)).is_none(), "{path}");
        }
    }

    #[test]
    fn no_route_hides_another() {
        let all: BTreeSet<_> = ROUTES.iter().map(|r| (r.method.as_str(), r.path)).collect();
        assert_eq!(all.len(), ROUTES.len());
        for route in ROUTES {
            let (found, _) = find(&route.method, &parts(route.path)).unwrap();
            assert_eq!(found.operation, route.operation, "{}", route.path);
        }
    }
}
