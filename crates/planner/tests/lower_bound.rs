//! Cycles end within 1.1 × of the lower bound, and what a schedule needs is said beforehand.

use crate::cycles::{Topology, run_cycle};
use kumade_planner::{ClassId, DurationHistory, MAX_LOAD_RATIO, ResourceId, ResourceKind, ScheduleLoad};
use kumade_units::Span;

#[test]
fn a_cycle_ends_within_1_1_of_its_lower_bound() {
    let topologies = [
        Topology::FullMesh { sites: 40 },
        Topology::SharedUplinks { sites: 40, sites_per_uplink: 10 },
        Topology::SharedUplinks { sites: 40, sites_per_uplink: 8 },
        Topology::FullMesh { sites: 3 },
        Topology::Star { sites: 60, targets: 60 },
        Topology::Star { sites: 100, targets: 4 },
    ];
    for topology in topologies {
        for seed in 0..4 {
            let result = run_cycle(&topology.plan(), seed);
            assert!(result.ratio() <= 1.1, "{topology:?}, seed {seed}: {:.3} × in {result:?}", result.ratio());
            assert_eq!(
                (result.served, result.missed, result.overlaps),
                (result.runs, 0, 0),
                "{topology:?}, seed {seed}"
            );
        }
    }
}

/// With 8 s a run, a mesh of 100 sites takes 13 minutes, and two hours with one uplink for ten sites.
#[test]
fn the_lower_bound_is_that_of_the_busiest_resource() {
    let bound = |topology: Topology| {
        let load = ScheduleLoad::from_plan(&topology.plan(), |_| Span::from_secs(8));
        (load.classes[0].lower_bound, load.resources[0].resource)
    };
    assert_eq!(bound(Topology::FullMesh { sites: 100 }).0, Span::from_secs(99 * 8));
    let shared = bound(Topology::SharedUplinks { sites: 100, sites_per_uplink: 10 });
    assert_eq!(shared, (Span::from_secs(900 * 8), ResourceId(100)));
}

/// Of three hosts, two measure at a time: a mesh of them takes half as long again as the runs of each host.
#[test]
fn odd_groups_need_more_than_each_of_their_resources() {
    let load = |topology: Topology| ScheduleLoad::from_plan(&topology.plan(), |_| Span::from_secs(8));
    let triangle = load(Topology::FullMesh { sites: 3 });
    assert_eq!(triangle.classes[0].lower_bound, Span::from_secs(3 * 8));
    assert!((triangle.group.as_ref().unwrap().load_ratio / triangle.resources[0].load_ratio - 1.5).abs() < 1e-9);
    let mut short = Topology::FullMesh { sites: 3 }.plan();
    short.classes[0].period = Span::from_secs(20);
    let overload = ScheduleLoad::from_plan(&short, |_| Span::from_secs(8)).check().unwrap_err();
    assert_eq!((overload.group.len(), overload.changes[0].remove_runs), (3, Some(1)));
    assert!(overload.to_string().contains("between the resources 0, 1, 2 would take 120 %"), "{overload}");
    // Five uplinks of eight sites: both directions of a link count once.
    let uplinks = load(Topology::SharedUplinks { sites: 40, sites_per_uplink: 8 });
    assert_eq!(uplinks.classes[0].lower_bound, Span::from_secs(640 * 8 / 2));
}

#[test]
fn a_schedule_that_cannot_be_met_is_refused_with_what_to_change() {
    let plan = Topology::SharedUplinks { sites: 100, sites_per_uplink: 10 }.plan();
    let slot = Span::from_secs(8);
    let mut short = plan.clone();
    short.classes[0].period = Span::from_secs(3600);
    let load = ScheduleLoad::from_plan(&short, |_| slot);
    let overload = load.check().unwrap_err();
    assert!(matches!(short.resources[overload.resource.0 as usize].kind, ResourceKind::Link(_)));
    assert_eq!((overload.load_ratio, overload.changes.len()), (2.0, 1));
    let change = &overload.changes[0];
    assert_eq!((change.class, change.period), (ClassId(0), Some(Span::from_secs(8000))));
    assert_eq!(change.remove_runs, Some(495));
    let text = overload.to_string();
    assert!(text.contains("200 %") && text.contains("8000 s") && text.contains("495 runs"), "{text}");
    // Each change is enough.
    let mut longer = short.clone();
    longer.classes[0].period = change.period.unwrap();
    assert!(ScheduleLoad::from_plan(&longer, |_| slot).check().is_ok());
    let stretched = short.clone().stretched(load.stretch_factor());
    assert!(ScheduleLoad::from_plan(&stretched, |_| slot).max_load_ratio() <= MAX_LOAD_RATIO + 1e-9);
    let mut left = change.remove_runs.unwrap();
    short.runs.retain(|run| {
        let is_removed = left > 0 && run.resources.contains(&overload.resource);
        left -= u32::from(is_removed);
        !is_removed
    });
    let of_resource = ScheduleLoad::from_plan(&short, |_| slot);
    let of_resource = of_resource.resources.iter().find(|load| load.resource == overload.resource).unwrap();
    assert!(of_resource.load_ratio <= MAX_LOAD_RATIO);
}

#[test]
fn what_is_not_known_yet_is_planned_with_a_prior() {
    let plan = Topology::FullMesh { sites: 3 }.plan();
    let load = ScheduleLoad::from_plan(&plan, |run| DurationHistory::default().slot(run.kind));
    assert_eq!(load.classes[0].lower_bound, Span::from_secs(3 * 20));
}
