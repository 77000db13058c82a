use super::checks::{check_name, check_rate, check_runs, reject_if};
use super::overrides::{Overrides, replace_list};
use crate::accuracy::{BottleneckKind, Transport};
use crate::error::ScenarioError;
use crate::fast_links::FastLinksExperiment;
use crate::values::{rates, span};
use kumade_units::{Rate, Span};
use serde::Deserialize;
use std::ops::RangeInclusive;

/// Of IPv6's minimum MTU, and jumbo frames.
const VALID_MTUS: RangeInclusive<u16> = 1280..=9000;
const VALID_QUEUE_DELAYS: RangeInclusive<Span> = Span::from_millis(1)..=Span::from_millis(100);

/// A scenario file on fast links, as it is written.
#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub(super) struct FastLinksFile {
    name: String,
    title: String,
    bottleneck: BottleneckKind,
    transports: Vec<Transport>,
    #[serde(deserialize_with = "rates")]
    rates: Vec<Rate>,
    mtus: Vec<u16>,
    /// Cross traffic as parts of the rate.
    loads: Vec<String>,
    #[serde(deserialize_with = "span")]
    queue: Span,
    runs: u32,
}

impl FastLinksFile {
    /// The experiment that it describes, with parts replaced.
    ///
    /// # Errors
    /// Names the option that has no meaning here, or what in the result is wrong.
    pub(super) fn into_experiment(mut self, overrides: &Overrides) -> Result<FastLinksExperiment, ScenarioError> {
        let name = self.name.clone();
        let invalid = |reason| ScenarioError::Invalid { name: name.clone(), reason };
        self.apply_overrides(overrides).map_err(invalid)?;
        self.check().map_err(invalid)?;
        let loads: Result<_, _> = self.loads.iter().map(|load| parse_load(load)).collect();
        let loads = loads.map_err(invalid)?;
        let FastLinksFile { name, title, bottleneck, transports, rates, mtus, queue, runs, .. } = self;
        Ok(FastLinksExperiment { name, title, bottleneck, transports, rates, mtus, loads, queue, runs })
    }

    fn apply_overrides(&mut self, given: &Overrides) -> Result<(), String> {
        if let Some(option) = given.option_unsupported_by_fast_links() {
            return Err(format!("{option} does not apply to experiments on fast links, and this is one"));
        }
        self.bottleneck = given.bottleneck.unwrap_or(self.bottleneck);
        self.runs = given.runs.unwrap_or(self.runs);
        replace_list(&mut self.transports, &given.transports);
        replace_list(&mut self.rates, given.rate.as_slice());
        Ok(())
    }

    fn check(&self) -> Result<(), String> {
        check_name(&self.name)?;
        check_runs(self.runs)?;
        reject_if(self.bottleneck == BottleneckKind::Virtual, || {
            "fast links are real time; `kumade lab run path-atlas --virtual --kind fast-link` has others".into()
        })?;
        let lists = [self.transports.len(), self.rates.len(), self.mtus.len(), self.loads.len(), self.runs as usize];
        reject_if(lists.contains(&0), || {
            "with no runs, transports, rates, mtus or loads there is nothing to do; ask for at least one".into()
        })?;
        self.rates.iter().try_for_each(|rate| check_rate("a bottleneck", *rate))?;
        let unfit = self.transports.iter().find(|transport| !matches!(transport, Transport::Udp | Transport::Rake));
        if let Some(unfit) = unfit {
            return Err(format!("a fast link has no transport `{unfit}`; choose udp or rake"));
        }
        if let Some(unfit) = self.mtus.iter().find(|mtu| !VALID_MTUS.contains(mtu)) {
            return Err(format!("an MTU of {unfit} bytes; choose {} to {}", VALID_MTUS.start(), VALID_MTUS.end()));
        }
        reject_if(!VALID_QUEUE_DELAYS.contains(&self.queue), || {
            format!("a queue of {}; choose {} to {}", self.queue, VALID_QUEUE_DELAYS.start(), VALID_QUEUE_DELAYS.end())
        })
    }
}

fn parse_load(text: &str) -> Result<f64, String> {
    let load = kumade_units::parse::ratio(text).map_err(|error| error.to_string())?;
    reject_if(load >= 1.0, || format!("cross traffic of {text} leaves nothing of the bottleneck; choose less"))?;
    Ok(load)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::scenario::{Experiment, load};

    const TEXT: &str = include_str!("../../scenarios/fast-links.toml");

    fn refused(text: &str, overrides: &Overrides) -> String {
        Experiment::from_toml(text, "own.toml", &|_| unreachable!("it names none"), overrides).unwrap_err().to_string()
    }

    #[test]
    fn every_rate_mtu_load_and_transport_is_measured() {
        let experiment = load("fast-links", &Overrides::default()).unwrap().into_fast_links().unwrap();
        let points: usize = experiment.paths().into_iter().map(|path| experiment.points_on(path).len()).sum();
        assert_eq!((points, experiment.measurement_count()), (4 * 2 * 2 * 2 * 3, 96));
        let crosses: Vec<_> = experiment.points_on(experiment.paths()[1]).iter().map(|point| point.cross).collect();
        assert_eq!((crosses[0], crosses[11]), (Rate::ZERO, Rate::from_mbit(600)));
    }

    #[test]
    fn rate_transports_and_runs_can_be_replaced() {
        let overrides = Overrides {
            rate: Some(Rate::from_mbit(2500)),
            transports: vec![Transport::Udp],
            runs: Some(1),
            bottleneck: Some(BottleneckKind::Htb),
            ..Overrides::default()
        };
        let experiment = load("fast-links", &overrides).unwrap().into_fast_links().unwrap();
        assert_eq!((experiment.measurement_count(), &experiment.rates[..]), (4, &[Rate::from_mbit(2500)][..]));
        assert_eq!(experiment.bottleneck, BottleneckKind::Htb);
    }

    #[test]
    fn what_cannot_be_run_is_refused_with_the_reason() {
        let nothing = Overrides::default();
        for (from, to, part) in [
            ("\"30%\"", "\"100%\"", "leaves nothing"),
            ("9000", "9001", "an MTU of 9001 bytes; choose 1280 to 9000"),
            ("\"10ms\"", "\"1s\"", "a queue of 1 s; choose 1 ms to 100 ms"),
            ("\"10gbit\"", "\"11gbit\"", "choose 100 kbit/s to 10 Gbit/s"),
            ("\"rake\"", "\"single\"", "no transport `single`"),
            ("runs = 3", "runs = 0", "nothing to do"),
        ] {
            let error = refused(&TEXT.replace(from, to), &nothing);
            assert!(error.contains(part), "{error}");
        }
        let in_virtual_time = Overrides { bottleneck: Some(BottleneckKind::Virtual), ..Overrides::default() };
        assert!(refused(TEXT, &in_virtual_time).contains("--kind fast-link"));
        let crossed = Overrides { cross: vec![Rate::ZERO], ..Overrides::default() };
        assert!(refused(TEXT, &crossed).contains("--cross does not apply to experiments on fast links"));
    }
}
