// A congestion control for L4S (RFC 9331, section 4; draft-briscoe-iccrg-prague-congestion-control), as the simulator's
// `tcp::congestion::prague` has it: marks reduce the window by half of the share of segments that were marked, once a round trip, and
// it grows by a segment per round trip in between, whether or not it has just been reduced. It paces. Losses halve the window.
//
// On round trips below 25 ms it grows and reduces as if they were that long. Its window has fractions of segments. The kernel
// sends ECT(0) where ECN is in use: whoever uses this has packets re-marked as ECT(1) on their way out.

#include "marks.h"

#define ONE (1ULL << 16)         // a segment: windows are counted in 1/65536
#define LEAST_WINDOW (2 * ONE)   // RFC 5681; MIN_CWND_RTT of Linux's TCP Prague
#define VIRTUAL_RTT 25000U       // microseconds (RTT_TARGET)
#define TRANSITION_ROUNDS 4      // rounds after slow start for which it is as fast as others (DEFAULT_RTT_TRANSITION)
#define LEAST_RATE 12500ULL      // bytes a second (MINIMUM_RATE)
#define INFINITE_WINDOW (0x7fffffffULL * ONE)

struct prague {
	__u64 window;
	__u64 threshold;
	__u64 window_before_loss;
	__u64 threshold_before_loss;
	struct marked_fraction marks;
	struct mark_echo echo;
	__u32 marks_seen;       // counter of the kernel at the last acknowledgement
	__u32 alpha_round;      // counters of what was delivered, at which rounds end
	__u32 response_round;
	__u32 round;
	__u32 rounds;           // since slow start ended
	__u32 updated;          // times in microseconds
	__u32 reduced;
	bool has_seen_marks;
	bool is_recovering;
};

_Static_assert(sizeof(struct prague) <= sizeof(((struct inet_connection_sock *)0)->icsk_ca_priv), "the connection's memory");

static __always_inline struct prague *prague(struct sock *sk)
{
	return congestion_state(sk);
}

static __always_inline __u32 now_us(void)
{
	return bpf_ktime_get_ns() / 1000;
}

static __always_inline bool in_prague_slow_start(struct prague *p)
{
	return p->window < p->threshold;
}

static __always_inline bool is_rtt_independent(struct prague *p)
{
	return !in_prague_slow_start(p) && p->rounds >= TRANSITION_ROUNDS;
}

static __always_inline void reduce_to(struct prague *p, __u64 window)
{
	p->window = larger(window, LEAST_WINDOW);
	p->threshold = p->window;
}

// Whether something sent after the beginning of the round was acknowledged; a new one begins then.
static __always_inline bool ends_round(__u32 *round, struct tcp_sock *tp, const struct rate_sample *rs)
{
	if (rs->delivered <= 0 || after(*round, rs->prior_delivered))
		return false;
	*round = tp->delivered;
	return true;
}

SEC("struct_ops")
void BPF_PROG(prague_init, struct sock *sk)
{
	struct prague *p = prague(sk);
	struct tcp_sock *tp = tcp_sk(sk);

	__builtin_memset(p, 0, sizeof(*p));
	start_marked_fraction(&p->marks, tp, 0);
	p->window = tp->snd_cwnd * ONE;
	p->threshold = INFINITE_WINDOW;
	p->echo.rcv_nxt = tp->rcv_nxt;
	p->marks_seen = tp->delivered_ce;
	p->alpha_round = p->response_round = p->round = tp->delivered;
	if (sk->sk_pacing_status == SK_PACING_NONE)
		sk->sk_pacing_status = SK_PACING_NEEDED;
}

static __always_inline void process_marks(struct prague *p, struct tcp_sock *tp, const struct rate_sample *rs, __u32 marked)
{
	__u32 interval = is_rtt_independent(p) ? VIRTUAL_RTT : 0;
	__u32 now = now_us();

	if (marked && !p->has_seen_marks) {
		// The first one ends slow start, of whose overshoot it tells late.
		p->has_seen_marks = true;
		p->reduced = now;
		p->response_round = tp->delivered;
		start_marked_fraction(&p->marks, tp, p->marks.alpha);
		reduce_to(p, p->window / 2);
		return;
	}
	if (p->has_seen_marks && now - p->updated >= interval && ends_round(&p->alpha_round, tp, rs)) {
		update_marked_fraction(&p->marks, tp);
		p->updated = now;
	}
	if (marked && now - p->reduced >= interval && ends_round(&p->response_round, tp, rs)) {
		p->reduced = now;
		if (!p->is_recovering)
			reduce_to(p, p->window - p->window * p->marks.alpha / (2 * ALPHA_ONE));
	}
}

static __always_inline void grow(struct prague *p, struct tcp_sock *tp, const struct rate_sample *rs, __u32 marked)
{
	__u32 rtt = tp->srtt_us >> 3;
	__u64 unmarked = rs->acked_sacked - smaller(marked, rs->acked_sacked);
	__u64 growth = unmarked * ONE;

	// RFC 7661: a window of which half is used has proven itself. Pacing keeps less than all of it in flight.
	if (p->is_recovering || (!window_limited(tp) && 2 * rs->prior_in_flight * ONE < p->window))
		return;
	if (in_prague_slow_start(p)) {
		p->window = smaller(p->window + growth, p->threshold);
		return;
	}
	growth = growth * ONE / p->window;
	if (is_rtt_independent(p) && rtt < VIRTUAL_RTT)
		growth = growth * rtt / VIRTUAL_RTT * rtt / VIRTUAL_RTT;
	p->window += growth;
}

static __always_inline void set_pacing_rate(struct sock *sk, struct prague *p, struct tcp_sock *tp)
{
	__u32 rtt = tp->srtt_us >> 3;
	__u64 in_flight = larger(p->window / ONE, tp->packets_out);
	__u64 rate;

	if (!rtt)
		return;
	rate = in_flight * tp->mss_cache * 1000000 / rtt;
	// In slow start segments leave at twice the rate of the window, as in Linux.
	if (p->window < p->threshold / 2)
		rate *= 2;
	sk->sk_pacing_rate = larger(rate, LEAST_RATE);
}

static __always_inline __u32 whole_segments(struct prague *p, struct tcp_sock *tp)
{
	return smaller((p->window + ONE - 1) / ONE, tp->snd_cwnd_clamp);
}

SEC("struct_ops")
void BPF_PROG(prague_cong_control, struct sock *sk, __u32 ack, int flag, const struct rate_sample *rs)
{
	struct prague *p = prague(sk);
	struct tcp_sock *tp = tcp_sk(sk);
	__u32 marked = tp->delivered_ce - p->marks_seen;

	p->marks_seen = tp->delivered_ce;
	if (!in_prague_slow_start(p) && ends_round(&p->round, tp, rs))
		p->rounds++;
	process_marks(p, tp, rs, marked);
	grow(p, tp, rs, marked);
	set_pacing_rate(sk, p, tp);
	tp->snd_cwnd = whole_segments(p, tp);
	tp->snd_ssthresh = smaller(p->threshold / ONE, 0x7fffffff);
}

static __always_inline void halve(struct prague *p)
{
	p->window_before_loss = p->window;
	p->threshold_before_loss = p->threshold;
	reduce_to(p, p->window / 2);
}

SEC("struct_ops")
void BPF_PROG(prague_set_state, struct sock *sk, __u8 state)
{
	struct prague *p = prague(sk);

	if (state == TCP_CA_Recovery && !p->is_recovering)
		halve(p);
	if (state == TCP_CA_Loss) {
		if (!p->is_recovering && congestion_phase(sk) != TCP_CA_Loss)
			halve(p);
		// The kernel has set the window to what is in flight.
		p->window = smaller(tcp_sk(sk)->snd_cwnd * ONE, p->threshold);
	}
	p->is_recovering = state == TCP_CA_Recovery;
}

// Bursts are to last for 250 us at most (draft-briscoe-iccrg-prague-congestion-control, on pacing), or be one segment. The kernel sends
// what it paces for a millisecond at once, and at least two segments (net.ipv4.tcp_min_tso_segs) unless a controller wants less: below
// 12 Mbit/s the second would wait for the first in each queue on the path. What it sends at once at higher rates, and over round trips below
// 4 ms (net.ipv4.tcp_tso_rtt_log), no controller in BPF can lessen.
SEC("struct_ops")
__u32 BPF_PROG(prague_min_tso_segs, struct sock *sk)
{
	return 1;
}

SEC("struct_ops")
void BPF_PROG(prague_cwnd_event, struct sock *sk, __u32 event)
{
	echo_mark(tcp_sk(sk), &prague(sk)->echo, event);
}

// The kernel asks as it notices a mark or a loss; this controller reduces its window by itself.
SEC("struct_ops")
__u32 BPF_PROG(prague_ssthresh, struct sock *sk)
{
	return tcp_sk(sk)->snd_ssthresh;
}

SEC("struct_ops")
__u32 BPF_PROG(prague_undo_cwnd, struct sock *sk)
{
	struct prague *p = prague(sk);

	p->window = larger(p->window, p->window_before_loss);
	p->threshold = larger(p->threshold, p->threshold_before_loss);
	p->is_recovering = false;
	return whole_segments(p, tcp_sk(sk));
}

SEC(".struct_ops.link")
struct tcp_congestion_ops kumade_prague = {
	.init = (void *)prague_init,
	.cong_control = (void *)prague_cong_control,
	.set_state = (void *)prague_set_state,
	.cwnd_event = (void *)prague_cwnd_event,
	.min_tso_segs = (void *)prague_min_tso_segs,
	.ssthresh = (void *)prague_ssthresh,
	.undo_cwnd = (void *)prague_undo_cwnd,
	.flags = TCP_CONG_NON_RESTRICTED | TCP_CONG_NEEDS_ECN,
	.name = "kumade_prague",
};
