// Compound TCP (Tan, Song, Zhang, Sridharan, "A Compound TCP Approach for High-Speed and Long Distance Networks", 2006;
// draft-sridharan-tcpm-ctcp-02), as the simulator's `tcp::congestion::compound` has it.
//
// The window is the sum of a loss-based one, which is Reno's, and a delay-based one, which is kept here. The kernel
// knows only the sum, `snd_cwnd`. Once per round trip, with `queued` the connection's own segments that wait in queues,
//
//   delay window += max(0, 1/8 * window^(3/4) - 1)   where queued < 30
//   delay window -= queued                           else
//
// A loss halves both; a timeout, or slow start, leaves no delay window.

#include "congestion.h"

#define QUEUED_MOST 30      // gamma
#define GROWTH_SHIFT 3      // alpha = 1/8
#define ONE (1ULL << 10)    // a segment: windows are counted in 1/1024

struct compound {
	__u32 base_rtt;         // the shortest ever, in microseconds
	__u32 rtt_count;        // of this round
	__u64 rtt_sum;
	__u32 round_end;        // sequence number whose acknowledgement ends the round
	__u32 delay_window;     // in ONEs
	__u32 delay_window_before_loss;
};

static __always_inline struct compound *compound(struct sock *sk)
{
	return congestion_state(sk);
}

static __always_inline void begin_round(struct compound *c, struct tcp_sock *tp)
{
	c->rtt_sum = 0;
	c->rtt_count = 0;
	c->round_end = tp->snd_nxt;
}

// 1/8 * window^(3/4) - 1, or 0 where that is negative, in ONEs.
static __always_inline __u64 growth(__u64 window)
{
	__u64 power_1_2 = square_root(window * ONE * ONE);
	__u64 power_3_4 = square_root(window * power_1_2 * ONE);
	__u64 increase = power_3_4 >> GROWTH_SHIFT;

	return increase > ONE ? increase - ONE : 0;
}

SEC("struct_ops")
void BPF_PROG(compound_init, struct sock *sk)
{
	struct compound *c = compound(sk);

	c->base_rtt = ~0U;
	c->delay_window = 0;
	c->delay_window_before_loss = 0;
	begin_round(c, tcp_sk(sk));
}

SEC("struct_ops")
void BPF_PROG(compound_pkts_acked, struct sock *sk, const struct ack_sample *sample)
{
	struct compound *c = compound(sk);

	if (sample->rtt_us <= 0)
		return;
	c->base_rtt = smaller(c->base_rtt, sample->rtt_us);
	c->rtt_sum += sample->rtt_us;
	c->rtt_count++;
}

// Moves the sum by as many whole segments as the delay-based window moves.
static __always_inline void set_delay_window(struct tcp_sock *tp, struct compound *c, __u64 delay_window)
{
	__u64 window = tp->snd_cwnd - c->delay_window / ONE + delay_window / ONE;

	c->delay_window = delay_window;
	tp->snd_cwnd = larger(smaller(window, tp->snd_cwnd_clamp), 2);
}

static __always_inline void end_round(struct tcp_sock *tp, struct compound *c)
{
	__u64 rtt = c->rtt_sum / c->rtt_count;
	__u64 window = tp->snd_cwnd;
	__u64 queued = window * (rtt - smaller(rtt, c->base_rtt)) * ONE / rtt;

	// The kernel shrinks the sum by itself after a pause.
	c->delay_window = smaller(c->delay_window, window * ONE);
	if (queued >= QUEUED_MOST * ONE)
		set_delay_window(tp, c, c->delay_window - smaller(c->delay_window, queued));
	else if (window_limited(tp))
		set_delay_window(tp, c, c->delay_window + growth(window));
}

SEC("struct_ops")
void BPF_PROG(compound_cong_avoid, struct sock *sk, __u32 ack, __u32 acked)
{
	struct tcp_sock *tp = tcp_sk(sk);
	struct compound *c = compound(sk);

	tcp_reno_cong_avoid(sk, ack, acked);
	if (!after(ack, c->round_end))
		return;
	if (in_slow_start(tp))
		c->delay_window = 0;
	else if (c->rtt_count > 0)
		end_round(tp, c);
	begin_round(c, tp);
}

SEC("struct_ops")
__u32 BPF_PROG(compound_ssthresh, struct sock *sk)
{
	struct compound *c = compound(sk);

	c->delay_window_before_loss = c->delay_window;
	c->delay_window /= 2;
	return tcp_reno_ssthresh(sk);
}

SEC("struct_ops")
__u32 BPF_PROG(compound_undo_cwnd, struct sock *sk)
{
	struct compound *c = compound(sk);

	c->delay_window = c->delay_window_before_loss;
	return tcp_reno_undo_cwnd(sk);
}

SEC("struct_ops")
void BPF_PROG(compound_set_state, struct sock *sk, __u8 state)
{
	if (state == TCP_CA_Loss)
		compound(sk)->delay_window = 0;
}

SEC(".struct_ops.link")
struct tcp_congestion_ops kumade_compound = {
	.init = (void *)compound_init,
	.pkts_acked = (void *)compound_pkts_acked,
	.cong_avoid = (void *)compound_cong_avoid,
	.ssthresh = (void *)compound_ssthresh,
	.undo_cwnd = (void *)compound_undo_cwnd,
	.set_state = (void *)compound_set_state,
	.flags = TCP_CONG_NON_RESTRICTED,
	.name = "kumade_compound",
};
