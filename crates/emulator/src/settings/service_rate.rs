//! What carries the packets: a rate, a recorded trace, or a wireless hop. Setting one takes the place of the other.

use super::value;

use kumade_link::{Medium, Trace, Wireless};
use kumade_units::Rate;

#[derive(Debug, Clone, PartialEq)]
pub(super) enum ServiceRate {
    /// `None` for as fast as it goes.
    Rate(Option<Rate>),
    /// With the file's name. It begins when it is set.
    Trace(String, Trace),
    Wireless(Wireless),
}

impl ServiceRate {
    pub(super) fn parse(key: &str, text: &str) -> Result<Self, String> {
        match key {
            "trace" => Ok(ServiceRate::Trace(text.to_owned(), read_trace(text)?)),
            "wireless" => parse_coding_schemes(text).map(ServiceRate::Wireless),
            _ => value::parse_rate(text).map(ServiceRate::Rate),
        }
    }

    pub(super) fn to_words(&self) -> (&'static str, String) {
        match self {
            ServiceRate::Rate(rate) => ("rate", value::show_rate(*rate)),
            ServiceRate::Trace(path, _) => ("trace", path.clone()),
            ServiceRate::Wireless(hop) => ("wireless", format!("{}-{}", hop.slowest, hop.fastest)),
        }
    }

    pub(super) fn rate_and_medium(&self) -> (Option<Rate>, Option<Medium>) {
        match self {
            ServiceRate::Rate(rate) => (*rate, None),
            ServiceRate::Trace(_, trace) => (None, Some(Medium::Trace(trace.clone()))),
            ServiceRate::Wireless(hop) => (None, Some(Medium::Wireless(*hop))),
        }
    }

    /// About how much it carries, to choose a queue's parameters by.
    pub(super) fn mean_rate(&self) -> Option<Rate> {
        match self {
            ServiceRate::Rate(rate) => *rate,
            ServiceRate::Trace(_, trace) => Some(trace.mean_rate()),
            ServiceRate::Wireless(hop) => Some(Wireless::physical_rate(hop.slowest.midpoint(hop.fastest))),
        }
    }
}

fn read_trace(path: &str) -> Result<Trace, String> {
    let text = kumade_files::read_text(path).map_err(|error| format!("cannot read the trace {path}: {error}"))?;
    Trace::parse(&text).map_err(|error| format!("{path} is no trace: {error}"))
}

fn parse_coding_schemes(text: &str) -> Result<Wireless, String> {
    let problem = || format!("`{text}` is not like 3-9: coding schemes 0 to 9, from the slowest to the fastest");
    let (slowest, fastest) = text.split_once('-').ok_or_else(problem)?;
    let (slowest, fastest) = (value::parse_number(slowest)?, value::parse_number(fastest)?);
    if slowest > fastest || fastest > 9 {
        return Err(problem());
    }
    Ok(Wireless { slowest, fastest, ..Wireless::default() })
}
