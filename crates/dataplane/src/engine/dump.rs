//! All that an engine remembers, as text: what passes a node that is to remember nothing leaves it as it was.
//! Knows which parts count and which are working memory; refuses to know what they mean.

use crate::engine::Engine;
use std::fmt::Debug;

impl Engine {
    /// What packets leave behind in this engine, by part, but for what it counts, the time that it was told last, and
    /// working memory that is empty between vectors. Tables, and what is made with them, are read alone by stages.
    #[must_use]
    pub fn dump(&self) -> Vec<(&'static str, String)> {
        // Without a rest: whoever adds a part decides what it is.
        let Self {
            config: _,
            counters: _,
            now_ns: _,
            arrivals: _,
            vector: _,
            trains: _,
            located: _,
            due: _,
            egress: _,
            made: _,
            tables: _,
            epoch: _,
            slots: _,
            proxy_flows,
            shared_functions,
            affinity,
            inspection,
            fragments,
            carried,
            pathlets,
            shaper,
            setups,
            has_turned: _,
            captures,
            health,
            checks,
            follows,
            actions: _,
            fast_path,
            floods,
            flow_cache,
            flushes,
            has_flow_stores: _,
            transit: _,
            kernel: _,
        } = self;
        fn of(part: &dyn Debug) -> String {
            format!("{part:?}")
        }
        vec![
            ("proxy_flows", of(proxy_flows)),
            ("shared_functions", of(shared_functions)),
            ("affinity", of(affinity)),
            ("inspection", of(inspection)),
            ("fragments", of(fragments)),
            ("carried", of(carried)),
            ("pathlets", of(pathlets)),
            ("shaper", of(shaper)),
            ("setups", of(setups)),
            ("captures", of(captures)),
            ("health", of(health)),
            ("checks", of(checks)),
            ("follows", of(follows)),
            ("fast_path", of(fast_path)),
            ("floods", of(floods)),
            ("flow_cache", of(flow_cache)),
            ("flushes", of(flushes)),
        ]
    }
}
