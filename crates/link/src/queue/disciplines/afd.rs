use crate::ledger::DropCause;
use crate::queue::buffer::Buffer;
use crate::queue::counts::FlowCounts;
use crate::queue::discipline::{DisciplineConfig, QueueDiscipline};
use crate::queue::packet::{DroppedPacket, QueueLimit, QueuedPacket};
use crate::queue::parameter::{
    ECN_HELP, GivenParameters, NUMBER_FORMAT, Parameter, SIZE_FORMAT, SMALL_SIZE_FORMAT, SWITCH_FORMAT, TIME_FORMAT,
};
use kumade_units::{ConfigError, Rate, Span, Time};
use rand::{RngExt, SeedableRng};
use rand_pcg::Pcg64Mcg;
use std::collections::VecDeque;

/// The settings of [`Afd`].
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct AfdConfig {
    /// The length in bytes at which the queue is held.
    pub target: u64,
    /// How many samples of arriving traffic are kept (the paper's b).
    pub samples: u32,
    /// One sample is taken of so many arriving bytes, on the average (s). Samples times this is the window over which
    /// flows are compared: a second or so of the link's rate.
    pub sample_bytes: u32,
    /// How often the fair share is adjusted.
    pub update: Span,
    /// Mark packets that can be marked instead of dropping them.
    pub ecn: bool,
}

/// Approximate Fair Dropping (Pan, Breslau, Prabhakar, Shenker 2003): samples of arriving traffic tell how much each
/// flow sends, and what a flow sends beyond the fair share is dropped by chance: with the probability
/// `1 − fair share / its own`. The fair share is what keeps the queue at its target.
#[derive(Debug)]
pub struct Afd<P> {
    config: AfdConfig,
    buffer: Buffer<P>,
    rng: Pcg64Mcg,
    samples: VecDeque<u64>,
    counts: FlowCounts,
    /// How many bytes per window a flow may send.
    fair_share_bytes: f64,
    next_update: Option<Time>,
    queued_bytes_at_update: u64,
}

/// Bounds the memory for samples.
const MAX_SAMPLES: u32 = 1 << 20;

/// The gains of the fair share's control, from the paper: upon the queue's error at the last update, and upon that now.
const CONTROLLER_GAINS: (f64, f64) = (1.7, 1.8);

/// By default the queue is held at what the link carries in this time, …
const TARGET_DELAY: Span = Span::from_millis(10);
/// … but at no fewer bytes than these, which are used where the rate is unknown, …
const MIN_TARGET_BYTES: u64 = 15 * 1500;
/// … and flows are compared over about this time.
const SAMPLE_WINDOW: Span = Span::from_millis(500);

/// The settings for a link whose rate is unknown.
impl Default for AfdConfig {
    fn default() -> Self {
        AfdConfig::new(MIN_TARGET_BYTES)
    }
}

impl AfdConfig {
    /// The paper's settings for a queue held at `target` bytes: 500 samples, 160 updates a second; a window of 5 MB.
    pub fn new(target: u64) -> Self {
        AfdConfig { target, samples: 500, sample_bytes: 10_000, update: Span::from_micros(6250), ecn: false }
    }

    fn window_seconds(&self) -> f64 {
        f64::from(self.samples) * f64::from(self.sample_bytes)
    }
}

impl DisciplineConfig for AfdConfig {
    const NAME: &'static str = "afd";
    const SUMMARY: &'static str = "AFD: drops by chance what flows send beyond the fair share, from samples";
    const TEST_SETTINGS: &'static [&'static str] = &[
        "afd:samples=10:sample-bytes=1000:update=30us:target-bytes=3000b",
        "afd:samples=10:sample-bytes=1000:update=30us:target-bytes=3000b:ecn=on",
    ];
    type Queue<P> = Afd<P>;

    fn parameters() -> Vec<Parameter<Self>> {
        let sample_bytes = "one sample is taken per this many arriving bytes, on average";
        vec![
            Parameter::new("target-bytes", SIZE_FORMAT, "queue length to hold", |config: &mut Self| &mut config.target)
                .with_rate_default("10ms of the link's rate"),
            Parameter::new("samples", NUMBER_FORMAT, "number of samples kept", |config: &mut Self| &mut config.samples),
            Parameter::new("sample-bytes", SMALL_SIZE_FORMAT, sample_bytes, |config: &mut Self| {
                &mut config.sample_bytes
            })
            .with_rate_default("500ms of the link's rate over all samples"),
            Parameter::new(
                "update",
                TIME_FORMAT,
                "interval at which the fair share is adjusted",
                |config: &mut Self| &mut config.update,
            ),
            Parameter::new("ecn", SWITCH_FORMAT, ECN_HELP, |config: &mut Self| &mut config.ecn),
        ]
    }

    fn adapt_to_rate(&mut self, rate: Option<Rate>, given: &GivenParameters) {
        let Some(rate) = rate else { return };
        if !given.contains_key("target-bytes") {
            self.target = rate.bytes_in(TARGET_DELAY).max(MIN_TARGET_BYTES);
        }
        if !given.contains_key("sample-bytes") {
            let distance = rate.bytes_in(SAMPLE_WINDOW) / u64::from(self.samples).max(1);
            self.sample_bytes = u32::try_from(distance).unwrap_or(u32::MAX).max(1);
        }
    }

    fn check(&self) -> Result<(), ConfigError> {
        let error = ConfigError::for_part("AFD queue");
        if self.samples == 0 || self.samples > MAX_SAMPLES {
            let remedy = "give 1 to 1048576; 500 is usual";
            return Err(error("number of samples", self.samples.to_string(), "out of range", remedy));
        }
        if self.sample_bytes == 0 {
            return Err(error("sample distance", "0 bytes".into(), "which never ends", "give some packets' bytes"));
        }
        if self.update <= Span::ZERO || self.update > Span::from_secs(3600) {
            let problem = "in which no flow can be followed";
            return Err(error("update interval", self.update.to_string(), problem, "give some milliseconds"));
        }
        Ok(())
    }

    fn new_queue<P>(&self, limit: QueueLimit, seed: u64) -> Afd<P> {
        Afd {
            config: *self,
            buffer: Buffer::new(limit),
            rng: Pcg64Mcg::seed_from_u64(seed),
            samples: VecDeque::with_capacity(self.samples as usize),
            counts: FlowCounts::new(self.samples as usize, seed),
            fair_share_bytes: self.window_seconds(),
            next_update: None,
            queued_bytes_at_update: 0,
        }
    }
}

impl<P> Afd<P> {
    /// Adjusts the fair share at each update that has become due. The queue has not changed since then, so it does not
    /// matter that it is done late.
    fn update_share(&mut self, now: Time) {
        let next = *self.next_update.get_or_insert(now + self.config.update);
        if now < next {
            return;
        }
        let later = (now - next).as_nanos() / self.config.update.as_nanos();
        let target = self.config.target as f64;
        let (before, present) = (self.queued_bytes_at_update as f64 - target, self.buffer.bytes() as f64 - target);
        self.adjust_share(CONTROLLER_GAINS.0 * before - CONTROLLER_GAINS.1 * present);
        self.adjust_share(later as f64 * (CONTROLLER_GAINS.0 - CONTROLLER_GAINS.1) * present);
        self.queued_bytes_at_update = self.buffer.bytes();
        self.next_update = Some(now + self.config.update - (now - next - self.config.update * later));
    }

    fn adjust_share(&mut self, by: f64) {
        self.fair_share_bytes =
            (self.fair_share_bytes + by).clamp(f64::from(self.config.sample_bytes), self.config.window_seconds());
    }

    /// Takes as many samples of the packet as its bytes are due.
    fn sample_packet(&mut self, packet: &QueuedPacket<P>) {
        let (whole, rest) = (packet.size / self.config.sample_bytes, packet.size % self.config.sample_bytes);
        let drawn = u32::from(self.rng.random_range(0..self.config.sample_bytes) < rest);
        for _ in 0..(whole + drawn).min(self.config.samples) {
            if self.samples.len() == self.config.samples as usize
                && let Some(oldest) = self.samples.pop_front()
            {
                self.counts.remove(oldest);
            }
            self.samples.push_back(packet.flow);
            self.counts.add_packet(packet.flow);
        }
    }

    /// Whether the packet is of the part that its flow sends too much.
    fn exceeds_share(&mut self, flow: u64) -> bool {
        let own = f64::from(self.counts.get(flow)) * f64::from(self.config.sample_bytes);
        own > self.fair_share_bytes && self.rng.random::<f64>() * own >= self.fair_share_bytes
    }
}

impl<P> QueueDiscipline<P> for Afd<P> {
    fn enqueue(&mut self, mut packet: QueuedPacket<P>, drops: &mut Vec<DroppedPacket<P>>) -> Result<(), DropCause> {
        self.update_share(packet.arrival);
        self.sample_packet(&packet);
        if self.exceeds_share(packet.flow) && !(self.config.ecn && packet.mark()) {
            return packet.drop_into(DropCause::Aqm, drops);
        }
        self.buffer.push(packet, drops)
    }

    fn dequeue(&mut self, now: Time, _drops: &mut Vec<DroppedPacket<P>>) -> Option<QueuedPacket<P>> {
        self.update_share(now);
        self.buffer.pop()
    }

    fn packets(&self) -> usize {
        self.buffer.len()
    }

    fn bytes(&self) -> u64 {
        self.buffer.bytes()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn micros(micros: i64) -> Time {
        Time::ZERO + Span::from_micros(micros)
    }

    fn afd(config: AfdConfig) -> Afd<()> {
        config.new_queue(QueueLimit::Packets(1_000_000), 1)
    }

    #[test]
    fn updates_made_late_come_to_the_same() {
        let (mut late, mut often) = (afd(AfdConfig::new(20_000)), afd(AfdConfig::new(20_000)));
        for queue in [&mut late, &mut often] {
            for _ in 0..50 {
                queue.enqueue(QueuedPacket::new((), 1000, 0, Time::ZERO), &mut Vec::new()).unwrap();
            }
        }
        for step in 0..1000 {
            often.update_share(micros(100 * step));
        }
        late.update_share(micros(99_900));
        assert!(
            (late.fair_share_bytes - often.fair_share_bytes).abs() < 1e-6,
            "{} {}",
            late.fair_share_bytes,
            often.fair_share_bytes
        );
        assert_eq!(late.next_update, often.next_update);
        // 15 updates; the first weighs the whole error, 30 kB, with 1.8 and that of the start, −20 kB, with 1.7.
        let expected = 5e6 - 1.7 * 20e3 - 1.8 * 30e3 - 14.0 * 0.1 * 30e3;
        assert!((late.fair_share_bytes - expected).abs() < 1e-6, "{} {expected}", late.fair_share_bytes);
    }

    #[test]
    fn what_a_flow_sends_beyond_its_share_is_dropped() {
        let mut queue = afd(AfdConfig::new(20_000));
        queue.fair_share_bytes = 1e6;
        queue.next_update = Some(Time::MAX);
        let (mut drops, mut sent) = (Vec::new(), [0; 3]);
        // Flows 0, 1 and 2 send 1 : 2 : 7, thus 0.5, 1 and 3.5 MB of each window of 5 MB.
        for packet in 0..200_000usize {
            let flow = [0, 1, 1, 2, 2, 2, 2, 2, 2, 2][packet % 10];
            let measured = packet >= 100_000;
            sent[flow] += usize::from(measured);
            let _ = queue.enqueue(QueuedPacket::new((), 1000, flow as u64, micros(packet as i64)), &mut drops);
            queue.dequeue(micros(packet as i64), &mut Vec::new());
            if !measured {
                drops.clear();
            }
        }
        let dropped = |flow| drops.iter().filter(|dropped| dropped.packet.flow == flow).count() as f64;
        assert_eq!(dropped(0), 0.0);
        assert!((dropped(1) / sent[1] as f64) < 0.08);
        assert!((dropped(2) / sent[2] as f64 - (1.0 - 1.0 / 3.5)).abs() < 0.02, "{}", dropped(2) / sent[2] as f64);
    }

    #[test]
    fn nonsense_is_refused_with_the_reason() {
        let good = AfdConfig::new(0);
        for (config, part) in [
            (AfdConfig { samples: 0, ..good }, "number of samples is 0"),
            (AfdConfig { samples: u32::MAX, ..good }, "out of range"),
            (AfdConfig { sample_bytes: 0, ..good }, "sample distance"),
            (AfdConfig { update: Span::ZERO, ..good }, "update interval is 0"),
            (AfdConfig { update: Span::MAX, ..good }, "in which no flow can be followed"),
        ] {
            let text = config.check().unwrap_err().to_string();
            assert!(text.contains(part), "{text}");
        }
    }
}
