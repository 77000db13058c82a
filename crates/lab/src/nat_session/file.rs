use crate::accuracy::BottleneckKind;
use crate::multipath::check_path;
use crate::nat_session::{NatCase, NatSessionExperiment};
use crate::study::checks::{check_delay, check_name, check_runs, reject_if};
use crate::study::{FindFile, Head, Overrides, Scenario, choose_cases};
use kumade_units::Span;
use std::ops::RangeInclusive;

const VALID_PATH_COUNTS: RangeInclusive<usize> = 2..=8;
/// Their addresses follow each other.
const VALID_HOST_COUNTS: RangeInclusive<usize> = 1..=100;
const MAX_FLOWS: usize = 1000;
/// The shortest that gateways accept, and so long that a run ends on the same day.
const VALID_IDLE_TIMES: RangeInclusive<Span> = Span::from_secs(3)..=Span::from_secs(600);
const VALID_INTERVALS: RangeInclusive<Span> = Span::from_millis(1)..=Span::from_secs(1);
const MAX_PACKETS_PER_SECOND: f64 = 20_000.0;
const MAX_ACTIVITY: Span = Span::from_secs(3600);

impl Scenario for NatSessionExperiment {
    const KIND: &'static str = "nat-session";
    const ABOUT: &'static str = "experiments on NAT sessions";
    const OPTIONS: &'static [&'static str] = &["--idle", "--row", "--runs"];
    type File = Self;

    fn from_file(mut file: Self, given: &Overrides, _: FindFile<'_>) -> Result<Self, String> {
        reject_if(given.bottleneck == Some(BottleneckKind::Htb), || {
            "several paths cannot be the kernel's HTB; leave --bottleneck out".into()
        })?;
        file.virtual_time |= given.bottleneck == Some(BottleneckKind::Virtual);
        file.runs = given.runs.unwrap_or(file.runs);
        file.idle = given.idle.unwrap_or(file.idle);
        choose_cases(&mut file.cases, &given.rows)?;
        file.check().map(|()| file)
    }

    fn head(&self) -> Head<'_> {
        Head { name: &self.name, title: &self.title, paper: self.paper.as_ref(), is_virtual: self.virtual_time }
    }
}

impl NatSessionExperiment {
    fn check(&self) -> Result<(), String> {
        check_name(&self.name)?;
        check_runs(self.runs)?;
        reject_if(self.runs == 0 || self.cases.is_empty(), || {
            "with no runs or no cases there is nothing to do; ask for at least one".into()
        })?;
        let paths = self.paths.len();
        reject_if(!VALID_PATH_COUNTS.contains(&paths), || {
            format!("{paths} paths; choose {} to {}", VALID_PATH_COUNTS.start(), VALID_PATH_COUNTS.end())
        })?;
        self.paths.iter().try_for_each(check_path)?;
        reject_if(!VALID_IDLE_TIMES.contains(&self.idle), || {
            format!("an idle time of {}; choose {} to {}", self.idle, VALID_IDLE_TIMES.start(), VALID_IDLE_TIMES.end())
        })?;
        reject_if(!VALID_INTERVALS.contains(&self.interval), || {
            format!("packets every {}; choose {} to {}", self.interval, VALID_INTERVALS.start(), VALID_INTERVALS.end())
        })?;
        self.cases
            .iter()
            .try_for_each(|case| self.check_case(case).map_err(|reason| format!("{}: {reason}", case.label)))
    }

    fn check_case(&self, case: &NatCase) -> Result<(), String> {
        let NatCase { hosts, flows, activity, message_loss: lost, restart, .. } = case;
        reject_if(!VALID_HOST_COUNTS.contains(hosts), || {
            format!("{hosts} hosts; choose {} to {}", VALID_HOST_COUNTS.start(), VALID_HOST_COUNTS.end())
        })?;
        let all = hosts.saturating_mul(*flows);
        reject_if(!(1..=MAX_FLOWS).contains(&all), || format!("{all} flows; choose 1 to {MAX_FLOWS}"))?;
        let rate = all as f64 / self.interval.as_secs_f64();
        reject_if(rate > MAX_PACKETS_PER_SECOND, || {
            format!("{rate:.0} packets per second; the maximum is {MAX_PACKETS_PER_SECOND}")
        })?;
        let total = activity.iter().fold(Span::ZERO, |sum, span| sum + (*span).min(MAX_ACTIVITY));
        reject_if(
            activity.is_empty() || activity.iter().any(|span| *span < self.interval) || total > MAX_ACTIVITY,
            || {
                format!(
                    "choose an activity of one or more times of at least {}, {MAX_ACTIVITY} together",
                    self.interval
                )
            },
        )?;
        if let Some(lost) = lost {
            check_time("a loss of messages", lost.after, total + self.idle)?;
            check_time("a loss of messages", lost.duration, total + self.idle)?;
        }
        if let Some(restart) = restart {
            check_time("a restart", restart.after, total)?;
            check_delay("the time until a restart", restart.down)?;
        }
        Ok(())
    }
}

fn check_time(of: &str, time: Span, max: Span) -> Result<(), String> {
    reject_if(!(Span::ZERO..=max).contains(&time), || format!("{of}: {time}; choose 0 to {max}"))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::error::ScenarioError;
    use crate::nat_session::SessionGateway;
    use crate::scenario::load;
    use crate::study::Experiment;

    fn overridden(with: Overrides) -> Result<NatSessionExperiment, ScenarioError> {
        load("nat-session", &with).map(|experiment| experiment.into_scenario::<NatSessionExperiment>().unwrap())
    }

    #[test]
    fn the_papers_case_is_there_with_losses_and_restarts_of_either_gateway() {
        let experiment = overridden(Overrides::default()).unwrap();
        assert!(experiment.cases.iter().any(|case| case.flow_count() == 1 && case.activity.len() == 1));
        assert!(experiment.cases.iter().any(|case| case.hosts > 1 && case.flows > 1));
        for gateway in [SessionGateway::Sending, SessionGateway::Receiving] {
            assert!(experiment.cases.iter().any(|case| case.restart.is_some_and(|restart| restart.gateway == gateway)));
            assert!(experiment.cases.iter().any(|case| case.message_loss.is_some_and(|lost| lost.from == gateway)));
        }
    }

    #[test]
    fn what_cannot_be_run_is_refused_with_the_reason() {
        let refused = |with: Overrides, part: &str| {
            let error = overridden(with).unwrap_err().to_string();
            assert!(error.contains(part), "{error}");
        };
        let usual = Overrides::default;
        refused(Overrides { runs: Some(0), ..usual() }, "no runs");
        refused(Overrides { rows: vec![99], ..usual() }, "it has no case 99");
        refused(Overrides { idle: Some(Span::from_secs(1)), ..usual() }, "an idle time of 1 s; choose 3 s to");
        refused(Overrides { warm_up: Some(Span::ZERO), ..usual() }, "--warm-up does not apply");
        refused(Overrides { delays: vec![Span::ZERO], ..usual() }, "--delay does not apply");
        refused(Overrides { bottleneck: Some(BottleneckKind::Htb), ..usual() }, "cannot be the kernel's HTB");
        let other = load("multipath-tcp", &Overrides { idle: Some(Span::from_secs(5)), ..usual() }).unwrap_err();
        assert!(other.to_string().contains("--idle does not apply"), "{other}");
    }

    #[test]
    fn cases_that_contradict_themselves_are_refused_by_their_name() {
        let text = include_str!("../../scenarios/nat-session.toml");
        let head = text.split("[[cases]]").next().unwrap();
        for (case, part) in [
            ("hosts = 0\nactivity = [\"1s\"]", "one: 0 hosts"),
            ("flows = 2000\nactivity = [\"1s\"]", "one: 2000 flows"),
            ("flows = 500\nactivity = [\"1s\"]", "one: 25000 packets per second"),
            ("activity = []", "one or more times"),
            ("activity = [\"1ms\"]", "at least 20 ms"),
            (
                "activity = [\"1s\"]\nrestart = { gateway = \"sending\", after = \"2s\", down = \"1s\" }",
                "one: a restart: 2 s",
            ),
            ("activity = [\"1s\"]\nlost = { from = \"left\", after = \"2s\", for = \"1s\" }", "unknown variant `left`"),
        ] {
            let text = format!("{head}\n[[cases]]\nlabel = \"one\"\n{case}\n");
            let no_table = |_: &str| unreachable!("it names none");
            let error = Experiment::from_toml(&text, "a test", &no_table, &Overrides::default()).unwrap_err();
            assert!(error.to_string().contains(part), "{error}");
        }
    }
}
