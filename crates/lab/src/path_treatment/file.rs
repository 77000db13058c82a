use super::scenario::{IpVersion, PathTreatmentExperiment, TreatmentCase};
use crate::accuracy::BottleneckKind;
use crate::study::checks::{check_delay, check_name, check_rate, check_runs, reject_if};
use crate::study::{FindFile, Head, Overrides, Scenario, choose_cases};

/// More than this and there is no path.
const MAX_LOSS: f64 = 0.5;

impl Scenario for PathTreatmentExperiment {
    const KIND: &'static str = "path-treatment";
    const ABOUT: &'static str = "experiments on what paths do to packets";
    const OPTIONS: &'static [&'static str] = &["--row", "--runs"];
    type File = Self;

    fn from_file(mut file: Self, given: &Overrides, _: FindFile<'_>) -> Result<Self, String> {
        file.bottleneck = given.bottleneck.unwrap_or(file.bottleneck);
        file.runs = given.runs.unwrap_or(file.runs);
        choose_cases(&mut file.cases, &given.rows)?;
        file.check().map(|()| file)
    }

    fn head(&self) -> Head<'_> {
        Head { name: &self.name, title: &self.title, paper: None, is_virtual: false }
    }
}

impl PathTreatmentExperiment {
    fn check(&self) -> Result<(), String> {
        check_name(&self.name)?;
        check_runs(self.runs)?;
        check_rate("a link", self.link.rate)?;
        check_delay("a link's delay", self.link.delay)?;
        reject_if(self.bottleneck == BottleneckKind::Virtual, || {
            "what is done to real packets has no form in virtual time; leave --virtual out".into()
        })?;
        reject_if(self.runs == 0 || self.cases.is_empty(), || {
            "with no runs or no cases there is nothing to do; ask for at least one".into()
        })?;
        let check = |case: &TreatmentCase| case.check().map_err(|reason| format!("{}: {reason}", case.label));
        self.cases.iter().try_for_each(check)
    }
}

impl TreatmentCase {
    fn check(&self) -> Result<(), String> {
        reject_if(!(0.0..=MAX_LOSS).contains(&self.loss), || {
            format!("a loss of {} %; choose 0 to {} %", self.loss * 100.0, MAX_LOSS * 100.0)
        })?;
        reject_if(self.nat.is_some() && self.version == IpVersion::Ipv6, || {
            "addresses of IPv6 are not translated; leave `nat` out, or take ipv4".into()
        })?;
        self.middlebox().map(drop)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::scenario::load;
    use crate::study::{Experiment, Study};
    use std::collections::BTreeSet;

    const TEXT: &str = include_str!("../../scenarios/path-treatment.toml");

    fn read(text: &str) -> Result<Experiment, String> {
        Experiment::from_toml(text, "own.toml", &|_| unreachable!("it names none"), &Overrides::default())
            .map_err(|error| error.to_string())
    }

    fn built_in() -> PathTreatmentExperiment {
        load("path-treatment", &Overrides::default()).unwrap().into_scenario().unwrap()
    }

    #[test]
    fn each_way_both_versions_and_losses_are_among_the_cases() {
        let experiment = built_in();
        assert!((40..=70).contains(&experiment.points().len()), "{}", experiment.points().len());
        let names: BTreeSet<_> = experiment.cases.iter().map(|case| (&case.label, case.version.word())).collect();
        assert_eq!(names.len(), experiment.cases.len(), "each has a name of its own");
        for version in [IpVersion::Ipv4, IpVersion::Ipv6] {
            for lossy in [false, true] {
                let fits = |case: &&TreatmentCase| case.version == version && (case.loss > 0.0) == lossy;
                let treated = |case: &TreatmentCase| !case.treatments.is_empty();
                let cases: Vec<_> = experiment.cases.iter().filter(fits).collect();
                assert!(cases.iter().any(|case| treated(case)) && cases.iter().any(|case| !treated(case)));
            }
        }
    }

    #[test]
    fn what_cannot_be_run_is_refused_with_the_reason() {
        for (from, to, part) in [
            ("loss = \"3%\"", "loss = \"60%\"", "a loss of 60 %; choose 0 to 50 %"),
            ("mask-dscp = 56", "mask-dscp = 64", "six bits"),
            ("runs = 1", "runs = 0", "nothing to do"),
            ("of_packets = \"50%\"", "of_flows = \"5%\", of_packets = \"50%\"", "leave one out"),
            ("rate = \"50mbit\"", "rate = \"50bit\"", "choose 100 kbit/s to 10 Gbit/s"),
            ("version = \"ipv4\"\nnat", "version = \"ipv6\"\nnat", "leave `nat` out"),
        ] {
            assert!(TEXT.contains(from), "{from}");
            let error = read(&TEXT.replace(from, to)).unwrap_err();
            assert!(error.contains(part), "{error}");
        }
        let in_virtual_time = Overrides { bottleneck: Some(BottleneckKind::Virtual), ..Overrides::default() };
        assert!(load("path-treatment", &in_virtual_time).unwrap_err().to_string().contains("leave --virtual out"));
    }

    #[test]
    fn a_misspelt_word_is_refused_with_the_nearest() {
        for (from, to, nearest) in [
            ("clear-ecn-flags", "clear-enc-flags", "clear-ecn-flags"),
            ("remove-options = \"sack", "remove-option = \"sack", "remove-options"),
            ("ecn = \"ect1\"", "ecn = \"ect-1\"", "ect1"),
            ("direction = ", "directions = ", "direction"),
            ("loss = \"3%\"", "losses = \"3%\"", "loss"),
        ] {
            let error = read(&TEXT.replace(from, to)).unwrap_err();
            assert!(error.contains(&format!("perhaps you mean `{nearest}`")), "{error}");
        }
        let error = read(&TEXT.replace("dscp = \"ef\"", "dscp = \"fast\"")).unwrap_err();
        assert!(error.contains("a DSCP is a number from 0 to 63"), "{error}");
    }
}
