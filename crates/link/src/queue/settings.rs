use super::disciplines::{DISCIPLINES, Discipline};
use super::parameter::GivenParameters;
use kumade_units::{Rate, parse};
use std::fmt;
use std::str::FromStr;
use thiserror::Error;

/// A discipline by its name, and those of its parameters that are set, as users write them: `codel`, or
/// `fair-share:target=5ms:window=300ms`. Values are written as `tc` writes them. The default is tail drop.
///
/// ```
/// # use kumade_link::queue::{Discipline, DisciplineSettings};
/// let settings: DisciplineSettings = "fair-share:target=5ms".parse()?;
/// assert!(matches!(settings.discipline(None), Discipline::FairShare(config) if config.target.as_nanos() == 5_000_000));
/// # Ok::<(), kumade_link::queue::ParameterError>(())
/// ```
#[derive(Debug, Clone, PartialEq, Default)]
pub struct DisciplineSettings {
    discipline: Discipline,
    /// Without blanks.
    given: GivenParameters,
}

/// Why a discipline or a parameter cannot be set.
#[derive(Debug, Clone, PartialEq, Eq, Error)]
#[non_exhaustive]
pub enum ParameterError {
    /// There is no discipline of this name.
    #[error("`{0}` is not a queue discipline; {nearest}choose one of {names}", nearest = describe_nearest(.0), names = names())]
    UnknownDiscipline(String),
    /// The discipline has no such parameter.
    #[error(
        "the queue discipline {discipline} has no parameter `{parameter}`: it has {}; name a discipline before its parameters",
        list_names(.has)
    )]
    UnknownParameter {
        /// The discipline.
        discipline: &'static str,
        /// What it does not have.
        parameter: String,
        /// Its parameters.
        has: Vec<&'static str>,
    },
    /// The parameter cannot have this value, for this reason.
    #[error("{0}")]
    Value(String),
    /// What follows the name is not a list of parameters.
    #[error(transparent)]
    Form(#[from] parse::ParseError),
}

/// Disciplines of other programs, and what comes nearest here.
const NEAREST: &[(&[&str], &str)] = &[
    (&["fq_codel", "fqcodel", "sfq", "fq", "drr"], "nearest is `fq-codel`; "),
    (&["fq_pie"], "nearest are `fq-codel` and `pie`; "),
    (&["pfifo", "bfifo", "pfifo_fast", "fifo", "droptail", "noqueue"], "nearest is `tail-drop`; "),
];

fn describe_nearest(name: &str) -> &'static str {
    let name = name.to_ascii_lowercase();
    NEAREST.iter().find(|(names, _)| names.contains(&name.as_str())).map_or("", |(_, text)| text)
}

impl DisciplineSettings {
    /// The discipline of this name with its defaults.
    ///
    /// # Errors
    /// There is none of this name.
    pub fn new(name: &str) -> Result<Self, ParameterError> {
        let info = DISCIPLINES.iter().find(|info| info.name == name);
        let info = info.ok_or_else(|| ParameterError::UnknownDiscipline(name.to_owned()))?;
        Ok(DisciplineSettings { discipline: info.defaults(), given: GivenParameters::new() })
    }

    /// The discipline's name.
    pub fn name(&self) -> &'static str {
        self.discipline.info().name
    }

    /// Reads and sets a parameter. Those that it replaces are no longer set.
    ///
    /// # Errors
    /// The discipline has no such parameter, or it cannot have this value. Nothing is changed then.
    pub fn set(&mut self, parameter: &str, value: &str) -> Result<(), ParameterError> {
        let set = self.discipline.set(parameter, value).ok_or_else(|| self.unknown_parameter(parameter))?;
        let parameter = set.map_err(ParameterError::Value)?;
        self.given.retain(|other, _| !parameter.replaces.contains(other));
        // Blanks have no meaning in a value that could be read, and separate words elsewhere.
        self.given.insert(parameter.name, value.split_whitespace().collect());
        Ok(())
    }

    /// The parameters that are set, as [`DisciplineSettings::set`] reads them, in the order of their names.
    pub fn given_parameters(&self) -> impl Iterator<Item = (&'static str, &str)> {
        self.given.iter().map(|(name, value)| (*name, value.as_str()))
    }

    /// The discipline for a link of about this rate: parameters that are not set are adapted to it if they depend on it.
    /// Whether the values fit together is for [`QueueConfig::validate`](super::QueueConfig::validate) to say.
    pub fn discipline(&self, rate: Option<Rate>) -> Discipline {
        let mut discipline = self.discipline.clone();
        discipline.adapt_to_rate(rate, &self.given);
        discipline
    }

    fn unknown_parameter(&self, parameter: &str) -> ParameterError {
        let info = self.discipline.info();
        let has = info.parameters().iter().map(|parameter| parameter.name).collect();
        ParameterError::UnknownParameter { discipline: info.name, parameter: parameter.to_owned(), has }
    }
}

impl FromStr for DisciplineSettings {
    type Err = ParameterError;

    fn from_str(text: &str) -> Result<Self, ParameterError> {
        let (name, given) = parse::name_and_parameters(text)?;
        let mut settings = DisciplineSettings::new(name)?;
        for (parameter, value) in given {
            settings.set(parameter, value).map_err(|error| match error {
                ParameterError::Value(reason) => ParameterError::Value(format!("{parameter}={value}: {reason}")),
                other => other,
            })?;
        }
        Ok(settings)
    }
}

impl fmt::Display for DisciplineSettings {
    /// As it is read.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let given = self.given_parameters().map(|(parameter, value)| format!(":{parameter}={value}"));
        f.pad(&[self.name().to_owned()].into_iter().chain(given).collect::<String>())
    }
}

fn names() -> String {
    DISCIPLINES.iter().map(|info| info.name).collect::<Vec<_>>().join(", ")
}

fn list_names(names: &[&str]) -> String {
    if names.is_empty() { "none".to_owned() } else { names.join(", ") }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::queue::{
        AfdConfig, CoDelConfig, ControlLaw, DropPreference, FairCoDelConfig, FlowHistory, FqCoDelConfig, HeavyFlows,
        TailDropConfig,
    };
    use proptest::prelude::*;

    /// From a name and parameters such as `codel target=5ms`.
    fn settings(text: &str) -> Result<DisciplineSettings, ParameterError> {
        text.replace(' ', ":").parse()
    }

    fn discipline(text: &str, rate: Option<Rate>) -> Discipline {
        settings(text).unwrap().discipline(rate)
    }

    #[test]
    fn every_name_is_a_discipline_with_its_defaults() {
        for info in DISCIPLINES {
            let settings = DisciplineSettings::new(info.name).unwrap();
            assert_eq!((settings.name(), settings.given_parameters().count()), (info.name, 0));
            assert_eq!(settings.to_string(), info.name);
        }
        assert_eq!(DisciplineSettings::default().discipline(None), TailDropConfig.into());
        assert_eq!(discipline("fq-codel", None), Discipline::FqCoDel(FqCoDelConfig::default()));
    }

    #[test]
    fn what_is_set_replaces_the_default() {
        let codel = CoDelConfig { law: ControlLaw::Newton, ecn: true, mtu: 9000, ..CoDelConfig::default() };
        assert_eq!(discipline("codel law=newton ecn=on mtu=9000", None), Discipline::CoDel(codel));
        let heavy = HeavyFlows::Busiest(FlowHistory { rec_int: 10, hist_len: 50, ..FlowHistory::default() });
        let preference = DropPreference { heavy: 0.9, other: 0.0 };
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
        assert_eq!(heavy("active-dropping rec-int=2 heavy-flows=7,9"), HeavyFlows::Known(vec![7, 9]));
        let found = HeavyFlows::Busiest(FlowHistory { rec_int: 2, ..FlowHistory::default() });
        assert_eq!(heavy("active-dropping heavy-flows=7,9 rec-int=2"), found);
    }

    #[test]
    fn lengths_are_fit_for_the_rate() {
        let red = |text, rate| match discipline(text, rate) {
            Discipline::Red(config) => (config.min, config.max),
            other => panic!("{other:?}"),
        };
        assert_eq!(red("red", Some(Rate::from_mbit(100))), (62_500, 187_500));
        assert_eq!(red("red", Some(Rate::from_mbit(1))), (7500, 22_500));
        assert_eq!(red("red", None), (7500, 22_500));
        assert_eq!(red("red min=100000b", Some(Rate::from_mbit(100))), (100_000, 300_000));
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
            ("coddle", "`coddle` is not a queue discipline; choose one of tail-drop, codel, red, "),
            ("cake isolation=triple", "`triple` is none of `flowblind`, `srchost`,"),
            ("fq_codel", "nearest is `fq-codel`; choose one of"),
            ("tail-drop target=5ms", "tail-drop has no parameter `target`: it has none; name a discipline before"),
            ("codel speed=1", "codel has no parameter `speed`: it has target, interval, mtu, law, ecn; "),
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
            info in prop::sample::select(DISCIPLINES),
            tries in prop::collection::vec(
                (any::<prop::sample::Index>(), prop::sample::select(
                    vec!["5ms", " 8 us ", "2kb", "7", "0", "on", "off", "newton", "1, 2", "1 2", "30%", "90% / 1%", "", "£"],
                )),
                0..30,
            ),
            rate in prop::option::of(any::<u64>().prop_map(Rate::from_bits_per_second)),
        ) {
            let mut once = DisciplineSettings::new(info.name).unwrap();
            let has: Vec<_> = info.parameters().iter().map(|parameter| parameter.name).collect();
            for (which, value) in tries.iter().filter(|_| !has.is_empty()) {
                let _ = once.set(which.get::<&str>(&has), value);
            }
            let text = once.to_string();
            prop_assert!(!text.contains(' '));
            let again: DisciplineSettings = text.parse().unwrap();
            prop_assert_eq!(again.discipline(rate), once.discipline(rate));
            prop_assert_eq!(again, once);
        }
    }
}
