/* Repeats, at the ingress hook of ports and of the underlay, what the engine has decided for a flow, and at links
 * what it has decided for a port number. Decides nothing: what has no valid transform goes up to the engine, with a
 * tag that says why. */
#include "kernel.h"
#include "transform.h"
#include "parse.h"
#include "route.h"

/* Accounts there are; the table has them once for each processor. */
const volatile __u32 accounts_max = 1;
/* Links between which frames are passed on. */
const volatile __u32 places_max = 0;

struct {
	MAP_NUMBER(type, BPF_MAP_TYPE_LRU_HASH);
	MAP_NUMBER(max_entries, 1);
	MAP_TYPE(key, struct flow_key);
	MAP_TYPE(value, struct entry);
} flows SEC(".maps");

struct {
	MAP_NUMBER(type, BPF_MAP_TYPE_HASH);
	MAP_NUMBER(max_entries, PORT_NUMBER_MAX);
	MAP_TYPE(key, __u32);
	MAP_TYPE(value, struct port);
} ports SEC(".maps");

/* Addresses of the nodes whose tunnels lead here, and their numbers. */
struct {
	MAP_NUMBER(type, BPF_MAP_TYPE_HASH);
	MAP_NUMBER(max_entries, 16384);
	MAP_NUMBER(map_flags, BPF_F_NO_PREALLOC);
	MAP_TYPE(key, __u32);
	MAP_TYPE(value, __u32);
} sources SEC(".maps");

struct {
	MAP_NUMBER(type, BPF_MAP_TYPE_ARRAY);
	MAP_NUMBER(max_entries, 1);
	MAP_NUMBER(map_flags, BPF_F_MMAPABLE);
	MAP_TYPE(key, __u32);
	MAP_TYPE(value, struct slot);
} slots SEC(".maps");

struct {
	MAP_NUMBER(type, BPF_MAP_TYPE_ARRAY);
	MAP_NUMBER(max_entries, 1);
	MAP_NUMBER(map_flags, BPF_F_MMAPABLE);
	MAP_TYPE(key, __u32);
	MAP_TYPE(value, __u64);
} gates SEC(".maps");

/* Accounts and events: an array of each processor behind the other, so that no line of the cache
 * is written by two. */
struct {
	MAP_NUMBER(type, BPF_MAP_TYPE_ARRAY);
	MAP_NUMBER(max_entries, 1);
	MAP_NUMBER(map_flags, BPF_F_MMAPABLE);
	MAP_TYPE(key, __u32);
	MAP_TYPE(value, struct account);
} accounts SEC(".maps");

struct {
	MAP_NUMBER(type, BPF_MAP_TYPE_ARRAY);
	MAP_NUMBER(max_entries, EVENTS_COUNT);
	MAP_NUMBER(map_flags, BPF_F_MMAPABLE);
	MAP_TYPE(key, __u32);
	MAP_TYPE(value, __u64);
} events SEC(".maps");

struct {
	MAP_NUMBER(type, BPF_MAP_TYPE_ARRAY);
	MAP_NUMBER(max_entries, 1);
	MAP_NUMBER(map_flags, BPF_F_MMAPABLE);
	MAP_TYPE(key, __u32);
	MAP_TYPE(value, struct settings);
} settings SEC(".maps");

/* What of each port and of other nodes is on its way up, by number; 0: of all together. */
struct {
	MAP_NUMBER(type, BPF_MAP_TYPE_ARRAY);
	MAP_NUMBER(max_entries, UNDERLAY_NUMBER + 1 + UNDERLAY_SHARES);
	MAP_NUMBER(map_flags, BPF_F_MMAPABLE);
	MAP_TYPE(key, __u32);
	MAP_TYPE(value, struct queue);
} queues SEC(".maps");

/* By place of the link that brings, profile, and place of the link that is named. */
struct {
	MAP_NUMBER(type, BPF_MAP_TYPE_ARRAY);
	MAP_NUMBER(max_entries, 1);
	MAP_NUMBER(map_flags, BPF_F_MMAPABLE);
	MAP_TYPE(key, __u32);
	MAP_TYPE(value, struct transit);
} transits SEC(".maps");

/* Of each port number the place of its link and one, 0: it has none; and behind them by what is divided. */
struct {
	MAP_NUMBER(type, BPF_MAP_TYPE_ARRAY);
	MAP_NUMBER(max_entries, DIVISORS_FROM + PASSES_MAX);
	MAP_NUMBER(map_flags, BPF_F_MMAPABLE);
	MAP_TYPE(key, __u32);
	MAP_TYPE(value, __u64);
} numbers SEC(".maps");

enum { PORT_NSH = 4790, PORT_MPLS = 6635, PORT_NETWORK = 4789 };
enum { GPE_BYTES = 8, NSH_BYTES = 24, VXLAN_BYTES = 8, LABELS_BYTES = 8 };
/* Up to the end of the longest header that is read. */
enum { PLAIN_BYTES = ETHERNET_BYTES + IPV6_BYTES + TCP_BYTES };
enum { OUTER_BYTES = ETHERNET_BYTES + IPV4_BYTES + UDP_BYTES };
enum { TUNNEL_BYTES = OUTER_BYTES + GPE_BYTES + NSH_BYTES + PLAIN_BYTES };

/* Room that is made only to be taken away again. */
enum { SPARE_BYTES = 4 };

#define TYPE_SERVICE_VLAN SWAP16(0x88a8)
#define CAUSE_SHIFT 13

INLINE void count_event(__u32 event)
{
	__u32 row = bpf_get_smp_processor_id() * EVENTS_COUNT + event;
	__u64 *count = bpf_map_lookup_elem(&events, &row);

	if (count)
		*count += 1;
}

/* Where the packet leaves is noted in its control block too: BPF_PROG_TEST_RUN shows nothing else. */
INLINE void note_exit(struct __sk_buff *skb, __u32 ifindex, __u32 how)
{
	skb->cb[0] = ifindex;
	skb->cb[1] = how;
}

/* The queue of a port, if frames on their way up are counted. */
INLINE struct queue *queue_of(struct settings *all, __u32 number)
{
	return *(volatile __u32 *)&all->queue_frames ? bpf_map_lookup_elem(&queues, &number) : 0;
}

INLINE __s64 on_its_way(struct queue *queue)
{
	/* In this order: what is served was sent before. */
	__u64 served = *(volatile __u64 *)&queue->served;

	return *(volatile __u64 *)&queue->sent - served;
}

/* Takes a place among the frames on their way up; 0: the port has its share of them already. */
INLINE int take_place(struct __sk_buff *skb, struct settings *all, __u32 number)
{
	struct queue *own = queue_of(all, number), *every = queue_of(all, 0);
	__s64 free, weight;

	if (!own || !every)
		return 1;
	free = (__s64)all->queue_frames - on_its_way(every);
	weight = own->weight ? own->weight : 1;
	if (on_its_way(own) >= free * weight) {
		__sync_fetch_and_add(&own->refused_packets, skb->gso_segs ? skb->gso_segs : 1);
		__sync_fetch_and_add(&own->refused_bytes, skb->len);
		return 0;
	}
	__sync_fetch_and_add(&own->sent, 1);
	__sync_fetch_and_add(&every->sent, 1);
	return 1;
}

/* The frame does not go up after all. */
INLINE void leave_place(struct settings *all, __u32 number)
{
	struct queue *own = queue_of(all, number), *every = queue_of(all, 0);

	if (own && every) {
		__sync_fetch_and_add(&own->served, 1);
		__sync_fetch_and_add(&every->served, 1);
	}
}

/* Sends a frame that has a place up to the engine, as it came. */
INLINE int lift(struct __sk_buff *skb, struct settings *all, __u32 number, __u32 cause)
{
	__u32 control = number | cause << CAUSE_SHIFT;

	if (!all->punt_ifindex) {
		count_event(EVENT_SWALLOWED);
		return TC_ACT_SHOT;
	}
	if (bpf_skb_vlan_push(skb, TYPE_SERVICE_VLAN, control)) {
		count_event(EVENT_BROKEN);
		return TC_ACT_SHOT;
	}
	count_event(cause);
	if (number >= UNDERLAY_NUMBER)
		count_event(EVENT_FROM_UNDERLAY);
	note_exit(skb, all->punt_ifindex, control);
	return bpf_redirect(all->punt_ifindex, 0);
}

/* Sends the frame up to the engine, if its port has not its share on the way already. */
INLINE int punt(struct __sk_buff *skb, struct settings *all, __u32 number, __u32 cause)
{
	return take_place(skb, all, number) ? lift(skb, all, number, cause) : TC_ACT_SHOT;
}

/* Has nothing changed that these guards are for? Else the first slot that did is told. */
INLINE int is_valid(struct guard *guards, int count)
{
#pragma unroll
	for (int i = 0; i < count; i++) {
		struct guard *guard = &guards[i];
		struct slot *slot;

		if (!guard->slot)
			break;
		slot = bpf_map_lookup_elem(&slots, &guard->slot);
		if (!slot)
			return 0;
		if ((__u32)slot->epoch != guard->epoch) {
			__sync_fetch_and_add(&slot->stale, 1);
			return 0;
		}
	}
	return 1;
}

enum wait { MAY_PASS, MUST_WAIT, HAS_NO_PLACE };

/* Must the frame go up, so that it does not overtake those before it? Then it has a place and is
 * counted; what has no place must not be, for the engine would wait for it. */
INLINE enum wait must_wait(struct __sk_buff *skb, struct settings *all, __u32 port, __u64 *gate)
{
	if (gate && *(volatile __u64 *)gate & GATE_OPEN)
		return MAY_PASS;
	if (!take_place(skb, all, port))
		return HAS_NO_PLACE;
	/* The look and the count are one step: the gate may have been opened in between. */
	if (!gate || !(__sync_fetch_and_add(gate, 1) & GATE_OPEN))
		return MUST_WAIT;
	leave_place(all, port);
	return MAY_PASS;
}

INLINE void count_account(__u32 number, struct sight *sight)
{
	__u32 row = bpf_get_smp_processor_id() * accounts_max + number;
	struct account *account = bpf_map_lookup_elem(&accounts, &row);

	if (account) {
		account->packets += sight->packets;
		account->bytes += sight->bytes;
	}
}

/* Takes the outer headers off: the inner Ethernet header takes the place of the outer one. */
INLINE int trim(struct __sk_buff *skb, __u32 bytes, __u32 family)
{
	struct ethernet inner;
	__u64 flags = BPF_F_ADJ_ROOM_FIXED_GSO;

	/* What comes out is of the family of the outer packet unless the kernel is told. */
	if (family == 6)
		flags |= BPF_F_ADJ_ROOM_DECAP_L3_IPV6;
	if (bpf_skb_load_bytes(skb, bytes, &inner, sizeof(inner)))
		return -1;
	if (bpf_skb_adjust_room(skb, -(int)bytes, BPF_ADJ_ROOM_MAC, flags))
		return -1;
	return bpf_skb_store_bytes(skb, 0, &inner, sizeof(inner), 0);
}

/* Makes room in front of what came by a tunnel and is still marked as encapsulated: where the inner
 * headers begin is still right. The neighbour is asked for by the family that the kernel believes
 * the packet to be of, and only taking room away can tell it another. */
INLINE long make_room_again(struct __sk_buff *skb, __u32 bytes)
{
	__u32 spare = skb->protocol == TYPE_IPV6 ? SPARE_BYTES : 0;
	__u64 flags = BPF_F_ADJ_ROOM_FIXED_GSO;
	long refused = bpf_skb_adjust_room(skb, bytes + spare, BPF_ADJ_ROOM_MAC, flags);

	if (refused || !spare)
		return refused;
	return bpf_skb_adjust_room(skb, -SPARE_BYTES, BPF_ADJ_ROOM_MAC,
				   flags | BPF_F_ADJ_ROOM_DECAP_L3_IPV4);
}

/* Puts outer headers in front. */
INLINE int push_tunnel(struct __sk_buff *skb, struct entry *entry, struct operation *operation)
{
	struct {
		struct ethernet ethernet;
		struct ipv4 ip;
		struct udp udp;
	} __attribute__((packed, aligned(2))) outer;
	struct ethernet inner;
	__u32 length = operation->length, offset = operation->offset, total, sum, rest;
	__u64 flags = BPF_F_ADJ_ROOM_FIXED_GSO;
	__u8 *template;
	long refused;

	if (length <= IPV4_BYTES + UDP_BYTES || length > TEMPLATE_BYTES_MAX ||
	    offset >= TEMPLATE_BYTES_MAX)
		return -1;
	/* The table has as many bytes behind the template: no list can read beyond. */
	template = entry->transform.template + offset;
	if (bpf_skb_load_bytes(skb, 0, &inner, sizeof(inner)))
		return -1;
	total = length + skb->len;
	/* For segmentation the inner headers begin with Ethernet: its length alone is said here. */
	refused = bpf_skb_adjust_room(skb, length + ETHERNET_BYTES, BPF_ADJ_ROOM_MAC,
				      flags | BPF_F_ADJ_ROOM_ENCAP_L3_IPV4 |
					      BPF_F_ADJ_ROOM_ENCAP_L4_UDP |
					      BPF_F_ADJ_ROOM_ENCAP_L2_ETH |
					      BPF_F_ADJ_ROOM_ENCAP_L2(ETHERNET_BYTES));
	if (refused == -EALREADY)
		refused = make_room_again(skb, length + ETHERNET_BYTES);
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

/* Books the frame; nothing that follows can be refused. */
INLINE void finish(struct __sk_buff *skb, struct entry *entry, struct sight *sight,
		   struct operation *exit)
{
	entry->seen_ns = sight->now_ns;
	__sync_fetch_and_add(&entry->packets, sight->packets);
	__sync_fetch_and_add(&entry->bytes, sight->bytes);
	count_event(EVENT_HIT);
	note_exit(skb, exit->number, exit->kind);
}

/* Does what the list says. */
INLINE int execute(struct __sk_buff *skb, struct settings *all, __u32 number, struct entry *entry,
		   __u32 family, struct sight *sight)
{
	int i;

	for (i = 0; i < OPERATIONS_MAX; i++) {
		struct operation *operation = &entry->transform.operations[i];
		__u32 argument = operation->number, length = operation->length;

		switch (operation->kind) {
		case KIND_SET_DESTINATION:
			if (bpf_skb_store_bytes(skb, 0, operation->mac, sizeof(operation->mac), 0))
				goto refused;
			break;
		case KIND_TRIM:
			if (length < ETHERNET_BYTES || length > HEADER_BYTES_MAX ||
			    trim(skb, length, family))
				goto refused;
			break;
		case KIND_PUSH_TUNNEL:
			if (push_tunnel(skb, entry, operation))
				goto refused;
			break;
		case KIND_CLONE_TO:
			if (bpf_clone_redirect(skb, argument, 0))
				count_event(EVENT_CLONE_FAILED);
			break;
		case KIND_COUNT:
			count_account(argument, sight);
			break;
		case KIND_TRANSMIT:
			finish(skb, entry, sight, operation);
			return bpf_redirect(argument, 0);
		case KIND_HAND_OVER:
			finish(skb, entry, sight, operation);
			/* It was judged by the address of the interface on this side. */
			bpf_skb_change_type(skb, PACKET_HOST);
			return bpf_redirect_peer(argument, 0);
		case KIND_TRANSMIT_TO_NEIGHBOUR:
			finish(skb, entry, sight, operation);
			return bpf_redirect_neigh(argument, 0, 0, 0);
		default:
			goto refused;
		}
	}
refused:
	/* The kernel refuses to make or take room before it changes a byte: the engine can still do it. */
	if (i == 0)
		return punt(skb, all, number, EVENT_UNFIT);
	count_event(EVENT_BROKEN);
	return TC_ACT_SHOT;
}

/* Will the interface take frames of this length? It is asked once in a tick of the coarse clock for
 * each flow, or for a longer one: the question costs a tenth of a run. */
INLINE int is_taken(struct __sk_buff *skb, __u64 *seen_ns, __s32 *fitting, __u32 ifindex,
		    __s32 leaving, __u64 now_ns)
{
	__u32 mtu = 0;

	if (*(volatile __u64 *)seen_ns == now_ns && leaving <= *(volatile __s32 *)fitting)
		return 1;
	if (bpf_check_mtu(skb, ifindex, &mtu, 0, 0) < 0 ||
	    leaving > (__s32)(mtu + ETHERNET_BYTES))
		return 0;
	*fitting = leaving;
	return 1;
}

/* Can the transform be applied, and will the interface take what comes of it? */
INLINE int is_fit(struct __sk_buff *skb, struct entry *entry, __u8 protocol, struct sight *sight)
{
	struct transform *transform = &entry->transform;
	__u32 last = transform->operations_count - 1, longest = skb->len;
	__s32 leaving;

	if (sight->segment_bytes ? sight->segment_bytes > transform->segment_bytes_max :
				   skb->len > transform->frame_bytes_max)
		return 0;
	if (transform->flags & FLAG_UNTAGGED_ONLY && skb->vlan_present)
		return 0;
	if (last >= OPERATIONS_MAX)
		return 0;
	/* It may be a super-frame of TCP in a tunnel of its sender: no kernel cuts one in two tunnels, nor
	 * is the inner length known here. A row of datagrams could not be repeated behind the tunnel. */
	if (sight->segment_bytes && protocol == PROTOCOL_UDP && transform->flags & FLAG_PUSHES)
		return 0;
	/* Super-frames pass between ports whatever their segments; a tunnel must carry each. */
	if (sight->segment_bytes)
		longest = transform->flags & FLAG_PUSHES ? sight->segment_bytes : 0;
	leaving = longest ? (__s32)longest + transform->growth : 0;
	return is_taken(skb, &entry->seen_ns, &entry->fitting, transform->operations[last].number,
			leaving, sight->now_ns);
}

/* Repeats what was decided for the flow, or sends the frame up. */
INLINE int repeat(struct __sk_buff *skb, struct settings *all, __u32 number, struct flow_key *key,
		  struct sight *sight)
{
	struct entry *entry = bpf_map_lookup_elem(&flows, key);
	__u32 gate;

	if (!entry)
		return punt(skb, all, number, EVENT_MISS);
	if (!is_valid(entry->transform.guards, GUARDS_MAX))
		return punt(skb, all, number, EVENT_STALE);
	sight->now_ns = bpf_ktime_get_coarse_ns();
	if (!is_fit(skb, entry, key->protocol, sight))
		return punt(skb, all, number, EVENT_UNFIT);
	gate = entry->gate;
	switch (gate ? must_wait(skb, all, number, bpf_map_lookup_elem(&gates, &gate)) : MAY_PASS) {
	case HAS_NO_PLACE:
		return TC_ACT_SHOT;
	case MUST_WAIT:
		return lift(skb, all, number, EVENT_WAITING);
	case MAY_PASS:
		break;
	}
	return execute(skb, all, number, entry, key->family, sight);
}

SEC("classifier") int port(struct __sk_buff *skb)
{
	__u32 zero = 0, ifindex = skb->ifindex;
	struct settings *all = bpf_map_lookup_elem(&settings, &zero);
	struct port *port = bpf_map_lookup_elem(&ports, &ifindex);
	struct flow_key key = {};
	struct sight sight = {};

	if (!all || !port) {
		count_event(EVENT_SWALLOWED);
		return TC_ACT_SHOT;
	}
	if (all->is_off || port->is_watched)
		return punt(skb, all, port->number, EVENT_WATCHED);
	key.origin = ORIGIN_PORT;
	key.door = port->number;
	pull(skb, PLAIN_BYTES);
	if (!parse_frame(skb, 0, &key, &sight))
		return punt(skb, all, port->number, EVENT_UNKEYED);
	return repeat(skb, all, port->number, &key, &sight);
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

SEC("classifier") int underlay(struct __sk_buff *skb)
{
	__u32 zero = 0, number, shim, source;
	struct settings *all = bpf_map_lookup_elem(&settings, &zero);
	struct flow_key key = {};
	__u32 *sender;
	struct sight sight = {};
	struct ethernet *ethernet;
	struct ipv4 *ip;
	struct udp *udp;
	void *data_end;
	__u16 tunnel;

	if (!all || !all->underlay_address || skb->vlan_present)
		return TC_ACT_OK;
	pull(skb, TUNNEL_BYTES);
	ethernet = (void *)(long)skb->data;
	data_end = (void *)(long)skb->data_end;
	ip = (void *)(ethernet + 1);
	udp = (void *)(ip + 1);
	if ((void *)(udp + 1) > data_end || ethernet->type != TYPE_IPV4 ||
	    ip->version_and_length != 0x45 || ip->fragment & SWAP16(0x3fff) ||
	    ip->protocol != PROTOCOL_UDP || ip->destination != all->underlay_address)
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
	source = ip->source;
	/* Nodes whose addresses differ in their last bits have a share each, all strangers one. */
	number = UNDERLAY_NUMBER;
	sender = bpf_map_lookup_elem(&sources, &source);
	if (sender)
		number += 1 + (SWAP32(source) & (UNDERLAY_SHARES - 1));
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

#include "link.h"

char licence[] SEC("license") = "Dual BSD/GPL";
