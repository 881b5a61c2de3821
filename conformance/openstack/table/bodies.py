"""What all resources have in common: envelopes, methods, paths, owners, unknown ids (sections 1 and 3.1)."""
from .steps import NOTHING, PATHS, Scenario, Step, create, make, show, update

SFC = ["flow_classifier", "port_pair", "port_pair_group", "port_chain", "service_graph"]
# The least that each can be made of.
LEAST = {
    "flow_classifier": {},
    "port_pair": {"ingress": "$p1", "egress": "$p2"},
    "port_pair_group": {},
    "port_chain": {"port_pair_groups": ["$g"]},
    "service_graph": {"port_chains": {}},
}


def needs(resource):
    return [make("port_pair_group", "g")] if resource == "port_chain" else []


def scenarios():
    yield documents()
    for resource in SFC:
        yield envelopes(resource)
        yield owners(resource)
        yield unknown(resource)
        yield methods(resource)


def documents():
    get = lambda path, **more: Step(f"GET {path}", "GET", path, **more)
    steps = [
        get("/"),
        get("/v2.0", compare="count"), get("/v2.0/", compare="count"),
        *(get(f"/v2.0/extensions/{alias}") for alias in ("sfc", "flow_classifier", "service_graph", "networking-sfc-tap")),
        get("/v2.0/extensions/quotas"), get("/v2.0/extensions/quota_details"),
        get("/v2.0/extensions/nothing"), get("/v2.0/extensions/tag-ports-during-bulk-creation"),
        get("/v2.0/sfc"), get("/v2.0/sfc/"), get("/v2.0/nothing"), get("/v2.0/sfc/nothing"), get("/v2.0/sfc/nothing/$absent"),
        get("/v2.0/sfc/port_pairs.json"), get("/v2.0/sfc/port_pairs.xml"), get("/v2.0/sfc/port_pairs/"),
        get("/v2.0/sfc/port_pairs/$absent.json"), get("/v2.0/sfc/port_pairs/$absent/"),
        get("/v2.0/sfc/port_pairs/$absent/tags"),
        get("/v2.0/flow_classifiers"), get("/v2.0/sfc/flow-classifiers"), get("/v2.0/sfc/networks"),
        get("/v1.0/sfc/port_pairs"), get("/v3/sfc/port_pairs"),
        Step("POST /", "POST", "/", {}), Step("POST /v2.0/extensions", "POST", "/v2.0/extensions", {}),
        Step("PUT /v2.0/extensions/sfc", "PUT", "/v2.0/extensions/sfc", {}),
        Step("DELETE /v2.0/extensions/sfc", "DELETE", "/v2.0/extensions/sfc"),
    ]
    return Scenario("documents", steps)


def envelopes(resource):
    path, plural, least = PATHS[resource], resource + "s", LEAST[resource]
    post = lambda name, body=NOTHING, **more: Step(f"POST {name}", "POST", path, body, transient=True, **more)
    put = lambda name, body=NOTHING, **more: Step(f"PUT {name}", "PUT", f"{path}/$made", body, **more)
    steps = [
        post("no body"), post("empty body", b""), post("blank body", b"  "), post("broken JSON", b"{"),
        post("text after the JSON", b"{} x"), post("not UTF-8", b'{"\xff": 1}'), post("null", None), post("list", []),
        post("number", 5), post("text", "x"), post("empty object", {}), post("null inside", {resource: None}),
        post("text inside", {resource: "x"}), post("list inside", {resource: []}), post("number inside", {resource: 5}),
        post("empty object inside", {resource: {}}), post("other key", {"thing": least}),
        post("key beside", {resource: least, "thing": 1}),
        post("bulk of one", {plural: [least]}), post("bulk of two", {plural: [least, least]}),
        post("empty bulk", {plural: []}), post("bulk of null", {plural: None}), post("bulk of a text", {plural: "x"}),
        post("repeated key", b'{"%s": 5, "%s": {}}' % (resource.encode(), resource.encode())),
        post("bare attributes", {"name": "n"}),
        post("with charset", {resource: least}, headers={"Content-Type": "application/json; charset=utf-8"}),
        post("unknown attribute", {resource: {**least, "colour": "red"}}),
        post("two unknown attributes", {resource: {**least, "colour": "red", "size": 1}}),
        post("id", {resource: {**least, "id": "$absent"}}),
        post("status", {resource: {**least, "status": "ACTIVE"}}),
        post("revision_number", {resource: {**least, "revision_number": 1}}),
        post("tags", {resource: {**least, "tags": []}}),
        create(resource, "make", {**least, "name": "before"}, "made"),
        put("no body"), put("broken JSON", b"{"), put("null", None), put("list", []), put("empty object", {}),
        put("null inside", {resource: None}), put("text inside", {resource: "x"}), put("other key", {"thing": {}}),
        put("plural", {plural: [{}]}), put("unknown attribute", {resource: {"colour": "red"}}),
        put("id", {resource: {"id": "$made"}}), put("unknown and read-only", {resource: {"id": "$made", "colour": "red"}}),
        put("empty object inside", {resource: {}}), put("name", {resource: {"name": "after"}}),
        put("name and description", {resource: {"name": "a", "description": "b"}}),
        put("same again", {resource: {"name": "a", "description": "b"}}),
        show(resource, "show", "made"),
        Step("show with .json", "GET", f"{path}/$made.json"),
        Step("show one field", "GET", f"{path}/$made?fields=name"),
        Step("show two fields", "GET", f"{path}/$made?fields=name&fields=description"),
        Step("show an unknown field", "GET", f"{path}/$made?fields=colour"),
        Step("show tenant_id", "GET", f"{path}/$made?fields=tenant_id"),
        Step("delete with a body", "DELETE", f"{path}/$made", {}),
        Step("delete again", "DELETE", f"{path}/$made"),
        Step("show deleted", "GET", f"{path}/$made"),
        update(resource, "update deleted", "made", {"name": "x"}),
    ]
    return Scenario(f"{resource}/envelope", needs(resource) + steps)


def owners(resource):
    least = LEAST[resource]
    post = lambda case, **given: create(resource, f"POST {case}", {**least, **given}, transient=True)
    steps = [
        post("project_id", project_id="fake_project_id"), post("tenant_id", tenant_id="fake_project_id"),
        post("both", project_id="fake_project_id", tenant_id="fake_project_id"),
        post("both different", project_id="a", tenant_id="b"), post("too long", project_id="p" * 256),
        post("another's", project_id="other"), post("null", project_id=None), post("empty", project_id=""),
        create(resource, "make", least, "made"),
        update(resource, "PUT project_id", "made", {"project_id": "fake_project_id"}),
        update(resource, "PUT tenant_id", "made", {"tenant_id": "fake_project_id"}),
        update(resource, "PUT another's project_id", "made", {"project_id": "other"}),
    ]
    return Scenario(f"{resource}/owner", needs(resource) + steps)


def unknown(resource):
    path = PATHS[resource]
    steps = []
    for name, item in (("absent id", "$absent"), ("no uuid", "abc"), ("number", "5"), ("upper case", "0A0A0A0A-0B0B-4C0C-8D0D-0E0E0E0E0E0E"),
                       ("blank", "%20"), ("long", "x" * 300), ("percent", "%25"), ("unicode", "%C3%A9")):
        steps += [
            Step(f"GET {name}", "GET", f"{path}/{item}"),
            Step(f"PUT {name}", "PUT", f"{path}/{item}", {resource: {"name": "x"}}),
            Step(f"DELETE {name}", "DELETE", f"{path}/{item}"),
        ]
    steps.append(Step("PUT broken body of an absent id", "PUT", f"{path}/$absent", b"{"))
    steps.append(Step("PUT unknown attribute of an absent id", "PUT", f"{path}/$absent", {resource: {"colour": 1}}))
    return Scenario(f"{resource}/unknown", steps)


def methods(resource):
    path = PATHS[resource]
    steps = [Step(f"{method} collection", method, path, {}) for method in ("PUT", "PATCH", "DELETE")]
    steps += [Step(f"{method} item", method, f"{path}/$absent", {}) for method in ("PATCH", "POST")]
    steps += [Step("HEAD collection", "HEAD", path), Step("OPTIONS collection", "OPTIONS", path),
              Step("GET below an item", "GET", f"{path}/$absent/below"), Step("PUT below an item", "PUT", f"{path}/$absent/below", {})]
    return Scenario(f"{resource}/method", steps)
