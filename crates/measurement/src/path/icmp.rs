//! What ICMP errors are called.

use kumade_probe_train::HopAnswer;

/// What a router says, in words.
pub(super) fn icmp_name(answer: &HopAnswer) -> String {
    let HopAnswer { is_v6, icmp_type, icmp_code, .. } = *answer;
    let name = match (is_v6, icmp_type, icmp_code) {
        (false, 11, _) | (true, 3, _) => "time exceeded",
        // RFC 792, RFC 1812.
        (false, 3, 0) | (true, 1, 0) => "network unreachable",
        (false, 3, 1) | (true, 1, 3) => "host unreachable",
        (false, 3, 3) | (true, 1, 4) => "port unreachable",
        (false, 3, 9 | 10 | 13) | (true, 1, 1) => "administratively prohibited",
        // RFC 4443.
        (true, 1, 5) => "source address refused",
        (true, 1, 6) => "route refused",
        _ => {
            let version = if is_v6 { "ICMPv6" } else { "ICMP" };
            return format!("{version} type {icmp_type}, code {icmp_code}");
        }
    };
    name.to_owned()
}

#[cfg(test)]
mod tests {
    use super::*;
    use kumade_units::Span;

    #[test]
    fn names_are_those_of_the_rfcs() {
        let name = |is_v6, icmp_type, icmp_code| {
            let (from, round_trip, quoted_ds_field) = (None, Span::ZERO, None);
            icmp_name(&HopAnswer { index: 0, from, is_v6, icmp_type, icmp_code, round_trip, quoted_ds_field })
        };
        assert_eq!([name(false, 11, 0), name(true, 3, 0)], ["time exceeded"; 2]);
        assert_eq!([name(false, 3, 13), name(true, 1, 1)], ["administratively prohibited"; 2]);
        assert_eq!(name(false, 3, 15), "ICMP type 3, code 15");
    }
}
