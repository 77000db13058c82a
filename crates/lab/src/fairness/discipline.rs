use kumade_link::queue::{
    DISCIPLINES, Discipline, DisciplineConfig, DisciplineSettings, FairCoDelConfig, HeavyFlows, ParameterError,
};
use kumade_units::Rate;
use serde::{Deserialize, Serialize};
use std::fmt;
use std::str::FromStr;

/// A queue discipline as scenario files and the command line write it: its name, and what differs from its defaults,
/// such as `fair-share:target=5ms:window=300ms`. Names and values are those of [`DisciplineSettings`], and one more:
/// [`DisciplineChoice::STATIC_FAIR_CODEL`].
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(try_from = "String", into = "String")]
pub struct DisciplineChoice {
    settings: DisciplineSettings,
    /// Whether the lab states the heavy flows.
    is_static: bool,
}

/// The link in front of which a discipline is to work, as far as its defaults depend on it.
#[derive(Debug, Clone, Copy)]
pub struct LinkContext<'a> {
    /// The link's rate.
    pub rate: Rate,
    /// The flows that the static discipline knows to be heavy.
    pub heavy_flows: &'a [u64],
}

impl DisciplineChoice {
    /// The papers' static variant of `fair-codel`: it knows the heavy flows beforehand.
    pub const STATIC_FAIR_CODEL: &str = "fair-codel-static";

    /// The names of all disciplines, each with a line on what it does.
    pub fn discipline_names() -> impl Iterator<Item = (&'static str, &'static str)> {
        let the_static = (Self::STATIC_FAIR_CODEL, "fair-codel that knows beforehand which flows are heavy");
        DISCIPLINES.iter().map(|info| (info.name, info.summary)).chain([the_static])
    }

    /// The discipline for that link.
    pub fn build(&self, around: LinkContext<'_>) -> Discipline {
        let mut discipline = self.settings.discipline(Some(around.rate));
        if let (true, Discipline::FairCoDel(config)) = (self.is_static, &mut discipline) {
            config.heavy = HeavyFlows::Known(around.heavy_flows.to_vec());
        }
        discipline
    }

    /// Its name without settings.
    pub fn name(&self) -> &'static str {
        if self.is_static { Self::STATIC_FAIR_CODEL } else { self.settings.name() }
    }
}

impl FromStr for DisciplineChoice {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, String> {
        let text = text.trim();
        let parameters =
            text.strip_prefix(Self::STATIC_FAIR_CODEL).filter(|rest| rest.is_empty() || rest.starts_with(':'));
        let known = parameters.map_or(text.to_owned(), |parameters| FairCoDelConfig::NAME.to_owned() + parameters);
        let settings: DisciplineSettings = known.parse().map_err(describe_error)?;
        let stated = parameters.is_some();
        if let Some((parameter, _)) =
            settings.given_parameters().find(|(name, _)| stated && HeavyFlows::PARAMETERS.contains(name))
        {
            return Err(format!("{} knows which flows are heavy; leave {parameter} out", Self::STATIC_FAIR_CODEL));
        }
        Ok(DisciplineChoice { settings, is_static: stated })
    }
}

fn describe_error(error: ParameterError) -> String {
    match error {
        ParameterError::UnknownDiscipline(_) => format!("{error}, {}", DisciplineChoice::STATIC_FAIR_CODEL),
        _ => error.to_string(),
    }
}

impl TryFrom<String> for DisciplineChoice {
    type Error = String;

    fn try_from(text: String) -> Result<Self, String> {
        text.parse()
    }
}

impl From<DisciplineChoice> for String {
    fn from(choice: DisciplineChoice) -> Self {
        choice.to_string()
    }
}

impl fmt::Display for DisciplineChoice {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let given = self.settings.given_parameters().map(|(parameter, value)| format!(":{parameter}={value}"));
        f.pad(&[self.name().to_owned()].into_iter().chain(given).collect::<String>())
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use kumade_units::Span;

    const AROUND: LinkContext<'_> = LinkContext { rate: Rate::from_mbit(100), heavy_flows: &[7] };

    fn choice(text: &str) -> DisciplineChoice {
        text.parse().unwrap()
    }

    #[test]
    fn it_is_written_as_it_is_read() {
        for text in ["tail-drop", "fair-share:target=5ms:window=300ms", "fair-codel-static:preference=100%/50%"] {
            assert_eq!(choice(text).to_string(), text);
        }
        assert_eq!(choice("fair-share:window=300ms:target=5 ms"), choice("fair-share:target=5ms:window=300ms"));
    }

    #[test]
    fn settings_replace_the_defaults() {
        let Discipline::CoDel(config) = choice("codel:target=8ms").build(AROUND) else { panic!() };
        assert_eq!(config.target, Span::from_millis(8));
        let Discipline::Red(config) = choice("red").build(AROUND) else { panic!() };
        assert_eq!(config.min, 62_500, "5 ms of the link's rate");
    }

    #[test]
    fn who_is_heavy_may_be_known_beforehand() {
        let Discipline::FairCoDel(config) = choice("fair-codel-static").build(AROUND) else { panic!() };
        assert_eq!(config.heavy, HeavyFlows::Known(vec![7]));
    }

    #[test]
    fn what_is_wrong_is_named_with_what_may_stand_there() {
        for (text, part) in [
            ("coddle", "choose one of tail-drop, codel"),
            ("coddle", "fair-share, pie, cake, dualpi2, ce-threshold, fair-codel-static"),
            ("codel:target", "`target` is not a parameter: it has no `=`"),
            ("codel:target=soon", "target=soon: `soon` is not a time"),
            ("codel:speed=1", "no parameter `speed`: it has target, interval, mtu, law, ecn"),
            ("fair-codel-static:rec-int=2", "leave rec-int out"),
        ] {
            let error = text.parse::<DisciplineChoice>().unwrap_err();
            assert!(error.contains(part), "{error}");
        }
    }
}
