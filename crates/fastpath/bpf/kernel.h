/* What the program uses of the kernel, as linux/bpf.h has it (Linux 6.1): declared here, so that a
 * build needs a compiler and no headers. Numbers of this interface never change. */
#ifndef CATENA_KERNEL_H
#define CATENA_KERNEL_H

typedef unsigned char __u8;
typedef unsigned short __u16;
typedef int __s32;
typedef long long __s64;
typedef unsigned int __u32;
typedef unsigned long long __u64;

struct __sk_buff {
	__u32 len;
	__u32 pkt_type;
	__u32 mark;
	__u32 queue_mapping;
	__u32 protocol;
	__u32 vlan_present;
	__u32 vlan_tci;
	__u32 vlan_proto;
	__u32 priority;
	__u32 ingress_ifindex;
	__u32 ifindex;
	__u32 tc_index;
	__u32 cb[5];
	__u32 hash;
	__u32 tc_classid;
	__u32 data;
	__u32 data_end;
	__u32 napi_id;
	__u32 family;
	__u32 remote_ip4;
	__u32 local_ip4;
	__u32 remote_ip6[4];
	__u32 local_ip6[4];
	__u32 remote_port;
	__u32 local_port;
	__u32 data_meta;
	__u64 flow_keys;
	__u64 tstamp;
	__u32 wire_len;
	__u32 gso_segs;
	__u64 sk;
	__u32 gso_size;
	__u8 tstamp_type;
	__u32 : 24;
	__u64 hwtstamp;
};

enum { TC_ACT_UNSPEC = -1, TC_ACT_OK = 0, TC_ACT_SHOT = 2, TC_ACT_REDIRECT = 7 };
enum { BPF_MAP_TYPE_HASH = 1, BPF_MAP_TYPE_ARRAY = 2, BPF_MAP_TYPE_LRU_HASH = 9 };
enum { BPF_F_MMAPABLE = 1 << 10, BPF_F_NO_PREALLOC = 1 << 0 };
enum { PACKET_HOST = 0 };
enum { EALREADY = 114 };

/* bpf_skb_store_bytes */
enum { BPF_F_RECOMPUTE_CSUM = 1 << 0 };

/* bpf_skb_adjust_room */
enum { BPF_ADJ_ROOM_MAC = 1 };
#define BPF_F_ADJ_ROOM_FIXED_GSO (1ULL << 0)
#define BPF_F_ADJ_ROOM_ENCAP_L3_IPV4 (1ULL << 1)
#define BPF_F_ADJ_ROOM_ENCAP_L3_IPV6 (1ULL << 2)
#define BPF_F_ADJ_ROOM_ENCAP_L4_UDP (1ULL << 4)
#define BPF_F_ADJ_ROOM_ENCAP_L2_ETH (1ULL << 6)
#define BPF_F_ADJ_ROOM_ENCAP_L2(bytes) ((__u64)(bytes) << 56)
/* Since Linux 6.3: the packet that comes out is of the other family. */
#define BPF_F_ADJ_ROOM_DECAP_L3_IPV4 (1ULL << 7)
#define BPF_F_ADJ_ROOM_DECAP_L3_IPV6 (1ULL << 8)

static void *(*const bpf_map_lookup_elem)(void *map, const void *key) = (void *)1;
static __u32 (*const bpf_get_smp_processor_id)(void) = (void *)8;
static long (*const bpf_skb_store_bytes)(struct __sk_buff *skb, __u32 offset, const void *from,
					 __u32 len, __u64 flags) = (void *)9;
static long (*const bpf_clone_redirect)(struct __sk_buff *skb, __u32 ifindex,
					__u64 flags) = (void *)13;
static long (*const bpf_skb_vlan_push)(struct __sk_buff *skb, __u16 vlan_proto,
				       __u16 vlan_tci) = (void *)18;
static long (*const bpf_skb_vlan_pop)(struct __sk_buff *skb) = (void *)19;
static long (*const bpf_redirect)(__u32 ifindex, __u64 flags) = (void *)23;
static long (*const bpf_skb_load_bytes)(const struct __sk_buff *skb, __u32 offset, void *to,
					__u32 len) = (void *)26;
static long (*const bpf_skb_change_type)(struct __sk_buff *skb, __u32 type) = (void *)32;
static long (*const bpf_skb_pull_data)(struct __sk_buff *skb, __u32 len) = (void *)39;
static long (*const bpf_skb_adjust_room)(struct __sk_buff *skb, int len_diff, __u32 mode,
					 __u64 flags) = (void *)50;
static long (*const bpf_redirect_neigh)(__u32 ifindex, void *params, int plen,
					__u64 flags) = (void *)152;
static long (*const bpf_redirect_peer)(__u32 ifindex, __u64 flags) = (void *)155;
static long (*const bpf_check_mtu)(void *skb, __u32 ifindex, __u32 *mtu, int len_diff,
				   __u64 flags) = (void *)163;
static __u64 (*const bpf_ktime_get_coarse_ns)(void) = (void *)160;

#define SEC(name) __attribute__((section(name), used))
#define INLINE static inline __attribute__((always_inline))
/* Fields of a map's definition, read from the types of its members. */
#define MAP_NUMBER(name, value) int(*name)[value]
#define MAP_TYPE(name, type) type *name

/* Network order on this machine and back. */
#if __BYTE_ORDER__ == __ORDER_LITTLE_ENDIAN__
#define SWAP16(x) __builtin_bswap16(x)
#define SWAP32(x) __builtin_bswap32(x)
#else
#define SWAP16(x) (x)
#define SWAP32(x) (x)
#endif

#endif
