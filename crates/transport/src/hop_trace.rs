//! Packets that end on the way, and what routers answer: of flows of UDP and of TCP alike.

use crate::control_watch::ControlWatch;
use crate::error::Error;
use kumade_net::platform::BorrowedFd;
use kumade_net::{IcmpError, IcmpListener, clock, next_icmp_error};
use kumade_packet::IcmpQuote;
use kumade_probe_train::{HopAnswer, HopTrace, HopTraceRecord};
use kumade_units::Time;
use std::collections::btree_map::Entry;
use std::collections::{BTreeMap, BTreeSet};
use std::io;
use std::net::{IpAddr, SocketAddr};

/// Messages that are read before the time is looked at again: anybody may send some.
const MAX_READS: usize = 64;
/// What is read of the packet that an ICMP error quotes.
const MAX_QUOTED_BYTES: usize = 64;
/// Raw messages that are kept of one packet: anybody may send some.
const MAX_QUOTES: usize = 8;

/// A packet of a flow that an answer quotes.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct QuotedPacket {
    pub(crate) index: u32,
    /// Whether who answers has shown that the packet came there. What does not can be sent by anybody who knows or guesses its ports.
    pub(crate) is_proven: bool,
}

/// Packets between the same addresses and ports, of which one is on its way at a time.
pub(crate) trait TracedFlow {
    /// IP's number of its protocol.
    const PROTOCOL: u8;
    /// Whether its packets have sequence numbers, in octets 4 to 7 of their header, which quotes in the error queue have as well: those of TCP.
    const HAS_SEQUENCE_NUMBERS: bool;

    /// Sends packet `index` of the trace.
    fn send(&mut self, index: u32, ds_field: u8, hop_limit: u8) -> io::Result<()>;

    /// What has the answer; none before the first packet.
    fn socket(&self) -> Option<BorrowedFd<'_>>;

    /// The port at this end, and that at the other one.
    fn ports(&self) -> Option<[u16; 2]>;

    /// Which packet is quoted, of which the quote has this behind what all quotes have; none for a packet of somebody else. `last` is that which was
    /// sent last.
    fn quoted_packet(&self, payload: &[u8], last: u32) -> Option<QuotedPacket>;

    /// Waits until any of these sockets has something to tell, or the deadline has come.
    fn wait_for_any<'s>(sockets: impl Iterator<Item = BorrowedFd<'s>>, deadline: Time) -> io::Result<bool>;

    /// Drops what has come besides; whether the last packet will not be answered any more.
    fn discard_others(&mut self) -> bool;
}

/// Sends the packets of a trace towards `peer` over these flows, of which some may be missing, and hears what routers answer. Blocks as long as the
/// trace takes at most.
///
/// # Errors
/// [`Error::Aborted`] if the control connection is closed; [`Error::Io`] if the system has no answers to give.
pub(crate) fn trace_hops<F: TracedFlow>(
    flows: &mut [Option<F>],
    trace: &HopTrace,
    peer: SocketAddr,
    control: &mut ControlWatch,
) -> Result<HopTraceRecord, Error> {
    trace.check()?;
    let mut heard = Heard::new(peer);
    let end = clock::monotonic() + trace.max_duration;
    let mut indices = 0u32..;
    for group in trace.groups() {
        if clock::monotonic() >= end {
            break;
        }
        let mut awaited = Vec::with_capacity(group.len());
        for (probe, index) in group.iter().zip(&mut indices) {
            let Some(Some(flow)) = flows.get_mut(usize::from(probe.flow)) else { continue };
            let sent_at = clock::realtime();
            // What does not leave counts as not sent.
            if flow.send(index, trace.ds_field, probe.hop_limit).is_ok() {
                heard.sent.insert(index, sent_at);
                awaited.push((usize::from(probe.flow), index));
            }
        }
        heard.await_answers(flows, awaited, (clock::monotonic() + trace.timeout).min(end), control)?;
    }
    Ok(heard.into_record())
}

/// What has been heard so far.
struct Heard {
    peer: SocketAddr,
    /// When each packet left.
    sent: BTreeMap<u32, Time>,
    answers: BTreeMap<u32, HopAnswer>,
    /// Those that prove nothing, without who sent them.
    unproven: BTreeMap<u32, HopAnswer>,
    /// The sequence numbers of packets that were answered, where their protocol has such.
    sequence_numbers: BTreeMap<u32, [u8; 4]>,
    /// What raw messages quote, by packet.
    quotes: BTreeMap<u32, Vec<HeardQuote>>,
    /// None where this process may not have one.
    listener: Option<IcmpListener>,
}

/// A quote of a packet: who sent it, the packet's sequence number, where its protocol has such, and its octet of DSCP and ECN.
struct HeardQuote {
    from: Option<IpAddr>,
    sequence_number: Option<[u8; 4]>,
    ds_field: u8,
}

impl Heard {
    fn new(peer: SocketAddr) -> Self {
        Heard {
            peer,
            sent: BTreeMap::new(),
            answers: BTreeMap::new(),
            unproven: BTreeMap::new(),
            sequence_numbers: BTreeMap::new(),
            quotes: BTreeMap::new(),
            listener: IcmpListener::open(peer.ip()).ok(),
        }
    }

    /// Waits for the answers to packets, each the last one of its flow.
    fn await_answers<F: TracedFlow>(
        &mut self,
        flows: &mut [Option<F>],
        mut awaited: Vec<(usize, u32)>,
        deadline: Time,
        control: &mut ControlWatch,
    ) -> Result<(), Error> {
        loop {
            // First: what ends a flow may come with an answer, which is read afterwards.
            let mut is_over = |flow: usize| flows.get_mut(flow).and_then(Option::as_mut).is_none_or(F::discard_others);
            let over: BTreeSet<usize> = awaited.iter().map(|(flow, _)| *flow).filter(|flow| is_over(*flow)).collect();
            for (flow, last) in &awaited {
                if let Some(Some(flow)) = flows.get(*flow) {
                    self.take_answers(flow, *last)?;
                }
            }
            // The kernel has given each message to raw sockets before.
            self.take_quotes(flows, &awaited);
            // An error that was reported, or a packet, would end every wait at once.
            awaited.retain(|(flow, index)| !over.contains(flow) && !self.answers.contains_key(index));
            if awaited.is_empty() || clock::monotonic() >= deadline {
                return Ok(());
            }
            if control.is_closed() {
                return Err(Error::Aborted(self.peer));
            }
            let sockets = awaited.iter().filter_map(|(flow, _)| flows.get(*flow)?.as_ref()?.socket());
            F::wait_for_any(sockets, control.next_wakeup(deadline))
                .map_err(Error::io("wait for answers of routers on the way to", self.peer))?;
        }
    }

    fn take_answers<F: TracedFlow>(&mut self, flow: &F, last: u32) -> Result<(), Error> {
        let mut payload = [0; MAX_QUOTED_BYTES];
        for _ in 0..MAX_READS {
            let Some(socket) = flow.socket() else { break };
            let error = next_icmp_error(&socket, &mut payload);
            let Some(error) = error.map_err(Error::io("read answers of routers on the way to", self.peer))? else {
                break;
            };
            let payload = &payload[..error.payload_bytes];
            let sequence_number = payload.get(4..8).filter(|_| F::HAS_SEQUENCE_NUMBERS);
            if let Some(quoted) = flow.quoted_packet(payload, last) {
                self.record(quoted, sequence_number.and_then(|number| number.try_into().ok()), &error);
            }
        }
        Ok(())
    }

    fn take_quotes<F: TracedFlow>(&mut self, flows: &[Option<F>], awaited: &[(usize, u32)]) {
        let Some(listener) = &self.listener else { return };
        let mut memory = [0; IcmpListener::MAX_MESSAGE_BYTES];
        let peer = self.peer.ip().to_canonical();
        for _ in 0..MAX_READS {
            let Ok(Some((message, from))) = listener.receive(&mut memory) else { break };
            let Some(quote) = IcmpQuote::from_icmp(message, peer.is_ipv6()) else { continue };
            if (quote.protocol, quote.destination) != (F::PROTOCOL, peer) {
                continue;
            }
            let ports = Some([quote.source_port, quote.destination_port]);
            let found = awaited.iter().find_map(|(flow, last)| {
                let flow = flows.get(*flow)?.as_ref().filter(|flow| flow.ports() == ports)?;
                flow.quoted_packet(quote.payload, *last).filter(|quoted| quoted.is_proven)
            });
            let Some(QuotedPacket { index, .. }) = found else { continue };
            let sequence_number = F::HAS_SEQUENCE_NUMBERS.then_some(quote.second_word);
            let heard = self.quotes.entry(index).or_default();
            if heard.len() < MAX_QUOTES {
                heard.push(HeardQuote { from, sequence_number, ds_field: quote.ds_field });
            }
        }
    }

    /// The first answer to a packet counts, and one that proves nothing only where no other comes.
    fn record(&mut self, quoted: QuotedPacket, sequence_number: Option<[u8; 4]>, error: &IcmpError) {
        let QuotedPacket { index, is_proven } = quoted;
        let Some(sent) = self.sent.get(&index) else { return };
        let arrived = error.stamp.unwrap_or_else(clock::realtime);
        let answers = if is_proven { &mut self.answers } else { &mut self.unproven };
        let Entry::Vacant(place) = answers.entry(index) else { return };
        place.insert(HopAnswer {
            index,
            from: error.from.filter(|_| is_proven),
            is_v6: error.is_v6,
            icmp_type: error.icmp_type,
            icmp_code: error.icmp_code,
            round_trip: arrived - *sent,
            quoted_ds_field: None,
        });
        self.sequence_numbers.extend(sequence_number.map(|number| (index, number)));
    }

    fn into_record(self) -> HopTraceRecord {
        let Heard { sent, mut answers, unproven, sequence_numbers, quotes, listener, .. } = self;
        // What the same router has quoted of the same packet.
        for (index, answer) in &mut answers {
            let number = sequence_numbers.get(index).copied();
            let is_same = |quote: &&HeardQuote| quote.from == answer.from && quote.sequence_number == number;
            answer.quoted_ds_field = quotes.get(index).into_iter().flatten().find(is_same).map(|quote| quote.ds_field);
        }
        for (index, answer) in unproven {
            answers.entry(index).or_insert(answer);
        }
        HopTraceRecord {
            sent: sent.into_keys().collect(),
            answers: answers.into_values().collect(),
            can_read_quotes: listener.is_some(),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// What becomes of an answer of 192.0.2.1 to packet 3.
    fn answered(is_proven: &[bool], quotes: Vec<HeardQuote>) -> HopAnswer {
        let mut heard = Heard::new(([192, 0, 2, 9], 7272).into());
        heard.sent.insert(3, clock::realtime());
        for is_proven in is_proven {
            let from = Some([192, 0, 2, if *is_proven { 1 } else { 66 }].into());
            let error = IcmpError { from, is_v6: false, icmp_type: 11, icmp_code: 0, stamp: None, payload_bytes: 8 };
            heard.record(QuotedPacket { index: 3, is_proven: *is_proven }, Some([7; 4]), &error);
        }
        heard.quotes.insert(3, quotes);
        let [answer] = heard.into_record().answers[..] else { panic!("one answer") };
        answer
    }

    #[test]
    fn a_quote_counts_of_the_packet_that_was_answered_and_by_who_answered() {
        let quote = |last: u8, sequence_number| HeardQuote {
            from: Some([192, 0, 2, last].into()),
            sequence_number: Some(sequence_number),
            ds_field: 0b1011_1010,
        };
        let quoted = |quotes| answered(&[true], quotes).quoted_ds_field;
        assert_eq!(quoted(vec![quote(1, [8; 4]), quote(2, [7; 4])]), None);
        assert_eq!(quoted(vec![quote(1, [8; 4]), quote(1, [7; 4])]), Some(0b1011_1010));
    }

    #[test]
    fn an_answer_without_proof_names_nobody_and_counts_where_no_other_comes() {
        let router = Some([192, 0, 2, 1].into());
        assert_eq!(answered(&[false], Vec::new()).from, None);
        assert_eq!(answered(&[false, true], Vec::new()).from, router);
        assert_eq!(answered(&[true, false], Vec::new()).from, router);
    }
}
