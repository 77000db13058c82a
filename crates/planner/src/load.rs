//! Whether a schedule can be met: how busy each resource is, and the shortest possible periods.

use crate::id::{ClassId, ResourceId};
use crate::plan::{Plan, Run};
use kumade_units::Span;
use serde::Serialize;
use std::collections::{BTreeMap, BTreeSet};
use std::fmt;

/// Maximum share of the time that runs may use a resource. The rest is for what is repeated, for others that measure, and
/// for what list scheduling needs above the lower bound (up to 1.06 × where it was tried).
pub const MAX_LOAD_RATIO: f64 = 0.9;

/// Ratios that differ by less are equal.
const ROUNDING: f64 = 1e-9;
/// Groups of more resources allow at most 1 % less than each of these by itself.
const MAX_GROUP_RESOURCES: usize = 101;

/// How busy the resources are.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct ScheduleLoad {
    /// Each resource that is used; the busiest first.
    pub resources: Vec<ResourceLoad>,
    /// The odd group of resources that allows least, where one was found.
    pub group: Option<GroupLoad>,
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

/// How busy an odd number of resources is of which each of some runs uses two or more: of three hosts that measure to each
/// other, two do at a time, and the third one has to wait. So the runs may take longer than those of any one resource.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct GroupLoad {
    /// Which resources.
    pub resources: Vec<ResourceId>,
    /// The share of the time that these runs take when as many as possible are measured at once; above 1 if that is impossible.
    pub load_ratio: f64,
    /// The runs of each class that use two or more of the resources, and what they take in one period when as many as possible are
    /// measured at once.
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
    /// No order of its runs takes less: the maximum over resources, and the group, of the sum of their slots. In nanoseconds.
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
    /// The busiest resource, or the busiest of the group.
    pub resource: ResourceId,
    /// All resources of the group; none if the resource by itself is too busy.
    pub group: Vec<ResourceId>,
    /// The share of the time in which runs would use it, or that the group would need.
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
        let (load, max_load) = (load_ratio * 100.0, MAX_LOAD_RATIO * 100.0);
        write!(f, "the schedule can't be met: ")?;
        if self.group.is_empty() {
            write!(f, "runs would use the resource {} for {load:.0} % of the time", resource.0)?;
        } else {
            let group: Vec<_> = self.group.iter().map(|resource| resource.0.to_string()).collect();
            write!(f, "runs between the resources {} would take {load:.0} % of the time", group.join(", "))?;
        }
        write!(f, ", more than {max_load:.0} %: make all periods {stretch_factor:.2} times as long")?;
        for Change { class, period, remove_runs } in &self.changes {
            if let Some(period) = period {
                write!(
                    f,
                    ", or the period of the class {} at least {:.0} s",
                    class.0,
                    (period.as_secs_f64() - 1e-6).ceil()
                )?;
            }
            if let Some(runs) = remove_runs {
                write!(f, ", or remove {runs} runs of the class {} from there", class.0)?;
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
        let mut load = ScheduleLoad { resources, group: None, classes: Vec::new() };
        load.group = busiest_group(plan, &load.resources, &slot, &periods);
        load.classes = plan.classes.iter().map(|class| load.class(class.id, class.period)).collect();
        load
    }

    /// Of the resources and the group: the load, and what the runs of each class take.
    fn bottlenecks(&self) -> impl Iterator<Item = (f64, &[ClassOnResource])> + Clone {
        let resources = self.resources.iter().map(|load| (load.load_ratio, load.classes.as_slice()));
        resources.chain(self.group.iter().map(|load| (load.load_ratio, load.classes.as_slice())))
    }

    /// The share of the time in which the busiest resource is used, or that the group needs.
    pub fn max_load_ratio(&self) -> f64 {
        self.bottlenecks().map(|(load_ratio, _)| load_ratio).fold(0.0, f64::max)
    }

    /// The load of the busiest resource of each run, or of the group if it uses two of that.
    pub(crate) fn by_run(&self, runs: &[Run]) -> Vec<f64> {
        let resources: BTreeMap<_, _> = self.resources.iter().map(|load| (load.resource, load.load_ratio)).collect();
        let in_group = |run: &Run, group: &GroupLoad| {
            run.resources.iter().filter(|resource| group.resources.contains(resource)).count() >= 2
        };
        let by_run = |run: &Run| {
            let of_resources = run.resources.iter().filter_map(|resource| resources.get(resource).copied());
            let of_group = self.group.iter().filter(|group| in_group(run, group)).map(|group| group.load_ratio);
            of_resources.chain(of_group).fold(0.0, f64::max)
        };
        runs.iter().map(by_run).collect()
    }

    /// How much longer the periods have to be; 1 if they suffice.
    pub fn stretch_factor(&self) -> f64 {
        (self.max_load_ratio() / MAX_LOAD_RATIO).max(1.0)
    }

    /// Whether the schedule can be met with some reserve.
    ///
    /// # Errors
    ///
    /// The busiest resource, or a group of them, is used for more than [`MAX_LOAD_RATIO`] of the time: what to change.
    pub fn check(&self) -> Result<(), Overload> {
        let load_ratio = self.max_load_ratio();
        if load_ratio <= MAX_LOAD_RATIO + ROUNDING {
            return Ok(());
        }
        let Some(busiest) = self.resources.first() else { return Ok(()) };
        let group = self.group.as_ref().filter(|group| group.load_ratio > busiest.load_ratio);
        let classes = group.map_or(&busiest.classes, |group| &group.classes);
        let changes = classes.iter().map(|class| self.change(load_ratio, class));
        Err(Overload {
            resource: group.map_or(busiest.resource, |group| group.resources[0]),
            group: group.map(|group| group.resources.clone()).unwrap_or_default(),
            load_ratio,
            stretch_factor: self.stretch_factor(),
            changes: changes.filter(|change| change.period.is_some() || change.remove_runs.is_some()).collect(),
        })
    }

    fn change(&self, load_ratio: f64, on: &ClassOnResource) -> Change {
        let class = self.classes.iter().find(|class| class.class == on.class).expect("a load of each class");
        let (period, busy) = (class.period.as_secs_f64(), on.busy.as_secs_f64());
        let left = MAX_LOAD_RATIO - (load_ratio - busy / period);
        let remove_runs = (left > 0.0).then(|| {
            let excess = busy - left * period;
            (excess / busy * f64::from(on.runs) - ROUNDING).ceil() as u32
        });
        Change { class: on.class, period: class.shortest_period, remove_runs }
    }

    fn class(&self, class: ClassId, period: Span) -> ClassLoad {
        let used = self.bottlenecks().filter_map(|(load_ratio, classes)| {
            let busy = classes.iter().find(|on| on.class == class)?.busy;
            Some((busy, load_ratio - busy.as_secs_f64() / period.as_secs_f64()))
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

/// Of the groups of the k busiest resources, for each odd k, the one that allows least. At most (k − 1) / 2 of the runs that use two or more
/// of them are measured at once. Resources that the same runs use, as both directions of a link are, count once.
///
/// (To find the group that allows least of all is hard. Those of the busiest ones are what meshes and shared uplinks come to.)
fn busiest_group(
    plan: &Plan,
    resources: &[ResourceLoad],
    slot: impl Fn(&Run) -> Span,
    periods: &BTreeMap<ClassId, Span>,
) -> Option<GroupLoad> {
    let distinct = distinct_resources(plan, resources);
    let ranks: BTreeMap<_, _> =
        distinct.iter().take(MAX_GROUP_RESOURCES).zip(0..).map(|(id, rank)| (*id, rank)).collect();
    // Of each run that uses two, from which k on that is so.
    let second_rank = |run: &Run| {
        let mut own: Vec<usize> = run.resources.iter().filter_map(|resource| ranks.get(resource).copied()).collect();
        own.sort_unstable();
        own.dedup();
        own.get(1).copied()
    };
    let mut share = vec![0.0; ranks.len()];
    for (run, rank) in plan.runs.iter().filter_map(|run| Some((run, second_rank(run)?))) {
        share[rank] += slot(run).as_secs_f64() / periods[&run.class].as_secs_f64();
    }
    let mut sum = 0.0;
    let loads = share.iter().enumerate().map(|(rank, share)| {
        sum += share;
        (rank + 1, sum / (rank / 2).max(1) as f64)
    });
    let odd = loads.filter(|(count, _)| *count >= 3 && count % 2 == 1);
    let (count, load_ratio) = odd.max_by(|a, b| a.1.total_cmp(&b.1))?;
    let mut classes: BTreeMap<ClassId, (u32, Span)> = BTreeMap::new();
    for run in plan.runs.iter().filter(|run| second_rank(run).is_some_and(|rank| rank < count)) {
        let (runs, busy) = classes.entry(run.class).or_default();
        *runs += 1;
        *busy += slot(run);
    }
    let at_once = (count / 2) as i64;
    let classes =
        classes.into_iter().map(|(class, (runs, busy))| ClassOnResource { class, runs, busy: busy / at_once });
    Some(GroupLoad { resources: distinct[..count].to_vec(), load_ratio, classes: classes.collect() })
}

/// In the given order, one of those that the same runs use.
fn distinct_resources(plan: &Plan, resources: &[ResourceLoad]) -> Vec<ResourceId> {
    let mut users: BTreeMap<ResourceId, Vec<u32>> = BTreeMap::new();
    for (number, run) in (0..).zip(&plan.runs) {
        run.resources.iter().for_each(|resource| users.entry(*resource).or_default().push(number));
    }
    let mut seen = BTreeSet::new();
    let ids = resources.iter().map(|load| load.resource);
    ids.filter(|id| users.get(id).is_some_and(|runs| seen.insert(runs.clone()))).collect()
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
