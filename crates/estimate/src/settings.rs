//! A method with its parameters, as users choose it.

use crate::config::{Budget, Conditions, MethodConfig};
use crate::info::{AnyConfig, MethodError};
use crate::method::Method;
use crate::methods::METHODS;
use crate::primed::PrimedConfig;
use kumade_units::{Rate, parse};
use serde::{Deserialize, Serialize};
use std::fmt;
use std::str::FromStr;
use std::sync::Arc;

/// A method and the values of its parameters. Users write its name, and behind it the parameters that differ from their
/// defaults: `linear-scan:interval=1ms:packets=60`. The default is `primed`.
///
/// ```
/// # use kumade_estimate::{Conditions, LinearScanConfig, MethodSettings};
/// let settings: MethodSettings = "linear-scan:packets=60".parse()?;
/// assert_eq!(settings, MethodSettings::new(LinearScanConfig { packets: 60, ..LinearScanConfig::default() }));
/// let mut method = settings.build(&Conditions::new(1500));
/// # let _ = method.next(kumade_units::Time::ZERO);
/// # Ok::<(), kumade_estimate::MethodError>(())
/// ```
#[derive(Clone, Serialize, Deserialize)]
#[serde(try_from = "String", into = "String")]
pub struct MethodSettings(Arc<dyn AnyConfig>);

impl MethodSettings {
    /// The method with these parameters. Whether their values go together is not checked.
    pub fn new<C: MethodConfig>(config: C) -> Self {
        MethodSettings(Arc::new(config))
    }

    /// The parameters, if they are of this type.
    pub fn config<C: MethodConfig>(&self) -> Option<&C> {
        self.0.as_any().downcast_ref()
    }

    /// The method's name on the command line and in reports.
    pub fn name(&self) -> &'static str {
        self.0.name()
    }

    /// The largest number of packets in one train.
    pub fn max_packets(&self) -> u32 {
        self.0.max_packets()
    }

    /// Whether the method measures correctly behind a token bucket that it is told of.
    pub fn handles_token_bucket(&self) -> bool {
        self.0.handles_token_bucket()
    }

    /// What the method costs at most where [`Conditions::budget`] does not say otherwise; none where the parameters alone
    /// say what is sent, and no budget limits it.
    pub fn budget(&self) -> Option<Budget> {
        self.0.budget()
    }

    /// For a bottleneck of about this rate: adapts what is not set and depends on it.
    pub fn adapted_to_rate(&self, rate: Rate) -> Self {
        MethodSettings(self.0.adapted_to_rate(rate))
    }

    /// The method, ready to measure.
    pub fn build(&self, conditions: &Conditions) -> Box<dyn Method> {
        self.0.build(conditions)
    }
}

impl Default for MethodSettings {
    fn default() -> Self {
        MethodSettings::new(PrimedConfig::default())
    }
}

impl PartialEq for MethodSettings {
    fn eq(&self, other: &Self) -> bool {
        self.0.equals(other.0.as_any())
    }
}

impl FromStr for MethodSettings {
    type Err = MethodError;

    fn from_str(text: &str) -> Result<Self, MethodError> {
        let (name, given) = parse::name_and_parameters(text)?;
        let unknown = || {
            let known = METHODS.iter().map(|info| info.name).collect();
            MethodError::UnknownMethod { name: name.to_owned(), known }
        };
        let info = METHODS.iter().find(|info| info.name == name).ok_or_else(unknown)?;
        info.parse_parameters(&given).map(MethodSettings)
    }
}

impl TryFrom<String> for MethodSettings {
    type Error = MethodError;

    fn try_from(text: String) -> Result<Self, MethodError> {
        text.parse()
    }
}

impl From<MethodSettings> for String {
    fn from(settings: MethodSettings) -> String {
        settings.to_string()
    }
}

impl fmt::Display for MethodSettings {
    /// As [`FromStr`] reads it: the name, and the parameters that differ from their defaults.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let changed = self.0.changed_parameters().into_iter().map(|(name, value)| format!(":{name}={value}"));
        f.pad(&[self.name().to_owned()].into_iter().chain(changed).collect::<String>())
    }
}

impl fmt::Debug for MethodSettings {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{:?}", self.0)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::method::Step;
    use crate::{LinearScanConfig, PathTesterClassicConfig};
    use kumade_units::{Span, Time};

    fn settings(text: &str) -> MethodSettings {
        text.parse().unwrap()
    }

    #[test]
    fn every_name_is_a_method_with_its_defaults_and_is_written_as_it_is_read() {
        for info in METHODS {
            assert_eq!(
                (settings(info.name).name(), settings(info.name).to_string()),
                (info.name, info.name.to_owned())
            );
        }
        assert_eq!(MethodSettings::default(), settings("primed"));
    }

    #[test]
    fn the_default_that_help_shows_is_what_is_done_without_it() {
        for info in METHODS {
            for parameter in info.parameters() {
                let given = settings(&format!("{}:{}={}", info.name, parameter.name, parameter.default));
                let first = |settings: &MethodSettings| settings.build(&Conditions::new(1500)).next(Time::ZERO);
                assert_eq!(first(&given), first(&settings(info.name)), "{} {}", info.name, parameter.name);
                assert_eq!(given.max_packets(), settings(info.name).max_packets());
            }
        }
    }

    #[test]
    fn parameters_are_typed_and_written_as_they_are_read() {
        let scan = settings("linear-scan:interval=0.5ms:size-step=-2:first-size=1024");
        let config: &LinearScanConfig = scan.config().unwrap();
        assert_eq!((config.interval, config.first_size), (Some(Span::from_micros(500)), 1024));
        assert_eq!(scan.to_string(), "linear-scan:interval=500us:first-size=1024:size-step=-2");
        assert_eq!(settings(&scan.to_string()), scan);
        let classic = settings("pathtester-classic:iunit=3-17");
        assert_eq!(classic.config(), Some(&PathTesterClassicConfig { first_iunit: 3, last_iunit: 17 }));
        assert_eq!(settings("pathtester-classic:iunit=0-15").to_string(), "pathtester-classic");
        assert_ne!(classic, settings("pathtester-classic"));
    }

    #[test]
    fn what_does_not_suit_the_rate_is_adapted_unless_it_is_set() {
        let slow = Rate::from_mbit(10);
        assert_eq!(settings("linear-scan").adapted_to_rate(slow), settings("linear-scan:interval=1ms"));
        let set = settings("linear-scan:interval=100us");
        assert_eq!(set.adapted_to_rate(slow), set);
        assert_eq!(settings("primed").adapted_to_rate(slow), settings("primed"));
        let Step::Send { train, .. } = settings("linear-scan").build(&Conditions::new(1500)).next(Time::ZERO) else {
            panic!("no train")
        };
        assert_eq!(train.segments[0].interval, Span::from_micros(100));
    }

    #[test]
    fn what_is_wrong_is_named_with_what_may_stand_there() {
        for (text, said) in [
            ("rake", "`rake` is not a method; choose one of primed, linear-scan, "),
            ("primed:speed=1", "the method primed has no parameter `speed`: it has no parameters"),
            ("linear-scan:speed=1", "it has interval, first-size, size-step, packets"),
            ("linear-scan:packets", "`packets` is not a parameter: it has no `=`"),
            ("linear-scan:interval=soon", "linear-scan: interval=soon: `soon` is not a time"),
            ("linear-scan:interval=0s", "interval=0s: packets need a time between them"),
            ("linear-scan:packets=0", "linear-scan: train refused: 0 packets"),
            ("linear-scan:packets=1000000", "linear-scan: train refused: 1000000 packets"),
            ("linear-scan:size-step=-12", "a packet of 0 bytes"),
            ("linear-scan:first-size=9000", "a packet of 9000 bytes"),
            ("linear-scan:size-step=x", "size-step=x: `x` is not a whole number"),
            ("pathtester-classic:iunit=17-0", "iunit=17-0: it is not a range within 0-22"),
            ("pathtester-classic:iunit=0-23", "iunit=0-23: it is not a range within 0-22"),
        ] {
            let error = text.parse::<MethodSettings>().unwrap_err().to_string();
            assert!(error.contains(said), "{text}: {error}");
        }
    }
}
