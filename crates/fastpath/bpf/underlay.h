/* At the ingress hook of the underlay: what the kernels of other nodes have sent here, by tunnels and by segments. All
 * else is the host's, and the sockets'. */
#ifndef CATENA_UNDERLAY_H
#define CATENA_UNDERLAY_H

enum { PORT_NSH = 4790, PORT_MPLS = 6635, PORT_NETWORK = 4789 };
enum { GPE_BYTES = 8, NSH_BYTES = 24, VXLAN_BYTES = 8, LABELS_BYTES = 8 };
enum { TUNNEL_BYTES = OUTER_BYTES + GPE_BYTES + NSH_BYTES + PLAIN_BYTES };
enum { PROTOCOL_IPV4 = 4, PROTOCOL_IPV6 = 41, PROTOCOL_ROUTING = 43, ROUTING_SEGMENTS = 4 };
enum { CONGESTION_BITS = 3 };

/* The fixed part of a routing header (RFC 8754 section 2). */
struct routing {
	__u8 next_header;
	__u8 length;
	__u8 type;
	__u8 segments_left;
	__u8 last_entry;
	__u8 flags;
	__u16 tag;
} __attribute__((packed));

/* The number of the queue of what an address sends, and the number of its node, if it is one's. Nodes whose addresses
 * differ in their last bits have a share each, all strangers one. */
INLINE __u32 *sender_of(struct address *source, __u32 *number)
{
	__u32 *sender = bpf_map_lookup_elem(&sources, source);

	*number = UNDERLAY_NUMBER;
	if (sender)
		*number += 1 + (SWAP32(source->words[3]) & (UNDERLAY_SHARES - 1));
	return sender;
}

/* Reads what stands between UDP and the inner frame; answers its length, 0: no key. */
INLINE __u32 parse_shim(void *shim, void *data_end, __u16 tunnel, struct flow_key *key)
{
	__u32 *words = shim;
	__u32 first, second;

	if (shim + VXLAN_BYTES > data_end)
		return 0;
	first = SWAP32(words[0]);
	second = SWAP32(words[1]);
	switch (tunnel) {
	case PORT_NETWORK:
		if (!(first & 0x08000000))
			return 0;
		key->origin = ORIGIN_NETWORK_TUNNEL;
		key->door = second >> 8;
		return VXLAN_BYTES;
	case PORT_MPLS:
		/* The bottom of the stack is the second label. */
		if (first & 0x100 || !(second & 0x100))
			return 0;
		key->origin = ORIGIN_MPLS_TUNNEL;
		key->door = first >> 12;
		key->position = second;
		return LABELS_BYTES;
	default:
		/* VXLAN-GPE of version 0 with identifier and next protocol NSH, for users. */
		if ((first & 0x3d0000ff) != 0x0c000004 || shim + GPE_BYTES + NSH_BYTES > data_end)
			return 0;
		first = SWAP32(words[2]);
		second = SWAP32(words[3]);
		/* Version 0, not for operations, six words, MD type 1, then Ethernet. */
		if ((first & 0xe03f0fff) != 0x00060103)
			return 0;
		key->origin = ORIGIN_NSH_TUNNEL;
		key->door = second >> 8;
		key->position = (second & 0xff) << 8 | (first >> 22 & 0x3f);
		return GPE_BYTES + NSH_BYTES;
	}
}

/* What a tunnel has brought. */
INLINE int from_tunnel(struct __sk_buff *skb, struct settings *all)
{
	struct address source = { { 0, 0, SWAP32(0xffff), 0 } };
	__u32 number, shim, *sender;
	struct flow_key key = {};
	struct sight sight = {};
	struct ipv4 *ip;
	struct udp *udp;
	void *data_end;
	__u16 tunnel;

	ip = (void *)(long)skb->data + ETHERNET_BYTES;
	data_end = (void *)(long)skb->data_end;
	udp = (void *)(ip + 1);
	if ((void *)(udp + 1) > data_end || ip->version_and_length != 0x45 ||
	    ip->fragment & SWAP16(0x3fff) || ip->protocol != PROTOCOL_UDP ||
	    !all->underlay_address || ip->destination != all->underlay_address)
		return TC_ACT_OK;
	tunnel = SWAP16(udp->destination_port);
	if (tunnel != PORT_NSH && tunnel != PORT_MPLS && tunnel != PORT_NETWORK)
		return TC_ACT_OK;
	/* A kernel's path makes no checksum, an engine's socket does. What an engine has sent is left
	 * to the engine, so that what a kernel sends after it does not overtake it here. */
	if (udp->checksum) {
		count_event(EVENT_LEFT_TO_SOCKET);
		return TC_ACT_OK;
	}
	source.words[3] = ip->source;
	sender = sender_of(&source, &number);
	if (all->is_off)
		return punt(skb, all, number, EVENT_WATCHED);
	shim = parse_shim(udp + 1, data_end, tunnel, &key);
	/* Bytes behind the datagram would go on as if they were of the inner frame. Of a super-frame
	 * the outer lengths may be too large to be said. */
	if (!shim || (!skb->gso_size && SWAP16(ip->total_length) + ETHERNET_BYTES != skb->len) ||
	    (!skb->gso_size && SWAP16(udp->length) + ETHERNET_BYTES + IPV4_BYTES != skb->len) || !sender)
		return punt(skb, all, number, EVENT_UNKEYED);
	/* What one node may send, another may not. */
	key.sender = *sender;
	if (!parse_frame(skb, OUTER_BYTES + shim, &key, &sight))
		return punt(skb, all, number, EVENT_UNKEYED);
	/* What comes out of a tunnel keeps the kernel's mark of it, and by that mark the kernel cuts a
	 * row of datagrams in the wrong place: the engine makes it anew. */
	if (sight.segment_bytes && key.protocol == PROTOCOL_UDP)
		return punt(skb, all, number, EVENT_UNFIT);
	return repeat(skb, all, number, &key, &sight);
}

/* Reads the headers of segments and what of the packet behind them must agree; answers the bytes of both headers, 0: no
 * key. */
INLINE __u32 parse_segments(struct __sk_buff *skb, struct ipv6 *ip, void *data_end,
			    struct flow_key *key)
{
	struct routing *routing = (void *)(ip + 1);
	__u32 bytes = IPV6_BYTES + ROUTING_BYTES + (__u32)routing->length * 8, function, class;
	__u8 *inner;

	/* Nothing behind the list, and no list that a kernel could not have written. */
	if (bytes < SEGMENTS_BYTES_MIN || bytes > TEMPLATE_BYTES_MAX || routing->flags ||
	    routing->length != 2 * (routing->last_entry + 1) ||
	    routing->segments_left > routing->last_entry + 1)
		return 0;
	inner = (void *)ip + bytes;
	if ((void *)(inner + 2) > data_end)
		return 0;
	function = SWAP32(ip->destination[1]) & 0xffff;
	if ((function != SID_END && function != SID_END_DT46 && function != SID_END_DX2) ||
	    ip->destination[3] & SWAP32(0xffff))
		return 0;
	class = ((__u8 *)ip)[1] >> 4;
	if (routing->next_header == PROTOCOL_IPV4 ? (class ^ inner[1]) & CONGESTION_BITS :
						    (class ^ inner[1] >> 4) & CONGESTION_BITS)
		return 0;
	if (SWAP16(ip->payload_length) + IPV6_BYTES + ETHERNET_BYTES != skb->len)
		return 0;
	key->origin = ORIGIN_SEGMENTS;
	key->door = SWAP32(ip->destination[2]);
	key->position = (SWAP32(ip->destination[3]) & 0xffff0000) | bytes / 8 << 8 | ip->hop_limit;
	return bytes;
}

/* What segments have led here. */
INLINE int from_segments(struct __sk_buff *skb, struct settings *all)
{
	struct address source;
	struct flow_key key = {};
	struct sight sight = {};
	struct ipv6 *ip;
	struct routing *routing;
	__u32 number, bytes, *sender;
	void *data_end;
	__u16 type;

	pull(skb, TEMPLATE_BYTES_MAX + PLAIN_BYTES);
	ip = (void *)(long)skb->data + ETHERNET_BYTES;
	data_end = (void *)(long)skb->data_end;
	routing = (void *)(ip + 1);
	if ((void *)(routing + 1) > data_end || ip->version >> 4 != 6 ||
	    ip->next_header != PROTOCOL_ROUTING || !all->has_locator ||
	    ip->destination[0] != all->locator_high ||
	    (__u16)(SWAP32(ip->destination[1]) >> 16) != SWAP16(all->locator_low))
		return TC_ACT_OK;
	/* As of tunnels: what an engine has sent is left to the engine. */
	if (routing->type != ROUTING_SEGMENTS || routing->tag != SWAP16(KERNEL_TAG) ||
	    (routing->next_header != PROTOCOL_IPV4 && routing->next_header != PROTOCOL_IPV6)) {
		count_event(EVENT_LEFT_TO_SOCKET);
		return TC_ACT_OK;
	}
	type = routing->next_header == PROTOCOL_IPV4 ? TYPE_IPV4 : TYPE_IPV6;
	__builtin_memcpy(&source, ip->source, sizeof(source));
	sender = sender_of(&source, &number);
	if (all->is_off)
		return punt(skb, all, number, EVENT_WATCHED);
	bytes = parse_segments(skb, ip, data_end, &key);
	if (!bytes || !sender)
		return punt(skb, all, number, EVENT_UNKEYED);
	key.sender = *sender;
	/* The frame that is made of the packet begins so many bytes before it. */
	if (!parse_packet(skb, bytes, type, &key, &sight))
		return punt(skb, all, number, EVENT_UNKEYED);
	/* As of tunnels. */
	if (sight.segment_bytes && key.protocol == PROTOCOL_UDP)
		return punt(skb, all, number, EVENT_UNFIT);
	return repeat(skb, all, number, &key, &sight);
}

SEC("classifier") int underlay(struct __sk_buff *skb)
{
	__u32 zero = 0;
	struct settings *all = bpf_map_lookup_elem(&settings, &zero);
	struct ethernet *ethernet;

	/* What is another's on this link is seen where the interface is looked into. */
	if (!all || skb->vlan_present || skb->pkt_type != PACKET_HOST)
		return TC_ACT_OK;
	pull(skb, TUNNEL_BYTES);
	ethernet = (void *)(long)skb->data;
	if ((void *)(ethernet + 1) > (void *)(long)skb->data_end)
		return TC_ACT_OK;
	if (ethernet->type == TYPE_IPV4)
		return from_tunnel(skb, all);
	return ethernet->type == TYPE_IPV6 ? from_segments(skb, all) : TC_ACT_OK;
}

#endif
