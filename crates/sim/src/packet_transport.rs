//! What carries packets of trains while time passes: links in series or side by side, or one that is shared with TCP connections.

use crate::packet_at_hop::PacketAtHop;
use kumade_link::{Label, Link};
use kumade_packet::DsField;
use kumade_units::Time;
use rand::{RngExt, SeedableRng};
use rand_pcg::Pcg64Mcg;

/// All trains are those of one host.
const TRAINS_HOST: u64 = 0;

/// Carries packets from one end to the other.
pub(crate) trait PacketTransport {
    /// A packet enters, no earlier than it was last advanced to.
    fn offer(&mut self, packet: PacketAtHop);

    /// When to advance it at the latest, so that nothing comes out late. None while it carries nothing.
    fn next_event(&self) -> Option<Time>;

    /// Runs it to `now`, and appends what has come out by then.
    fn advance(&mut self, now: Time, out: &mut Vec<PacketAtHop>);
}

/// Links one after the other.
pub(crate) struct LinksInSeries<'a>(pub(crate) &'a mut [Link<usize>]);

impl PacketTransport for LinksInSeries<'_> {
    fn offer(&mut self, packet: PacketAtHop) {
        if let Some(first) = self.0.first_mut() {
            offer_to_link(first, packet);
        }
    }

    fn next_event(&self) -> Option<Time> {
        self.0.iter().filter_map(Link::next_event).min()
    }

    fn advance(&mut self, now: Time, out: &mut Vec<PacketAtHop>) {
        for place in 0..self.0.len() {
            let (before, behind) = self.0.split_at_mut(place + 1);
            let link = &mut before[place];
            link.advance(now);
            while let Some(packet) = pop_packet(link, now) {
                match behind.first_mut() {
                    Some(next) => offer_to_link(next, packet),
                    None => out.push(packet),
                }
            }
        }
    }
}

/// Links side by side, of which each flow takes one, by a hash under this seed (RFC 2991).
pub(crate) struct EcmpLinks<'a> {
    pub(crate) links: &'a mut [Link<usize>],
    pub(crate) seed: u64,
}

/// The one of so many links that a flow takes.
pub(crate) fn link_of_flow(seed: u64, links: usize, flow: u64) -> usize {
    let hash = Pcg64Mcg::seed_from_u64(seed ^ (flow << 20)).random::<u32>();
    hash as usize % links
}

impl PacketTransport for EcmpLinks<'_> {
    fn offer(&mut self, packet: PacketAtHop) {
        let member = link_of_flow(self.seed, self.links.len(), packet.flow);
        offer_to_link(&mut self.links[member], packet);
    }

    fn next_event(&self) -> Option<Time> {
        self.links.iter().filter_map(Link::next_event).min()
    }

    fn advance(&mut self, now: Time, out: &mut Vec<PacketAtHop>) {
        let begin = out.len();
        for link in &mut *self.links {
            link.advance(now);
            while let Some(packet) = pop_packet(link, now) {
                out.push(packet);
            }
        }
        out[begin..].sort_by_key(|packet| (packet.time, packet.index));
    }
}

/// Puts a packet on a link. What finds no room is lost: it just does not come out.
pub(crate) fn offer_to_link(
    link: &mut Link<usize>,
    PacketAtHop { index, flow, size, ds_field, time: at }: PacketAtHop,
) {
    let _ = link.offer_labelled(
        index,
        Label { size, flow, host: TRAINS_HOST, dscp: ds_field.dscp(), ecn: ds_field.ecn(), ..Label::default() },
        at,
    );
}

/// The next packet that has come out by `now`.
pub(crate) fn pop_packet(link: &mut Link<usize>, now: Time) -> Option<PacketAtHop> {
    // The checksum of one with an inverted bit fails where it arrives.
    let delivery = std::iter::from_fn(|| link.pop_due(now)).find(|delivery| delivery.inverted_bit.is_none())?;
    let Label { size, flow, dscp, ecn, .. } = delivery.label;
    Some(PacketAtHop { index: delivery.packet, flow, size, ds_field: DsField::new(dscp, ecn), time: delivery.due })
}
