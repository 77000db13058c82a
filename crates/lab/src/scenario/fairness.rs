use super::accuracy::{replace, wrong_name};
use super::{MAX_DELAY, MAX_RATE, MAX_RUNS, MIN_RATE, Overrides, ScenarioError, mixes};
use crate::fairness::{AccessHop, Fairness, Group, SharedLink};

use crate::fairness::{DisciplineChoice, Surroundings};
use link::queue::{Queue, QueueConfig};
use units::Span;

/// What keeps an experiment's memory and time within what a machine has.
const MAX_CONNECTIONS: u32 = 1000;
const MAX_DURATION: Span = Span::from_secs(3600);
const MAX_CASES: usize = 1000;
const SEGMENT_BYTES: std::ops::RangeInclusive<u32> = 100..=9000;

impl Fairness {
    /// Reads a scenario from TOML; `origin` names the text in an error, and `table` finds the text of the table of mixes
    /// that it may name.
    ///
    /// # Errors
    /// Names the line, or what in the scenario contradicts itself.
    pub fn from_toml(
        text: &str,
        origin: &str,
        table: &dyn Fn(&str) -> Result<String, ScenarioError>,
    ) -> Result<Self, ScenarioError> {
        let mut scenario: Fairness = toml::from_str(text)
            .map_err(|cause| ScenarioError::Malformed { origin: origin.to_owned(), cause: Box::new(cause) })?;
        if let Some(file) = &scenario.mixes_file {
            scenario.mixes = mixes::read(&table(file)?).map_err(|why| scenario.senseless(format!("{file}: {why}")))?;
        }
        scenario.check()?;
        Ok(scenario)
    }

    /// This scenario with parts replaced.
    ///
    /// # Errors
    /// Names the option that has no meaning here, or what in the result contradicts itself.
    pub fn overridden(mut self, with: &Overrides) -> Result<Self, ScenarioError> {
        if let Some(option) = with.of_measurements() {
            let what = "it is about groups of TCP connections, without estimates and cross traffic";
            return Err(self.senseless(format!("{option} means nothing to it: {what}")));
        }
        match with.bottleneck {
            Some(crate::BottleneckKind::Htb) => {
                return Err(
                    self.senseless("before the kernel's HTB no discipline can be compared; leave it out".into())
                );
            }
            kind => self.virtual_time |= kind == Some(crate::BottleneckKind::Virtual),
        }
        match (&mut self.bottleneck, with.rate) {
            (_, None) => {}
            (Some(bottleneck), Some(rate)) => bottleneck.rate = rate,
            (None, Some(_)) => return Err(self.senseless("its table says the rates; leave --rate out".into())),
        }
        if self.mixes_file.is_some() && !with.delays.is_empty() {
            return Err(self.senseless("its table says the delays; leave --delay out".into()));
        }
        self.runs = with.runs.unwrap_or(self.runs);
        self.duration = with.duration.unwrap_or(self.duration);
        self.warm_up = with.warm_up.unwrap_or(self.warm_up);
        replace(&mut self.disciplines, &with.disciplines);
        replace(&mut self.delays, &with.delays);
        self.keep_rows(&with.rows)?;
        self.check()?;
        Ok(self)
    }

    /// Keeps only these rows of the table.
    fn keep_rows(&mut self, rows: &[u32]) -> Result<(), ScenarioError> {
        let labels: Vec<_> = rows.iter().map(|row| format!("row {row}")).collect();
        if let Some(missing) = labels.iter().find(|label| self.mixes.iter().all(|case| case.label != **label)) {
            return Err(self.senseless(format!("it has no {missing}")));
        }
        if !labels.is_empty() {
            self.mixes.retain(|case| labels.contains(&case.label));
        }
        Ok(())
    }

    fn senseless(&self, reason: String) -> ScenarioError {
        ScenarioError::Senseless { name: self.name.clone(), reason }
    }

    fn check(&self) -> Result<(), ScenarioError> {
        let wrong = wrong_name(&self.name)
            .or_else(|| self.wrong_extent())
            .or_else(|| self.wrong_path())
            .or_else(|| self.groups().find_map(wrong_group))
            .or_else(|| self.wrong_connections())
            .or_else(|| self.wrong_disciplines())
            .or_else(|| if self.virtual_time { None } else { self.beyond_the_kernel() });
        wrong.map_or(Ok(()), |reason| Err(self.senseless(reason)))
    }

    fn groups(&self) -> impl Iterator<Item = &Group> {
        self.groups.iter().chain(self.mixes.iter().flat_map(|case| &case.groups))
    }

    fn wrong_extent(&self) -> Option<String> {
        if self.runs == 0 || self.disciplines.is_empty() {
            return Some("with no runs or no disciplines there is nothing to do; ask for at least one".into());
        }
        if self.runs > MAX_RUNS {
            return Some(format!("{} runs of each point; {MAX_RUNS} are the most", self.runs));
        }
        if self.duration < Span::from_millis(100) || self.warm_up < Span::ZERO {
            return Some(format!("a duration of {} after {}; measure at least 100 ms", self.duration, self.warm_up));
        }
        if self.duration + self.warm_up > MAX_DURATION {
            return Some(format!("{} each; {MAX_DURATION} are the most", self.duration + self.warm_up));
        }
        if !SEGMENT_BYTES.contains(&self.segment_bytes) || !(1..=100).contains(&self.segments_per_ack) {
            return Some("segments have 100 to 9000 bytes, and each 1 to 100 of them are acknowledged".into());
        }
        None
    }

    fn wrong_path(&self) -> Option<String> {
        match (&self.bottleneck, &self.mixes_file) {
            (Some(bottleneck), None) => self.wrong_bottleneck(bottleneck),
            (None, Some(_)) if !self.groups.is_empty() || !self.delays.is_empty() => {
                Some("its table of mixes says groups and delays; leave them out".into())
            }
            (None, Some(_)) if self.mixes.is_empty() || self.mixes.len() > MAX_CASES => {
                Some(format!("its table of mixes has {} rows; give 1 to {MAX_CASES}", self.mixes.len()))
            }
            (None, Some(_)) => self.mixes.iter().find_map(|case| {
                let wrong = !(MIN_RATE..=MAX_RATE).contains(&case.rate) || case.delay > MAX_DELAY;
                wrong.then(|| format!("{}: choose {MIN_RATE} to {MAX_RATE}, and at most {MAX_DELAY}", case.label))
            }),
            _ => Some("give either a bottleneck, with groups and delays, or a table of mixes".into()),
        }
    }

    fn wrong_bottleneck(&self, bottleneck: &SharedLink) -> Option<String> {
        if !(MIN_RATE..=MAX_RATE).contains(&bottleneck.rate) {
            return Some(format!("a bottleneck of {}; choose {MIN_RATE} to {MAX_RATE}", bottleneck.rate));
        }
        if self.groups.is_empty() || self.delays.is_empty() || self.delays.len() > MAX_CASES {
            return Some(format!("give at least one group, and 1 to {MAX_CASES} delays"));
        }
        let most = self.delays.iter().fold(bottleneck.delay, |most, delay| most.max(*delay));
        let negative = self.delays.iter().any(|delay| *delay < Span::ZERO) || bottleneck.delay < Span::ZERO;
        if negative || most > MAX_DELAY {
            return Some(format!("a delay of {most}; choose 0 to {MAX_DELAY}"));
        }
        None
    }

    fn wrong_connections(&self) -> Option<String> {
        let total = |groups: &[Group]| groups.iter().map(|g| u64::from(g.connections)).sum::<u64>();
        let most = self.cases().iter().map(|case| total(&case.groups)).max().unwrap_or(0);
        (most > MAX_CONNECTIONS.into()).then(|| format!("{most} connections at once; {MAX_CONNECTIONS} are the most"))
    }

    fn wrong_disciplines(&self) -> Option<String> {
        for (index, discipline) in self.disciplines.iter().enumerate() {
            if self.disciplines[..index].contains(discipline) {
                return Some(format!("{discipline} is named twice"));
            }
            for case in self.cases() {
                let around = Surroundings { rate: case.rate, heavy: &[] };
                let config = QueueConfig { limit: case.limit, discipline: discipline.build(around) };
                if let Err(why) = Queue::<()>::new(&config, 1) {
                    return Some(format!("{discipline} at {}: {why}", case.label));
                }
            }
        }
        None
    }

    fn beyond_the_kernel(&self) -> Option<String> {
        let try_virtual = "run it with --virtual";
        if self.mixes_file.is_some() {
            return Some(format!(
                "its table has paths of different delays, which only a virtual network has; {try_virtual}"
            ));
        }
        // Who is heavy is not known in real time before the connections are open.
        if self.disciplines.iter().any(|discipline| discipline.name() == DisciplineChoice::STATIC) {
            return Some(format!("{} must know the heavy flows beforehand; {try_virtual}", DisciplineChoice::STATIC));
        }
        let own_delay = self.groups.iter().any(|group| group.delay > Span::ZERO || group.source_rate.is_some());
        own_delay
            .then(|| format!("in real time, a group's own delay or rate must be a hop; make it one, or {try_virtual}"))
    }
}

fn wrong_group(group: &Group) -> Option<String> {
    if group.connections == 0 {
        return Some(format!("a group of no {} connections; leave it out", group.control));
    }
    if group.source_rate.is_some_and(|rate| !(MIN_RATE..=MAX_RATE).contains(&rate)) {
        return Some(format!("senders' links of {MIN_RATE} to {MAX_RATE} are possible"));
    }
    if !(Span::ZERO..=MAX_DELAY).contains(&group.delay) {
        return Some(format!("a group's delay of {}; choose 0 to {MAX_DELAY}", group.delay));
    }
    group.hops.iter().find_map(wrong_hop)
}

fn wrong_hop(hop: &AccessHop) -> Option<String> {
    if hop.rate.is_some() == hop.wireless {
        return Some("a hop has either a rate or is wireless".into());
    }
    if hop.rate.is_some_and(|rate| !(MIN_RATE..=MAX_RATE).contains(&rate)) {
        return Some(format!("hops of {MIN_RATE} to {MAX_RATE} are possible"));
    }
    if !(Span::ZERO..=MAX_DELAY).contains(&hop.delay) {
        return Some(format!("a hop's delay of {}; choose 0 to {MAX_DELAY}", hop.delay));
    }
    if hop.queue < 1500 {
        return Some(format!("a hop whose queue of {} bytes holds no packet", hop.queue));
    }
    let full = hop.background.is_some_and(|others| hop.rate.is_none_or(|rate| others >= rate));
    full.then(|| "other users' packets leave nothing of a hop, or it is wireless; leave them out or choose less".into())
}

#[cfg(test)]
mod tests {
    use super::*;
    use link::queue::Limit;
    use sim::tcp::congestion::Control;
    use units::Rate;

    fn named(name: &str) -> Fairness {
        crate::load(name).unwrap().fairness().unwrap()
    }

    #[test]
    fn fair_wired_is_the_papers_set_up_and_goes_beyond() {
        // "10 接続の平均値", added delays of 1 to 64 ms (Fig. 2); here up to 128 ms.
        let scenario = named("fair-wired");
        let groups: Vec<_> = scenario.groups.iter().map(|g| (g.connections, g.control)).collect();
        assert_eq!(groups, [(10, Control::Cubic), (10, Control::Compound)]);
        assert_eq!(scenario.delays.len(), 8);
        assert!(scenario.runs >= 5);
        let cases = scenario.cases();
        assert_eq!(scenario.points(&cases).len(), 8 * 4 * scenario.runs as usize);
        assert_eq!((&*cases[6].label, cases[6].delay), ("64 ms", Span::from_micros(32_200)));
    }

    #[test]
    fn the_queue_follows_the_round_trip_but_not_below_100_packets() {
        let limits: Vec<_> = named("fair-wired").cases().iter().map(|case| case.limit).collect();
        assert_eq!(limits[0], Limit::Bytes(150_000));
        assert_eq!(limits[7], Limit::Bytes(Rate::from_mbit(100).bytes_in(Span::from_micros(128_400))));
    }

    #[test]
    fn what_cannot_be_run_is_refused_with_the_reason() {
        let refused = |name: &str, with: Overrides, part: &str| {
            let error = named(name).overridden(&with).unwrap_err().to_string();
            assert!(error.contains(part), "{error}");
        };
        let usual = Overrides::default;
        refused("fair-wired", Overrides { runs: Some(0), ..usual() }, "no runs");
        refused("fair-wired", Overrides { duration: Some(Span::ZERO), ..usual() }, "at least 100 ms");
        refused("fair-wired", Overrides { delays: vec![Span::from_secs(3)], ..usual() }, "choose 0 to 2 s");
        refused("fair-wired", Overrides { rows: vec![0], ..usual() }, "has no row 0");
        refused("fair-mix", Overrides { rows: vec![16], ..usual() }, "has no row 16");
        refused("fair-mix", Overrides { delays: vec![Span::ZERO], ..usual() }, "table says the delays");
        let twice = vec!["codel".parse().unwrap(); 2];
        refused("fair-wired", Overrides { disciplines: twice, ..usual() }, "named twice");
        let nonsense = vec!["fair-codel:hist-len=0".parse().unwrap()];
        refused("fair-wired", Overrides { disciplines: nonsense, ..usual() }, "fair-codel:hist-len=0 at 1 ms");
    }

    #[test]
    fn mixes_need_a_virtual_network() {
        let scenario = Fairness { virtual_time: false, ..named("fair-mix") };
        let error = scenario.check().unwrap_err().to_string();
        assert!(error.contains("run it with --virtual"), "{error}");
    }

    #[test]
    fn some_rows_of_a_table_will_do() {
        let scenario = named("fair-mix").overridden(&Overrides { rows: vec![12, 3], ..Overrides::default() }).unwrap();
        let labels: Vec<_> = scenario.cases().into_iter().map(|case| case.label).collect();
        assert_eq!(labels, ["row 3", "row 12"]);
    }
}
