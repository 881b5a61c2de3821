/* Puts headers for other nodes in front of packets and takes them off, so that the kernel can still segment them. */
#ifndef CATENA_TUNNEL_H
#define CATENA_TUNNEL_H

#include "kernel.h"
#include "transform.h"
#include "parse.h"

enum { OUTER_BYTES = ETHERNET_BYTES + IPV4_BYTES + UDP_BYTES };
/* A routing header of one segment, and what stands before it. */
enum { ROUTING_BYTES = 8, SEGMENT_BYTES = 16 };
enum { SEGMENTS_BYTES_MIN = IPV6_BYTES + ROUTING_BYTES + SEGMENT_BYTES };
/* Room that is made only to be taken away again. */
enum { SPARE_BYTES = 4 };

/* Has a tunnel marked the packet, by which the kernel would segment it? Room for less than an Ethernet header is refused
 * in any case, of a marked packet for that reason. */
INLINE int is_marked(struct __sk_buff *skb)
{
	return bpf_skb_adjust_room(skb, 0, BPF_ADJ_ROOM_MAC,
				   BPF_F_ADJ_ROOM_FIXED_GSO | BPF_F_ADJ_ROOM_ENCAP_L3_IPV4 |
					   BPF_F_ADJ_ROOM_ENCAP_L4_UDP |
					   BPF_F_ADJ_ROOM_ENCAP_L2_ETH |
					   BPF_F_ADJ_ROOM_ENCAP_L2(ETHERNET_BYTES)) == -EALREADY;
}

/* Takes the outer headers off, behind which is a packet of this family: this Ethernet header takes their place. */
INLINE int trim(struct __sk_buff *skb, __u32 bytes, struct ethernet *ethernet, __u64 flags)
{
	if (bpf_skb_adjust_room(skb, -(int)bytes, BPF_ADJ_ROOM_MAC, flags | BPF_F_ADJ_ROOM_FIXED_GSO))
		return -1;
	return bpf_skb_store_bytes(skb, 0, ethernet, sizeof(*ethernet), 0);
}

/* Those of a tunnel: the inner Ethernet header takes the place of the outer one. */
INLINE int trim_tunnel(struct __sk_buff *skb, __u32 bytes, __u32 family)
{
	struct ethernet inner;

	if (bpf_skb_load_bytes(skb, bytes, &inner, sizeof(inner)))
		return -1;
	/* What comes out is of the family of the outer packet unless the kernel is told. */
	return trim(skb, bytes, &inner, family == 6 ? BPF_F_ADJ_ROOM_DECAP_L3_IPV6 : 0);
}

/* Those of segments, which bring no Ethernet header along. */
INLINE int trim_segments(struct __sk_buff *skb, struct operation *operation, __u32 family)
{
	struct ethernet made;

	__builtin_memcpy(made.destination, operation->mac, sizeof(made.destination));
	__builtin_memcpy(made.source, operation->mac, sizeof(made.source));
	made.type = family == 6 ? TYPE_IPV6 : TYPE_IPV4;
	return trim(skb, operation->length, &made,
		    family == 6 ? BPF_F_ADJ_ROOM_DECAP_L3_IPV6 : BPF_F_ADJ_ROOM_DECAP_L3_IPV4);
}

/* Makes room in front of what came by a tunnel and is still marked as encapsulated: where the inner
 * headers begin is still right. The neighbour is asked for by the family that the kernel believes
 * the packet to be of, and only taking room away can tell it another. */
INLINE long make_room_again(struct __sk_buff *skb, __u32 bytes, __u16 type)
{
	__u32 spare = skb->protocol != type ? SPARE_BYTES : 0;
	__u64 flags = BPF_F_ADJ_ROOM_FIXED_GSO;
	long refused = bpf_skb_adjust_room(skb, bytes + spare, BPF_ADJ_ROOM_MAC, flags);

	if (refused || !spare)
		return refused;
	flags |= type == TYPE_IPV6 ? BPF_F_ADJ_ROOM_DECAP_L3_IPV6 : BPF_F_ADJ_ROOM_DECAP_L3_IPV4;
	return bpf_skb_adjust_room(skb, -SPARE_BYTES, BPF_ADJ_ROOM_MAC, flags);
}

/* Puts outer headers in front. */
INLINE int push_tunnel(struct __sk_buff *skb, struct transform *transform,
		       struct operation *operation)
{
	struct {
		struct ethernet ethernet;
		struct ipv4 ip;
		struct udp udp;
	} __attribute__((packed, aligned(2))) outer;
	struct ethernet inner;
	__u32 length = operation->length, offset = operation->offset, total, sum, rest;
	__u8 *template;
	long refused;

	if (length <= IPV4_BYTES + UDP_BYTES || length > TEMPLATE_BYTES_MAX ||
	    offset >= TEMPLATE_BYTES_MAX)
		return -1;
	/* The table has as many bytes behind the template: no list can read beyond. */
	template = transform->template + offset;
	if (bpf_skb_load_bytes(skb, 0, &inner, sizeof(inner)))
		return -1;
	total = length + skb->len;
	/* For segmentation the inner headers begin with Ethernet: its length alone is said here. */
	refused = bpf_skb_adjust_room(skb, length + ETHERNET_BYTES, BPF_ADJ_ROOM_MAC,
				      BPF_F_ADJ_ROOM_FIXED_GSO | BPF_F_ADJ_ROOM_ENCAP_L3_IPV4 |
					      BPF_F_ADJ_ROOM_ENCAP_L4_UDP |
					      BPF_F_ADJ_ROOM_ENCAP_L2_ETH |
					      BPF_F_ADJ_ROOM_ENCAP_L2(ETHERNET_BYTES));
	if (refused == -EALREADY)
		refused = make_room_again(skb, length + ETHERNET_BYTES, TYPE_IPV4);
	if (refused)
		return -1;
	outer.ethernet = inner;
	outer.ethernet.type = TYPE_IPV4;
	__builtin_memcpy(&outer.ip, template, IPV4_BYTES + UDP_BYTES);
	/* A super-frame may be longer than the field can say; zero means «see for yourself». */
	if (total > 0xffff)
		total = 0;
	outer.ip.total_length = SWAP16(total);
	sum = (__u16)~outer.ip.checksum + (__u32)outer.ip.total_length;
	sum = (sum & 0xffff) + (sum >> 16);
	outer.ip.checksum = ~(__u16)sum;
	outer.udp.length = total ? SWAP16(total - IPV4_BYTES) : 0;
	if (bpf_skb_store_bytes(skb, 0, &outer, sizeof(outer), 0))
		return -1;
	rest = length - (IPV4_BYTES + UDP_BYTES);
	if (bpf_skb_store_bytes(skb, OUTER_BYTES, template + IPV4_BYTES + UDP_BYTES, rest, 0))
		return -1;
	return bpf_skb_store_bytes(skb, ETHERNET_BYTES + length, &inner, sizeof(inner), 0);
}

/* Puts segments between the Ethernet header and the packet, whose class they take over. */
INLINE int push_segments(struct __sk_buff *skb, struct transform *transform,
			 struct operation *operation)
{
	struct {
		struct ethernet ethernet;
		/* The first of the packet, then those of the header in front of it. */
		__u8 octets[4];
		__u16 payload_length;
	} __attribute__((packed, aligned(2))) start;
	__u32 length = operation->length, offset = operation->offset, class;
	__u8 *template;
	long refused;

	if (length < SEGMENTS_BYTES_MIN || length > TEMPLATE_BYTES_MAX ||
	    offset >= TEMPLATE_BYTES_MAX)
		return -1;
	/* As above. */
	template = transform->template + offset;
	if (bpf_skb_load_bytes(skb, 0, &start, sizeof(start)))
		return -1;
	refused = bpf_skb_adjust_room(skb, length, BPF_ADJ_ROOM_MAC,
				      BPF_F_ADJ_ROOM_FIXED_GSO | BPF_F_ADJ_ROOM_ENCAP_L3_IPV6);
	if (refused == -EALREADY)
		refused = make_room_again(skb, length, TYPE_IPV6);
	if (refused)
		return -1;
	if (bpf_skb_store_bytes(skb, ETHERNET_BYTES, template, length, 0))
		return -1;
	class = start.ethernet.type == TYPE_IPV6 ? (start.octets[0] << 4 | start.octets[1] >> 4) & 0xff :
						   start.octets[1];
	start.ethernet.type = TYPE_IPV6;
	start.octets[0] = 0x60 | class >> 4;
	start.octets[1] = class << 4 | (template[1] & 0xf);
	start.octets[2] = template[2];
	start.octets[3] = template[3];
	/* What it does not count was not fit. */
	start.payload_length = SWAP16(skb->len - ETHERNET_BYTES - IPV6_BYTES);
	return bpf_skb_store_bytes(skb, 0, &start, sizeof(start), 0);
}

#endif
