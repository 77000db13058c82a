use crate::config::LinkConfig;
use crate::exact_time::ExactTime;
use crate::framing::Framing;
use crate::medium::Medium;
use crate::medium::schedule::ServiceRate;
use crate::medium::token_bucket::ShaperState;
use crate::medium::trace::TraceCursor;
use crate::medium::wireless::WirelessChannel;
use kumade_units::Time;

/// What serves a link's packets, one after the other, and when it can take the next.
#[derive(Debug)]
pub(crate) struct LinkServer {
    service: ServiceModel,
    framing: Framing,
    /// When the service under way, if any, has ended.
    free_at: ExactTime,
    /// Whether that is a packet served at a rate, which another rate can finish.
    divisible: bool,
    /// When the service of what waits may begin.
    ready: Time,
}

#[derive(Debug)]
enum ServiceModel {
    Unlimited,
    Paced(ServiceRate),
    Shaped(ShaperState),
    Trace(TraceCursor),
    Wireless(Box<WirelessChannel>),
}

impl LinkServer {
    pub(crate) fn new(config: &LinkConfig, now: Time) -> Self {
        LinkServer {
            service: ServiceModel::new(config, now),
            framing: config.framing,
            free_at: ExactTime::from_time(now),
            divisible: false,
            ready: now,
        }
    }

    /// When the next service may begin, if anything waits.
    pub(crate) fn ready_at(&self) -> Time {
        self.ready
    }

    /// When the service under way, if any, has ended. No service begins before.
    pub(crate) fn free_at(&self) -> Time {
        self.free_at.ceil()
    }

    /// A packet arrives now, and none waits before it.
    pub(crate) fn begin_busy_period(&mut self, now: Time) {
        match &mut self.service {
            ServiceModel::Unlimited | ServiceModel::Paced(_) | ServiceModel::Shaped(_) => {}
            ServiceModel::Trace(cursor) => self.ready = cursor.seek_after(now),
            ServiceModel::Wireless(channel) => self.ready = self.free_at.ceil().max(now) + channel.contention(),
        }
    }

    /// Whether the packets whose service begins now may be joined by another: so many, of so many bytes, the last of
    /// so many.
    pub(crate) fn has_room(&mut self, packets: u32, bytes: u64, last: u32) -> bool {
        match &mut self.service {
            ServiceModel::Wireless(channel) => {
                channel.update_scheme(self.ready);
                channel.has_room(packets, bytes, last)
            }
            _ => false,
        }
    }

    /// Serves one packet, which arrived then. Returns its departure.
    pub(crate) fn serve(&mut self, size: u32, arrival: Time) -> Time {
        match &mut self.service {
            ServiceModel::Unlimited => self.ready.max(arrival),
            ServiceModel::Paced(pace) => {
                self.free_at = pace.serve(self.free_at.not_before(arrival), self.framing.line_bytes(size));
                self.divisible = true;
                self.ready = self.free_at.ceil();
                self.ready
            }
            ServiceModel::Shaped(shaping) => {
                self.free_at = shaping.serve(self.free_at.not_before(arrival), self.framing.line_bytes(size));
                self.ready = self.free_at.ceil();
                self.ready
            }
            ServiceModel::Trace(cursor) => {
                let (departure, ready) = cursor.serve(size);
                (self.free_at, self.ready) = (ExactTime::from_time(departure), ready);
                departure
            }
            ServiceModel::Wireless(_) => self.serve_together(1, size.into()),
        }
    }

    /// Serves packets together that [`LinkServer::has_room`] let join. Returns their departure.
    pub(crate) fn serve_together(&mut self, packets: u32, bytes: u64) -> Time {
        let ServiceModel::Wireless(channel) = &mut self.service else { return self.ready };
        channel.update_scheme(self.ready);
        let departure = self.ready + channel.send(packets, bytes);
        (self.free_at, self.ready) = (ExactTime::from_time(departure), departure + channel.contention());
        departure
    }

    /// Goes on with the medium of `config`. Where a packet is in service at a rate and goes on at another, returns its
    /// departure as it was and as it is; every other service under way ends as it would have.
    pub(crate) fn switch_config(&mut self, config: &LinkConfig, now: Time) -> Option<(Time, Time)> {
        let before = self.free_at.ceil();
        // What is in transmission is framed already.
        self.framing = config.framing;
        let next = ServiceModel::new(config, now);
        if let ServiceModel::Paced(pace) = &self.service
            && self.divisible
            && before > now
            && let Some(end) = next.resume_at(now, pace.remaining_work(now, self.free_at))
        {
            (self.free_at, self.service) = (end, next);
            self.ready = self.free_at.ceil();
            return Some((before, self.ready));
        }
        if !self.service.matches_config(config) {
            (self.free_at, self.divisible) = (ExactTime::from_time(before.max(now)), false);
            (self.service, self.ready) = (next, self.free_at.ceil());
            self.begin_busy_period(self.ready);
        }
        None
    }
}

impl ServiceModel {
    fn new(config: &LinkConfig, now: Time) -> Self {
        match (&config.medium, config.rate) {
            (Some(Medium::Schedule(schedule)), _) => ServiceModel::Paced(ServiceRate::Schedule(schedule.clone())),
            (Some(Medium::TokenBucket(bucket)), line) => ServiceModel::Shaped(ShaperState::new(*bucket, line, now)),
            (Some(Medium::Trace(trace)), _) => ServiceModel::Trace(TraceCursor::new(trace.clone())),
            (Some(Medium::Wireless(config_of_it)), _) => {
                ServiceModel::Wireless(Box::new(WirelessChannel::new(*config_of_it, config.seed)))
            }
            (None, Some(rate)) => ServiceModel::Paced(ServiceRate::Constant(rate)),
            (None, None) => ServiceModel::Unlimited,
        }
    }

    /// When so much work ends if it begins now; `None` where packets are not served by work.
    fn resume_at(&self, now: Time, work: u128) -> Option<ExactTime> {
        match self {
            ServiceModel::Unlimited => Some(ExactTime::from_time(now)),
            ServiceModel::Paced(pace) => Some(pace.resume(now, work)),
            ServiceModel::Shaped(_) | ServiceModel::Trace(_) | ServiceModel::Wireless(_) => None,
        }
    }

    /// Whether `config` asks for what this is already.
    fn matches_config(&self, config: &LinkConfig) -> bool {
        match (self, &config.medium) {
            (ServiceModel::Unlimited, None) => config.rate.is_none(),
            (ServiceModel::Paced(ServiceRate::Constant(rate)), None) => config.rate == Some(*rate),
            (ServiceModel::Paced(ServiceRate::Schedule(now)), Some(Medium::Schedule(next))) => now == next,
            (ServiceModel::Shaped(shaping), Some(Medium::TokenBucket(next))) => {
                shaping.matches_config(next, config.rate)
            }
            (ServiceModel::Trace(cursor), Some(Medium::Trace(next))) => cursor.trace() == next,
            (ServiceModel::Wireless(channel), Some(Medium::Wireless(next))) => channel.config() == next,
            _ => false,
        }
    }
}
