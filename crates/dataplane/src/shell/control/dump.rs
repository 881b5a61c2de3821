//! What the node holds, for who compares two moments. Knows who holds what; refuses to know why it matters.

use super::{Control, DataplaneError, Order};
use crate::shell::dump::part;
use catena_model::Answer;
use catena_model::dump::{DumpedPart, StateDump};

impl Control {
    /// The program and what is compiled of it, and what each worker holds beside.
    pub(super) fn dump(&mut self) -> Result<Answer, DataplaneError> {
        let key = self.dump_key.clone();
        let mut parts = Vec::new();
        if let Some(running) = &self.running {
            // A program that says the same is the same, whatever its number.
            let tables = running.program.entries.tables().into_iter();
            parts
                .extend(tables.map(|(name, table)| part(&format!("program: {name}"), table, &key)));
            // Whoever asks for counters of slices has them sorted: here it is no difference.
            running.tables.order_slices();
            parts.push(part("tables", &running.tables, &key));
        }
        parts.push(part("injected", &self.injected, &key));
        let (first, others) =
            self.workers.order_all(|done| Order::Dump { key: key.clone(), done })?;
        for (worker, held) in std::iter::once(first).chain(others).enumerate() {
            let held = match held {
                Ok(held) => held,
                Err(error) => {
                    let reason = format!("the kernel's tables cannot be read: {error}");
                    return Ok(Answer::Refused { reason });
                }
            };
            let name = |part: &DumpedPart| format!("worker {worker}: {}", part.name);
            parts.extend(held.into_iter().map(|part| DumpedPart { name: name(&part), ..part }));
        }
        Ok(Answer::Dumped(StateDump { process: std::process::id(), parts }))
    }
}
