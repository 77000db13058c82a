//! Trains whose packets have a DSCP and ECN codepoint each.

use super::UdpProbes;
use super::marked::send_one;
use crate::error::Error;
use crate::packets::MAX_UNQUEUED_DELAY;
use kumade_net::platform::udp;
use kumade_probe_train::{DsFieldArrival, DsFieldTrain};
use kumade_units::{Span, Time};
use kumade_wire::Departure;
use std::io;

impl UdpProbes {
    /// Sends train `number` of the session, whose packets have these DSCPs and ECN codepoints: the packets that left, with the times before they
    /// waited in a queue of this host. Blocks for the train's duration.
    ///
    /// # Errors
    /// As [`send`](Self::send).
    pub fn send_ds_fields(&mut self, number: u32, train: &DsFieldTrain) -> Result<Vec<Departure>, Error> {
        train.check()?;
        let sent = self.send_train(number, &train.train, Some(&train.ds_fields))?;
        // Routers may reject packets with some DSCPs.
        self.are_rejections_expected = true;
        let departures = sent.departures.into_iter().zip(sent.submitted);
        let unqueued = |(departure, submitted): (Departure, Option<Time>)| Departure {
            sent: departure.sent.map(|at| submitted.filter(|begin| at - *begin > MAX_UNQUEUED_DELAY).unwrap_or(at)),
            ..departure
        };
        Ok(departures.map(unqueued).collect())
    }

    /// Receives such a train, as [`receive`](Self::receive) does others: the packets that arrived, in the order of the train.
    ///
    /// # Errors
    /// As [`receive`](Self::receive).
    pub fn receive_ds_fields(
        &mut self,
        number: u32,
        train: &DsFieldTrain,
        timeout: Span,
    ) -> Result<Vec<DsFieldArrival>, Error> {
        train.check()?;
        udp::report_marks(&self.socket, true).map_err(Error::io("see the marks of packets from", self.peer))?;
        let mut ds_fields = vec![None; train.ds_fields.len()];
        let received = self.receive_train(number, &train.train, timeout, |index, arrival| {
            // The first copy counts.
            if let Some(field @ None) = ds_fields.get_mut(index as usize) {
                *field = arrival.ds_field;
            }
        });
        // Other trains need no marks.
        let _ = udp::report_marks(&self.socket, false);
        let arrival = |arrival: kumade_wire::Arrival| DsFieldArrival {
            index: arrival.index,
            received: arrival.received,
            ds_field: ds_fields.get(arrival.index as usize).copied().flatten(),
        };
        Ok(received?.arrivals.into_iter().map(arrival).collect())
    }

    /// Sends the first bytes of the packet that is prepared, with this DSCP and ECN or those of the socket.
    pub(super) fn send_payload(&self, bytes: usize, ds_field: Option<u8>) -> io::Result<()> {
        let payload = &self.packet[..bytes];
        match ds_field {
            None => udp::send(&self.socket, payload),
            Some(octet) => send_one(&self.socket, payload, octet, None),
        }
    }
}
