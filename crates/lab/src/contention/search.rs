//! The search for the pattern of an attacker that a discipline holds worst: an evolution strategy (1 + 1) that begins with the
//! best of random patterns.

use super::attack::{Attack, FULL_PACKET_BYTES, PulseTraffic};
use super::scenario::{ContentionCase, ContentionExperiment, ContentionPoint, SearchSettings};
use super::virtual_time;
use crate::atlas::SeedChoice;
use crate::error::RunError;
use crate::fairness::DisciplineChoice;
use kumade_units::{Rate, Span};
use rand::{RngExt, SeedableRng};
use rand_pcg::Pcg64Mcg;
use std::fmt;

/// What an attacker wants.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum AttackGoal {
    /// As much of the bottleneck as possible.
    Share,
    /// To take as much as possible from bulk transfers, although it sends no more than an equal share on average.
    Harm,
}

/// A search, as far as its result depends on it.
#[derive(Debug, Clone, Copy)]
pub(super) struct AttackSearch<'a> {
    pub(super) goal: AttackGoal,
    pub(super) discipline: &'a DisciplineChoice,
    /// What competes with the attacker.
    pub(super) base_case: &'a ContentionCase,
}

/// The part of the patterns that are drawn without regard to those before.
const RANDOM_FRACTION: f64 = 0.4;
/// By what factor a change may differ, up or down, as a logarithm: in the beginning and in the end.
const STEP_FACTORS: (f64, f64) = (1.2, 0.1);
/// What a host sends at most, in multiples of the bottleneck's rate; and the shortest and longest periods.
const MAX_RATE_RATIO: f64 = 10.0;
const PERIOD_BOUNDS_SECONDS: (f64, f64) = (0.000_2, 2.0);

impl AttackGoal {
    /// Both.
    pub const ALL: [AttackGoal; 2] = [AttackGoal::Share, AttackGoal::Harm];
}

impl fmt::Display for AttackGoal {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            AttackGoal::Share => "most for itself",
            AttackGoal::Harm => "least for others",
        })
    }
}

impl ContentionExperiment {
    /// How many runs a search takes: one for each pattern that is tried.
    pub fn search_run_count(&self) -> usize {
        self.search.map_or(0, |search| self.attack_searches().len() * search.evaluations as usize)
    }

    /// One for each discipline and goal, where attackers are searched for.
    pub(super) fn attack_searches(&self) -> Vec<AttackSearch<'_>> {
        let Some(base) = self.cases.first().filter(|_| self.search.is_some()) else { return Vec::new() };
        let of_discipline = |discipline| AttackGoal::ALL.map(|goal| AttackSearch { goal, discipline, base_case: base });
        base.disciplines.iter().flat_map(of_discipline).collect()
    }
}

/// The worst pattern for a discipline that is found beside the first case's bulk transfers, as a case of its own.
///
/// # Errors
/// A run fails.
pub(super) fn worst_attack(
    experiment: &ContentionExperiment,
    search: SearchSettings,
    searched: &AttackSearch<'_>,
) -> Result<ContentionCase, RunError> {
    let base = searched.base_case;
    let mut random = Pcg64Mcg::seed_from_u64(0);
    let drawn = (f64::from(search.evaluations) * RANDOM_FRACTION).ceil() as u32;
    let mut best: Option<(f64, PulseTraffic)> = None;
    for number in 0..search.evaluations {
        let candidate = match best {
            Some((_, best)) if number >= drawn => {
                let progress = f64::from(number - drawn) / f64::from((search.evaluations - drawn).max(1));
                best.mutated(
                    STEP_FACTORS.0 + (STEP_FACTORS.1 - STEP_FACTORS.0) * progress,
                    experiment.bottleneck.rate,
                    &mut random,
                )
            }
            _ => initial_pulses(experiment.bottleneck.rate, &mut random),
        };
        let share = case_with_attack(base, searched, candidate).equal_share(experiment.bottleneck.rate);
        let candidate = searched.goal.limit_mean_rate(candidate, share);
        let case = case_with_attack(base, searched, candidate);
        let seed = SeedChoice::Tuning.seeds().seed(number);
        let point = ContentionPoint { case: &case, discipline: searched.discipline, run: 1, seed };
        let row = virtual_time::run(experiment, &point)?;
        let value = match searched.goal {
            AttackGoal::Share => row.attack.map_or(0.0, |attack| attack.share_ratio),
            AttackGoal::Harm => -row.bulk_share_ratio,
        };
        if best.is_none_or(|(most, _)| value > most) {
            best = Some((value, candidate));
        }
    }
    Ok(best.map_or_else(|| base.clone(), |(_, pulses)| case_with_attack(base, searched, pulses)))
}

fn case_with_attack(base: &ContentionCase, searched: &AttackSearch<'_>, pulses: PulseTraffic) -> ContentionCase {
    ContentionCase {
        label: format!("{}: {pulses}", searched.goal),
        attack: Some(Attack::Pulses(pulses)),
        disciplines: vec![searched.discipline.clone()],
        ..base.clone()
    }
}

/// Half of them have periods that do not vary.
fn initial_pulses(bottleneck: Rate, random: &mut Pcg64Mcg) -> PulseTraffic {
    let pulses = PulseTraffic::draw(bottleneck, random);
    PulseTraffic { has_random_periods: random.random(), ..pulses }
}

impl PulseTraffic {
    /// One that differs from it by at most `step` in the logarithm of each quantity.
    fn mutated(&self, step: f64, bottleneck: Rate, random: &mut Pcg64Mcg) -> Self {
        let mut factor = || random.random_range(-step..step).exp();
        let period = |span: Span, factor: f64| {
            Span::from_secs_f64((span.as_secs_f64() * factor).clamp(PERIOD_BOUNDS_SECONDS.0, PERIOD_BOUNDS_SECONDS.1))
        };
        let rate = (self.rate.as_f64() * factor()).min(bottleneck.as_f64() * MAX_RATE_RATIO);
        let (on, off) = (period(self.on, factor()), period(self.off, factor()));
        let bytes = (f64::from(self.packet_bytes) * factor()).clamp(100.0, f64::from(FULL_PACKET_BYTES));
        let rate = Rate::from_f64(rate.max(bottleneck.as_f64() / 100.0));
        PulseTraffic { rate, on, off, packet_bytes: bytes as u32, ..*self }
    }
}

impl AttackGoal {
    /// With longer pauses, if it would send more than this goal allows.
    fn limit_mean_rate(self, pulses: PulseTraffic, share: Rate) -> PulseTraffic {
        if self == AttackGoal::Share || pulses.mean_rate() <= share {
            return pulses;
        }
        let on = pulses.on.as_secs_f64();
        PulseTraffic { off: Span::from_secs_f64(on * (pulses.rate.as_f64() / share.as_f64() - 1.0)), ..pulses }
    }
}
