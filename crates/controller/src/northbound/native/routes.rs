//! The routes of the native API: one table that the router, the OpenAPI document and the tests of
//! who may do what read. Knows who answers where, and in which types; refuses to know what is done.

use super::chains::ChainUpdate;
use super::edge::NodeChange;
use super::functions::FunctionChange;
use super::instances::InstanceChange;
use super::openapi::{anything, many, one, text};
use super::plan::DraftReport;
use super::route::{Route, route, streamed};
use super::{
    alerts, bulk, chains, check, delays, dump, edge, explain, forget, functions, graphs, instances,
    links, metrics, node_slices, openapi, openflow, paths, placement, plan, rule_sets, slices,
    status, tokens, watch,
};
use crate::northbound::answers::NDJSON;
use crate::northbound::routes::Entry;
use catena_model::Role::{Admin, Operator, Tenant, Viewer};
use catena_model::access::{NewToken, TokenReport, TokenRequest};
use catena_model::account::SliceCounters;
use catena_model::check::CheckReport;
use catena_model::delays::ChainDelays;
use catena_model::discovery::LinkReport;
use catena_model::dump::StateDump;
use catena_model::event::EventLine;
use catena_model::limits::FUNCTION_CONFIG_BYTES_MAX;
use catena_model::openflow::OpenFlowRules;
use catena_model::placement::{PlacementRequest, Proposal};
use catena_model::preview::{Applied, ApplyRequest, Plan};
use catena_model::resource::FunctionSettings;
use catena_model::rule_set::RuleSetReport;
use catena_model::slice::{InjectedSlice, SliceDocument, SliceReport};
use catena_model::status::{
    AlertReport, ChainReport, ChainSummary, Comparison, FunctionReport, GraphReport,
    InstanceReport, NodeDetail, NodeReport, PathReport, Receipt,
};

/// Every route, as a request meets it.
pub(in crate::northbound) fn routes() -> impl Iterator<Item = Entry> {
    ROUTES.iter().map(Route::entry)
}

/// Every route; what is not here is not answered.
pub(super) static ROUTES: &[Route] = &[
    route("GET", "/metrics", Operator, |view| Box::pin(metrics::answer(view)))
        .named("ReadMetrics", "Counters in the Prometheus text form.")
        .answers_as("text/plain", text),
    route("GET", "/v1/openapi.json", Viewer, |view| {
        Box::pin(async { view.told(&openapi::document(ROUTES)) })
    })
    .named("ShowOpenApi", "This API, described for programs.")
    .answers(anything),
    route("GET", "/v1/status", Operator, |view| Box::pin(status::status(view)))
        .named("ReadStatus", "How everything stands.")
        .answers(anything),
    route("GET", "/v1/watch", Operator, |view| Box::pin(watch::answer(view)))
        .named("Watch", "What happens, one JSON object a line.")
        .number("after", "First what was declared after this revision.")
        .answers_as(NDJSON, one::<EventLine>)
        .in_drafts(false),
    route("GET", "/v1/nodes", Operator, |view| Box::pin(status::nodes(view)))
        .named("ListNodes", "Nodes with status and counters.")
        .answers(many::<NodeReport>),
    route("GET", "/v1/nodes/{node}", Operator, |view| Box::pin(status::node(view)))
        .named("ShowNode", "A node and how full its tables are.")
        .answers(one::<NodeDetail>),
    route("PATCH", "/v1/nodes/{node}", Operator, |view| Box::pin(edge::patch(view)))
        .named("UpdateNode", "Marks a switch as an edge, or takes the mark off.")
        .takes(one::<NodeChange>)
        .answers(one::<NodeDetail>),
    route("DELETE", "/v1/nodes/{node}", Operator, |view| Box::pin(forget::forget(view)))
        .named("ForgetNode", "Forgets a node that is away for good and that no chain needs."),
    route("GET", "/v1/nodes/{node}/openflow13", Operator, |view| Box::pin(openflow::show(view)))
        .named("ExportNode", "A node's classifier and its edge as rules of OpenFlow 1.3.")
        .answers(one::<OpenFlowRules>),
    route("GET", "/v1/nodes/{node}/slices", Operator, |view| Box::pin(node_slices::list(view)))
        .named("ListNodeSlices", "What a node's data plane counted of each slice, page by page.")
        .answers(many::<SliceCounters>),
    route("GET", "/v1/nodes/{node}/injected", Operator, |view| {
        Box::pin(node_slices::injected(view))
    })
    .named("ListInjected", "The slices that were put in at a node by hand.")
    .answers(many::<InjectedSlice>),
    route("PUT", "/v1/nodes/{node}/injected", Operator, |view| Box::pin(node_slices::inject(view)))
        .named("PutInjected", "Puts slices in at a node by hand, instead of those that were.")
        .takes(many::<SliceDocument>)
        .answers(many::<InjectedSlice>),
    route("GET", "/v1/nodes/{node}/dump", Operator, |view| Box::pin(dump::show(view)))
        .named("DumpNode", "Digests of all that a node holds, but for what it counts.")
        .answers(one::<StateDump>),
    route("GET", "/v1/links", Operator, |view| Box::pin(links::list(view)))
        .named("ListLinks", "Links between nodes, and what was found at their ends.")
        .answers(many::<LinkReport>),
    route("GET", "/v1/links/{link}", Operator, |view| Box::pin(links::show(view)))
        .named("ShowLink", "A link, NODE:PORT.")
        .answers(one::<LinkReport>),
    route("GET", "/v1/paths", Viewer, |view| Box::pin(paths::list(view)))
        .named("ListPaths", "The paths that nodes know.")
        .answers(many::<PathReport>),
    route("GET", "/v1/paths/{path}", Viewer, |view| Box::pin(paths::show(view)))
        .named("ShowPath", "A path with its hops.")
        .answers(one::<PathReport>),
    route("GET", "/v1/graphs", Viewer, |view| Box::pin(graphs::list(view)))
        .named("ListGraphs", "Graphs: chains that go on in others.")
        .answers(many::<GraphReport>),
    route("GET", "/v1/graphs/{graph}", Viewer, |view| Box::pin(graphs::show(view)))
        .named("ShowGraph", "A graph with its chains.")
        .answers(one::<GraphReport>),
    route("GET", "/v1/chains", Viewer, |view| Box::pin(chains::list(view)))
        .named("ListChains", "Chains with their state.")
        .answers(many::<ChainSummary>),
    route("GET", "/v1/chains/{chain}", Viewer, |view| Box::pin(chains::show(view)))
        .named("ShowChain", "A chain with fresh counters.")
        .answers(one::<ChainReport>),
    route("PATCH", "/v1/chains/{chain}", Tenant, |view| Box::pin(chains::patch(view)))
        .named("UpdateChain", "Changes a chain's encapsulation or its context, under its traffic.")
        .takes(one::<ChainUpdate>)
        .answers(one::<ChainReport>)
        .in_drafts(true),
    route("GET", "/v1/chains/{chain}/receipt", Viewer, |view| Box::pin(chains::receipt(view)))
        .named("ShowReceipt", "The account of a chain's last change.")
        .answers(one::<Receipt>),
    route("GET", "/v1/chains/{chain}/delays", Viewer, |view| Box::pin(delays::show(view)))
        .named("ShowDelays", "Delays of a chain, hop by hop, as its packets and engines tell them.")
        .answers(one::<ChainDelays>),
    route("GET", "/v1/chains/{chain}/comparison", Operator, |view| Box::pin(chains::compare(view)))
        .named(
            "CompareChain",
            "What a chain would cost under each encapsulation, by the planner alone.",
        )
        .answers(many::<Comparison>),
    route("POST", "/v1/chains/{chain}/check", Tenant, |view| Box::pin(check::chain(view)))
        .named("CheckChain", "Sends probes along a chain and tells what they met.")
        .answers(one::<CheckReport>),
    route("GET", "/v1/functions", Viewer, |view| Box::pin(functions::list(view)))
        .named("ListFunctions", "Service functions.")
        .answers(many::<FunctionReport>),
    route("GET", "/v1/functions/{function}", Viewer, |view| Box::pin(functions::show(view)))
        .named("ShowFunction", "A service function.")
        .answers(one::<FunctionReport>),
    route("GET", "/v1/functions/{function}/alerts", Viewer, |view| Box::pin(alerts::show(view)))
        .named("ListAlerts", "Alerts of a bundled function, as its nodes keep them.")
        .number(
            "limit",
            "How many of each instance at most; `after` goes on behind an answer's `next`.",
        )
        .answers(one::<AlertReport>),
    route("PATCH", "/v1/functions/{function}", Tenant, |view| Box::pin(functions::patch(view)))
        .named("UpdateFunction", "Changes what networking-sfc has no words for.")
        .takes(one::<FunctionChange>)
        .answers(one::<FunctionReport>)
        .in_drafts(true),
    route("PUT", "/v1/functions/{function}", Tenant, |view| Box::pin(functions::put(view)))
        .named("PutFunction", "Gives a function these settings and no others.")
        .takes(one::<FunctionSettings>)
        .answers(one::<FunctionReport>)
        .in_drafts(true),
    route("GET", "/v1/rule-sets", Viewer, |view| Box::pin(rule_sets::list(view)))
        .named("ListRuleSets", "Rule sets that were sent by themselves.")
        .answers(many::<RuleSetReport>),
    route("GET", "/v1/rule-sets/{rule_set}", Viewer, |view| Box::pin(rule_sets::show(view)))
        .named("ShowRuleSet", "A rule set by its SHA-256: how large it is, and who names it.")
        .answers(one::<RuleSetReport>),
    route("PUT", "/v1/rule-sets/{rule_set}", Tenant, |view| Box::pin(rule_sets::put(view)))
        .named(
            "SendRuleSet",
            "Sends a rule set that is larger than a request may be, for configurations to name.",
        )
        .takes_as(rule_sets::KIND, text)
        .answers(one::<RuleSetReport>)
        .up_to(FUNCTION_CONFIG_BYTES_MAX)
        .in_drafts(true),
    route("GET", "/v1/instances", Viewer, |view| Box::pin(instances::list(view)))
        .named("ListInstances", "Instances and how they are used.")
        .answers(many::<InstanceReport>),
    route("GET", "/v1/instances/{instance}", Viewer, |view| Box::pin(instances::show(view)))
        .named("ShowInstance", "One instance.")
        .answers(one::<InstanceReport>),
    route("PATCH", "/v1/instances/{instance}", Tenant, |view| Box::pin(instances::patch(view)))
        .named("UpdateInstance", "Drains an instance, takes it back, or says what it speaks.")
        .takes(one::<InstanceChange>)
        .answers(one::<InstanceReport>)
        .in_drafts(true),
    route("GET", "/v1/slices", Viewer, |view| Box::pin(slices::list(view)))
        .named("ListSlices", "Slices with their state, page by page.")
        .answers(many::<SliceReport>),
    route("POST", "/v1/slices", Tenant, |view| Box::pin(slices::create(view)))
        .named("CreateSlice", "Makes a slice.")
        .takes(one::<SliceDocument>)
        .creates(one::<SliceReport>)
        .in_drafts(true),
    route("GET", "/v1/slices/{slice}", Viewer, |view| Box::pin(slices::show(view)))
        .named("ShowSlice", "A slice with fresh counters.")
        .answers(one::<SliceReport>),
    route("PUT", "/v1/slices/{slice}", Tenant, |view| Box::pin(slices::put(view)))
        .named("PutSlice", "Makes a slice what is given.")
        .takes(one::<SliceDocument>)
        .answers(one::<SliceReport>)
        .in_drafts(true),
    route("DELETE", "/v1/slices/{slice}", Tenant, |view| Box::pin(slices::delete(view)))
        .named("DeleteSlice", "Removes a slice.")
        .in_drafts(true),
    route("POST", "/v1/explain", Operator, |view| Box::pin(explain::answer(view)))
        .named("Explain", "What the data planes would do with a packet.")
        .takes(anything)
        .answers(anything)
        .in_drafts(true),
    route("POST", "/v1/plan", Tenant, |view| Box::pin(plan::open(view)))
        .named(
            "OpenDraft",
            "Opens a draft: a copy of what is declared, for requests that name it in Catena-Draft.",
        )
        .creates(one::<DraftReport>),
    route("GET", "/v1/plan/{draft}", Tenant, |view| Box::pin(plan::preview(view)))
        .named("PreviewDraft", "What the changes made to a draft would do.")
        .answers(one::<Plan>),
    route("POST", "/v1/plan/{draft}/apply", Tenant, |view| Box::pin(plan::apply(view)))
        .named(
            "ApplyDraft",
            "Makes all changes of a draft in one revision, if nothing was declared since.",
        )
        .takes(one::<ApplyRequest>)
        .answers(one::<Applied>),
    route("POST", "/v1/plan/{draft}/placement", Operator, |view| {
        Box::pin(placement::propose(view))
    })
    .named(
        "ProposeHosts",
        "Hosts for functions of a draft's chains that stand nowhere, or may stand elsewhere.",
    )
    .takes(one::<PlacementRequest>)
    .answers(many::<Proposal>),
    route("DELETE", "/v1/plan/{draft}", Tenant, |view| Box::pin(plan::close(view)))
        .named("CloseDraft", "Throws a draft away."),
    streamed("/v1/bulk", Tenant, bulk::answer)
        .named(
            "CreateMany",
            "Makes the resource of each line, and answers each line when it is durable.",
        )
        .takes_as(NDJSON, anything)
        .answers_as(NDJSON, anything)
        .in_drafts(true),
    route("GET", "/v1/tokens", Admin, |view| Box::pin(tokens::list(view)))
        .named("ListTokens", "Tokens, without their secrets.")
        .answers(many::<TokenReport>),
    route("POST", "/v1/tokens", Admin, |view| Box::pin(tokens::create(view)))
        .named("CreateToken", "Makes a token; shows its secret once.")
        .takes(one::<TokenRequest>)
        .creates(one::<NewToken>),
    route("DELETE", "/v1/tokens/{token}", Admin, |view| Box::pin(tokens::delete(view)))
        .named("DeleteToken", "Deletes a token by its id."),
];
