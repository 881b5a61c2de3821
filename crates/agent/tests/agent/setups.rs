//! Flows that the data plane asks for, and the answers: the agent carries both, and tells whether there is anybody to
//! ask.

use crate::authority::Authority;
use crate::controller::{TestController, TestSession};
use crate::dataplane::{Book, TestDataplane, paths};
use crate::machine::{Machine, is_privileged};
use catena_protocol::message::{
    FlowAnswer, FlowAnswers, FlowAsked, FlowsAsked, from_agent, from_dataplane, to_agent,
};
use std::time::Duration;

/// Questions of a data plane that asks faster than anybody reads.
const FLOOD: u64 = 5_000;

async fn until(dataplane: &TestDataplane, is_wanted: impl Fn(&Book) -> bool) {
    while !is_wanted(&dataplane.book.lock().unwrap()) {
        tokio::time::sleep(Duration::from_millis(5)).await;
    }
}

async fn next_asked(session: &mut TestSession) -> FlowsAsked {
    loop {
        if let from_agent::Message::FlowsAsked(asked) = session.hear().await {
            return asked;
        }
    }
}

#[tokio::test]
async fn questions_for_flows_and_their_answers_pass_and_the_data_plane_knows_whether_anybody_hears()
{
    if !is_privileged(
        "questions_for_flows_and_their_answers_pass_and_the_data_plane_knows_whether_anybody_hears",
    ) {
        return;
    }
    let machine = Machine::new().await;
    let authority = Authority::new();
    let tls = authority.enroll("host1", machine.dir.path());
    let dataplane = TestDataplane::start(machine.dir.path(), Book::default());
    let mut controller = TestController::start(machine.listener(), Some(&authority));
    let _agent = machine.start(controller.address, &tls, &paths(machine.dir.path()));
    let (mut session, _) = controller.welcome().await;
    until(&dataplane, |book| book.presences == [true]).await;
    let flow = FlowAsked { sequence: 7, worker: 1, sent_ns: 40, path: 3, ..FlowAsked::default() };
    let asked = FlowsAsked { flows: vec![flow] };
    dataplane.say(from_dataplane::Message::FlowsAsked(asked.clone()));
    assert_eq!(next_asked(&mut session).await, asked, "as it was said");
    let answer =
        FlowAnswer { sequence: 7, worker: 1, sent_ns: 40, path: 3, ..FlowAnswer::default() };
    let answers = FlowAnswers { flows: vec![answer.clone()] };
    session.tell(to_agent::Message::FlowAnswers(answers)).await;
    until(&dataplane, |book| book.flow_answers == [answer.clone()]).await;
    // More than anybody takes: some are left out, and the session stays.
    for sequence in 0..FLOOD {
        let flow = FlowAsked { sequence, ..FlowAsked::default() };
        dataplane.say(from_dataplane::Message::FlowsAsked(FlowsAsked { flows: vec![flow] }));
    }
    assert!(next_asked(&mut session).await.flows[0].sequence < FLOOD);
    let counters = session.counters(1).await;
    assert_eq!(counters.node.as_str(), "host1");
    drop(session);
    until(&dataplane, |book| book.presences.starts_with(&[true, false])).await;
    let (_session, _) = controller.welcome().await;
    until(&dataplane, |book| book.presences == [true, false, true]).await;
}
