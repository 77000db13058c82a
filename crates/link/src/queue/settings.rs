use super::{
    ActiveDroppingConfig, AfdConfig, CoDelConfig, ControlLaw, Discipline, FairCoDelConfig, FairShareConfig,
    FqCoDelConfig, Heavy, History, Preference, RedConfig,
};
use std::collections::BTreeMap;
use std::fmt;
use thiserror::Error;
use units::{Rate, Span, parse};

/// A discipline by its name, and those of its parameters that are not left to their defaults, as users write them. The
/// default is tail drop.
///
/// ```
/// # use link::queue::{Discipline, DisciplineSettings};
/// let mut settings = DisciplineSettings::new("fair-share")?;
/// settings.set("target", "5ms")?;
/// assert!(matches!(settings.discipline(None), Discipline::FairShare(config) if config.target.as_nanos() == 5_000_000));
/// # Ok::<(), link::queue::ParameterError>(())
/// ```
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord, Default)]
pub struct DisciplineSettings {
    /// Which of [`DISCIPLINES`].
    index: usize,
    /// Texts that can be read, without blanks.
    given: BTreeMap<&'static str, String>,
}

/// What is no name of a discipline or of its parameters, or no value of the parameter.
#[derive(Debug, Clone, PartialEq, Eq, Error)]
pub enum ParameterError {
    /// There is no discipline of this name.
    #[error("`{0}` is no discipline; there are {names}", names = DisciplineSettings::names().join(", "))]
    UnknownDiscipline(String),
    /// The discipline has other parameters.
    #[error("the queue is {discipline}, which has {}; another is named before its parameters", listed(.has))]
    UnknownParameter {
        /// The discipline.
        discipline: &'static str,
        /// Its parameters.
        has: Vec<&'static str>,
    },
    /// The parameter cannot have this value, for this reason.
    #[error("{0}")]
    Value(String),
}

type Build = fn(&mut Parameters<'_>) -> Discipline;

const DISCIPLINES: [(&str, Build); 9] = [
    ("tail-drop", |_| Discipline::TailDrop),
    ("codel", |given| Discipline::CoDel(given.codel(CoDelConfig::default()))),
    ("red", |given| Discipline::Red(given.red())),
    ("active-dropping", |given| {
        let (red, heavy, preference) = (given.red(), given.heavy(), given.preference());
        Discipline::ActiveDropping(ActiveDroppingConfig { red, heavy, preference })
    }),
    ("fair-codel", |given| {
        let (codel, heavy, preference) = (given.codel(CoDelConfig::default()), given.heavy(), given.preference());
        Discipline::FairCoDel(FairCoDelConfig { codel, heavy, preference })
    }),
    ("choke", |given| Discipline::Choke(given.red())),
    ("afd", |given| Discipline::Afd(given.afd())),
    ("fq-codel", |given| Discipline::FqCoDel(given.fq_codel())),
    ("fair-share", |given| Discipline::FairShare(given.fair_share())),
];

/// The two ways to know the heavy flows; to choose one is to leave the other.
const KNOWN_FLOWS: &str = "heavy-flows";
const HISTORY: [&str; 3] = ["rec-int", "hist-len", "stat-int"];

const USUAL_PACKET: u64 = 1500;
/// RED's average queue begins and ends at this delay, and AFD holds the queue at that one, …
const RED_DELAYS: (Span, Span) = (Span::from_millis(5), Span::from_millis(15));
const AFD_DELAY: Span = Span::from_millis(10);
/// … but not at less than some packets, which is all that is known where there is no rate.
const LEAST_LENGTHS: (u64, u64) = (5 * USUAL_PACKET, 15 * USUAL_PACKET);
/// AFD compares what flows send within about this time.
const AFD_WINDOW: Span = Span::from_millis(500);
/// That of a usual packet at 1 Gbit/s, where there is no rate.
const PACKET_TIME: Span = Span::from_micros(12);

impl DisciplineSettings {
    /// The names of all disciplines.
    pub fn names() -> [&'static str; DISCIPLINES.len()] {
        DISCIPLINES.map(|(name, _)| name)
    }

    /// The discipline of this name with its defaults.
    ///
    /// # Errors
    /// There is none of this name.
    pub fn new(name: &str) -> Result<Self, ParameterError> {
        let index = DISCIPLINES.iter().position(|(known, _)| *known == name);
        let index = index.ok_or_else(|| ParameterError::UnknownDiscipline(name.to_owned()))?;
        Ok(DisciplineSettings { index, given: BTreeMap::new() })
    }

    /// The discipline's name.
    pub fn name(&self) -> &'static str {
        DISCIPLINES[self.index].0
    }

    /// The names of all parameters that the discipline has.
    pub fn parameters(&self) -> Vec<&'static str> {
        self.read(None).1.known
    }

    /// Gives a parameter a value, as `tc` writes it. Of `heavy-flows` and the history by which heavy flows are found,
    /// the one that is set takes the place of the other.
    ///
    /// # Errors
    /// The discipline has no such parameter, or it cannot have this value. Nothing is changed then.
    pub fn set(&mut self, parameter: &str, value: &str) -> Result<(), ParameterError> {
        let has = self.parameters();
        let Some(name) = has.iter().copied().find(|name| *name == parameter) else {
            return Err(ParameterError::UnknownParameter { discipline: self.name(), has });
        };
        let mut changed = self.clone();
        if name == KNOWN_FLOWS {
            changed.given.retain(|other, _| !HISTORY.contains(other));
        } else if HISTORY.contains(&name) {
            changed.given.remove(KNOWN_FLOWS);
        }
        changed.given.insert(name, value.to_owned());
        if let Some(reason) = changed.read(None).1.wrong {
            return Err(ParameterError::Value(reason));
        }
        // Blanks mean nothing in what could be read, and words are set apart by them.
        changed.given.insert(name, value.split_whitespace().collect());
        *self = changed;
        Ok(())
    }

    /// The parameters that are set, as [`DisciplineSettings::set`] reads them, in the order of their names.
    pub fn given(&self) -> impl Iterator<Item = (&'static str, &str)> {
        self.given.iter().map(|(name, value)| (*name, value.as_str()))
    }

    /// The discipline. What is not set is fit for a link of about this rate, if it depends on that. Whether its values
    /// go together is for [`Queue::new`](super::Queue::new) to say.
    pub fn discipline(&self, rate: Option<Rate>) -> Discipline {
        self.read(rate).0
    }

    fn read(&self, rate: Option<Rate>) -> (Discipline, Parameters<'_>) {
        let mut parameters = Parameters { given: &self.given, rate, known: Vec::new(), wrong: None };
        let discipline = DISCIPLINES[self.index].1(&mut parameters);
        (discipline, parameters)
    }
}

/// The parameters that are set, while a discipline is made of them.
struct Parameters<'a> {
    given: &'a BTreeMap<&'static str, String>,
    rate: Option<Rate>,
    /// What the discipline has asked for.
    known: Vec<&'static str>,
    /// Why a text cannot be read.
    wrong: Option<String>,
}

impl Parameters<'_> {
    /// Puts what is given under this name into `place`.
    fn put<T, E: fmt::Display>(&mut self, name: &'static str, place: &mut T, read: impl FnOnce(&str) -> Result<T, E>) {
        self.known.push(name);
        match self.given.get(name).map(|text| read(text)) {
            Some(Ok(value)) => *place = value,
            Some(Err(reason)) => self.wrong = Some(reason.to_string()),
            None => {}
        }
    }

    fn codel(&mut self, mut config: CoDelConfig) -> CoDelConfig {
        self.put("target", &mut config.target, parse::span);
        self.put("interval", &mut config.interval, parse::span);
        self.put("mtu", &mut config.mtu, small_size);
        self.put("law", &mut config.law, law);
        self.put("ecn", &mut config.ecn, switch);
        config
    }

    /// What the link carries in this time, but no less than so much.
    fn bytes_in(&self, time: Span, least: u64) -> u64 {
        self.rate.map_or(least, |rate| rate.bytes_in(time).max(least))
    }

    fn red(&mut self) -> RedConfig {
        let min = self.bytes_in(RED_DELAYS.0, LEAST_LENGTHS.0);
        let max = self.bytes_in(RED_DELAYS.1, LEAST_LENGTHS.1);
        let packet_time = self.rate.map_or(PACKET_TIME, |rate| rate.time_for(USUAL_PACKET));
        let mut config = RedConfig::new(min, max, packet_time);
        self.put("min", &mut config.min, parse::bytes);
        config.max = config.max.max(config.min.saturating_mul(3));
        self.put("max", &mut config.max, parse::bytes);
        self.put("probability", &mut config.max_probability, parse::ratio);
        self.put("gentle", &mut config.gentle, switch);
        self.put("weight", &mut config.weight, parse::ratio);
        self.put("ecn", &mut config.ecn, switch);
        config
    }

    fn heavy(&mut self) -> Heavy {
        let (mut history, mut flows) = (History::default(), Vec::new());
        self.put(HISTORY[0], &mut history.rec_int, parse::number);
        self.put(HISTORY[1], &mut history.hist_len, parse::number);
        self.put(HISTORY[2], &mut history.stat_int, parse::number);
        self.put(KNOWN_FLOWS, &mut flows, |text| text.split(',').map(parse::number).collect::<Result<_, _>>());
        if self.given.contains_key(KNOWN_FLOWS) { Heavy::Known(flows) } else { Heavy::Busiest(history) }
    }

    fn preference(&mut self) -> Preference {
        let mut preference = Preference::default();
        self.put("preference", &mut preference, read_preference);
        preference
    }

    fn afd(&mut self) -> AfdConfig {
        let mut config = AfdConfig::new(self.bytes_in(AFD_DELAY, LEAST_LENGTHS.1));
        self.put("target-bytes", &mut config.target, parse::bytes);
        self.put("samples", &mut config.samples, parse::number);
        if let Some(rate) = self.rate {
            let distance = rate.bytes_in(AFD_WINDOW) / u64::from(config.samples).max(1);
            config.sample_bytes = u32::try_from(distance).unwrap_or(u32::MAX).max(1);
        }
        self.put("sample-bytes", &mut config.sample_bytes, small_size);
        self.put("update", &mut config.update, parse::span);
        self.put("ecn", &mut config.ecn, switch);
        config
    }

    fn fq_codel(&mut self) -> FqCoDelConfig {
        let mut config = FqCoDelConfig::default();
        config.codel = self.codel(config.codel);
        self.put("quantum", &mut config.quantum, small_size);
        self.put("flows", &mut config.flows, parse::number);
        config
    }

    fn fair_share(&mut self) -> FairShareConfig {
        let mut config = FairShareConfig::default();
        self.put("target", &mut config.target, parse::span);
        self.put("window", &mut config.window, parse::span);
        self.put("flows", &mut config.flows, parse::number);
        self.put("ecn", &mut config.ecn, switch);
        config
    }
}

fn small_size(text: &str) -> Result<u32, String> {
    let bytes = parse::bytes(text).map_err(|error| error.to_string())?;
    u32::try_from(bytes).map_err(|_| format!("`{text}` is too large; give less than 4g"))
}

fn switch(text: &str) -> Result<bool, String> {
    one_of(text, [("on", true), ("off", false)])
}

fn law(text: &str) -> Result<ControlLaw, String> {
    one_of(text, [("exact", ControlLaw::Exact), ("newton", ControlLaw::Newton)])
}

fn one_of<T>(text: &str, choices: [(&str, T); 2]) -> Result<T, String> {
    let refused = format!("`{text}` is neither `{}` nor `{}`", choices[0].0, choices[1].0);
    choices.into_iter().find(|(name, _)| *name == text).map(|(_, value)| value).ok_or(refused)
}

fn read_preference(text: &str) -> Result<Preference, String> {
    let (heavy, other) = text.split_once('/').ok_or_else(|| format!("`{text}` is not like 100%/10%"))?;
    let ratio = |text| parse::ratio(text).map_err(|error| error.to_string());
    Ok(Preference { heavy: ratio(heavy)?, other: ratio(other)? })
}

fn listed(names: &[&str]) -> String {
    if names.is_empty() { "no parameters".to_owned() } else { names.join(", ") }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    /// From a name and parameters such as `codel target=5ms`.
    fn settings(text: &str) -> Result<DisciplineSettings, ParameterError> {
        let mut words = text.split(' ');
        let mut settings = DisciplineSettings::new(words.next().unwrap())?;
        for word in words {
            let (name, value) = word.split_once('=').unwrap();
            settings.set(name, value)?;
        }
        Ok(settings)
    }

    fn discipline(text: &str, rate: Option<Rate>) -> Discipline {
        settings(text).unwrap().discipline(rate)
    }

    #[test]
    fn every_name_is_a_discipline_with_its_defaults() {
        for name in DisciplineSettings::names() {
            let settings = DisciplineSettings::new(name).unwrap();
            assert_eq!((settings.name(), settings.given().count()), (name, 0));
        }
        assert_eq!(DisciplineSettings::default().discipline(None), Discipline::TailDrop);
        assert_eq!(discipline("fq-codel", None), Discipline::FqCoDel(FqCoDelConfig::default()));
    }

    #[test]
    fn what_is_set_replaces_the_default() {
        let codel = CoDelConfig { law: ControlLaw::Newton, ecn: true, mtu: 9000, ..CoDelConfig::default() };
        assert_eq!(discipline("codel law=newton ecn=on mtu=9000", None), Discipline::CoDel(codel));
        let heavy = Heavy::Busiest(History { rec_int: 10, hist_len: 50, ..History::default() });
        let preference = Preference { heavy: 0.9, other: 0.0 };
        let fair = FairCoDelConfig { codel: CoDelConfig::default(), heavy, preference };
        let text = "fair-codel rec-int=10 hist-len=50 preference=90%/0";
        assert_eq!(discipline(text, None), Discipline::FairCoDel(fair));
    }

    #[test]
    fn heavy_flows_are_known_or_found() {
        let heavy = |text| match discipline(text, None) {
            Discipline::ActiveDropping(config) => config.heavy,
            other => panic!("{other:?}"),
        };
        assert_eq!(heavy("active-dropping rec-int=2 heavy-flows=7,9"), Heavy::Known(vec![7, 9]));
        let found = Heavy::Busiest(History { rec_int: 2, ..History::default() });
        assert_eq!(heavy("active-dropping heavy-flows=7,9 rec-int=2"), found);
    }

    #[test]
    fn lengths_are_fit_for_the_rate() {
        let red = |text, rate| match discipline(text, rate) {
            Discipline::Red(config) => (config.min, config.max),
            other => panic!("{other:?}"),
        };
        assert_eq!(red("red", Some(Rate::from_mbit(100))), (62_500, 187_500));
        assert_eq!(red("red", Some(Rate::from_mbit(1))), LEAST_LENGTHS);
        assert_eq!(red("red", None), LEAST_LENGTHS);
        assert_eq!(red("red min=100000", Some(Rate::from_mbit(100))), (100_000, 300_000));
        let afd = |text, rate| match discipline(text, rate) {
            Discipline::Afd(config) => (config.target, config.samples, config.sample_bytes),
            other => panic!("{other:?}"),
        };
        assert_eq!(afd("afd", Some(Rate::from_mbit(100))), (125_000, 500, 12_500));
        assert_eq!(afd("afd samples=1000", Some(Rate::from_mbit(100))), (125_000, 1000, 6250));
        assert_eq!(afd("afd", None), (22_500, 500, AfdConfig::new(0).sample_bytes));
    }

    #[test]
    fn what_is_wrong_is_named_with_what_may_stand_there() {
        for (text, part) in [
            ("coddle", "`coddle` is no discipline; there are tail-drop, codel, red, "),
            ("tail-drop target=5ms", "the queue is tail-drop, which has no parameters; another is named before"),
            ("codel speed=1", "the queue is codel, which has target, interval, mtu, law, ecn; "),
            ("codel target=soon", "`soon` is not a time"),
            ("codel ecn=yes", "`yes` is neither `on` nor `off`"),
            ("codel law=2", "`2` is neither `exact` nor `newton`"),
            ("codel mtu=5g", "`5g` is too large"),
            ("fair-codel rec-int=-1", "`-1` is not a whole number"),
            ("fair-codel rec-int=1\u{a0}2", "is not a whole number"),
            ("fair-codel heavy-flows=", "`` is not a whole number"),
            ("fair-codel preference=1", "`1` is not like 100%/10%"),
            ("fair-codel preference=1/2", "more than the whole"),
        ] {
            let error = settings(text).unwrap_err().to_string();
            assert!(error.contains(part), "{error}");
        }
    }

    #[test]
    fn what_is_refused_changes_nothing() {
        let mut fair = settings("fair-codel rec-int=3").unwrap();
        let before = fair.clone();
        fair.set("heavy-flows", "many").unwrap_err();
        fair.set("quantum", "1500").unwrap_err();
        assert_eq!(fair, before);
    }

    proptest! {
        #[test]
        fn what_is_given_makes_the_same_again(
            name in prop::sample::select(DisciplineSettings::names().to_vec()),
            tries in prop::collection::vec(
                (any::<prop::sample::Index>(), prop::sample::select(
                    vec!["5ms", " 8 us ", "2kb", "7", "0", "on", "off", "newton", "1, 2", "1 2", "30%", "90% / 1%", "", "£"],
                )),
                0..30,
            ),
            rate in prop::option::of(any::<u64>().prop_map(Rate::from_bits_per_second)),
        ) {
            let mut once = DisciplineSettings::new(name).unwrap();
            let has = once.parameters();
            for (which, value) in tries.iter().filter(|_| !has.is_empty()) {
                let _ = once.set(which.get::<&str>(&has), value);
            }
            let mut again = DisciplineSettings::new(once.name()).unwrap();
            for (name, value) in once.given() {
                prop_assert!(!value.contains(' '));
                prop_assert_eq!(again.set(name, value), Ok(()));
            }
            prop_assert_eq!(again.discipline(rate), once.discipline(rate));
            prop_assert_eq!(again, once);
        }
    }
}
