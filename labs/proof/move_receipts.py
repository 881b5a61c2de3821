#!/usr/bin/env python3
"""Tells of a chain that moved among encapsulations under traffic, from the report of a lab: each move of the first
round through all of them, the receipt of one in full, and what captures say of all moves.

Links nothing of Catena, and judges nothing (update_proof.py has): it says what the controller's receipts and the proof
have.

Usage: move_receipts.py REPORT.json    (of a run of labs/srv6-moves.yaml)
Exit status 0 if nothing was lost, doubled or mixed, 1 if something was, 2 if it cannot be told.
"""

import json
import sys

FAMILIES = {"nsh": "NSH", "mpls": "MPLS", "source-route": "source routes", "srv6": "SRv6"}
NS_PER_MS = 1_000_000


class Untold(Exception):
    """A report that does not have what is to be told."""


def family(encapsulation):
    name = encapsulation.split("/")[0]
    return FAMILIES.get(name, name)


def first_round(update):
    """[(encapsulation before, change, its number)] until the chain is back where it began."""
    before, moves = update["first_encapsulation"], []
    for number, change in enumerate(update["changes"]):
        moves.append((before, change, number))
        before = change["encapsulation"]
        if before == update["first_encapsulation"]:
            break
    return moves


def milliseconds(change, moment):
    return (change[moment] - change["asked"]) / NS_PER_MS


def drained(receipt):
    """What a receipt says of the old paths."""
    parts = []
    for path in receipt["drained"]:
        lost = path["lost_in_function"] + path["lost_between_nodes"] + sum(path["dropped"].values())
        parts.append(f"{path['path']}: {path['proof']}, {path['in_flight']} in flight, {lost} lost")
    return "; ".join(parts)


def tell(report):
    """(lines, whether nothing was lost, doubled or mixed)"""
    runs = [run for run in report["evidence"]["runs"] if run.get("update") and run.get("update_proof")]
    if not runs:
        raise Untold("no chain of this lab has moved")
    update, proof = runs[0]["update"], runs[0]["update_proof"]
    moves = first_round(update)
    seen = dict.fromkeys(family(before) for before, _, _ in moves)
    lines = [f"'{update['chain']}' goes round {', '.join(seen)}: the first {len(moves)} of {proof['changes']} moves",
             f" {'from':<20} {'to':<20} {'in force':>10} {'old path empty':>15} {'packets before':>15} {'after':>6}"
             f"  receipt of the old path"]
    for before, change, number in moves:
        each = proof["each"][number]
        lines.append(f" {before:<20} {change['encapsulation']:<20} {milliseconds(change, 'answered'):>7.1f} ms "
                     f"{milliseconds(change, 'over'):>12.1f} ms {each['old']:>15} {each['new']:>6}  "
                     f"{drained(change['receipt'])}")
    before, change, _ = moves[0]
    lines.append(f"the receipt of the move from {before} to {change['encapsulation']}, as the controller gave it:")
    lines += [f"  {name}: {json.dumps(value)}" for name, value in change["receipt"].items()]
    wrong = {name: sum(run["update_proof"][name] for run in runs) for name in ("lost", "duplicated", "mixed")}
    sent, count = (sum(run["update_proof"][name] for run in runs) for name in ("sent", "changes"))
    told = ", ".join(f"{value} {name}" for name, value in wrong.items())
    lines.append(f"by captures, over all {count} moves: {sent} packets sent, {told}")
    return lines, not any(wrong.values())


def main(arguments):
    if len(arguments) != 1:
        print(__doc__, file=sys.stderr)
        return 2
    try:
        with open(arguments[0], encoding="utf-8") as file:
            lines, is_whole = tell(json.load(file))
    except KeyError as error:
        print(f"move_receipts.py: {arguments[0]} has no {error}", file=sys.stderr)
        return 2
    except (OSError, ValueError, TypeError, AttributeError, IndexError, Untold) as error:
        print(f"move_receipts.py: cannot be told: {error}", file=sys.stderr)
        return 2
    print("\n".join(lines))
    return 0 if is_whole else 1


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
