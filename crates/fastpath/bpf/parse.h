/* From a frame to its key. Stricter than the engine: what is not plainly a whole unicast packet of
 * a flow has no key, and the engine judges it. */
#ifndef CATENA_PARSE_H
#define CATENA_PARSE_H

#include "kernel.h"
#include "transform.h"

enum { ETHERNET_BYTES = 14, IPV4_BYTES = 20, IPV6_BYTES = 40, UDP_BYTES = 8, TCP_BYTES = 20 };
enum { ICMP_BYTES = 8, VLAN_BYTES = 4 };
enum { PROTOCOL_ICMP = 1, PROTOCOL_TCP = 6, PROTOCOL_UDP = 17, PROTOCOL_ICMPV6 = 58 };
enum { ICMP_ECHO_REPLY = 0, ICMP_ECHO = 8, ICMPV6_ECHO = 128, ICMPV6_ECHO_REPLY = 129 };
enum { SEGMENTS_MAX = 2048 };

#define TYPE_IPV4 SWAP16(0x0800)
#define TYPE_IPV6 SWAP16(0x86dd)

struct ethernet {
	__u16 destination[3];
	__u16 source[3];
	__u16 type;
} __attribute__((packed));

struct ipv4 {
	__u8 version_and_length;
	__u8 traffic_class;
	__u16 total_length;
	__u16 identification;
	__u16 fragment;
	__u8 ttl;
	__u8 protocol;
	__u16 checksum;
	__u32 source;
	__u32 destination;
} __attribute__((packed));

struct ipv6 {
	__u8 version;
	__u8 rest[3];
	__u16 payload_length;
	__u8 next_header;
	__u8 hop_limit;
	__u32 source[4];
	__u32 destination[4];
} __attribute__((packed));

struct udp {
	__u16 source_port;
	__u16 destination_port;
	__u16 length;
	__u16 checksum;
} __attribute__((packed));

/* Of a node: an IPv4 address stands in the last word, as mapped (RFC 4291 section 2.5.5.2). */
struct address {
	__u32 words[4];
};

/* What is known of a frame besides its key. */
struct sight {
	__u32 packets;
	__u32 bytes;
	/* The longest wire packet of a super-frame, from the start of what entered; else zero. */
	__u32 segment_bytes;
	/* When its flow was found, by the coarse clock. */
	__u64 now_ns;
};

/* Makes the first bytes directly readable, as many as there are. */
INLINE void pull(struct __sk_buff *skb, __u32 bytes)
{
	if (bytes > skb->len)
		bytes = skb->len;
	/* Only then: it may copy the headers of a clone. */
	if ((void *)(long)skb->data + bytes > (void *)(long)skb->data_end)
		bpf_skb_pull_data(skb, bytes);
}

/* Reads the ports and answers the length of the transport header; 0: no key. */
INLINE __u32 parse_upper(void *upper, void *data_end, __u32 upper_bytes, struct flow_key *key)
{
	__u8 *bytes = upper;
	__u32 header;

	/* Every header below has eight bytes at least, and ports or identifier among them. */
	if (upper_bytes < UDP_BYTES || upper + UDP_BYTES > data_end)
		return 0;
	switch (key->protocol) {
	case PROTOCOL_TCP:
		if (upper + TCP_BYTES > data_end)
			return 0;
		header = (bytes[12] >> 4) * 4;
		if (header < TCP_BYTES || header > upper_bytes)
			return 0;
		break;
	case PROTOCOL_UDP:
		header = SWAP16(((struct udp *)upper)->length);
		if (header < UDP_BYTES || header > upper_bytes)
			return 0;
		header = UDP_BYTES;
		break;
	case PROTOCOL_ICMP:
		if (key->family != 4 || (bytes[0] != ICMP_ECHO && bytes[0] != ICMP_ECHO_REPLY))
			return 0;
		key->source_port = *(__u16 *)(upper + 4);
		return ICMP_BYTES;
	case PROTOCOL_ICMPV6:
		if (key->family != 6 || (bytes[0] != ICMPV6_ECHO && bytes[0] != ICMPV6_ECHO_REPLY))
			return 0;
		key->source_port = *(__u16 *)(upper + 4);
		return ICMP_BYTES;
	default:
		return 0;
	}
	key->source_port = ((struct udp *)upper)->source_port;
	key->destination_port = ((struct udp *)upper)->destination_port;
	return header;
}

INLINE int is_link_local_v4(__u32 address)
{
	return (address & SWAP32(0xffff0000)) == SWAP32(0xa9fe0000);
}

INLINE int is_link_local_v6(__u32 first_word)
{
	return (first_word & SWAP32(0xffc00000)) == SWAP32(0xfe800000);
}

/* Reads the packet of a frame that begins `base` bytes behind the start; 0: it has no key. */
INLINE int parse_packet(struct __sk_buff *skb, __u32 base, __u16 type, struct flow_key *key,
			struct sight *sight)
{
	void *data_end = (void *)(long)skb->data_end;
	void *network = (void *)(long)skb->data + base + ETHERNET_BYTES, *upper;
	__u32 frame = skb->len - base, tag = 0, packet, offset, header, end;

	if (type == TYPE_IPV4) {
		struct ipv4 *ip = network;

		upper = ip + 1;
		if (upper > data_end || ip->version_and_length != 0x45 ||
		    ip->fragment & SWAP16(0x3fff))
			return 0;
		packet = SWAP16(ip->total_length);
		offset = IPV4_BYTES;
		if (is_link_local_v4(ip->source) || is_link_local_v4(ip->destination) ||
		    (ip->destination & SWAP32(0xf0000000)) == SWAP32(0xe0000000) ||
		    ip->destination == 0xffffffff)
			return 0;
		key->family = 4;
		key->protocol = ip->protocol;
		*(__u32 *)key->source = ip->source;
		*(__u32 *)key->destination = ip->destination;
	} else if (type == TYPE_IPV6) {
		struct ipv6 *ip = network;

		upper = ip + 1;
		if (upper > data_end || ip->version >> 4 != 6)
			return 0;
		packet = IPV6_BYTES + SWAP16(ip->payload_length);
		offset = IPV6_BYTES;
		if (is_link_local_v6(ip->source[0]) || is_link_local_v6(ip->destination[0]) ||
		    (ip->destination[0] & SWAP32(0xff000000)) == SWAP32(0xff000000))
			return 0;
		key->family = 6;
		key->protocol = ip->next_header;
		__builtin_memcpy(key->source, ip->source, 32);
	} else {
		return 0;
	}
	end = ETHERNET_BYTES + packet;
	if (packet < offset || end > frame)
		return 0;
	header = parse_upper(upper, data_end, packet - offset, key);
	if (!header)
		return 0;
	header += ETHERNET_BYTES + offset;
	if (skb->vlan_present) {
		key->vlan = skb->vlan_tci;
		tag = VLAN_BYTES;
	}
	sight->packets = 1;
	sight->bytes = frame + tag;
	sight->segment_bytes = 0;
	if (skb->gso_size) {
		__u32 payload = end - header;

		if (key->protocol != PROTOCOL_TCP && key->protocol != PROTOCOL_UDP)
			return 0;
		/* A super-frame inside a tunnel is one packet up to its end; else it is a row of
		 * datagrams, which only the tunnel's socket can take apart. */
		if (base && end != frame)
			return 0;
		sight->packets = payload ? (payload - 1) / skb->gso_size + 1 : 1;
		if (sight->packets > SEGMENTS_MAX)
			return 0;
		sight->bytes = end + (sight->packets - 1) * header + sight->packets * tag;
		sight->segment_bytes = base + header + skb->gso_size;
	}
	return 1;
}

/* Reads the frame that begins `base` bytes behind the start; 0: it has no key. */
INLINE int parse_frame(struct __sk_buff *skb, __u32 base, struct flow_key *key, struct sight *sight)
{
	struct ethernet *ethernet = (void *)(long)skb->data + base;

	if ((void *)(ethernet + 1) > (void *)(long)skb->data_end ||
	    ethernet->destination[0] & SWAP16(0x0100))
		return 0;
	__builtin_memcpy(key->destination_mac, ethernet, 12);
	return parse_packet(skb, base, ethernet->type, key, sight);
}

#endif
