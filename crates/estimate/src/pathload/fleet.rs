//! One fleet: streams of one rate, and what they say together.

use super::search::FleetResult;
use super::trend::{DelayTrend, delay_trend};
use crate::published::Flight;
use kumade_units::Span;

/// Packets of a stream: the paper's K.
pub(super) const STREAM_PACKETS: u32 = 100;
/// Streams of a fleet: the paper's N.
const FLEET_STREAMS: u32 = 12;
/// This part of the streams, of one mind, decides for the fleet.
const MAJORITY_PART: f64 = 0.7;
/// A stream that lost more than this ends its fleet: the rate is too high.
const EXCESSIVE_LOSS_PART: f64 = 0.10;
/// So does this much in more than half of the streams.
const MODERATE_LOSS_PART: f64 = 0.03;
/// Between streams it stays silent for so many times a stream's duration: a tenth of the rate in the mean.
const SILENCE_DURATION_RATIO: f64 = 9.0;
/// Where time is short, at least for so many, in which the queue of a stream at twice the available bandwidth drains.
const MIN_SILENCE_DURATION_RATIO: f64 = 1.0;
/// Where silence alone doesn't save enough, fewer streams, and then shorter ones: six medians still show a trend.
const MIN_FLEET_STREAMS: u32 = 4;
const MIN_STREAM_PACKETS: u32 = 36;

/// How a fleet is sent.
#[derive(Debug, Clone, Copy, PartialEq)]
pub(super) struct FleetShape {
    /// Packets of each stream.
    pub(super) packets: u32,
    /// Streams.
    pub(super) streams: u32,
    /// Between two streams, in their durations.
    pub(super) silence: f64,
}

impl FleetShape {
    /// The paper's.
    pub(super) const PUBLISHED_SHAPE: FleetShape =
        FleetShape { packets: STREAM_PACKETS, streams: FLEET_STREAMS, silence: SILENCE_DURATION_RATIO };

    /// The paper's as far as it fits into `room`, with packets at this interval: shorter silence first, then fewer
    /// streams, then shorter ones. No stream takes less than a `turnaround`, after which it is known what became of it.
    pub(super) fn fit_into(room: Span, interval: Span, turnaround: Span) -> Self {
        let [room, interval, turnaround] = [room, interval, turnaround].map(Span::as_secs_f64);
        let duration = interval * f64::from(STREAM_PACKETS);
        let silence = (room / (f64::from(FLEET_STREAMS) * duration) - 1.0)
            .clamp(MIN_SILENCE_DURATION_RATIO, SILENCE_DURATION_RATIO);
        let each = |packets: u32| interval * f64::from(packets) * (1.0 + silence).max(1.0 + turnaround / duration);
        let streams = ((room / each(STREAM_PACKETS)) as u32).clamp(MIN_FLEET_STREAMS, FLEET_STREAMS);
        let packets = (f64::from(STREAM_PACKETS) * room / (f64::from(streams) * each(STREAM_PACKETS))) as u32;
        FleetShape { packets: packets.clamp(MIN_STREAM_PACKETS, STREAM_PACKETS), streams, silence }
    }
}

/// One fleet so far.
#[derive(Debug, Clone, Copy, PartialEq)]
pub(super) struct Fleet {
    pub(super) rate: f64,
    pub(super) shape: FleetShape,
    streams: u32,
    increasing: u32,
    non_increasing: u32,
    lossy: u32,
}

impl Fleet {
    pub(super) fn new(rate: f64, shape: FleetShape) -> Self {
        Fleet { rate, shape, streams: 0, increasing: 0, non_increasing: 0, lossy: 0 }
    }

    /// Takes in a stream; a verdict once the streams to come cannot change it.
    pub(super) fn take_stream(&mut self, flight: &Flight) -> Option<FleetResult> {
        let loss = flight.loss_fraction();
        self.streams += 1;
        self.lossy += u32::from(loss > MODERATE_LOSS_PART);
        if loss > EXCESSIVE_LOSS_PART || self.lossy * 2 > self.shape.streams {
            return Some(FleetResult::Above);
        }
        match delay_trend(&flight.delays()) {
            DelayTrend::Increasing => self.increasing += 1,
            DelayTrend::NonIncreasing => self.non_increasing += 1,
            DelayTrend::Ambiguous => {}
        }
        self.fleet_result()
    }

    fn fleet_result(&self) -> Option<FleetResult> {
        let majority = (f64::from(self.shape.streams) * MAJORITY_PART).ceil() as u32;
        let most = self.increasing.max(self.non_increasing);
        match self.shape.streams.saturating_sub(self.streams) {
            _ if self.increasing >= majority => Some(FleetResult::Above),
            _ if self.non_increasing >= majority => Some(FleetResult::Below),
            to_come if most + to_come < majority => Some(FleetResult::Grey),
            _ => None,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_fleet_decides_as_soon_as_it_must() {
        let mut fleet = Fleet { streams: 9, increasing: 9, ..Fleet::new(1.0, FleetShape::PUBLISHED_SHAPE) };
        assert_eq!(fleet.fleet_result(), Some(FleetResult::Above));
        fleet = Fleet { streams: 8, increasing: 4, non_increasing: 4, ..fleet };
        assert_eq!(fleet.fleet_result(), Some(FleetResult::Grey));
        fleet = Fleet { streams: 8, increasing: 1, non_increasing: 7, ..fleet };
        assert_eq!(fleet.fleet_result(), None);
        let small = FleetShape { streams: 4, ..FleetShape::PUBLISHED_SHAPE };
        fleet = Fleet { streams: 3, increasing: 3, ..Fleet::new(1.0, small) };
        assert_eq!(fleet.fleet_result(), Some(FleetResult::Above));
    }

    #[test]
    fn a_slow_path_shortens_silence_then_fleets_then_streams() {
        let within = |seconds, interval_ms, turnaround_ms| {
            let [interval, turnaround] = [interval_ms, turnaround_ms].map(Span::from_millis);
            let FleetShape { packets, streams, silence } =
                FleetShape::fit_into(Span::from_secs(seconds), interval, turnaround);
            (packets, streams, silence.round())
        };
        assert_eq!(within(13, 1, 1), (100, 12, 9.0));
        assert_eq!(within(6, 1, 1), (100, 12, 4.0));
        assert_eq!(within(6, 5, 1), (100, 6, 1.0));
        assert_eq!(within(6, 16, 1), (46, 4, 1.0));
        assert_eq!(within(1, 16, 1), (MIN_STREAM_PACKETS, 4, 1.0));
        // A long way back costs more than silence saves.
        assert_eq!(within(6, 1, 900), (100, 6, 4.0));
    }
}
