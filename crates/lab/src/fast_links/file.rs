use crate::accuracy::{BottleneckKind, Transport};
use crate::fast_links::FastLinksExperiment;
use crate::study::checks::{check_name, check_rate, check_runs, reject_if};
use crate::study::{FindFile, Head, Overrides, Scenario, replace_list};
use kumade_units::Span;
use std::ops::RangeInclusive;

/// Of IPv6's minimum MTU, and jumbo frames.
const VALID_MTUS: RangeInclusive<u16> = 1280..=9000;
const VALID_QUEUE_DELAYS: RangeInclusive<Span> = Span::from_millis(1)..=Span::from_millis(100);

impl Scenario for FastLinksExperiment {
    const KIND: &'static str = "fast-links";
    const ABOUT: &'static str = "experiments on fast links";
    const OPTIONS: &'static [&'static str] = &["--transport", "--rate", "--runs"];
    type File = Self;

    fn from_file(mut file: Self, given: &Overrides, _: FindFile<'_>) -> Result<Self, String> {
        file.bottleneck = given.bottleneck.unwrap_or(file.bottleneck);
        file.runs = given.runs.unwrap_or(file.runs);
        replace_list(&mut file.transports, &given.transports);
        replace_list(&mut file.rates, given.rate.as_slice());
        file.check().map(|()| file)
    }

    fn head(&self) -> Head<'_> {
        Head { name: &self.name, title: &self.title, paper: None, is_virtual: false }
    }
}

impl FastLinksExperiment {
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
        if let Some(load) = self.loads.iter().find(|load| **load >= 1.0) {
            let percent = load * 100.0;
            return Err(format!("cross traffic of {percent} % leaves nothing of the bottleneck; choose less"));
        }
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

#[cfg(test)]
mod tests {
    use super::*;
    use crate::scenario::load;
    use crate::study::Experiment;
    use crate::study::Study;
    use kumade_units::Rate;

    const TEXT: &str = include_str!("../../scenarios/fast-links.toml");

    fn refused(text: &str, overrides: &Overrides) -> String {
        Experiment::from_toml(text, "own.toml", &|_| unreachable!("it names none"), overrides).unwrap_err().to_string()
    }

    #[test]
    fn every_rate_mtu_load_and_transport_is_measured() {
        let experiment =
            load("fast-links", &Overrides::default()).unwrap().into_scenario::<FastLinksExperiment>().unwrap();
        let points: usize = experiment.paths().into_iter().map(|path| experiment.points_on(path).len()).sum();
        assert_eq!((points, experiment.points().len()), (4 * 2 * 2 * 2 * 3, 96));
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
        let experiment = load("fast-links", &overrides).unwrap().into_scenario::<FastLinksExperiment>().unwrap();
        assert_eq!((experiment.points().len(), &experiment.rates[..]), (4, &[Rate::from_mbit(2500)][..]));
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
