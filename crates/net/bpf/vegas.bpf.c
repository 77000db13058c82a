// TCP Vegas (Brakmo and Peterson, "TCP Vegas: end to end congestion avoidance on a global Internet", 1995) as Linux has
// it, and the simulator's `tcp::congestion::vegas`: for kernels built without.
//
// Once per round trip, by the least round-trip time of the round, the window is moved so that 2 to 4 of the connection's
// own segments wait in queues; slow start ends with more than 1. While segments are missing, and after rounds with too
// few round-trip times to know, it grows as Reno's.

#include "congestion.h"

#define QUEUED_LEAST 2      // alpha
#define QUEUED_MOST 4       // beta
#define QUEUED_SLOW_START 1 // gamma
#define TOO_FEW 2           // round-trip times that may all be of delayed acknowledgements

struct vegas {
	__u32 base_rtt;         // the shortest ever, in microseconds
	__u32 least_rtt;        // of this round
	__u32 rtt_count;        // of this round
	__u32 round_end;        // sequence number whose acknowledgement ends the round
	bool heeds_delay;
};

static __always_inline struct vegas *vegas(struct sock *sk)
{
	return congestion_state(sk);
}

static __always_inline void begin_round(struct vegas *v, struct tcp_sock *tp)
{
	v->least_rtt = ~0U;
	v->rtt_count = 0;
	v->round_end = tp->snd_nxt;
}

SEC("struct_ops")
void BPF_PROG(vegas_init, struct sock *sk)
{
	struct vegas *v = vegas(sk);

	v->base_rtt = ~0U;
	v->heeds_delay = true;
	begin_round(v, tcp_sk(sk));
}

SEC("struct_ops")
void BPF_PROG(vegas_pkts_acked, struct sock *sk, const struct ack_sample *sample)
{
	struct vegas *v = vegas(sk);
	__s32 rtt = sample->rtt_us;

	if (rtt < 0)
		return;
	v->base_rtt = smaller(v->base_rtt, larger(rtt, 1));
	v->least_rtt = smaller(v->least_rtt, larger(rtt, 1));
	v->rtt_count++;
}

static __always_inline void lower_threshold(struct tcp_sock *tp)
{
	tp->snd_ssthresh = smaller(tp->snd_ssthresh, tp->snd_cwnd);
}

static __always_inline void end_round(struct tcp_sock *tp, struct vegas *v, __u32 acked)
{
	__u64 window = tp->snd_cwnd;
	__u64 held = window * v->base_rtt / v->least_rtt;
	__u64 queued = window * (v->least_rtt - v->base_rtt) / v->base_rtt;

	if (in_slow_start(tp) && queued <= QUEUED_SLOW_START) {
		tcp_slow_start(tp, acked);
	} else if (in_slow_start(tp)) {
		tp->snd_cwnd = smaller(window, held + 1);
		lower_threshold(tp);
	} else if (queued > QUEUED_MOST) {
		tp->snd_cwnd = window - 1;
		lower_threshold(tp);
	} else if (queued < QUEUED_LEAST) {
		tp->snd_cwnd = window + 1;
	}
	tp->snd_cwnd = larger(smaller(tp->snd_cwnd, tp->snd_cwnd_clamp), 2);
	tp->snd_ssthresh = larger(tp->snd_ssthresh, tp->snd_cwnd / 2 + tp->snd_cwnd / 4);
}

SEC("struct_ops")
void BPF_PROG(vegas_cong_avoid, struct sock *sk, __u32 ack, __u32 acked)
{
	struct tcp_sock *tp = tcp_sk(sk);
	struct vegas *v = vegas(sk);

	if (!v->heeds_delay) {
		tcp_reno_cong_avoid(sk, ack, acked);
	} else if (after(ack, v->round_end)) {
		if (v->rtt_count > TOO_FEW)
			end_round(tp, v, acked);
		else
			tcp_reno_cong_avoid(sk, ack, acked);
		begin_round(v, tp);
	} else if (in_slow_start(tp)) {
		tcp_slow_start(tp, acked);
	}
}

SEC("struct_ops")
void BPF_PROG(vegas_set_state, struct sock *sk, __u8 state)
{
	struct vegas *v = vegas(sk);

	v->heeds_delay = state == TCP_CA_Open;
	if (v->heeds_delay)
		begin_round(v, tcp_sk(sk));
}

SEC("struct_ops")
void BPF_PROG(vegas_cwnd_event, struct sock *sk, __u32 event)
{
	struct vegas *v = vegas(sk);

	// After a pause the path may be another.
	if (event == CA_EVENT_TX_START || event == CA_EVENT_CWND_RESTART) {
		v->base_rtt = ~0U;
		v->heeds_delay = true;
		begin_round(v, tcp_sk(sk));
	}
}

SEC("struct_ops")
__u32 BPF_PROG(vegas_ssthresh, struct sock *sk)
{
	return tcp_reno_ssthresh(sk);
}

SEC("struct_ops")
__u32 BPF_PROG(vegas_undo_cwnd, struct sock *sk)
{
	return tcp_reno_undo_cwnd(sk);
}

SEC(".struct_ops.link")
struct tcp_congestion_ops kumade_vegas = {
	.init = (void *)vegas_init,
	.pkts_acked = (void *)vegas_pkts_acked,
	.cong_avoid = (void *)vegas_cong_avoid,
	.set_state = (void *)vegas_set_state,
	.cwnd_event = (void *)vegas_cwnd_event,
	.ssthresh = (void *)vegas_ssthresh,
	.undo_cwnd = (void *)vegas_undo_cwnd,
	.flags = TCP_CONG_NON_RESTRICTED,
	.name = "kumade_vegas",
};
