//! A classifier in words: `tcp dport 5201`, `udp src 10.0.0.0/24 dport 1000-2000`. Knows the words;
//! refuses to know what a classifier does.

use ipnet::IpNet;
use serde_json::{Map, Value, json};
use std::net::IpAddr;

/// What a classifier may say, for whoever said something else.
const GRAMMAR: &str = "use tcp, udp or icmp; ipv4 or ipv6; sport and dport with N, N-M, N- or -M; \
                       src and dst with an address or prefix";

/// The attributes that words stand for.
///
/// # Errors
/// A word that means nothing, said twice, or without what must follow it.
pub(super) fn fields(text: &str) -> Result<Map<String, Value>, String> {
    let mut fields = Map::new();
    let mut words = text.split_whitespace();
    while let Some(word) = words.next() {
        let mut argument = || words.next().ok_or_else(|| format!("'{word}' needs a value"));
        let said = match word {
            "tcp" | "udp" | "icmp" => vec![("protocol".to_owned(), json!(word))],
            "ipv4" => vec![("ethertype".to_owned(), json!("IPv4"))],
            "ipv6" => vec![("ethertype".to_owned(), json!("IPv6"))],
            "sport" => ports("source_port", argument()?)?,
            "dport" => ports("destination_port", argument()?)?,
            "src" => prefix("source_ip_prefix", argument()?, &mut fields)?,
            "dst" => prefix("destination_ip_prefix", argument()?, &mut fields)?,
            other => return Err(format!("'{other}' means nothing in a classifier; {GRAMMAR}")),
        };
        for (field, value) in said {
            if fields.get(&field).is_some_and(|before| *before != value) {
                return Err(format!("'{text}' says {field} twice; say it once"));
            }
            fields.insert(field, value);
        }
    }
    Ok(fields)
}

type Said = Vec<(String, Value)>;

fn ports(field: &str, text: &str) -> Result<Said, String> {
    let number = |text: &str| {
        text.parse::<u16>().map_err(|_| format!("'{text}' is no port number from 0 to 65535"))
    };
    let Some((low, high)) = text.split_once('-') else {
        return Ok(vec![(field.into(), json!(number(text)?))]);
    };
    let mut said = Vec::new();
    for (bound, text) in [("min", low), ("max", high)] {
        if !text.is_empty() {
            said.push((format!("{field}_range_{bound}"), json!(number(text)?)));
        }
    }
    if said.is_empty() {
        return Err(format!("'{text}' bounds nothing; {GRAMMAR}"));
    }
    Ok(said)
}

/// A prefix of IPv6 says the ethertype, too.
fn prefix(field: &str, text: &str, fields: &mut Map<String, Value>) -> Result<Said, String> {
    let whole = text.parse::<IpAddr>().map(IpNet::from);
    let prefix = whole.or_else(|_| text.parse::<IpNet>());
    let prefix = prefix.map_err(|_| format!("'{text}' is no address or prefix"))?;
    if prefix.addr().is_ipv6() {
        fields.entry("ethertype").or_insert_with(|| json!("IPv6"));
    }
    Ok(vec![(field.into(), json!(prefix.to_string()))])
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn words_say_what_fields_say() {
        for (words, expected) in [
            ("", json!({})),
            ("tcp dport 5201", json!({"protocol": "tcp", "destination_port": 5201})),
            (
                "udp sport 1000-2000 dst 10.0.0.1 src 10.1.0.0/16",
                json!({"protocol": "udp", "source_port_range_min": 1000,
                       "source_port_range_max": 2000, "destination_ip_prefix": "10.0.0.1/32",
                       "source_ip_prefix": "10.1.0.0/16"}),
            ),
            ("ipv4 icmp", json!({"ethertype": "IPv4", "protocol": "icmp"})),
            (
                "tcp dst fd00::/64 dport 1024-",
                json!({"protocol": "tcp", "ethertype": "IPv6",
                       "destination_ip_prefix": "fd00::/64",
                       "destination_port_range_min": 1024}),
            ),
            ("tcp sport -0", json!({"protocol": "tcp", "source_port_range_max": 0})),
        ] {
            assert_eq!(Value::Object(fields(words).unwrap()), expected, "{words}");
        }
    }

    #[test]
    fn words_that_mean_nothing_are_named() {
        for (words, named) in [
            ("tcp port 80", "'port'"),
            ("dport", "'dport' needs a value"),
            ("tcp udp", "protocol twice"),
            ("dport 65536", "'65536'"),
            ("dport -", "bounds nothing"),
            ("src ten", "'ten'"),
            ("ipv4 dst ::1 ipv6", "ethertype twice"),
        ] {
            let problem = fields(words).unwrap_err();
            assert!(problem.contains(named), "{words}: {problem}");
        }
    }
}
