//! Filter rules in front of the link, one rule per setting.

use super::value;
use kumade_middlebox::{FilterRule, PacketMatch, RefusalKind, ResetScope};
use kumade_packet::protocol;

/// Each packet is compared with every rule.
const MAX_RULES: usize = 100;

const PROTOCOLS: [(&str, Option<u8>); 4] =
    [("all", None), ("tcp", Some(protocol::TCP)), ("udp", Some(protocol::UDP)), ("icmp", Some(protocol::ICMP))];

/// Appends a rule to each list; `rules none` removes all.
pub(super) fn set_rules<'r>(
    mut lists: impl Iterator<Item = &'r mut Vec<FilterRule>>,
    key: &str,
    text: &str,
) -> Result<(), String> {
    if key == "rules" {
        if text != "none" {
            return Err(format!(
                "expected `none`, not `{text}`: `rules none` removes all rules, `drop` and others add one"
            ));
        }
        lists.for_each(Vec::clear);
        return Ok(());
    }
    let rule = parse_rule(key, text)?;
    lists.try_for_each(|rules| {
        if rules.len() == MAX_RULES {
            return Err(format!("there are {MAX_RULES} rules already, the maximum; `rules none` removes them"));
        }
        rules.push(rule);
        Ok(())
    })
}

/// The rule as it is written.
pub(super) fn to_words(rule: &FilterRule) -> (&'static str, String) {
    let with =
        |number: String, refusal: RefusalKind| if refusal == RefusalKind::Reject { number + "/reject" } else { number };
    match *rule {
        FilterRule::Refuse { matching, refusal } => {
            let name = if refusal == RefusalKind::Drop { "drop" } else { "reject" };
            (name, show_match(matching))
        }
        FilterRule::AllowOnly { tcp_port, refusal } => ("allow-only", with(tcp_port.to_string(), refusal)),
        FilterRule::LimitConnections { max_connections, refusal } => {
            ("limit-connections", with(max_connections.to_string(), refusal))
        }
        FilterRule::LimitSyns { per_second, burst } => ("limit-syns", format!("{per_second}/{burst}")),
        FilterRule::ResetAfter { data_packets, scope: ResetScope::Connection } => {
            ("reset-after", data_packets.to_string())
        }
        FilterRule::ResetAfter { data_packets, scope: ResetScope::Total } => {
            ("reset-after", format!("{data_packets}/total"))
        }
    }
}

fn parse_rule(key: &str, text: &str) -> Result<FilterRule, String> {
    let (number, rest) = text.split_once('/').map_or((text, None), |(number, rest)| (number, Some(rest)));
    Ok(match key {
        "drop" => FilterRule::Refuse { matching: parse_match(number, rest)?, refusal: RefusalKind::Drop },
        "reject" => FilterRule::Refuse { matching: parse_match(number, rest)?, refusal: RefusalKind::Reject },
        "allow-only" => FilterRule::AllowOnly { tcp_port: parse_port(number)?, refusal: parse_refusal(rest)? },
        "limit-connections" => FilterRule::LimitConnections {
            max_connections: value::parse_number(number)?,
            refusal: parse_refusal(rest)?,
        },
        "limit-syns" => {
            let per_second = value::parse_number(number)?;
            FilterRule::LimitSyns { per_second, burst: rest.map_or(Ok(per_second), value::parse_number)? }
        }
        _ => {
            let scope = match rest {
                None => ResetScope::Connection,
                Some("total") => ResetScope::Total,
                Some(other) => {
                    return Err(format!("expected `/total`, which counts all connections together, not `/{other}`"));
                }
            };
            FilterRule::ResetAfter { data_packets: value::parse_number(number)?, scope }
        }
    })
}

fn parse_match(name: &str, to_port: Option<&str>) -> Result<PacketMatch, String> {
    let known = PROTOCOLS.iter().find(|(known, _)| *known == name);
    let (_, protocol) =
        known.ok_or_else(|| format!("expected all, tcp, udp, icmp, tcp/PORT or udp/PORT, not `{name}`"))?;
    if to_port.is_some() && !["tcp", "udp"].contains(&name) {
        return Err(format!("`{name}` has no ports; give tcp/PORT or udp/PORT"));
    }
    Ok(PacketMatch { protocol: *protocol, destination_port: to_port.map(parse_port).transpose()? })
}

fn show_match(matching: PacketMatch) -> String {
    let name = PROTOCOLS.iter().find(|(_, number)| *number == matching.protocol).map_or("all", |(name, _)| name);
    matching.destination_port.map_or(name.to_owned(), |port| format!("{name}/{port}"))
}

fn parse_port(text: &str) -> Result<u16, String> {
    text.parse().ok().filter(|port| *port > 0).ok_or_else(|| format!("`{text}` is not a port number from 1 to 65535"))
}

fn parse_refusal(text: Option<&str>) -> Result<RefusalKind, String> {
    match text {
        None => Ok(RefusalKind::Drop),
        Some("reject") => Ok(RefusalKind::Reject),
        Some(other) => Err(format!("expected `/reject`, which notifies the sender, not `/{other}`")),
    }
}
