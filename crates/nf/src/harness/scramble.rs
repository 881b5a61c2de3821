//! Packets that differ from others in what nobody reads.

use super::Input;
use super::traffic::Random;
use crate::packet::Direction;
use catena_model::profile::{FieldSet, Meta};
use catena_wire::field::{Field, UpperChecksum};
use catena_wire::frame::FrameView;
use catena_wire::scalar::{Qfi, Teid, Vni};

/// Fields by which other fields are found: a change makes another packet of what follows.
const STRUCTURE: [Field; 5] =
    [Field::EtherType, Field::Length, Field::FragmentFlags, Field::FragmentOffset, Field::Protocol];

/// The same packet, with random bits wherever `reads` has none.
pub(super) fn scramble(input: &Input, reads: &FieldSet, random: &mut Random) -> Input {
    let mut changed = input.clone();
    if let Ok(view) = FrameView::parse(&input.frame) {
        bytes(&mut changed.frame, &view, reads, random);
        // A padding that nobody declared.
        let end = view.end as usize;
        changed.frame.iter_mut().skip(end).for_each(|byte| *byte = random.number() as u8);
    }
    if FrameView::parse(&changed.frame).is_err() {
        changed.frame.clone_from(&input.frame);
    }
    let free = |meta: Meta| !reads.has_meta(meta);
    if free(Meta::InPort) && random.number() & 1 == 0 {
        changed.direction = Direction::Backward;
    }
    let number = random.number() as u32;
    if free(Meta::Vni) {
        changed.metadata.vni = Vni::new(number & 0xff_ffff).ok();
    }
    if free(Meta::Teid) {
        changed.metadata.teid = Some(Teid(number));
    }
    if free(Meta::Qfi) {
        changed.metadata.qfi = Qfi::new(number & 0x3f).ok();
    }
    if free(Meta::Slice) {
        changed.metadata.slice = Some(number.into());
    }
    changed
}

fn bytes(frame: &mut [u8], view: &FrameView, reads: &FieldSet, random: &mut Random) {
    for field in Field::ALL.iter().filter(|field| !STRUCTURE.contains(field)) {
        let free = field.all() & !reads.bits(*field);
        if free == 0 {
            continue;
        }
        if let Some(range) = field.bytes(frame, view) {
            let bytes = frame.get_mut(range).unwrap_or_default();
            bytes.iter_mut().for_each(|byte| *byte = random.number() as u8);
            continue;
        }
        // Only the bits count here: a checksum that nobody reads may be wrong.
        let value = u128::from(random.number()) << 64 | u128::from(random.number());
        let kept =
            [Field::HeaderChecksum, Field::UpperChecksum].map(|sum| (sum, sum.read(frame, view)));
        let _ = field.write(frame, view, (value, free), UpperChecksum::Closed);
        let is_sum = kept.iter().any(|(sum, _)| sum == field);
        for (sum, before) in kept {
            if let Some(before) = before.filter(|_| !is_sum && reads.bits(sum) != 0) {
                let _ = sum.write(frame, view, (before, u128::MAX), UpperChecksum::Closed);
            }
        }
    }
}
