//! How a change of slices travels and rests: numbers in a few bytes each, because there are many.

use crate::message;
use catena_model::id::{ChainId, PortId, SliceId};
use catena_model::limits::SLICE_DELTA_ENTRIES_MAX;
use catena_model::program::{
    DelayClass, SliceDelta, SliceEntry, SliceMatch, SlicePathEntry, SlicePolicy, SliceRate,
};
use catena_model::slice::{Qfi, ScalarError, SlicePlace, Teid, TeidRange, TunnelId, Vni};
use catena_model::{BlueprintNumber, NodeName, PathId};
use uuid::Uuid;

/// Bytes of an identity.
const ID_BYTES: usize = 16;

/// Why a message is no change of slices.
#[derive(Debug, thiserror::Error)]
pub enum SliceDeltaError {
    /// More than one message holds.
    #[error("a change of slices has {0} entries, more than {SLICE_DELTA_ENTRIES_MAX}")]
    TooMany(usize),
    /// An identity of another length.
    #[error("a change of slices has an identity of {0} bytes, not {ID_BYTES}")]
    Identity(usize),
    /// A name that is none.
    #[error(transparent)]
    Node(#[from] catena_model::id::NodeNameError),
    /// A network by two identifiers.
    #[error("a change of slices has a network with two identifiers")]
    Network,
    /// A number that does not fit its field.
    #[error("a change of slices has a number that no slice has: {0}")]
    Number(#[from] ScalarError),
}

/// Packs a change, or the part of one. `to` is the program that it makes with its last part.
#[must_use]
pub fn pack(delta: &SliceDelta, to: BlueprintNumber, is_last: bool) -> message::SliceDelta {
    message::SliceDelta {
        node: delta.node.to_string(),
        base: delta.base.0,
        number: to.0,
        is_last,
        removed: delta.removed.iter().flat_map(|id| *id.0.as_bytes()).collect(),
        removed_paths: delta.removed_paths.iter().map(|path| path.0).collect(),
        paths: delta.paths.iter().map(pack_path).collect(),
        slices: delta.slices.iter().map(pack_slice).collect(),
    }
}

fn pack_path(path: &SlicePathEntry) -> message::SlicePath {
    message::SlicePath {
        id: path.id.0,
        slice: path.slice.0.as_bytes().to_vec(),
        like: path.like.0,
        carries_metadata: path.carries_metadata,
    }
}

fn pack_slice(slice: &SliceEntry) -> message::Slice {
    let SliceMatch { place, tunnel_id, teids, qfi } = slice.matches;
    let last = teids.map(|range| range.last().0);
    let (port, after) = match place {
        SlicePlace::Endpoints => (Vec::new(), Vec::new()),
        SlicePlace::Port(port) => (port.0.as_bytes().to_vec(), Vec::new()),
        SlicePlace::After(chain) => (Vec::new(), chain.0.as_bytes().to_vec()),
    };
    let (vni, gre_key, stt_context) = match tunnel_id {
        None => (None, None, None),
        Some(TunnelId::Vni(vni)) => (Some(vni.get()), None, None),
        Some(TunnelId::GreKey(key)) => (None, Some(key), None),
        Some(TunnelId::SttContext(context)) => (None, None, Some(context)),
    };
    message::Slice {
        id: slice.id.0.as_bytes().to_vec(),
        name: slice.name.clone(),
        path: slice.path.0,
        port,
        after,
        vni,
        gre_key,
        stt_context,
        teid_first: teids.map(|range| range.first().0),
        teid_last: last.filter(|last| teids.is_some_and(|range| range.first().0 != *last)),
        qfi: qfi.map(|qfi| qfi.get().into()),
        rate_bits_per_second: slice.policy.rate.map(|rate| rate.bits_per_second),
        burst_bytes: slice.policy.rate.map_or(0, |rate| rate.burst_bytes),
        is_urgent: slice.policy.class == DelayClass::Urgent,
        quantum_bytes: match slice.policy.class {
            DelayClass::Shared { quantum_bytes } => Some(quantum_bytes),
            DelayClass::Urgent | DelayClass::Unscheduled => None,
        },
        is_injected: slice.is_injected,
    }
}

/// Checks and unpacks a change.
///
/// # Errors
/// When it has too many entries, or one that no slice can be.
pub fn unpack(packed: &message::SliceDelta) -> Result<SliceDelta, SliceDeltaError> {
    let message::SliceDelta { removed, removed_paths, paths, slices, .. } = packed;
    let entries = removed.len() / ID_BYTES + removed_paths.len() + paths.len() + slices.len();
    if entries > SLICE_DELTA_ENTRIES_MAX {
        return Err(SliceDeltaError::TooMany(entries));
    }
    let (base, number) = (BlueprintNumber(packed.base), BlueprintNumber(packed.number));
    Ok(SliceDelta {
        node: NodeName::new(packed.node.clone())?,
        base,
        number: if packed.is_last { number } else { base },
        removed: removed
            .chunks(ID_BYTES)
            .map(|bytes| identity(bytes).map(SliceId))
            .collect::<Result<_, _>>()?,
        removed_paths: removed_paths.iter().map(|path| PathId(*path)).collect(),
        paths: paths.iter().map(unpack_path).collect::<Result<_, _>>()?,
        slices: slices.iter().map(unpack_slice).collect::<Result<_, _>>()?,
    })
}

fn identity(bytes: &[u8]) -> Result<Uuid, SliceDeltaError> {
    Uuid::from_slice(bytes).map_err(|_| SliceDeltaError::Identity(bytes.len()))
}

fn unpack_path(path: &message::SlicePath) -> Result<SlicePathEntry, SliceDeltaError> {
    Ok(SlicePathEntry {
        id: PathId(path.id),
        slice: SliceId(identity(&path.slice)?),
        like: PathId(path.like),
        carries_metadata: path.carries_metadata,
    })
}

fn unpack_slice(slice: &message::Slice) -> Result<SliceEntry, SliceDeltaError> {
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

fn tunnel_id(slice: &message::Slice) -> Result<Option<TunnelId>, SliceDeltaError> {
    Ok(match (slice.vni, slice.gre_key, slice.stt_context) {
        (None, None, None) => None,
        (Some(vni), None, None) => Some(TunnelId::Vni(Vni::new(vni)?)),
        (None, Some(key), None) => Some(TunnelId::GreKey(key)),
        (None, None, Some(context)) => Some(TunnelId::SttContext(context)),
        _ => return Err(SliceDeltaError::Network),
    })
}

#[cfg(test)]
mod tests {
    use super::*;
    use prost::Message;

    fn entry(number: u32, place: SlicePlace, class: DelayClass) -> SliceEntry {
        let rate = SliceRate { bits_per_second: u64::from(number), burst_bytes: 9_000 };
        SliceEntry {
            id: SliceId(Uuid::from_u128(number.into())),
            name: format!("slice {number}"),
            matches: SliceMatch {
                place,
                tunnel_id: match number {
                    1 => None,
                    2 => Some(TunnelId::Vni(Vni::new(number).unwrap())),
                    3 => Some(TunnelId::GreKey(u32::MAX)),
                    _ => Some(TunnelId::SttContext(u64::MAX)),
                },
                teids: Some(TeidRange::new(Teid(number), Teid(number.max(7))).unwrap()),
                qfi: (number > 2).then(|| Qfi::new(63).unwrap()),
            },
            path: PathId(number),
            policy: SlicePolicy { rate: (number > 1).then_some(rate), class },
            is_injected: number == 3,
        }
    }

    fn delta() -> SliceDelta {
        let port = SlicePlace::Port(PortId(Uuid::from_u128(5)));
        SliceDelta {
            node: NodeName::new("host1").unwrap(),
            base: BlueprintNumber(7),
            number: BlueprintNumber(9),
            removed: vec![SliceId(Uuid::from_u128(1)), SliceId(Uuid::from_u128(2))],
            removed_paths: vec![PathId(4)],
            paths: vec![SlicePathEntry {
                id: PathId(1),
                slice: SliceId(Uuid::from_u128(1)),
                like: PathId(8),
                carries_metadata: true,
            }],
            slices: vec![
                entry(1, SlicePlace::Endpoints, DelayClass::Unscheduled),
                entry(2, port, DelayClass::Urgent),
                entry(
                    3,
                    SlicePlace::After(ChainId(Uuid::from_u128(2))),
                    DelayClass::Shared { quantum_bytes: 1_500 },
                ),
                entry(7, SlicePlace::Endpoints, DelayClass::Unscheduled),
            ],
        }
    }

    #[test]
    fn a_change_of_slices_comes_back_as_it_was_packed() {
        let bytes = pack(&delta(), BlueprintNumber(9), true).encode_to_vec();
        let packed = message::SliceDelta::decode(bytes.as_slice()).unwrap();
        assert_eq!(unpack(&packed).unwrap(), delta());
    }

    #[test]
    fn a_part_leaves_the_program_with_the_number_that_it_has() {
        let part = unpack(&pack(&delta(), BlueprintNumber(9), false)).unwrap();
        assert_eq!(part.number, BlueprintNumber(7));
    }

    #[test]
    fn what_no_slice_can_be_is_refused() {
        let packed = pack(&delta(), BlueprintNumber(9), true);
        let spoilt = |spoil: &dyn Fn(&mut message::SliceDelta)| {
            let mut packed = packed.clone();
            spoil(&mut packed);
            unpack(&packed).is_err()
        };
        assert!(spoilt(&|packed| packed.removed.truncate(17)));
        assert!(spoilt(&|packed| packed.slices[0].vni = Some(1 << 24)));
        assert!(spoilt(&|packed| packed.slices[1].stt_context = Some(0)));
        assert!(spoilt(&|packed| packed.slices[0].qfi = Some(64)));
        assert!(spoilt(&|packed| packed.slices[3].teid_last = Some(1)));
        assert!(spoilt(&|packed| packed.paths[0].slice.clear()));
        assert!(spoilt(&|packed| packed.removed_paths = vec![1; SLICE_DELTA_ENTRIES_MAX]));
    }
}
