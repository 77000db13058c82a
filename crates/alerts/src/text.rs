//! What alerts say.

use crate::pair::{RiskKind, SharedRisk};
use crate::rule::Condition;

/// Names that a text has at most.
const MAX_NAMES: usize = 10;

/// A pair's own alert.
pub(crate) fn pair_text(condition: &Condition, name: &str, detail: &str) -> String {
    format!("{name}: {}", failure(condition, detail))
}

/// Several pairs' common one.
pub(crate) fn shared_text(
    condition: &Condition,
    risk: &SharedRisk,
    names: &[&str],
    count: usize,
    detail: &str,
) -> String {
    let what = match risk.kind {
        RiskKind::Link => format!("over the link {}", risk.name),
        RiskKind::Host => format!("from or to {}", risk.name),
    };
    let number = match names.len() {
        failed if failed >= count => format!("all {failed} paths"),
        failed => format!("{failed} of {count} paths"),
    };
    format!("{number} {what}: {}. They are: {}", failure(condition, detail), list_names(names))
}

/// Where no agent is heard.
pub(crate) fn all_agents_text(count: usize) -> String {
    format!(
        "all {count} agents are silent: the uplink of this coordinator may have failed, or agents cannot connect to it any more"
    )
}

pub(crate) fn list_names(names: &[&str]) -> String {
    let shown = names.iter().take(MAX_NAMES).copied().collect::<Vec<_>>().join(", ");
    match names.len().saturating_sub(MAX_NAMES) {
        0 => shown,
        more => format!("{shown} and {more} more"),
    }
}

fn failure(condition: &Condition, detail: &str) -> String {
    let plain = match condition {
        Condition::Down => "no probe is answered any more",
        Condition::NoData => "probes have no results any more",
        Condition::Loss { .. } => "too many probes are lost",
        Condition::Delay { .. } => "the delay is too high",
        Condition::Available { .. } => "too little bandwidth is available",
        Condition::Change { .. } => "the available bandwidth has changed",
        Condition::NotArchived => "what is measured cannot be archived",
        Condition::AgentSilent => "the agent is silent, and what it measures is not known",
    };
    if detail.is_empty() { plain.to_owned() } else { format!("{plain}: {detail}") }
}
