use link::queue::{
    ActiveDroppingConfig, AfdConfig, CoDelConfig, ControlLaw, Discipline, FairCoDelConfig, FairShareConfig,
    FqCoDelConfig, Heavy, History, Preference, RedConfig,
};
use serde::Deserialize;
use std::fmt;
use std::str::FromStr;
use units::{Rate, Span, parse};

/// A queue discipline as scenario files and the command line write it: its name, and what differs from its usual
/// settings, such as `fair-share:target=5ms:window=300ms`.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord, Deserialize)]
#[serde(try_from = "String")]
pub struct DisciplineChoice(String);

/// The link on which a discipline is to work, as far as its usual settings depend on it.
#[derive(Debug, Clone, Copy)]
pub struct Surroundings<'a> {
    /// The link's rate.
    pub rate: Rate,
    /// The flows that the static discipline is told of beforehand.
    pub heavy: &'a [u64],
}

const NAMES: [&str; 10] = [
    "tail-drop",
    "codel",
    "fair-codel",
    "fair-codel-static",
    "fair-share",
    "fq-codel",
    "red",
    "active-dropping",
    "choke",
    "afd",
];
/// Where the average queue of RED and its relatives begins and ends, and where AFD holds it.
const RED_DELAYS: (Span, Span) = (Span::from_millis(5), Span::from_millis(15));
const AFD_DELAY: Span = Span::from_millis(10);

impl DisciplineChoice {
    /// The discipline for that link.
    ///
    /// # Errors
    /// Says which part of the text is wrong and what may stand there.
    pub fn build(&self, around: Surroundings<'_>) -> Result<Discipline, String> {
        let (name, mut settings) = Settings::split(&self.0)?;
        let discipline = match name {
            "tail-drop" => Discipline::TailDrop,
            "codel" => Discipline::CoDel(settings.codel()?),
            "fair-codel" => Discipline::FairCoDel(settings.fair_codel(None)?),
            "fair-codel-static" => Discipline::FairCoDel(settings.fair_codel(Some(around.heavy))?),
            "fair-share" => Discipline::FairShare(settings.fair_share()?),
            "fq-codel" => Discipline::FqCoDel(settings.fq_codel()?),
            "red" => Discipline::Red(settings.red(around.rate)?),
            "choke" => Discipline::Choke(settings.red(around.rate)?),
            "active-dropping" => Discipline::ActiveDropping(ActiveDroppingConfig {
                red: settings.red(around.rate)?,
                heavy: Heavy::Busiest(settings.history()?),
                preference: settings.preference()?,
            }),
            "afd" => Discipline::Afd(settings.afd(around.rate)?),
            _ => return Err(format!("there is no discipline `{name}`; choose one of {}", NAMES.join(", "))),
        };
        settings.finish(name)?;
        Ok(discipline)
    }

    /// Its name without settings.
    pub fn name(&self) -> &str {
        self.0.split(':').next().unwrap_or_default()
    }
}

impl FromStr for DisciplineChoice {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, String> {
        let choice = DisciplineChoice(text.trim().to_owned());
        choice.build(Surroundings { rate: Rate::from_mbit(100), heavy: &[] })?;
        Ok(choice)
    }
}

impl TryFrom<String> for DisciplineChoice {
    type Error = String;

    fn try_from(text: String) -> Result<Self, String> {
        text.parse()
    }
}

impl fmt::Display for DisciplineChoice {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.pad(&self.0)
    }
}

/// What a text sets, as far as nobody has asked for it yet, and what might have been set.
struct Settings<'a> {
    given: Vec<(&'a str, &'a str)>,
    known: Vec<&'static str>,
}

impl<'a> Settings<'a> {
    fn split(text: &'a str) -> Result<(&'a str, Self), String> {
        let mut parts = text.split(':');
        let name = parts.next().unwrap_or_default();
        let pair = |part: &'a str| {
            part.split_once('=').ok_or_else(|| format!("`{part}` in `{text}` sets nothing; write it like target=5ms"))
        };
        Ok((name, Settings { given: parts.map(pair).collect::<Result<_, _>>()?, known: Vec::new() }))
    }

    /// Replaces `usual` by what is given under `key`.
    fn set<T, E: fmt::Display>(
        &mut self,
        key: &'static str,
        usual: &mut T,
        read: impl FnOnce(&str) -> Result<T, E>,
    ) -> Result<(), String> {
        self.known.push(key);
        if let Some(place) = self.given.iter().position(|(given, _)| *given == key) {
            let (_, value) = self.given.swap_remove(place);
            *usual = read(value).map_err(|error| format!("{key}={value}: {error}"))?;
        }
        Ok(())
    }

    /// Refuses what nobody asked for.
    fn finish(self, name: &str) -> Result<(), String> {
        let Some((key, _)) = self.given.first() else { return Ok(()) };
        Err(match &self.known[..] {
            [] => format!("`{name}` has nothing to set, and no `{key}`"),
            known => format!("`{name}` has no `{key}`; it has {}", known.join(", ")),
        })
    }

    fn codel(&mut self) -> Result<CoDelConfig, String> {
        let mut config = CoDelConfig::default();
        self.set("target", &mut config.target, parse::span)?;
        self.set("interval", &mut config.interval, parse::span)?;
        self.set("law", &mut config.law, |law| match law {
            "exact" => Ok(ControlLaw::Exact),
            "newton" => Ok(ControlLaw::Newton),
            _ => Err("choose exact or newton"),
        })?;
        self.set("ecn", &mut config.ecn, str::parse)?;
        Ok(config)
    }

    fn fair_codel(&mut self, known: Option<&[u64]>) -> Result<FairCoDelConfig, String> {
        let codel = self.codel()?;
        let heavy = match known {
            Some(flows) => Heavy::Known(flows.to_vec()),
            None => Heavy::Busiest(self.history()?),
        };
        Ok(FairCoDelConfig { codel, heavy, preference: self.preference()? })
    }

    /// Under the paper's names.
    fn history(&mut self) -> Result<History, String> {
        let mut history = History::default();
        self.set("rec_int", &mut history.rec_int, str::parse)?;
        self.set("hist_len", &mut history.hist_len, str::parse)?;
        self.set("stat_int", &mut history.stat_int, str::parse)?;
        Ok(history)
    }

    fn preference(&mut self) -> Result<Preference, String> {
        let mut preference = Preference::default();
        self.set("heavy", &mut preference.heavy, parse::ratio)?;
        self.set("other", &mut preference.other, parse::ratio)?;
        Ok(preference)
    }

    fn fair_share(&mut self) -> Result<FairShareConfig, String> {
        let mut config = FairShareConfig::default();
        self.set("target", &mut config.target, parse::span)?;
        self.set("window", &mut config.window, parse::span)?;
        self.set("flows", &mut config.flows, str::parse)?;
        self.set("ecn", &mut config.ecn, str::parse)?;
        Ok(config)
    }

    fn fq_codel(&mut self) -> Result<FqCoDelConfig, String> {
        let mut config = FqCoDelConfig { codel: self.codel()?, ..FqCoDelConfig::default() };
        self.set("quantum", &mut config.quantum, str::parse)?;
        self.set("flows", &mut config.flows, str::parse)?;
        Ok(config)
    }

    fn red(&mut self, rate: Rate) -> Result<RedConfig, String> {
        let (min, max) = (rate.bytes_in(RED_DELAYS.0), rate.bytes_in(RED_DELAYS.1));
        let mut config = RedConfig::new(min.max(1500), max.max(4500), rate.time_for(1500));
        self.set("min", &mut config.min, parse::bytes)?;
        self.set("max", &mut config.max, parse::bytes)?;
        self.set("probability", &mut config.max_probability, parse::ratio)?;
        self.set("gentle", &mut config.gentle, str::parse)?;
        self.set("weight", &mut config.weight, str::parse)?;
        self.set("ecn", &mut config.ecn, str::parse)?;
        Ok(config)
    }

    fn afd(&mut self, rate: Rate) -> Result<AfdConfig, String> {
        let mut config = AfdConfig::new(rate.bytes_in(AFD_DELAY).max(3000));
        // A window of about half a second of the link's rate.
        config.sample_bytes = (rate.bytes_in(Span::from_millis(500)) / u64::from(config.samples)).max(1) as u32;
        self.set("target", &mut config.target, parse::bytes)?;
        self.set("samples", &mut config.samples, str::parse)?;
        self.set("sample_bytes", &mut config.sample_bytes, str::parse)?;
        self.set("ecn", &mut config.ecn, str::parse)?;
        Ok(config)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const AROUND: Surroundings<'_> = Surroundings { rate: Rate::from_mbit(100), heavy: &[7] };

    fn built(text: &str) -> Discipline {
        text.parse::<DisciplineChoice>().unwrap().build(AROUND).unwrap()
    }

    #[test]
    fn every_name_is_a_discipline() {
        for name in NAMES {
            assert_eq!(name.parse::<DisciplineChoice>().unwrap().name(), name);
        }
    }

    #[test]
    fn settings_replace_the_usual_ones() {
        let Discipline::FairShare(config) = built("fair-share:target=5ms:flows=64") else { panic!() };
        let usual = FairShareConfig::default();
        assert_eq!(config, FairShareConfig { target: Span::from_millis(5), flows: 64, ..usual });
        let Discipline::FairCoDel(config) = built("fair-codel:rec_int=10:hist_len=50:other=0") else { panic!() };
        assert_eq!(config.heavy, Heavy::Busiest(History { rec_int: 10, hist_len: 50, ..History::default() }));
        assert_eq!(config.preference, Preference { other: 0.0, ..Preference::default() });
    }

    #[test]
    fn who_is_heavy_may_be_known_beforehand() {
        let Discipline::FairCoDel(config) = built("fair-codel-static") else { panic!() };
        assert_eq!(config.heavy, Heavy::Known(vec![7]));
    }

    #[test]
    fn what_is_wrong_is_named_with_what_may_stand_there() {
        for (text, part) in [
            ("coddle", "choose one of tail-drop, codel"),
            ("codel:target", "write it like target=5ms"),
            ("codel:target=soon", "`soon` is not a time"),
            ("codel:speed=1", "it has target, interval, law, ecn"),
            ("tail-drop:target=5ms", "has nothing to set"),
        ] {
            let error = text.parse::<DisciplineChoice>().unwrap_err();
            assert!(error.contains(part), "{error}");
        }
    }
}
