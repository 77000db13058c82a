//! Packets that end on the way, and what routers answer: of flows of UDP and of TCP alike.

use crate::control_watch::ControlWatch;
use crate::error::Error;
use kumade_net::{IcmpError, IcmpListener, clock, next_icmp_error, readiness};
use kumade_packet::IcmpQuote;
use kumade_probe_train::{HopAnswer, HopTrace, HopTraceRecord};
use kumade_units::Time;
use std::collections::BTreeMap;
use std::io;
use std::net::SocketAddr;
use std::os::fd::BorrowedFd;

/// Messages that are read before the time is looked at again: anybody may send some.
const MAX_READS: usize = 64;
/// What is read of the packet that an ICMP error quotes.
const MAX_QUOTED_BYTES: usize = 64;

/// Packets between the same addresses and ports, of which one is on its way at a time.
pub(crate) trait TracedFlow {
    /// IP's number of its protocol.
    const PROTOCOL: u8;

    /// Sends packet `index` of the trace.
    fn send(&mut self, index: u32, ds_field: u8, hop_limit: u8) -> io::Result<()>;

    /// What has the answer; none before the first packet.
    fn socket(&self) -> Option<BorrowedFd<'_>>;

    /// The port at this end, and that at the other one.
    fn ports(&self) -> Option<[u16; 2]>;

    /// Which packet is quoted, of which the quote has this behind what all quotes have; none for a packet of somebody else. `last` is that which was
    /// sent last.
    fn quoted_index(&self, payload: &[u8], last: u32) -> Option<u32>;

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
    let (sent, answers, quoted) = (BTreeMap::new(), BTreeMap::new(), BTreeMap::new());
    let mut heard = Heard { peer, sent, answers, quoted, listener: IcmpListener::open(peer.ip()).ok() };
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
    /// DSCP and ECN of packets that were quoted.
    quoted: BTreeMap<u32, u8>,
    /// None where this process may not have one.
    listener: Option<IcmpListener>,
}

impl Heard {
    /// Waits for the answers to packets, each the last one of its flow.
    fn await_answers<F: TracedFlow>(
        &mut self,
        flows: &mut [Option<F>],
        mut awaited: Vec<(usize, u32)>,
        deadline: Time,
        control: &mut ControlWatch,
    ) -> Result<(), Error> {
        loop {
            for (flow, last) in &awaited {
                if let Some(Some(flow)) = flows.get(*flow) {
                    self.take_answers(flow, *last)?;
                }
            }
            // The kernel has given each message to raw sockets before.
            self.take_quotes(flows, &awaited);
            let mut is_over = |flow: usize| flows.get_mut(flow).and_then(Option::as_mut).is_none_or(F::discard_others);
            // An error that was reported, or a packet, would end every wait at once.
            awaited.retain(|(flow, index)| !is_over(*flow) && !self.answers.contains_key(index));
            if awaited.is_empty() || clock::monotonic() >= deadline {
                return Ok(());
            }
            if control.is_closed() {
                return Err(Error::Aborted(self.peer));
            }
            let sockets = awaited.iter().filter_map(|(flow, _)| flows.get(*flow)?.as_ref()?.socket());
            readiness::wait_any_readable(sockets, control.next_wakeup(deadline))
                .map_err(Error::io("wait for answers of routers on the way to", self.peer))?;
        }
    }

    fn take_answers(&mut self, flow: &impl TracedFlow, last: u32) -> Result<(), Error> {
        let mut payload = [0; MAX_QUOTED_BYTES];
        for _ in 0..MAX_READS {
            let Some(socket) = flow.socket() else { break };
            let error = next_icmp_error(&socket, &mut payload);
            let Some(error) = error.map_err(Error::io("read answers of routers on the way to", self.peer))? else {
                break;
            };
            if let Some(index) = flow.quoted_index(&payload[..error.payload_bytes], last) {
                self.record(index, &error);
            }
        }
        Ok(())
    }

    fn take_quotes<F: TracedFlow>(&mut self, flows: &[Option<F>], awaited: &[(usize, u32)]) {
        let Some(listener) = &self.listener else { return };
        let mut memory = [0; IcmpListener::MAX_MESSAGE_BYTES];
        let peer = self.peer.ip().to_canonical();
        for _ in 0..MAX_READS {
            let Ok(Some(message)) = listener.receive(&mut memory) else { break };
            let Some(quote) = IcmpQuote::from_icmp(message, peer.is_ipv6()) else { continue };
            if (quote.protocol, quote.destination) != (F::PROTOCOL, peer) {
                continue;
            }
            let ports = Some([quote.source_port, quote.destination_port]);
            let found = awaited.iter().find_map(|(flow, last)| {
                let flow = flows.get(*flow)?.as_ref().filter(|flow| flow.ports() == ports)?;
                flow.quoted_index(quote.payload, *last)
            });
            if let Some(index) = found {
                self.quoted.entry(index).or_insert(quote.ds_field);
            }
        }
    }

    /// The first answer to a packet counts.
    fn record(&mut self, index: u32, error: &IcmpError) {
        let Some(sent) = self.sent.get(&index) else { return };
        let arrived = error.stamp.unwrap_or_else(clock::realtime);
        self.answers.entry(index).or_insert(HopAnswer {
            index,
            from: error.from,
            is_v6: error.is_v6,
            icmp_type: error.icmp_type,
            icmp_code: error.icmp_code,
            round_trip: arrived - *sent,
            quoted_ds_field: None,
        });
    }

    fn into_record(self) -> HopTraceRecord {
        let Heard { sent, answers, quoted, listener, .. } = self;
        let with_quote =
            |(index, answer): (u32, HopAnswer)| HopAnswer { quoted_ds_field: quoted.get(&index).copied(), ..answer };
        HopTraceRecord {
            sent: sent.into_keys().collect(),
            answers: answers.into_iter().map(with_quote).collect(),
            can_read_quotes: listener.is_some(),
        }
    }
}
