//! Changes of slices: put together part by part, checked, made durable, put in force between vectors,
//! acknowledged.

use super::super::DataplaneError;
use super::super::program_file::{self, ProgramFileError};
use super::super::slice_book::SliceBook;
use super::super::slice_file::{self, SliceFile};
use super::{Control, Running};
use crate::engine::Tables;
use catena_model::NodeProgram;
use catena_model::program::SliceDelta;
use catena_protocol::message::{self, ProgramResult};
use catena_protocol::session::{part_result, program_result, whole_needed};
use catena_protocol::{program, slices};
use std::sync::Arc;

/// What has come of a change whose last part has not.
pub(super) enum Unfinished {
    /// Another program, with the slices that it has so far.
    Program { packed: Box<message::Program>, program: Box<NodeProgram>, slices: SliceBook },
    /// Changes of the slices of the one in force.
    Slices { base: u64, number: u64, parts: Vec<message::SliceDelta> },
}

/// The slices of the program in force.
#[derive(Default)]
pub(super) struct Slices {
    pub(super) book: Arc<SliceBook>,
    /// Where they are on disk; none: there are none.
    pub(super) file: Option<SliceFile>,
}

/// What was read back of the disk.
pub(super) struct Resumed {
    pub(super) program: NodeProgram,
    pub(super) number: u64,
    pub(super) slices: Slices,
}

impl Control {
    /// The slices that a program has from its beginning: those of the one in force, if it keeps them.
    pub(super) fn first_slices(&self, packed: &message::Program) -> Option<Arc<SliceBook>> {
        match (packed.keeps_slices_of, &self.running) {
            (0, _) => Some(Arc::default()),
            (kept, Some(running)) if running.number == kept => {
                Some(Arc::clone(&running.slices.book))
            }
            _ => None,
        }
    }

    /// A program whose slices are still to come.
    pub(super) fn begin_program(
        &mut self,
        packed: &message::Program,
        program: NodeProgram,
        slices: &SliceBook,
    ) -> ProgramResult {
        self.unfinished = Some(Unfinished::Program {
            packed: Box::new(packed.clone()),
            program: Box::new(program),
            slices: slices.clone(),
        });
        part_result(packed.followed_to)
    }

    /// Takes a change of slices, or a part of one.
    pub(super) fn take_delta(
        &mut self,
        part: message::SliceDelta,
    ) -> Result<ProgramResult, DataplaneError> {
        let number = part.number;
        let outcome = match self.admit_delta(&part) {
            Ok(delta) => self.add_part(part, &delta)?,
            Err(refusal) => program_result(number, refusal),
        };
        if !outcome.refusal.is_empty() {
            self.unfinished = None;
            tracing::warn!(program = number, "change of slices refused: {}", outcome.refusal);
        }
        Ok(outcome)
    }

    fn admit_delta(&mut self, part: &message::SliceDelta) -> Result<SliceDelta, String> {
        let delta = slices::unpack(part).map_err(|error| error.to_string())?;
        if delta.node != self.config.node {
            let node = &self.config.node;
            return Err(format!("it is for node '{}', this is '{node}'", delta.node));
        }
        self.gate.admit(part.number)?;
        Ok(delta)
    }

    fn add_part(
        &mut self,
        part: message::SliceDelta,
        delta: &SliceDelta,
    ) -> Result<ProgramResult, DataplaneError> {
        let (number, is_last) = (part.number, part.is_last);
        match self.unfinished.take() {
            Some(Unfinished::Program { packed, program, mut slices })
                if packed.followed_to == number && packed.number == part.base =>
            {
                if let Err(refusal) = slices.change(delta) {
                    return Ok(program_result(number, refusal));
                }
                if is_last {
                    return self.end_program(&packed, &program, slices, number);
                }
                self.unfinished = Some(Unfinished::Program { packed, program, slices });
            }
            Some(Unfinished::Slices { base, number: of, mut parts })
                if of == number && base == part.base =>
            {
                parts.push(part);
                if is_last {
                    return self.change_slices(number, &parts);
                }
                self.unfinished = Some(Unfinished::Slices { base, number, parts });
            }
            _ => match &self.running {
                // It came before: its acknowledgement was lost.
                Some(running) if running.number == number && is_last => {
                    return Ok(program_result(number, ""));
                }
                Some(running) if running.number == part.base => {
                    if is_last {
                        return self.change_slices(number, &[part]);
                    }
                    let base = part.base;
                    self.unfinished = Some(Unfinished::Slices { base, number, parts: vec![part] });
                }
                _ => {
                    let base = part.base;
                    return Ok(whole_needed(number, format!("program {base} does not run here")));
                }
            },
        }
        Ok(part_result(number))
    }

    /// The last of a program's slices has come.
    fn end_program(
        &mut self,
        packed: &message::Program,
        program: &NodeProgram,
        slices: SliceBook,
        number: u64,
    ) -> Result<ProgramResult, DataplaneError> {
        let refusal = match compile(program, &slices, number) {
            Ok(tables) => self.adopt(packed, program, (Arc::new(slices), number), tables)?.err(),
            Err(refusal) => Some(refusal),
        };
        if refusal.is_none() {
            tracing::info!(program = number, "program running");
        }
        Ok(program_result(number, refusal.unwrap_or_default()))
    }

    /// All parts of a change are there: it is made of what runs, or not at all.
    fn change_slices(
        &mut self,
        number: u64,
        parts: &[message::SliceDelta],
    ) -> Result<ProgramResult, DataplaneError> {
        let Some(running) = &self.running else {
            return Ok(whole_needed(number, "no program runs here"));
        };
        let (tables, deltas) = match changed(&running.tables, parts) {
            Ok(changed) => changed,
            // The whole says it in another way, or is refused for good.
            Err(refusal) => return Ok(whole_needed(number, refusal)),
        };
        if let Err(refusal) = self.keep_slices(number, &deltas, parts) {
            return Ok(program_result(number, refusal));
        }
        self.publish(tables, |running, tables| Running { number, tables, ..running })?;
        tracing::debug!(program = number, "slices changed");
        Ok(program_result(number, ""))
    }

    /// Makes a change durable: behind those before it, or in a file of its own with all of them.
    fn keep_slices(
        &mut self,
        number: u64,
        deltas: &[SliceDelta],
        parts: &[message::SliceDelta],
    ) -> Result<(), String> {
        let Some(running) = &mut self.running else { return Ok(()) };
        let change = |book: &mut SliceBook| deltas.iter().try_for_each(|delta| book.change(delta));
        if let Some(file) = running.slices.file.as_mut().filter(|file| !file.is_long()) {
            file.add(parts).map_err(|error| error.to_string())?;
            return change(Arc::make_mut(&mut running.slices.book));
        }
        let mut book = SliceBook::clone(&running.slices.book);
        change(&mut book)?;
        let mut packed = running.packed.clone();
        let state_dir = &self.config.state_dir;
        let file = begin_file(state_dir, &mut packed, &running.program, &book, number)
            .and_then(|file| program_file::save(state_dir, &packed).map(|()| file))
            .map_err(|error| error.to_string())?;
        slice_file::remove_others(state_dir, file.as_ref().map(|file| file.number));
        running.slices = Slices { book: Arc::new(book), file };
        running.packed = packed;
        Ok(())
    }

    /// Reads the slices of a program back.
    pub(super) fn resume_slices(&self, packed: &message::Program) -> Result<Resumed, String> {
        let program = program::unpack(packed).map_err(|error| error.to_string())?;
        let (mut number, mut slices) = (packed.number, Slices::default());
        if packed.slices_file > 0 {
            let opened = SliceFile::open(&self.config.state_dir, packed.slices_file);
            let (file, changes) = opened.map_err(|error| error.to_string())?;
            let mut book = SliceBook::default();
            for change in changes {
                let delta = slices::unpack(&change).map_err(|error| error.to_string())?;
                book.change(&delta)?;
                number = number.max(change.number);
            }
            slices = Slices { book: Arc::new(book), file: Some(file) };
        }
        Ok(Resumed { program, number, slices })
    }
}

/// A file with all slices of a program, which names it from now on; none: it has none.
pub(super) fn begin_file(
    state_dir: &std::path::Path,
    packed: &mut message::Program,
    program: &NodeProgram,
    book: &SliceBook,
    number: u64,
) -> Result<Option<SliceFile>, ProgramFileError> {
    if book.is_empty() && number == packed.number {
        packed.slices_file = 0;
        return Ok(None);
    }
    let deltas = book.deltas(&program.node, program.number);
    let to = catena_model::BlueprintNumber(number);
    let last = deltas.len().saturating_sub(1);
    let pack = |(place, delta)| slices::pack(delta, to, place == last);
    let changes: Vec<message::SliceDelta> = deltas.iter().enumerate().map(pack).collect();
    // One that a crash has left behind must not be taken for it.
    packed.slices_file = packed.slices_file.max(number).saturating_add(1);
    SliceFile::begin(state_dir, packed.slices_file, &changes).map(Some)
}

/// The tables of a program with its slices, under the number of both.
pub(super) fn compile(
    program: &NodeProgram,
    slices: &SliceBook,
    number: u64,
) -> Result<Tables, String> {
    let compile = |program: &NodeProgram| Tables::compile(program).map_err(|e| e.to_string());
    if slices.is_empty() && program.number.0 == number {
        return compile(program);
    }
    let mut whole = program.clone();
    whole.number = catena_model::BlueprintNumber(number);
    slices.fill(&mut whole);
    compile(&whole)
}

/// The tables that a change makes of those in force, and the change as it is read.
fn changed(
    tables: &Tables,
    parts: &[message::SliceDelta],
) -> Result<(Tables, Vec<SliceDelta>), String> {
    let read = parts.iter().map(|part| slices::unpack(part).map_err(|error| error.to_string()));
    let deltas = read.collect::<Result<Vec<SliceDelta>, String>>()?;
    let next = tables.with_deltas(&deltas).map_err(|error| error.to_string())?;
    Ok((next, deltas))
}
