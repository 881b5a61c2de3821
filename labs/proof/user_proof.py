#!/usr/bin/env python3
"""Proves from captures that frames of 5G users went by the functions of their own tenant's chain, in
order, each once, unchanged.

Links nothing of Catena, and shares no code with what makes the frames. Reads classic pcap files taken
at the interfaces of both ends and inside the functions' own namespaces, and a JSON description:

    {"endpoints": {"gnb": {"transport": {"mac": "02:..", "pcap": "gnb.transport.pcap", "lost": 0}}},
     "functions": {"red1": {"transport": {...}}},
     "source": "gnb", "destination": "upf", "sent": 40,
     "tenants": [{"vni": 5001, "slices": 2, "qfi": null, "chain": [{"name": "red1",
                                                                   "direction": "same"}]}],
     "plain": {"port": 5001, "chain": [{"name": "red1", "direction": "same"}]},
     "mover": {"vni": 5001, "teids": [1073741824, 1073741825], "places": 4}}

`mover` is one user of a tenant that keeps its address and moves from tunnel to tunnel, and from one
end of a tunnel to another: so many places in all.

A frame's slice is told by the addresses in it alone: the network in VXLAN (RFC 7348), the tunnel and
the QoS flow in GTP-U (TS 29.281, TS 38.415), the address of the user in the innermost IP packet. Where
it was is told by the hardware addresses of the interfaces, when by the captures' clock and by the hop
limit. All that stands behind the outer Ethernet and IP headers is the frame's identity: a function
that changes a byte of it makes another frame, which then is missing somewhere.

Usage: user_proof.py DESCRIPTION.json OUTPUT.json
Exit status 0 if all is proved, 1 if not (with a list), 2 if it cannot be judged.
"""

import struct
import sys
from collections import defaultdict, namedtuple

import captures
from captures import Unreadable
from steering_proof import Sight, expected_spots, judge_packet

EXAMPLES_MAX = 50  # violations told in full; all are counted
UDP = 17
VXLAN_PORT, GTP_U_PORT = 4789, 2152
VNI_IS_VALID = 0x08
G_PDU = 255
HAS_EXTENSION, HAS_OPTIONS = 0x04, 0x07
PDU_SESSION = 0x85

# Whose frame it is: the network, the tunnel, the QoS flow or None, the user's own address, and the
# end of the tunnel.
User = namedtuple("User", "vni teid qfi address end")


def parse_ipv4(packet):
    """(hop limit, addresses, protocol, payload) of an IPv4 packet that is no fragment, or None."""
    if len(packet) < 20 or packet[0] >> 4 != 4:
        return None
    if struct.unpack("!H", packet[6:8])[0] & 0x3FFF:
        return None
    length = struct.unpack("!H", packet[2:4])[0]
    return packet[8], packet[12:20], packet[9], packet[(packet[0] & 0x0F) * 4:length]


def parse_udp(packet):
    """(hop limit, addresses, source port, destination port, payload), or None."""
    parsed = parse_ipv4(packet)
    if parsed is None or parsed[2] != UDP or len(parsed[3]) < 8:
        return None
    hops, addresses, _, datagram = parsed
    source, destination = struct.unpack("!HH", datagram[:4])
    return hops, addresses, source, destination, datagram[8:]


def parse_user(vxlan):
    """Whose frame it is, from VXLAN on; None if it is nobody's."""
    if len(vxlan) < 22 or not vxlan[0] & VNI_IS_VALID or vxlan[20:22] != captures.IPV4:
        return None
    vni = int.from_bytes(vxlan[4:7], "big")
    outer = parse_udp(vxlan[22:])
    if outer is None or outer[3] != GTP_U_PORT:
        return None
    gtp = outer[4]
    if len(gtp) < 8 or gtp[1] != G_PDU:
        return None
    teid = struct.unpack("!I", gtp[4:8])[0]
    at, qfi = 8, None
    if gtp[0] & HAS_OPTIONS:
        if len(gtp) < 12:
            return None
        kind, at = gtp[11] if gtp[0] & HAS_EXTENSION else 0, 12
        while kind:
            size = gtp[at] * 4 if at < len(gtp) else 0
            if not size or at + size > len(gtp):
                return None
            if kind == PDU_SESSION:
                qfi = gtp[at + 2] & 0x3F
            kind, at = gtp[at + size - 1], at + size
    inner = parse_ipv4(gtp[at:])
    return inner and User(vni, teid, qfi, inner[1][4:8], outer[1][4:8])


def read_sights(lab, folder, complain):
    """All sights of frames: {(outer addresses, datagram): [Sight]}."""
    def parse(frame):
        packet = parse_ipv4(frame[14:]) if frame[12:14] == captures.IPV4 else None
        return packet if packet and packet[2] == UDP else None

    sights = defaultdict(list)
    for at, (hops, addresses, _, datagram) in captures.frames(lab, folder, parse, complain):
        sights[(addresses, datagram)].append(
            Sight(at.time, at.node, at.network, at.direction, hops, len(datagram)))
    return sights


def chain_of(lab, datagram):
    """(the name of who sent it, its User or None, the functions it must take); None if it is none of
    this experiment's."""
    port = struct.unpack("!H", datagram[2:4])[0]
    if port == VXLAN_PORT:
        user = parse_user(datagram[8:])
        if user is None:
            return None
        for tenant in lab["tenants"]:
            if tenant["vni"] == user.vni:
                return f"network {user.vni}, tunnel {user.teid}", user, tenant["chain"]
        return f"network {user.vni}, which is no tenant's", user, []
    plain = lab.get("plain")
    if plain and port == plain["port"]:
        return "plain", None, plain["chain"]
    return None


def judge_users(lab, users, complain):
    """Each slice was seen, by the addresses that are its own; how many there were."""
    mover = lab.get("mover")
    if mover:
        moved = [user for user in users if (user.vni, user.teid) in tunnels_of(mover)]
        users = [user for user in users if (user.vni, user.teid) not in tunnels_of(mover)]
        judge_mover(mover, moved, complain)
    by_slice = defaultdict(set)
    for user in users:
        by_slice[(user.vni, user.teid)].add((user.qfi, user.address))
    owners = defaultdict(set)
    for (vni, teid), seen in by_slice.items():
        if len(seen) != 1:
            complain(f"network {vni}, tunnel {teid}: {len(seen)} users in one slice")
        for _, address in seen:
            owners[(vni, address)].add(teid)
    for (vni, address), teids in owners.items():
        if len(teids) != 1:
            complain(f"network {vni}: tunnels {sorted(teids)} carry one user, {address.hex()}")
    for tenant in lab["tenants"]:
        wanted = {(tenant["vni"], teid) for teid in range(1, tenant["slices"] + 1)}
        for vni, teid in sorted(wanted - set(by_slice))[:EXAMPLES_MAX]:
            complain(f"network {vni}, tunnel {teid}: no frame of it was seen")
        for (vni, teid), seen in by_slice.items():
            if vni == tenant["vni"] and {qfi for qfi, _ in seen} != {tenant["qfi"]}:
                complain(f"network {vni}, tunnel {teid}: its QoS flow is not {tenant['qfi']}")
    return len(by_slice)


def tunnels_of(mover):
    return {(mover["vni"], teid) for teid in mover["teids"]}


def judge_mover(mover, moved, complain):
    """One user was seen in all of its tunnels and at all of its places."""
    addresses = {user.address for user in moved}
    if len(addresses) != 1:
        complain(f"network {mover['vni']}: {len(addresses)} users moved, not one")
    for vni, teid in sorted(tunnels_of(mover) - {(user.vni, user.teid) for user in moved}):
        complain(f"network {vni}: the user that moves was never seen in tunnel {teid}")
    places = {(user.teid, user.end) for user in moved}
    if len(places) != mover["places"]:
        complain(f"network {mover['vni']}: the user that moves was seen at {len(places)} places, not "
                 f"at {mover['places']}")


def prove(lab, folder):
    """The verdict over all frames, as it goes into the output file."""
    violations, total = [], 0

    def complain(text):
        nonlocal total
        total += 1
        if len(violations) < EXAMPLES_MAX:
            violations.append(text)

    proved = plain = frames = 0
    users, spots = [], {}
    for (_, datagram), seen in read_sights(lab, folder, complain).items():
        found = chain_of(lab, datagram)
        if found is None:
            continue
        name, user, chain = found
        frames += 1
        key = tuple(step["name"] for step in chain)
        if key not in spots:
            ends = {"name": name, "source": lab["source"], "destination": lab["destination"]}
            spots[key] = expected_spots(lab, {**ends, "chain": chain})
        wrong = judge_packet(spots[key], seen)
        for _, text in wrong:
            complain(f"{name}: a frame {text}")
        proved += not wrong
        plain += user is None
        if user is not None:
            users.append(user)
    slices = judge_users(lab, users, complain)
    if frames != lab["sent"]:
        complain(f"{lab['sent']} frames were sent, {frames} different ones were seen")
    if lab.get("plain") and not plain:
        complain("no plain frame was seen")
    if not frames:
        raise Unreadable("no frame of the experiment is in any capture")
    return {"ok": not total, "frames": frames, "proved": proved, "plain": plain, "slices": slices,
            "violation_count": total, "violations": violations}


def main(arguments):
    return captures.run(arguments, __doc__, prove)


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
