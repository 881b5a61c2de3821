//! Programs as data planes kept them on disk before there were deltas: a message with the JSON of the
//! program, and a file with changes of its slices. Only reads them.

use crate::frame::next_record;
use crate::message;
use catena_model::entry::{Program, checksum};
use catena_model::id::{ChainId, PortId, SliceId};
use catena_model::program::{
    DelayClass, SliceEntry, SliceMatch, SlicePathEntry, SlicePolicy, SliceRate,
};
use catena_model::slice::{Qfi, ScalarError, SlicePlace, Teid, TeidRange, TunnelId, Vni};
use catena_model::{BlueprintNumber, NodeProgram, PathId};
use prost::Message;
use std::sync::Arc;
use uuid::Uuid;

/// Bytes of an identity.
const ID_BYTES: usize = 16;

/// Why a file holds no program.
#[derive(Debug, thiserror::Error)]
pub enum FormerError {
    /// The file is torn, or none of these.
    #[error("it is torn or altered")]
    Torn(#[from] prost::DecodeError),
    /// The bytes changed on disk.
    #[error("its checksum does not fit its bytes: it was torn or altered")]
    Altered,
    /// The JSON is not a program.
    #[error("its program cannot be read: {0}")]
    Unreadable(#[from] serde_json::Error),
    /// An identity of another length.
    #[error("it has an identity of {0} bytes, not {ID_BYTES}")]
    Identity(usize),
    /// A network by two identifiers.
    #[error("it has a network with two identifiers")]
    Network,
    /// A number that does not fit its field.
    #[error("it has a number that no slice has: {0}")]
    Number(#[from] ScalarError),
}

/// Reads a program; `slices` gives the bytes of the file of its slices by its number.
///
/// # Errors
/// When the files were torn or altered.
pub fn read(
    bytes: &[u8],
    slices: impl FnOnce(u64) -> Vec<u8>,
) -> Result<(NodeProgram, Program), FormerError> {
    let packed = message::Program::decode(bytes)?;
    if checksum(&packed.body) != packed.checksum {
        return Err(FormerError::Altered);
    }
    let program: NodeProgram = serde_json::from_slice(&packed.body)?;
    let mut entries = program.entries();
    let mut number = program.number;
    if packed.slices_file > 0 {
        for change in whole_changes(&slices(packed.slices_file)) {
            for id in change.removed.chunks(ID_BYTES) {
                entries.slices.remove(&SliceId(identity(id)?));
            }
            for id in &change.removed_paths {
                entries.slice_paths.remove(&PathId(*id));
            }
            for path in change.paths.iter().map(unpack_path) {
                let path = path?;
                entries.slice_paths.insert(path.id, Arc::new(path));
            }
            for slice in change.slices.iter().map(unpack_slice) {
                let slice = slice?;
                entries.slices.insert(slice.id, Arc::new(slice));
            }
            number = number.max(BlueprintNumber(change.number));
        }
    }
    Ok((program, Program::new(number, entries)))
}

/// The changes of which every part is there.
fn whole_changes(mut rest: &[u8]) -> Vec<message::SliceDelta> {
    let (mut whole, mut parts) = (Vec::new(), Vec::new());
    while let Some((change, behind)) = next_record::<message::SliceDelta>(rest) {
        rest = behind;
        let is_last = change.is_last;
        parts.push(change);
        if is_last {
            whole.append(&mut parts);
        }
    }
    whole
}

fn identity(bytes: &[u8]) -> Result<Uuid, FormerError> {
    Uuid::from_slice(bytes).map_err(|_| FormerError::Identity(bytes.len()))
}

fn unpack_path(path: &message::SlicePath) -> Result<SlicePathEntry, FormerError> {
    Ok(SlicePathEntry {
        id: PathId(path.id),
        slice: SliceId(identity(&path.slice)?),
        like: PathId(path.like),
        carries_metadata: path.carries_metadata,
    })
}

fn unpack_slice(slice: &message::Slice) -> Result<SliceEntry, FormerError> {
    let place = match (slice.port.as_slice(), slice.after.as_slice()) {
        ([], []) => SlicePlace::Endpoints,
        ([], chain) => SlicePlace::After(ChainId(identity(chain)?)),
        (port, _) => SlicePlace::Port(PortId(identity(port)?)),
    };
    let teids = slice.teid_first.map(|first| {
        let last = slice.teid_last.unwrap_or(first);
        TeidRange::new(Teid(first), Teid(last))
    });
    let rate = slice
        .rate_bits_per_second
        .map(|bits_per_second| SliceRate { bits_per_second, burst_bytes: slice.burst_bytes });
    let class = match slice.quantum_bytes {
        _ if slice.is_urgent => DelayClass::Urgent,
        Some(quantum_bytes) => DelayClass::Shared { quantum_bytes },
        None => DelayClass::Unscheduled,
    };
    Ok(SliceEntry {
        id: SliceId(identity(&slice.id)?),
        name: slice.name.clone(),
        matches: SliceMatch {
            place,
            tunnel_id: tunnel_id(slice)?,
            teids: teids.transpose()?,
            qfi: slice.qfi.map(Qfi::new).transpose()?,
        },
        path: PathId(slice.path),
        policy: SlicePolicy { rate, class },
        is_injected: slice.is_injected,
    })
}

fn tunnel_id(slice: &message::Slice) -> Result<Option<TunnelId>, FormerError> {
    Ok(match (slice.vni, slice.gre_key, slice.stt_context) {
        (None, None, None) => None,
        (Some(vni), None, None) => Some(TunnelId::Vni(Vni::new(vni)?)),
        (None, Some(key), None) => Some(TunnelId::GreKey(key)),
        (None, None, Some(context)) => Some(TunnelId::SttContext(context)),
        _ => return Err(FormerError::Network),
    })
}
