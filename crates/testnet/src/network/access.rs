use super::directed_link::label;
use link::{CrossConfig, CrossTraffic, Link, LinkConfig};
use net::clock;
use units::Time;

/// A link between one host and the bottleneck, the same in both directions, with what other users send on it towards
/// the bottleneck.
#[derive(Debug, Clone, PartialEq)]
pub struct AccessSpec {
    /// The link.
    pub link: LinkConfig,
    /// The others' packets; they begin with the network, whatever their `start` says.
    pub background: Option<CrossConfig>,
}

/// The links of one host, both ways.
#[derive(Debug)]
pub(super) struct Access {
    pub(super) out: Chain,
    pub(super) back: Chain,
}

/// Links one behind the other.
#[derive(Debug)]
pub(super) struct Chain(Vec<Link<Vec<u8>>>);

impl Access {
    /// None where the host is at the bottleneck itself.
    pub(super) fn new(specs: &[AccessSpec], now: Time) -> Result<Option<Self>, units::ConfigError> {
        let mut access = Access { out: Chain(Vec::new()), back: Chain(Vec::new()) };
        for spec in specs {
            let mut out = Link::new(spec.link.clone())?;
            out.advance(now);
            if let Some(others) = &spec.background {
                out.add_cross(CrossTraffic::new(CrossConfig { start: clock::realtime(), ..others.clone() })?);
            }
            access.out.0.push(out);
            access.back.0.insert(0, Link::new(spec.link.clone())?);
        }
        Ok((!specs.is_empty()).then_some(access))
    }
}

impl Chain {
    /// A packet reaches the first link.
    pub(super) fn offer(&mut self, packet: Vec<u8>, arrival: Time) {
        if let Some(first) = self.0.first_mut() {
            let label = label(&packet);
            // What a link drops does not come out; these links keep no accounts.
            let _ = first.offer_labelled(packet, label, arrival);
        }
    }

    /// Moves on what leaves a link by `horizon`, and hands out what leaves the last one, with the time.
    pub(super) fn advance(&mut self, horizon: Time, mut leave: impl FnMut(Vec<u8>, Time)) {
        let mut rest = &mut self.0[..];
        while let Some((link, following)) = rest.split_first_mut() {
            link.advance(horizon);
            while let Some(delivery) = link.pop_due(horizon) {
                match following.first_mut() {
                    Some(next) => {
                        let label = label(&delivery.packet);
                        let _ = next.offer_labelled(delivery.packet, label, delivery.due);
                    }
                    None => leave(delivery.packet, delivery.due),
                }
            }
            rest = following;
        }
    }

    /// When something may come out of one of the links at the earliest.
    pub(super) fn next_event(&self) -> Option<Time> {
        self.0.iter().filter_map(Link::next_event).min()
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use units::{Rate, Span};

    fn hop(mbit: u64, delay: i64) -> AccessSpec {
        let (rate, delay) = (Some(Rate::from_mbit(mbit)), Span::from_millis(delay));
        let link = LinkConfig { rate, delay, queue_bytes: 3000, ..LinkConfig::default() };
        AccessSpec { link, background: None }
    }

    #[test]
    fn each_link_serves_and_delays_and_may_drop() {
        let mut access = Access::new(&[hop(100, 1), hop(1, 2)], Time::ZERO).unwrap().unwrap();
        let start = Time::ZERO + Span::from_millis(1);
        // The second link takes 12 ms for a packet, and two may wait before it.
        (0..5).for_each(|_| access.out.offer(vec![0; 1500], start));
        let mut seen = Vec::new();
        while let Some(event) = access.out.next_event() {
            access.out.advance(event, |packet, time| seen.push((packet.len(), (time - start).as_nanos() / 1000)));
        }
        // Three find room before the first, one of them in service.
        assert_eq!(seen, [(1500, 15_120), (1500, 27_120), (1500, 39_120)]);
    }

    #[test]
    fn the_way_back_is_the_way_out_reversed() {
        let access = Access::new(&[hop(100, 1), hop(1, 2)], Time::ZERO).unwrap().unwrap();
        let delays = |chain: &Chain| chain.0.iter().map(|link| link.config().delay).collect::<Vec<_>>();
        let mut back = delays(&access.back);
        back.reverse();
        assert_eq!(delays(&access.out), back);
        assert!(Access::new(&[], Time::ZERO).unwrap().is_none());
    }
}
