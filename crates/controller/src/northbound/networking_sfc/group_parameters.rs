//! `port_pair_group_parameters`: which fields choose the instance (`lb_fields`), and how the
//! function rewrites addresses and ports (`ppg_n_tuple_mapping`). They are kept as they were given
//! once they are legal; here is also what they mean.

use super::attributes::empty_list;
use super::errors::ApiError;
use super::values::{self, prefix};
use catena_model::resource::{FlowField, PortBounds, TupleMapping, TuplePattern};
use serde_json::{Map, Value, json};

/// The names of the fields that may choose an instance.
const FIELDS: [(&str, FlowField); 8] = [
    ("eth_src", FlowField::EthSrc),
    ("eth_dst", FlowField::EthDst),
    ("ip_src", FlowField::IpSrc),
    ("ip_dst", FlowField::IpDst),
    ("tcp_src", FlowField::TcpSrc),
    ("tcp_dst", FlowField::TcpDst),
    ("udp_src", FlowField::UdpSrc),
    ("udp_dst", FlowField::UdpDst),
];
const PREFIXES: [&str; 2] = ["source_ip_prefix", "destination_ip_prefix"];
/// Lower and upper bound of each port.
const PORTS: [[&str; 2]; 2] = [
    ["source_port_range_min", "source_port_range_max"],
    ["destination_port_range_min", "destination_port_range_max"],
];

/// Checks the parameters and fills in what was not given.
pub(super) fn convert(name: &str, value: &Value) -> Result<Value, ApiError> {
    let mut given = values::dict_or_empty(name, value, &["lb_fields", "ppg_n_tuple_mapping"])?;
    let fields = given.remove("lb_fields").unwrap_or_else(empty_list);
    let Some(list) = fields.as_array() else {
        let reason = format!("'{}' is not a list.", values::shown(&fields));
        return Err(ApiError::attribute(name, reason));
    };
    if let Some(bad) = list.iter().find(|given| field(given).is_none()) {
        let reason = format!("'{}' is not in valid_values.", values::shown(bad));
        return Err(ApiError::attribute(name, reason));
    }
    let mapping = given.remove("ppg_n_tuple_mapping").unwrap_or_default();
    let mut mapping =
        values::dict_or_empty(name, &mapping, &["ingress_n_tuple", "egress_n_tuple"])?;
    let ingress = tuple(name, mapping.remove("ingress_n_tuple"))?;
    let egress = tuple(name, mapping.remove("egress_n_tuple"))?;
    check_families(name, &[&ingress, &egress])?;
    let mapping = json!({"ingress_n_tuple": ingress, "egress_n_tuple": egress});
    Ok(json!({"lb_fields": fields, "ppg_n_tuple_mapping": mapping}))
}

/// The fields that checked parameters name, each once.
pub(super) fn balance(declared: &Value) -> Vec<FlowField> {
    let mut fields: Vec<FlowField> = Vec::new();
    for named in declared["lb_fields"].as_array().into_iter().flatten().filter_map(field) {
        if !fields.contains(&named) {
            fields.push(named);
        }
    }
    fields
}

/// The rewriting that checked parameters describe.
pub(super) fn mapping(declared: &Value) -> TupleMapping {
    let mapping = &declared["ppg_n_tuple_mapping"];
    TupleMapping {
        ingress: pattern(&mapping["ingress_n_tuple"]),
        egress: pattern(&mapping["egress_n_tuple"]),
    }
}

fn field(name: &Value) -> Option<FlowField> {
    let name = name.as_str()?;
    FIELDS.iter().find(|(known, _)| *known == name).map(|(_, field)| *field)
}

fn port(value: &Value) -> Option<u16> {
    u16::try_from(values::integer(value)?).ok()
}

fn bounds(tuple: &Map<String, Value>, [min, max]: [&str; 2]) -> PortBounds {
    PortBounds { min: tuple.get(min).and_then(port), max: tuple.get(max).and_then(port) }
}

fn pattern(tuple: &Value) -> TuplePattern {
    let Some(tuple) = tuple.as_object() else { return TuplePattern::default() };
    let [source, destination] = PREFIXES;
    let [source_ports, destination_ports] = PORTS;
    TuplePattern {
        source_prefix: tuple.get(source).and_then(prefix),
        destination_prefix: tuple.get(destination).and_then(prefix),
        source_ports: bounds(tuple, source_ports),
        destination_ports: bounds(tuple, destination_ports),
    }
}

/// One side of the mapping, kept as given once its values are legal.
fn tuple(name: &str, value: Option<Value>) -> Result<Map<String, Value>, ApiError> {
    let tuple = match value {
        None | Some(Value::Null) => return Ok(Map::new()),
        Some(Value::Object(tuple)) => tuple,
        Some(other) => {
            let reason = format!("'{}' is not a dictionary.", values::shown(&other));
            return Err(ApiError::attribute(name, reason));
        }
    };
    for (key, value) in &tuple {
        let is_legal = if PREFIXES.contains(&key.as_str()) {
            prefix(value).is_some()
        } else if PORTS.as_flattened().contains(&key.as_str()) {
            port(value).is_some()
        } else {
            return Err(ApiError::invalid(
                "PPGParametersInvalidNTupleMappingParameter",
                format!("Port Pair Group does not support the n-tuple parameter {key}."),
            ));
        };
        if !is_legal && !value.is_null() {
            let reason = format!("'{}' is no value for '{key}'.", values::shown(value));
            return Err(ApiError::attribute(name, reason));
        }
    }
    for range in PORTS {
        let (min, max) = bounds(&tuple, range).closed();
        if min > max {
            let [lower, upper] = range;
            let reason = format!("'{lower}' {min} is above '{upper}' {max}.");
            return Err(ApiError::attribute(name, reason));
        }
    }
    Ok(tuple)
}

/// A packet is of one family, before and after.
fn check_families(name: &str, sides: &[&Map<String, Value>]) -> Result<(), ApiError> {
    let named = sides.iter().flat_map(|side| PREFIXES.map(|key| side.get(key).and_then(prefix)));
    let mut families = named.flatten().map(|prefix| prefix.addr().is_ipv4());
    let Some(first) = families.next() else { return Ok(()) };
    if families.any(|other| other != first) {
        let reason = "the prefixes of 'ppg_n_tuple_mapping' are of both IPv4 and IPv6.";
        return Err(ApiError::attribute(name, reason));
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_declared_gets_its_meaning() {
        let declared = convert(
            "x",
            &json!({
                "lb_fields": ["ip_src", "tcp_dst", "ip_src"],
                "ppg_n_tuple_mapping": {
                    "ingress_n_tuple": {"source_ip_prefix": "10.0.0.0/24", "source_port_range_min": "0"},
                    "egress_n_tuple": {"source_ip_prefix": "192.0.2.1/32", "destination_port_range_max": 80}
                }
            }),
        )
        .unwrap();
        assert_eq!(balance(&declared), [FlowField::IpSrc, FlowField::TcpDst]);
        let mapping = mapping(&declared);
        assert_eq!(mapping.ingress.source_prefix, "10.0.0.0/24".parse().ok());
        assert_eq!(mapping.ingress.source_ports, PortBounds { min: Some(0), max: None });
        assert_eq!(mapping.egress.source_prefix, "192.0.2.1/32".parse().ok());
        assert_eq!(mapping.egress.destination_ports, PortBounds { min: None, max: Some(80) });
        assert_eq!(mapping.egress.destination_prefix, None);
        let nothing = convert("x", &Value::Null).unwrap();
        assert_eq!(balance(&nothing), []);
        assert_eq!(super::mapping(&nothing), TupleMapping::default());
    }

    #[test]
    fn every_field_that_clients_may_name_is_one_of_ours_and_no_two_are_the_same() {
        let names: Vec<Value> = FIELDS.iter().map(|(name, _)| json!(name)).collect();
        let declared = convert("x", &json!({ "lb_fields": names })).unwrap();
        assert_eq!(balance(&declared), FIELDS.map(|(_, field)| field));
        assert!(convert("x", &json!({"lb_fields": ["ip"]})).is_err());
    }

    #[test]
    fn values_that_mean_nothing_are_refused() {
        let side = |key: &str, value: Value| {
            let tuple = json!({ key: value });
            json!({"ppg_n_tuple_mapping": {"egress_n_tuple": tuple}})
        };
        for bad in [
            side("source_ip_prefix", json!("10.0.0.0")),
            side("destination_ip_prefix", json!(7)),
            side("source_port_range_min", json!(65_536)),
            side("destination_port_range_max", json!("http")),
            json!({"ppg_n_tuple_mapping": {"egress_n_tuple": []}}),
            json!({"ppg_n_tuple_mapping": {"sideways": {}}}),
            json!({"ppg_n_tuple_mapping": {"ingress_n_tuple":
                {"source_port_range_min": 9, "source_port_range_max": 8}}}),
            json!({"ppg_n_tuple_mapping": {"ingress_n_tuple": {"source_ip_prefix": "10.0.0.0/8"},
                "egress_n_tuple": {"source_ip_prefix": "2001:db8::/32"}}}),
        ] {
            assert_eq!(convert("x", &bad).unwrap_err().kind, "HTTPBadRequest", "{bad}");
        }
    }
}
