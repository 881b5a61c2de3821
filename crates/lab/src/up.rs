//! A lab that stands: wired, connected, declared, its chains deployed. Brings it up and takes it
//! down; refuses to know experiments.

use crate::error::{LabError, Result};
use crate::resources::{
    declare, not_connected, not_settled, wait_for_cables, wait_for_chain, wait_for_nodes,
};
use crate::routes;
use crate::supervisor::{Doorway, StartOptions, Started};
use crate::vocabulary::{Lab, LabChain, RuleSet};
use crate::wiring::{self, WiringPlan};
use catena_client::Client;
use catena_client::deploy::{ChainDocument, Deployed, Deployment, Document, FunctionDocument};
use catena_model::preview::ApplyRequest;
use catena_model::resource::{Encapsulation, IpFamily};
use catena_model::status::ChainState;
use std::net::{IpAddr, SocketAddr};
use std::path::{Path, PathBuf};
use std::time::Instant;

/// A lab that stands. Unless it was brought up detached it ends with this value, at the latest
/// with this process.
#[derive(Debug)]
pub struct RunningLab {
    pub(crate) lab: Lab,
    pub(crate) plan: WiringPlan,
    pub(crate) client: Client,
    started: Started,
    /// How long it took until it stood without chains.
    pub(crate) start_seconds: f64,
}

/// Brings a lab up; each step is told with its duration in seconds. The chains of the file are
/// deployed in their order, but for those whose traffic one before them takes: they are named. A lab
/// that fails half-way is gone, detached or not.
///
/// # Errors
/// The file is wrong, the kernel refuses, or a process of the lab fails.
pub fn up(
    file: &Path,
    options: &StartOptions,
    tell: &mut dyn FnMut(&str, f64),
) -> Result<RunningLab> {
    let lab = Lab::read(file, false)?;
    let mut running = RunningLab::start(lab, options, tell)?;
    deploy_chains(&running.lab, |chain| Ok(running.deploy(chain, None)?.status), tell)?;
    if options.is_detached {
        running.started.keep()?;
    }
    Ok(running)
}

/// Deploys the chains of a lab that can stand, and says what became of each; `deploy` answers with
/// the status.
fn deploy_chains(
    lab: &Lab,
    mut deploy: impl FnMut(&LabChain) -> Result<String>,
    tell: &mut dyn FnMut(&str, f64),
) -> Result<()> {
    for chain in &lab.chains {
        let start = Instant::now();
        let what = match lab.why_not(chain) {
            Some(reason) => format!("not deployed, {reason}"),
            None => {
                let status = deploy(chain)?;
                let steps = chain.document.chain.iter().map(|step| step.name.as_str());
                format!("{} ({status})", steps.collect::<Vec<&str>>().join(" "))
            }
        };
        tell(&format!("chain {}: {what}", chain.name), start.elapsed().as_secs_f64());
    }
    if lab.chains.is_empty() {
        tell("the file has no chain: catena chain deploy makes one", 0.0);
    }
    Ok(())
}

impl RunningLab {
    /// Brings a lab up without chains.
    pub(crate) fn start(
        lab: Lab,
        options: &StartOptions,
        tell: &mut dyn FnMut(&str, f64),
    ) -> Result<Self> {
        let plan = wiring::plan(&lab)?;
        let began = Instant::now();
        let started = Started::start(&lab, options, tell)?;
        let client = Client::new(format!("http://{}", started.api()), None)?;
        let start = Instant::now();
        wait_for_nodes(&client, &started, &lab, &not_connected)?;
        tell(&format!("{} agents connected", plan.nodes.len()), start.elapsed().as_secs_f64());
        let start = Instant::now();
        declare(&client, &lab, &plan)?;
        wait_for_nodes(&client, &started, &lab, &|report| not_settled(report, &plan))?;
        let text = format!("{} networks, {} ports", lab.networks.len(), plan.ports.len());
        tell(&text, start.elapsed().as_secs_f64());
        if !lab.cables.is_empty() {
            let start = Instant::now();
            wait_for_cables(&client, &started, &lab)?;
            let text = format!("{} cables found by discovery", lab.cables.len());
            tell(&text, start.elapsed().as_secs_f64());
        }
        for edge in &lab.edges {
            client.set_edge(edge, true)?;
        }
        let start_seconds = began.elapsed().as_secs_f64();
        Ok(Self { lab, plan, client, started, start_seconds })
    }

    /// Deploys a chain of the file, in the encapsulation of the run if it states one.
    pub(crate) fn deploy(
        &self,
        chain: &LabChain,
        encapsulation: Option<Encapsulation>,
    ) -> Result<Deployed> {
        self.declare_bundled(chain, None)?;
        let document = ChainDocument {
            encapsulation: encapsulation.or(chain.document.encapsulation),
            ..chain.document.clone()
        };
        let mut deployed = Deployment::deploy(&self.client, &document)?;
        if deployed.status == ChainState::Building.name() {
            let status = wait_for_chain(&self.client, &self.started, &self.lab, &deployed)?;
            deployed.status = status.state.name().into();
            deployed.status_reason = status.reason;
        }
        if deployed.status != "active" {
            let reason = format!(
                "chain '{}' is {}: {}",
                deployed.name, deployed.status, deployed.status_reason
            );
            return Err(LabError::Refused { lab: self.lab.name.clone(), reason });
        }
        routes::lay(self, chain)?;
        Ok(deployed)
    }

    /// Declares the bundled functions of a chain, which the controller makes ports and pairs for; those that are there
    /// stay. Who undeploys the chain takes them away with it. `told`: what they are told instead of what the file says.
    pub(crate) fn declare_bundled(&self, chain: &LabChain, told: Option<&RuleSet>) -> Result<()> {
        let steps = chain.document.chain.iter();
        let own = steps.filter_map(|step| {
            let bundled = self.lab.bundled.get(&step.name)?;
            let config = told.and_then(|set| set.config.get(&step.name));
            Some(FunctionDocument {
                name: step.name.clone(),
                on_failure: bundled.on_failure,
                keeps_mac: false,
                template: Some(bundled.template(config)),
            })
        });
        let document = Document { functions: own.collect(), ..Document::default() };
        if document.functions.is_empty() {
            return Ok(());
        }
        let draft = Deployment::draft(&self.client, &document)?;
        draft.apply(ApplyRequest { wait: true, ..ApplyRequest::default() })?;
        Ok(())
    }

    /// The address of an endpoint or a function, on the first of its networks that has one of this family.
    pub(crate) fn address_of(&self, device: &str, family: IpFamily) -> Option<IpAddr> {
        let ports = self.plan.ports.iter().filter(|port| port.device == device);
        let mut addresses = ports.flat_map(|port| port.addresses.iter().copied());
        addresses.find(|address| IpFamily::of(*address) == family)
    }

    /// The lab's description.
    #[must_use]
    pub fn lab(&self) -> &Lab {
        &self.lab
    }

    /// A client of its controller.
    #[must_use]
    pub fn client(&self) -> &Client {
        &self.client
    }

    /// Where its API listens.
    #[must_use]
    pub fn api(&self) -> SocketAddr {
        self.started.api()
    }

    /// The process number of its first process, as this machine sees it.
    #[must_use]
    pub fn init_pid(&self) -> u32 {
        self.started.init_pid()
    }

    /// The namespaces of one of its nodes.
    ///
    /// # Errors
    /// It has no such node, or has ended.
    pub fn doorway(&self, node: &str) -> Result<Doorway> {
        Doorway::to(self.started.name(), node)
    }

    /// Where the logs of its processes are, as this machine sees them.
    #[must_use]
    pub fn log_directory(&self) -> PathBuf {
        self.started.log_directory()
    }

    /// Waits until the lab ends by `catena lab down`.
    ///
    /// # Errors
    /// It ended in another way, or cannot be waited for.
    pub fn wait(self) -> Result<()> {
        self.started.wait()
    }

    /// Takes the lab down; returns when all its processes are gone.
    ///
    /// # Errors
    /// Its first process cannot be ended.
    pub fn end(self) -> Result<()> {
        self.started.end()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn up_deploys_the_chains_of_every_lab_in_the_tree_that_can_stand_and_tells_of_each() {
        let labs = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../labs");
        let files = std::fs::read_dir(labs).unwrap().map(|entry| entry.unwrap().path());
        let mut deployed_in_all = 0;
        for file in files.filter(|file| file.extension().is_some_and(|kind| kind == "yaml")) {
            let lab = Lab::read(&file, false).unwrap();
            let (mut deployed, mut told) = (Vec::new(), Vec::new());
            let mut deploy = |chain: &LabChain| {
                deployed.push(chain.name.clone());
                Ok("active".to_owned())
            };
            deploy_chains(&lab, &mut deploy, &mut |what, _| told.push(what.to_owned())).unwrap();
            let standing = lab.chains.iter().filter(|chain| lab.why_not(chain).is_none());
            let standing: Vec<&String> = standing.map(|chain| &chain.name).collect();
            assert_eq!(deployed.iter().collect::<Vec<_>>(), standing, "{}", file.display());
            assert_eq!(told.len(), lab.chains.len().max(1), "{}", file.display());
            for (chain, told) in lab.chains.iter().zip(&told) {
                assert!(told.starts_with(&format!("chain {}: ", chain.name)), "{told}");
                assert_eq!(told.ends_with(" (active)"), deployed.contains(&chain.name), "{told}");
            }
            deployed_in_all += deployed.len();
        }
        assert!(deployed_in_all > 10, "{deployed_in_all}");
    }
}
