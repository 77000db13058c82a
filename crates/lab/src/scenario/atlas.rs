use super::checks::{check_name, check_runs, reject_if};
use super::overrides::{Overrides, replace_list};
use crate::accuracy::{BottleneckKind, Transport};
use crate::atlas::{PathAtlas, SeedChoice};
use crate::error::ScenarioError;
use kumade_sim::atlas::PathKind;
use serde::Deserialize;

/// A scenario file on paths of many kinds, as it is written.
#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub(super) struct AtlasFile {
    name: String,
    title: String,
    transports: Vec<Transport>,
    kinds: Vec<String>,
    runs: u32,
    /// In real time.
    real_runs: u32,
    seeds: SeedChoice,
}

impl AtlasFile {
    /// The experiment that it describes, with parts replaced.
    ///
    /// # Errors
    /// Names the option that has no meaning here, or what in the result is wrong.
    pub(super) fn into_experiment(mut self, overrides: &Overrides) -> Result<PathAtlas, ScenarioError> {
        let name = self.name.clone();
        let invalid = |reason| ScenarioError::Invalid { name: name.clone(), reason };
        self.apply_overrides(overrides).map_err(invalid)?;
        check_name(&self.name).and_then(|()| check_runs(self.runs)).map_err(invalid)?;
        let kinds: Result<Vec<PathKind>, String> = self.kinds.iter().map(|kind| kind.parse()).collect();
        let mut kinds = kinds.map_err(invalid)?;
        replace_list(&mut kinds, &overrides.kinds);
        reject_if(self.runs == 0 || kinds.is_empty() || self.transports.is_empty(), || {
            "with no runs, kinds or transports there is nothing to do; ask for at least one".into()
        })
        .map_err(invalid)?;
        let unfit = self.transports.iter().find(|transport| !matches!(transport, Transport::Udp | Transport::Rake));
        if let Some(unfit) = unfit {
            return Err(invalid(format!("a path of the atlas has no transport `{unfit}`; choose udp or rake")));
        }
        let experiment = PathAtlas {
            name: self.name,
            title: self.title,
            kinds,
            transports: self.transports,
            runs: self.runs,
            seeds: self.seeds,
            bottleneck: overrides.bottleneck.unwrap_or_default(),
        };
        reject_if(!experiment.has_points(), || match experiment.is_virtual() {
            true => "no path of these kinds passes these transports; choose others".into(),
            false => "no path of these kinds passes these transports and can be built in real time; choose others, or run them with \
                      --virtual"
                .into(),
        })
        .map_err(invalid)?;
        Ok(experiment)
    }

    fn apply_overrides(&mut self, given: &Overrides) -> Result<(), String> {
        if let Some(option) = given.option_unsupported_by_atlas() {
            return Err(format!("{option} does not apply to experiments on paths of many kinds, and this is one"));
        }
        let is_virtual = given.bottleneck == Some(BottleneckKind::Virtual);
        self.runs = given.runs.unwrap_or(if is_virtual { self.runs } else { self.real_runs });
        replace_list(&mut self.transports, &given.transports);
        Ok(())
    }
}
