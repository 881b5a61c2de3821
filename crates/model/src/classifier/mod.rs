//! What packets a classifier takes, apart from where they are met. Knows the conditions, what two of them
//! have in common, and the fields beside the flow, each declared once; refuses to know ports, paths and
//! where a packet's bytes are.

mod field;
mod field_match;
mod flow_match;

pub use field::{CODE_POINTS, FIELDS, Field};
pub use field_match::{FieldError, FieldMatch, FieldWord};
pub use flow_match::FlowMatch;
