//! The bundled functions of this node: which instance runs which configuration, and by which number the engine
//! knows it. Knows how long each is needed; refuses to know what a function does.

use super::makers::Makers;
use super::renewal::{Next, Renewal};
use crate::engine::error::{CompileError, at_most};
use catena_model::bundle::{Configuration, ConfigurationId};
use catena_model::entry::Entries;
use catena_model::id::InstanceId;
use catena_model::limits::NODE_FUNCTIONS_MAX;
use catena_model::profile::{Profile, StateScope};
use catena_model::{NodeName, PathId};
use catena_nf::Function;
use catena_nf::registry::{self, Surroundings};
use std::collections::BTreeMap;
use std::fmt;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

/// What is one: the same instance with another configuration is another.
pub(crate) type BundleKey = (InstanceId, ConfigurationId);

/// A bundled function of this node.
pub(crate) struct Bundle {
    pub(crate) key: BundleKey,
    /// The instance's name, for people.
    pub(crate) name: String,
    pub(crate) profile: Profile,
    /// Where its messages for collectors go.
    pub(crate) collector: Option<Arc<str>>,
    made: Made,
}

/// How values of it are made: whoever makes tables has time to, whoever forwards has none.
struct Made {
    configuration: Configuration,
    surroundings: Surroundings,
    /// None: nobody, so that whoever asks makes them, within this process.
    makers: Option<Arc<dyn Makers>>,
    ready: Mutex<Vec<Box<dyn Function>>>,
    /// As many as will be asked for were made.
    is_prepared: AtomicBool,
}

impl Made {
    fn value(&self) -> Result<Box<dyn Function>, String> {
        let Self { configuration, surroundings, .. } = self;
        match self.makers.as_ref().filter(|_| configuration.is_beside) {
            Some(makers) => makers.beside(configuration, surroundings),
            None => registry::make(configuration, surroundings)
                .map(|made| made.function)
                .map_err(|error| error.to_string()),
        }
    }

    fn prepare(&self, engines: usize, name: &str) {
        while self.ready().len() < engines {
            match self.value() {
                Ok(value) => self.ready().push(value),
                Err(why) => {
                    tracing::error!(function = name, "it cannot be made yet: {why}");
                    return;
                }
            }
        }
    }

    fn ready(&self) -> MutexGuard<'_, Vec<Box<dyn Function>>> {
        self.ready.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl fmt::Debug for Bundle {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_tuple("Bundle").field(&self.key).finish()
    }
}

impl Bundle {
    fn new(
        key: BundleKey,
        name: &str,
        entries: &Entries,
        surroundings: Surroundings,
        makers: Option<Arc<dyn Makers>>,
    ) -> Result<Self, String> {
        let entry = entries.configurations.get(&key.1);
        let entry = entry.ok_or("its configuration is not in the program")?;
        let made = Made {
            configuration: entry.configuration.clone(),
            surroundings,
            makers,
            ready: Mutex::default(),
            is_prepared: AtomicBool::new(false),
        };
        // What it says of itself follows from its configuration: a process is not asked for it.
        let first = registry::make(&made.configuration, &made.surroundings);
        let first = first.map_err(|error| error.to_string())?;
        let profile = *first.function.profile();
        match made.makers.is_some() && made.configuration.is_beside {
            // One that cannot be started yet is no reason to refuse all others: it is tried again.
            true => made.prepare(1, name),
            false => made.ready().push(first.function),
        }
        let collector = first.collector.map(Arc::from);
        Ok(Self { key, name: name.to_owned(), profile, collector, made })
    }

    /// Makes values ahead, one for each engine that will ask; each asks once.
    pub(crate) fn prepare(&self, engines: usize) {
        if self.made.is_prepared.swap(true, Ordering::Relaxed) {
            return;
        }
        self.made.prepare(engines, &self.name);
    }

    /// A value of its own for an engine that begins; none: there is none yet, or it cannot be made.
    pub(crate) fn take(&self) -> Option<Box<dyn Function>> {
        let ready = self.made.ready().pop();
        ready.or_else(|| match self.made.makers {
            Some(_) => None,
            None => self.made.value().ok(),
        })
    }

    /// One for the place of one that has died, as `prepare` answers it; none: it is not made yet, or cannot be.
    pub(crate) fn renew(
        self: &Arc<Self>,
        renewal: &Arc<Renewal>,
        prepare: impl FnOnce(Box<dyn Function>) -> Option<Box<dyn Function>> + Send + 'static,
    ) -> Option<Box<dyn Function>> {
        match renewal.want() {
            Next::Made(value) => return Some(value),
            Next::Coming => return None,
            Next::Unwanted => {}
        }
        let (bundle, coming) = (Arc::clone(self), Arc::clone(renewal));
        let task = move || {
            let made = bundle.made.value().map(prepare);
            if let Err(why) = &made {
                tracing::error!(function = bundle.name, "it cannot be made anew: {why}");
            }
            let is_made = made.is_ok();
            coming.end(made);
            is_made
        };
        match &self.made.makers {
            Some(makers) => makers.soon(Box::new(task)),
            None => drop(task()),
        }
        renewal.take()
    }

    /// Has something taken apart by whoever has time to.
    pub(crate) fn let_go(&self, former: impl Send + 'static) {
        if let Some(makers) = &self.made.makers {
            makers.soon(Box::new(move || {
                drop(former);
                true
            }));
        }
    }
}

/// All of them. A number stays that of its bundle as long as some path needs it.
#[derive(Clone, Debug, Default)]
pub(crate) struct Bundles {
    numbers: BTreeMap<BundleKey, u32>,
    all: Vec<Option<Arc<Bundle>>>,
    /// When their time starts, in seconds since 1970.
    pub(crate) epoch_seconds: u64,
    pub(crate) makers: Option<Arc<dyn Makers>>,
    /// Those that remember anything, so that one engine must see all packets: fragments, and errors about a
    /// flow, do not come where the rest of it does.
    pub(crate) remembering: u32,
}

impl Bundles {
    /// Those that the paths of a program need, as this node runs them.
    pub(crate) fn following(
        &self,
        node: &NodeName,
        entries: &Entries,
        seed: u64,
    ) -> Result<Self, CompileError> {
        let mut needed: BTreeMap<BundleKey, (&str, PathId)> = BTreeMap::new();
        for member in entries.members.values() {
            let path = entries.paths.get(&member.path);
            let hop = path.and_then(|path| path.hops.get(usize::from(member.hop)));
            let Some(hop) = hop else { continue };
            if hop.instances.len() != member.instances.len() {
                let why = "the program names other instances of it than of its hop".to_owned();
                let (function, path) = (member.function.clone(), member.path);
                return Err(CompileError::Function { function, path, why });
            }
            for (entry, instance) in hop.instances.iter().zip(&member.instances) {
                if entry.node == *node {
                    let key = (instance.id, member.configuration);
                    needed.insert(key, (&instance.name, member.path));
                }
            }
        }
        at_most("bundled functions", needed.len(), NODE_FUNCTIONS_MAX)?;
        let mut next = self.clone();
        for (key, number) in &self.numbers {
            if !needed.contains_key(key) {
                next.numbers.remove(key);
                next.all[*number as usize] = None;
            }
        }
        for (key, (name, path)) in needed {
            if next.numbers.contains_key(&key) {
                continue;
            }
            let surroundings = Surroundings { seed, epoch_seconds: self.epoch_seconds };
            let makers = self.makers.clone();
            let bundle = Bundle::new(key, name, entries, surroundings, makers)
                .map_err(|why| CompileError::Function { function: name.to_owned(), path, why })?;
            let free = next.all.iter().position(Option::is_none);
            let number = free.unwrap_or(next.all.len());
            next.all.resize(next.all.len().max(number + 1), None);
            next.all[number] = Some(Arc::new(bundle));
            next.numbers.insert(key, u32::try_from(number).unwrap_or(u32::MAX));
        }
        let remembers = |bundle: &&Arc<Bundle>| bundle.profile.state > StateScope::Packet;
        next.remembering = next.iter().filter(remembers).count().try_into().unwrap_or(u32::MAX);
        Ok(next)
    }

    /// By which number the engine knows it.
    pub(crate) fn number(&self, key: &BundleKey) -> Option<u32> {
        self.numbers.get(key).copied()
    }

    /// By number, as far as they are taken.
    pub(crate) fn slots(&self) -> &[Option<Arc<Bundle>>] {
        &self.all
    }

    /// Does this node run none?
    pub(crate) fn is_empty(&self) -> bool {
        self.numbers.is_empty()
    }

    pub(crate) fn iter(&self) -> impl Iterator<Item = &Arc<Bundle>> {
        self.all.iter().flatten()
    }
}
