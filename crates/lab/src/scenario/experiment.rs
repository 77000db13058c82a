use super::overrides::Overrides;
use super::{accuracy, atlas, contention, fairness, fast_links, monitor_mesh, multipath, nat_session};
use crate::accuracy::AccuracyExperiment;
use crate::atlas::PathAtlas;
use crate::contention::ContentionExperiment;
use crate::error::ScenarioError;
use crate::fairness::FairnessExperiment;
use crate::fast_links::FastLinksExperiment;
use crate::monitor_mesh::MonitorMeshExperiment;
use crate::multipath::MultipathExperiment;
use crate::nat_session::NatSessionExperiment;
use crate::paper::Paper;
use serde::de::DeserializeOwned;
use toml::Spanned;
use toml::de::DeTable;

/// What the lab can run. A file that lists cases of contention is about that, another that names queue disciplines about
/// fairness, one that names planes about several paths, one
/// with an idle time about NAT sessions, one that names kinds about paths of many kinds, one that names MTUs about fast links, one
/// that lists sites about a monitored mesh, any other about accuracy.
#[derive(Debug, Clone, PartialEq)]
pub enum Experiment {
    /// Estimates beside the truth.
    Accuracy(Box<AccuracyExperiment>),
    /// Shares that TCP connections get.
    Fairness(Box<FairnessExperiment>),
    /// What attackers, sparse flows and short flows get beside bulk transfers.
    Contention(Box<ContentionExperiment>),
    /// What a flow gets of several paths.
    Multipath(Box<MultipathExperiment>),
    /// When NAT sessions begin and end.
    NatSessions(Box<NatSessionExperiment>),
    /// Estimates on paths of many kinds.
    PathAtlas(Box<PathAtlas>),
    /// Estimates on links of gigabits per second.
    FastLinks(Box<FastLinksExperiment>),
    /// What a monitor finds between hosts.
    MonitorMesh(Box<MonitorMeshExperiment>),
}

impl Experiment {
    /// Reads and validates a scenario file of any kind, with parts replaced. `origin` names the text in an error, and
    /// `table` finds the text of a table of mixes.
    ///
    /// # Errors
    /// Names the line, the option that has no meaning here, or what in the scenario contradicts itself.
    pub fn from_toml(
        text: &str,
        origin: &str,
        table: &dyn Fn(&str) -> Result<String, ScenarioError>,
        overrides: &Overrides,
    ) -> Result<Self, ScenarioError> {
        let malformed = |mut cause: toml::de::Error| {
            cause.set_input(Some(text));
            ScenarioError::Malformed { origin: origin.to_owned(), cause: Box::new(cause) }
        };
        let document = DeTable::parse(text).map_err(malformed)?;
        if document.get_ref().contains_key("contention") {
            let file: contention::ContentionFile = parse_file(document).map_err(malformed)?;
            return Ok(Experiment::Contention(Box::new(file.into_experiment(overrides)?)));
        }
        if document.get_ref().contains_key("disciplines") {
            let file: fairness::FairnessFile = parse_file(document).map_err(malformed)?;
            let fairness = file.into_experiment(table, overrides)?;
            return Ok(Experiment::Fairness(Box::new(fairness)));
        }
        if document.get_ref().contains_key("planes") {
            let file: multipath::MultipathFile = parse_file(document).map_err(malformed)?;
            return Ok(Experiment::Multipath(Box::new(file.into_experiment(overrides)?)));
        }
        if document.get_ref().contains_key("idle") {
            let file: nat_session::NatSessionFile = parse_file(document).map_err(malformed)?;
            return Ok(Experiment::NatSessions(Box::new(file.into_experiment(overrides)?)));
        }
        if document.get_ref().contains_key("kinds") {
            let file: atlas::AtlasFile = parse_file(document).map_err(malformed)?;
            return Ok(Experiment::PathAtlas(Box::new(file.into_experiment(overrides)?)));
        }
        if document.get_ref().contains_key("mtus") {
            let file: fast_links::FastLinksFile = parse_file(document).map_err(malformed)?;
            return Ok(Experiment::FastLinks(Box::new(file.into_experiment(overrides)?)));
        }
        if document.get_ref().contains_key("sites") {
            let file: monitor_mesh::MonitorMeshFile = parse_file(document).map_err(malformed)?;
            return Ok(Experiment::MonitorMesh(Box::new(file.into_experiment(overrides)?)));
        }
        let file: accuracy::AccuracyFile = parse_file(document).map_err(malformed)?;
        Ok(Experiment::Accuracy(Box::new(file.into_experiment(overrides)?)))
    }

    /// Its name, which is also that of the report's directory.
    pub fn name(&self) -> &str {
        match self {
            Experiment::Accuracy(experiment) => &experiment.name,
            Experiment::Fairness(experiment) => &experiment.name,
            Experiment::Contention(experiment) => &experiment.name,
            Experiment::Multipath(experiment) => &experiment.name,
            Experiment::NatSessions(experiment) => &experiment.name,
            Experiment::PathAtlas(experiment) => &experiment.name,
            Experiment::FastLinks(experiment) => &experiment.name,
            Experiment::MonitorMesh(experiment) => &experiment.name,
        }
    }

    /// The question in one line.
    pub fn title(&self) -> &str {
        match self {
            Experiment::Accuracy(experiment) => &experiment.title,
            Experiment::Fairness(experiment) => &experiment.title,
            Experiment::Contention(experiment) => &experiment.title,
            Experiment::Multipath(experiment) => &experiment.title,
            Experiment::NatSessions(experiment) => &experiment.title,
            Experiment::PathAtlas(experiment) => &experiment.title,
            Experiment::FastLinks(experiment) => &experiment.title,
            Experiment::MonitorMesh(experiment) => &experiment.title,
        }
    }

    /// The published experiment that this one repeats.
    pub fn paper(&self) -> Option<&Paper> {
        match self {
            Experiment::Accuracy(experiment) => experiment.paper.as_ref(),
            Experiment::Fairness(experiment) => experiment.paper.as_ref(),
            Experiment::Multipath(experiment) => experiment.paper.as_ref(),
            Experiment::NatSessions(experiment) => experiment.paper.as_ref(),
            Experiment::PathAtlas(_)
            | Experiment::Contention(_)
            | Experiment::FastLinks(_)
            | Experiment::MonitorMesh(_) => None,
        }
    }

    /// Whether it runs in virtual time, so that no network is built.
    pub fn is_virtual(&self) -> bool {
        match self {
            Experiment::Accuracy(experiment) => experiment.is_virtual(),
            Experiment::Fairness(experiment) => experiment.virtual_time,
            Experiment::Multipath(experiment) => experiment.virtual_time,
            Experiment::NatSessions(experiment) => experiment.virtual_time,
            Experiment::Contention(experiment) => experiment.virtual_time,
            Experiment::PathAtlas(experiment) => experiment.is_virtual(),
            Experiment::FastLinks(_) | Experiment::MonitorMesh(_) => false,
        }
    }

    /// How many runs it has.
    pub fn run_count(&self) -> usize {
        match self {
            Experiment::Accuracy(experiment) => experiment.run_count(),
            Experiment::Fairness(experiment) => experiment.points().len(),
            Experiment::Contention(experiment) => experiment.run_count(),
            Experiment::Multipath(experiment) => experiment.points().len(),
            Experiment::NatSessions(experiment) => experiment.points().len(),
            Experiment::PathAtlas(experiment) => experiment.points().len(),
            Experiment::FastLinks(experiment) => experiment.measurement_count(),
            Experiment::MonitorMesh(experiment) => experiment.direction_count(),
        }
    }

    /// The experiment on accuracy, if it is one.
    pub fn into_accuracy(self) -> Option<AccuracyExperiment> {
        match self {
            Experiment::Accuracy(experiment) => Some(*experiment),
            _ => None,
        }
    }

    /// The experiment on fairness, if it is one.
    pub fn into_fairness(self) -> Option<FairnessExperiment> {
        match self {
            Experiment::Fairness(experiment) => Some(*experiment),
            _ => None,
        }
    }

    /// The experiment on contention, if it is one.
    pub fn into_contention(self) -> Option<ContentionExperiment> {
        match self {
            Experiment::Contention(experiment) => Some(*experiment),
            _ => None,
        }
    }

    /// The experiment on several paths, if it is one.
    pub fn into_multipath(self) -> Option<MultipathExperiment> {
        match self {
            Experiment::Multipath(experiment) => Some(*experiment),
            _ => None,
        }
    }

    /// The experiment on paths of many kinds, if it is one.
    pub fn into_path_atlas(self) -> Option<PathAtlas> {
        match self {
            Experiment::PathAtlas(experiment) => Some(*experiment),
            _ => None,
        }
    }

    /// The experiment on fast links, if it is one.
    pub fn into_fast_links(self) -> Option<FastLinksExperiment> {
        match self {
            Experiment::FastLinks(experiment) => Some(*experiment),
            _ => None,
        }
    }

    /// The experiment on NAT sessions, if it is one.
    pub fn into_nat_session(self) -> Option<NatSessionExperiment> {
        match self {
            Experiment::NatSessions(experiment) => Some(*experiment),
            _ => None,
        }
    }
}

fn parse_file<T: DeserializeOwned>(document: Spanned<DeTable<'_>>) -> Result<T, toml::de::Error> {
    T::deserialize(toml::Deserializer::from(document))
}
