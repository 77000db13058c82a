//! Values, read from text and written so that they are read again as the same.

use kumade_link::TokenBucket;
use kumade_link::queue::QueueLimit;
use kumade_units::{Rate, Span, exact_text, parse};

/// The assumed packet size of a queue that is limited in packets.
pub(super) const ASSUMED_PACKET_BYTES: u64 = 1500;

pub(super) fn parse_rate(text: &str) -> Result<Option<Rate>, String> {
    if text == "unlimited" {
        return Ok(None);
    }
    match parse::rate(text).map_err(|error| error.to_string())? {
        Rate::ZERO => Err("a rate of 0 lets nothing pass; give at least 1bit, or `unlimited`".to_owned()),
        rate => Ok(Some(rate)),
    }
}

/// `50mbit/32kb`, or `none`.
pub(super) fn parse_policer(text: &str) -> Result<Option<TokenBucket>, String> {
    if text == "none" {
        return Ok(None);
    }
    let (committed, burst) = text.split_once('/').ok_or_else(|| {
        format!("`{text}` is not like 50mbit/32kb: the committed rate, and the burst; or `none` for no policer")
    })?;
    let rate = parse_rate(committed)?.ok_or("a policer without a rate drops nothing; give `none`")?;
    match parse_bytes(burst)? {
        burst_bytes @ ASSUMED_PACKET_BYTES.. => Ok(Some(TokenBucket { rate, burst_bytes })),
        _ => Err(format!("a burst of {burst} lets no full packet pass; give at least {ASSUMED_PACKET_BYTES}b")),
    }
}

/// As [`parse_policer`] reads it.
pub(super) fn show_policer(policer: Option<TokenBucket>) -> String {
    policer.map_or_else(
        || "none".to_owned(),
        |policer| format!("{}/{}", show_rate(Some(policer.rate)), exact_text::bytes(policer.burst_bytes)),
    )
}

pub(super) fn parse_span(text: &str) -> Result<Span, String> {
    parse::span(text).map_err(|error| error.to_string())
}

pub(super) fn parse_bytes(text: &str) -> Result<u64, String> {
    parse::bytes(text).map_err(|error| error.to_string())
}

pub(super) fn parse_ratio(text: &str) -> Result<f64, String> {
    match parse::ratio(text) {
        // In netem, `loss 1` is one percent.
        Ok(1.0) if !text.ends_with('%') => {
            Err(format!("`{text}` would be all of them; write it like 1%, or 100% for all"))
        }
        ratio => ratio.map_err(|error| error.to_string()),
    }
}

pub(super) fn parse_number<N: std::str::FromStr>(text: &str) -> Result<N, String> {
    parse::number(text).map_err(|error| error.to_string())
}

pub(super) fn parse_mean_burst(text: &str) -> Result<f64, String> {
    match text.parse() {
        Ok(burst) if (1.0..1e9).contains(&burst) => Ok(burst),
        _ => Err(format!("`{text}` is no length of a burst; give the mean number of packets in one, from 1")),
    }
}

pub(super) fn parse_switch(text: &str) -> Result<bool, String> {
    match text {
        "on" => Ok(true),
        "off" => Ok(false),
        _ => Err(format!("`{text}` is neither `on` nor `off`")),
    }
}

pub(super) fn parse_limit(text: &str) -> Result<QueueLimit, String> {
    let packets = ["packets", "packet", "p"].iter().find_map(|unit| text.strip_suffix(unit));
    match packets {
        Some(packets) => parse_number(packets).map(QueueLimit::Packets),
        None => parse_bytes(text).map(QueueLimit::Bytes).map_err(|error| format!("{error}, or 100p for packets")),
    }
}

pub(super) fn show_rate(rate: Option<Rate>) -> String {
    rate.map_or("unlimited".to_owned(), exact_text::rate)
}

pub(super) fn show_limit(limit: QueueLimit) -> String {
    match limit {
        QueueLimit::Bytes(bytes) => exact_text::bytes(bytes),
        QueueLimit::Packets(packets) => format!("{packets}packets"),
    }
}
