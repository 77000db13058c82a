//! Filter rules in front of the link, one rule per setting.

use super::value;
use kumade_middlebox::{Match, Refusal, ResetScope, Rule};
use kumade_packet::protocol;

/// Each packet is compared with every rule.
const MAX_RULES: usize = 100;

const PROTOCOLS: [(&str, Option<u8>); 4] =
    [("all", None), ("tcp", Some(protocol::TCP)), ("udp", Some(protocol::UDP)), ("icmp", Some(protocol::ICMP))];

/// Appends a rule to each list; `rules none` removes all.
pub(super) fn set<'r>(mut lists: impl Iterator<Item = &'r mut Vec<Rule>>, key: &str, text: &str) -> Result<(), String> {
    if key == "rules" {
        if text != "none" {
            return Err(format!(
                "expected `none`, not `{text}`: `rules none` removes all rules, `drop` and others add one"
            ));
        }
        lists.for_each(Vec::clear);
        return Ok(());
    }
    let rule = read(key, text)?;
    lists.try_for_each(|rules| {
        if rules.len() == MAX_RULES {
            return Err(format!("there are {MAX_RULES} rules already, the maximum; `rules none` removes them"));
        }
        rules.push(rule);
        Ok(())
    })
}

/// The rule as it is written.
pub(super) fn words(rule: &Rule) -> (&'static str, String) {
    let with = |number: String, refusal: Refusal| if refusal == Refusal::Reject { number + "/reject" } else { number };
    match *rule {
        Rule::Refuse { matching, refusal } => {
            let name = if refusal == Refusal::Drop { "drop" } else { "reject" };
            (name, show_match(matching))
        }
        Rule::AllowOnly { tcp_port, refusal } => ("allow-only", with(tcp_port.to_string(), refusal)),
        Rule::LimitConnections { max_connections, refusal } => {
            ("limit-connections", with(max_connections.to_string(), refusal))
        }
        Rule::LimitSyns { per_second, burst } => ("limit-syns", format!("{per_second}/{burst}")),
        Rule::ResetAfter { data_packets, scope: ResetScope::Connection } => ("reset-after", data_packets.to_string()),
        Rule::ResetAfter { data_packets, scope: ResetScope::Total } => ("reset-after", format!("{data_packets}/total")),
    }
}

fn read(key: &str, text: &str) -> Result<Rule, String> {
    let (number, rest) = text.split_once('/').map_or((text, None), |(number, rest)| (number, Some(rest)));
    Ok(match key {
        "drop" => Rule::Refuse { matching: read_match(number, rest)?, refusal: Refusal::Drop },
        "reject" => Rule::Refuse { matching: read_match(number, rest)?, refusal: Refusal::Reject },
        "allow-only" => Rule::AllowOnly { tcp_port: port(number)?, refusal: refusal(rest)? },
        "limit-connections" => {
            Rule::LimitConnections { max_connections: value::number(number)?, refusal: refusal(rest)? }
        }
        "limit-syns" => {
            let per_second = value::number(number)?;
            Rule::LimitSyns { per_second, burst: rest.map_or(Ok(per_second), value::number)? }
        }
        _ => {
            let scope = match rest {
                None => ResetScope::Connection,
                Some("total") => ResetScope::Total,
                Some(other) => {
                    return Err(format!("expected `/total`, which counts all connections together, not `/{other}`"));
                }
            };
            Rule::ResetAfter { data_packets: value::number(number)?, scope }
        }
    })
}

fn read_match(name: &str, to_port: Option<&str>) -> Result<Match, String> {
    let known = PROTOCOLS.iter().find(|(known, _)| *known == name);
    let (_, protocol) =
        known.ok_or_else(|| format!("expected all, tcp, udp, icmp, tcp/PORT or udp/PORT, not `{name}`"))?;
    if to_port.is_some() && !["tcp", "udp"].contains(&name) {
        return Err(format!("`{name}` has no ports; give tcp/PORT or udp/PORT"));
    }
    Ok(Match { protocol: *protocol, destination_port: to_port.map(port).transpose()? })
}

fn show_match(matching: Match) -> String {
    let name = PROTOCOLS.iter().find(|(_, number)| *number == matching.protocol).map_or("all", |(name, _)| name);
    matching.destination_port.map_or(name.to_owned(), |port| format!("{name}/{port}"))
}

fn port(text: &str) -> Result<u16, String> {
    text.parse().ok().filter(|port| *port > 0).ok_or_else(|| format!("`{text}` is not a port number from 1 to 65535"))
}

fn refusal(text: Option<&str>) -> Result<Refusal, String> {
    match text {
        None => Ok(Refusal::Drop),
        Some("reject") => Ok(Refusal::Reject),
        Some(other) => Err(format!("expected `/reject`, which notifies the sender, not `/{other}`")),
    }
}
