//! Values as they stand in a file, and what times a key may have.

use kumade_daemon::ConfigFault;
pub(super) use kumade_daemon::parse_spanned;
use kumade_units::{Span, parse};
use kumade_wire::PresharedKey;
use serde::Deserialize;
use std::ops::RangeInclusive;
use std::path::Path;
use toml::Spanned;

/// One probe in 10 ms is what a measurement sends; none in an hour tells nothing.
pub(super) const VALID_PROBE_INTERVALS: ValidSpans =
    ValidSpans(Span::from_millis(10)..=Span::from_secs(3600), "10ms to 1h");
/// A measurement takes seconds; after a year, nobody knows what was before.
pub(super) const VALID_PERIODS: ValidSpans =
    ValidSpans(Span::from_secs(30)..=Span::from_secs(366 * 86_400), "30s to 366d");
/// For replies: a full buffer holds seconds, never minutes.
pub(super) const VALID_LIMITS: ValidSpans = ValidSpans(Span::from_millis(1)..=Span::from_secs(60), "1ms to 60s");
/// Less than a day is no archive.
pub(super) const VALID_RETENTIONS: ValidSpans =
    ValidSpans(Span::from_secs(86_400)..=Span::from_secs(36_600 * 86_400), "1d to 36600d");

/// Figures for another database: minutes are sent once they are over.
pub(super) const VALID_MAX_AGES: ValidSpans =
    ValidSpans(Span::from_secs(300)..=Span::from_secs(366 * 86_400), "5min to 366d");

/// Times that a key may have, and how people write these.
pub(super) struct ValidSpans(RangeInclusive<Span>, &'static str);

/// Which addresses of a host are used. Both IP versions are two paths.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Deserialize)]
#[serde(rename_all = "lowercase")]
pub(super) enum FamilyName {
    #[default]
    Any,
    Ipv4,
    Ipv6,
    Both,
}

/// Reads the file of a pre-shared key; says why it cannot.
pub type KeyReader<'r> = &'r dyn Fn(&Path) -> Result<PresharedKey, String>;

pub(super) fn span_within(
    text: Option<&Spanned<String>>,
    default: Span,
    valid: ValidSpans,
) -> Result<Span, ConfigFault> {
    let Some(text) = text else { return Ok(default) };
    let span = parse_spanned(text, parse::span)?;
    let problem = || ConfigFault::new(text.span(), format!("{} is out of range: {}", text.get_ref(), valid.1));
    valid.0.contains(&span).then_some(span).ok_or_else(problem)
}
