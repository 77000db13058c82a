use crate::config::LinkConfig;
use crate::exact::ExactTime;
use crate::medium::Medium;
use crate::medium::schedule::Pace;
use crate::medium::token_bucket::Shaping;
use crate::medium::trace::Cursor;
use crate::medium::wireless::Channel;
use kumade_units::Time;

/// What serves a link's packets, one after the other, and when it can take the next.
#[derive(Debug)]
pub(crate) struct Server {
    service: Service,
    /// When the service under way, if any, has ended.
    free_at: ExactTime,
    /// Whether that is a packet served at a rate, which another rate can finish.
    divisible: bool,
    /// When the service of what waits may begin.
    ready: Time,
}

#[derive(Debug)]
enum Service {
    Unlimited,
    Paced(Pace),
    Shaped(Shaping),
    Trace(Cursor),
    Wireless(Box<Channel>),
}

impl Server {
    pub(crate) fn new(config: &LinkConfig, now: Time) -> Self {
        Server { service: Service::new(config, now), free_at: ExactTime::at(now), divisible: false, ready: now }
    }

    /// When the next service may begin, if anything waits.
    pub(crate) fn ready(&self) -> Time {
        self.ready
    }

    /// When the service under way, if any, has ended. No service begins before.
    pub(crate) fn free_at(&self) -> Time {
        self.free_at.ceil()
    }

    /// A packet arrives now, and none waits before it.
    pub(crate) fn wake(&mut self, now: Time) {
        match &mut self.service {
            Service::Unlimited | Service::Paced(_) | Service::Shaped(_) => {}
            Service::Trace(cursor) => self.ready = cursor.seek_after(now),
            Service::Wireless(channel) => self.ready = self.free_at.ceil().max(now) + channel.contention(),
        }
    }

    /// Whether the packets whose service begins now may be joined by another: so many, of so many bytes, the last of
    /// so many.
    pub(crate) fn has_room(&mut self, packets: u32, bytes: u64, last: u32) -> bool {
        match &mut self.service {
            Service::Wireless(channel) => {
                channel.wander(self.ready);
                channel.has_room(packets, bytes, last)
            }
            _ => false,
        }
    }

    /// Serves one packet, which arrived then. Returns its departure.
    pub(crate) fn serve(&mut self, size: u32, arrival: Time) -> Time {
        match &mut self.service {
            Service::Unlimited => self.ready.max(arrival),
            Service::Paced(pace) => {
                self.free_at = pace.serve(self.free_at.not_before(arrival), size);
                self.divisible = true;
                self.ready = self.free_at.ceil();
                self.ready
            }
            Service::Shaped(shaping) => {
                self.free_at = shaping.serve(self.free_at.not_before(arrival), size);
                self.ready = self.free_at.ceil();
                self.ready
            }
            Service::Trace(cursor) => {
                let (departure, ready) = cursor.serve(size);
                (self.free_at, self.ready) = (ExactTime::at(departure), ready);
                departure
            }
            Service::Wireless(_) => self.serve_together(1, size.into()),
        }
    }

    /// Serves packets together that [`Server::has_room`] let join. Returns their departure.
    pub(crate) fn serve_together(&mut self, packets: u32, bytes: u64) -> Time {
        let Service::Wireless(channel) = &mut self.service else { return self.ready };
        channel.wander(self.ready);
        let departure = self.ready + channel.send(packets, bytes);
        (self.free_at, self.ready) = (ExactTime::at(departure), departure + channel.contention());
        departure
    }

    /// Goes on with the medium of `config`. Where a packet is in service at a rate and goes on at another, returns its
    /// departure as it was and as it is; every other service under way ends as it would have.
    pub(crate) fn switch(&mut self, config: &LinkConfig, now: Time) -> Option<(Time, Time)> {
        let before = self.free_at.ceil();
        let next = Service::new(config, now);
        if let Service::Paced(pace) = &self.service
            && self.divisible
            && before > now
            && let Some(end) = next.resume(now, pace.left_at(now, self.free_at))
        {
            (self.free_at, self.service) = (end, next);
            self.ready = self.free_at.ceil();
            return Some((before, self.ready));
        }
        if !self.service.is_of(config) {
            (self.free_at, self.divisible) = (ExactTime::at(before.max(now)), false);
            (self.service, self.ready) = (next, self.free_at.ceil());
            self.wake(self.ready);
        }
        None
    }
}

impl Service {
    fn new(config: &LinkConfig, now: Time) -> Self {
        match (&config.medium, config.rate) {
            (Some(Medium::Schedule(schedule)), _) => Service::Paced(Pace::Schedule(schedule.clone())),
            (Some(Medium::TokenBucket(bucket)), line) => Service::Shaped(Shaping::new(*bucket, line, now)),
            (Some(Medium::Trace(trace)), _) => Service::Trace(Cursor::new(trace.clone())),
            (Some(Medium::Wireless(config_of_it)), _) => {
                Service::Wireless(Box::new(Channel::new(*config_of_it, config.seed)))
            }
            (None, Some(rate)) => Service::Paced(Pace::Constant(rate)),
            (None, None) => Service::Unlimited,
        }
    }

    /// When so much work ends if it begins now; `None` where packets are not served by work.
    fn resume(&self, now: Time, work: u128) -> Option<ExactTime> {
        match self {
            Service::Unlimited => Some(ExactTime::at(now)),
            Service::Paced(pace) => Some(pace.resume(now, work)),
            Service::Shaped(_) | Service::Trace(_) | Service::Wireless(_) => None,
        }
    }

    /// Whether `config` asks for what this is already.
    fn is_of(&self, config: &LinkConfig) -> bool {
        match (self, &config.medium) {
            (Service::Unlimited, None) => config.rate.is_none(),
            (Service::Paced(Pace::Constant(rate)), None) => config.rate == Some(*rate),
            (Service::Paced(Pace::Schedule(now)), Some(Medium::Schedule(next))) => now == next,
            (Service::Shaped(shaping), Some(Medium::TokenBucket(next))) => shaping.is_of(next, config.rate),
            (Service::Trace(cursor), Some(Medium::Trace(next))) => cursor.trace() == next,
            (Service::Wireless(channel), Some(Medium::Wireless(next))) => channel.config() == next,
            _ => false,
        }
    }
}
