//! A node in memory with several functions at one hop, and packets of which each is known again when it comes out.

use crate::engine::site::{FIRST_PATH, Hop, Seat, program};
use crate::engine::{Kind, Template, monotonic_ns, wrong};
use crate::error::BenchError;
use catena_dataplane::engine::{
    Engine, EngineConfig, Form, Lanes, Makers, Output, Packet, PortSlot, Tables,
};
use catena_io::BufferPool;
use catena_model::bundle::{Configuration, MemberInstance};
use catena_model::entry::Program;
use catena_model::id::{BlueprintNumber, InstanceId};
use catena_model::parallelism::FormChoice;
use catena_model::program::{ConfigurationEntry, InstanceEntry, MemberEntry};
use catena_model::question::CounterScope;
use catena_model::resource::Attachment;
use catena_model::{NodeProgram, PathId};
use std::sync::Arc;
use uuid::Uuid;

/// Buffers, more than may wait in any queue here.
const BUFFERS: usize = 16_384;
/// Where the number of a packet is, from the end of its frame.
const NUMBER_BYTES: usize = 8;

/// The node.
pub(super) struct Site {
    pub(super) engine: Engine,
    pool: BufferPool,
    slot: PortSlot,
    template: Template,
    input: Vec<Packet>,
    output: Output,
}

impl Site {
    /// A node with these functions at one hop, and frames of so many bytes. `lanes`: threads that ask them, in this
    /// form or in that which they choose; none: the engine asks them.
    pub(super) fn new(
        functions: &[Configuration],
        frame_bytes: usize,
        lanes: Option<(Box<dyn Lanes>, Option<Form>)>,
    ) -> Result<Self, BenchError> {
        Self::made_by(None, functions, frame_bytes, lanes)
    }

    /// The same with functions that these make, where they have processes of their own.
    pub(super) fn made_by(
        makers: Option<Arc<dyn Makers>>,
        functions: &[Configuration],
        frame_bytes: usize,
        lanes: Option<(Box<dyn Lanes>, Option<Form>)>,
    ) -> Result<Self, BenchError> {
        let program = with_functions(functions)?;
        let mut config = EngineConfig::new(program.node.clone());
        config.flow_seed = 7;
        config.meter = Some(monotonic_ns);
        let mut engine = Engine::new(config);
        if let Some((lanes, form)) = lanes {
            engine.lend_to(lanes, form);
        }
        let mut tables = Tables::empty(program.node.clone());
        if let Some(makers) = makers {
            tables = tables.made_by(makers);
        }
        let program = Program::new(BlueprintNumber(1), program.entries());
        let tables = tables.following(&program).map_err(|error| wrong("the program", &error))?;
        engine.replace_tables(Arc::new(tables));
        let slot = engine.slot_of(Seat::Source.port());
        let slot = slot.ok_or_else(|| wrong("the program", &"a port is missing"))?;
        let ends = (Seat::Source, Seat::Sink);
        let template = Template::bare(Kind::ORDINARY, ends, Seat::Sink.mac().0, frame_bytes);
        Ok(Self {
            engine,
            pool: BufferPool::new(BUFFERS),
            slot,
            template,
            input: Vec::new(),
            output: Output::default(),
        })
    }

    /// Puts a frame into each buffer once: the first one costs the kernel's time, which is not measured here.
    pub(super) fn touch_buffers(&mut self) -> Result<(), BenchError> {
        let mut all: Vec<_> = std::iter::from_fn(|| self.pool.take()).collect();
        for mut buffer in all.drain(..) {
            if !buffer.append(self.template.bytes()) {
                return Err(wrong("a packet", &"it fits no buffer"));
            }
            self.pool.put(buffer);
        }
        Ok(())
    }

    /// A packet with this number comes; packets go in by [`Self::forward`]. Answers where it lies.
    pub(super) fn queue(&mut self, number: u64) -> Result<usize, BenchError> {
        let buffer = self.pool.take();
        let mut buffer = buffer.ok_or_else(|| wrong("the engine", &"it keeps buffers"))?;
        if !buffer.append(self.template.bytes()) {
            return Err(wrong("a packet", &"it fits no buffer"));
        }
        let bytes = buffer.bytes_mut();
        let at = bytes.len().saturating_sub(NUMBER_BYTES);
        bytes[at..].copy_from_slice(&number.to_be_bytes());
        let place = bytes.as_ptr() as usize;
        self.input.push(Packet::from_port(self.slot, buffer));
        Ok(place)
    }

    /// Takes what has come through, as far as nobody is waited for.
    pub(super) fn forward(&mut self, now_ns: u64) {
        self.engine.forward(now_ns, &mut self.input, &mut self.pool, &mut self.output);
    }

    /// Lets time pass.
    pub(super) fn tick(&mut self, now_ns: u64) {
        self.engine.tick(now_ns, &mut self.pool, &mut self.output);
    }

    /// Goes on with what was answered; false: nothing was.
    pub(super) fn take_answers(&mut self, now_ns: u64) -> bool {
        self.engine.is_lending()
            && self.engine.take_answers(now_ns, &mut self.pool, &mut self.output)
    }

    /// What the node knows of the forms of its functions.
    pub(super) fn choice(&self) -> Option<FormChoice> {
        let functions = [member_id(1)].into();
        let of = CounterScope { functions, ..CounterScope::default() };
        let told = self.engine.counters_of(Some(&of)).functions;
        told.iter().find_map(|one| one.choice)
    }

    /// Where packets lie that have come out, with their lengths.
    pub(super) fn addresses_out(&self) -> Vec<(usize, usize)> {
        let frames = self.output.frames.iter().map(|frame| frame.buffer.bytes());
        frames.map(|bytes| (bytes.as_ptr() as usize, bytes.len())).collect()
    }

    /// Hands over the numbers of packets that have come out.
    pub(super) fn take_out(&mut self, mut each: impl FnMut(u64)) {
        for frame in self.output.frames.drain(..) {
            let number = frame.buffer.bytes().last_chunk::<NUMBER_BYTES>();
            each(number.map_or(u64::MAX, |number| u64::from_be_bytes(*number)));
            self.pool.put(frame.buffer);
        }
        self.engine.settle(&mut self.output.batches);
    }
}

fn with_functions(functions: &[Configuration]) -> Result<NodeProgram, BenchError> {
    let mut program = program(&[Hop::Bare], 1)?;
    let inside = [Seat::BareIn, Seat::BareOut].map(Seat::port);
    for port in program.ports.iter_mut().filter(|port| inside.contains(&port.id)) {
        port.attachment = Attachment::Inside;
    }
    let mut instances =
        program.paths.iter().flat_map(|path| &path.hops).flat_map(|hop| &hop.instances);
    let entry = instances.next().cloned();
    let entry = entry.ok_or_else(|| wrong("the program", &"its hop is missing"))?;
    for (member, configuration) in (0_u8..).zip(functions) {
        program.members.push(MemberEntry {
            path: PathId(FIRST_PATH),
            hop: 0,
            member,
            function: configuration.kind.clone(),
            is_backward: false,
            configuration: configuration.id(),
            instances: vec![instance(&entry, member)],
        });
        let is_known = |known: &ConfigurationEntry| known.configuration == *configuration;
        if !program.configurations.iter().any(is_known) {
            let configuration = configuration.clone();
            program.configurations.push(ConfigurationEntry { configuration });
        }
    }
    Ok(program)
}

fn member_id(member: u8) -> InstanceId {
    InstanceId(Uuid::from_u128(0x3100 + u128::from(member)))
}

/// The first one is that of the hop.
fn instance(entry: &InstanceEntry, member: u8) -> MemberInstance {
    let InstanceEntry { id, name, ingress, egress, .. } = entry;
    MemberInstance {
        id: if member == 0 { *id } else { member_id(member) },
        name: format!("{name}-{member}"),
        ingress: *ingress,
        egress: *egress,
    }
}
