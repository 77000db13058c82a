//! How many routers a packet has passed, by its TTL or hop limit.

use crate::report::HopLimitReport;

/// TTLs with which systems send.
const USUAL_HOP_LIMITS: [u8; 3] = [64, 128, 255];

/// Of the TTL or hop limit with which packets are sent, where that is known, and with which they arrive.
pub(super) fn hop_limit_report([sent, arrived]: [Option<u8>; 2]) -> Option<HopLimitReport> {
    let arrived = arrived?;
    // A sender that says less than arrives is behind something that sets it anew.
    let known = sent.filter(|sent| *sent >= arrived);
    let from = known.or_else(|| USUAL_HOP_LIMITS.into_iter().find(|usual| *usual >= arrived)).unwrap_or(arrived);
    Some(HopLimitReport { sent, arrived, routers: from - arrived })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn routers_are_counted_from_what_the_sender_says_or_else_from_the_usual() {
        let routers = |sent, arrived| hop_limit_report([sent, Some(arrived)]).unwrap().routers;
        assert_eq!(routers(Some(64), 57), 7);
        assert_eq!(routers(Some(100), 57), 43);
        assert_eq!(routers(None, 57), 7);
        assert_eq!(routers(None, 120), 8);
        assert_eq!(routers(Some(64), 250), 5, "something sets it anew");
        assert_eq!(hop_limit_report([Some(64), None]), None);
    }
}
