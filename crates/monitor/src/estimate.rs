//! What a configuration costs, before it runs.

use crate::config::MonitorConfig;
use crate::mesh::plan::{mesh_plan, resource_name};
use crate::schedule::plan;
use kumade_archive::{Forecast, HostId};
use kumade_planner::{DurationHistory, MAX_LOAD_RATIO, Plan, ResourceLoad, ScheduleLoad};
use kumade_units::Span;
use thiserror::Error;

/// What a monitor takes of its host and of the disk.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct CostEstimate {
    /// The part of this host's time that measurements take.
    pub load_ratio: f64,
    /// The factor by which all periods could be shorter; below one they have to be longer.
    pub shortest_period_factor: f64,
    /// Light probes to all targets, a second.
    pub probes_per_second: f64,
    /// Of the archive after a year.
    pub bytes_after_one_year: u64,
    /// After three years.
    pub bytes_after_three_years: u64,
    /// Beside it from the start, for when the disk is full: where nothing else is left, the archive could not even delete.
    pub reserved_bytes: u64,
}

/// Measurements do not fit into their periods.
#[derive(Debug, Clone, PartialEq, Error)]
#[error(
    "measurements would take {:.0} % of the time of {of}, and more than {:.0} % cannot be kept: make all periods (`measure`) {:.1} \
     times as long, measure fewer targets, or have it done with stretch = true in [monitor]", load_ratio * 100.0, MAX_LOAD_RATIO * 100.0,
    load_ratio / MAX_LOAD_RATIO
)]
pub struct Overloaded {
    load_ratio: f64,
    of: String,
}

const YEAR: Span = Span::from_secs(365 * 86_400);

impl MonitorConfig {
    /// What it costs.
    pub fn estimate_cost(&self) -> CostEstimate {
        let load = schedule_load(&self.numbered_plan().1).max_load_ratio();
        let bytes_after = |time| {
            let forecast = self.targets.iter().map(|target| Forecast {
                pairs: 1,
                probes_per_second: 1.0 / target.light.interval.as_secs_f64(),
                runs_per_day: target.measurement.as_ref().map_or(0.0, |runs| 86_400.0 / runs.period.as_secs_f64()),
                retention: self.retention,
            });
            forecast.map(|forecast| forecast.bytes_after(time).total()).sum()
        };
        CostEstimate {
            load_ratio: load,
            shortest_period_factor: load / MAX_LOAD_RATIO,
            probes_per_second: self.targets.iter().map(|target| 1.0 / target.light.interval.as_secs_f64()).sum(),
            bytes_after_one_year: bytes_after(YEAR),
            bytes_after_three_years: bytes_after(YEAR * 3),
            reserved_bytes: self.reserved_bytes(),
        }
    }

    /// What is measured, by the numbers of the hosts: of the agents of a mesh, else of the targets.
    pub(crate) fn plan(&self, hosts: &[HostId]) -> Plan {
        match &self.mesh {
            Some(mesh) => mesh_plan(mesh, &self.targets, hosts),
            None => plan(hosts.iter().copied().zip(&self.targets)),
        }
    }

    /// The same with any numbers.
    fn numbered_plan(&self) -> (Vec<HostId>, Plan) {
        let count = self.mesh.as_ref().map_or(self.targets.len(), |mesh| mesh.agents.len());
        let hosts: Vec<_> = (1..).take(count).map(HostId).collect();
        let plan = self.plan(&hosts);
        (hosts, plan)
    }

    /// Whether all measurements fit into their periods.
    ///
    /// # Errors
    /// They do not, and the periods may not be stretched.
    pub fn check_load(&self) -> Result<(), Overloaded> {
        let load_ratio = self.estimate_cost().load_ratio;
        if load_ratio <= MAX_LOAD_RATIO || self.stretch {
            return Ok(());
        }
        let busiest = self.mesh_load().and_then(|load| load.resources.into_iter().next());
        // A group of hosts may be busier than each.
        let of = match busiest {
            Some((name, ratio)) if ratio >= load_ratio => format!("the {name}"),
            Some(_) => "several hosts that measure to each other".to_owned(),
            None => "this host".to_owned(),
        };
        Err(Overloaded { load_ratio, of })
    }

    /// How busy a mesh is; none where there is none.
    pub fn mesh_load(&self) -> Option<MeshLoad> {
        let mesh = self.mesh.as_ref()?;
        let (hosts, plan) = self.numbered_plan();
        let load = schedule_load(&plan);
        let named = |load: &ResourceLoad| (resource_name(mesh, &hosts, load.resource), load.load_ratio);
        Some(MeshLoad {
            resources: load.resources.iter().map(named).collect(),
            shortest_period: load.classes.first().and_then(|class| class.shortest_period),
        })
    }
}

/// How busy a mesh is.
#[derive(Debug, Clone, PartialEq)]
pub struct MeshLoad {
    /// Hosts, and links with their directions, each with the part of the time in which a measurement uses it; the busiest first.
    pub resources: Vec<(String, f64)>,
    /// The shortest period in which all pairs can be measured; none where none is.
    pub shortest_period: Option<Span>,
}

/// Of a plan whose measurements have not been made before.
pub(crate) fn schedule_load(plan: &Plan) -> ScheduleLoad {
    ScheduleLoad::from_plan(plan, |run| DurationHistory::default().slot(run.kind))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn config(targets: usize, period: &str, stretch: bool) -> MonitorConfig {
        let mut text = format!("[monitor]\nstretch = {stretch}\n");
        for number in 0..targets {
            text += &format!("[[target]]\nhost = \"192.0.2.{number}\"\nmeasure = \"{period}\"\n");
        }
        MonitorConfig::from_toml(&text, "m.toml", &|_| Err(String::new())).unwrap()
    }

    #[test]
    fn measurements_that_do_not_fit_are_refused_with_what_to_change() {
        assert_eq!(config(10, "10min", false).check_load(), Ok(()));
        let refused = config(60, "10min", false).check_load().unwrap_err().to_string();
        assert!(refused.contains("200 %") && refused.contains("2.2 times as long"), "{refused}");
        assert_eq!(config(60, "10min", true).check_load(), Ok(()));
    }

    #[test]
    fn a_year_of_a_pair_takes_some_megabytes() {
        let one = config(1, "6h", false).estimate_cost();
        assert!((2_000_000..10_000_000).contains(&one.bytes_after_one_year), "{one:?}");
        assert!(one.bytes_after_three_years < 2 * one.bytes_after_one_year);
        let ten = config(10, "6h", false).estimate_cost();
        assert!((ten.probes_per_second - 10.0).abs() < 1e-9);
        assert!(ten.bytes_after_one_year.abs_diff(10 * one.bytes_after_one_year) < 100);
    }
}
