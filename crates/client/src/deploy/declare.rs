//! A whole document, made or brought about in a draft: functions that keep MACs, on which chains of
//! several networks hang, then its chains, then all its functions, its graphs and its slices. Knows
//! the order; refuses to know how a draft becomes what is declared.

use super::file::{Document, FunctionDocument, GraphDocument};
use super::{ChainDocument, DeployError, Deployment, id_of, texts};
use crate::{Client, ClientError, Draft, Kind};
use serde_json::{Map, Value, json};
use std::collections::BTreeMap;

impl Deployment {
    /// Opens a draft in which everything is as a document says.
    ///
    /// # Errors
    /// The document does not fit what is declared, or the controller refuses.
    pub fn draft(client: &Client, document: &Document) -> Result<Draft, DeployError> {
        let draft = Draft::open(client)?;
        declare(draft.client(), document)?;
        Ok(draft)
    }

    /// Opens a draft in which nothing is left of what a document declares.
    ///
    /// # Errors
    /// Something of it is not there, or the controller refuses.
    pub fn draft_without(client: &Client, document: &Document) -> Result<Draft, DeployError> {
        let draft = Draft::open(client)?;
        for graph in &document.graphs {
            let id = id_of(&draft.client().named(Kind::ServiceGraph, &graph.name)?);
            draft.client().delete(Kind::ServiceGraph, &id)?;
        }
        for slice in &document.slices {
            let id = draft.client().slice_named(&slice.name)?.id;
            draft.client().delete_slice(&id.to_string())?;
        }
        for chain in &document.chains {
            let chain = draft.client().named(Kind::PortChain, &chain.name())?;
            Self::undeploy(draft.client(), &id_of(&chain))?;
        }
        Ok(draft)
    }
}

fn declare(client: &Client, document: &Document) -> Result<(), DeployError> {
    let functions = || document.functions.iter().enumerate();
    // What chains hang on: whose packets may meet there, and instances that are made here.
    let is_first = |function: &FunctionDocument| function.keeps_mac || function.makes_instances();
    for (index, function) in functions().filter(|(_, function)| is_first(function)) {
        set_function(client, function).map_err(of("function", index, &function.name))?;
    }
    for (index, chain) in document.chains.iter().enumerate() {
        declare_chain(client, document, chain).map_err(of("chain", index, &chain.name()))?;
    }
    for (index, function) in functions().filter(|(_, function)| !is_first(function)) {
        set_function(client, function).map_err(of("function", index, &function.name))?;
    }
    for (index, graph) in document.graphs.iter().enumerate() {
        set_graph(client, graph).map_err(of("graph", index, &graph.name))?;
    }
    for (index, slice) in document.slices.iter().enumerate() {
        let put = match client.put_slice(&slice.name, slice) {
            Err(error) if error.is_not_found() => client.create_slice(slice),
            put => put,
        };
        put.map_err(of("slice", index, &slice.name))?;
    }
    Ok(())
}

/// What is wrong, as that of one thing of a document.
fn of<E: Into<DeployError>>(kind: &str, index: usize, name: &str) -> impl FnOnce(E) -> DeployError {
    let (key, owner) = (format!("{kind}s[{index}]"), format!("{kind} '{name}'"));
    |error| DeployError::OfDocument { key, owner, source: Box::new(error.into()) }
}

fn declare_chain(
    client: &Client,
    document: &Document,
    chain: &ChainDocument,
) -> Result<(), DeployError> {
    match client.named(Kind::PortChain, &chain.name()) {
        Ok(known) => match Deployment::update(client, &id_of(&known), chain) {
            // A chain in a graph keeps its functions: the graph is made anew afterwards.
            Err(DeployError::Api(ClientError::Refused { status: 409, .. }))
                if leave_graphs(client, document, &id_of(&known))? =>
            {
                Deployment::update(client, &id_of(&known), chain).map(|_| ())
            }
            updated => updated.map(|_| ()),
        },
        Err(error) if error.is_not_found() => Deployment::deploy(client, chain).map(|_| ()),
        Err(error) => Err(error.into()),
    }
}

/// Takes a chain out of the graphs that the document declares; was it in one?
fn leave_graphs(client: &Client, document: &Document, chain: &str) -> Result<bool, ClientError> {
    let mut was_in_one = false;
    for graph in &document.graphs {
        let known = match client.named(Kind::ServiceGraph, &graph.name) {
            Ok(known) => known,
            Err(error) if error.is_not_found() => continue,
            Err(error) => return Err(error),
        };
        let holds = |(from, onward): (&String, &Vec<String>)| {
            from == chain || onward.iter().any(|next| next == chain)
        };
        if branches_of(&known).iter().any(holds) {
            client.delete(Kind::ServiceGraph, &id_of(&known))?;
            was_in_one = true;
        }
    }
    Ok(was_in_one)
}

/// A function that no chain has made is made without instances.
fn set_function(client: &Client, function: &FunctionDocument) -> Result<(), ClientError> {
    let id = match client.named(Kind::PortPairGroup, &function.name) {
        Ok(group) => id_of(&group),
        Err(error) if error.is_not_found() => {
            id_of(&client.create(Kind::PortPairGroup, &json!({"name": function.name}))?)
        }
        Err(error) => return Err(error),
    };
    let mut settings = function.settings();
    if let Some(template) = settings.template.as_mut() {
        client.send_large(template)?;
    }
    // Who does not say where, leaves it at what was said before.
    if let Some(template) = settings.template.as_mut().filter(|template| template.on.is_empty()) {
        template.on = client.function(&id)?.template.map(|known| known.on).unwrap_or_default();
    }
    client.put_function(&id, &settings).map(|_| ())
}

/// The branches of a graph are its for life: one with others takes its place.
fn set_graph(client: &Client, graph: &GraphDocument) -> Result<(), ClientError> {
    let mut branches: BTreeMap<String, Vec<String>> = BTreeMap::new();
    let id = |name: &String| Ok(id_of(&client.named(Kind::PortChain, name)?));
    for (chain, onward) in &graph.branches {
        let onward = onward.iter().map(id).collect::<Result<_, ClientError>>()?;
        branches.insert(id(chain)?, onward);
    }
    match client.named(Kind::ServiceGraph, &graph.name) {
        Ok(known) if branches_of(&known) == branches => return Ok(()),
        Ok(known) => client.delete(Kind::ServiceGraph, &id_of(&known))?,
        Err(error) if error.is_not_found() => {}
        Err(error) => return Err(error),
    }
    let body = json!({"name": graph.name, "port_chains": branches});
    client.create(Kind::ServiceGraph, &body).map(|_| ())
}

fn branches_of(graph: &Value) -> BTreeMap<String, Vec<String>> {
    let empty = Map::new();
    let branches = graph["port_chains"].as_object().unwrap_or(&empty);
    branches.iter().map(|(chain, onward)| (chain.clone(), texts(onward))).collect()
}
