//! Ways round a dead cable, which frames bring with them: the node whose cable it is takes them without asking anybody.
//! Knows headers whose next port has been taken; refuses to know which cables are dead.

use super::HEADER_BYTES_MAX;
use crate::engine::packet::trim_front;
use catena_io::Buffer;
use catena_model::DropReason;
use catena_wire::ethernet::ADDRESSES_BYTES;
use catena_wire::source_route::native::{self, NativeView, TagKey};
use catena_wire::source_route::{Next, SourceRouteError};

/// A header with its detour taken, and the first port of that too.
pub(crate) struct Detoured {
    bytes: [u8; HEADER_BYTES_MAX],
    len: usize,
    /// Bytes of the header in whose place it stands, which is no shorter.
    former_len: usize,
    /// The port by which the detour begins.
    pub(crate) port: u8,
}

impl Detoured {
    /// The way round the port that was taken last; none: the frame brings none with it. `key`: by which its tag is
    /// made anew, if it has one.
    ///
    /// # Errors
    /// [`DropReason::WrongRouteTag`].
    pub(crate) fn of(frame: &[u8], key: &TagKey) -> Result<Option<Self>, DropReason> {
        let mut former = [0; HEADER_BYTES_MAX];
        let have = frame.len().min(HEADER_BYTES_MAX);
        former[..have].copy_from_slice(&frame[..have]);
        let former = &mut former[..have];
        if !native::step_back(former) {
            return Ok(None);
        }
        let Ok(view) = NativeView::parse(former) else { return Ok(None) };
        let mut bytes = [0; HEADER_BYTES_MAX];
        let len = match view.detour(Some(key), &mut bytes) {
            Ok(len) => len,
            Err(SourceRouteError::Tag) => return Err(DropReason::WrongRouteTag),
            Err(_) => return Ok(None),
        };
        bytes[..ADDRESSES_BYTES].copy_from_slice(&former[..ADDRESSES_BYTES]);
        let former_len = view.len_bytes();
        Ok(match native::advance(&mut bytes[..len]) {
            Ok(Next::Port(port)) if len <= former_len => {
                Some(Self { bytes, len, former_len, port })
            }
            _ => None,
        })
    }

    pub(crate) fn bytes(&self) -> &[u8] {
        &self.bytes[..self.len]
    }

    /// Writes it in the place of the frame's; false: the frame is too short.
    pub(crate) fn put(&self, buffer: &mut Buffer) -> bool {
        if !trim_front(buffer, self.former_len - self.len) {
            return false;
        }
        let place = buffer.bytes_mut().get_mut(..self.len);
        place.map(|place| place.copy_from_slice(self.bytes())).is_some()
    }
}
