//! What a classifier writes into NSH MD type 2 (RFC 8300 section 2.5, RFC 9263 section 4). Knows
//! which header says what; refuses to know its layout.

use crate::engine::error::CompileError;
use catena_model::limits::NSH_CONTEXT_BYTES_MAX;
use catena_model::resource::ContextHeader as Declared;
use catena_model::{DropReason, NodeName};
use catena_wire::nsh::ContextHeader;

/// The context headers that one path's classifier writes.
#[derive(Clone, Debug, Default)]
pub(crate) struct Written(Vec<Piece>);

#[derive(Clone, Debug)]
enum Piece {
    Fixed { kind: u8, value: Vec<u8> },
    Flow,
}

impl Written {
    /// What a path declares, as this node writes it.
    pub(crate) fn compile(declared: &[Declared], node: &NodeName) -> Result<Self, CompileError> {
        let pieces = declared.iter().map(|header| match header {
            Declared::Tenant(name) => fixed(ContextHeader::TENANT, name.as_bytes()),
            Declared::IngressNode => fixed(ContextHeader::INGRESS_NODE, node.as_str().as_bytes()),
            Declared::Policy(number) => fixed(ContextHeader::POLICY, &number.to_be_bytes()),
            Declared::FlowId => Piece::Flow,
        });
        let written = Self(pieces.collect());
        let lens = written.0.iter().map(|piece| piece.header(&[0; 4]).len_bytes());
        let have: usize = lens.sum();
        let is_long = written
            .0
            .iter()
            .any(|piece| piece.header(&[0; 4]).value.len() > ContextHeader::VALUE_LEN_MAX);
        if have > NSH_CONTEXT_BYTES_MAX || is_long {
            let (what, max) = ("bytes of context in one path", NSH_CONTEXT_BYTES_MAX);
            return Err(CompileError::TooMany { what, have, max });
        }
        Ok(written)
    }

    pub(crate) fn is_empty(&self) -> bool {
        self.0.is_empty()
    }

    /// Writes the headers for a packet of a flow, and answers their length.
    pub(super) fn emit(
        &self,
        flow_hash: u64,
        into: &mut [u8; NSH_CONTEXT_BYTES_MAX],
    ) -> Result<usize, DropReason> {
        // The lower half names the flow.
        let [.., a, b, c, d] = flow_hash.to_be_bytes();
        let mut len = 0;
        for piece in &self.0 {
            let emitted = piece.header(&[a, b, c, d]).emit(&mut into[len..]);
            len += emitted.map_err(|_| DropReason::ContextTooLong)?;
        }
        Ok(len)
    }
}

fn fixed(kind: u8, value: &[u8]) -> Piece {
    Piece::Fixed { kind, value: value.to_vec() }
}

impl Piece {
    fn header<'p>(&'p self, flow: &'p [u8; 4]) -> ContextHeader<'p> {
        let (kind, value) = match self {
            Self::Fixed { kind, value } => (*kind, value.as_slice()),
            Self::Flow => (ContextHeader::FLOW, flow.as_slice()),
        };
        ContextHeader { class: ContextHeader::CLASS_BASE, kind, value }
    }
}
