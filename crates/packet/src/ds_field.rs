//! The octet of an IP header that says how a packet is to be treated: DSCP (RFC 2474) and ECN (RFC 3168).

use crate::ecn::{self, Ecn};
use std::fmt;
use std::str::FromStr;
use thiserror::Error;

/// A differentiated services codepoint: 0 to 63.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Default)]
pub struct Dscp(u8);

/// The octet: IPv4's Type of Service, IPv6's Traffic Class.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Default)]
pub struct DsField(u8);

/// A text that is no DSCP.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Error)]
#[error("a DSCP is a number from 0 to 63, or a name: cs0 to cs7, af11 to af43, ef, le")]
pub struct ParseDscpError;

impl Dscp {
    /// The highest.
    pub const MAX: u8 = 63;

    /// The codepoint of this number; none above [`MAX`](Self::MAX).
    pub fn new(number: u8) -> Option<Self> {
        (number <= Self::MAX).then_some(Dscp(number))
    }

    /// Its number.
    pub fn number(self) -> u8 {
        self.0
    }

    /// Its name in IANA's registry: class selectors (RFC 2474), assured forwarding (RFC 2597), expedited forwarding (RFC 3246), voice admit
    /// (RFC 5865), lower effort (RFC 8622), non-queue-building (draft-ietf-tsvwg-nqb); none for others.
    pub fn name(self) -> Option<String> {
        let (class, rest) = (self.0 >> 3, self.0 & 0b111);
        match (self.0, class, rest) {
            (1, ..) => Some("LE".to_owned()),
            (44, ..) => Some("VOICE-ADMIT".to_owned()),
            (45, ..) => Some("NQB".to_owned()),
            (46, ..) => Some("EF".to_owned()),
            (_, class, 0) => Some(format!("CS{class}")),
            (_, 1..=4, 2 | 4 | 6) => Some(format!("AF{class}{}", rest / 2)),
            _ => None,
        }
    }
}

impl fmt::Display for Dscp {
    /// The number.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.0.fmt(f)
    }
}

impl FromStr for Dscp {
    type Err = ParseDscpError;

    /// A number, or a name of IANA's registry: class selectors (RFC 2474), assured forwarding (RFC 2597), expedited forwarding
    /// (RFC 3246), lower effort (RFC 8622).
    fn from_str(text: &str) -> Result<Self, ParseDscpError> {
        let name = text.to_ascii_lowercase();
        let digit = |digit: u8, most: u8| Some(digit.wrapping_sub(b'0')).filter(|value| *value <= most);
        let number = match name.as_bytes() {
            b"ef" => Some(46),
            b"le" => Some(1),
            &[b'c', b's', class] => digit(class, 7).map(|class| class << 3),
            &[b'a', b'f', class, drop] => {
                let class = digit(class, 4).filter(|class| *class > 0);
                let drop = digit(drop, 3).filter(|drop| *drop > 0);
                class.zip(drop).map(|(class, drop)| class << 3 | drop << 1)
            }
            _ => name.parse().ok(),
        };
        number.and_then(Dscp::new).ok_or(ParseDscpError)
    }
}

impl DsField {
    /// Of these parts.
    pub fn new(dscp: Dscp, ecn: Ecn) -> Self {
        DsField(dscp.0 << 2 | ecn as u8)
    }

    /// As it stands in a header.
    pub fn from_octet(octet: u8) -> Self {
        DsField(octet)
    }

    /// That of an IP packet; zero for other bytes.
    pub fn read(packet: &[u8]) -> Self {
        match packet {
            [first, second, ..] if first >> 4 == 4 => DsField(*second),
            [first, second, ..] if first >> 4 == 6 => DsField(first << 4 | second >> 4),
            _ => DsField(0),
        }
    }

    /// Writes it into an IP packet and updates the IPv4 header checksum; false where the bytes are not an IP packet.
    pub fn write(self, packet: &mut [u8]) -> bool {
        ecn::set_octet_bits(packet, u8::MAX, self.0)
    }

    /// Its first six bits.
    pub fn dscp(self) -> Dscp {
        Dscp(self.0 >> 2)
    }

    /// Its last two bits.
    pub fn ecn(self) -> Ecn {
        Ecn::from_bits(self.0)
    }

    /// As it stands in a header.
    pub fn octet(self) -> u8 {
        self.0
    }
}

impl From<Ecn> for DsField {
    /// With DSCP zero.
    fn from(ecn: Ecn) -> Self {
        DsField::new(Dscp::default(), ecn)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::{checksum, samples};
    use proptest::prelude::*;

    #[test]
    fn codepoints_have_numbers_and_names() {
        for (text, number) in [
            ("0", 0),
            ("46", 46),
            ("63", 63),
            ("ef", 46),
            ("EF", 46),
            ("cs0", 0),
            ("CS6", 48),
            ("af11", 10),
            ("af43", 38),
            ("le", 1),
        ] {
            assert_eq!(text.parse::<Dscp>().map(Dscp::number), Ok(number), "{text}");
        }
        for bad in ["", "64", "-1", "cs8", "cs", "af10", "af44", "af50", "af01", "af111", "0x2e", "best"] {
            assert_eq!(bad.parse::<Dscp>(), Err(ParseDscpError), "{bad}");
        }
    }

    #[test]
    fn names_are_those_of_the_registry() {
        let name = |number| Dscp::new(number).unwrap().name();
        let named: Vec<_> = (0..=Dscp::MAX).filter_map(name).collect();
        assert_eq!(named.len(), 8 + 12 + 4, "{named:?}");
        for (number, expected) in
            [(0, "CS0"), (56, "CS7"), (10, "AF11"), (38, "AF43"), (46, "EF"), (1, "LE"), (45, "NQB")]
        {
            assert_eq!(name(number).unwrap(), expected);
        }
        for text in named.iter().filter(|text| !["VOICE-ADMIT", "NQB"].contains(&text.as_str())) {
            assert_eq!(text.parse::<Dscp>().unwrap().name().as_ref(), Some(text));
        }
        assert_eq!([4, 42, 63].map(name), [None, None, None]);
    }

    #[test]
    fn the_field_is_read_from_either_version_of_ip() {
        let field = DsField::new("ef".parse().unwrap(), Ecn::Ect0);
        assert_eq!(field.octet(), 0xba);
        for packet in [[0x45, 0xba, 0, 0], [0x6b, 0xa0, 0, 0]] {
            let read = DsField::read(&packet);
            assert_eq!((read, read.dscp().number(), read.ecn()), (field, 46, Ecn::Ect0));
            assert_eq!(read.ecn(), crate::ecn::read(&packet));
        }
        assert_eq!([&[][..], &[0x45], &[0x05, 0xba]].map(DsField::read), [DsField::default(); 3]);
    }

    proptest! {
        #[test]
        fn a_field_that_is_written_is_read_and_the_rest_of_the_packet_stays(
            (packet, _) in samples::any_packet(), octets: [u8; 2]
        ) {
            let mut written = packet.clone();
            for octet in octets {
                prop_assert!(DsField(octet).write(&mut written));
                prop_assert_eq!(DsField::read(&written).octet(), octet);
                prop_assert_eq!(checksum::is_valid(&written), Ok(true));
            }
            prop_assert!(DsField::read(&packet).write(&mut written));
            prop_assert_eq!(written, packet);
        }
    }
}
