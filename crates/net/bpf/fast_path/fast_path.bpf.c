/* SPDX-License-Identifier: (GPL-2.0 OR MIT)
 *
 * The fast path of gateways: forwards what needs nothing of the host but another path, other addresses, and a hop less, and leaves
 * everything else to the kernel and its packet rules, as it arrived.
 *
 * Runs where packets arrive (tcx, Linux 6.6), before packet rules and routes. src/fast_path.rs loads the instructions that clang
 * makes of this file (./build): maps and its role are constants here, in whose places it puts the real ones.
 */
#include <linux/bpf.h>
#include <linux/if_ether.h>
#include <linux/ip.h>
#include <linux/ipv6.h>
#include <linux/in.h>
#include <linux/tcp.h>
#include <linux/udp.h>

#define INLINE static inline __attribute__((always_inline))
#define HELPER(number) ((void *)BPF_FUNC_##number)
#define HTONS(value) __builtin_bswap16(value)
#define HTONL(value) __builtin_bswap32(value)
#if __BYTE_ORDER__ != __ORDER_LITTLE_ENDIAN__
#error "the loader puts these instructions into little-endian kernels alone"
#endif

/* To be replaced as it is loaded. */
#define REPLACED(number) (0x6b756d6164650000ULL + (number))
#define NETWORKS ((void *)REPLACED(0))
#define REMOTES ((void *)REPLACED(1))
#define PATHS ((void *)REPLACED(2))
#define COUNTS ((void *)REPLACED(3))
#define FLOWS ((void *)REPLACED(4))
#define ROUTES ((void *)REPLACED(5))
#define SETTINGS ((void *)REPLACED(6))
/* REPLACED(7), which the compiler is not to know: 1 where packets of local hosts arrive, 0 where those from the paths do. */
#define LOAD_ROLE(role) asm("%0 = 0x6b756d6164650007 ll" : "=r"(role))
/* What the compiler knows of it, the kernel wants to see checked. */
#define FORGET(value) asm volatile("" : "+r"(value))

/* To the next program, or the kernel. */
#define PASS (-1)
#define DROP 2
#define AF_INET 2
#define AF_INET6 10
/* Of what tunnels add to the headers in each segment of a batch: more than VXLAN, IPv6 and TCP with options. */
#define MAX_INNER_HEADER_BYTES 150
/* Routes and networks that change hold from then on. */
#define ROUTE_LIFETIME_NANOSECONDS 100000000ULL

static void *(*lookup)(void *map, const void *key) = HELPER(map_lookup_elem);
static long (*update)(void *map, const void *key, const void *value, __u64 flags) = HELPER(map_update_elem);
static __u64 (*coarse_time)(void) = HELPER(ktime_get_coarse_ns);
static long (*pull)(struct __sk_buff *, __u32 bytes) = HELPER(skb_pull_data);
static long (*set_length)(struct __sk_buff *, __u32 bytes, __u64 flags) = HELPER(skb_change_tail);
static __s64 (*checksum_difference)(void *from, __u32, void *to, __u32, __u32 seed) = HELPER(csum_diff);
static long (*replace_checksum)(struct __sk_buff *, __u32 offset, __u64, __u64, __u64) = HELPER(l4_csum_replace);
static __s64 (*update_checksum)(struct __sk_buff *, __u32) = HELPER(csum_update);
static long (*find_route)(void *, struct bpf_fib_lookup *, int bytes, __u32 flags) = HELPER(fib_lookup);
static long (*redirect)(__u32 interface, struct bpf_redir_neigh *, int bytes, __u64 flags) = HELPER(redirect_neigh);

/* IPv4 as ::ffff:0:0/96 (RFC 4291, 2.5.5.2). */
struct address {
	__u32 words[4];
};

struct addresses {
	struct address source, destination;
};

enum network_kind {
	LOCAL_HOSTS,           /* Sources of packets that arrive at an interface to be divided. */
	REMOTE_HOSTS,          /* Their destinations. */
	PATH_SOURCES,          /* What is translated on a path. */
	PATH_DESTINATIONS,
	ARRIVING_SOURCES,      /* What is translated back that arrives at an interface. */
	ARRIVING_DESTINATIONS,
	KNOWN_DESTINATIONS,    /* Of what arrives at an interface untranslated from remote hosts. */
};

/* By the interface for what arrives there, by the path for what is translated on it; else 0. */
struct network_key {
	__u32 bits, kind, index, is_v6;
	struct address address;
};
#define NETWORK_KEY_BITS 224

/* In the place of a remote: to and from these addresses, the kernel has its own ways, as to its own ones. */
#define LEFT_TO_KERNEL 0xffffffff

/* Where it is translated, to the address of the same place in another network. */
struct network {
	__u32 remote;
	struct address base, host_mask;
};

enum flow_kind {
	DIVIDED_FLOW,
	TRANSLATED_FLOW,  /* By the path. */
	RESTORED_FLOW,
};

struct flow_key {
	__u32 kind, index, protocol, ports;
	struct addresses addresses;
};

struct flow {
	__u64 packets, bytes;
	union {
		struct addresses addresses;
		/* Of a divided one, a bit for each path on which it has other addresses: only there it is looked up again. */
		__u64 translating_paths;
	};
};

#define MAX_TURN_PACKETS 1000
#define BATCH_CLASSES 4

struct remote {
	/* None: it is left to the kernel. */
	__u32 turn_packets;
	__u32 has_single_flows;
	/* Whether only what has ports can be translated. */
	__u32 needs_ports;
	/* The smallest of its paths. */
	__u32 mtu;
	/* How many packets there were of each class. */
	__u64 turns[BATCH_CLASSES];
	__u8 paths[MAX_TURN_PACKETS];
};

struct path {
	__u32 interface, mark, translates_sources, translates_destinations;
	/* 0 where hosts are on the link. */
	__u32 has_gateway_v4, has_gateway_v6;
	struct address gateway_v4, gateway_v6;
};

struct count {
	__u64 packets, bytes;
};

/* What has to be looked for in packets that arrive from paths. */
struct settings {
	__u32 restores_flows, restores_sources, restores_destinations;
};

struct route_key {
	__u32 interface;
	__u16 tos, is_v6;
	struct addresses addresses;
};

/* Good until then, for packets that are no longer: also that its packets are to be forwarded at all. */
struct route {
	__u64 until;
	__u32 interface, family, bytes;
	__u32 next[4];
};

struct packet {
	struct addresses addresses;
	__u32 is_v6, tos, hops, protocol;
	/* Of TCP and UDP that is no fragment; else zero. */
	__u32 ports_offset, ports, has_checksum;
	/* From the IP header on: all, the longest that it becomes on the wire, and what comes behind it (Ethernet padding). */
	__u32 bytes, segment_bytes, padding;
};

INLINE int read_ports(struct __sk_buff *skb, struct packet *packet, __u32 offset)
{
	void *data = (void *)(long)skb->data, *end = (void *)(long)skb->data_end;
	__u32 headers = offset - ETH_HLEN;

	if (packet->protocol == IPPROTO_TCP) {
		struct tcphdr *tcp = data + offset;
		if ((void *)(tcp + 1) > end || packet->bytes < headers + sizeof(*tcp))
			return 0;
		packet->has_checksum = 1;
		packet->ports = *(__u32 *)tcp;
		headers += tcp->doff * 4;
	} else if (packet->protocol == IPPROTO_UDP) {
		struct udphdr *udp = data + offset;
		if ((void *)(udp + 1) > end || packet->bytes < headers + sizeof(*udp))
			return 0;
		packet->has_checksum = udp->check != 0;
		packet->ports = *(__u32 *)udp;
		/* The kernel keeps it to itself whether segments are those of a tunnel. */
		headers += sizeof(*udp) + MAX_INNER_HEADER_BYTES;
	} else {
		return skb->gso_size == 0;
	}
	packet->ports_offset = offset;
	if (skb->gso_size)
		packet->segment_bytes = headers + skb->gso_size;
	return 1;
}

INLINE __u16 fold(__u64 sum)
{
	sum = (sum & 0xffffffff) + (sum >> 32);
	sum = (sum & 0xffff) + (sum >> 16);
	sum = (sum & 0xffff) + (sum >> 16);
	return (sum & 0xffff) + (sum >> 16);
}

INLINE int is_header_intact(__u32 *words)
{
	return fold((__u64)words[0] + words[1] + words[2] + words[3] + words[4]) == 0xffff;
}

/* Takes the length from the IP header, but for batches beyond 64 kB, whose headers have none. False where it is not all there: the
 * kernel drops such packets, and counts them. */
INLINE int set_packet_length(struct __sk_buff *skb, struct packet *packet, __u32 bytes, int has_length)
{
	__u32 arrived = skb->len - ETH_HLEN;

	if (skb->gso_size) {
		packet->bytes = arrived;
		return bytes == arrived || !has_length;
	}
	packet->bytes = packet->segment_bytes = bytes;
	packet->padding = arrived - bytes;
	return bytes >= sizeof(struct iphdr) && bytes <= arrived;
}

/* False for what is left to the kernel: options, the last hop, what is not for this host or not IP, and headers that are wrong. */
INLINE int read_packet(struct __sk_buff *skb, struct packet *packet)
{
	void *data, *end;
	const __u32 most = ETH_HLEN + sizeof(struct ipv6hdr) + sizeof(struct tcphdr);

	if (skb->pkt_type != 0 || skb->vlan_present)
		return 0;
	if ((void *)(long)skb->data + most > (void *)(long)skb->data_end && pull(skb, skb->len < most ? skb->len : most))
		return 0;
	data = (void *)(long)skb->data;
	end = (void *)(long)skb->data_end;
	packet->segment_bytes = packet->padding = 0;
	packet->ports_offset = packet->ports = packet->has_checksum = 0;
	if (skb->protocol == HTONS(ETH_P_IP)) {
		struct iphdr *ip = data + ETH_HLEN;
		if ((void *)(ip + 1) > end || *(__u8 *)ip != 0x45 || ip->ttl <= 1)
			return 0;
		__u32 bytes = HTONS(ip->tot_len);
		if (!set_packet_length(skb, packet, bytes, bytes != 0) || !is_header_intact((__u32 *)ip))
			return 0;
		packet->is_v6 = 0;
		packet->tos = ip->tos;
		packet->protocol = ip->protocol;
		packet->addresses.source = (struct address){{0, 0, HTONL(0xffff), ip->saddr}};
		packet->addresses.destination = (struct address){{0, 0, HTONL(0xffff), ip->daddr}};
		if (ip->frag_off & HTONS(0x3fff))
			return skb->gso_size == 0;
		return read_ports(skb, packet, ETH_HLEN + sizeof(*ip));
	}
	if (skb->protocol == HTONS(ETH_P_IPV6)) {
		struct ipv6hdr *ip = data + ETH_HLEN;
		if ((void *)(ip + 1) > end || *(__u8 *)ip >> 4 != 6 || ip->hop_limit <= 1)
			return 0;
		__u32 bytes = HTONS(ip->payload_len);
		if (!set_packet_length(skb, packet, sizeof(*ip) + bytes, bytes != 0))
			return 0;
		packet->is_v6 = 1;
		packet->tos = 0;
		packet->protocol = ip->nexthdr;
		__builtin_memcpy(&packet->addresses, &ip->saddr, sizeof(packet->addresses));
		/* Hop-by-hop options are for each router. */
		if (ip->nexthdr == IPPROTO_HOPOPTS)
			return 0;
		return read_ports(skb, packet, ETH_HLEN + sizeof(*ip));
	}
	return 0;
}

/* The smallest network with the address. */
INLINE struct network *find_network(__u32 kind, __u32 index, struct packet *packet, struct address *address)
{
	struct network_key key = {
		.bits = NETWORK_KEY_BITS,
		.kind = kind,
		.index = index,
		.is_v6 = packet->is_v6,
		.address = *address,
	};

	return lookup(NETWORKS, &key);
}

INLINE int is_of(__u32 kind, __u32 index, struct packet *packet, struct address *address)
{
	struct network *network = find_network(kind, index, packet, address);

	return network && network->remote != LEFT_TO_KERNEL;
}

INLINE struct flow *find_flow(__u32 kind, __u32 index, struct packet *packet)
{
	struct flow_key key = {
		.kind = kind,
		.index = index,
		.protocol = packet->protocol,
		.ports = packet->ports,
		.addresses = packet->addresses,
	};

	return lookup(FLOWS, &key);
}

/* Whether the address is of a network that is translated. */
INLINE int translate(__u32 kind, __u32 index, struct packet *packet, struct address *address)
{
	struct network *network = find_network(kind, index, packet, address);

	if (!network)
		return 0;
	for (int word = 0; word < 4; word++)
		address->words[word] = (address->words[word] & network->host_mask.words[word]) | network->base.words[word];
	return 1;
}

INLINE void count_flow(struct flow *flow, struct packet *packet)
{
	__sync_fetch_and_add(&flow->packets, 1);
	__sync_fetch_and_add(&flow->bytes, packet->bytes);
}

/* Mends the checksum of TCP or UDP by what differs (RFC 1624): of a batch too, whose is finished later. Gives the difference. */
INLINE int mend_checksum(struct __sk_buff *skb, struct packet *packet, struct addresses *to, __u32 *difference)
{
	struct addresses *from = &packet->addresses;
	__u32 offset = packet->ports_offset + (packet->protocol == IPPROTO_TCP ? 16 : 6);
	__u64 flags = BPF_F_PSEUDO_HDR | (packet->protocol == IPPROTO_UDP ? BPF_F_MARK_MANGLED_0 : 0);

	if (packet->is_v6)
		*difference = checksum_difference(from, sizeof(*from), to, sizeof(*to), 0);
	else
		*difference = fold((__u64)~from->source.words[3] + to->source.words[3] + ~from->destination.words[3] +
				   to->destination.words[3]);
	if (packet->has_checksum && replace_checksum(skb, offset, 0, *difference, flags))
		return -1;
	/* In IPv6, the sum of the whole packet stays as it is with a checksum, which the kernel takes for changed, and changes without. */
	if (packet->is_v6)
		update_checksum(skb, *difference);
	return 0;
}

/* As ip_forward does, with a hop less and these addresses; to the next hop, or to the destination itself. */
INLINE int forward(struct __sk_buff *skb, struct packet *packet, struct addresses *to, int is_translated,
		   __u32 interface, struct bpf_redir_neigh *next)
{
	__u32 difference = 0;

	if (is_translated && mend_checksum(skb, packet, to, &difference))
		return DROP;
	void *data = (void *)(long)skb->data, *end = (void *)(long)skb->data_end;
	if (packet->is_v6) {
		struct ipv6hdr *ip = data + ETH_HLEN;
		if ((void *)(ip + 1) > end)
			return DROP;
		ip->hop_limit--;
		if (is_translated)
			__builtin_memcpy(&ip->saddr, to, sizeof(*to));
		update_checksum(skb, ~(__u32)HTONS(1));
	} else {
		struct iphdr *ip = data + ETH_HLEN;
		if ((void *)(ip + 1) > end)
			return DROP;
		ip->ttl--;
		ip->saddr = to->source.words[3];
		ip->daddr = to->destination.words[3];
		/* The hop is in the upper octet of its word. */
		ip->check = ~fold((__u64)(__u16)~ip->check + difference + (__u16)~HTONS(0x100));
		/* The kernel's table ip_tos2prio. */
		skb->priority = (0x4620 >> ((packet->tos >> 1) & 0xc)) & 0xf;
	}
	return redirect(interface, next, sizeof(*next), 0);
}

/* As the kernel does with what arrives. False where that cannot be: nothing has changed then. */
INLINE int cut_padding(struct __sk_buff *skb, struct packet *packet)
{
	return packet->padding == 0 || set_length(skb, ETH_HLEN + packet->bytes, 0) == 0;
}

INLINE __u32 batch_class(__u32 bytes)
{
	return bytes < 2048 ? 0 : bytes < 8192 ? 1 : bytes < 32768 ? 2 : 3;
}

INLINE int divide(struct __sk_buff *skb)
{
	struct packet packet;
	struct flow *flow = 0;

	if (!read_packet(skb, &packet))
		return PASS;
	struct network *site = find_network(REMOTE_HOSTS, 0, &packet, &packet.addresses.destination);
	if (!site || !is_of(LOCAL_HOSTS, skb->ifindex, &packet, &packet.addresses.source))
		return PASS;
	/* Of those that are left to the kernel, there is none. */
	__u32 number = site->remote;
	struct remote *remote = lookup(REMOTES, &number);
	if (!remote || packet.segment_bytes > remote->mtu || (remote->needs_ports && !packet.ports_offset))
		return PASS;
	if (remote->has_single_flows) {
		flow = find_flow(DIVIDED_FLOW, 0, &packet);
		if (!flow)
			return PASS;
	}
	__u32 turn = remote->turn_packets;
	if (turn == 0 || turn > MAX_TURN_PACKETS || !cut_padding(skb, &packet))
		return PASS;
	__u64 class = batch_class(packet.bytes);
	FORGET(class);
	if (class >= BATCH_CLASSES)
		return PASS;
	__u64 place = __sync_fetch_and_add(&remote->turns[class], 1) % turn;
	FORGET(place);
	if (place >= MAX_TURN_PACKETS)
		return PASS;
	__u32 chosen = remote->paths[place];
	struct path *path = lookup(PATHS, &chosen);
	struct count *count = lookup(COUNTS, &chosen);
	if (!path || !count)
		return PASS;

	struct addresses to = packet.addresses;
	int is_translated = 0;
	if (flow) {
		if (flow->translating_paths >> (chosen & 63) & 1) {
			struct flow *other = find_flow(TRANSLATED_FLOW, chosen, &packet);
			/* It is about to go. */
			if (!other)
				return PASS;
			to = other->addresses;
			is_translated = 1;
		}
		count_flow(flow, &packet);
	}
	if (path->translates_sources)
		is_translated |= translate(PATH_SOURCES, chosen, &packet, &to.source);
	if (path->translates_destinations)
		is_translated |= translate(PATH_DESTINATIONS, chosen, &packet, &to.destination);
	__sync_fetch_and_add(&count->packets, 1);
	__sync_fetch_and_add(&count->bytes, packet.bytes);
	struct bpf_redir_neigh next = {.nh_family = packet.is_v6 ? AF_INET6 : AF_INET};
	if (packet.is_v6)
		__builtin_memcpy(next.ipv6_nh, path->has_gateway_v6 ? &path->gateway_v6 : &to.destination, 16);
	else
		next.ipv4_nh = path->has_gateway_v4 ? path->gateway_v4.words[3] : to.destination.words[3];
	__u32 interface = path->interface;
	skb->mark = path->mark;
	return forward(skb, &packet, &to, is_translated, interface, &next);
}

/* Where routes have the packet leave with these addresses, if it is between hosts of both sites: whoever else sends, the kernel may drop
 * it, as from its own addresses. */
INLINE int find_next_hop(struct __sk_buff *skb, struct packet *packet, struct addresses *to, struct route *found)
{
	struct route_key key = {
		.interface = skb->ifindex,
		.tos = packet->tos,
		.is_v6 = packet->is_v6,
		.addresses = *to,
	};
	__u64 now = coarse_time();
	struct route *known = lookup(ROUTES, &key);

	if (known && now < known->until && packet->segment_bytes <= known->bytes) {
		*found = *known;
		return 1;
	}
	if (!is_of(KNOWN_DESTINATIONS, skb->ifindex, packet, &to->destination) ||
	    !is_of(REMOTE_HOSTS, 0, packet, &to->source))
		return 0;
	struct bpf_fib_lookup route = {
		.family = packet->is_v6 ? AF_INET6 : AF_INET,
		.l4_protocol = packet->protocol,
		.tot_len = packet->segment_bytes > 0xffff ? 0xffff : packet->segment_bytes,
		.ifindex = skb->ifindex,
	};
	if (packet->is_v6) {
		__builtin_memcpy(route.ipv6_src, to, sizeof(*to));
	} else {
		route.tos = packet->tos;
		route.ipv4_src = to->source.words[3];
		route.ipv4_dst = to->destination.words[3];
	}
	if (find_route(skb, &route, sizeof(route), BPF_FIB_LOOKUP_SKIP_NEIGH))
		return 0;
	found->until = now + ROUTE_LIFETIME_NANOSECONDS;
	found->interface = route.ifindex;
	found->family = route.family;
	found->bytes = packet->segment_bytes;
	__builtin_memcpy(found->next, route.ipv6_dst, sizeof(found->next));
	update(ROUTES, &key, found, 0);
	return 1;
}

INLINE int restore(struct __sk_buff *skb)
{
	struct packet packet;
	struct flow *flow = 0;
	int is_translated = 0;
	__u32 first = 0;
	struct settings *settings = lookup(SETTINGS, &first);

	if (!settings || !read_packet(skb, &packet))
		return PASS;
	struct addresses to = packet.addresses;
	if (settings->restores_flows && packet.ports_offset)
		flow = find_flow(RESTORED_FLOW, 0, &packet);
	if (flow) {
		to = flow->addresses;
		is_translated = 1;
	} else {
		if (settings->restores_sources)
			is_translated |= translate(ARRIVING_SOURCES, skb->ifindex, &packet, &to.source);
		if (settings->restores_destinations)
			is_translated |= translate(ARRIVING_DESTINATIONS, skb->ifindex, &packet, &to.destination);
		if (is_translated && !packet.ports_offset)
			return PASS;
	}
	struct route route = {};
	if (!find_next_hop(skb, &packet, &to, &route) || !cut_padding(skb, &packet))
		return PASS;
	if (flow)
		count_flow(flow, &packet);
	struct bpf_redir_neigh next = {.nh_family = route.family};
	__builtin_memcpy(next.ipv6_nh, route.next, sizeof(route.next));
	return forward(skb, &packet, &to, is_translated, route.interface, &next);
}

int fast_path(struct __sk_buff *skb) __attribute__((section("program")));
int fast_path(struct __sk_buff *skb)
{
	__u64 divides;

	LOAD_ROLE(divides);
	return divides ? divide(skb) : restore(skb);
}
