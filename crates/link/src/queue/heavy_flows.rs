use super::counts::FlowCounts;
use super::discipline::DisciplineConfig;
use super::parameter::{NUMBER_FORMAT, Parameter, ParameterFormat, as_reason};
use kumade_units::{ConfigError, exact_text, parse};
use rand::RngExt;
use rand_pcg::Pcg64Mcg;
use std::collections::VecDeque;

/// Which flows are heavy: the ones whose packets are dropped by preference.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum HeavyFlows {
    /// These, known beforehand (the papers' static variant).
    Known(Vec<u64>),
    /// The one that a history of arrivals shows most often (the papers' dynamic variant).
    Busiest(FlowHistory),
}

/// How the busiest flow is found, under the papers' names. The papers give no values; the default is from a sweep of
/// [`FairCoDel`](super::FairCoDel) over 10 CUBIC and 10 Compound connections, 100 Mbit/s and 1 to 128 ms of added delay
/// in virtual time (`fair_dropping.rs` among the tests of `sim` has its table):
///
/// - `stat_int` must be short. Who alone takes the drops makes way within some round trips, and is dropped from until the
///   next statistics all the same. With 100 packets (12 ms) the chosen flow was one of the ten that had sent most of late
///   for 95 % of the time and more; with 30 000 for 2 % at 1 ms, and 25 % at 64 ms, where flows take longer to make way.
///   Jain's index follows: 0.956 at 1 ms, *behind* plain CoDel's 0.984; 0.964 at 64 ms, ahead of its 0.951. That is
///   the pattern which the paper reports and leaves open. From 1 to 1000 packets the index differs by less than 0.01.
/// - `hist_len` matters little: from 300 to 10 000 records by less than 0.01. With 20, chance chooses among like flows:
///   0.896 at 64 ms if only the chosen one is dropped from.
/// - `rec_int` stretches the same history over more time, which gains nothing at these rates.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct FlowHistory {
    /// One of so many arriving packets is recorded.
    pub rec_int: u32,
    /// So many records are kept.
    pub hist_len: u32,
    /// Every so many arriving packets, the flow with most records becomes the heavy one until the next time.
    pub stat_int: u32,
}

/// With what probability a packet is really dropped that the discipline beneath would drop.
///
/// In the same sweep (see [`FlowHistory`]), the probability for other flows mattered most: 0.1, 0.05, 0.02 and 0 gave an index of 0.992,
/// 0.997, 0.998 and 0.998 at 1 ms, and of 0.979, 0.983, 0.993 and 0.997 at 64 ms (CoDel: 0.984 and 0.968). At 0, however,
/// nobody is dropped from while the chosen flow is silent: at 128 ms the queue grows from 2.7 ms to 8.4 ms. So 0.02 is
/// the default for one flow at a time. Flows that are known beforehand are dropped from all the time, and starve at that
/// (0.51 at 1 ms, if they are half of all); 0.5 suits them better, but which half is heavy changes with the delay.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct DropPreference {
    /// A packet of a heavy flow; also any packet while no flow is known to be heavy.
    pub heavy: f64,
    /// A packet of any other flow.
    pub other: f64,
}

/// Follows the arrivals and tells how much each flow deserves a drop.
#[derive(Debug)]
pub(super) struct HeavyFlowDetector {
    preference: DropPreference,
    heavy: DetectedFlows,
}

#[derive(Debug)]
enum DetectedFlows {
    /// In ascending order.
    Known(Vec<u64>),
    Busiest(BusiestFlow),
}

#[derive(Debug)]
struct BusiestFlow {
    config: FlowHistory,
    records: VecDeque<u64>,
    counts: FlowCounts,
    until_record: u32,
    until_statistics: u32,
    flow: Option<u64>,
}

/// Bounds the memory of a history.
const MAX_RECORDS: u32 = 1 << 20;

impl Default for HeavyFlows {
    fn default() -> Self {
        HeavyFlows::Busiest(FlowHistory::default())
    }
}

impl Default for FlowHistory {
    fn default() -> Self {
        FlowHistory { rec_int: 1, hist_len: 1000, stat_int: 100 }
    }
}

impl Default for DropPreference {
    fn default() -> Self {
        DropPreference { heavy: 1.0, other: 0.02 }
    }
}

impl HeavyFlows {
    /// The parameters that set it.
    pub const PARAMETERS: [&str; 4] =
        [HISTORY_PARAMETERS[0], HISTORY_PARAMETERS[1], HISTORY_PARAMETERS[2], HEAVY_FLOWS_PARAMETER];

    /// The history, which takes the place of known flows.
    fn history(&mut self) -> &mut FlowHistory {
        if let HeavyFlows::Known(_) = self {
            *self = HeavyFlows::default();
        }
        match self {
            HeavyFlows::Busiest(history) => history,
            HeavyFlows::Known(_) => unreachable!("replaced above"),
        }
    }

    /// The known flows, which take the place of a history.
    fn known_flows(&mut self) -> &mut Vec<u64> {
        if let HeavyFlows::Busiest(_) = self {
            *self = HeavyFlows::Known(Vec::new());
        }
        match self {
            HeavyFlows::Known(flows) => flows,
            HeavyFlows::Busiest(_) => unreachable!("replaced above"),
        }
    }
}

/// The parameters by which heavy flows are found and dropped, for every discipline that does so.
pub(super) fn parameters<C: DisciplineConfig + AsMut<HeavyFlows> + AsMut<DropPreference>>() -> Vec<Parameter<C>> {
    fn history<C: AsMut<HeavyFlows>>(config: &mut C) -> &mut FlowHistory {
        config.as_mut().history()
    }
    let known = "flows known to be heavy, by their numbers, such as 1,2; then no history is kept";
    let preference = "probability that a due drop hits a packet of a heavy flow, and of another flow";
    vec![
        Parameter::new(
            HISTORY_PARAMETERS[0],
            NUMBER_FORMAT,
            "one of this many arriving packets is recorded",
            |config: &mut C| &mut history(config).rec_int,
        )
        .replaces(&[HEAVY_FLOWS_PARAMETER]),
        Parameter::new(HISTORY_PARAMETERS[1], NUMBER_FORMAT, "number of records kept", |config: &mut C| {
            &mut history(config).hist_len
        })
        .replaces(&[HEAVY_FLOWS_PARAMETER]),
        Parameter::new(
            "stat-int",
            NUMBER_FORMAT,
            "the heavy flow is chosen again after this many packets",
            |config: &mut C| &mut history(config).stat_int,
        )
        .replaces(&[HEAVY_FLOWS_PARAMETER]),
        Parameter::new(HEAVY_FLOWS_PARAMETER, FLOWS_FORMAT, known, |config: &mut C| {
            AsMut::<HeavyFlows>::as_mut(config).known_flows()
        })
        .replaces(&HISTORY_PARAMETERS)
        .made_optional(),
        Parameter::new("preference", PREFERENCE_FORMAT, preference, |config: &mut C| config.as_mut()),
    ]
}

const HEAVY_FLOWS_PARAMETER: &str = "heavy-flows";
const HISTORY_PARAMETERS: [&str; 3] = ["rec-int", "hist-len", "stat-int"];
const FLOWS_FORMAT: ParameterFormat<Vec<u64>> = ParameterFormat {
    placeholder: "LIST",
    read: |text| text.split(',').map(|flow| as_reason(parse::number(flow))).collect(),
    show: |flows| flows.iter().map(u64::to_string).collect::<Vec<_>>().join(","),
};
const PREFERENCE_FORMAT: ParameterFormat<DropPreference> = ParameterFormat {
    placeholder: "HEAVY/OTHER",
    read: read_preference,
    show: |preference| format!("{}/{}", exact_text::ratio(preference.heavy), exact_text::ratio(preference.other)),
};

fn read_preference(text: &str) -> Result<DropPreference, String> {
    let (heavy, other) = text.split_once('/').ok_or_else(|| format!("`{text}` is not like 100%/10%"))?;
    Ok(DropPreference { heavy: as_reason(parse::ratio(heavy))?, other: as_reason(parse::ratio(other))? })
}

/// Whether a detector can be made of these settings.
pub(super) fn check(heavy: &HeavyFlows, preference: DropPreference) -> Result<(), ConfigError> {
    let of = "preference of a queue";
    ConfigError::check_probability(of, "probability for heavy flows", preference.heavy)?;
    ConfigError::check_probability(of, "probability for other flows", preference.other)?;
    match heavy {
        HeavyFlows::Known(_) => Ok(()),
        HeavyFlows::Busiest(history) => history.check(),
    }
}

impl FlowHistory {
    fn check(&self) -> Result<(), ConfigError> {
        let error = ConfigError::for_part("history of a queue");
        for (name, value) in [("rec-int", self.rec_int), ("stat-int", self.stat_int), ("hist-len", self.hist_len)] {
            if value == 0 {
                return Err(error(name, "0".into(), "which finds no flow", "give 1 or more"));
            }
        }
        if self.hist_len > MAX_RECORDS {
            let remedy = "give at most 1048576, and a larger rec-int to cover more time";
            return Err(error("hist-len", self.hist_len.to_string(), "too long to keep", remedy));
        }
        Ok(())
    }
}

impl HeavyFlowDetector {
    pub(super) fn new(heavy: &HeavyFlows, preference: DropPreference, seed: u64) -> Self {
        let heavy = match heavy {
            HeavyFlows::Known(flows) => {
                let mut flows = flows.clone();
                flows.sort_unstable();
                DetectedFlows::Known(flows)
            }
            HeavyFlows::Busiest(history) => DetectedFlows::Busiest(BusiestFlow::new(*history, seed)),
        };
        HeavyFlowDetector { preference, heavy }
    }

    /// A packet of this flow arrives.
    pub(super) fn observe(&mut self, flow: u64) {
        if let DetectedFlows::Busiest(busiest) = &mut self.heavy {
            busiest.observe(flow);
        }
    }

    /// With what probability a packet of this flow takes a drop that it is chosen for.
    pub(super) fn probability(&self, flow: u64) -> f64 {
        let heavy = match &self.heavy {
            DetectedFlows::Known(flows) => flows.binary_search(&flow).is_ok(),
            DetectedFlows::Busiest(busiest) => busiest.flow.is_none_or(|heavy| heavy == flow),
        };
        if heavy { self.preference.heavy } else { self.preference.other }
    }

    /// Draws whether it does.
    pub(super) fn drops_by_preference(&self, flow: u64, rng: &mut Pcg64Mcg) -> bool {
        rng.random::<f64>() < self.probability(flow)
    }
}

impl BusiestFlow {
    fn new(config: FlowHistory, seed: u64) -> Self {
        let length = config.hist_len as usize;
        BusiestFlow {
            config,
            records: VecDeque::with_capacity(length),
            // One record goes only when the next has come.
            counts: FlowCounts::new(length, seed),
            until_record: config.rec_int,
            until_statistics: config.stat_int,
            flow: None,
        }
    }

    fn observe(&mut self, flow: u64) {
        self.until_record -= 1;
        if self.until_record == 0 {
            self.until_record = self.config.rec_int;
            if self.records.len() == self.config.hist_len as usize
                && let Some(oldest) = self.records.pop_front()
            {
                self.counts.remove(oldest);
            }
            self.records.push_back(flow);
            self.counts.add_packet(flow);
        }
        self.until_statistics -= 1;
        if self.until_statistics == 0 {
            self.until_statistics = self.config.stat_int;
            self.flow = self.counts.largest_flow();
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn detector(history: FlowHistory) -> HeavyFlowDetector {
        HeavyFlowDetector::new(&HeavyFlows::Busiest(history), DropPreference { heavy: 0.9, other: 0.2 }, 1)
    }

    #[test]
    fn the_busiest_flow_is_heavy_until_the_next_statistics() {
        let mut detector = detector(FlowHistory { rec_int: 1, hist_len: 6, stat_int: 6 });
        for flow in [1, 2, 2, 3, 2] {
            detector.observe(flow);
            assert_eq!(detector.probability(3), 0.9, "nobody is heavy yet, so that all count alike");
        }
        detector.observe(1);
        assert_eq!([1, 2, 3].map(|flow| detector.probability(flow)), [0.2, 0.9, 0.2]);
        // The history is full of 3 after four of them, but the statistics come after six.
        for _ in 0..5 {
            detector.observe(3);
            assert_eq!(detector.probability(2), 0.9);
        }
        detector.observe(3);
        assert_eq!([1, 2, 3].map(|flow| detector.probability(flow)), [0.2, 0.2, 0.9]);
    }

    #[test]
    fn only_each_rec_int_th_packet_is_recorded() {
        let mut detector = detector(FlowHistory { rec_int: 3, hist_len: 10, stat_int: 9 });
        [1, 1, 5, 1, 1, 5, 1, 1, 5].into_iter().for_each(|flow| detector.observe(flow));
        assert_eq!([1, 5].map(|flow| detector.probability(flow)), [0.2, 0.9]);
    }

    #[test]
    fn known_flows_are_heavy_from_the_start() {
        let detector =
            HeavyFlowDetector::new(&HeavyFlows::Known(vec![9, 4]), DropPreference { heavy: 1.0, other: 0.0 }, 1);
        assert_eq!([4, 5, 9].map(|flow| detector.probability(flow)), [1.0, 0.0, 1.0]);
    }

    #[test]
    fn nonsense_is_refused_with_the_reason() {
        let refused = |history, other| {
            let preference = DropPreference { heavy: 1.0, other };
            check(&HeavyFlows::Busiest(history), preference).unwrap_err().to_string()
        };
        let good = FlowHistory::default();
        assert!(refused(good, 1.5).contains("probability for other flows is 1.5"));
        assert!(refused(FlowHistory { rec_int: 0, ..good }, 0.1).contains("rec-int is 0"));
        assert!(refused(FlowHistory { hist_len: 0, ..good }, 0.1).contains("hist-len is 0"));
        assert!(refused(FlowHistory { stat_int: 0, ..good }, 0.1).contains("stat-int is 0"));
        assert!(refused(FlowHistory { hist_len: u32::MAX, ..good }, 0.1).contains("too long"));
    }
}
