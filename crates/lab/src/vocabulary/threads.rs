//! Threads of hosts that ask functions, where a lab file says so. Knows what a host may have; refuses to know which
//! functions are asked by them.

use super::document::Document;
use super::error::Fault;
use catena_model::limits::NODE_FUNCTION_THREADS_MAX;
use catena_model::parallelism::Form;
use std::collections::BTreeMap;

/// What a host has that asks functions beside its workers.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct FunctionThreads {
    /// How many threads.
    pub count: usize,
    /// The form in which they ask; none: that which the host chooses by its costs.
    pub form: Option<Form>,
}

/// Of the hosts for which the file says it.
pub(super) fn understand(document: &Document) -> Result<BTreeMap<String, FunctionThreads>, Fault> {
    let mut all = BTreeMap::new();
    for (name, entry) in document.hosts.iter() {
        let Some(entry) = entry else { continue };
        let key = |what: &str| format!("hosts.{name}.{what}");
        match (entry.function_threads, entry.function_form) {
            (None, None) => {}
            (None | Some(0), Some(form)) if form != Form::Fuse => {
                let problem = format!("is {} without threads", form.name());
                let advice = "add function_threads: 2, or as many as functions stand together";
                return Err(Fault::new(key("function_form"), problem, advice));
            }
            (Some(count), _) if count > NODE_FUNCTION_THREADS_MAX => {
                let problem = format!("{count} are too many");
                let advice = format!("use at most {NODE_FUNCTION_THREADS_MAX}");
                return Err(Fault::new(key("function_threads"), problem, advice));
            }
            (count, form) => {
                let count = count.unwrap_or(0);
                all.insert(name.to_owned(), FunctionThreads { count, form });
            }
        }
    }
    Ok(all)
}
