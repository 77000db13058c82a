// What controllers that live on marks have in common.
//
// The share of segments that queues have marked: DCTCP's alpha (RFC 8257, section 3.3), a moving average that is updated once a
// round trip. The kernel counts the segments (`delivered_ce`) whose acknowledgement has the flag ECE. So that this is exact, the
// receiver acknowledges at once where the mark changes, and echoes it as it is (section 3.2). AccECN (RFC 9768) would count without
// that; Linux 6.18 has it, but does not let it be switched on.

#pragma once

#include "congestion.h"

#define ALPHA_ONE (1U << 20)
#define ALPHA_GAIN_SHIFT 4 // g = 1/16 (RFC 8257, section 4.2; draft-briscoe-iccrg-prague-congestion-control, section 2.4.2)

struct marked_fraction {
	__u32 alpha;            // in ALPHA_ONEs
	__u32 delivered;        // counters at the last update
	__u32 delivered_ce;
};

static __always_inline void start_marked_fraction(struct marked_fraction *marks, struct tcp_sock *tp, __u32 alpha)
{
	marks->alpha = alpha;
	marks->delivered = tp->delivered;
	marks->delivered_ce = tp->delivered_ce;
}

// What a receiver has told.
struct mark_echo {
	__u32 rcv_nxt;
	bool is_marked;
};

static __always_inline void set_echo(struct tcp_sock *tp, bool is_marked)
{
	if (is_marked)
		tp->ecn_flags |= TCP_ECN_DEMAND_CWR;
	else
		tp->ecn_flags &= ~TCP_ECN_DEMAND_CWR;
}

// As a segment arrives.
static __always_inline void echo_mark(struct tcp_sock *tp, struct mark_echo *echo, __u32 event)
{
	bool is_marked = event == CA_EVENT_ECN_IS_CE;

	if (!is_marked && event != CA_EVENT_ECN_NO_CE)
		return;
	if (echo->is_marked != is_marked) {
		// What came before, and is not acknowledged yet, was not like this one.
		if (tp->inet_conn.icsk_ack.pending & ICSK_ACK_TIMER) {
			set_echo(tp, echo->is_marked);
			bpf_tcp_send_ack(tp, echo->rcv_nxt);
		}
		tp->inet_conn.icsk_ack.pending |= ICSK_ACK_NOW;
	}
	echo->rcv_nxt = tp->rcv_nxt;
	echo->is_marked = is_marked;
	set_echo(tp, is_marked);
}

// At the end of a round trip.
static __always_inline void update_marked_fraction(struct marked_fraction *marks, struct tcp_sock *tp)
{
	__u32 delivered = larger(tp->delivered - marks->delivered, 1);
	__u32 marked = smaller(tp->delivered_ce - marks->delivered_ce, delivered);
	__u64 fraction = (__u64)marked * ALPHA_ONE / delivered;

	marks->alpha += (fraction >> ALPHA_GAIN_SHIFT) - (marks->alpha >> ALPHA_GAIN_SHIFT);
	marks->delivered = tp->delivered;
	marks->delivered_ce = tp->delivered_ce;
}
