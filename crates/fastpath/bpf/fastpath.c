/* Repeats, at the ingress hook of ports and of the underlay, what the engine has decided for a flow, and at links
 * what it has decided for a port number. Decides nothing: what has no valid transform goes up to the engine, with a
 * tag that says why. */
#include "kernel.h"
#include "transform.h"
#include "parse.h"
#include "route.h"
#include "tunnel.h"

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
	MAP_TYPE(key, struct address);
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

/* Up to the end of the longest header that is read. */
enum { PLAIN_BYTES = ETHERNET_BYTES + IPV6_BYTES + TCP_BYTES };

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
			    trim_tunnel(skb, length, family))
				goto refused;
			break;
		case KIND_TRIM_SEGMENTS:
			if (length < SEGMENTS_BYTES_MIN || length > HEADER_BYTES_MAX ||
			    trim_segments(skb, operation, family))
				goto refused;
			break;
		case KIND_PUSH_TUNNEL:
			if (push_tunnel(skb, &entry->transform, operation))
				goto refused;
			break;
		case KIND_PUSH_SEGMENTS:
			if (push_segments(skb, &entry->transform, operation))
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
	/* A super-frame, too, says its length. */
	if (transform->flags & FLAG_COUNTED &&
	    (__s32)skb->len + transform->growth > ETHERNET_BYTES + IPV6_BYTES + 0xffff)
		return 0;
	if (transform->flags & FLAG_UNMARKED_ONLY && is_marked(skb))
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

#include "underlay.h"
#include "link.h"

char licence[] SEC("license") = "Dual BSD/GPL";
