// What the congestion controllers need of the kernel. Only the members used are declared; their places are found in the
// running kernel's own type information when a program is loaded (CO-RE), so that no kernel headers are needed.

#pragma once

#include <stdbool.h>

typedef unsigned char __u8;
typedef unsigned short __u16;
typedef unsigned int __u32;
typedef unsigned long long __u64;
typedef signed char __s8;
typedef short __s16;
typedef int __s32;
typedef long long __s64;
typedef __u16 __be16;
typedef __u32 __be32;
typedef __u32 __wsum;

#include <bpf/bpf_helpers.h>
#include <bpf/bpf_core_read.h>
#include <bpf/bpf_tracing.h>

#define TCP_CA_NAME_MAX 16
#define TCP_CONG_NON_RESTRICTED 1 // usable by sockets without privilege
#define TCP_CONG_NEEDS_ECN 2
#define TCP_CA_Open 0
#define TCP_CA_Recovery 3
#define TCP_CA_Loss 4
#define CA_EVENT_TX_START 0
#define CA_EVENT_CWND_RESTART 1
#define CA_EVENT_LOSS 3
#define CA_EVENT_ECN_NO_CE 4
#define CA_EVENT_ECN_IS_CE 5
#define TCP_ECN_DEMAND_CWR 4
#define ICSK_ACK_TIMER 2
#define ICSK_ACK_NOW 16
#define SK_PACING_NONE 0
#define SK_PACING_NEEDED 1

#pragma clang attribute push(__attribute__((preserve_access_index)), apply_to = record)

struct sock {
	__u32 sk_pacing_status;
	unsigned long sk_pacing_rate; // in bytes a second
};

struct inet_connection_sock {
	__u8 icsk_ca_state : 5;
	struct {
		__u8 pending;
	} icsk_ack;
	__u64 icsk_ca_priv[13];
};

struct tcp_sock {
	struct inet_connection_sock inet_conn;
	__u32 rcv_nxt;
	__u8 ecn_flags;
	__u32 snd_nxt;
	__u32 snd_una;
	__u32 mss_cache;
	__u32 srtt_us; // in eighths of a microsecond
	__u32 packets_out;
	__u32 delivered;
	__u32 delivered_ce; // of these, those whose acknowledgement said that they arrived as CE
	__u32 snd_ssthresh;
	__u32 snd_cwnd;
	__u32 snd_cwnd_clamp;
	__u32 max_packets_out;
	__u8 is_cwnd_limited : 1;
};

struct ack_sample {
	__u32 pkts_acked;
	__s32 rtt_us;
};

struct rate_sample {
	__u32 prior_delivered; // what had been delivered when the packet that was acknowledged last was sent
	__s32 delivered;       // since then; negative where nothing was acknowledged
	__u32 acked_sacked;
	__u32 prior_in_flight;
};

#pragma clang attribute pop

// Matched with the kernel's by the names of its members when it is registered.
struct tcp_congestion_ops {
	__u32 (*ssthresh)(struct sock *sk);
	void (*cong_avoid)(struct sock *sk, __u32 ack, __u32 acked);
	void (*set_state)(struct sock *sk, __u8 new_state);
	void (*cwnd_event)(struct sock *sk, __u32 event);
	void (*in_ack_event)(struct sock *sk, __u32 flags);
	void (*pkts_acked)(struct sock *sk, const struct ack_sample *sample);
	__u32 (*min_tso_segs)(struct sock *sk);
	void (*cong_control)(struct sock *sk, __u32 ack, int flag, const struct rate_sample *rs);
	__u32 (*undo_cwnd)(struct sock *sk);
	void (*init)(struct sock *sk);
	__u32 flags;
	char name[TCP_CA_NAME_MAX];
};

extern __u32 tcp_slow_start(struct tcp_sock *tp, __u32 acked) __ksym;
extern void tcp_cong_avoid_ai(struct tcp_sock *tp, __u32 count, __u32 acked) __ksym;
extern void tcp_reno_cong_avoid(struct sock *sk, __u32 ack, __u32 acked) __ksym;
extern __u32 tcp_reno_ssthresh(struct sock *sk) __ksym;
extern __u32 tcp_reno_undo_cwnd(struct sock *sk) __ksym;

// The kernel lets only GPL-compatible programs be congestion controllers.
char _license[] SEC("license") = "Dual MIT/GPL";

static __always_inline __u64 smaller(__u64 a, __u64 b)
{
	return a < b ? a : b;
}

static __always_inline __u64 larger(__u64 a, __u64 b)
{
	return a > b ? a : b;
}

static __always_inline struct tcp_sock *tcp_sk(struct sock *sk)
{
	return (struct tcp_sock *)sk;
}

// The connection's memory that belongs to its controller.
static __always_inline void *congestion_state(struct sock *sk)
{
	return tcp_sk(sk)->inet_conn.icsk_ca_priv;
}

static __always_inline bool after(__u32 sequence, __u32 other)
{
	return (__s32)(other - sequence) < 0;
}

static __always_inline bool in_slow_start(struct tcp_sock *tp)
{
	return tp->snd_cwnd < tp->snd_ssthresh;
}

// Open, in recovery, and so on: TCP_CA_….
static __always_inline __u8 congestion_phase(struct sock *sk)
{
	struct inet_connection_sock *connection = &tcp_sk(sk)->inet_conn;

	return BPF_CORE_READ_BITFIELD(connection, icsk_ca_state);
}

// Whether the window was what kept the sender from sending more, by the kernel's own rule.
static __always_inline bool window_limited(struct tcp_sock *tp)
{
	if (BPF_CORE_READ_BITFIELD(tp, is_cwnd_limited))
		return true;
	return in_slow_start(tp) && tp->snd_cwnd < 2 * tp->max_packets_out;
}

// Of a number from 1 to 2^62, to within one. Newton's method from above needs no branch that depends on the number, which
// the verifier would follow both ways in each step; from the largest root, half of the steps only halve.
static __always_inline __u64 square_root(__u64 number)
{
	__u64 root = 1ULL << 31;

	for (int step = 0; step < 38; step++)
		root = (root + number / root) / 2;
	return root;
}
