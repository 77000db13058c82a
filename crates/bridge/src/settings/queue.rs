//! A queue discipline by name, and its parameters.

use super::value;
use link::queue::{
    ActiveDroppingConfig, AfdConfig, CoDelConfig, ControlLaw, Discipline, FairCoDelConfig, FairShareConfig,
    FqCoDelConfig, Heavy, History, Preference, RedConfig,
};
use std::collections::BTreeMap;
use units::{Rate, Span};

/// Which discipline, and those of its parameters that are not left to the default.
#[derive(Debug, Clone, PartialEq)]
pub(super) struct QueueSettings {
    kind: &'static Kind,
    parameters: BTreeMap<&'static str, Parameter>,
}

/// A discipline and the parameters that it has.
#[derive(Debug, PartialEq)]
struct Kind {
    name: &'static str,
    parameters: &'static [&'static str],
}

#[derive(Debug, Clone, PartialEq)]
enum Parameter {
    Time(Span),
    Size(u64),
    Number(u32),
    Part(f64),
    Switch(bool),
    Law(ControlLaw),
    Flows(Vec<u64>),
    Preference(f64, f64),
}

const RED: [&str; 6] = ["min", "max", "probability", "gentle", "weight", "ecn"];
const KINDS: &[Kind] = &[
    Kind { name: "tail-drop", parameters: &[] },
    Kind { name: "codel", parameters: &["target", "interval", "mtu", "law", "ecn"] },
    Kind { name: "red", parameters: &RED },
    Kind {
        name: "active-dropping",
        parameters: &[
            "min",
            "max",
            "probability",
            "gentle",
            "weight",
            "ecn",
            "rec-int",
            "hist-len",
            "stat-int",
            "heavy-flows",
            "preference",
        ],
    },
    Kind {
        name: "fair-codel",
        parameters: &[
            "target",
            "interval",
            "mtu",
            "law",
            "ecn",
            "rec-int",
            "hist-len",
            "stat-int",
            "heavy-flows",
            "preference",
        ],
    },
    Kind { name: "choke", parameters: &RED },
    Kind { name: "afd", parameters: &["target-bytes", "samples", "sample-bytes", "update", "ecn"] },
    Kind { name: "fq-codel", parameters: &["target", "interval", "mtu", "law", "ecn", "quantum", "flows"] },
    Kind { name: "fair-share", parameters: &["target", "window", "flows", "ecn"] },
];

/// What a queue of bytes is held at where the rate does not say: some packets.
const LEAST_RED: (u64, u64) = (5 * 1500, 15 * 1500);

impl Default for QueueSettings {
    fn default() -> Self {
        QueueSettings { kind: &KINDS[0], parameters: BTreeMap::new() }
    }
}

impl QueueSettings {
    pub(super) fn set(&mut self, key: &str, text: &str) -> Result<(), String> {
        if key == "queue" {
            let kind = KINDS.iter().find(|kind| kind.name == text);
            let names = || KINDS.iter().map(|kind| kind.name).collect::<Vec<_>>().join(", ");
            self.kind = kind.ok_or_else(|| format!("`{text}` is no discipline; there are {}", names()))?;
            self.parameters.clear();
            return Ok(());
        }
        let Some(name) = self.kind.parameters.iter().find(|name| **name == key) else {
            let has = self.kind.parameters;
            let has = if has.is_empty() { "no parameters".to_owned() } else { has.join(", ") };
            return Err(format!("the queue is {}, which has {has}; name another queue first", self.kind.name));
        };
        self.parameters.insert(name, Parameter::read(name, text)?);
        Ok(())
    }

    pub(super) fn words(&self) -> Vec<(&'static str, String)> {
        if *self == QueueSettings::default() {
            return Vec::new();
        }
        let parameters = self.parameters.iter().map(|(name, value)| (*name, value.show()));
        [("queue", self.kind.name.to_owned())].into_iter().chain(parameters).collect()
    }

    /// The discipline; where nothing is set, fit for a link of this rate.
    pub(super) fn discipline(&self, rate: Option<Rate>) -> Discipline {
        match self.kind.name {
            "codel" => Discipline::CoDel(self.codel(CoDelConfig::default())),
            "red" => Discipline::Red(self.red(rate)),
            "active-dropping" => Discipline::ActiveDropping(ActiveDroppingConfig {
                red: self.red(rate),
                heavy: self.heavy(),
                preference: self.preference(),
            }),
            "fair-codel" => Discipline::FairCoDel(FairCoDelConfig {
                codel: self.codel(CoDelConfig::default()),
                heavy: self.heavy(),
                preference: self.preference(),
            }),
            "choke" => Discipline::Choke(self.red(rate)),
            "afd" => Discipline::Afd(self.afd(rate)),
            "fq-codel" => Discipline::FqCoDel(self.fq_codel()),
            "fair-share" => Discipline::FairShare(self.fair_share()),
            _ => Discipline::TailDrop,
        }
    }

    fn codel(&self, mut config: CoDelConfig) -> CoDelConfig {
        self.time("target", &mut config.target);
        self.time("interval", &mut config.interval);
        self.switch("ecn", &mut config.ecn);
        if let Some(Parameter::Law(law)) = self.parameters.get("law") {
            config.law = *law;
        }
        let mut mtu = u64::from(config.mtu);
        self.size("mtu", &mut mtu);
        CoDelConfig { mtu: u32::try_from(mtu).unwrap_or(u32::MAX), ..config }
    }

    /// From 5 to 15 ms of the rate unless set, as the tail of CoDel's target.
    fn red(&self, rate: Option<Rate>) -> RedConfig {
        let waiting = |ms, least| rate.map_or(least, |rate| rate.bytes_in(Span::from_millis(ms)).max(least));
        let packet_time = rate.map_or(Span::from_micros(12), |rate| rate.time_for(value::USUAL_PACKET));
        let mut config = RedConfig::new(waiting(5, LEAST_RED.0), waiting(15, LEAST_RED.1), packet_time);
        self.size("min", &mut config.min);
        config.max = config.max.max(config.min.saturating_mul(3));
        self.size("max", &mut config.max);
        self.part("probability", &mut config.max_probability);
        self.part("weight", &mut config.weight);
        self.switch("gentle", &mut config.gentle);
        self.switch("ecn", &mut config.ecn);
        config
    }

    fn afd(&self, rate: Option<Rate>) -> AfdConfig {
        let target = rate.map_or(LEAST_RED.1, |rate| rate.bytes_in(Span::from_millis(10)).max(LEAST_RED.1));
        let mut config = AfdConfig::new(target);
        self.size("target-bytes", &mut config.target);
        self.number("samples", &mut config.samples);
        let mut sample = u64::from(config.sample_bytes);
        self.size("sample-bytes", &mut sample);
        self.time("update", &mut config.update);
        self.switch("ecn", &mut config.ecn);
        AfdConfig { sample_bytes: u32::try_from(sample).unwrap_or(u32::MAX), ..config }
    }

    fn fq_codel(&self) -> FqCoDelConfig {
        let plain = FqCoDelConfig::default();
        let mut quantum = u64::from(plain.quantum);
        self.size("quantum", &mut quantum);
        let quantum = u32::try_from(quantum).unwrap_or(u32::MAX);
        let mut config = FqCoDelConfig { codel: self.codel(plain.codel), quantum, ..plain };
        self.number("flows", &mut config.flows);
        config
    }

    fn fair_share(&self) -> FairShareConfig {
        let mut config = FairShareConfig::default();
        self.time("target", &mut config.target);
        self.time("window", &mut config.window);
        self.number("flows", &mut config.flows);
        self.switch("ecn", &mut config.ecn);
        config
    }

    fn heavy(&self) -> Heavy {
        if let Some(Parameter::Flows(flows)) = self.parameters.get("heavy-flows") {
            return Heavy::Known(flows.clone());
        }
        let mut history = History::default();
        self.number("rec-int", &mut history.rec_int);
        self.number("hist-len", &mut history.hist_len);
        self.number("stat-int", &mut history.stat_int);
        Heavy::Busiest(history)
    }

    fn preference(&self) -> Preference {
        match self.parameters.get("preference") {
            Some(Parameter::Preference(heavy, other)) => Preference { heavy: *heavy, other: *other },
            _ => Preference::default(),
        }
    }

    fn time(&self, name: &str, to: &mut Span) {
        if let Some(Parameter::Time(value)) = self.parameters.get(name) {
            *to = *value;
        }
    }

    fn size(&self, name: &str, to: &mut u64) {
        if let Some(Parameter::Size(value)) = self.parameters.get(name) {
            *to = *value;
        }
    }

    fn number(&self, name: &str, to: &mut u32) {
        if let Some(Parameter::Number(value)) = self.parameters.get(name) {
            *to = *value;
        }
    }

    fn part(&self, name: &str, to: &mut f64) {
        if let Some(Parameter::Part(value)) = self.parameters.get(name) {
            *to = *value;
        }
    }

    fn switch(&self, name: &str, to: &mut bool) {
        if let Some(Parameter::Switch(value)) = self.parameters.get(name) {
            *to = *value;
        }
    }
}

impl Parameter {
    fn read(name: &str, text: &str) -> Result<Self, String> {
        Ok(match name {
            "target" | "interval" | "update" | "window" => Parameter::Time(value::span(text)?),
            "min" | "max" | "target-bytes" | "sample-bytes" | "quantum" | "mtu" => Parameter::Size(value::bytes(text)?),
            "probability" | "weight" => Parameter::Part(value::ratio(text)?),
            "ecn" | "gentle" => match text {
                "on" => Parameter::Switch(true),
                "off" => Parameter::Switch(false),
                _ => return Err(format!("`{text}` is neither `on` nor `off`")),
            },
            "law" => match text {
                "exact" => Parameter::Law(ControlLaw::Exact),
                "newton" => Parameter::Law(ControlLaw::Newton),
                _ => return Err(format!("`{text}` is neither `exact` nor `newton`")),
            },
            "heavy-flows" => Parameter::Flows(text.split(',').map(value::number).collect::<Result<_, _>>()?),
            "preference" => {
                let parts = text.split_once('/').ok_or(format!("`{text}` is not like 100%/10%"))?;
                Parameter::Preference(value::ratio(parts.0)?, value::ratio(parts.1)?)
            }
            _ => Parameter::Number(value::number(text)?),
        })
    }

    fn show(&self) -> String {
        match self {
            Parameter::Time(span) => value::show_span(*span),
            Parameter::Size(bytes) => value::show_bytes(*bytes),
            Parameter::Number(number) => number.to_string(),
            Parameter::Part(part) => value::show_ratio(*part),
            Parameter::Switch(on) => if *on { "on" } else { "off" }.to_owned(),
            Parameter::Law(ControlLaw::Exact) => "exact".to_owned(),
            Parameter::Law(ControlLaw::Newton) => "newton".to_owned(),
            Parameter::Flows(flows) => flows.iter().map(u64::to_string).collect::<Vec<_>>().join(","),
            Parameter::Preference(heavy, other) => {
                format!("{}/{}", value::show_ratio(*heavy), value::show_ratio(*other))
            }
        }
    }
}
