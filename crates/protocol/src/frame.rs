//! Length-prefixed messages for a byte stream: four bytes of length, big-endian, then the message; in a
//! file a checksum of eight stands between them. Knows no socket: bytes come in by `push`, whole messages
//! go out by `next_message`.

use catena_model::entry::checksum;
use prost::Message;

/// Longest message accepted, in bytes.
pub const FRAME_BYTES_MAX: usize = catena_model::limits::MESSAGE_BYTES_MAX;
const PREFIX_BYTES: usize = 4;

/// Why a stream cannot be read on.
#[derive(Debug, thiserror::Error)]
pub enum FrameError {
    /// The length is above the limit.
    #[error("a message of {0} bytes is longer than the limit of {FRAME_BYTES_MAX}")]
    TooLong(usize),
    /// The bytes are no message of the expected kind.
    #[error("the message cannot be decoded")]
    Undecodable(#[source] prost::DecodeError),
}

/// Writes one message with its length.
#[must_use]
pub fn encode(message: &impl Message) -> Vec<u8> {
    let length = message.encoded_len();
    let mut bytes = Vec::with_capacity(PREFIX_BYTES + length);
    bytes.extend_from_slice(&u32::try_from(length).unwrap_or(u32::MAX).to_be_bytes());
    message.encode_raw(&mut bytes);
    bytes
}

/// A message as a file has it.
#[must_use]
pub fn record(message: &impl Message) -> Vec<u8> {
    let body = message.encode_to_vec();
    let length = u32::try_from(body.len()).unwrap_or(u32::MAX).to_be_bytes();
    [&length[..], &checksum(&body).to_be_bytes(), &body].concat()
}

/// The first message of a file and the bytes behind it; none: there is none, or it was torn or altered.
#[must_use]
pub fn next_record<M: Message + Default>(bytes: &[u8]) -> Option<(M, &[u8])> {
    let (length, rest) = bytes.split_first_chunk::<PREFIX_BYTES>()?;
    let (sum, rest) = rest.split_first_chunk()?;
    let (body, rest) = rest.split_at_checked(u32::from_be_bytes(*length) as usize)?;
    let is_right = checksum(body) == u64::from_be_bytes(*sum);
    is_right.then(|| M::decode(body).ok())?.map(|message| (message, rest))
}

/// Collects bytes until a message is whole.
#[derive(Debug, Default)]
pub struct FrameReader {
    pending: Vec<u8>,
}

impl FrameReader {
    /// Takes what the socket gave.
    pub fn push(&mut self, bytes: &[u8]) {
        self.pending.extend_from_slice(bytes);
    }

    /// The next whole message, if there is one.
    ///
    /// # Errors
    /// When the stream is out of step; it must be closed then.
    pub fn next_message<M: Message + Default>(&mut self) -> Result<Option<M>, FrameError> {
        let Some(prefix) = self.pending.first_chunk::<PREFIX_BYTES>() else { return Ok(None) };
        let length = u32::from_be_bytes(*prefix) as usize;
        if length > FRAME_BYTES_MAX {
            return Err(FrameError::TooLong(length));
        }
        let Some(body) = self.pending.get(PREFIX_BYTES..PREFIX_BYTES + length) else {
            return Ok(None);
        };
        let message = M::decode(body).map_err(FrameError::Undecodable)?;
        self.pending.drain(..PREFIX_BYTES + length);
        Ok(Some(message))
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::message::{ProgramResult, StateRequest};
    use proptest::prelude::*;

    #[test]
    fn a_length_above_the_limit_closes_the_stream() {
        let mut reader = FrameReader::default();
        reader.push(&u32::MAX.to_be_bytes());
        assert!(matches!(reader.next_message::<StateRequest>(), Err(FrameError::TooLong(_))));
    }

    proptest! {
        #[test]
        fn messages_survive_any_cutting_of_the_stream(
            numbers in prop::collection::vec(any::<u64>(), 1..20),
            cut in 1usize..40,
        ) {
            let sent: Vec<ProgramResult> = numbers
                .iter()
                .map(|n| crate::session::program_result(*n, n.to_string()))
                .collect();
            let stream: Vec<u8> = sent.iter().flat_map(encode).collect();
            let mut reader = FrameReader::default();
            let mut got = Vec::new();
            for piece in stream.chunks(cut) {
                reader.push(piece);
                while let Some(message) = reader.next_message::<ProgramResult>().unwrap() {
                    got.push(message);
                }
            }
            prop_assert_eq!(got, sent);
        }

        #[test]
        fn no_bytes_make_the_reader_panic(bytes in prop::collection::vec(any::<u8>(), 0..200)) {
            let mut reader = FrameReader::default();
            reader.push(&bytes);
            while let Ok(Some(_)) = reader.next_message::<crate::message::ToDataplane>() {}
        }
    }
}
