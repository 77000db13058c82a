//! Lists of ports on the command line.

use std::fmt;
use std::ops::RangeInclusive;
use std::str::FromStr;

/// Ports and ranges of them, such as `53,443,5060-5070`.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct PortRanges(pub(crate) Vec<RangeInclusive<u16>>);

impl PortRanges {
    /// Each port once, in rising order.
    pub(crate) fn ports(&self) -> Vec<u16> {
        let mut ports: Vec<u16> = self.0.iter().cloned().flatten().collect();
        ports.sort_unstable();
        ports.dedup();
        ports
    }
}

impl FromStr for PortRanges {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, String> {
        let port = |text: &str| match text.trim().parse::<u16>() {
            Ok(port) if port > 0 => Ok(port),
            _ => Err(format!("`{text}` is not a port: use 1 to 65535, and a list such as 53,443,5060-5070")),
        };
        let range = |text: &str| {
            let (first, last) = text.split_once('-').unwrap_or((text, text));
            let (first, last) = (port(first)?, port(last)?);
            if first > last {
                return Err(format!("`{text}` ends before it begins"));
            }
            Ok(first..=last)
        };
        text.split(',').map(range).collect::<Result<_, _>>().map(PortRanges)
    }
}

impl fmt::Display for PortRanges {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let text = |range: &RangeInclusive<u16>| match range.start() == range.end() {
            true => range.start().to_string(),
            false => format!("{}-{}", range.start(), range.end()),
        };
        f.write_str(&self.0.iter().map(text).collect::<Vec<_>>().join(","))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn ports_and_ranges_are_read() {
        let ports: PortRanges = "443,5060-5062,53,5061".parse().unwrap();
        assert_eq!(ports.ports(), [53, 443, 5060, 5061, 5062]);
        assert_eq!(ports.to_string(), "443,5060-5062,53,5061");
        assert_eq!("65535".parse::<PortRanges>().unwrap().ports(), [65535]);
        for bad in ["", "0", "1-0", "70-60", "a", "1-2-3", "53,", "65536", "-5"] {
            assert!(bad.parse::<PortRanges>().is_err(), "{bad}");
        }
    }
}
