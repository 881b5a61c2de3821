//! Classes of traffic as packets are held against them. Knows which class takes a packet; refuses to know what is
//! done with it.

use crate::packet::{Direction, Packet};
use crate::subject::{reads, value};
use catena_model::profile::FieldSet;
use catena_rules::condition::Condition;
use catena_rules::qos::QosClass;
use catena_wire::field::Field;

/// The rows of conditions of each class, in the order of the classes.
#[derive(Clone, Debug)]
pub(crate) struct Classes(Vec<Vec<Vec<Condition>>>);

impl Classes {
    pub(crate) fn new<'c>(classes: impl IntoIterator<Item = &'c QosClass>) -> Self {
        Self(classes.into_iter().map(|class| class.rows.clone()).collect())
    }

    /// The first class that takes a packet; none: none does, or it is no IP.
    pub(crate) fn find(&self, direction: Direction, packet: &Packet<'_>) -> Option<usize> {
        packet.view.flow?;
        let is_met =
            |condition: &Condition| condition.takes(|subject| value(packet, direction, subject));
        let takes = |rows: &Vec<Vec<Condition>>| rows.iter().any(|row| row.iter().all(is_met));
        self.0.iter().position(takes)
    }

    /// What decides which class takes a packet.
    pub(crate) fn reads(&self) -> FieldSet {
        // Whether it is IP, and of which version, decides where everything else is.
        let start = FieldSet::EMPTY.with(Field::EtherType);
        self.0.iter().flatten().flatten().fold(start, |set, condition| {
            let mask = condition.test.mask();
            condition.subjects.iter().fold(set, |set, subject| reads(*subject, mask, set))
        })
    }
}
