#!/usr/bin/env -S python3 -B
"""Makes the corpus: rules by theme, and for each a hostile talk, a benign one, and for each condition one that lacks
it alone. Usage: generate.py rules DIRECTORY (those in this folder are its), generate.py sequences DIRECTORY (what
judges hold rules against, a line of JSON a talk). The same at each call."""
import json
import pathlib
import random
import sys

import themes_bytes
import themes_state

# The time in which talks that are held together begin.
SPREAD_US = 1_000_000
VARIABLES = """ipvar HOME_NET [10.1.0.0/16,2001:db8:1::/48]
ipvar EXTERNAL_NET !$HOME_NET
ipvar SERVERS [10.1.2.0/24,!10.1.2.99,2001:db8:1:2::/64]
portvar WEB_PORTS [80,8080:8090,!8085]
portvar HIGH_PORTS 1024:
"""
# Each with the first of its numbers and how many of its rules, or pairs of rules, there are.
THEMES = {
    "payload": (themes_bytes.payload, 1_000_000, 170),
    "http": (themes_bytes.http, 1_010_000, 130),
    "packets": (themes_state.packets, 1_020_000, 110),
    "flows": (themes_state.flows, 1_030_000, 70),
    "counts": (themes_state.counts, 1_040_000, 60),
    "actions": (themes_state.actions, 1_050_000, 70),
}


def themes():
    for name, (make, first, number) in THEMES.items():
        drawn = random.Random(f"catena {name}")
        made = []
        while len(made) < number:
            made += make(drawn, first + len(made))
        yield name, made


def together(name, talks):
    """All talks of a theme, many of them at once; those from a port that is no client's own would meet."""
    drawn, packets = random.Random(f"together {name}"), []
    for talk in talks:
        later_us = drawn.randrange(SPREAD_US)
        if talk["of"] != "source port":
            packets += [[now_us + later_us, way, frame] for now_us, way, frame in talk["packets"]]
    packets.sort(key=lambda packet: packet[0])
    return {"sid": 0, "kind": "drawn", "of": "together", "alerts": None, "ends": None, "packets": packets}


def main():
    what, where = sys.argv[1], pathlib.Path(sys.argv[2])
    for name, made in themes():
        if what == "rules":
            text = f"# Rules of the theme «{name}», made by generate.py.\n{VARIABLES}"
            (where / f"{name}.rules").write_text(text + "".join(one["rule"] + "\n" for one in made))
        else:
            talks = [{"sid": one["watch"], **sequence} for one in made for sequence in one["sequences"]]
            written = "".join(json.dumps(talk, separators=(",", ":")) + "\n" for talk in talks)
            (where / f"{name}.jsonl").write_text(written)
            (where / f"{name}-together.jsonl").write_text(json.dumps(together(name, talks)) + "\n")


if __name__ == "__main__":
    main()
