/* Made from the Rust types of this crate by `cargo xtask gen`: change those. */
#ifndef CATENA_TRANSFORM_H
#define CATENA_TRANSFORM_H

#define OPERATIONS_MAX 12
#define GUARDS_MAX 4
#define TEMPLATE_BYTES_MAX 128
#define HEADER_BYTES_MAX 200
#define FLAG_UNTAGGED_ONLY 1
#define FLAG_PUSHES 2
#define FLAG_UNMARKED_ONLY 4
#define FLAG_COUNTED 8
#define SID_END 1
#define SID_END_DT46 20
#define SID_END_DX2 21
#define KERNEL_TAG 1
#define PORT_NUMBER_MAX 4030
#define UNDERLAY_NUMBER 4031
#define UNDERLAY_SHARES 64
#define EVENTS_COUNT 12
#define PROFILES_COUNT 5
#define PASSES_MAX 16
#define DIVISORS_FROM 256
#define GATE_OPEN 0x8000000000000000ULL

enum origin {
	ORIGIN_PORT = 1,
	ORIGIN_NSH_TUNNEL = 2,
	ORIGIN_MPLS_TUNNEL = 3,
	ORIGIN_NETWORK_TUNNEL = 4,
	ORIGIN_SEGMENTS = 5,
};

enum kind {
	KIND_SET_DESTINATION = 1,
	KIND_TRIM = 2,
	KIND_PUSH_TUNNEL = 3,
	KIND_CLONE_TO = 4,
	KIND_COUNT = 5,
	KIND_TRANSMIT = 6,
	KIND_HAND_OVER = 7,
	KIND_TRANSMIT_TO_NEIGHBOUR = 8,
	KIND_PUSH_SEGMENTS = 9,
	KIND_TRIM_SEGMENTS = 10,
};

enum profile {
	PROFILE_NATIVE = 0,
	PROFILE_SAFE9 = 1,
	PROFILE_CLASSIC80 = 2,
	PROFILE_SR_MPLS = 3,
	PROFILE_POLKA = 4,
};

enum event {
	EVENT_HIT = 0,
	EVENT_MISS = 1,
	EVENT_STALE = 2,
	EVENT_WAITING = 3,
	EVENT_UNKEYED = 4,
	EVENT_UNFIT = 5,
	EVENT_WATCHED = 6,
	EVENT_BROKEN = 7,
	EVENT_CLONE_FAILED = 8,
	EVENT_SWALLOWED = 9,
	EVENT_LEFT_TO_SOCKET = 10,
	EVENT_FROM_UNDERLAY = 11,
};

struct flow_key {
	__u8 origin;
	__u8 family;
	__u8 protocol;
	__u8 reserved;
	__u32 door;
	__u32 position;
	__u16 vlan;
	__u16 sender;
	__u8 source[16];
	__u8 destination[16];
	__u16 source_port;
	__u16 destination_port;
	__u8 destination_mac[6];
	__u8 source_mac[6];
};
_Static_assert(sizeof(struct flow_key) == 64, "flow_key");
_Static_assert(__builtin_offsetof(struct flow_key, origin) == 0 && sizeof(((struct flow_key *)0)->origin) == 1, "flow_key.origin");
_Static_assert(__builtin_offsetof(struct flow_key, family) == 1 && sizeof(((struct flow_key *)0)->family) == 1, "flow_key.family");
_Static_assert(__builtin_offsetof(struct flow_key, protocol) == 2 && sizeof(((struct flow_key *)0)->protocol) == 1, "flow_key.protocol");
_Static_assert(__builtin_offsetof(struct flow_key, reserved) == 3 && sizeof(((struct flow_key *)0)->reserved) == 1, "flow_key.reserved");
_Static_assert(__builtin_offsetof(struct flow_key, door) == 4 && sizeof(((struct flow_key *)0)->door) == 4, "flow_key.door");
_Static_assert(__builtin_offsetof(struct flow_key, position) == 8 && sizeof(((struct flow_key *)0)->position) == 4, "flow_key.position");
_Static_assert(__builtin_offsetof(struct flow_key, vlan) == 12 && sizeof(((struct flow_key *)0)->vlan) == 2, "flow_key.vlan");
_Static_assert(__builtin_offsetof(struct flow_key, sender) == 14 && sizeof(((struct flow_key *)0)->sender) == 2, "flow_key.sender");
_Static_assert(__builtin_offsetof(struct flow_key, source) == 16 && sizeof(((struct flow_key *)0)->source) == 16, "flow_key.source");
_Static_assert(__builtin_offsetof(struct flow_key, destination) == 32 && sizeof(((struct flow_key *)0)->destination) == 16, "flow_key.destination");
_Static_assert(__builtin_offsetof(struct flow_key, source_port) == 48 && sizeof(((struct flow_key *)0)->source_port) == 2, "flow_key.source_port");
_Static_assert(__builtin_offsetof(struct flow_key, destination_port) == 50 && sizeof(((struct flow_key *)0)->destination_port) == 2, "flow_key.destination_port");
_Static_assert(__builtin_offsetof(struct flow_key, destination_mac) == 52 && sizeof(((struct flow_key *)0)->destination_mac) == 6, "flow_key.destination_mac");
_Static_assert(__builtin_offsetof(struct flow_key, source_mac) == 58 && sizeof(((struct flow_key *)0)->source_mac) == 6, "flow_key.source_mac");

struct guard {
	__u32 slot;
	__u32 epoch;
};
_Static_assert(sizeof(struct guard) == 8, "guard");
_Static_assert(__builtin_offsetof(struct guard, slot) == 0 && sizeof(((struct guard *)0)->slot) == 4, "guard.slot");
_Static_assert(__builtin_offsetof(struct guard, epoch) == 4 && sizeof(((struct guard *)0)->epoch) == 4, "guard.epoch");

struct operation {
	__u8 kind;
	__u8 length;
	__u16 offset;
	__u32 number;
	__u8 mac[6];
	__u16 reserved;
};
_Static_assert(sizeof(struct operation) == 16, "operation");
_Static_assert(__builtin_offsetof(struct operation, kind) == 0 && sizeof(((struct operation *)0)->kind) == 1, "operation.kind");
_Static_assert(__builtin_offsetof(struct operation, length) == 1 && sizeof(((struct operation *)0)->length) == 1, "operation.length");
_Static_assert(__builtin_offsetof(struct operation, offset) == 2 && sizeof(((struct operation *)0)->offset) == 2, "operation.offset");
_Static_assert(__builtin_offsetof(struct operation, number) == 4 && sizeof(((struct operation *)0)->number) == 4, "operation.number");
_Static_assert(__builtin_offsetof(struct operation, mac) == 8 && sizeof(((struct operation *)0)->mac) == 6, "operation.mac");
_Static_assert(__builtin_offsetof(struct operation, reserved) == 14 && sizeof(((struct operation *)0)->reserved) == 2, "operation.reserved");

struct transform {
	struct guard guards[4];
	__u32 frame_bytes_max;
	__u32 segment_bytes_max;
	__u8 operations_count;
	__u8 flags;
	__u16 template_bytes;
	__s32 growth;
	__u8 template[128];
	struct operation operations[12];
};
_Static_assert(sizeof(struct transform) == 368, "transform");
_Static_assert(__builtin_offsetof(struct transform, guards) == 0 && sizeof(((struct transform *)0)->guards) == 32, "transform.guards");
_Static_assert(__builtin_offsetof(struct transform, frame_bytes_max) == 32 && sizeof(((struct transform *)0)->frame_bytes_max) == 4, "transform.frame_bytes_max");
_Static_assert(__builtin_offsetof(struct transform, segment_bytes_max) == 36 && sizeof(((struct transform *)0)->segment_bytes_max) == 4, "transform.segment_bytes_max");
_Static_assert(__builtin_offsetof(struct transform, operations_count) == 40 && sizeof(((struct transform *)0)->operations_count) == 1, "transform.operations_count");
_Static_assert(__builtin_offsetof(struct transform, flags) == 41 && sizeof(((struct transform *)0)->flags) == 1, "transform.flags");
_Static_assert(__builtin_offsetof(struct transform, template_bytes) == 42 && sizeof(((struct transform *)0)->template_bytes) == 2, "transform.template_bytes");
_Static_assert(__builtin_offsetof(struct transform, growth) == 44 && sizeof(((struct transform *)0)->growth) == 4, "transform.growth");
_Static_assert(__builtin_offsetof(struct transform, template) == 48 && sizeof(((struct transform *)0)->template) == 128, "transform.template");
_Static_assert(__builtin_offsetof(struct transform, operations) == 176 && sizeof(((struct transform *)0)->operations) == 192, "transform.operations");

struct entry {
	__u32 gate;
	__s32 fitting;
	__u64 seen_ns;
	__u64 packets;
	__u64 bytes;
	struct transform transform;
};
_Static_assert(sizeof(struct entry) == 400, "entry");
_Static_assert(__builtin_offsetof(struct entry, gate) == 0 && sizeof(((struct entry *)0)->gate) == 4, "entry.gate");
_Static_assert(__builtin_offsetof(struct entry, fitting) == 4 && sizeof(((struct entry *)0)->fitting) == 4, "entry.fitting");
_Static_assert(__builtin_offsetof(struct entry, seen_ns) == 8 && sizeof(((struct entry *)0)->seen_ns) == 8, "entry.seen_ns");
_Static_assert(__builtin_offsetof(struct entry, packets) == 16 && sizeof(((struct entry *)0)->packets) == 8, "entry.packets");
_Static_assert(__builtin_offsetof(struct entry, bytes) == 24 && sizeof(((struct entry *)0)->bytes) == 8, "entry.bytes");
_Static_assert(__builtin_offsetof(struct entry, transform) == 32 && sizeof(((struct entry *)0)->transform) == 368, "entry.transform");

struct slot {
	__u64 epoch;
	__u64 stale;
};
_Static_assert(sizeof(struct slot) == 16, "slot");
_Static_assert(__builtin_offsetof(struct slot, epoch) == 0 && sizeof(((struct slot *)0)->epoch) == 8, "slot.epoch");
_Static_assert(__builtin_offsetof(struct slot, stale) == 8 && sizeof(((struct slot *)0)->stale) == 8, "slot.stale");

struct account {
	__u64 packets;
	__u64 bytes;
};
_Static_assert(sizeof(struct account) == 16, "account");
_Static_assert(__builtin_offsetof(struct account, packets) == 0 && sizeof(((struct account *)0)->packets) == 8, "account.packets");
_Static_assert(__builtin_offsetof(struct account, bytes) == 8 && sizeof(((struct account *)0)->bytes) == 8, "account.bytes");

struct port {
	__u32 number;
	__u32 is_watched;
	__u32 link;
};
_Static_assert(sizeof(struct port) == 12, "port");
_Static_assert(__builtin_offsetof(struct port, number) == 0 && sizeof(((struct port *)0)->number) == 4, "port.number");
_Static_assert(__builtin_offsetof(struct port, is_watched) == 4 && sizeof(((struct port *)0)->is_watched) == 4, "port.is_watched");
_Static_assert(__builtin_offsetof(struct port, link) == 8 && sizeof(((struct port *)0)->link) == 4, "port.link");

struct transit {
	struct guard guards[2];
	__u64 gate;
	__u32 interface;
	__s32 fitting;
	__u64 seen_ns;
	__u64 packets;
	__u64 bytes;
	__u64 reserved;
};
_Static_assert(sizeof(struct transit) == 64, "transit");
_Static_assert(__builtin_offsetof(struct transit, guards) == 0 && sizeof(((struct transit *)0)->guards) == 16, "transit.guards");
_Static_assert(__builtin_offsetof(struct transit, gate) == 16 && sizeof(((struct transit *)0)->gate) == 8, "transit.gate");
_Static_assert(__builtin_offsetof(struct transit, interface) == 24 && sizeof(((struct transit *)0)->interface) == 4, "transit.interface");
_Static_assert(__builtin_offsetof(struct transit, fitting) == 28 && sizeof(((struct transit *)0)->fitting) == 4, "transit.fitting");
_Static_assert(__builtin_offsetof(struct transit, seen_ns) == 32 && sizeof(((struct transit *)0)->seen_ns) == 8, "transit.seen_ns");
_Static_assert(__builtin_offsetof(struct transit, packets) == 40 && sizeof(((struct transit *)0)->packets) == 8, "transit.packets");
_Static_assert(__builtin_offsetof(struct transit, bytes) == 48 && sizeof(((struct transit *)0)->bytes) == 8, "transit.bytes");
_Static_assert(__builtin_offsetof(struct transit, reserved) == 56 && sizeof(((struct transit *)0)->reserved) == 8, "transit.reserved");

struct settings {
	__u32 punt_ifindex;
	__u32 is_off;
	__u32 underlay_address;
	__u32 queue_frames;
	__u32 locator_high;
	__u16 locator_low;
	__u16 has_locator;
};
_Static_assert(sizeof(struct settings) == 24, "settings");
_Static_assert(__builtin_offsetof(struct settings, punt_ifindex) == 0 && sizeof(((struct settings *)0)->punt_ifindex) == 4, "settings.punt_ifindex");
_Static_assert(__builtin_offsetof(struct settings, is_off) == 4 && sizeof(((struct settings *)0)->is_off) == 4, "settings.is_off");
_Static_assert(__builtin_offsetof(struct settings, underlay_address) == 8 && sizeof(((struct settings *)0)->underlay_address) == 4, "settings.underlay_address");
_Static_assert(__builtin_offsetof(struct settings, queue_frames) == 12 && sizeof(((struct settings *)0)->queue_frames) == 4, "settings.queue_frames");
_Static_assert(__builtin_offsetof(struct settings, locator_high) == 16 && sizeof(((struct settings *)0)->locator_high) == 4, "settings.locator_high");
_Static_assert(__builtin_offsetof(struct settings, locator_low) == 20 && sizeof(((struct settings *)0)->locator_low) == 2, "settings.locator_low");
_Static_assert(__builtin_offsetof(struct settings, has_locator) == 22 && sizeof(((struct settings *)0)->has_locator) == 2, "settings.has_locator");

struct queue {
	__u64 sent;
	__u64 served;
	__u64 weight;
	__u64 refused_packets;
	__u64 refused_bytes;
};
_Static_assert(sizeof(struct queue) == 40, "queue");
_Static_assert(__builtin_offsetof(struct queue, sent) == 0 && sizeof(((struct queue *)0)->sent) == 8, "queue.sent");
_Static_assert(__builtin_offsetof(struct queue, served) == 8 && sizeof(((struct queue *)0)->served) == 8, "queue.served");
_Static_assert(__builtin_offsetof(struct queue, weight) == 16 && sizeof(((struct queue *)0)->weight) == 8, "queue.weight");
_Static_assert(__builtin_offsetof(struct queue, refused_packets) == 24 && sizeof(((struct queue *)0)->refused_packets) == 8, "queue.refused_packets");
_Static_assert(__builtin_offsetof(struct queue, refused_bytes) == 32 && sizeof(((struct queue *)0)->refused_bytes) == 8, "queue.refused_bytes");

#endif
