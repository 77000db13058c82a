use kumade_packet::{DsField, Dscp, ParseDscpError};
use std::fmt;
use std::str::FromStr;
use thiserror::Error;

/// Which DSCP the packets between the ends have (RFC 2983, 4). Where they arrive, it is not looked at: packets leave a tunnel with
/// the DSCP that they had. ECN is not concerned (RFC 6040).
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub enum OuterDscp {
    /// Zero: nobody on the path learns how packets in the tunnel are marked.
    #[default]
    Zero,
    /// This one, of all.
    Fixed(Dscp),
    /// That of the packet inside, so that networks on the path treat it as it wants, and whoever is there learns how it is marked.
    /// What the ends say themselves has zero, as TCP connections have, which carry packets of any.
    Inherit,
}

/// A text that is no [`OuterDscp`].
#[derive(Debug, Clone, Copy, PartialEq, Eq, Error)]
#[error("write `inherit`, for that of the packet inside, or a DSCP for all; {0}")]
pub struct ParseOuterDscpError(#[source] ParseDscpError);

impl OuterDscp {
    /// The field of a datagram around a packet with this one.
    pub(crate) fn outer_field(self, inner: DsField) -> DsField {
        let dscp = match self {
            OuterDscp::Zero => Dscp::default(),
            OuterDscp::Fixed(dscp) => dscp,
            OuterDscp::Inherit => inner.dscp(),
        };
        DsField::new(dscp, inner.ecn())
    }

    /// The DSCP of TCP connections, which carry packets of any.
    pub fn connection_dscp(self) -> Dscp {
        match self {
            OuterDscp::Fixed(dscp) => dscp,
            OuterDscp::Zero | OuterDscp::Inherit => Dscp::default(),
        }
    }
}

impl fmt::Display for OuterDscp {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            OuterDscp::Zero => Dscp::default().fmt(f),
            OuterDscp::Fixed(dscp) => dscp.fmt(f),
            OuterDscp::Inherit => f.write_str("inherit"),
        }
    }
}

impl FromStr for OuterDscp {
    type Err = ParseOuterDscpError;

    /// `inherit`, or a [`Dscp`].
    fn from_str(text: &str) -> Result<Self, ParseOuterDscpError> {
        if text == "inherit" {
            return Ok(OuterDscp::Inherit);
        }
        text.parse().map(OuterDscp::Fixed).map_err(ParseOuterDscpError)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use kumade_packet::Ecn;

    #[test]
    fn the_field_outside_has_the_dscp_that_is_asked_for_and_always_the_ecn_inside() {
        let [ef, af11] = ["ef", "af11"].map(|name| name.parse::<Dscp>().unwrap());
        let inner = DsField::new(af11, Ecn::Ect1);
        for (setting, outer, connection) in [
            (OuterDscp::default(), Dscp::default(), Dscp::default()),
            (OuterDscp::Fixed(ef), ef, ef),
            (OuterDscp::Inherit, af11, Dscp::default()),
        ] {
            assert_eq!(setting.outer_field(inner), DsField::new(outer, Ecn::Ect1));
            assert_eq!(setting.connection_dscp(), connection);
        }
        assert_eq!(["inherit", "46"].map(str::parse), [Ok(OuterDscp::Inherit), Ok(OuterDscp::Fixed(ef))]);
        assert!("yes".parse::<OuterDscp>().unwrap_err().to_string().contains("write `inherit`"));
    }
}
