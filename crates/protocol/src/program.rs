//! How a program travels and rests: canonical JSON with its number and a checksum.

use crate::message;
use catena_model::NodeProgram;
use catena_model::limits::PROGRAM_BYTES_MAX;

/// Why bytes are not a program.
#[derive(Debug, thiserror::Error)]
pub enum ProgramError {
    /// Larger than a node accepts.
    #[error("the program has {0} bytes, more than the limit of {PROGRAM_BYTES_MAX}")]
    TooLarge(usize),
    /// The bytes changed on their way or on disk.
    #[error("the checksum of program {0} does not fit its bytes: it was torn or altered")]
    Corrupt(u64),
    /// The JSON is not a program.
    #[error("program {number} cannot be read: {source}")]
    Unreadable {
        /// Number in the envelope.
        number: u64,
        /// Where it stopped.
        source: serde_json::Error,
    },
    /// Envelope and body name different numbers.
    #[error("the envelope says program {envelope}, its body program {body}")]
    NumberMismatch {
        /// Number in the envelope.
        envelope: u64,
        /// Number in the body.
        body: u64,
    },
}

/// Packs a program.
#[must_use]
pub fn pack(program: &NodeProgram) -> message::Program {
    // A program is made of plain data with text keys: it always has a JSON form.
    let body = serde_json::to_vec(program).unwrap_or_default();
    let (number, checksum) = (program.number.0, checksum(&body));
    message::Program { number, checksum, body, ..message::Program::default() }
}

/// Checks and unpacks a program.
///
/// # Errors
/// When it is too large, altered, unreadable or contradicts itself.
pub fn unpack(packed: &message::Program) -> Result<NodeProgram, ProgramError> {
    if packed.body.len() > PROGRAM_BYTES_MAX {
        return Err(ProgramError::TooLarge(packed.body.len()));
    }
    if checksum(&packed.body) != packed.checksum {
        return Err(ProgramError::Corrupt(packed.number));
    }
    let program: NodeProgram = serde_json::from_slice(&packed.body)
        .map_err(|source| ProgramError::Unreadable { number: packed.number, source })?;
    if program.number.0 != packed.number {
        return Err(ProgramError::NumberMismatch {
            envelope: packed.number,
            body: program.number.0,
        });
    }
    Ok(program)
}

/// FNV-1a, 64 bits: fixed for all builds.
#[must_use]
pub fn checksum(bytes: &[u8]) -> u64 {
    const OFFSET: u64 = 0xcbf2_9ce4_8422_2325;
    const PRIME: u64 = 0x0000_0100_0000_01b3;
    bytes.iter().fold(OFFSET, |sum, byte| (sum ^ u64::from(*byte)).wrapping_mul(PRIME))
}

#[cfg(test)]
mod tests {
    use super::*;
    use catena_model::program::Underlay;
    use catena_model::{BlueprintNumber, NodeName};

    fn program(number: u64) -> NodeProgram {
        let underlay = Underlay { address: [192, 0, 2, 1].into(), mtu: 1_500 };
        NodeProgram::empty(NodeName::new("host1").unwrap(), BlueprintNumber(number), underlay)
    }

    #[test]
    fn a_program_comes_back_as_it_was_packed() {
        assert_eq!(unpack(&pack(&program(7))).unwrap(), program(7));
    }

    #[test]
    fn every_flipped_bit_is_noticed() {
        let packed = pack(&program(7));
        for bit in 0..packed.body.len() * 8 {
            let mut altered = packed.clone();
            altered.body[bit / 8] ^= 1 << (bit % 8);
            assert!(matches!(unpack(&altered), Err(ProgramError::Corrupt(7))));
        }
    }

    #[test]
    fn a_number_that_contradicts_the_body_is_refused() {
        let mut packed = pack(&program(7));
        packed.number = 8;
        assert!(matches!(unpack(&packed), Err(ProgramError::NumberMismatch { .. })));
    }
}
