//! What tokens are worth, for a while. Bounded: good ones and others each have their room, so that
//! whoever shows many bad ones pushes no good one out.

use super::super::tokens::Hash;
use super::Verdict;
use std::collections::HashMap;
use std::time::Instant;

/// Good tokens that are remembered, and bad ones.
const REMEMBERED_MAX: usize = 4_096;

/// What is remembered of tokens.
#[derive(Default)]
pub(super) struct Cache {
    good: HashMap<Hash, (Verdict, Instant)>,
    bad: HashMap<Hash, (Verdict, Instant)>,
}

impl Cache {
    /// What a token is worth, if that may still be believed.
    pub(super) fn get(&self, hash: &Hash, now: Instant) -> Option<Verdict> {
        let found = self.good.get(hash).or_else(|| self.bad.get(hash));
        found.filter(|(_, until)| now < *until).map(|(verdict, _)| verdict.clone())
    }

    /// Remembers what a token is worth.
    pub(super) fn put(&mut self, hash: Hash, verdict: Verdict, now: Instant, until: Instant) {
        self.good.remove(&hash);
        self.bad.remove(&hash);
        if until <= now {
            return;
        }
        let room = if verdict.is_ok() { &mut self.good } else { &mut self.bad };
        if room.len() >= REMEMBERED_MAX {
            room.retain(|_, (_, until)| now < *until);
        }
        if room.len() >= REMEMBERED_MAX {
            let first = room.iter().min_by_key(|(_, (_, until))| *until).map(|(hash, _)| *hash);
            first.and_then(|hash| room.remove(&hash));
        }
        room.insert(hash, (verdict, until));
    }
}

#[cfg(test)]
mod tests {
    use super::super::super::Identity;
    use super::super::Denial;
    use super::*;
    use catena_model::{ProjectId, Role};
    use std::time::Duration;

    fn hash(number: usize) -> Hash {
        let mut hash = [0; 32];
        hash[..8].copy_from_slice(&number.to_le_bytes());
        hash
    }

    #[test]
    fn an_answer_is_believed_until_its_end_and_no_longer() {
        let mut cache = Cache::default();
        let identity = Identity { project: ProjectId("p".into()), role: Role::Tenant };
        let (now, end) = (Instant::now(), Instant::now() + Duration::from_secs(60));
        cache.put(hash(1), Ok(identity.clone()), now, end);
        assert_eq!(cache.get(&hash(1), end - Duration::from_nanos(1)), Some(Ok(identity.clone())));
        assert_eq!(cache.get(&hash(1), end), None);
        assert_eq!(cache.get(&hash(2), now), None);
        // What became bad is not good beside it.
        cache.put(hash(1), Err(Denial::Unknown), now, end);
        assert_eq!(cache.get(&hash(1), now), Some(Err(Denial::Unknown)));
        cache.put(hash(1), Ok(identity), now, now);
        assert_eq!(cache.get(&hash(1), now), None);
    }

    #[test]
    fn it_never_outgrows_its_room_and_bad_tokens_push_out_no_good_one() {
        let mut cache = Cache::default();
        let identity = Identity { project: ProjectId("p".into()), role: Role::Tenant };
        let now = Instant::now();
        let end = |number: usize| now + Duration::from_secs(number as u64 + 1);
        cache.put(hash(0), Ok(identity), now, end(0));
        for number in 1..=2 * REMEMBERED_MAX {
            cache.put(hash(number), Err(Denial::Unknown), now, end(number));
        }
        assert_eq!((cache.good.len(), cache.bad.len()), (1, REMEMBERED_MAX));
        assert!(cache.get(&hash(0), now).is_some());
        assert!(cache.get(&hash(1), now).is_none(), "the first to end goes first");
        assert!(cache.get(&hash(2 * REMEMBERED_MAX), now).is_some());
    }
}
