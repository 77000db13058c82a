// The share of segments that queues have marked: DCTCP's alpha (RFC 8257, section 3.3), a moving average that is updated once a
// round trip. The kernel counts marks (`delivered_ce`) as the receiver reports them: exactly with AccECN (RFC 9768), which both
// hosts have to use (`net.ipv4.tcp_ecn` 3).

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
