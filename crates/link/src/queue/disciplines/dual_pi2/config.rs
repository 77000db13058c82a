use crate::queue::parameter::{
    NUMBER_FORMAT, Parameter, ParameterFormat, RATIO_FORMAT, SWITCH_FORMAT, TIME_FORMAT, parse_choice,
};
use kumade_units::{ConfigError, Span};

/// The settings of [`DualPi2`](super::DualPi2); the default is that of Linux's `sch_dualpi2`, which follows RFC 9332, appendix A. There,
/// no other packet has to wait in the L4S queue for one to be marked (`min_qlen_step` is 0), and time shift is not offered:
/// twice the target is this project's choice.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct DualPi2Config {
    /// The delay of the classic queue that the controller steers to.
    pub target: Span,
    /// How often the base probability is calculated.
    pub update: Span,
    /// The controller's integral gain in 1/s: 0.1 · update / (longest round trip)².
    pub alpha: f64,
    /// Its proportional gain in 1/s: 0.3 / longest round trip.
    pub beta: f64,
    /// Packets of the L4S queue are marked from about this sojourn time on, …
    pub step_threshold: Span,
    /// … with a probability that rises from 0 to 1 over this range around it; 0 is a step.
    pub ramp: Span,
    /// … if on arrival they found at least so many packets in that queue.
    pub min_step_packets: u32,
    /// How many times the base probability a packet of the L4S queue is marked with.
    pub coupling_factor: u32,
    /// Whether overload is answered with drops, also of packets that can be marked; else the queue may fill.
    pub drops_on_overload: bool,
    /// Which queue is served.
    pub scheduler: DualQueueScheduler,
    /// The part of the link that weighted round robin keeps for the classic queue.
    pub classic_protection: f64,
    /// How much longer a classic packet must have waited than one of the L4S queue to leave first, with time shift.
    pub time_shift: Span,
}

/// Which of the two queues is served.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub enum DualQueueScheduler {
    /// Weighted round robin, by bytes.
    #[default]
    WeightedRoundRobin,
    /// The packet that has waited longest, those of the L4S queue by the time shift longer (time-shifted FIFO).
    TimeShift,
}

const FREQUENCY_FORMAT: ParameterFormat<f64> =
    ParameterFormat { placeholder: "HZ", read: parse_frequency, show: f64::to_string };
const SCHEDULER_FORMAT: ParameterFormat<DualQueueScheduler> = ParameterFormat {
    placeholder: "wrr|time-shift",
    read: |text| {
        let choices = [("wrr", DualQueueScheduler::WeightedRoundRobin), ("time-shift", DualQueueScheduler::TimeShift)];
        parse_choice(text, choices)
    },
    show: |scheduler| match scheduler {
        DualQueueScheduler::WeightedRoundRobin => "wrr".to_owned(),
        DualQueueScheduler::TimeShift => "time-shift".to_owned(),
    },
};

fn parse_frequency(text: &str) -> Result<f64, String> {
    let value = text.trim().parse::<f64>().ok().filter(|value| value.is_finite() && *value >= 0.0);
    value.ok_or_else(|| format!("`{text}` is not a number such as 0.16"))
}

impl Default for DualPi2Config {
    fn default() -> Self {
        DualPi2Config {
            target: Span::from_millis(15),
            update: Span::from_millis(16),
            alpha: 0.16,
            beta: 3.2,
            step_threshold: Span::from_millis(1),
            ramp: Span::ZERO,
            min_step_packets: 1,
            coupling_factor: 2,
            drops_on_overload: true,
            scheduler: DualQueueScheduler::default(),
            classic_protection: 0.1,
            time_shift: Span::from_millis(30),
        }
    }
}

/// What users can set.
pub(super) fn parameters() -> Vec<Parameter<DualPi2Config>> {
    let step = "sojourn time from which packets of the L4S queue are marked";
    let ramp = "range around it over which they are marked with a rising probability; 0 is a step";
    let min_step = "packets that one must find in the L4S queue to be marked for its sojourn time";
    let coupling = "how many times the base probability packets of the L4S queue are marked with";
    let overload = "drop packets that could be marked, too, where senders do not react";
    let protection = "part of the link kept for classic packets, with wrr";
    let shift = "how much longer a classic packet must have waited to leave first, with time-shift";
    vec![
        Parameter::new(
            "target",
            TIME_FORMAT,
            "delay that the classic queue is steered to",
            |config: &mut DualPi2Config| &mut config.target,
        ),
        Parameter::new(
            "tupdate",
            TIME_FORMAT,
            "interval between calculations of the probability",
            |config: &mut DualPi2Config| &mut config.update,
        ),
        Parameter::new("alpha", FREQUENCY_FORMAT, "integral gain", |config: &mut DualPi2Config| &mut config.alpha),
        Parameter::new("beta", FREQUENCY_FORMAT, "proportional gain", |config: &mut DualPi2Config| &mut config.beta),
        Parameter::new("step-thresh", TIME_FORMAT, step, |config: &mut DualPi2Config| &mut config.step_threshold),
        Parameter::new("ramp", TIME_FORMAT, ramp, |config: &mut DualPi2Config| &mut config.ramp),
        Parameter::new("min-qlen-step", NUMBER_FORMAT, min_step, |config: &mut DualPi2Config| {
            &mut config.min_step_packets
        }),
        Parameter::new("coupling-factor", NUMBER_FORMAT, coupling, |config: &mut DualPi2Config| {
            &mut config.coupling_factor
        }),
        Parameter::new("drop-on-overload", SWITCH_FORMAT, overload, |config: &mut DualPi2Config| {
            &mut config.drops_on_overload
        }),
        Parameter::new("scheduler", SCHEDULER_FORMAT, "which queue is served", |config: &mut DualPi2Config| {
            &mut config.scheduler
        }),
        Parameter::new("classic-protection", RATIO_FORMAT, protection, |config: &mut DualPi2Config| {
            &mut config.classic_protection
        }),
        Parameter::new("time-shift", TIME_FORMAT, shift, |config: &mut DualPi2Config| &mut config.time_shift),
    ]
}

impl DualPi2Config {
    /// Whether a queue can be made of these settings.
    ///
    /// # Errors
    /// A value is out of range.
    pub(super) fn check_ranges(&self) -> Result<(), ConfigError> {
        let error = ConfigError::for_part("DualPI2 queue");
        for (name, span, remedy) in [
            ("target", self.target, "give 0 or more; 15 ms is usual"),
            ("step threshold", self.step_threshold, "give 0 or more; 1 ms is usual"),
            ("ramp", self.ramp, "give 0 or more; 0 or 400 us is usual"),
            ("time shift", self.time_shift, "give 0 or more; twice the target is usual"),
        ] {
            if span < Span::ZERO {
                return Err(error(name, span.to_string(), "which is negative", remedy));
            }
        }
        if self.update < Span::from_micros(10) || self.update > Span::from_secs(1) {
            let remedy = "give 10 us to 1 s; 16 ms is usual";
            return Err(error("interval of calculations", self.update.to_string(), "out of range", remedy));
        }
        let is_gain = |gain: f64| gain.is_finite() && (0.0..=1e6).contains(&gain);
        if !is_gain(self.alpha) || !is_gain(self.beta) {
            let gains = format!("{} and {}", self.alpha, self.beta);
            return Err(error("gains", gains, "out of range", "give 0 to 1000000 Hz; 0.16 and 3.2 are usual"));
        }
        if !(1..=255).contains(&self.coupling_factor) {
            let remedy = "give 1 to 255; 2 is usual";
            return Err(error("coupling factor", self.coupling_factor.to_string(), "out of range", remedy));
        }
        if !(0.0..=1.0).contains(&self.classic_protection) {
            let remedy = "give 0% to 100%; 10% is usual";
            return Err(error("classic protection", self.classic_protection.to_string(), "out of range", remedy));
        }
        Ok(())
    }
}
