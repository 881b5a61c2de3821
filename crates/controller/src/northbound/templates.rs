//! The instances of functions that data planes and agents run: made, kept and removed as a template says, in the
//! words of ports and pairs that everybody else uses for theirs. Knows names and places; refuses to know what a
//! function does.

use super::networking_sfc::{
    MadePort, PortRefusal, is_made, made_port, named_addresses, user_beside_pairs,
};
use super::quotas::Quotas;
use crate::declared::Draft;
use catena_model::id::{InstanceId, NetworkId, PortId};
use catena_model::instance::{self, Door, EGRESS_INTERFACE, INGRESS_INTERFACE};
use catena_model::limits::FUNCTION_CONFIG_BYTES_MAX;
use catena_model::resource::{
    Attachment, Conduct, FunctionTemplate, Instance, InterfaceRef, Label, NamespaceRef, Port, Runs,
    ServiceFunction,
};
use catena_model::{NodeName, ProjectId};
use catena_nf::registry::{self, Bundled, ConfigError, Surroundings, Translations};
use catena_plan::IndexedIntent;
use catena_store::StoreError;
use serde_json::{Map, Value};
use std::fmt::Display;
use std::net::IpAddr;
use tokio::sync::{Semaphore, SemaphorePermit};
use uuid::Uuid;

/// Networks that ports of an instance may be in: that by which packets come, and that by which they go.
const NETWORKS_MAX: usize = 2;

/// Of those who have functions made.
static TURN: Semaphore = Semaphore::const_new(1);

/// Why it cannot be arranged.
pub(super) enum Refusal {
    /// The template is wrong, or does not fit what is declared: why, and what to do.
    Template(String),
    /// Something that was made cannot be removed: who needs it.
    InUse(String),
    /// Some instance has no room at any host: what is missing.
    NoHost(String),
    /// A port cannot be made.
    Port(PortRefusal),
    Store(StoreError),
}

impl From<StoreError> for Refusal {
    fn from(error: StoreError) -> Self {
        Self::Store(error)
    }
}

fn wrong(what: impl Display) -> Refusal {
    Refusal::Template(what.to_string())
}

/// Is it an instance that was made here?
fn was_made(intent: &IndexedIntent, instance: &Instance) -> bool {
    [instance.ingress, instance.egress].iter().any(|id| intent.ports.get(id).is_some_and(is_made))
}

/// What is known of a function once it was made of its template.
#[derive(Default)]
pub(super) struct Checked {
    /// What its writer should know.
    pub(super) remarks: Vec<String>,
    /// Where nodes would send its messages.
    pub(super) collector: Option<String>,
    /// What chains must know.
    pub(super) conduct: Conduct,
}

/// Whoever has it has a function made that is thrown away again: one after the other, for a rule set may take a while,
/// and memory.
pub(super) struct Turn {
    _permit: Option<SemaphorePermit<'static>>,
}

impl Turn {
    /// Waits for it. Whoever does so holds no text yet.
    pub(super) async fn begin() -> Self {
        // Nobody closes it.
        Self { _permit: TURN.acquire().await.ok() }
    }
}

/// Can a function be made of what a template says, if it is one that comes with Catena? Takes its time with many rules,
/// where nobody else waits for it.
pub(super) async fn check(
    template: Option<&FunctionTemplate>,
    turn: Turn,
) -> Result<Checked, Refusal> {
    // Of each text alone its language says that; together they are sent to nodes in one message.
    let bytes = template.map_or(0, FunctionTemplate::text_bytes);
    if bytes > FUNCTION_CONFIG_BYTES_MAX {
        return Err(wrong(format!(
            "the files of 'config' have {bytes} bytes together of at most {FUNCTION_CONFIG_BYTES_MAX}; split their \
             rules among several functions"
        )));
    }
    let configuration = template.and_then(FunctionTemplate::configuration);
    let Some(configuration) = configuration else { return Ok(Checked::default()) };
    let is_inside = template.is_none_or(|template| template.door.is_inside());
    let make = move || {
        let make = if is_inside { registry::make } else { registry::make_apart };
        let Bundled { function, remarks, collector } =
            make(&configuration, &Surroundings::default())?;
        let needs_both_directions = function.profile().needs_both_directions;
        let Translations { mappings, inquiries, .. } = registry::translations(&configuration)?;
        let conduct = Conduct { needs_both_directions, translations: mappings, inquiries };
        Ok::<_, ConfigError>(Checked { remarks, collector, conduct })
    };
    let made = tokio::task::spawn_blocking(move || {
        let _turn = turn;
        make()
    });
    let made = made.await;
    let checked = made
        .map_err(|_| wrong("its configuration could not be looked at; try again"))?
        .map_err(wrong)?;
    if checked.collector.is_some() && !is_inside {
        return Err(wrong(
            "'ipfix' names a collector, which messages of a function inside the data plane alone are sent to; leave \
             out 'door: apart'",
        ));
    }
    Ok(checked)
}

/// Gives a function the instances that its template asks for, and puts it into the draft. What the template says of the
/// function has been checked. Instances that are placed have no host yet, or the one that they had.
pub(super) fn arrange(
    draft: &mut Draft,
    quotas: &Quotas,
    function: ServiceFunction,
) -> Result<(), Refusal> {
    arrange_on(draft, quotas, function, None)
}

/// The same, with the host of each instance where they are placed: who has none is not made.
pub(super) fn arrange_on(
    draft: &mut Draft,
    quotas: &Quotas,
    mut function: ServiceFunction,
    hosts: Option<&[Option<NodeName>]>,
) -> Result<(), Refusal> {
    let template = function.template.as_ref();
    let former = draft.intent().functions.get(&function.id);
    // What is stored may be of a version that asked for less; other changes go on.
    if former.and_then(|former| former.template.as_ref()) != template {
        template.map_or(Ok(()), check_form)?;
    }
    let making = template.filter(|template| template.makes_instances()).cloned();
    let intent = draft.intent();
    let own = function.instances.iter().filter_map(|id| intent.instances.get(id)).cloned();
    let (mut made, others): (Vec<Instance>, Vec<Instance>) =
        own.partition(|one| was_made(intent, one));
    let Some(template) = making else {
        function.instances.retain(|id| made.iter().all(|one| one.id != *id));
        draft.put(function)?;
        return made.iter().try_for_each(|one| remove(draft, one)).map_err(Refusal::InUse);
    };
    others.first().map_or(Ok(()), |other| Err(not_ours(&function, other)))?;
    let networks = ends(networks(intent, &function.label.project, &template)?, &template);
    let former = intent.functions.get(&function.id).and_then(|one| one.template.as_ref());
    let is_another = former.is_some_and(|former| runs_another(former, &template));
    let former = former.map(translations).transpose().unwrap_or_default().unwrap_or_default();
    let translations = translations(&template)?;
    check_translator(&function, &template, &translations)?;
    let own = |of: &Translations| addresses_of(of, networks.len());
    let (former_own, own) = (own(&former), own(&translations));
    let names = function.instance_names(&template);
    let mut kept = Vec::with_capacity(names.len());
    for (place, name) in names.iter().enumerate() {
        let former = former_at(&made, &template, &names, place);
        let now = || former.and_then(|one| node_of(draft, one));
        let node = match hosts.filter(|_| template.is_placed()) {
            None if template.is_placed() => now(),
            None => template.on.iter().nth(place % template.on.len().max(1)).cloned(),
            Some(hosts) => hosts.get(place).cloned().flatten(),
        };
        if hosts.is_some() && node.is_none() {
            continue;
        }
        // What changes a process is another one, which is there before the former goes; so is one elsewhere.
        let is_here = |one: &&Instance| {
            let at = node_of(draft, one);
            !template.is_run_by_nodes() || at.is_none() || at == node
        };
        let former = former.filter(|_| !is_another).filter(is_here).cloned();
        let wanted = Wanted {
            name,
            node,
            is_inside: template.door.is_inside() && !template.is_run_by_nodes(),
            networks: &networks,
            project: &function.label.project,
            addresses: &own,
            former_addresses: &former_own,
        };
        kept.push(instance(draft, quotas, former, &wanted)?);
    }
    made.retain(|one| !kept.contains(&one.id));
    function.instances = kept;
    draft.put(function)?;
    made.into_iter().try_for_each(|one| remove(draft, &one)).map_err(Refusal::InUse)
}

fn not_ours(function: &ServiceFunction, other: &Instance) -> Refusal {
    wrong(format!(
        "function '{}' has the instance '{}' that somebody else runs; take it out of the port pair group, or give the \
         function of this template a name of its own",
        function.name(),
        other.name(),
    ))
}

/// The instance that goes on as the one at a place. Where some go without a host, places say nothing.
fn former_at<'m>(
    made: &'m [Instance],
    template: &FunctionTemplate,
    names: &[String],
    place: usize,
) -> Option<&'m Instance> {
    let there = made.get(place);
    if !template.is_placed() {
        return there;
    }
    let named = made.iter().find(|one| Some(&one.name()) == names.get(place));
    named.or_else(|| there.filter(|one| !names.contains(&one.name())))
}

fn node_of(draft: &Draft, instance: &Instance) -> Option<NodeName> {
    draft.intent().ports.get(&instance.ingress)?.node.clone()
}

/// What a template says must go together.
fn check_form(template: &FunctionTemplate) -> Result<(), Refusal> {
    let is_bundled = matches!(template.runs, Runs::Bundled(_));
    if let Runs::Image(image) = &template.runs {
        return Err(wrong(format!(
            "images of containers are run by nobody here ('image: {image}'); give a 'command' that runs it on the \
             hosts of 'on', or say by 'external' that somebody else does"
        )));
    }
    if !is_bundled && !template.config.is_empty() {
        return Err(wrong(
            "'config' is what a bundled function is told; this template runs something else",
        ));
    }
    if !is_bundled && !template.door.is_usual() {
        return Err(wrong(
            "'door' is where a bundled function runs; this template runs something else",
        ));
    }
    let limits = [
        ("priority", template.priority),
        ("bandwidth_mbit", template.bandwidth_mbit),
        ("delay_us", template.delay_us),
    ];
    if let Some((name, _)) =
        limits.iter().find(|(_, limit)| limit.is_some() && !template.is_placed())
    {
        return Err(wrong(format!(
            "'{name}' is of instances that are placed: processes ('door: apart', or a command with 'instances') of \
             which 'on' names no host; leave it out"
        )));
    }
    let bounds = [("cpu_milli", template.cpu_milli), ("memory_mib", template.memory_mib)];
    let bound = bounds.iter().find(|(_, bound)| bound.is_some());
    match bound {
        Some((name, _)) if is_bundled && template.door.is_inside() => Err(wrong(format!(
            "'{name}' bounds a process that an agent keeps, and this function is the data plane's, which others need as \
             well; say 'door: apart' for a process of its own between interfaces"
        ))),
        Some((name, Some(0))) => Err(wrong(format!(
            "'{name}' is 0, with which nothing runs; leave it out, or give more"
        ))),
        _ => Ok(()),
    }
}

/// Do instances of these templates differ in what runs, so that one cannot become the other while packets are on
/// their way to it? Inside a data plane a change is another path already.
fn runs_another(former: &FunctionTemplate, now: &FunctionTemplate) -> bool {
    let processes = [former, now].map(FunctionTemplate::is_run_by_nodes);
    let what = |one: &FunctionTemplate| (one.runs.clone(), one.config.clone());
    processes != [false, false] && (processes[0] != processes[1] || what(former) != what(now))
}

/// What a function of a template makes of addresses.
fn translations(template: &FunctionTemplate) -> Result<Translations, Refusal> {
    let configuration = template.configuration();
    let read = configuration
        .map_or_else(|| Ok(Translations::default()), |one| registry::translations(&one));
    read.map_err(wrong)
}

/// Who has addresses is one, and in the way of packets.
fn check_translator(
    function: &ServiceFunction,
    template: &FunctionTemplate,
    translations: &Translations,
) -> Result<(), Refusal> {
    if translations.mappings.is_empty() {
        return Ok(());
    }
    if template.door == Door::Apart {
        return Err(wrong(
            "'door' is apart, and addresses that the configuration names are answered for by the data plane; leave it \
             out, and the function runs inside",
        ));
    }
    if template.instances > 1 {
        return Err(wrong(format!(
            "'instances' is {}, and the addresses that the configuration names can be of one only; make several \
             functions with addresses of their own",
            template.instances
        )));
    }
    if function.is_tap {
        return Err(wrong(
            "the function is a tap, which gives nothing back; one that translates addresses is none",
        ));
    }
    Ok(())
}

/// The addresses that ports are to have for what a function translates, by their place: in one network, one port has
/// all.
fn addresses_of(translations: &Translations, ports: usize) -> Vec<Vec<IpAddr>> {
    let Translations { at_ingress, at_egress, .. } = translations;
    match ports {
        1 => vec![[at_ingress.as_slice(), at_egress].concat()],
        _ => vec![at_ingress.clone(), at_egress.clone()],
    }
}

/// Removes what was made for a function that goes; who cannot do without it, else.
pub(super) fn remove_all(draft: &mut Draft, function: &ServiceFunction) -> Result<(), String> {
    let intent = draft.intent();
    let own = function.instances.iter().filter_map(|id| intent.instances.get(id));
    let made: Vec<Instance> = own.filter(|one| was_made(intent, one)).cloned().collect();
    made.iter().try_for_each(|instance| remove(draft, instance))
}

fn remove(draft: &mut Draft, instance: &Instance) -> Result<(), String> {
    draft.remove::<Instance>(instance.id);
    [instance.ingress, instance.egress].into_iter().try_for_each(|port| remove_port(draft, port))
}

fn remove_port(draft: &mut Draft, port: PortId) -> Result<(), String> {
    if let Some(user) = user_beside_pairs(draft.intent(), port) {
        return Err(format!(
            "Port {port}, which was made for the function, is in use by {user}; delete that first."
        ));
    }
    draft.remove::<Port>(port);
    Ok(())
}

/// The networks of its ports.
fn networks(
    intent: &IndexedIntent,
    project: &ProjectId,
    template: &FunctionTemplate,
) -> Result<Vec<NetworkId>, Refusal> {
    let own = || intent.networks.values().filter(|network| network.label.project == *project);
    if template.networks.len() > NETWORKS_MAX {
        return Err(wrong(format!(
            "'networks' names {}; ports of an instance are in one, or in one by which packets come and another by \
             which they go",
            template.networks.len()
        )));
    }
    if template.networks.is_empty() {
        let mut all = own();
        return match (all.next(), all.next()) {
            (Some(only), None) => Ok(vec![only.id]),
            (None, _) => {
                Err(wrong("there is no network that its ports could be in; make one first"))
            }
            _ => Err(wrong(
                "there are several networks that its ports could be in; name one, as in 'networks: [left]'",
            )),
        };
    }
    let find = |name: &String| {
        let mut found = own().filter(|one| one.label.name == *name || one.id.to_string() == *name);
        match (found.next(), found.next()) {
            (Some(only), None) => Ok(only.id),
            (None, _) => Err(wrong(format!(
                "there is no network '{name}' in the project of the function; 'networks' names those of its ports"
            ))),
            _ => Err(wrong(format!(
                "several networks are called '{name}'; name one by its identity"
            ))),
        }
    };
    let mut found: Vec<NetworkId> = template.networks.iter().map(find).collect::<Result<_, _>>()?;
    found.dedup();
    Ok(found)
}

/// The networks of the ports that an instance has: where there is a process, one for each way.
fn ends(networks: Vec<NetworkId>, template: &FunctionTemplate) -> Vec<NetworkId> {
    match networks.as_slice() {
        [only] if template.is_run_by_nodes() => vec![*only, *only],
        _ => networks,
    }
}

/// How an instance is to be.
struct Wanted<'w> {
    name: &'w str,
    node: Option<NodeName>,
    /// Does it run inside the data plane?
    is_inside: bool,
    networks: &'w [NetworkId],
    project: &'w ProjectId,
    /// The addresses that each of its ports has because the configuration names them, and had until now.
    addresses: &'w [Vec<IpAddr>],
    former_addresses: &'w [Vec<IpAddr>],
}

impl Wanted<'_> {
    /// How the node reaches the port at this place of an instance.
    fn attachment(&self, instance: InstanceId, place: usize) -> Attachment {
        if self.is_inside {
            return Attachment::Inside;
        }
        let interface = if place == 0 { INGRESS_INTERFACE } else { EGRESS_INTERFACE };
        let namespace = Some(NamespaceRef::Netns(instance::namespace_of(instance)));
        Attachment::Interface(InterfaceRef { namespace, interface: interface.to_owned() })
    }
}

/// Makes an instance, or what is there already what it is to be.
fn instance(
    draft: &mut Draft,
    quotas: &Quotas,
    former: Option<Instance>,
    wanted: &Wanted<'_>,
) -> Result<InstanceId, Refusal> {
    let known = |id: PortId, draft: &Draft| draft.intent().ports.get(&id).cloned();
    let ends = former.as_ref().map(|one| [one.ingress, one.egress]);
    let id = former.as_ref().map_or_else(|| InstanceId(Uuid::new_v4()), |one| one.id);
    let mut ports = Vec::with_capacity(wanted.networks.len());
    for (place, network) in wanted.networks.iter().enumerate() {
        let end = ends.and_then(|ends| ends.get(place).copied());
        let there = end.and_then(|id| known(id, draft)).filter(|port| port.network == *network);
        let is_own = |port: &Port| !ports.contains(&port.id);
        let named = wanted.addresses.get(place).map(Vec::as_slice).unwrap_or_default();
        let mut port = match there.filter(is_own) {
            Some(port) => {
                let (node, device_id) = (wanted.node.clone(), wanted.name.to_owned());
                Port { node, device_id, ..port }
            }
            None => {
                let suffix = if place == 0 { "" } else { "-out" };
                let label = label(format!("{}{suffix}", wanted.name), wanted.project);
                let asked = MadePort {
                    network: *network,
                    label,
                    machine: wanted.name.to_owned(),
                    node: wanted.node.clone(),
                    attachment: wanted.attachment(id, place),
                    beside: named.to_vec(),
                };
                made_port(draft.intent(), quotas, asked).map_err(Refusal::Port)?
            }
        };
        let former = wanted.former_addresses.get(place).map(Vec::as_slice).unwrap_or_default();
        port.fixed_ips
            .retain(|fixed| !former.contains(&fixed.address) && !named.contains(&fixed.address));
        let added = named_addresses(draft.intent(), &port, named).map_err(Refusal::Port)?;
        port.fixed_ips.extend(added);
        ports.push(port.id);
        draft.put(port)?;
    }
    let (Some(ingress), Some(egress)) = (ports.first().copied(), ports.last().copied()) else {
        return Err(wrong("its ports are in no network"));
    };
    if former.is_none() {
        let own = draft.intent().index().count_owned::<Instance>(wanted.project);
        if quotas.limit(wanted.project, "port_pair").is_some_and(|limit| own >= limit) {
            return Err(Refusal::Port(PortRefusal::Quota("port_pair")));
        }
    }
    let made = former.unwrap_or_else(|| Instance {
        id,
        label: label(wanted.name.to_owned(), wanted.project),
        ingress,
        egress,
        speaks: None,
        weight: 1,
        is_draining: false,
        declared: Value::Object(Map::new()),
    });
    let label = label(wanted.name.to_owned(), wanted.project);
    let instance = Instance { label, ingress, egress, ..made };
    draft.put(instance)?;
    for left in ends.into_iter().flatten().filter(|port| !ports.contains(port)) {
        remove_port(draft, left).map_err(Refusal::InUse)?;
    }
    Ok(id)
}

fn label(name: String, project: &ProjectId) -> Label {
    let description = "Made from the template of its function.".to_owned();
    Label { name, description, project: project.clone() }
}
