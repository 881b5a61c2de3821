/* At the ingress hook of a link between nodes: frames on source routes that only pass. They are known by the link, the
 * profile and the port number, and by nothing of a flow or a chain. All else that comes is the host's. */
#ifndef CATENA_LINK_H
#define CATENA_LINK_H

/* Takes the first label off. The kernel takes no bytes off behind an EtherType that is not IP, but it does take off
 * tags: one is put into the frame, behind it the label is made to look like another, and both come off. 0: done;
 * 1: nothing has been done; -1: it stopped half way. */
INLINE int pop_label(struct __sk_buff *skb)
{
	struct {
		__u16 type;
		__u16 tag;
		__u16 behind;
	} over = { TYPE_VLAN, SWAP16(1), TYPE_LABELS };

	if (bpf_skb_vlan_push(skb, TYPE_VLAN, 1))
		return 1;
	/* The second puts the first into the frame. */
	if (bpf_skb_vlan_push(skb, TYPE_VLAN, 1) ||
	    bpf_skb_store_bytes(skb, TYPE_AT + VLAN_BYTES, &over, sizeof(over), BPF_F_RECOMPUTE_CSUM))
		return -1;
	/* Each takes off the tag beside the frame, and puts the first one of the frame there. */
	return bpf_skb_vlan_pop(skb) || bpf_skb_vlan_pop(skb) || bpf_skb_vlan_pop(skb) ? -1 : 0;
}

/* What becomes of frames of this link with this step; none: the engine knows. */
INLINE struct transit *transit_of(__u32 link, struct step *step)
{
	__u64 *from = bpf_map_lookup_elem(&numbers, &link);
	__u64 *to = bpf_map_lookup_elem(&numbers, &step->port);
	struct transit *transit;
	__u32 row;

	if (!from || !to || !*from || !*to)
		return 0;
	row = ((__u32)(*from - 1) * PROFILES_COUNT + step->profile) * places_max + (__u32)(*to - 1);
	transit = bpf_map_lookup_elem(&transits, &row);
	return transit && transit->interface ? transit : 0;
}

/* Lets a frame pass, or sends it up. */
INLINE int pass_on(struct __sk_buff *skb, struct settings *all, struct port *port, struct step *step)
{
	struct transit *transit = transit_of(port->link, step);
	__u32 bytes = skb->len + (skb->vlan_present ? VLAN_BYTES : 0), number = port->number, exit;
	__u64 now_ns;
	int popped;

	if (!transit)
		return punt(skb, all, number, EVENT_MISS);
	if (!is_valid(transit->guards, sizeof(transit->guards) / sizeof(struct guard)))
		return punt(skb, all, number, EVENT_STALE);
	exit = *(volatile __u32 *)&transit->interface;
	now_ns = bpf_ktime_get_coarse_ns();
	if (!is_taken(skb, &transit->seen_ns, &transit->fitting, exit, skb->len - step->bytes, now_ns))
		return punt(skb, all, number, EVENT_UNFIT);
	switch (must_wait(skb, all, number, &transit->gate)) {
	case HAS_NO_PLACE:
		return TC_ACT_SHOT;
	case MUST_WAIT:
		return lift(skb, all, number, EVENT_WAITING);
	case MAY_PASS:
		break;
	}
	popped = step->bytes ? pop_label(skb) : 0;
	if (popped > 0)
		return punt(skb, all, number, EVENT_UNFIT);
	if (popped || bpf_skb_store_bytes(skb, step->at, &step->value, 1, BPF_F_RECOMPUTE_CSUM)) {
		count_event(EVENT_BROKEN);
		return TC_ACT_SHOT;
	}
	transit->seen_ns = now_ns;
	__sync_fetch_and_add(&transit->packets, 1);
	__sync_fetch_and_add(&transit->bytes, bytes);
	count_event(EVENT_HIT);
	note_exit(skb, exit, KIND_TRANSMIT);
	return bpf_redirect(exit, 0);
}

SEC("classifier") int link(struct __sk_buff *skb)
{
	__u32 zero = 0, ifindex = skb->ifindex;
	struct settings *all = bpf_map_lookup_elem(&settings, &zero);
	struct port *port = bpf_map_lookup_elem(&ports, &ifindex);
	struct step step = {};
	int has_step;
	__u16 type;

	/* Who asks next shall see all else: filters of the host, and its stack. */
	if (!all || !port || !load(skb, TYPE_AT, &type, sizeof(type)))
		return TC_ACT_UNSPEC;
	if (type != TYPE_SOURCE_ROUTE && type != TYPE_RESIDUE_ROUTE && type != TYPE_LABELS)
		return TC_ACT_UNSPEC;
	if (all->is_off || port->is_watched)
		return punt(skb, all, port->number, EVENT_WATCHED);
	/* Nobody segments what is behind a source route. */
	if (skb->gso_size)
		return punt(skb, all, port->number, EVENT_UNFIT);
	if (type == TYPE_SOURCE_ROUTE)
		has_step = step_native(skb, &step);
	else if (type == TYPE_RESIDUE_ROUTE)
		has_step = step_polka(skb, &numbers, &step);
	else if (skb->vlan_present)
		has_step = step_carrier(skb, &step);
	else
		has_step = step_labels(skb, &step);
	if (!has_step)
		return punt(skb, all, port->number, EVENT_UNKEYED);
	return pass_on(skb, all, port, &step);
}

#endif
