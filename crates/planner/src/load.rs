//! Whether a schedule can be met: how busy each resource is, and the shortest possible periods.

use crate::id::{ClassId, ResourceId};
use crate::plan::{Plan, Run};
use kumade_units::Span;
use serde::Serialize;
use std::collections::BTreeMap;
use std::fmt;

/// Maximum share of the time that runs may use a resource. The rest is for what is repeated, for others that measure, and
/// for what list scheduling needs above the lower bound (up to 1.06 × where it was tried).
pub const MAX_LOAD_RATIO: f64 = 0.9;

/// How busy the resources are.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct ScheduleLoad {
    /// Each resource that is used; the busiest first.
    pub resources: Vec<ResourceLoad>,
    /// Each class.
    pub classes: Vec<ClassLoad>,
}

/// How busy a resource is.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct ResourceLoad {
    /// Which.
    pub resource: ResourceId,
    /// The share of the time in which a run uses it; above 1 if that is impossible.
    pub load_ratio: f64,
    /// What the runs of each class take on it in one period.
    pub classes: Vec<ClassOnResource>,
}

/// What the runs of a class take on a resource.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct ClassOnResource {
    /// Which.
    pub class: ClassId,
    /// Their number.
    pub runs: u32,
    /// The sum of their slots, in nanoseconds.
    #[serde(rename = "busy_nanoseconds")]
    pub busy: Span,
}

/// What a class needs.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct ClassLoad {
    /// Which.
    pub class: ClassId,
    /// Its period as planned, in nanoseconds.
    #[serde(rename = "period_nanoseconds")]
    pub period: Span,
    /// No order of its runs takes less: the maximum over resources of the sum of their slots. In nanoseconds.
    #[serde(rename = "lower_bound_nanoseconds")]
    pub lower_bound: Span,
    /// The shortest period with which no resource is used for more than [`MAX_LOAD_RATIO`] of the time while the other
    /// classes keep theirs, in nanoseconds; none if these use too much by themselves.
    #[serde(rename = "shortest_period_nanoseconds")]
    pub shortest_period: Option<Span>,
}

/// A schedule that can't be met, and each of the changes with which this resource would suffice.
#[derive(Debug, Clone, PartialEq, thiserror::Error, Serialize)]
pub struct Overload {
    /// The busiest resource.
    pub resource: ResourceId,
    /// The share of the time in which runs would use it.
    pub load_ratio: f64,
    /// All periods times this: then every resource suffices.
    pub stretch_factor: f64,
    /// Changes of one class alone.
    pub changes: Vec<Change>,
}

/// A change with which a resource suffices.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct Change {
    /// Of which class.
    pub class: ClassId,
    /// Make its period at least this, in nanoseconds; none if that alone does not suffice.
    #[serde(rename = "period_nanoseconds")]
    pub period: Option<Span>,
    /// Or remove so many of its runs that use the resource; none if that alone does not suffice.
    pub remove_runs: Option<u32>,
}

impl fmt::Display for Overload {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Overload { resource, load_ratio, stretch_factor, .. } = self;
        write!(
            f,
            "the schedule can't be met: runs would use the resource {} for {:.0} % of the time, more than {:.0} %: make all \
             periods {stretch_factor:.2} times as long",
            resource.0,
            load_ratio * 100.0,
            MAX_LOAD_RATIO * 100.0
        )?;
        for Change { class, period, remove_runs } in &self.changes {
            if let Some(period) = period {
                write!(f, ", or the period of the class {} at least {:.0} s", class.0, period.as_secs_f64().ceil())?;
            }
            if let Some(runs) = remove_runs {
                write!(f, ", or remove {runs} runs of the class {} from this resource", class.0)?;
            }
        }
        Ok(())
    }
}

impl ScheduleLoad {
    /// Of a valid plan, with what each run is given ([`DurationHistory::slot`](crate::DurationHistory::slot)).
    pub fn from_plan(plan: &Plan, slot: impl Fn(&Run) -> Span) -> Self {
        let periods: BTreeMap<_, _> = plan.classes.iter().map(|class| (class.id, class.period)).collect();
        let mut busy: BTreeMap<ResourceId, BTreeMap<ClassId, (u32, Span)>> = BTreeMap::new();
        for run in &plan.runs {
            let slot = slot(run);
            for (place, resource) in run.resources.iter().enumerate() {
                if run.resources[..place].contains(resource) {
                    continue;
                }
                let (runs, sum) = busy.entry(*resource).or_default().entry(run.class).or_default();
                *runs += 1;
                *sum += slot;
            }
        }
        let load = |class: ClassId, busy: Span| busy.as_secs_f64() / periods[&class].as_secs_f64();
        let mut resources: Vec<_> = busy
            .into_iter()
            .map(|(resource, classes)| {
                let load_ratio = classes.iter().map(|(class, (_, busy))| load(*class, *busy)).sum();
                let classes =
                    classes.into_iter().map(|(class, (runs, busy))| ClassOnResource { class, runs, busy }).collect();
                ResourceLoad { resource, load_ratio, classes }
            })
            .collect();
        resources.sort_by(|a, b| b.load_ratio.total_cmp(&a.load_ratio));
        let classes = plan.classes.iter().map(|class| ClassLoad::from_resources(class.id, class.period, &resources));
        ScheduleLoad { classes: classes.collect(), resources }
    }

    /// The share of the time in which the busiest resource is used.
    pub fn max_load_ratio(&self) -> f64 {
        self.resources.first().map_or(0.0, |resource| resource.load_ratio)
    }

    /// How much longer the periods have to be; 1 if they suffice.
    pub fn stretch_factor(&self) -> f64 {
        (self.max_load_ratio() / MAX_LOAD_RATIO).max(1.0)
    }

    /// Whether the schedule can be met with some reserve.
    ///
    /// # Errors
    ///
    /// The busiest resource is used for more than [`MAX_LOAD_RATIO`] of the time: what to change.
    pub fn check(&self) -> Result<(), Overload> {
        match self.resources.first() {
            Some(busiest) if busiest.load_ratio > MAX_LOAD_RATIO => {
                let changes = busiest.classes.iter().map(|class| self.change(busiest, class));
                Err(Overload {
                    resource: busiest.resource,
                    load_ratio: busiest.load_ratio,
                    stretch_factor: self.stretch_factor(),
                    changes: changes.filter(|change| change.period.is_some()).collect(),
                })
            }
            _ => Ok(()),
        }
    }

    fn change(&self, resource: &ResourceLoad, on: &ClassOnResource) -> Change {
        let load = self.classes.iter().find(|class| class.class == on.class).expect("a load of each class");
        let period = load.period.as_secs_f64();
        let busy = on.busy.as_secs_f64();
        let left = MAX_LOAD_RATIO - (resource.load_ratio - busy / period);
        let remove_runs = (left > 0.0).then(|| {
            let excess = busy - left * period;
            (excess / busy * f64::from(on.runs)).ceil() as u32
        });
        Change { class: on.class, period: load.shortest_period, remove_runs }
    }
}

impl ClassLoad {
    fn from_resources(class: ClassId, period: Span, resources: &[ResourceLoad]) -> Self {
        let used = resources.iter().filter_map(|resource| {
            let busy = resource.classes.iter().find(|on| on.class == class)?.busy;
            Some((busy, resource.load_ratio - busy.as_secs_f64() / period.as_secs_f64()))
        });
        let lower_bound = used.clone().map(|(busy, _)| busy).max().unwrap_or_default();
        let shortest = used.map(|(busy, others)| {
            let left = MAX_LOAD_RATIO - others;
            (left > 0.0).then(|| Span::from_secs_f64(busy.as_secs_f64() / left))
        });
        let shortest_period = shortest.collect::<Option<Vec<_>>>().map(|all| all.into_iter().max().unwrap_or_default());
        ClassLoad { class, period, lower_bound, shortest_period }
    }
}

impl Plan {
    /// The same with periods that are `factor` times as long ([`ScheduleLoad::stretch_factor`]).
    pub fn stretched(mut self, factor: f64) -> Plan {
        for class in &mut self.classes {
            class.period = Span::from_secs_f64(class.period.as_secs_f64() * factor);
        }
        self
    }
}
