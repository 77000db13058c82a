// DCTCP (RFC 8257), as the simulator's `tcp::congestion::dctcp` has it: Reno, but marks reduce the window by half of the share of
// segments that were marked, once a round trip. Losses halve it.

#include "marks.h"

#define LEAST_WINDOW 2

struct dctcp {
	struct marked_fraction marks;
	struct mark_echo echo;
	__u32 round_end;        // sequence number whose acknowledgement ends the round
	__u32 window_before_loss;
};

static __always_inline struct dctcp *dctcp(struct sock *sk)
{
	return congestion_state(sk);
}

SEC("struct_ops")
void BPF_PROG(dctcp_init, struct sock *sk)
{
	struct dctcp *d = dctcp(sk);
	struct tcp_sock *tp = tcp_sk(sk);

	start_marked_fraction(&d->marks, tp, ALPHA_ONE);
	d->round_end = tp->snd_nxt;
	d->window_before_loss = 0;
	d->echo.rcv_nxt = tp->rcv_nxt;
	d->echo.is_marked = false;
}

SEC("struct_ops")
void BPF_PROG(dctcp_in_ack_event, struct sock *sk, __u32 flags)
{
	struct dctcp *d = dctcp(sk);
	struct tcp_sock *tp = tcp_sk(sk);

	if (after(d->round_end, tp->snd_una))
		return;
	update_marked_fraction(&d->marks, tp);
	d->round_end = tp->snd_nxt;
}

// What the kernel asks for at a mark, once a round trip, and at a loss, where another event corrects it.
SEC("struct_ops")
__u32 BPF_PROG(dctcp_ssthresh, struct sock *sk)
{
	struct dctcp *d = dctcp(sk);
	__u64 window = tcp_sk(sk)->snd_cwnd;

	d->window_before_loss = window;
	return larger(window - window * d->marks.alpha / (2 * ALPHA_ONE), LEAST_WINDOW);
}

static __always_inline void halve(struct sock *sk)
{
	struct dctcp *d = dctcp(sk);

	tcp_sk(sk)->snd_ssthresh = larger(d->window_before_loss / 2, LEAST_WINDOW);
}

SEC("struct_ops")
void BPF_PROG(dctcp_set_state, struct sock *sk, __u8 state)
{
	if (state == TCP_CA_Recovery && congestion_phase(sk) != TCP_CA_Recovery)
		halve(sk);
}

SEC("struct_ops")
void BPF_PROG(dctcp_cwnd_event, struct sock *sk, __u32 event)
{
	if (event == CA_EVENT_LOSS)
		halve(sk);
	else
		echo_mark(tcp_sk(sk), &dctcp(sk)->echo, event);
}

SEC("struct_ops")
void BPF_PROG(dctcp_cong_avoid, struct sock *sk, __u32 ack, __u32 acked)
{
	tcp_reno_cong_avoid(sk, ack, acked);
}

SEC("struct_ops")
__u32 BPF_PROG(dctcp_undo_cwnd, struct sock *sk)
{
	return larger(tcp_sk(sk)->snd_cwnd, dctcp(sk)->window_before_loss);
}

SEC(".struct_ops.link")
struct tcp_congestion_ops kumade_dctcp = {
	.init = (void *)dctcp_init,
	.in_ack_event = (void *)dctcp_in_ack_event,
	.cong_avoid = (void *)dctcp_cong_avoid,
	.set_state = (void *)dctcp_set_state,
	.cwnd_event = (void *)dctcp_cwnd_event,
	.ssthresh = (void *)dctcp_ssthresh,
	.undo_cwnd = (void *)dctcp_undo_cwnd,
	.flags = TCP_CONG_NON_RESTRICTED | TCP_CONG_NEEDS_ECN,
	.name = "kumade_dctcp",
};
