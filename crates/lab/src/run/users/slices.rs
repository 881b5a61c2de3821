//! The slices of the experiment: one for each user, in turns of the tenants, declared by the line and
//! waited for. Knows the API; refuses to know frames.

use super::frames::User;
use super::tunnel_end;
use crate::error::{LabError, Result};
use crate::up::RunningLab;
use crate::vocabulary::{Tenant, Users};
use catena_model::slice::SliceDocument;
use catena_model::status::ChainState;
use catena_wire::scalar::Teid;
use std::time::{Duration, Instant};

/// How long declared slices may take until all of them are in force.
const ACTIVE_WAIT: Duration = Duration::from_secs(60);
const LOOK_PAUSE: Duration = Duration::from_millis(20);
/// The least odd number coprime to every count of slices that is a power of two.
const STRIDE: usize = 0x9e37;

/// What is declared.
pub(super) struct Declared<'d> {
    running: &'d RunningLab,
    users: &'d Users,
    count: usize,
}

impl<'d> Declared<'d> {
    pub(super) fn new(running: &'d RunningLab, users: &'d Users) -> Self {
        Self { running, users, count: 0 }
    }

    pub(super) fn len(&self) -> usize {
        self.count
    }

    /// Slices of one of the tenants, who take turns.
    pub(super) fn of_tenant(&self, tenant: usize) -> usize {
        let tenants = self.users.tenants.len().max(1);
        (self.count + tenants - 1).saturating_sub(tenant) / tenants
    }

    fn tenant(&self, slice: usize) -> Option<&'d Tenant> {
        self.users.tenants.get(slice % self.users.tenants.len().max(1))
    }

    /// Tenants number their users alike: only both together tell one from all others.
    fn teid(&self, slice: usize) -> u32 {
        u32::try_from(slice / self.users.tenants.len().max(1)).unwrap_or(u32::MAX - 1) + 1
    }

    fn document(&self, slice: usize) -> Option<SliceDocument> {
        let tenant = self.tenant(slice)?;
        Some(SliceDocument {
            name: format!("user{slice}"),
            chain: tenant.chain.clone(),
            vni: Some(tenant.vni.get()),
            teid: Some(self.teid(slice)),
            ..SliceDocument::default()
        })
    }

    /// Declares slices up to this count; how long it took until all were in force, in seconds.
    pub(super) fn grow(&mut self, count: usize) -> Result<f64> {
        let start = Instant::now();
        let more: Vec<SliceDocument> =
            (self.count..count).filter_map(|slice| self.document(slice)).collect();
        let made = self.running.client.create_slices(more.iter())?;
        if let Some((line, why)) = made.refused.first() {
            return Err(self.refused(format!("slice {line} is refused: {why}")));
        }
        self.count = count;
        let last = more.last().map(|slice| slice.name.clone()).unwrap_or_default();
        self.wait_active(&last)?;
        Ok(start.elapsed().as_secs_f64())
    }

    /// Slices come into force in the order in which they are declared: the last is looked at, and
    /// then all of them.
    fn wait_active(&self, last: &str) -> Result<()> {
        let deadline = Instant::now() + ACTIVE_WAIT;
        loop {
            let report = self.running.client.slice(last)?;
            let mut missing = (report.status.state != ChainState::Active)
                .then(|| format!("slice '{last}': {}", report.status.reason));
            if missing.is_none() {
                let all = self.running.client.slices(None)?;
                let waiting = all.iter().find(|slice| slice.status.state != ChainState::Active);
                missing = waiting
                    .map(|slice| format!("slice '{}': {}", slice.slice.name, slice.status.reason));
            }
            match missing {
                None => return Ok(()),
                Some(reason) if Instant::now() > deadline => return Err(self.refused(reason)),
                Some(_) => std::thread::sleep(LOOK_PAUSE),
            }
        }
    }

    fn refused(&self, reason: String) -> LabError {
        LabError::Refused { lab: self.running.lab.name.clone(), reason }
    }

    fn user(&self, slice: usize) -> Option<(User, u8)> {
        let tenant = self.tenant(slice)?;
        let teid = Teid(self.teid(slice));
        let user = User {
            vni: tenant.vni,
            teid,
            qfi: tenant.qfi,
            tunnel_end: tunnel_end(1),
            address: User::address_in(teid),
        };
        Some((user, routers_of(self.running, &tenant.chain)))
    }

    /// All users with the routers on their chains, far from the order in which they were declared.
    pub(super) fn users(&self) -> Vec<(User, u8)> {
        let count = self.count;
        (0..count).filter_map(|index| self.user(index.wrapping_mul(STRIDE) % count)).collect()
    }
}

/// Routers that a packet passes on a chain: each function is one.
pub(super) fn routers_of(running: &RunningLab, chain: &str) -> u8 {
    let functions = running.lab.chain(chain).map_or(0, |chain| chain.document.chain.len());
    u8::try_from(functions).unwrap_or(u8::MAX)
}
