use crate::overload_limit::OverloadWatch;
use kumade_units::Span;
use std::collections::BTreeMap;

/// Which peers take much of the thread's time for what brings hosts nothing: probes, reports, signs of life, packets whose sources are
/// not theirs. Each costs little, so that none need be lost, and yet all together take a processor from whoever shares it. (Routers bound
/// what their control plane takes likewise: RFC 6192.)
#[derive(Debug, Default)]
pub(crate) struct OverheadWatch {
    /// Peers, by their places, that have had some since the last look, or take too much.
    peers: BTreeMap<usize, Overhead>,
}

#[derive(Debug, Default)]
struct Overhead {
    time: Span,
    messages: u32,
    reads: u32,
    /// Something was left after one of them.
    has_more: bool,
    excessive_looks: u32,
}

/// A part of the thread's time between two looks. Probes and reports of 16 paths take some thousandths at most.
const MAX_OVERHEAD_DIVISOR: i64 = 20;
/// As many messages take so much time. Fewer don't, but where the system takes the thread's processor meanwhile.
const MIN_MESSAGES: u32 = 500;
/// At so many looks in a row it was more, as for what is [lost](OverloadWatch).
const MIN_EXCESSIVE_LOOKS: u32 = 5;

impl Overhead {
    fn is_too_much(&self) -> bool {
        self.excessive_looks >= MIN_EXCESSIVE_LOOKS
    }
}

impl OverheadWatch {
    /// So many messages of a read of a peer were overhead, and so much of the time that it took. `has_more` says whether more is to be
    /// read.
    pub(crate) fn record(&mut self, peer: usize, (messages, overhead): (u32, Span), has_more: bool) {
        if messages > 0 || self.peers.contains_key(&peer) {
            let of_peer = self.peers.entry(peer).or_default();
            of_peer.time += overhead;
            of_peer.messages = of_peer.messages.saturating_add(messages);
            of_peer.reads = of_peer.reads.saturating_add(1);
            of_peer.has_more |= has_more;
        }
    }

    /// Looks at what there was since the last look. Returns whether other peers take too much than before.
    pub(crate) fn update(&mut self) -> bool {
        let max_time = OverloadWatch::LOOK_INTERVAL / MAX_OVERHEAD_DIVISOR;
        let mut has_changed = false;
        self.peers.retain(|_, peer| {
            let before = peer.is_too_much();
            // Who takes too much has little time for it, with others, and takes less only if all was read.
            let is_held_back = before && (peer.has_more || peer.reads == 0);
            let is_excessive = peer.time > max_time && peer.messages >= MIN_MESSAGES;
            let looks = if is_excessive || is_held_back { peer.excessive_looks.saturating_add(1) } else { 0 };
            *peer = Overhead { excessive_looks: looks, ..Overhead::default() };
            has_changed |= before != peer.is_too_much();
            looks > 0
        });
        has_changed
    }

    /// Whether a peer takes too much.
    pub(crate) fn is_too_much(&self, peer: usize) -> bool {
        self.peers.get(&peer).is_some_and(Overhead::is_too_much)
    }

    /// Whether any does.
    pub(crate) fn is_any_too_much(&self) -> bool {
        self.peers.values().any(Overhead::is_too_much)
    }

    /// Peers have other places.
    pub(crate) fn clear(&mut self) {
        self.peers.clear();
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const TOO_LONG: Span = Span::from_micros(5100);

    #[test]
    fn a_peer_whose_messages_bring_nothing_for_half_a_second_is_held_back_until_all_is_read() {
        let mut watch = OverheadWatch::default();
        for look in 0..10 {
            watch.record(3, (MIN_MESSAGES, TOO_LONG), true);
            watch.record(4, (MIN_MESSAGES, Span::from_micros(4900)), true);
            // The system has let this thread wait.
            watch.record(5, (MIN_MESSAGES - 1, TOO_LONG), true);
            assert_eq!(watch.update(), look == 4, "look {look}");
            assert_eq!([3, 4, 5].map(|peer| watch.is_too_much(peer)), [look >= 4, false, false]);
        }
        // Beside many others, it has little time or none.
        watch.record(3, (10, Span::from_micros(100)), true);
        assert!(!watch.update() && !watch.update() && watch.is_too_much(3) && watch.is_any_too_much());
        watch.record(3, (10, Span::from_micros(100)), false);
        assert!(watch.update() && !watch.is_too_much(3) && !watch.is_any_too_much());
    }

    #[test]
    fn nothing_is_kept_of_peers_that_bring_packets() {
        let mut watch = OverheadWatch::default();
        (0..1000).for_each(|peer| watch.record(peer, (0, Span::ZERO), true));
        assert!(watch.peers.is_empty());
        (0..1000).for_each(|peer| watch.record(peer, (1, Span::from_micros(10)), true));
        assert!(!watch.update() && watch.peers.is_empty());
    }
}
