//! One more chain at the peer, among as many over as many functions. It has no nodes: it keeps, checks
//! and answers. Refuses to know what ours costs.

use super::SINGLES;
use super::site::{FUNCTIONS, triple};
use crate::error::BenchError;
use crate::load::Site;
use crate::servers::Server;
use std::path::Path;
use std::time::{Duration, Instant};

/// Between two words of how far it is.
const WORD_EVERY: usize = 100;

/// What each of some more took where so many are.
pub(super) fn one_more(root: &Path, chains: usize) -> Result<Vec<Duration>, BenchError> {
    let work = std::env::temp_dir().join(format!("catena-growth-{}", std::process::id()));
    let took = measure(root, &work, chains);
    let _ = std::fs::remove_dir_all(&work);
    took
}

fn measure(root: &Path, work: &Path, chains: usize) -> Result<Vec<Duration>, BenchError> {
    let mut site = Site::new(Server::peer(root, work)?)?;
    let mut groups = Vec::with_capacity(FUNCTIONS);
    for _ in 0..FUNCTIONS {
        let port = site.port()?;
        let pair = site.pair(&port)?;
        groups.push(site.group(&pair)?);
    }
    let mut took = Vec::new();
    for number in 0..chains + SINGLES {
        if number % WORD_EVERY == 0 {
            eprintln!("bench: {number} of {chains} chains at the peer");
        }
        let functions = triple(number).map(|function| groups[function].clone());
        let began = Instant::now();
        let rule = site.classifier()?;
        site.chain(&functions, &[rule])?;
        if number >= chains {
            took.push(began.elapsed());
        }
    }
    Ok(took)
}
