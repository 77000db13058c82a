use crate::outer_dscp::OuterDscp;
use kumade_daemon::{ConfigFault, NumberOrText};
use std::ops::RangeInclusive;
use toml::Spanned;

/// The name of the TUN device where none is given.
pub const DEFAULT_DEVICE: &str = "kumade0";
/// What IPv6 needs (RFC 8200 §5), and what a TUN device takes.
const VALID_MTUS: RangeInclusive<u16> = 1280..=9000;

/// The MTU of the TUN device, as a configuration file has it.
///
/// # Errors
/// The device cannot have it.
pub fn validate_mtu(mtu: Option<&Spanned<u16>>) -> Result<Option<u16>, ConfigFault> {
    if let Some(mtu) = mtu.filter(|mtu| !VALID_MTUS.contains(mtu.get_ref())) {
        let problem = format!("an MTU is from {} to {} bytes", VALID_MTUS.start(), VALID_MTUS.end());
        return Err(ConfigFault::new(mtu.span(), problem));
    }
    Ok(mtu.map(|mtu| *mtu.get_ref()))
}

/// The DSCP of the packets between the ends, as a configuration file has it.
///
/// # Errors
/// It is none.
pub fn parse_outer_dscp(dscp: Option<&Spanned<NumberOrText>>) -> Result<OuterDscp, ConfigFault> {
    let Some(dscp) = dscp else { return Ok(OuterDscp::default()) };
    let parsed = dscp.get_ref().to_string().parse::<OuterDscp>();
    parsed.map_err(|error| ConfigFault::new(dscp.span(), format!("dscp: {error}")))
}
