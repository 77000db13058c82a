// BIC (Xu, Harfoush and Rhee, "Binary increase congestion control for fast long-distance networks", 2004) with Linux's
// parameters, as the simulator's `tcp::congestion::bic` has it: for kernels built without.
//
// After a loss the window goes back to where it was by a quarter of the way per round trip, and beyond it in steps that
// grow. The kernel is told how many acknowledged segments each segment of growth takes.

#include "congestion.h"

#define LOW_WINDOW 14       // up to which BIC is Reno
#define MOST_PER_ROUND 16   // segments of growth
#define SEARCH 4            // the part of the way in a round trip
#define SMOOTH 20           // round trips for the last such part
#define BETA 819            // of 1024 are left after a loss
#define UNKNOWN_LIMIT_STEP 20
#define STEADY (1000000000ULL / 32)
#define SIXTEENTHS 16

struct bic {
	__u32 last_max;         // the window at the last loss, or a bit less to let others in; 0 before
	__u32 covered;          // segments per acknowledgement, a moving mean in sixteenths
	__u32 count;            // acknowledged segments per segment of growth
	__u32 window;           // for which the count is; 0 for none
	__u64 computed;         // when, in nanoseconds
};

static __always_inline struct bic *bic(struct sock *sk)
{
	return congestion_state(sk);
}

static __always_inline void forget(struct bic *b)
{
	b->last_max = 0;
	b->covered = 2 * SIXTEENTHS;
	b->window = 0;
}

// Below the last maximum.
static __always_inline __u32 search(__u32 window, __u32 step)
{
	if (step <= 1)
		return window * SMOOTH / SEARCH;
	return window / (__u32)smaller(step, MOST_PER_ROUND);
}

// At the last maximum and beyond it.
static __always_inline __u32 probe(__u32 window, __u32 beyond)
{
	if (beyond < SEARCH)
		return window * SMOOTH / SEARCH;
	if (beyond < MOST_PER_ROUND * (SEARCH - 1))
		return window * (SEARCH - 1) / beyond;
	return window / MOST_PER_ROUND;
}

static __always_inline __u32 count_for(struct bic *b, __u32 window)
{
	__u32 count;

	if (window <= LOW_WINDOW)
		return window;
	if (window < b->last_max)
		count = search(window, (b->last_max - window) / SEARCH);
	else
		count = probe(window, window - b->last_max);
	if (b->last_max == 0)
		count = smaller(count, UNKNOWN_LIMIT_STEP);
	return larger(count * SIXTEENTHS / b->covered, 1);
}

SEC("struct_ops")
void BPF_PROG(bic_init, struct sock *sk)
{
	forget(bic(sk));
}

SEC("struct_ops")
void BPF_PROG(bic_pkts_acked, struct sock *sk, const struct ack_sample *sample)
{
	struct bic *b = bic(sk);

	if (congestion_phase(sk) == TCP_CA_Open)
		b->covered += sample->pkts_acked - b->covered / SIXTEENTHS;
}

SEC("struct_ops")
void BPF_PROG(bic_cong_avoid, struct sock *sk, __u32 ack, __u32 acked)
{
	struct tcp_sock *tp = tcp_sk(sk);
	struct bic *b = bic(sk);
	__u64 now = bpf_ktime_get_ns();

	if (!window_limited(tp))
		return;
	if (in_slow_start(tp))
		acked = tcp_slow_start(tp, acked);
	if (acked == 0)
		return;
	if (b->window != tp->snd_cwnd || now - b->computed > STEADY) {
		b->window = tp->snd_cwnd;
		b->computed = now;
		b->count = count_for(b, b->window);
	}
	tcp_cong_avoid_ai(tp, b->count, acked);
}

SEC("struct_ops")
__u32 BPF_PROG(bic_ssthresh, struct sock *sk)
{
	struct bic *b = bic(sk);
	__u32 window = tcp_sk(sk)->snd_cwnd;

	// Fast convergence: a flow that did not come back to where it was gives way.
	b->last_max = window < b->last_max ? window * (1024ULL + BETA) / 2 / 1024 : window;
	b->window = 0;
	return larger(window <= LOW_WINDOW ? window / 2 : window * (__u64)BETA / 1024, 2);
}

SEC("struct_ops")
__u32 BPF_PROG(bic_undo_cwnd, struct sock *sk)
{
	return tcp_reno_undo_cwnd(sk);
}

SEC("struct_ops")
void BPF_PROG(bic_set_state, struct sock *sk, __u8 state)
{
	// What was known of the path holds no longer.
	if (state == TCP_CA_Loss)
		forget(bic(sk));
}

SEC(".struct_ops.link")
struct tcp_congestion_ops kumade_bic = {
	.init = (void *)bic_init,
	.pkts_acked = (void *)bic_pkts_acked,
	.cong_avoid = (void *)bic_cong_avoid,
	.ssthresh = (void *)bic_ssthresh,
	.undo_cwnd = (void *)bic_undo_cwnd,
	.set_state = (void *)bic_set_state,
	.flags = TCP_CONG_NON_RESTRICTED,
	.name = "kumade_bic",
};
