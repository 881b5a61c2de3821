//! A classifier in words: `tcp dport 5201`, `udp src 10.0.0.0/24 dport 1000-2000`. Knows the words;
//! refuses to know what a classifier does.

use catena_model::classifier::{FIELDS, Field};
use ipnet::IpNet;
use serde_json::{Map, Value, json};
use std::net::IpAddr;

/// What a classifier may say, for whoever said something else.
fn grammar() -> String {
    let own = FIELDS.each_ref().map(|field| format!("; {} with {}", field.name, field.help));
    "use tcp, udp or icmp; ipv4 or ipv6; sport and dport with N, N-M, N- or -M; src and dst with an \
     address or prefix"
        .to_owned()
        + &own.concat()
}

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
            other => {
                let field = Field::named(other);
                let field = field.ok_or_else(|| {
                    format!("'{other}' means nothing in a classifier; {}", grammar())
                })?;
                vec![(field.name.to_owned(), condition(field, &json!(argument()?))?)]
            }
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
        return Err(format!("'{text}' bounds nothing; {}", grammar()));
    }
    Ok(said)
}

/// A condition on one of our own fields, as people or files say it, in its one form.
pub(super) fn condition(field: &'static Field, said: &Value) -> Result<Value, String> {
    let words = said.as_str().map_or_else(|| said.to_string(), str::to_owned);
    field.one_form(&words).map(Value::from).map_err(|error| error.to_string())
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
            (
                "tcp dscp 46 tcp_flags !ack,syn",
                json!({"protocol": "tcp", "dscp": "ef", "tcp_flags": "syn,!ack"}),
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
            ("dscp fast", "'fast'"),
            ("tcp_flags", "'tcp_flags' needs a value"),
            ("ipv4 dst ::1 ipv6", "ethertype twice"),
        ] {
            let problem = fields(words).unwrap_err();
            assert!(problem.contains(named), "{words}: {problem}");
        }
    }
}
