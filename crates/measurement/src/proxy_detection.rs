//! Whether a proxy ends the TCP connections on the way, by what the two ends know of them.

use crate::report::{ProxySign, Warning};
use kumade_units::Span;

/// What one end knows of its TCP connections, which lead to the other end or to a proxy.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct TcpConnectionInfo {
    /// Bytes of the IP and TCP headers on each data packet.
    pub header_bytes: u32,
    /// The round trip of segments and their acknowledgements, the shortest of all connections.
    pub round_trip: Span,
}

/// A leg counts as shorter than the path if its round trip takes less than this part of the path's, less the margin, which
/// a host may take to answer.
const MAX_SHORTER_ROUND_TRIP_RATIO: f64 = 0.75;
const ROUND_TRIP_MARGIN: Span = Span::from_millis(2);

/// Legs differ if one takes more than this factor of the other, and the margin: the shortest round trip of many connections is hardly
/// ever twice as long as the path's.
const UNEQUAL_ROUND_TRIP_RATIO: f64 = 2.0;

/// The legs of a divided connection add up to about the path's round trip.
const ROUND_TRIP_SUM_RATIOS: std::ops::RangeInclusive<f64> = 0.6..=1.15;

/// A warning where the connections of the two ends are not the same ones; `round_trip` is that of messages between the
/// programs.
pub fn detect_proxy(near: TcpConnectionInfo, far: TcpConnectionInfo, round_trip: Span) -> Option<Warning> {
    let sign = if near.header_bytes != far.header_bytes {
        ProxySign::Headers(near.header_bytes, far.header_bytes)
    } else if divides_round_trip(near.round_trip, far.round_trip, round_trip) {
        ProxySign::RoundTrips(near.round_trip, far.round_trip, round_trip)
    } else {
        return None;
    };
    Some(Warning::Proxy(sign))
}

/// Whether the connections together are about as long as the path, and either both are shorter, or one is much shorter than the other:
/// one path is as long from both ends.
fn divides_round_trip(near: Span, far: Span, whole: Span) -> bool {
    let margin = ROUND_TRIP_MARGIN.as_secs_f64();
    let [near, far, whole] = [near, far, whole].map(Span::as_secs_f64);
    let (shorter, longer) = (near.min(far), near.max(far));
    let are_shorter = longer < whole * MAX_SHORTER_ROUND_TRIP_RATIO - margin;
    let are_unequal = longer > shorter * UNEQUAL_ROUND_TRIP_RATIO + margin;
    (are_shorter || are_unequal) && ROUND_TRIP_SUM_RATIOS.contains(&((near + far) / whole))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn leg(header: u32, millis: i64) -> TcpConnectionInfo {
        TcpConnectionInfo { header_bytes: header, round_trip: Span::from_millis(millis) }
    }

    fn warning(near: TcpConnectionInfo, far: TcpConnectionInfo, millis: i64) -> Option<ProxySign> {
        match detect_proxy(near, far, Span::from_millis(millis))? {
            Warning::Proxy(sign) => Some(sign),
            other => panic!("{other}"),
        }
    }

    #[test]
    fn other_headers_show_a_proxy() {
        assert_eq!(warning(leg(52, 10), leg(40, 10), 10), Some(ProxySign::Headers(52, 40)));
        assert!(warning(leg(72, 0), leg(52, 0), 0).is_some());
    }

    #[test]
    fn legs_shorter_than_the_path_show_a_proxy() {
        assert!(
            warning(leg(52, 8), leg(52, 15), 20).is_none(),
            "one leg of 15 ms may be a path of 20 ms on a busy host"
        );
        assert!(matches!(warning(leg(52, 10), leg(52, 20), 30), Some(ProxySign::RoundTrips(..))));
        assert!(warning(leg(52, 30), leg(52, 30), 30).is_none());
    }

    #[test]
    fn legs_of_other_lengths_show_a_proxy_near_one_end() {
        for (near, far) in [(40, 10), (10, 40), (47, 3), (3, 47)] {
            let found = warning(leg(52, near), leg(52, far), 50);
            assert!(matches!(found, Some(ProxySign::RoundTrips(..))), "{near} and {far} ms");
        }
        assert!(
            warning(leg(52, 50), leg(52, 10), 50).is_none(),
            "the first one is all of the path, on which something waited"
        );
        assert!(warning(leg(52, 2), leg(52, 0), 2).is_none());
    }

    #[test]
    fn a_host_that_answers_late_is_no_proxy() {
        for (kernel, programs) in [(0, 1), (1, 2), (2, 4), (20, 23), (20, 30)] {
            assert_eq!(warning(leg(52, kernel), leg(52, kernel), programs), None, "{kernel} ms, {programs} ms");
        }
    }
}
