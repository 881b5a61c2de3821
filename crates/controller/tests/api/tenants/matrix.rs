//! Who may do what: every route × role × own, foreign and absent object, as the table of routes has
//! it; over HTTP.

use crate::support::agent::{FakeAgent, State};
use crate::support::tokens::{Answer, Caller, start};
use crate::support::{Controller, eventually};
use catena_controller::{Access, Auth, Route, routes};
use catena_model::Role;
use catena_model::rule_set::RuleSetDigest;
use serde_json::{Value, json};
use std::cell::{Cell, RefCell};
use std::collections::{BTreeMap, BTreeSet};

/// In the name of everything that is not the asking project's.
const FOREIGN_MARK: &str = "foreign-secret";
/// The one node.
const NODE: &str = "host1";
/// A link of it.
const LINK: &str = "eth1";
/// The name of every interface at the node.
const INTERFACE: &str = "hidden0";
const OWN_MARK: &str = "own-thing";

#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
enum Object {
    /// The path names none.
    None,
    Own,
    Foreign,
    Absent,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Expected {
    Done,
    Unauthenticated,
    Forbidden,
    NotFound,
}

/// What a path's `{kind}` stands for.
fn kind_of(route: &Route) -> Option<&'static str> {
    let part = route.path.split('/').rfind(|part| part.starts_with('{'))?;
    Some(part.trim_matches(['{', '}']))
}

/// Is there one for each tenant? Others are everybody's, if their role is enough.
fn is_tenants(kind: &str) -> bool {
    !["extension", "link", "node", "token"].contains(&kind)
}

/// Is what it is about sent with it?
fn is_sent(route: &Route) -> bool {
    (route.method, route.path) == ("PUT", "/v1/rule-sets/{rule_set}")
}

/// May a role read the object that a route is about?
fn may_look(route: &Route, role: Role) -> bool {
    let end = route.path.rfind('}').unwrap_or_default() + 1;
    let item = route.path.get(..end).unwrap();
    let look = routes().find(|other| other.method == "GET" && other.path == item);
    look.is_some_and(|look| look.access <= Access::Least(role))
}

fn expected(route: &Route, role: Option<Role>, object: Object) -> Expected {
    let Access::Least(least) = route.access else { return Expected::Done };
    let Some(role) = role else { return Expected::Unauthenticated };
    let is_hidden = match object {
        // What is known by what is in it is made by whoever sends that, whether it is there or not.
        Object::Foreign | Object::Absent if is_sent(route) && role >= least => false,
        Object::None | Object::Own => false,
        // A draft is its maker's, and nobody else's.
        Object::Foreign if kind_of(route) == Some("draft") => true,
        Object::Foreign => kind_of(route).is_some_and(is_tenants) && role < Role::Operator,
        Object::Absent => true,
    };
    match (role >= least, is_hidden) {
        (true, true) => Expected::NotFound,
        (true, false) => Expected::Done,
        (false, true) if may_look(route, role) => Expected::NotFound,
        (false, _) => Expected::Forbidden,
    }
}

/// The two projects, each with somebody who makes what the routes are about.
struct World<'c> {
    admin: Caller<'c>,
    owner: Caller<'c>,
    stranger: Caller<'c>,
    made: RefCell<BTreeMap<(&'static str, Object), String>>,
    count: Cell<u32>,
}

impl<'c> World<'c> {
    fn new(controller: &'c Controller) -> Self {
        let admin = Caller::admin(controller);
        let world = Self {
            owner: admin.with_role("owner", "own", "tenant"),
            stranger: admin.with_role("stranger", "foreign", "tenant"),
            admin,
            made: RefCell::default(),
            count: Cell::new(0),
        };
        world.lift_quotas();
        world
    }

    /// Lets both projects have as much as the matrix makes.
    fn lift_quotas(&self) {
        if routes().any(|route| kind_of(&route) == Some("project")) {
            self.object("project", Object::Own);
            self.object("project", Object::Foreign);
        }
    }

    /// A number that nothing has yet.
    fn next(&self) -> u32 {
        self.count.set(self.count.get() + 1);
        self.count.get()
    }

    fn maker(&self, object: Object) -> (&Caller<'c>, &'static str) {
        match object {
            Object::Foreign => (&self.stranger, FOREIGN_MARK),
            _ => (&self.owner, OWN_MARK),
        }
    }

    /// The one object of a kind that a case is about; made when it is not there.
    fn object(&self, kind: &'static str, object: Object) -> String {
        if object == Object::Absent {
            // Paths have numbers.
            let number = "999999".to_owned();
            return match kind {
                "path" => number,
                "rule_set" => digest_of(object),
                _ => uuid::Uuid::new_v4().to_string(),
            };
        }
        let known = self.made.borrow().get(&(kind, object)).cloned();
        known.unwrap_or_else(|| {
            let id = self.make(kind, object);
            self.made.borrow_mut().insert((kind, object), id.clone());
            id
        })
    }

    fn make(&self, kind: &'static str, object: Object) -> String {
        let (maker, mark) = self.maker(object);
        let answer = |answer: Answer, key: &str| {
            assert_eq!(answer.status, 201, "{kind}: {answer:?}");
            answer.json()[key].as_str().unwrap().to_owned()
        };
        match kind {
            "extension" => "sfc".into(),
            "project" => {
                let project = if object == Object::Foreign { "foreign" } else { "own" };
                let kinds = [
                    "network",
                    "subnet",
                    "port",
                    "flow_classifier",
                    "port_pair",
                    "port_pair_group",
                    "port_chain",
                    "service_graph",
                    "slice",
                    "port_per_node",
                    "draft",
                    "watcher",
                    "rule_set",
                ];
                let limits: Value =
                    kinds.iter().map(|kind| ((*kind).to_owned(), json!(-1))).collect();
                let path = format!("/v2.0/quotas/{project}");
                let set = self.admin.call("PUT", &path, Some(&json!({"quota": limits})));
                assert_eq!(set.status, 200, "{set:?}");
                project.into()
            }
            "node" => NODE.into(),
            "link" => format!("{NODE}:{LINK}"),
            "path" => self.path(maker, mark),
            "draft" => draft_of(maker),
            "slice" => {
                let slice = self.attributes(kind, maker, mark);
                answer(maker.call("POST", "/v1/slices", Some(&slice)), "id")
            }
            "rule_set" => {
                let path = format!("/v1/rule-sets/{}", digest_of(object));
                let sent = maker.send(&path, rule_set_of(object));
                assert_eq!(sent.status, 200, "{sent:?}");
                digest_of(object)
            }
            "token" => answer(self.admin.call("POST", "/v1/tokens", Some(&self.token())), "id"),
            // Both APIs show the same objects.
            "chain" => self.make("port_chain", object),
            "function" => self.make("port_pair_group", object),
            "instance" => self.make("port_pair", object),
            "graph" => self.make("service_graph", object),
            _ => {
                let path = collection(kind).unwrap_or_else(|| {
                    panic!("the matrix does not know how a {{{kind}}} is made: teach it here")
                });
                maker.create(&path, &self.attributes(kind, maker, mark))
            }
        }
    }

    /// The number of a path: of a chain whose ports are at the node.
    fn path(&self, maker: &Caller<'_>, mark: &str) -> String {
        let network = maker.create("/v2.0/networks", &json!({"name": mark}));
        let port = || {
            let device = format!("device{}", self.next());
            let port = json!({"network_id": network, "device_id": device});
            let port = maker.create("/v2.0/ports", &port);
            let place = json!({"port": {"binding:host_id": NODE,
                "binding:profile": {"netns": device, "interface": INTERFACE}}});
            let bound = self.admin.call("PUT", &format!("/v2.0/ports/{port}"), Some(&place));
            assert_eq!(bound.status, 200, "{bound:?}");
            port
        };
        let (source, function) = (port(), port());
        let pair = json!({"ingress": function, "egress": function});
        let pair = maker.create("/v2.0/sfc/port_pairs", &pair);
        let group = maker.create("/v2.0/sfc/port_pair_groups", &json!({"port_pairs": [pair]}));
        let classifier = json!({"logical_source_port": source});
        let classifier = maker.create("/v2.0/sfc/flow_classifiers", &classifier);
        let chain = json!({"name": mark, "port_pair_groups": [group],
                           "flow_classifiers": [classifier]});
        let chain = maker.create("/v2.0/sfc/port_chains", &chain);
        eventually("the chain's path", || {
            let paths = self.admin.call("GET", "/v1/paths", None).json();
            let path = paths.as_array()?.iter().find(|path| path["chain"] == chain.as_str())?;
            Some(path["path"].to_string())
        })
    }

    fn token(&self) -> Value {
        let name = format!("token {}", self.next());
        json!({"name": name, "project": "own", "role": "viewer"})
    }

    /// What makes one more of a kind, with what it needs made before.
    fn attributes(&self, kind: &str, maker: &Caller<'_>, mark: &str) -> Value {
        let make = |kind: &str| {
            maker.create(&collection(kind).unwrap(), &self.attributes(kind, maker, mark))
        };
        let number = self.next();
        let mut attributes = match kind {
            "subnet" => {
                let cidr = format!("10.{}.{}.0/24", number / 256, number % 256);
                json!({"network_id": make("network"), "cidr": cidr, "ip_version": 4})
            }
            "port" => json!({"network_id": make("network"), "device_id": format!("d{number}")}),
            "port_pair" => {
                let port = make("port");
                let encapsulation = json!({"correlation": "mpls"});
                json!({"ingress": port, "egress": port, "service_function_parameters": encapsulation})
            }
            "port_pair_group" => json!({"port_pairs": [make("port_pair")]}),
            "flow_classifier" => json!({"logical_source_port": make("port")}),
            "port_chain" => json!({"port_pair_groups": [make("port_pair_group")]}),
            "slice" => json!({"chain": make("port_chain"), "vni": number}),
            "service_graph" => json!({"port_chains": {make("port_chain"): [make("port_chain")]}}),
            _ => json!({}),
        };
        attributes["name"] = json!(format!("{mark} {number}"));
        attributes
    }

    /// A body that the route takes; none: it takes none.
    fn body(&self, route: &Route, maker: &Caller<'_>) -> Option<Value> {
        let plural = route.path.split('/').find(|part| part.ends_with('s') && *part != "sfc");
        let singular = plural.map(|plural| plural.trim_end_matches('s')).unwrap_or_default();
        match (route.method, route.path) {
            ("GET" | "DELETE", _) => None,
            _ if is_sent(route) => None,
            (_, "/v1/slices" | "/v1/slices/{slice}") => {
                let made = self.attributes("slice", maker, OWN_MARK);
                Some(made)
            }
            (_, "/v1/tokens") => Some(self.token()),
            (_, "/v1/bulk" | "/v1/plan" | "/v1/chains/{chain}/check") => Some(json!({})),
            (_, "/v1/explain") => Some(json!({"from": "nowhere", "packet": {"described": "udp"}})),
            ("PATCH", "/v1/nodes/{node}") => Some(json!({"is_edge": false})),
            ("PUT", "/v1/nodes/{node}/injected") => Some(json!([])),
            ("PATCH", "/v1/chains/{chain}") => Some(json!({"context": []})),
            ("PATCH", "/v1/functions/{function}") => Some(json!({"on_failure": "block"})),
            ("PUT", "/v1/functions/{function}") => Some(json!({"on_failure": "bypass"})),
            ("POST", "/v1/plan/{draft}/apply") => Some(json!({"plan": null, "wait": false})),
            ("POST", "/v1/plan/{draft}/placement") => {
                Some(json!({"chains": [self.object("chain", Object::Own)]}))
            }
            ("PATCH", "/v1/instances/{instance}") => Some(json!({"is_draining": false})),
            ("POST", path) if path.starts_with("/v2.0/") => {
                Some(json!({ singular: self.attributes(singular, maker, OWN_MARK) }))
            }
            ("PUT", "/v2.0/quotas/{project}") => Some(json!({"quota": {"network": -1}})),
            ("PUT", path) if path.starts_with("/v2.0/") => {
                Some(json!({ singular: {"description": "changed"} }))
            }
            _ => panic!("the matrix does not know what {route:?} takes: teach it here"),
        }
    }
}

/// A text that only one has, or nobody.
fn rule_set_of(object: Object) -> &'static str {
    match object {
        Object::Foreign => FOREIGN_MARK,
        Object::Own | Object::None => OWN_MARK,
        Object::Absent => "nobody has sent this",
    }
}

fn digest_of(object: Object) -> String {
    RuleSetDigest::of(rule_set_of(object)).to_string()
}

/// A new draft of somebody's.
fn draft_of(maker: &Caller<'_>) -> String {
    let made = maker.call("POST", "/v1/plan", Some(&json!({})));
    assert_eq!(made.status, 201, "{made:?}");
    made.json()["draft"].as_str().unwrap().to_owned()
}

/// The path under which a kind of networking-sfc is made.
fn collection(kind: &str) -> Option<String> {
    let end = format!("/{kind}s");
    let mut posts = routes().filter(|route| route.method == "POST" && route.path.ends_with(&end));
    posts.next().map(|route| route.path.to_owned())
}

/// Was it carried out, as far as it can be here?
fn is_done(route: &Route, answer: &Answer) -> bool {
    match (route.method, route.path) {
        ("GET", "/v1/chains/{chain}/receipt") => answer.text.contains("has no receipt"),
        // Whoever may is told that one object is not lines of them.
        ("POST", "/v1/bulk") => answer.status == 415,
        // The played agent tells its counters, whatever it is asked.
        (_, "/v1/nodes/{node}/slices" | "/v1/nodes/{node}/injected" | "/v1/nodes/{node}/dump") => {
            answer.text.contains("answered another question")
        }
        // It is somebody else's to run.
        ("GET", "/v1/functions/{function}/alerts") => {
            answer.status == 409 && answer.text.contains("does not come with Catena")
        }
        // It is connected.
        ("DELETE", "/v1/nodes/{node}") => {
            answer.status == 409 && answer.text.contains("is connected")
        }
        ("POST", "/v1/explain") => answer.status == 400 || answer.text.contains("port 'nowhere'"),
        _ => (200..300).contains(&answer.status),
    }
}

fn judge(route: &Route, expected: Expected, answer: &Answer) -> bool {
    let is_border = route.path.starts_with("/v2.0");
    match expected {
        Expected::Done => is_done(route, answer),
        Expected::Unauthenticated => {
            answer.status == 401 && answer.headers.contains_key("www-authenticate")
        }
        Expected::Forbidden => {
            let kind = if is_border { "PolicyNotAuthorized" } else { "Forbidden" };
            (answer.status, answer.kind().as_str()) == (403, kind)
        }
        Expected::NotFound => answer.status == 404 && !is_done(route, answer),
    }
}

#[test]
fn every_route_does_for_each_role_what_the_table_says_and_hides_what_is_foreign() {
    let data = tempfile::tempdir().unwrap();
    let controller = start(data.path(), Auth::Token);
    let state = State { links: vec![LINK.into()], ..State::default() };
    let _agent =
        FakeAgent::connect_running(&controller.data, NODE, 1, controller.southbound, state);
    let world = World::new(&controller);
    let nobody = Caller { controller: &controller, token: None };
    let mut callers = vec![(None, nobody)];
    for role in Role::ALL {
        let caller = world.admin.with_role(&format!("the {role}"), "own", role.name());
        callers.push((Some(role), caller));
    }
    // Something of the other's in every list.
    for route in routes() {
        if let Some(kind) = kind_of(&route) {
            world.object(kind, Object::Foreign);
        }
    }
    let mut faults = Vec::new();
    for route in routes() {
        let objects = match kind_of(&route) {
            None => vec![Object::None],
            // Every project has quotas.
            Some("project") => vec![Object::Own, Object::Foreign],
            Some(_) => vec![Object::Own, Object::Foreign, Object::Absent],
        };
        for (role, caller) in &callers {
            let mut hidden = BTreeSet::new();
            for &object in &objects {
                let expected = expected(&route, *role, object);
                let (path, id) = match kind_of(&route) {
                    None => (route.path.to_owned(), String::new()),
                    Some(kind) => {
                        if kind == "draft" {
                            // One that was opened a while ago is out of date or gone.
                            world.made.borrow_mut().remove(&(kind, object));
                        }
                        let id = match (kind, object, role) {
                            ("draft", Object::Own, Some(role)) if *role >= Role::Tenant => {
                                draft_of(caller)
                            }
                            _ => world.object(kind, object),
                        };
                        (route.path.replace(&format!("{{{kind}}}"), &id), id)
                    }
                };
                // Who is refused is so whatever he sends.
                let body = match expected {
                    Expected::Done | Expected::NotFound => world.body(&route, &world.owner),
                    _ => None,
                };
                let answer = match is_sent(&route) {
                    true => caller.send(&path, rule_set_of(object)),
                    false => caller.call(route.method, &path, body.as_ref()),
                };
                let case = format!("{} {} as {role:?}, {object:?}", route.method, route.path);
                if !judge(&route, expected, &answer) {
                    faults.push(format!("{case}: expected {expected:?}, got {answer:?}"));
                }
                if role.is_none_or(|role| role < Role::Operator)
                    && answer.text.contains(FOREIGN_MARK)
                {
                    faults.push(format!("{case}: it tells what is foreign: {}", answer.text));
                }
                if role.is_none_or(|role| role < Role::Operator)
                    && [NODE, INTERFACE].iter().any(|place| answer.text.contains(place))
                {
                    faults.push(format!("{case}: it tells where things run: {}", answer.text));
                }
                if expected == Expected::NotFound {
                    hidden.insert(answer.text.replace(&id, "ID"));
                }
                if (route.method, expected) == ("DELETE", Expected::Done) {
                    world.made.borrow_mut().remove(&(kind_of(&route).unwrap(), object));
                    world.lift_quotas();
                }
            }
            if hidden.len() > 1 {
                faults.push(format!("{route:?} as {role:?} tells foreign from absent: {hidden:?}"));
            }
        }
    }
    assert!(faults.is_empty(), "{} faults:\n{}", faults.len(), faults.join("\n"));
}

#[test]
fn lists_show_a_tenant_his_own_and_an_operator_everything() {
    let data = tempfile::tempdir().unwrap();
    let controller = start(data.path(), Auth::Token);
    let _agent = FakeAgent::connect(&controller.data, NODE, 1, controller.southbound);
    let world = World::new(&controller);
    let operator = world.admin.with_role("the operator", "elsewhere", "operator");
    let viewer = world.admin.with_role("the viewer", "own", "viewer");
    let mut lists = 0;
    for item in routes().filter(|route| route.method == "GET" && route.path.ends_with('}')) {
        let (path, kind) = (item.path.rsplit_once('/').unwrap().0, kind_of(&item).unwrap());
        let is_list = routes().any(|route| {
            let is_for_all = route.access <= Access::Least(Role::Viewer);
            route.method == "GET" && route.path == path && is_for_all
        });
        if !is_list || !is_tenants(kind) {
            continue;
        }
        lists += 1;
        let (own, foreign) = (world.object(kind, Object::Own), world.object(kind, Object::Foreign));
        let in_list = |id: String| if kind == "path" { format!("\"path\":{id},") } else { id };
        let (own, foreign) = (in_list(own), in_list(foreign));
        for (caller, sees_foreign) in [(&viewer, false), (&world.owner, false), (&operator, true)] {
            let answer = caller.call("GET", path, None);
            assert!(answer.text.contains(&own), "{path}: {answer:?}");
            assert_eq!(answer.text.contains(&foreign), sees_foreign, "{path}: {answer:?}");
        }
    }
    assert!(lists >= 10, "only {lists} lists were found");
}

#[test]
fn what_the_table_does_not_have_is_not_answered_and_what_the_documents_tell_is_in_it() {
    let data = tempfile::tempdir().unwrap();
    let controller = start(data.path(), Auth::Token);
    let admin = Caller::admin(&controller);
    let _agent = FakeAgent::connect(&controller.data, NODE, 1, controller.southbound);
    let world = World::new(&controller);
    let known: BTreeSet<(&str, &str)> = routes().map(|route| (route.method, route.path)).collect();
    for path in known.iter().map(|(_, path)| *path).collect::<BTreeSet<_>>() {
        let real = match kind_of(&Route { method: "GET", path, access: Access::Open }) {
            None => path.to_owned(),
            Some(kind) => path.replace(&format!("{{{kind}}}"), &world.object(kind, Object::Own)),
        };
        for method in ["GET", "POST", "PUT", "PATCH", "DELETE", "OPTIONS", "TRACE"] {
            if !known.contains(&(method, path)) {
                let answer = admin.call(method, &real, Some(&json!({})));
                assert!([404, 405].contains(&answer.status), "{method} {path}: {answer:?}");
            }
        }
    }
    for path in ["/v1", "/v1/secrets", "/v2.0/sfc", "/v2.0/sfc/secrets", "/v3", "/metrics/x", "/x"]
    {
        let answer = admin.call("GET", path, None);
        assert_eq!(answer.status, 404, "{path}: {answer:?}");
    }
    // The index of networking-sfc is made from its collections.
    let index = admin.call("GET", "/v2.0/", None).json();
    let (_, url) = controller.raw();
    for resource in index["resources"].as_array().unwrap() {
        let path = resource["links"][0]["href"].as_str().unwrap().strip_prefix(url).unwrap();
        let item = format!("{path}/{{{}}}", resource["name"].as_str().unwrap());
        for (method, path) in [("GET", path), ("POST", path), ("PUT", &item), ("DELETE", &item)] {
            assert!(known.contains(&(method, path)), "{method} {path} is not in the table");
        }
    }
}

#[test]
fn the_table_opens_nothing_that_must_be_shut() {
    for route in routes() {
        let least = match route.access {
            Access::Open => {
                assert_eq!((route.method, route.path), ("GET", "/"), "only the versions are open");
                continue;
            }
            Access::Least(least) => least,
        };
        assert!(route.method == "GET" || least >= Role::Tenant, "{route:?} lets a viewer change");
        let of_whom = [("/v1/tokens", Role::Admin), ("/v1/nodes", Role::Operator)];
        let overviews = ["/metrics", "/v1/status", "/v1/watch", "/v1/explain"];
        let overviews = overviews.map(|path| (path, Role::Operator));
        for (path, needed) in of_whom.into_iter().chain(overviews) {
            assert!(!route.path.starts_with(path) || least >= needed, "{route:?} asks too little");
        }
    }
}
