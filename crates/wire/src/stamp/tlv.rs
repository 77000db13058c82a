//! STAMP's optional extensions (RFC 8972, 4): flags, type, length and value, which follow the packet itself.
//!
//! Whoever reads them looks at the octets where they are: nothing is copied, and nothing is kept of what a peer sends.

mod reflected;
mod reflection;
mod request;
mod values;

pub use reflected::{ExtensionsError, ReflectedTlvs, read_reflected_tlvs};
pub use reflection::{ProbeFacts, ProbeLocation, reflect_tlvs};
pub use request::TlvRequest;
pub use values::{
    AccessReport, ClassOfService, DirectMeasurement, FollowUpTelemetry, Location, ReverseDscp, ReverseEcn,
    SynchronisationSource, TimestampInformation, TimestampMethod,
};

/// Flags, type and length.
pub const TLV_HEADER_BYTES: usize = 4;

/// What a TLV is about (RFC 8972, 5.1).
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
#[repr(u8)]
pub enum TlvType {
    /// Octets that mean nothing, so that packets have a size (4.1).
    ExtraPadding = 1,
    /// Between which addresses and ports the probe came (4.2).
    Location = 2,
    /// How the reflector's clock is set and read (4.3).
    TimestampInformation = 3,
    /// DSCP and ECN (4.4).
    ClassOfService = 4,
    /// How many packets each end counts (4.5).
    DirectMeasurement = 5,
    /// Whether an access network can be used (4.6).
    AccessReport = 6,
    /// When the answer before this one left (4.7).
    FollowUpTelemetry = 7,
    /// What authenticates the TLVs before it (4.8).
    Hmac = 8,
}

impl TlvType {
    const ALL: [TlvType; 8] = [
        TlvType::ExtraPadding,
        TlvType::Location,
        TlvType::TimestampInformation,
        TlvType::ClassOfService,
        TlvType::DirectMeasurement,
        TlvType::AccessReport,
        TlvType::FollowUpTelemetry,
        TlvType::Hmac,
    ];

    /// The type of this number; none for those that RFC 8972 does not define.
    pub fn from_number(number: u8) -> Option<Self> {
        Self::ALL.into_iter().find(|kind| *kind as u8 == number)
    }

    /// Its name in the registry.
    pub fn name(self) -> &'static str {
        match self {
            TlvType::ExtraPadding => "Extra Padding",
            TlvType::Location => "Location",
            TlvType::TimestampInformation => "Timestamp Information",
            TlvType::ClassOfService => "Class of Service",
            TlvType::DirectMeasurement => "Direct Measurement",
            TlvType::AccessReport => "Access Report",
            TlvType::FollowUpTelemetry => "Follow-Up Telemetry",
            TlvType::Hmac => "HMAC",
        }
    }

    /// Whether a value may have so many octets.
    fn allows_length(self, octets: usize) -> bool {
        match self {
            TlvType::ExtraPadding => true,
            TlvType::Location => octets >= Location::PORT_BYTES,
            TlvType::TimestampInformation => octets == TimestampInformation::BYTES,
            TlvType::ClassOfService => octets == ClassOfService::BYTES,
            TlvType::DirectMeasurement => octets == DirectMeasurement::BYTES,
            TlvType::AccessReport => octets == AccessReport::BYTES,
            TlvType::FollowUpTelemetry => octets == FollowUpTelemetry::BYTES,
            TlvType::Hmac => octets == super::authenticated::HMAC_BYTES,
        }
    }
}

/// What is said about a TLV (RFC 8972, 4), as bits of its first octet.
pub mod flags {
    /// The reflector has not understood it; senders set it, so that one that does not know TLVs at all says the same.
    pub const UNRECOGNISED: u8 = 0x80;
    /// Its length is none for its type, or goes beyond the packet.
    pub const MALFORMED: u8 = 0x40;
    /// Its authentication has failed.
    pub const INTEGRITY_FAILED: u8 = 0x20;
}

/// Where a TLV stands among others.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
struct TlvSpan {
    /// Of its first octet.
    offset: usize,
    /// The number of its type; zero, which is reserved, where the packet ends before.
    number: u8,
    /// Octets of its value; none where they, or what stands before them, go beyond the packet.
    value_bytes: Option<usize>,
}

impl TlvSpan {
    fn kind(self) -> Option<TlvType> {
        TlvType::from_number(self.number)
    }

    fn value(self) -> Option<std::ops::Range<usize>> {
        let start = self.offset + TLV_HEADER_BYTES;
        self.value_bytes.map(|bytes| start..start + bytes)
    }

    /// Whether the length is one of its type, as far as the type is known.
    fn has_valid_length(self) -> bool {
        let Some(bytes) = self.value_bytes else { return false };
        self.kind().is_none_or(|kind| kind.allows_length(bytes))
    }
}

/// The TLV that begins there; none at the end.
fn tlv_span_at(octets: &[u8], offset: usize) -> Option<TlvSpan> {
    let rest = octets.get(offset..).filter(|rest| !rest.is_empty())?;
    let value_bytes = rest
        .first_chunk()
        .map(|&[_, _, high, low]: &[u8; TLV_HEADER_BYTES]| usize::from(u16::from_be_bytes([high, low])))
        .filter(|bytes| TLV_HEADER_BYTES + bytes <= rest.len());
    Some(TlvSpan { offset, number: rest.get(1).copied().unwrap_or(0), value_bytes })
}

/// The TLVs in these octets, in order; behind one that goes beyond the end, there is none.
fn tlv_spans(octets: &[u8]) -> impl Iterator<Item = TlvSpan> {
    let mut next = Some(0);
    std::iter::from_fn(move || {
        let span = tlv_span_at(octets, next?)?;
        next = span.value().map(|value| value.end);
        Some(span)
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn types_have_the_numbers_of_the_registry() {
        for number in 0..=u8::MAX {
            assert_eq!(
                TlvType::from_number(number).map(|kind| kind as u8),
                (1..=8).contains(&number).then_some(number)
            );
        }
    }

    #[test]
    fn tlvs_follow_each_other_until_one_goes_beyond_the_end() {
        let octets = [0x80, 1, 0, 1, 7, 0, 99, 0, 0, 0, 4, 0, 4, 1, 2];
        let spans: Vec<_> = tlv_spans(&octets).collect();
        let span = |offset, number, value_bytes| TlvSpan { offset, number, value_bytes };
        assert_eq!(spans, [span(0, 1, Some(1)), span(5, 99, Some(0)), span(9, 4, None)]);
        assert_eq!(spans.iter().map(|span| span.has_valid_length()).collect::<Vec<_>>(), [true, true, false]);
        assert_eq!(tlv_spans(&[0x80]).collect::<Vec<_>>(), [span(0, 0, None)]);
        assert_eq!(tlv_spans(&[]).count(), 0);
    }
}
