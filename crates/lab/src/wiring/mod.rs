//! The lab's network: what it consists of (`plan`, pure, with the addresses of `address`) and how
//! it is made (`apply`).

mod address;
mod apply;
mod plan;
mod routers;
mod strange;

pub(crate) use apply::{Namespaces, make};
pub use plan::NoRoom;
pub(crate) use plan::{
    CONTROLLER, DATA_INTERFACE, MANAGEMENT_SWITCH, NodePlan, PortPlan, SOUTHBOUND_PORT, WiringPlan,
    controller_address, plan, switch_side,
};
pub(crate) use strange::{STRANGE_END, STRANGE_LINK, strange_node};
