//! All that an engine remembers, as text: what passes a node that is to remember nothing leaves it as it was.
//! Knows which parts count and which are working memory; refuses to know what they mean.

use crate::engine::Engine;
use std::fmt::Debug;
use std::io;

impl Engine {
    /// What packets leave behind in this engine, by part, but for what it counts, the time that it was told last, and
    /// working memory that is empty between vectors. Tables, and what is made with them, are read alone by stages;
    /// those of the kernel are [`Engine::dump_kernel`].
    #[must_use]
    pub fn dump(&self) -> Vec<(&'static str, &dyn Debug)> {
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
            functions,
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
        vec![
            ("proxy_flows", proxy_flows),
            ("shared_functions", shared_functions),
            ("affinity", affinity),
            ("inspection", inspection),
            ("fragments", fragments),
            ("functions", functions),
            ("carried", carried),
            ("pathlets", pathlets),
            ("shaper", shaper),
            ("setups", setups),
            ("captures", captures),
            ("health", health),
            ("checks", checks),
            ("follows", follows),
            ("fast_path", fast_path),
            ("floods", floods),
            ("flow_cache", flow_cache),
            ("flushes", flushes),
        ]
    }

    /// What the kernel's tables hold but for what is counted; none: nothing is the kernel's.
    ///
    /// # Errors
    /// The kernel's refusal.
    pub fn dump_kernel(&self) -> io::Result<Option<String>> {
        self.kernel.as_ref().map_or(Ok(None), |kernel| kernel.dump())
    }
}
