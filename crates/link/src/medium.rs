mod schedule;
mod token_bucket;
mod trace;
mod wireless;

pub use schedule::RateSchedule;
pub use token_bucket::TokenBucket;
pub use trace::{Trace, TraceError};
pub use wireless::Wireless;

use crate::LinkConfig;
use crate::exact::ExactTime;
use schedule::Pace;
use token_bucket::Shaping;
use trace::Cursor;
use units::ConfigError;
use units::{Rate, Time};
use wireless::Channel;

/// What carries packets, where that is not a constant rate.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Medium {
    /// A rate that changes at set times.
    Schedule(RateSchedule),
    /// A shaper in front of the link's rate.
    TokenBucket(TokenBucket),
    /// Opportunities recorded on a cellular network.
    Trace(Trace),
    /// A last hop that aggregates, at a wandering rate.
    Wireless(Wireless),
}

/// What serves a link's packets, one after the other, and when it can take the next.
#[derive(Debug)]
pub(crate) struct Server {
    carrier: Carrier,
    /// When the service under way, if any, has ended.
    free_at: ExactTime,
    /// Whether that is a packet served at a rate, which another rate can finish.
    divisible: bool,
    /// When the service of what waits may begin.
    ready: Time,
}

#[derive(Debug)]
enum Carrier {
    Unlimited,
    Paced(Pace),
    Shaped(Shaping),
    Trace(Cursor),
    Wireless(Box<Channel>),
}

impl Medium {
    pub(crate) fn check(&self) -> Result<(), ConfigError> {
        match self {
            Medium::TokenBucket(bucket) => bucket.check(),
            Medium::Wireless(wireless) => wireless.check(),
            Medium::Schedule(_) | Medium::Trace(_) => Ok(()),
        }
    }

    /// As fast as it gets, for long enough to fill a delay.
    pub(crate) fn highest_rate(&self) -> Rate {
        match self {
            Medium::Schedule(schedule) => schedule.highest(),
            Medium::TokenBucket(bucket) => bucket.rate,
            Medium::Trace(trace) => trace.mean_rate(),
            Medium::Wireless(wireless) => Wireless::physical_rate(wireless.fastest),
        }
    }
}

impl Server {
    pub(crate) fn new(config: &LinkConfig, now: Time) -> Self {
        Server { carrier: Carrier::new(config, now), free_at: ExactTime::at(now), divisible: false, ready: now }
    }

    /// When the next service may begin, if anything waits.
    pub(crate) fn ready(&self) -> Time {
        self.ready
    }

    /// A packet arrives now, and none waits before it.
    pub(crate) fn wake(&mut self, now: Time) {
        match &mut self.carrier {
            Carrier::Unlimited | Carrier::Paced(_) | Carrier::Shaped(_) => {}
            Carrier::Trace(cursor) => self.ready = cursor.seek_after(now),
            Carrier::Wireless(channel) => self.ready = self.free_at.ceil().max(now) + channel.contention(),
        }
    }

    /// Whether the packets whose service begins now may be joined by another: so many, of so many bytes, the last of
    /// so many.
    pub(crate) fn has_room(&mut self, packets: u32, bytes: u64, last: u32) -> bool {
        match &mut self.carrier {
            Carrier::Wireless(channel) => {
                channel.wander(self.ready);
                channel.has_room(packets, bytes, last)
            }
            _ => false,
        }
    }

    /// Serves one packet, which arrived then. Returns its departure.
    pub(crate) fn serve(&mut self, size: u32, arrival: Time) -> Time {
        match &mut self.carrier {
            Carrier::Unlimited => self.ready.max(arrival),
            Carrier::Paced(pace) => {
                self.free_at = pace.serve(self.free_at.not_before(arrival), size);
                self.divisible = true;
                self.ready = self.free_at.ceil();
                self.ready
            }
            Carrier::Shaped(shaping) => {
                self.free_at = shaping.serve(self.free_at.not_before(arrival), size);
                self.ready = self.free_at.ceil();
                self.ready
            }
            Carrier::Trace(cursor) => {
                let (departure, ready) = cursor.serve(size);
                (self.free_at, self.ready) = (ExactTime::at(departure), ready);
                departure
            }
            Carrier::Wireless(_) => self.serve_together(1, size.into()),
        }
    }

    /// Serves packets together that [`Server::has_room`] let join. Returns their departure.
    pub(crate) fn serve_together(&mut self, packets: u32, bytes: u64) -> Time {
        let Carrier::Wireless(channel) = &mut self.carrier else { return self.ready };
        channel.wander(self.ready);
        let departure = self.ready + channel.send(packets, bytes);
        (self.free_at, self.ready) = (ExactTime::at(departure), departure + channel.contention());
        departure
    }

    /// Goes on with the medium of `config`. Where a packet is in service at a rate and goes on at another, returns its
    /// departure as it was and as it is; every other service under way ends as it would have.
    pub(crate) fn switch(&mut self, config: &LinkConfig, now: Time) -> Option<(Time, Time)> {
        let before = self.free_at.ceil();
        let next = Carrier::new(config, now);
        if let Carrier::Paced(pace) = &self.carrier
            && self.divisible
            && before > now
            && let Some(end) = next.resume(now, pace.left_at(now, self.free_at))
        {
            (self.free_at, self.carrier) = (end, next);
            self.ready = self.free_at.ceil();
            return Some((before, self.ready));
        }
        if !self.carrier.is_of(config) {
            (self.free_at, self.divisible) = (ExactTime::at(before.max(now)), false);
            (self.carrier, self.ready) = (next, self.free_at.ceil());
            self.wake(self.ready);
        }
        None
    }
}

impl Carrier {
    fn new(config: &LinkConfig, now: Time) -> Self {
        match (&config.medium, config.rate) {
            (Some(Medium::Schedule(schedule)), _) => Carrier::Paced(Pace::Schedule(schedule.clone())),
            (Some(Medium::TokenBucket(bucket)), line) => Carrier::Shaped(Shaping::new(*bucket, line, now)),
            (Some(Medium::Trace(trace)), _) => Carrier::Trace(Cursor::new(trace.clone())),
            (Some(Medium::Wireless(config_of_it)), _) => {
                Carrier::Wireless(Box::new(Channel::new(*config_of_it, config.seed)))
            }
            (None, Some(rate)) => Carrier::Paced(Pace::Constant(rate)),
            (None, None) => Carrier::Unlimited,
        }
    }

    /// When so much work ends if it begins now; `None` where packets are not served by work.
    fn resume(&self, now: Time, work: u128) -> Option<ExactTime> {
        match self {
            Carrier::Unlimited => Some(ExactTime::at(now)),
            Carrier::Paced(pace) => Some(pace.resume(now, work)),
            Carrier::Shaped(_) | Carrier::Trace(_) | Carrier::Wireless(_) => None,
        }
    }

    /// Whether `config` asks for what this is already.
    fn is_of(&self, config: &LinkConfig) -> bool {
        match (self, &config.medium) {
            (Carrier::Unlimited, None) => config.rate.is_none(),
            (Carrier::Paced(Pace::Constant(rate)), None) => config.rate == Some(*rate),
            (Carrier::Paced(Pace::Schedule(now)), Some(Medium::Schedule(next))) => now == next,
            (Carrier::Shaped(shaping), Some(Medium::TokenBucket(next))) => shaping.is_of(next, config.rate),
            (Carrier::Trace(cursor), Some(Medium::Trace(next))) => cursor.trace() == next,
            (Carrier::Wireless(channel), Some(Medium::Wireless(next))) => channel.config() == next,
            _ => false,
        }
    }
}
