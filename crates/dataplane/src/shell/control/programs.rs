//! Programs: put together part by part, checked, made durable, put in force between vectors,
//! acknowledged. Knows in which order; refuses to know what an entry says.

use super::super::program_log::{self, ProgramLog, ProgramLogError};
use super::super::{Config, DataplaneError};
use super::Control;
use crate::engine::Tables;
use catena_model::entry::{Entries, Program, ProgramVersion};
use catena_model::limits::MESSAGE_BYTES_MAX;
use catena_protocol::delta::{Draft, agent_edits, deltas};
use catena_protocol::message::{Delta, ProgramResult};
use catena_protocol::session::{ProgramGate, part_result, program_result, whole_needed};
use prost::Message;
use std::sync::Arc;

/// Bytes of all parts of one change: more than the largest program has that tables are made of.
const CHANGE_BYTES_MAX: usize = 4 * MESSAGE_BYTES_MAX;

/// The program in force.
pub(super) struct Running {
    pub(super) program: Program,
    /// Where it is on disk; none: the next begins another file.
    log: Option<ProgramLog>,
    /// Kept so that the worker is never the one who takes old tables apart.
    pub(super) tables: Arc<Tables>,
}

/// What has come of a change whose last part has not.
pub(super) struct Unfinished {
    /// What it changes.
    base: Program,
    draft: Draft,
    parts: Vec<Delta>,
    /// Of all parts.
    bytes: usize,
}

impl Unfinished {
    fn begin(first: &Delta, base: &Program) -> Self {
        let draft = Draft::begin(first, base);
        Self { base: base.clone(), draft, parts: Vec::new(), bytes: 0 }
    }

    /// Is this the next part of it? The first once more begins it anew.
    fn goes_on_with(&self, part: &Delta) -> bool {
        self.draft.is_of(part) && self.parts.first() != Some(part)
    }

    /// Takes a part, or answers why not; the change is over then.
    fn add(&mut self, part: Delta) -> Result<(), String> {
        self.bytes += part.encoded_len();
        if self.bytes > CHANGE_BYTES_MAX {
            return Err(format!("its parts have more than {CHANGE_BYTES_MAX} bytes"));
        }
        self.draft.add(&part).map_err(|error| error.to_string())?;
        self.parts.push(part);
        Ok(())
    }
}

impl Control {
    /// Runs what was accepted last, if it can still be read.
    pub(in crate::shell) fn resume(&mut self) -> Result<(), DataplaneError> {
        let found = match load(&self.config) {
            Ok(None) => {
                tracing::info!("no program yet; waiting for the agent");
                return Ok(());
            }
            Ok(Some((program, log))) => {
                self.gate = ProgramGate::at(program.number.0);
                self.follow(&program).map(|tables| (program, log, tables))
            }
            Err(error) => Err(error),
        };
        self.has_predecessor = true;
        match found {
            Ok((program, log, tables)) => {
                let underlay = self.open_underlay_if_possible(&program);
                self.use_underlay(underlay)?;
                self.follow_segments(&program)?;
                let tables = self.order_tables(tables)?;
                tracing::info!(program = program.number.0, "resumed the last program");
                self.running = Some(Running { program, log, tables });
            }
            Err(error) => tracing::error!("starting without a program: {error}"),
        }
        Ok(())
    }

    /// What is known of the program in force; none: there is none.
    pub(super) fn running_version(&self) -> Option<ProgramVersion> {
        self.running.as_ref().map(|running| running.program.version())
    }

    /// All ports of the program in force, as edits that add them.
    pub(super) fn ports(&self) -> Vec<u8> {
        let running = self.running.as_ref();
        running.map_or_else(Vec::new, |running| {
            agent_edits(&Entries::default(), &running.program.entries)
        })
    }

    /// Takes a change of the program, or a part of one.
    pub(super) fn take_delta(&mut self, part: Delta) -> Result<ProgramResult, DataplaneError> {
        let number = part.number;
        let result = match self.admit(&part) {
            Ok(()) => self.add_part(part)?,
            Err(refusal) => program_result(number, refusal),
        };
        if !result.refusal.is_empty() {
            self.unfinished = None;
            tracing::warn!(program = number, "program refused: {}", result.refusal);
        }
        Ok(result)
    }

    fn admit(&mut self, part: &Delta) -> Result<(), String> {
        let (number, theirs, node) = (part.number, &part.node, &self.config.node);
        if theirs != node.as_str() {
            return Err(format!(
                "program {number} is for node '{theirs}', this is the data plane of '{node}'"
            ));
        }
        self.gate.admit(number)
    }

    fn add_part(&mut self, part: Delta) -> Result<ProgramResult, DataplaneError> {
        let unfinished = self.unfinished.take().filter(|it| it.goes_on_with(&part));
        let Delta { number, is_last, .. } = part;
        let (running, is_whole) = (self.running_version(), part.is_whole());
        if running == Some(part.to_version()) {
            // It came before: its acknowledgement was lost.
            return Ok(if is_last { program_result(number, "") } else { part_result(number) });
        }
        let mut unfinished = match (unfinished, &self.running) {
            (Some(unfinished), _) => unfinished,
            (None, _) if is_whole => Unfinished::begin(&part, &Program::default()),
            (None, Some(running)) if running.program.version() == part.from_version() => {
                Unfinished::begin(&part, &running.program)
            }
            _ => {
                let refusal =
                    format!("program {} as its controller has it does not run here", part.base);
                return Ok(whole_needed(number, refusal));
            }
        };
        if let Err(refusal) = unfinished.add(part) {
            return Ok(refused(number, is_whole, refusal));
        }
        if is_last {
            return self.end_change(unfinished, is_whole);
        }
        self.unfinished = Some(unfinished);
        Ok(part_result(number))
    }

    /// All parts of a change are there. Everything that may be refused comes first, then the disk, then
    /// the worker.
    fn end_change(
        &mut self,
        change: Unfinished,
        is_whole: bool,
    ) -> Result<ProgramResult, DataplaneError> {
        let Unfinished { base, draft, parts, .. } = change;
        let number = parts.first().map_or(0, |part| part.number);
        let made = draft.finish(&base).map_err(|error| error.to_string());
        let made = made.and_then(|program| {
            let tables = self.follow(&program);
            tables.map(|tables| (program, tables))
        });
        let (program, tables) = match made {
            Ok(made) => made,
            Err(refusal) => return Ok(refused(number, is_whole, refusal)),
        };
        let underlay = self.open_underlay_if_possible(&program);
        let begun = match self.keep(&program, &parts, is_whole) {
            Ok(begun) => begun,
            Err(error) => return Ok(program_result(number, error.to_string())),
        };
        self.use_underlay(underlay)?;
        self.follow_segments(&program)?;
        let tables = self.order_tables(tables)?;
        let (former, log) = match self.running.take() {
            Some(Running { program, log, .. }) => (program.entries, begun.or(log)),
            None => (Entries::default(), begun),
        };
        let ports = agent_edits(&former, &program.entries);
        self.running = Some(Running { program, log, tables });
        self.shorten_log();
        match is_whole {
            true => tracing::info!(program = number, "program running"),
            false => tracing::debug!(program = number, "program changed"),
        }
        Ok(ProgramResult { ports, ..program_result(number, "") })
    }

    /// The tables of a program, made of those in force.
    fn follow(&self, program: &Program) -> Result<Tables, String> {
        let tables = match &self.running {
            Some(running) => running.tables.following(program),
            None => {
                let empty = Tables::empty(self.config.node.clone());
                let empty = empty.since(self.functions_epoch_seconds);
                empty.made_by(self.makers.clone()).following(program)
            }
        };
        tables.map_err(|error| error.to_string())
    }

    /// Makes a program durable: as the change behind those before it, or in a file that begins with it.
    fn keep(
        &mut self,
        program: &Program,
        parts: &[Delta],
        is_whole: bool,
    ) -> Result<Option<ProgramLog>, ProgramLogError> {
        if is_whole {
            return ProgramLog::begin(&self.config.state_dir, parts).map(Some);
        }
        match self.running.as_mut().and_then(|running| running.log.as_mut()) {
            Some(log) => log.add(parts).map(|()| None),
            None => begin_log(&self.config, program).map(Some),
        }
    }

    /// A long file makes room for one with the program alone. The program is durable without it.
    fn shorten_log(&mut self) {
        let Some(Running { program, log, .. }) = &mut self.running else { return };
        if log.as_ref().is_some_and(ProgramLog::is_long) {
            match begin_log(&self.config, program) {
                Ok(shorter) => *log = Some(shorter),
                Err(error) => tracing::warn!("the log of programs goes on growing: {error}"),
            }
        }
    }
}

/// What is on disk, with the file to go on with, if there is one.
fn load(config: &Config) -> Result<Option<(Program, Option<ProgramLog>)>, String> {
    let Config { state_dir, node, .. } = config;
    let found = ProgramLog::open(state_dir, node).map_err(|error| error.to_string())?;
    let found = match found {
        Some(found) => found,
        None => {
            let old = program_log::read_old(state_dir).map_err(|error| error.to_string())?;
            let Some((told, program)) = old else { return Ok(None) };
            if told.node != *node {
                let theirs = told.node;
                return Err(format!("the program on disk is for node '{theirs}', not '{node}'"));
            }
            let log = begin_log(config, &program);
            let log =
                log.inspect_err(|error| tracing::error!("the program stays as it is: {error}"));
            (program, log.ok())
        }
    };
    if found.1.is_some() {
        program_log::remove_old(state_dir);
    }
    Ok(Some(found))
}

/// Begins a file with all of a program.
fn begin_log(config: &Config, program: &Program) -> Result<ProgramLog, ProgramLogError> {
    let parts = deltas(&config.node, &Program::default(), program);
    ProgramLog::begin(&config.state_dir, &parts)
}

/// What cannot be made of what runs may be told another way by the whole; a whole is refused for good.
fn refused(number: u64, is_whole: bool, refusal: String) -> ProgramResult {
    if is_whole { program_result(number, refusal) } else { whole_needed(number, refusal) }
}
