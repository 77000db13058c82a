//! Whether an address translator is on the path (RFC 4787).

use super::facts::MappingFacts;
use super::mapping;
use crate::report::AddressReport;
use std::net::SocketAddr;

/// Of this host's address here, and as the far end sees it; `is_destination_kept`: whether the far end has the address that this host has
/// connected to.
pub(super) fn report_address(
    local: SocketAddr,
    seen: SocketAddr,
    is_destination_kept: Option<bool>,
    mapping: Option<&MappingFacts>,
) -> AddressReport {
    AddressReport {
        local,
        seen,
        is_translated: local.ip().to_canonical() != seen.ip().to_canonical(),
        is_port_preserved: local.port() == seen.port(),
        is_far_end_translated: is_destination_kept.map(|is_kept| !is_kept),
        mapping: mapping.and_then(|facts| mapping::mapping(facts).0),
        filtering: mapping.and_then(mapping::filtering),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_mapped_address_is_no_translated_one() {
        let report = |local: &str, seen: &str| {
            let found = report_address(local.parse().unwrap(), seen.parse().unwrap(), None, None);
            (found.is_translated, found.is_port_preserved)
        };
        assert_eq!(report("192.0.2.1:4000", "192.0.2.1:4000"), (false, true));
        assert_eq!(report("[::ffff:192.0.2.1]:4000", "192.0.2.1:4000"), (false, true));
        assert_eq!(report("10.0.0.7:4000", "192.0.2.1:4000"), (true, true));
        assert_eq!(report("10.0.0.7:4000", "192.0.2.1:1024"), (true, false));
    }
}
