//! Flow classifiers: a `ClassificationRule` in the words of networking-sfc.

use super::attributes::{Attribute, Prepared, empty_dict, empty_text, null, optional, read_only};
use super::collection::{Collection, Shown, shown};
use super::errors::ApiError;
use super::scope::{Edit, Labels, Scope, View};
use super::{uses, values};
use crate::config::Overlap;
use catena_model::ProjectId;
use catena_model::classifier::{FIELDS, Field, FieldMatch};
use catena_model::id::{PortId, RuleId};
use catena_model::resource::{ClassificationRule, IpFamily, PortBounds, Transport};
use catena_plan::IndexedIntent;
use ipnet::IpNet;
use serde_json::{Value, json};
use std::sync::LazyLock;
use uuid::Uuid;

const OF_NETWORKING_SFC: [Attribute; 14] = [
    read_only("id"),
    optional("name", empty_text, true, values::name_or_null),
    optional("description", empty_text, true, values::text_or_null),
    optional("ethertype", || json!("IPv4"), false, ethertype),
    optional("protocol", null, false, protocol),
    optional("source_port_range_min", null, false, port_number),
    optional("source_port_range_max", null, false, port_number),
    optional("destination_port_range_min", null, false, port_number),
    optional("destination_port_range_max", null, false, port_number),
    optional("source_ip_prefix", null, false, prefix),
    optional("destination_ip_prefix", null, false, prefix),
    optional("logical_source_port", null, false, values::uuid_or_null),
    optional("logical_destination_port", null, false, values::uuid_or_null),
    optional("l7_parameters", empty_dict, false, no_l7),
];

/// Those, and our own fields.
static TABLE: LazyLock<Vec<Attribute>> = LazyLock::new(|| {
    let own = FIELDS.iter().map(|field| optional(field.name, null, false, own_field));
    OF_NETWORKING_SFC.into_iter().chain(own).collect()
});

pub(super) struct FlowClassifiers;

impl Collection for FlowClassifiers {
    fn singular(&self) -> &'static str {
        "flow_classifier"
    }

    fn plural(&self) -> &'static str {
        "flow_classifiers"
    }

    fn table(&self) -> &'static [Attribute] {
        &TABLE
    }

    fn not_found(&self, id: &str) -> ApiError {
        not_found(id)
    }

    fn labels<'a>(&self, scope: Scope<'a>, name: Option<&str>) -> Labels<'a> {
        scope.labels::<ClassificationRule>(name)
    }

    fn count(&self, intent: &IndexedIntent, project: &ProjectId) -> usize {
        intent.index().count_owned::<ClassificationRule>(project)
    }

    fn render(&self, view: &View, id: Uuid) -> Option<Shown> {
        view.scope().rule(RuleId(id)).map(render)
    }

    fn create(&self, edit: &mut Edit<'_>, given: &Prepared) -> Result<Uuid, ApiError> {
        let rule = read(given)?;
        check(&rule)?;
        for port in [rule.source_port, rule.destination_port].into_iter().flatten() {
            if edit.scope().port(port).is_none() {
                let message = format!("Neutron Port {port} not found.");
                return Err(ApiError::not_found("FlowClassifierPortNotFound", message));
            }
        }
        if edit.overlap == Overlap::Refused
            && let Some(other) = overlapping(edit.scope(), &rule)
        {
            let message = format!(
                "Flow Classifier conflicts with another Flow Classifier {}: some packets match \
                 both.",
                other.id
            );
            return Err(ApiError::invalid("FlowClassifierInConflict", message));
        }
        let id = rule.id.0;
        edit.draft.put(rule)?;
        Ok(id)
    }

    fn update(&self, edit: &mut Edit<'_>, id: Uuid, given: &Prepared) -> Result<(), ApiError> {
        let mut rule = find(edit.scope(), id)?.clone();
        given.relabel(&mut rule.label);
        Ok(edit.draft.put(rule)?)
    }

    fn delete(&self, edit: &mut Edit<'_>, id: Uuid) -> Result<(), ApiError> {
        let id = find(edit.scope(), id)?.id;
        if uses::chain_of(edit.draft.intent(), id).is_some() {
            return Err(in_use(id));
        }
        edit.draft.remove::<ClassificationRule>(id);
        Ok(())
    }
}

fn not_found(id: &str) -> ApiError {
    ApiError::not_found("FlowClassifierNotFound", format!("Flow Classifier {id} not found."))
}

pub(super) fn in_use(id: RuleId) -> ApiError {
    ApiError::conflict("FlowClassifierInUse", format!("Flow Classifier {id} in use."))
}

/// The rule of an id.
pub(super) fn find(scope: Scope<'_>, id: Uuid) -> Result<&ClassificationRule, ApiError> {
    scope.rule(RuleId(id)).ok_or_else(|| not_found(&id.to_string()))
}

fn read(given: &Prepared) -> Result<ClassificationRule, ApiError> {
    let port = |name: &str| given.number(name).and_then(|port| u16::try_from(port).ok());
    let prefix = |name: &str| given.text(name).and_then(|text| text.parse::<IpNet>().ok());
    let family = match given.text("ethertype").as_deref() {
        Some("IPv6") => IpFamily::Ipv6,
        _ => IpFamily::Ipv4,
    };
    let transport = match given.text("protocol").as_deref() {
        Some("tcp") => Some(Transport::Tcp),
        Some("udp") => Some(Transport::Udp),
        Some("icmp") => Some(Transport::Icmp),
        _ => None,
    };
    let mut fields = FieldMatch::default();
    for field in &FIELDS {
        if let Some(words) = given.text(field.name) {
            fields.set(field, &words).map_err(|error| invalid_field(&error.to_string()))?;
        }
    }
    Ok(ClassificationRule {
        id: RuleId(Uuid::new_v4()),
        label: given.label(),
        family,
        transport,
        source_ports: PortBounds {
            min: port("source_port_range_min"),
            max: port("source_port_range_max"),
        },
        destination_ports: PortBounds {
            min: port("destination_port_range_min"),
            max: port("destination_port_range_max"),
        },
        source_prefix: prefix("source_ip_prefix"),
        destination_prefix: prefix("destination_ip_prefix"),
        source_port: given.uuid("logical_source_port").map(PortId),
        destination_port: given.uuid("logical_destination_port").map(PortId),
        fields,
    })
}

/// What one attribute alone cannot tell.
fn check(rule: &ClassificationRule) -> Result<(), ApiError> {
    for (name, bounds) in [("source", rule.source_ports), ("destination", rule.destination_ports)] {
        let (min, max) = bounds.closed();
        if min > max {
            let message =
                format!("Invalid {name} port range: the minimum {min} is above the maximum {max}.");
            return Err(ApiError::invalid("FlowClassifierInvalidPortRange", message));
        }
    }
    let has_ports = !rule.source_ports.is_any() || !rule.destination_ports.is_any();
    if has_ports && !matches!(rule.transport, Some(Transport::Tcp | Transport::Udp)) {
        let message = "Must also specify protocol tcp or udp if a port range is given.";
        return Err(ApiError::invalid("FlowClassifierProtocolRequiredWithPorts", message));
    }
    if let Some((field, needed)) = rule.fields.missing(rule.transport) {
        let (name, needed) = (field.name, json!(needed));
        let needed = needed.as_str().unwrap_or_default();
        return Err(invalid_field(&format!(
            "Must also specify protocol {needed} if {name} is given."
        )));
    }
    for prefix in [rule.source_prefix, rule.destination_prefix].into_iter().flatten() {
        if IpFamily::of(prefix.addr()) != rule.family {
            let message = format!(
                "Invalid ethertype {}: the IP prefix {prefix} is of the other family.",
                family_name(rule.family)
            );
            let kind = "FlowClassifierIpPrefixFormatConflictWithEthertype";
            return Err(ApiError::invalid(kind, message));
        }
    }
    Ok(())
}

/// A rule that the caller may know of and that shares packets with this one.
fn overlapping<'a>(scope: Scope<'a>, rule: &ClassificationRule) -> Option<&'a ClassificationRule> {
    scope.intent.index().overlapping(scope.intent, rule, scope.project())
}

fn family_name(family: IpFamily) -> &'static str {
    match family {
        IpFamily::Ipv4 => "IPv4",
        IpFamily::Ipv6 => "IPv6",
    }
}

fn render(rule: &ClassificationRule) -> Shown {
    let text = |prefix: Option<IpNet>| prefix.map(|prefix| prefix.to_string());
    let mut rendered = json!({
        "id": rule.id,
        "name": rule.label.name,
        "description": rule.label.description,
        "project_id": rule.label.project,
        "ethertype": family_name(rule.family),
        "protocol": rule.transport,
        "source_port_range_min": rule.source_ports.min,
        "source_port_range_max": rule.source_ports.max,
        "destination_port_range_min": rule.destination_ports.min,
        "destination_port_range_max": rule.destination_ports.max,
        "source_ip_prefix": text(rule.source_prefix),
        "destination_ip_prefix": text(rule.destination_prefix),
        "logical_source_port": rule.source_port,
        "logical_destination_port": rule.destination_port,
        "l7_parameters": {},
        "tenant_id": rule.label.project,
    });
    for field in &FIELDS {
        rendered[field.name] = json!(rule.fields.get(field));
    }
    shown(rendered)
}

fn invalid_field(message: &str) -> ApiError {
    ApiError::invalid("FlowClassifierInvalidField", message)
}

/// A condition on one of our own fields, in its one form.
fn own_field(name: &str, value: &Value) -> Result<Value, ApiError> {
    if value.is_null() {
        return Ok(Value::Null);
    }
    let words = value.as_str().map_or_else(|| values::shown(value), str::to_owned);
    let Some(field) = Field::named(name) else { return Ok(Value::Null) };
    match field.one_form(&words) {
        Ok(condition) => Ok(json!(condition)),
        Err(error) => Err(invalid_field(&format!("Flow Classifier has invalid {name}: {error}."))),
    }
}

fn ethertype(_: &str, value: &Value) -> Result<Value, ApiError> {
    match value.as_str().map(str::to_ascii_lowercase).as_deref() {
        Some("ipv4") => Ok(json!("IPv4")),
        Some("ipv6") => Ok(json!("IPv6")),
        None if value.is_null() => Ok(json!("IPv4")),
        _ => Err(ApiError::invalid(
            "FlowClassifierInvalidEthertype",
            format!("Flow Classifier does not support ethertype {}.", values::shown(value))
                + " Supported ethertype values are: IPv4, IPv6.",
        )),
    }
}

fn protocol(_: &str, value: &Value) -> Result<Value, ApiError> {
    match value.as_str().map(str::to_ascii_lowercase) {
        Some(name) if ["tcp", "udp", "icmp"].contains(&name.as_str()) => Ok(json!(name)),
        None if value.is_null() => Ok(Value::Null),
        _ => Err(ApiError::invalid(
            "FlowClassifierInvalidProtocol",
            format!("Flow Classifier does not support protocol {}.", values::shown(value))
                + " Supported protocol values are: tcp, udp, icmp.",
        )),
    }
}

fn port_number(_: &str, value: &Value) -> Result<Value, ApiError> {
    match values::integer(value) {
        Some(port) if u16::try_from(port).is_ok() => Ok(json!(port)),
        None if value.is_null() => Ok(Value::Null),
        _ => {
            let message =
                format!("Flow Classifier has invalid port value {}.", values::shown(value));
            Err(ApiError::invalid("FlowClassifierInvalidPortValue", message))
        }
    }
}

/// A prefix with its length; host bits may be set and are kept.
fn prefix(name: &str, value: &Value) -> Result<Value, ApiError> {
    match values::prefix(value) {
        Some(prefix) => Ok(json!(prefix.to_string())),
        None if value.is_null() => Ok(Value::Null),
        _ => {
            let reason = format!("'{}' is not a valid IP subnet.", values::shown(value));
            Err(ApiError::attribute(name, reason))
        }
    }
}

fn no_l7(name: &str, value: &Value) -> Result<Value, ApiError> {
    let unknown = |key: &str| {
        let message = format!("Flow Classifier does not support the L7 parameter {key}.");
        Err(ApiError::invalid("FlowClassifierInvalidL7Parameter", message))
    };
    match value {
        Value::Null => Ok(empty_dict()),
        Value::Object(map) => {
            map.keys().next().map_or_else(|| Ok(empty_dict()), |key| unknown(key))
        }
        // Whatever has parts is taken for parameters, none of which there are.
        Value::String(text) if !text.is_empty() => unknown(text),
        Value::Array(list) if !list.is_empty() => unknown(&value.to_string()),
        _ => {
            let reason = format!("'{}' is not a dictionary.", values::shown(value));
            Err(ApiError::attribute(name, reason))
        }
    }
}
