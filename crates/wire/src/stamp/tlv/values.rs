//! The values of TLVs, octet by octet as RFC 8972 draws them.

use crate::preamble::to_array;
use crate::stamp::ClockFormat;
use kumade_packet::{DsField, Dscp, Ecn};
use kumade_units::Time;
use std::net::{IpAddr, Ipv4Addr, Ipv6Addr};

/// Class of Service (RFC 8972, 4.4, as its erratum 8199 has it), with what draft-ietf-ippm-stamp-cos-ecn puts in its reserved
/// octets, which a reflector of RFC 8972 alone leaves as zeroes: the ECN codepoint that the answer is to have.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct ClassOfService {
    /// DSCP1 and EC1: what the answer is to have in its IP header.
    pub requested: DsField,
    /// DSCP2 and EC2: what the probe had when it arrived at the reflector.
    pub arrived: DsField,
    /// RP: what has become of the DSCP that was asked for.
    pub reverse_dscp: ReverseDscp,
    /// RPE: what has become of the ECN codepoint that was asked for.
    pub reverse_ecn: ReverseEcn,
}

/// Whether the answer has the DSCP that the sender asked for.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub enum ReverseDscp {
    /// It has.
    #[default]
    AsRequested,
    /// The reflector's policy does not permit it: the answer has the DSCP with which the probe arrived.
    AsArrived,
    /// One of the two values that mean nothing.
    Reserved,
}

/// Whether the answer has the ECN codepoint that the sender asked for.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub enum ReverseEcn {
    /// The reflector does not say: it does not know the field.
    #[default]
    Unknown,
    /// It can't be set: the answer left as Not-ECT.
    NotEct,
    /// It has.
    AsRequested,
    /// The value that means nothing.
    Reserved,
}

impl ClassOfService {
    pub(super) const BYTES: usize = 4;

    /// A request for an answer with these in its IP header.
    pub fn request(requested: DsField) -> Self {
        ClassOfService { requested, ..ClassOfService::default() }
    }

    /// With what the answer has left; none for its ECN codepoint where the reflector doesn't say.
    pub fn sent_back(&self) -> (Option<Dscp>, Option<Ecn>) {
        let dscp = match self.reverse_dscp {
            ReverseDscp::AsRequested => Some(self.requested.dscp()),
            ReverseDscp::AsArrived => Some(self.arrived.dscp()),
            ReverseDscp::Reserved => None,
        };
        let ecn = match self.reverse_ecn {
            ReverseEcn::AsRequested => Some(self.requested.ecn()),
            ReverseEcn::NotEct => Some(Ecn::NotEct),
            ReverseEcn::Unknown | ReverseEcn::Reserved => None,
        };
        (dscp, ecn)
    }

    pub(super) fn encode(&self) -> [u8; Self::BYTES] {
        let rp = match self.reverse_dscp {
            ReverseDscp::AsRequested => 0b00,
            ReverseDscp::AsArrived => 0b01,
            ReverseDscp::Reserved => 0b10,
        };
        let rpe = match self.reverse_ecn {
            ReverseEcn::Unknown => 0b00,
            ReverseEcn::Reserved => 0b01,
            ReverseEcn::NotEct => 0b10,
            ReverseEcn::AsRequested => 0b11,
        };
        let (asked, came) = (self.requested, self.arrived);
        // Six bits of DSCP1, six of DSCP2, two each of EC2, RP, EC1 and RPE; twelve are reserved.
        let bits = u32::from(asked.dscp().number()) << 26
            | u32::from(came.dscp().number()) << 20
            | (came.ecn() as u32) << 18
            | rp << 16
            | (asked.ecn() as u32) << 14
            | rpe << 12;
        bits.to_be_bytes()
    }

    pub(super) fn decode(value: [u8; Self::BYTES]) -> Self {
        let bits = u32::from_be_bytes(value);
        let field = |dscp: u32, ecn: u32| {
            let dscp = Dscp::new((bits >> dscp) as u8 & Dscp::MAX).unwrap_or_default();
            DsField::new(dscp, Ecn::from_bits((bits >> ecn) as u8))
        };
        ClassOfService {
            requested: field(26, 14),
            arrived: field(20, 18),
            reverse_dscp: match bits >> 16 & 0b11 {
                0b00 => ReverseDscp::AsRequested,
                0b01 => ReverseDscp::AsArrived,
                _ => ReverseDscp::Reserved,
            },
            reverse_ecn: match bits >> 12 & 0b11 {
                0b00 => ReverseEcn::Unknown,
                0b01 => ReverseEcn::Reserved,
                0b10 => ReverseEcn::NotEct,
                _ => ReverseEcn::AsRequested,
            },
        }
    }
}

/// What a clock is set by (RFC 8972, 5.4).
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
#[repr(u8)]
pub enum SynchronisationSource {
    /// NTP.
    Ntp = 1,
    /// PTP.
    Ptp = 2,
    /// SSU/BITS: a synchronisation supply unit.
    Ssu = 3,
    /// A navigation system: GPS, GLONASS, LORAN-C, BDS, Galileo.
    Navigation = 4,
    /// None: the clock runs freely.
    Local = 5,
}

impl SynchronisationSource {
    /// None for a number that RFC 8972 does not define; zero is "not said".
    pub fn from_number(number: u8) -> Option<Self> {
        use SynchronisationSource::{Local, Navigation, Ntp, Ptp, Ssu};
        [Ntp, Ptp, Ssu, Navigation, Local].into_iter().find(|source| *source as u8 == number)
    }
}

/// How a stamp is taken (RFC 8972, 5.5).
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
#[repr(u8)]
pub enum TimestampMethod {
    /// By hardware, or with its help.
    Hardware = 1,
    /// By software on the same unit.
    Software = 2,
    /// By software that is away from the interface: a control plane.
    ControlPlane = 3,
}

impl TimestampMethod {
    /// None for a number that RFC 8972 does not define; zero is "not said".
    pub fn from_number(number: u8) -> Option<Self> {
        use TimestampMethod::{ControlPlane, Hardware, Software};
        [Hardware, Software, ControlPlane].into_iter().find(|method| *method as u8 == number)
    }
}

/// Timestamp Information (RFC 8972, 4.3). Each is none where the reflector doesn't say, or has a number that is not defined.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct TimestampInformation {
    /// What the clock of arrivals is set by.
    pub source_in: Option<SynchronisationSource>,
    /// How it is read when a probe arrives.
    pub method_in: Option<TimestampMethod>,
    /// What the clock of departures is set by.
    pub source_out: Option<SynchronisationSource>,
    /// How it is read when an answer leaves.
    pub method_out: Option<TimestampMethod>,
}

impl TimestampInformation {
    pub(super) const BYTES: usize = 4;

    pub(super) fn encode(&self) -> [u8; Self::BYTES] {
        let source = |source: Option<SynchronisationSource>| source.map_or(0, |source| source as u8);
        let method = |method: Option<TimestampMethod>| method.map_or(0, |method| method as u8);
        [source(self.source_in), method(self.method_in), source(self.source_out), method(self.method_out)]
    }

    pub(super) fn decode([source_in, method_in, source_out, method_out]: [u8; Self::BYTES]) -> Self {
        TimestampInformation {
            source_in: SynchronisationSource::from_number(source_in),
            method_in: TimestampMethod::from_number(method_in),
            source_out: SynchronisationSource::from_number(source_out),
            method_out: TimestampMethod::from_number(method_out),
        }
    }
}

/// Location (RFC 8972, 4.2): between which addresses and ports the probe came, as the reflector saw it. Each is none where the
/// reflector doesn't say.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct Location {
    /// The reflector's port.
    pub destination_port: Option<u16>,
    /// The sender's port.
    pub source_port: Option<u16>,
    /// The reflector's address.
    pub destination: Option<IpAddr>,
    /// The sender's address.
    pub source: Option<IpAddr>,
}

/// What a sub-TLV of a location is about (RFC 8972, 4.2.1): a sender asks by the general one, and the answer's is of the address's kind.
pub(super) mod location_part {
    pub const SOURCE_MAC: u8 = 1;
    pub const SOURCE_EUI_64: u8 = 3;
    pub const DESTINATION_IP: u8 = 4;
    pub const DESTINATION_IPV4: u8 = 5;
    pub const DESTINATION_IPV6: u8 = 6;
    pub const SOURCE_IP: u8 = 7;
    pub const SOURCE_IPV4: u8 = 8;
    pub const SOURCE_IPV6: u8 = 9;

    /// Octets of a hardware address's value.
    pub const MAC_BYTES: usize = 8;
    /// Octets of an IP address's value.
    pub const IP_BYTES: usize = 16;
}

impl Location {
    /// The two ports, which are followed by sub-TLVs.
    pub(super) const PORT_BYTES: usize = 4;

    /// An address that a sub-TLV of this kind has; none for zeroes.
    pub(super) fn decode_address(number: u8, value: &[u8]) -> Option<IpAddr> {
        use location_part::{DESTINATION_IPV4, DESTINATION_IPV6, IP_BYTES, SOURCE_IPV4, SOURCE_IPV6};
        let value: [u8; IP_BYTES] = *value.first_chunk()?;
        let address = match number {
            DESTINATION_IPV4 | SOURCE_IPV4 => IpAddr::V4(Ipv4Addr::from(to_array::<4>(&value[..4]))),
            DESTINATION_IPV6 | SOURCE_IPV6 => IpAddr::V6(Ipv6Addr::from(value)),
            _ => return None,
        };
        (!address.is_unspecified()).then_some(address)
    }
}

/// Direct Measurement (RFC 8972, 4.5): how many packets of the session each end has counted. They count from where the end
/// began, and wrap.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct DirectMeasurement {
    /// Sent by the sender, this probe included.
    pub sender_transmitted: u32,
    /// Received by the reflector, this probe included.
    pub reflector_received: u32,
    /// Sent by the reflector.
    pub reflector_transmitted: u32,
}

impl DirectMeasurement {
    pub(super) const BYTES: usize = 12;

    pub(super) fn encode(&self) -> [u8; Self::BYTES] {
        let counts = [self.sender_transmitted, self.reflector_received, self.reflector_transmitted];
        let mut value = [0; Self::BYTES];
        for (octets, count) in value.chunks_exact_mut(4).zip(counts) {
            octets.copy_from_slice(&count.to_be_bytes());
        }
        value
    }

    pub(super) fn decode(value: [u8; Self::BYTES]) -> Self {
        let count = |from: usize| u32::from_be_bytes(to_array(&value[from..from + 4]));
        DirectMeasurement {
            sender_transmitted: count(0),
            reflector_received: count(4),
            reflector_transmitted: count(8),
        }
    }
}

/// Access Report (RFC 8972, 4.6): a sender says whether one of its access networks can be used.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct AccessReport {
    /// 1 for a 3GPP network, 2 for another; no other number is valid.
    pub access_id: u8,
    /// 1 where it can be used, 2 where not.
    pub return_code: u8,
}

impl AccessReport {
    pub(super) const BYTES: usize = 4;

    pub(super) fn encode(&self) -> [u8; Self::BYTES] {
        [self.access_id << 4, self.return_code, 0, 0]
    }

    pub(super) fn decode([id, return_code, ..]: [u8; Self::BYTES]) -> Self {
        AccessReport { access_id: id >> 4, return_code }
    }

    /// "A TLV that contains values other than '1' or '2' MUST be discarded."
    pub(super) fn is_valid(&self) -> bool {
        matches!(self.access_id, 1 | 2)
    }
}

/// Follow-Up Telemetry (RFC 8972, 4.7, as its erratum 8339 has it): when the session's answer before this one left.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct FollowUpTelemetry {
    /// The number of that answer.
    pub sequence: u32,
    /// When it left, by the reflector's clock.
    pub reflected: Time,
    /// How that is known; none where the reflector does not say.
    pub method: Option<TimestampMethod>,
}

impl FollowUpTelemetry {
    pub(super) const BYTES: usize = 16;

    pub(super) fn encode(&self, format: ClockFormat) -> [u8; Self::BYTES] {
        let mut value = [0; Self::BYTES];
        value[..4].copy_from_slice(&self.sequence.to_be_bytes());
        value[4..12].copy_from_slice(&format.encode(self.reflected));
        value[12] = self.method.map_or(0, |method| method as u8);
        value
    }

    /// None where the reflector knows of no answer: the stamp is zero.
    pub(super) fn decode(value: [u8; Self::BYTES], format: ClockFormat) -> Option<Self> {
        let stamp: [u8; 8] = to_array(&value[4..12]);
        (stamp != [0; 8]).then(|| FollowUpTelemetry {
            sequence: u32::from_be_bytes(to_array(&value[..4])),
            reflected: format.decode(stamp),
            method: TimestampMethod::from_number(value[12]),
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    /// DSCP1 | DSCP2 | EC2 | RP | EC1 | RPE | reserved, six, six and two bits each.
    #[test]
    #[expect(clippy::unusual_byte_groupings, reason = "the fields, one by one")]
    fn class_of_service_stands_on_the_wire_as_it_is_drawn() {
        let field = |dscp, ecn| DsField::new(Dscp::new(dscp).unwrap(), ecn);
        let value = ClassOfService {
            requested: field(0b101110, Ecn::Ect1),
            arrived: field(0b001010, Ecn::Ce),
            reverse_dscp: ReverseDscp::AsArrived,
            reverse_ecn: ReverseEcn::AsRequested,
        };
        let bits = 0b101110_001010_11_01_01_11_000000000000_u32;
        assert_eq!(value.encode(), bits.to_be_bytes());
        assert_eq!(value.sent_back(), (Dscp::new(0b001010), Some(Ecn::Ect1)));
        let asked = ClassOfService::request(field(46, Ecn::Ect0));
        assert_eq!(asked.encode(), (0b101110_000000_00_00_10_00_000000000000_u32).to_be_bytes());
        assert_eq!(asked.sent_back(), (Dscp::new(46), None), "a reflector of RFC 8972 alone says nothing of ECN");
    }

    #[test]
    fn what_an_access_network_is_like_stands_in_four_bits_and_an_octet() {
        let report = AccessReport { access_id: 2, return_code: 1 };
        assert_eq!(report.encode(), [0x20, 1, 0, 0]);
        assert!(report.is_valid() && !AccessReport { access_id: 3, ..report }.is_valid());
        assert!(!AccessReport::decode([0x0f, 1, 0, 0]).is_valid());
    }

    #[test]
    fn an_answer_that_left_is_told_from_none() {
        let reflected = Time::from_nanos(1_763_000_000_123_456_789);
        for format in [ClockFormat::Ntp, ClockFormat::Ptp] {
            let left = FollowUpTelemetry { sequence: 7, reflected, method: Some(TimestampMethod::Software) };
            assert_eq!(FollowUpTelemetry::decode(left.encode(format), format), Some(left));
            assert_eq!(FollowUpTelemetry::decode([0; 16], format), None);
        }
    }

    proptest! {
        /// Whatever stands in the reserved bits is ignored.
        #[test]
        fn any_octets_are_read_and_written_alike(bits: u32, octets: [u8; 12]) {
            let value = ClassOfService::decode(bits.to_be_bytes());
            prop_assert_eq!(ClassOfService::decode(value.encode()), value);
            prop_assert_eq!(u32::from_be_bytes(value.encode()) & 0xfff, 0);
            prop_assert_eq!(DirectMeasurement::decode(octets).encode(), octets);
            let information = TimestampInformation::decode(bits.to_be_bytes());
            prop_assert_eq!(TimestampInformation::decode(information.encode()), information);
            let report = AccessReport::decode(bits.to_be_bytes());
            prop_assert_eq!(AccessReport::decode(report.encode()), report);
        }
    }
}
