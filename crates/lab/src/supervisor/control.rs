//! The door of a running lab: answers visitors on its abstract socket. Lets in only those that
//! `trust` names, and no more than there is room for.

use super::protocol::{Answer, Incoming, Request, send};
use super::state::LabState;
use super::trust::stranger_at;
use crate::error::{LabError, Result};
use catena_kernel::process::PidFd;
use std::fs::File;
use std::os::fd::{AsFd, BorrowedFd};
use std::os::unix::net::{UnixListener, UnixStream};
use std::sync::Arc;
use std::time::Duration;

/// How long the end waits after it was announced, so that the announcement leaves.
const ENDING_WAIT: Duration = Duration::from_millis(20);
/// Most visitors at a time; later ones are turned away.
const VISITORS_MAX: usize = 64;
/// Process number of the lab's first process, inside.
const INIT_PID: u32 = 1;

/// Answers visitors on a thread of its own, and each visitor on another.
pub(crate) fn serve(listener: UnixListener, state: Arc<LabState>) -> Result<()> {
    let accept = move || {
        let room = Arc::new(());
        for visitor in listener.incoming().flatten() {
            let place = Arc::clone(&room);
            let is_full = Arc::strong_count(&room) > VISITORS_MAX + 1;
            if is_full || !matches!(stranger_at(&visitor), Ok(None)) {
                continue;
            }
            let state = Arc::clone(&state);
            let answer = move || {
                // A visitor that went away needs no answer.
                let _ = attend(&visitor, &state);
                drop(place);
            };
            let _ = std::thread::Builder::new().name("visitor".into()).spawn(answer);
        }
    };
    std::thread::Builder::new()
        .name("control".into())
        .spawn(accept)
        .map(drop)
        .map_err(|error| LabError::io("start", "the thread that answers visitors", error))
}

fn attend(visitor: &UnixStream, state: &LabState) -> Result<()> {
    let reading =
        visitor.try_clone().map_err(|error| LabError::io("copy", "the lab's socket", error))?;
    let mut incoming = Incoming::new(reading);
    while let Some((request, _)) = incoming.next::<Request>()? {
        match request {
            Request::Watch => {
                let outcome = hold(visitor, &mut incoming, state);
                if !matches!(outcome, Ok(true)) {
                    state.change(|known| known.is_ending = true);
                }
                return outcome.map(drop);
            }
            Request::Keep => {
                let reason = "only its starter can keep it".to_owned();
                send(visitor, &Answer::Refused { reason }, &[])?;
            }
            Request::Status => send(visitor, &Answer::Status(state.status()), &[])?,
            Request::Enter { node } => enter(visitor, state, &node)?,
            Request::Down => down(visitor, state)?,
        }
    }
    Ok(())
}

/// Attends to the starter; says whether the lab shall outlive this visit.
fn hold(visitor: &UnixStream, incoming: &mut Incoming, state: &LabState) -> Result<bool> {
    watch(visitor, state)?;
    match incoming.next::<Request>()? {
        Some((Request::Keep, _)) => send(visitor, &Answer::Kept, &[]).map(|()| true),
        _ => Ok(false),
    }
}

fn watch(visitor: &UnixStream, state: &LabState) -> Result<()> {
    let mut told = 0;
    loop {
        for answer in state.story_from(told) {
            told += 1;
            send(visitor, &answer, &[])?;
            if matches!(answer, Answer::Ready | Answer::Failed { .. }) {
                return Ok(());
            }
        }
    }
}

fn enter(visitor: &UnixStream, state: &LabState, node: &str) -> Result<()> {
    let namespaces = state.change(|known| known.namespaces.clone());
    let Some(network) = namespaces.get(node) else {
        let known: Vec<&str> = namespaces.keys().map(String::as_str).collect();
        let reason = format!("has no node '{node}'; name one of {}", known.join(", "));
        return send(visitor, &Answer::Refused { reason }, &[]);
    };
    let open =
        |path: &str| File::open(path).map_err(|error| LabError::io("open", path.to_owned(), error));
    let (mount, pid) = (open("/proc/self/ns/mnt")?, open("/proc/self/ns/pid")?);
    let descriptors: [BorrowedFd<'_>; 3] = [network.as_fd(), mount.as_fd(), pid.as_fd()];
    send(visitor, &Answer::Entered, &descriptors)
}

fn down(visitor: &UnixStream, state: &LabState) -> Result<()> {
    let init = PidFd::open(INIT_PID)?;
    send(visitor, &Answer::Ending, &[init.as_fd()])?;
    std::thread::sleep(ENDING_WAIT);
    state.change(|known| known.is_ending = true);
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::super::protocol::LabStatus;
    use super::super::visit::{SOCKET_PREFIX, Visit};
    use super::*;
    use catena_kernel::abstract_socket;

    /// A lab that stands, without anything in it.
    fn stand(name: &str) -> (String, Arc<LabState>) {
        let name = format!("{name}-{}", std::process::id());
        let status = LabStatus {
            name: name.clone(),
            file: String::new(),
            api: String::new(),
            state: String::new(),
            seconds: 0.0,
            nodes: Vec::new(),
            processes: Vec::new(),
        };
        let state = Arc::new(LabState::new(status));
        state.change(|known| known.story.push(Answer::Ready));
        let listener = abstract_socket::bind(&format!("{SOCKET_PREFIX}{name}")).unwrap();
        serve(listener, Arc::clone(&state)).unwrap();
        (name, state)
    }

    fn watched(lab: &str) -> Visit {
        let mut visit = Visit::to(lab).unwrap();
        visit.ask(&Request::Watch).unwrap();
        assert_eq!(visit.hear().unwrap().0, Answer::Ready);
        visit
    }

    #[test]
    fn a_lab_ends_with_its_starters_visit() {
        let (lab, state) = stand("held");
        drop(watched(&lab));
        while !state.wait_for_end(Duration::from_secs(1)) {}
    }

    #[test]
    fn a_lab_that_its_starter_keeps_outlives_the_visit() {
        let (lab, state) = stand("kept");
        let mut visit = watched(&lab);
        visit.ask(&Request::Keep).unwrap();
        assert_eq!(visit.hear().unwrap().0, Answer::Kept);
        // Closed by the other side, which has then decided.
        assert!(visit.hear().is_err());
        assert!(!state.wait_for_end(Duration::ZERO));
        let mut other = Visit::to(&lab).unwrap();
        other.ask(&Request::Keep).unwrap();
        assert!(other.hear().is_err(), "only its starter keeps it");
    }
}
