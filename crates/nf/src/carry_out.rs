//! What outcomes ask for, done: the one place where patches meet bytes, one after the other or side by
//! side.

use crate::outcome::{Part, Patch};
use crate::packet::Metadata;
use catena_model::profile::Meta;
use catena_wire::field::{FieldError, UpperChecksum};
use catena_wire::frame::FrameView;
use catena_wire::scalar::{Qfi, Teid, Vni};

/// Why a patch could not be carried out.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum PatchError {
    /// The packet has no such field.
    Field(FieldError),
    /// Functions do not set this, or not to this value.
    Meta(Meta),
}

/// Applies patches in their order; of two of the same bits the later wins, also where it sets what was
/// there before the earlier. `view` is that of the frame before.
///
/// # Errors
/// At the first that names what the packet does not have; those before it are done.
pub fn apply<'p>(
    patches: impl IntoIterator<Item = &'p Patch>,
    (frame, view): (&mut [u8], &FrameView),
    upper: UpperChecksum,
    metadata: &mut Metadata,
) -> Result<(), PatchError> {
    for patch in patches {
        match patch.part {
            Part::Field(field) => {
                let written = field.write(frame, view, (patch.value, patch.mask), upper);
                written.map_err(PatchError::Field)?;
            }
            Part::Meta(meta) => set(meta, patch.value, metadata).ok_or(PatchError::Meta(meta))?,
        }
    }
    Ok(())
}

fn set(meta: Meta, value: u128, metadata: &mut Metadata) -> Option<()> {
    let number = u32::try_from(value).ok();
    match meta {
        Meta::Vni => metadata.vni = Some(Vni::new(number?).ok()?),
        Meta::Teid => metadata.teid = Some(Teid(number?)),
        Meta::Qfi => metadata.qfi = Some(Qfi::new(number?).ok()?),
        Meta::Slice => metadata.slice = Some(value),
        Meta::InPort | Meta::ConnectionState | Meta::ReceivedAt | Meta::Hash => return None,
    }
    Some(())
}
