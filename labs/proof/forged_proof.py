"""Did a frame that nobody may send come anywhere?

    forged_proof.py FORGED.json VERDICT.json

Reads the captures of whatever came in at links, from the data network, and at endpoints and functions, while frames
with a marker were put where nobody may send any. Each capture must be whole and have none of them; but where they were
put into a cable, and where nodes between pass them on until one checks them, they must be seen as they came, all of
them, and no further: by that the captures show that they see such frames.
Knows pcap files and the marker; refuses to know headers. Links nothing of Catena.
"""

import json
import os
import struct
import sys

from captures import Unreadable, Verdict, read


def frames(path):
    """Yields the bytes of each frame of a capture."""
    data, order, _ = read(path)
    head, at = struct.Struct(order + "IIII").unpack_from, 24
    while at < len(data):
        if at + 16 > len(data):
            raise Unreadable(f"{path}: ends inside a packet header")
        _, _, kept, _ = head(data, at)
        at += 16
        if at + kept > len(data):
            raise Unreadable(f"{path}: ends inside a packet")
        yield data[at:at + kept]
        at += kept


def judge(told, folder):
    """The verdict on what was told."""
    marker, verdict = bytes.fromhex(told["marker"]), Verdict()
    entrances = {(one["node"], one["interface"]): one["frames"] for one in told["entrances"]}
    elsewhere, all_frames = 0, 0
    for capture in told["captures"]:
        place = (capture["node"], capture["interface"])
        name = "{}:{}".format(*place)
        if capture["lost"]:
            verdict.complain("lost", f"{name}: the capture lost {capture['lost']} frames, and shows nothing")
        count = 0
        for frame in frames(os.path.join(folder, capture["pcap"])):
            all_frames += 1
            count += marker in frame
        wanted = entrances.pop(place, None)
        if wanted is None:
            elsewhere += count
            if count:
                verdict.complain("elsewhere", f"{name}: {count} forged frames came in")
        elif count != wanted:
            verdict.complain("unseen", f"{name}: {count} of {wanted} forged frames were seen as they came")
    for place in entrances:
        verdict.complain("unseen", "{}:{}: was not captured".format(*place))
    if not told["entrances"]:
        verdict.complain("unseen", "no capture shows that it sees such frames")
    return {"ok": not verdict.counts, "captures": len(told["captures"]), "frames": all_frames,
            "elsewhere": elsewhere, "lost": verdict.counts["lost"], "violation_count": sum(verdict.counts.values()), "violations": verdict.examples}


def main(arguments):
    if len(arguments) != 3:
        print(__doc__, file=sys.stderr)
        return 2
    try:
        with open(arguments[1], encoding="utf-8") as file:
            told = json.load(file)
        verdict = judge(told, os.path.dirname(os.path.abspath(arguments[1])))
    except (OSError, ValueError, KeyError, Unreadable) as error:
        print(f"{type(error).__name__}: {error}", file=sys.stderr)
        return 2
    with open(arguments[2], "w", encoding="utf-8") as file:
        json.dump(verdict, file, indent=1)
    return 0 if verdict["ok"] else 1


if __name__ == "__main__":
    sys.exit(main(sys.argv))
