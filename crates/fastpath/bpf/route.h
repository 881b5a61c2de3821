/* From a frame on a source route to the port that it names, and what its header is behind this node. Stricter than the
 * engine: what is not plainly on its way over this node has no step, and the engine judges it. */
#ifndef CATENA_ROUTE_H
#define CATENA_ROUTE_H

#include "kernel.h"
#include "transform.h"
#include "parse.h"

#define TYPE_SOURCE_ROUTE SWAP16(0x88b5)
#define TYPE_RESIDUE_ROUTE SWAP16(0x88b6)
#define TYPE_LABELS SWAP16(0x8847)
#define TYPE_VLAN SWAP16(0x8100)

enum { TYPE_AT = 12, NATIVE_BYTES = 4, TYPE_BYTES = 2, LABEL_BYTES = 4, POLKA_BYTES = 5 };
enum { NATIVE_TAG = 1, NATIVE_PATH = 4, NATIVE_FLAGS = 7, POLKA_PATH = 4, ROUTE_VERSION = 1 };
enum { SAFE_PORTS = 9, CLASSIC_PORTS = 10, LABEL_TTL_MIN = 2, NUMBER_BYTES_MAX = 128 };
enum { PORT_LABELS_FROM = 0xfff00, PORT_LABELS_MASK = 0xfff00, BOTTOM = 0x100 };
enum { ROUTE_PORT_MAX = 255 };

/* What a node does with a frame: an octet of its header has another value, or its first label comes off. */
struct step {
	enum profile profile;
	/* The number of the port that it names. */
	__u32 port;
	/* Where the octet is, and its value. */
	__u32 at;
	__u8 value;
	/* Bytes that come off. */
	__u32 bytes;
};

INLINE int load(struct __sk_buff *skb, __u32 at, void *to, __u32 bytes)
{
	return !bpf_skb_load_bytes(skb, at, to, bytes);
}

/* Ports stand by position, of `width` bits each; the counter is the position of the next. */
INLINE int step_native(struct __sk_buff *skb, struct step *step)
{
	__u8 header[NATIVE_BYTES], octets[2];
	__u32 width, count, counter, flags, bit;

	if (skb->vlan_present || !load(skb, ETHERNET_BYTES, header, sizeof(header)))
		return 0;
	width = header[0] & 0xf;
	count = header[1];
	counter = header[2];
	flags = header[3];
	if (header[0] >> 4 != ROUTE_VERSION || (width != 4 && width != 6 && width != 8))
		return 0;
	if (flags & ~NATIVE_FLAGS || (flags & (NATIVE_TAG | NATIVE_PATH)) == NATIVE_TAG)
		return 0;
	if (!counter || counter > count)
		return 0;
	if (skb->len < ETHERNET_BYTES + NATIVE_BYTES + (count * width + 7) / 8 + TYPE_BYTES)
		return 0;
	bit = (counter - 1) * width;
	if (!load(skb, ETHERNET_BYTES + NATIVE_BYTES + bit / 8, octets, sizeof(octets)))
		return 0;
	step->profile = PROFILE_NATIVE;
	step->port = (octets[0] << 8 | octets[1]) >> (16 - width - bit % 8) & 0xff >> (8 - width);
	step->at = ETHERNET_BYTES + 2;
	step->value = counter - 1;
	return 1;
}

/* Ports stand in the destination, the VLAN identifier and the label, the counter is the time to live. */
INLINE int step_carrier(struct __sk_buff *skb, struct step *step)
{
	__u8 to[6];
	__u32 word, label, ttl, vlan = skb->vlan_tci & 0xfff;
	__u64 high, ports;

	if (skb->vlan_proto != TYPE_VLAN || !load(skb, 0, to, sizeof(to)) ||
	    !load(skb, ETHERNET_BYTES, &word, sizeof(word)))
		return 0;
	word = SWAP32(word);
	label = word >> 12;
	ttl = word & 0xff;
	/* Further labels are the engine's. */
	if (!(word & BOTTOM))
		return 0;
	high = (__u64)to[1] << 32 | (__u64)to[2] << 24 | to[3] << 16 | to[4] << 8 | to[5];
	step->at = ETHERNET_BYTES + LABEL_BYTES - 1;
	step->value = ttl - 1;
	if ((to[0] & 3) == 2 && (label & 0xf8000) == 0x80000 && vlan >= 1 && vlan <= 2048) {
		__u32 low = (vlan - 1) << 15 | (label & 0x7fff);

		if (ttl < 2 || ttl > SAFE_PORTS + 1)
			return 0;
		ports = ((__u64)(to[0] >> 2) << 40 | high) << 18 | low >> 8;
		step->profile = PROFILE_SAFE9;
		step->port = ttl == SAFE_PORTS + 1 ? low & 0xff : ports >> (64 - 8 * (ttl - 1)) & 0xff;
		return 1;
	}
	if (ttl < 1 || ttl > CLASSIC_PORTS)
		return 0;
	ports = ((__u64)to[0] << 40 | high) << 16 | vlan << 4 | label >> 16;
	step->profile = PROFILE_CLASSIC80;
	step->port = ttl > 8 ? label >> 8 * (CLASSIC_PORTS - ttl) & 0xff : ports >> (64 - 8 * ttl) & 0xff;
	return 1;
}

/* The first label names the port and comes off; the next gets its time to live, one less. */
INLINE int step_labels(struct __sk_buff *skb, struct step *step)
{
	__u32 word, label, ttl;

	if (!load(skb, ETHERNET_BYTES, &word, sizeof(word)) ||
	    skb->len < ETHERNET_BYTES + 2 * LABEL_BYTES)
		return 0;
	word = SWAP32(word);
	label = word >> 12;
	ttl = word & 0xff;
	if ((label & PORT_LABELS_MASK) != PORT_LABELS_FROM || word & BOTTOM || ttl < LABEL_TTL_MIN)
		return 0;
	step->profile = PROFILE_SR_MPLS;
	step->port = label & 0xff;
	/* Where it is when the first has come off. */
	step->at = ETHERNET_BYTES + LABEL_BYTES - 1;
	step->value = ttl - 1;
	step->bytes = LABEL_BYTES;
	return 1;
}

/* What a division of polynomials over two elements leaves, bit by bit. */
INLINE __u32 remainder_of(const __u8 *number, __u32 bytes, __u32 by, __u32 degree)
{
	__u32 left = 0;

	for (__u32 i = 0; i < NUMBER_BYTES_MAX && i < bytes; i++) {
		__u32 octet = number[i];

#pragma unroll
		for (int bit = 7; bit >= 0; bit--) {
			left = left << 1 | (octet >> bit & 1);
			left ^= by & -(left >> degree & 1);
		}
	}
	return left;
}

/* The port is what a division by this node's polynomial leaves, and the hop limit is one less. */
INLINE int step_polka(struct __sk_buff *skb, void *divisors, struct step *step)
{
	__u8 header[POLKA_BYTES], number[NUMBER_BYTES_MAX] = {};
	__u32 row, degree, hops, bytes;
	__u64 *by;

	if (skb->vlan_present || !load(skb, ETHERNET_BYTES, header, sizeof(header)))
		return 0;
	degree = header[1];
	hops = header[2];
	bytes = header[4];
	if (header[0] >> 4 != ROUTE_VERSION || (degree != 8 && degree != 16) ||
	    header[3] & ~POLKA_PATH || !hops)
		return 0;
	if (!bytes || bytes > NUMBER_BYTES_MAX || (degree == 16 && bytes & 1))
		return 0;
	if (!load(skb, ETHERNET_BYTES + POLKA_BYTES, number, bytes))
		return 0;
	row = DIVISORS_FROM + (header[0] & 0xf);
	by = bpf_map_lookup_elem(divisors, &row);
	if (!by || *by >> degree != 1)
		return 0;
	step->profile = PROFILE_POLKA;
	step->port = remainder_of(number, bytes, *by, degree);
	step->at = ETHERNET_BYTES + 2;
	step->value = hops - 1;
	return step->port <= ROUTE_PORT_MAX;
}

#endif
