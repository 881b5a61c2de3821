"""The book's list of every difference that the conformance tests know, made from `differences.toml`."""
import differential
import servers

PAGE = servers.HERE.parent.parent / "docs/book/src/reference/openstack-differences.md"
HEAD = """# Every known difference, request by request

Made from `conformance/openstack/differences.toml` by `conformance/openstack/run page --update`; do not edit it here.
How these were found: [Conformance](conformance.md). The short version for people: [Differences to networking-sfc](networking-sfc.md).

## Attributes

Good answers are equal in all attributes but these.

| Resource | Attribute | Difference | Reason |
|---|---|---|---|
"""
KINDS = {"value": "other value", "ours only": "only here", "theirs only": "only there"}


def cell(text):
    return text.replace("|", "\\|").replace("<", "\\<")


def text():
    document = differential.listed()
    lines = [f"| {row['resource']} | `{row['attribute']}` | {KINDS[row['kind']]} | {cell(row['reason'])} |"
             for row in document.get("attribute", [])]
    lines += ["", "## Requests", ""]
    for group in document.get("difference", []):
        lines += [f"{cell(group['reason'])}", "", "| Request | Catena | networking-sfc |", "|---|---|---|"]
        lines += [f"| {cell(request)} | {cell(ours)} | {cell(theirs)} |" for request, (ours, theirs) in group["requests"].items()]
        lines.append("")
    return HEAD + "\n".join(lines).rstrip() + "\n"


def faults(update):
    """Nothing when the page is as it would be made; `update` makes it so."""
    made = text()
    if update:
        PAGE.write_text(made)
    if PAGE.exists() and PAGE.read_text() == made:
        return []
    return [f"{PAGE.name} is not what differences.toml makes it; run conformance/openstack/run page --update"]
