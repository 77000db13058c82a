use super::spec::AccessSpec;
use kumade_link::{CrossConfig, CrossTraffic, Delivery, Label, Link};
use kumade_net::clock;
use kumade_packet_loop::Buffer;
use kumade_units::{ConfigError, Time};

/// The access links of one host, in both directions.
#[derive(Debug)]
pub(super) struct AccessLinks {
    pub(super) to_bottleneck: LinkChain,
    pub(super) to_host: LinkChain,
}

/// Links one behind the other.
#[derive(Debug, Default)]
pub(super) struct LinkChain {
    links: Vec<Link<Buffer>>,
}

impl AccessLinks {
    /// None where the host is at the bottleneck itself.
    pub(super) fn new(specs: &[AccessSpec], now: Time) -> Result<Option<Self>, ConfigError> {
        let mut access = AccessLinks { to_bottleneck: LinkChain::default(), to_host: LinkChain::default() };
        for spec in specs {
            let mut out = Link::new(spec.link.clone().validate()?);
            out.advance(now);
            if let Some(cross) = &spec.cross_traffic {
                out.add_cross_traffic(CrossTraffic::new(CrossConfig { start: clock::realtime(), ..cross.clone() })?);
            }
            access.to_bottleneck.links.push(out);
            access.to_host.links.insert(0, Link::new(spec.link.clone().validate()?));
        }
        Ok((!specs.is_empty()).then_some(access))
    }
}

impl LinkChain {
    /// A packet reaches the first link.
    pub(super) fn offer(&mut self, packet: Buffer, label: Label, arrival: Time) {
        if let Some(first) = self.links.first_mut() {
            // These links keep no account of their drops.
            let _ = first.offer_labelled(packet, label, arrival);
        }
    }

    /// Moves packets that leave a link by `horizon` to the next one; those that leave the last one go to `leave`.
    pub(super) fn advance(&mut self, horizon: Time, mut leave: impl FnMut(Delivery<Buffer>)) {
        let mut rest = &mut self.links[..];
        while let Some((link, following)) = rest.split_first_mut() {
            link.advance(horizon);
            while let Some(delivery) = link.pop_due(horizon) {
                match following.first_mut() {
                    Some(next) => {
                        let _ = next.offer_labelled(delivery.packet, delivery.label, delivery.due);
                    }
                    None => leave(delivery),
                }
            }
            rest = following;
        }
    }

    /// The earliest instant at which a packet may leave one of the links.
    pub(super) fn next_event(&self) -> Option<Time> {
        self.links.iter().filter_map(Link::next_event).min()
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use kumade_link::LinkConfig;
    use kumade_packet_loop::BufferPool;
    use kumade_units::{Rate, Span};

    fn hop(mbit: u64, delay: i64) -> AccessSpec {
        let (rate, delay) = (Some(Rate::from_mbit(mbit)), Span::from_millis(delay));
        let link = LinkConfig { rate, delay, queue_bytes: 3000, ..LinkConfig::default() };
        AccessSpec { link, cross_traffic: None }
    }

    #[test]
    fn each_link_serves_and_delays_and_may_drop() {
        let mut access = AccessLinks::new(&[hop(100, 1), hop(1, 2)], Time::ZERO).unwrap().unwrap();
        let start = Time::ZERO + Span::from_millis(1);
        // The second link takes 12 ms for a packet, and two may wait before it.
        let pool = BufferPool::default();
        let label = Label { size: 1500, flow: 0, host: 0, ecn: Default::default(), ..Label::default() };
        (0..5).for_each(|_| access.to_bottleneck.offer(pool.copy_from(&[0; 1500]), label, start));
        let mut seen = Vec::new();
        while let Some(event) = access.to_bottleneck.next_event() {
            access
                .to_bottleneck
                .advance(event, |left| seen.push((left.packet.len(), (left.due - start).as_nanos() / 1000)));
        }
        // Three find room before the first, one of them in service.
        assert_eq!(seen, [(1500, 15_120), (1500, 27_120), (1500, 39_120)]);
    }

    #[test]
    fn the_way_back_is_the_way_out_reversed() {
        let access = AccessLinks::new(&[hop(100, 1), hop(1, 2)], Time::ZERO).unwrap().unwrap();
        let delays = |chain: &LinkChain| chain.links.iter().map(|link| link.config().delay).collect::<Vec<_>>();
        let mut back = delays(&access.to_host);
        back.reverse();
        assert_eq!(delays(&access.to_bottleneck), back);
        assert!(AccessLinks::new(&[], Time::ZERO).unwrap().is_none());
    }
}
