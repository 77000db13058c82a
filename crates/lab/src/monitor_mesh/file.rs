use crate::accuracy::BottleneckKind;
use crate::monitor_mesh::MonitorMeshExperiment;
use crate::study::checks::{check_delay, check_name, check_rate, reject_if};
use crate::study::{FindFile, Head, Overrides, Scenario};
use kumade_netns_testbed::NetworkSpec;
use kumade_units::Span;
use std::collections::BTreeSet;
use std::ops::RangeInclusive;

/// Each is a host with a program that measures; a single thread moves the packets of all.
const MAX_SITES: usize = 16;
const VALID_INTERVALS: RangeInclusive<Span> = Span::from_millis(100)..=Span::from_secs(60);
const VALID_PERIODS: RangeInclusive<Span> = Span::from_secs(60)..=Span::from_secs(86_400);
const VALID_DURATIONS: RangeInclusive<Span> = Span::from_secs(1)..=Span::from_secs(86_400);

impl Scenario for MonitorMeshExperiment {
    const KIND: &'static str = "monitor-mesh";
    const ABOUT: &'static str = "a monitored mesh";
    const OPTIONS: &'static [&'static str] = &["--duration"];
    type File = Self;

    fn from_file(mut file: Self, given: &Overrides, _: FindFile<'_>) -> Result<Self, String> {
        file.duration = given.duration.unwrap_or(file.duration);
        check(&file, given.bottleneck).map(|()| file)
    }

    fn head(&self) -> Head<'_> {
        Head { name: &self.name, title: &self.title, paper: None, is_virtual: false }
    }
}

fn check(experiment: &MonitorMeshExperiment, bottleneck: Option<BottleneckKind>) -> Result<(), String> {
    check_name(&experiment.name)?;
    reject_if(bottleneck.is_some_and(|kind| kind != BottleneckKind::Emulated), || {
        "a monitored mesh has emulated links in real time".into()
    })?;
    let sites = &experiment.sites;
    reject_if(!(2..=MAX_SITES).contains(&sites.len()), || {
        format!("a mesh of {} sites; choose 2 to {MAX_SITES}", sites.len())
    })?;
    let names: BTreeSet<_> =
        sites.iter().map(|site| site.name.to_lowercase()).chain(["coordinator".to_owned()]).collect();
    reject_if(names.len() <= sites.len(), || {
        "two sites have the same name, or one is called coordinator; give each its own".into()
    })?;
    for site in sites {
        check_name(&site.name).map_err(|reason| format!("the site {:?}: {reason}", site.name))?;
        check_rate(&format!("a link of {}", site.name), site.rate)?;
        check_delay(&format!("the delay of {}", site.name), site.delay)?;
        reject_if(site.delay < NetworkSpec::MIN_DELAY, || {
            format!("a delay of {} at {}; choose at least {}", site.delay, site.name, NetworkSpec::MIN_DELAY)
        })?;
        reject_if(!(0.0..=0.5).contains(&site.loss), || "choose a loss of 0 to 50 %".into())?;
        reject_if(site.cross >= site.rate, || {
            format!("cross traffic of {} leaves nothing of the link of {}; choose less", site.cross, site.name)
        })?;
    }
    for (what, value, valid) in [
        ("an interval", experiment.interval, VALID_INTERVALS),
        ("a period", experiment.period, VALID_PERIODS),
        ("a duration", experiment.duration, VALID_DURATIONS),
    ] {
        reject_if(!valid.contains(&value), || {
            format!("{what} of {value}; choose {} to {}", valid.start(), valid.end())
        })?;
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::scenario::load;
    use crate::study::Experiment;

    const TEXT: &str = include_str!("../../scenarios/monitor-mesh.toml");

    #[test]
    fn each_site_is_measured_to_each_other_for_as_long_as_is_said() {
        let overrides = Overrides { duration: Some(Span::from_secs(90)), ..Overrides::default() };
        let experiment = load("monitor-mesh", &overrides).unwrap().into_scenario::<MonitorMeshExperiment>().unwrap();
        assert_eq!((experiment.direction_count(), experiment.duration), (12, Span::from_secs(90)));
    }

    #[test]
    fn what_cannot_be_run_is_refused_with_the_reason() {
        let refused = |text: &str, overrides: &Overrides| {
            let no_table = |_: &str| unreachable!("it names none");
            Experiment::from_toml(text, "own.toml", &no_table, overrides).unwrap_err().to_string()
        };
        for (from, to, part) in [
            ("\"Paris\"", "\"Berlin\"", "two sites have the same name"),
            ("\"Paris\"", "\"coordinator\"", "one is called coordinator"),
            ("\"Paris\"", "\"a/b\"", "only have letters"),
            (
                "\"20mbit\"\n\n[[sites]]\nname = \"Madrid\"",
                "\"60mbit\"\n\n[[sites]]\nname = \"Madrid\"",
                "leaves nothing",
            ),
            ("\"2min\"", "\"1s\"", "a period of 1 s; choose 60 s to 86400 s"),
            ("\"1%\"", "\"60%\"", "a loss of 0 to 50 %"),
            ("\"15ms\"", "\"10us\"", "choose at least 200 µs"),
        ] {
            let error = refused(&TEXT.replace(from, to), &Overrides::default());
            assert!(error.contains(part), "{error}");
        }
        let one = TEXT.split("[[sites]]").take(2).collect::<Vec<_>>().join("[[sites]]");
        assert!(refused(&one, &Overrides::default()).contains("choose 2 to 16"));
        let runs = Overrides { runs: Some(2), ..Overrides::default() };
        assert!(refused(TEXT, &runs).contains("--runs does not apply"));
        let virtual_time = Overrides { bottleneck: Some(BottleneckKind::Virtual), ..Overrides::default() };
        assert!(refused(TEXT, &virtual_time).contains("emulated links in real time"));
    }
}
