//! Tells nodes which instances they are to run. Knows what templates say of instances and where their ports are;
//! refuses to know how a node runs anything.

use super::Situation;
use crate::error::ControllerError;
use crate::southbound::fleet::Fleet;
use catena_model::id::{FunctionId, PortId};
use catena_model::instance::{
    InstanceBounds, InstanceInterface, InstanceProgram, InstanceSpec, namespace_of,
};
use catena_model::resource::{
    Attachment, FunctionTemplate, Instance, NamespaceRef, Port, Runs, ServiceFunction,
};
use catena_model::{NodeName, ProjectId};
use catena_plan::Intent;
use ipnet::IpNet;
use std::collections::BTreeMap;
use std::sync::Arc;
use tokio::sync::watch;

/// What each node is to run; who runs nothing is not among them.
type ByNode = BTreeMap<NodeName, Vec<InstanceSpec>>;

/// Goes on until the controller stops.
pub(crate) async fn watch(
    mut situations: watch::Receiver<Situation>,
    fleet: Arc<Fleet>,
) -> Result<(), ControllerError> {
    let ended = || ControllerError::Ended("watch over instances");
    let mut revision = None;
    let mut programs = Programs::new();
    loop {
        let (now, intent) = {
            let now = situations.borrow_and_update();
            (now.revision, Arc::clone(&now.intent))
        };
        if revision != Some(now) {
            revision = Some(now);
            fleet.instances.want(wanted(&intent, &mut programs));
        }
        situations.changed().await.map_err(|_| ended())?;
    }
}

/// What functions run, by the templates that they had: a text of many rules is not put together anew for each change
/// of something else.
type Programs = BTreeMap<FunctionId, (FunctionTemplate, InstanceProgram)>;

fn wanted(intent: &Intent, programs: &mut Programs) -> ByNode {
    let mut all = ByNode::new();
    programs.retain(|id, _| intent.functions.contains_key(id));
    for function in intent.functions.values() {
        let run = function.template.as_ref().filter(|template| template.is_run_by_nodes());
        let Some(template) = run else { continue };
        if programs.get(&function.id).is_none_or(|(former, _)| former != template) {
            programs.remove(&function.id);
            let program = program(intent, &function.label.project, template);
            programs.extend(program.map(|one| (function.id, (template.clone(), one))));
        }
        let Some((_, program)) = programs.get(&function.id) else { continue };
        // What somebody has bound elsewhere by hand is not what was made of the template.
        for instance in instances(intent, function).filter(|one| is_own(intent, one)) {
            if let Some((node, spec)) = spec(intent, template, program, instance) {
                all.entry(node).or_default().push(spec);
            }
        }
    }
    all
}

fn instances<'i>(
    intent: &'i Intent,
    function: &'i ServiceFunction,
) -> impl Iterator<Item = &'i Instance> {
    function.instances.iter().filter_map(|id| intent.instances.get(id))
}

/// Are its ports in the namespace that its node makes for it?
fn is_own(intent: &Intent, instance: &Instance) -> bool {
    let attachment = intent.ports.get(&instance.ingress).and_then(|port| port.attachment.as_ref());
    let namespace = attachment.and_then(Attachment::interface);
    let own = Some(NamespaceRef::Netns(namespace_of(instance.id)));
    namespace.is_some_and(|interface| interface.namespace == own)
}

fn program(
    intent: &Intent,
    project: &ProjectId,
    template: &FunctionTemplate,
) -> Option<InstanceProgram> {
    if let Runs::Command(words) = &template.runs {
        return Some(InstanceProgram::Command(words.clone()));
    }
    let whole = intent.with_texts(template, project);
    let whole = whole.inspect_err(|why| tracing::error!("an instance is not run: {why}"));
    whole.ok()?.configuration().map(InstanceProgram::Bundled)
}

fn spec(
    intent: &Intent,
    template: &FunctionTemplate,
    program: &InstanceProgram,
    instance: &Instance,
) -> Option<(NodeName, InstanceSpec)> {
    let node = intent.ports.get(&instance.ingress)?.node.clone()?;
    let interface = |port: PortId| interface(intent, intent.ports.get(&port)?);
    let interfaces = vec![interface(instance.ingress)?, interface(instance.egress)?];
    let spec = InstanceSpec {
        id: instance.id,
        name: instance.name(),
        program: program.clone(),
        namespace: namespace_of(instance.id),
        interfaces,
        bounds: InstanceBounds { cpu_milli: template.cpu_milli, memory_mib: template.memory_mib },
    };
    Some((node, spec))
}

fn interface(intent: &Intent, port: &Port) -> Option<InstanceInterface> {
    let name = port.attachment.as_ref().and_then(Attachment::interface)?.interface.clone();
    let addresses = port.fixed_ips.iter().filter_map(|fixed| {
        let subnet = intent.subnets.get(&fixed.subnet)?;
        IpNet::new(fixed.address, subnet.cidr.prefix_len()).ok()
    });
    Some(InstanceInterface { name, port: port.id, mac: port.mac, addresses: addresses.collect() })
}
