use crate::control_watch::ControlWatch;
use crate::error::Error;
use crate::one_sided_records::{ReceivedTrain, SentTrain};
use crate::tcp::TcpProbes;
use crate::udp::UdpProbes;
use kumade_net::clock::RealtimeOffset;
use kumade_probe_train::{Train, Transport};
use kumade_units::Span;

/// The sockets that carry one session's trains.
#[derive(Debug)]
pub enum Probes {
    /// One UDP datagram for each packet (PathQuick3).
    Udp(UdpProbes),
    /// Many TCP connections (PathRakeTCP), or one.
    Tcp(TcpProbes),
}

impl Probes {
    /// The transport.
    pub fn kind(&self) -> Transport {
        match self {
            Probes::Udp(_) => Transport::Udp,
            Probes::Tcp(probes) => probes.kind(),
        }
    }

    /// Number of TCP connections that are still open; zero for UDP.
    pub fn connections(&self) -> u32 {
        match self {
            Probes::Udp(_) => 0,
            Probes::Tcp(probes) => probes.connections(),
        }
    }

    /// Size in bytes of the largest IP packet that this host can send unfragmented; at most [`Train::MAX_PACKET_BYTES`] by UDP, and
    /// [`Train::MAX_ETHERNET_PACKET_BYTES`] by TCP. Path MTU discovery can reduce it. Larger packets of a plan are omitted by UDP, and segmented by TCP.
    pub fn max_packet(&self) -> u32 {
        match self {
            Probes::Udp(probes) => probes.max_packet(),
            Probes::Tcp(probes) => probes.max_packet(),
        }
    }

    /// Size in bytes of the smallest IP packet that this transport can send; smaller ones of a plan are padded to it.
    pub fn min_packet(&self) -> u32 {
        match self {
            Probes::Udp(probes) => probes.min_packet(),
            Probes::Tcp(probes) => probes.min_packet(),
        }
    }

    /// Sends `train` as number `number` of the session, each packet at its planned offset, or at once if that has passed.
    /// Blocks for the train's duration and spins in its gaps.
    ///
    /// # Errors
    /// [`Error::Plan`] and [`Error::TooManyPerConnection`] before anything is sent: the peer must not receive such a train
    /// either, or the byte counts of both ends' TCP connections diverge. [`Error::Io`] if UDP is rejected (the probes remain
    /// usable), [`Error::NoConnection`] if no TCP connection is left, [`Error::Aborted`] if the control connection is
    /// closed, [`Error::ClockStepped`] once all is sent.
    pub fn send(&mut self, number: u32, train: &Train) -> Result<SentTrain, Error> {
        reject_clock_steps(|| match self {
            Probes::Udp(probes) => probes.send(number, train),
            Probes::Tcp(probes) => probes.send(train),
        })
    }

    /// Sets the control connection and the deadline that end trains early.
    pub fn abort_on_close_of(&mut self, control: ControlWatch) {
        match self {
            Probes::Udp(probes) => probes.control = control,
            Probes::Tcp(probes) => probes.control = control,
        }
    }

    /// Resets all TCP connections (RST), so that middleboxes remove their state at once. No effect for UDP.
    pub fn abort(&mut self) {
        match self {
            Probes::Udp(_) => {}
            Probes::Tcp(probes) => probes.abort(),
        }
    }

    /// Receives train `number`, which the peer sends: returns as soon as every packet has arrived, at the latest `timeout`
    /// after the planned duration, counted from this call.
    ///
    /// # Errors
    /// As for [`send`](Self::send).
    pub fn receive(&mut self, number: u32, train: &Train, timeout: Span) -> Result<ReceivedTrain, Error> {
        reject_clock_steps(|| match self {
            Probes::Udp(probes) => probes.receive(number, train, timeout),
            Probes::Tcp(probes) => probes.receive(train, timeout),
        })
    }
}

/// What was carried, unless the clock of its time stamps was set meanwhile.
fn reject_clock_steps<T>(carry: impl FnOnce() -> Result<T, Error>) -> Result<T, Error> {
    let lead = RealtimeOffset::now();
    let carried = carry()?;
    lead.step_since().map_or(Ok(carried), |step| Err(Error::ClockStepped(step)))
}
