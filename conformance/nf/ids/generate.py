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


def main():
    what, where = sys.argv[1], pathlib.Path(sys.argv[2])
    for name, made in themes():
        if what == "rules":
            text = f"# Rules of the theme «{name}», made by generate.py.\n{VARIABLES}"
            (where / f"{name}.rules").write_text(text + "".join(one["rule"] + "\n" for one in made))
        else:
            with (where / f"{name}.jsonl").open("w") as file:
                for one in made:
                    for sequence in one["sequences"]:
                        file.write(json.dumps({"sid": one["watch"], **sequence}, separators=(",", ":")) + "\n")


if __name__ == "__main__":
    main()
