//! Functions of a hop that threads are asked for: lends packets to them, and does what they have said in the order of
//! the chain, as if the engine had asked one after the other. Knows what becomes of packets meanwhile; refuses to know
//! which functions may stand side by side, and threads.
//!
//! What is lent is held in the accounts of its owners, and comes back at the end of its hop, or where it has ended.

use super::functions::{self, Batch};
use super::wants::Wants;
use crate::engine::action::context::Context;
use crate::engine::stage::{
    Call, Errand, Form, Heard, LENT_PACKETS_MAX, Lending, Lent, Merging, Met, Question, Reply,
    Silence, WAIT_NS, direction,
};
use crate::engine::state::functions::Functions;
use crate::engine::vector::decision::Verdict;
use crate::engine::vector::{InsideVisit, Step, Work};
use catena_model::DropReason;
use catena_nf::check;
use std::ops::Range;

/// Are threads asked about packets that go this way?
pub(super) fn is_lent(
    first: &InsideVisit,
    functions: &mut Functions,
    context: &Context<'_>,
) -> bool {
    if !functions.may_lend() || context.is_probe || context.trace.wants_answers() {
        return false;
    }
    let way: Vec<Met> = functions::way(first, context).collect();
    functions.form(&way) != Form::Fuse
}

/// Lends the packets of a run, which leave the vector; answers where it goes on.
pub(super) fn lend(
    vector: &mut Vec<Work>,
    run: Range<usize>,
    functions: &mut Functions,
    room: &mut Vec<Work>,
    context: &mut Context<'_>,
) -> usize {
    let Step::Inside(first) = vector[run.start].step else { return run.end };
    let way: Vec<Met> = functions::way(&first, context).collect();
    let Some(route) = functions.stage.route(&way) else { return run.end };
    let run = run.start..run.end.min(run.start + functions.stage.room_of(&way));
    let members = route.stages.first().cloned().unwrap_or_default();
    let asked = route.members.get(members).unwrap_or_default();
    functions::pass_unasked(&mut vector[run.clone()], context);
    let run = wants(asked, functions).prepare(vector, run, room, context);
    let is_inside = |work: &mut Work| matches!(work.step, Step::Inside(_));
    let before = vector.len();
    let works: Vec<Work> = vector.extract_if(run.clone(), is_inside).collect();
    let left = run.end - (before - vector.len());
    if works.is_empty() {
        return left;
    }
    // Whoever records learns that they are asked about, before anything of other packets.
    works.iter().for_each(|work| functions::tell(work, Vec::new, (None, || false), context));
    let now = functions.time(context.now_ns);
    let (rest, held) = (Vec::new(), Vec::new());
    let mut lent = Lent { works, rest, now_ns: context.now_ns, now, held };
    functions.stage.buffers += lent.works.len();
    hold(&mut lent, &mut functions.stage, context);
    functions.stage.join.enter(route, lent);
    ask(functions, context);
    go_on(functions, context);
    while functions.stage.buffers > LENT_PACKETS_MAX && wait(functions, context) {}
    left
}

/// Holds packets in the accounts of their owners, as many as there are now.
fn hold(lent: &mut Lent, stage: &mut Lending, context: &mut Context<'_>) {
    give_back(lent, stage, context);
    for work in lent.works.iter().chain(&lent.rest) {
        let (owner, packets) = (work.owner, work.volume.packets);
        context.counters.held(owner, packets);
        stage.packets += packets;
        match lent.held.last_mut() {
            Some((last, sum)) if *last == owner => *sum += packets,
            _ => lent.held.push((owner, packets)),
        }
    }
}

/// Holds them there no more.
fn give_back(lent: &mut Lent, stage: &mut Lending, context: &mut Context<'_>) {
    for (owner, packets) in lent.held.drain(..) {
        context.counters.given_back(owner, packets);
        stage.packets = stage.packets.saturating_sub(packets);
    }
}

/// What packets must be like for all who are asked about them at once.
fn wants(asked: &[u32], functions: &Functions) -> Wants {
    Wants::of(asked.iter().filter_map(|number| functions.get(*number)))
}

/// Hands out all questions that can be put.
fn ask(functions: &mut Functions, context: &mut Context<'_>) {
    while let Some(question) = functions.stage.join.ask(context.now_ns) {
        let (token, member) = (question.token, question.member);
        let call = call(question, functions, context);
        let refused = match call {
            Some(call) => functions.stage.hand(call.0, call.1).err().map(|call| call.outcomes),
            None => Some(functions.stage.room()),
        };
        if let Some(outcomes) = refused {
            let said = Heard { outcomes, took_ns: None, silence: Some(Silence::Dead) };
            // It was asked for just now.
            functions.stage.join.answer(token, member, said).ok();
        }
    }
}

fn call(
    question: Question<Lent>,
    functions: &mut Functions,
    context: &Context<'_>,
) -> Option<(u32, Box<Call>)> {
    let Question { token, member, function, batch } = question;
    let value = functions.lend(function)?;
    let is_backward = batch.works.iter().find_map(|work| match work.step {
        Step::Inside(visit) => Some(visit.is_backward),
        _ => None,
    });
    let call = Call {
        token,
        member,
        function: value,
        now: batch.now,
        batch,
        direction: direction(is_backward.unwrap_or_default()),
        outcomes: functions.stage.room(),
        meter: context.meter,
        errand: Errand::default(),
    };
    Some((function, Box::new(call)))
}

/// Takes the answers that have come, and goes on with what they are about; false: none had.
pub(crate) fn take_answers(functions: &mut Functions, context: &mut Context<'_>) -> bool {
    let mut has_come = false;
    while let Some(answer) = functions.stage.hear(None) {
        take(answer, functions, context);
        has_come = true;
    }
    if functions.stage.is_look_due(context.now_ns)
        && let Some(gone) = functions.stage.stopped()
    {
        give_up(&gone, functions, context);
    }
    has_come
}

/// Waits for an answer, and goes on with what it is about; false: nothing is lent any more.
pub(crate) fn wait(functions: &mut Functions, context: &mut Context<'_>) -> bool {
    while functions.stage.is_lending() {
        if let Some(answer) = functions.stage.hear(Some(WAIT_NS)) {
            take(answer, functions, context);
            return true;
        }
        if let Some(gone) = functions.stage.stopped() {
            give_up(&gone, functions, context);
        }
    }
    false
}

fn take(answer: Reply, functions: &mut Functions, context: &mut Context<'_>) {
    let Reply { token, member, batch, said, errand } = answer;
    if let Some(meter) = context.meter.filter(|_| errand.has_woken) {
        functions.stage.note_handoff(errand, said.took_ns, meter());
    }
    // Whoever owns it next is alone with it.
    drop(batch);
    if let Err(said) = functions.stage.join.answer(token, member, said) {
        functions.stage.give_room(said.outcomes);
    }
    go_on(functions, context);
}

/// Merges what can be, asks what can be asked then, and lets go what is through.
fn go_on(functions: &mut Functions, context: &mut Context<'_>) {
    let now_ns = context.now_ns;
    while let Some(merging) = functions.stage.join.merge() {
        // It is the moment at which it has entered.
        context.now_ns = merging.batch.now_ns;
        merge(merging, functions, context);
        context.now_ns = now_ns;
        ask(functions, context);
    }
    while let Some((token, lent)) = functions.stage.join.leave() {
        leave(token, lent, functions, context);
    }
}

/// Does what the members of a stage have said, in the order of their chain.
fn merge(merging: Merging<Lent, Heard>, functions: &mut Functions, context: &mut Context<'_>) {
    let Merging { token, route, members, batch: mut lent, answers } = merging;
    let asked = lent.works.len();
    let asked_of = asked + lent.rest.len();
    let functions_asked = route.members.get(members.clone()).unwrap_or_default();
    for (number, said) in functions_asked.iter().zip(answers) {
        let Heard { outcomes, took_ns, silence } = said;
        let Some((running, _, stage)) = functions.running(*number) else {
            functions::fail(&mut lent.works, context);
            continue;
        };
        if let Some(took_ns) = took_ns {
            stage.note_cost(*number, asked, took_ns);
            functions::time(&lent.works, took_ns, context);
        }
        if let Some(silence) = silence {
            let is_passed = running.outlive(silence, asked, lent.now);
            functions::outlive(&mut lent.works, is_passed, context);
            continue;
        }
        if let Err(fault) = check::outcomes(running.profile(), asked, &outcomes) {
            tracing::error!(function = running.name(), "it breaks its profile: {fault}");
            functions::fail(&mut lent.works, context);
            continue;
        }
        let first = lent.works.iter().find_map(|work| match work.step {
            Step::Inside(visit) => Some(visit),
            _ => None,
        });
        if let Some(first) = first {
            let Lent { works, rest, .. } = &mut lent;
            let batch = Batch { works, first, made: rest };
            functions::carry_out(batch, running, &outcomes, context);
        }
        stage.told.entry(token).or_default().push((*number, outcomes));
    }
    let is_over = members.end >= route.members.len();
    let Lent { works, rest, .. } = &mut lent;
    if !is_over {
        let is_out = |work: &mut Work| !matches!(work.step, Step::Inside(_));
        rest.extend(works.extract_if(.., is_out));
        let next = route.stages.iter().find(|stage| stage.start == members.end).cloned();
        let asked = route.members.get(next.unwrap_or_default()).unwrap_or_default();
        let mut room = std::mem::take(&mut functions.room);
        let run = 0..works.len();
        wants(asked, functions).prepare(works, run, &mut room, context);
        functions.room = room;
        rest.extend(works.extract_if(.., is_out));
    }
    let has_rest = !is_over && !lent.works.is_empty();
    let buffers = lent.works.len() + lent.rest.len();
    functions.stage.buffers = functions.stage.buffers.saturating_sub(asked_of) + buffers;
    hold(&mut lent, &mut functions.stage, context);
    functions.stage.join.go_on(token, lent, has_rest);
}

/// What functions have said of a token is heard.
fn tell(token: u64, functions: &mut Functions) {
    for (number, outcomes) in functions.stage.told.remove(&token).unwrap_or_default() {
        if let Some((running, messages, stage)) = functions.running(number) {
            running.tell(&outcomes, messages);
            stage.give_room(outcomes);
        }
    }
}

/// Packets that have come through their hop go on, and their functions are heard.
fn leave(token: u64, mut lent: Lent, functions: &mut Functions, context: &mut Context<'_>) {
    give_back(&mut lent, &mut functions.stage, context);
    let Lent { works, rest, .. } = lent;
    tell(token, functions);
    let buffers = works.len() + rest.len();
    functions.stage.buffers = functions.stage.buffers.saturating_sub(buffers);
    functions.released.extend(works);
    functions.released.extend(rest);
}

/// A thread has stopped. What it was asked about ends by name; functions that it has begin anew, and others ask them.
fn give_up(gone: &[u32], functions: &mut Functions, context: &mut Context<'_>) {
    let now = functions.time(context.now_ns);
    for number in gone {
        if let Some((running, ..)) = functions.running(*number) {
            running.leave_behind(now);
        }
    }
    let is_gone = |number| gone.contains(&number);
    while let Some((token, _)) = functions.stage.join.overdue(u64::MAX, is_gone) {
        lose(token, functions, context);
    }
    // Who waited behind those may be asked now.
    ask(functions, context);
    go_on(functions, context);
}

/// Packets end by name that somebody has and does not give back.
fn lose(token: u64, functions: &mut Functions, context: &mut Context<'_>) {
    let Some(lent) = functions.stage.join.lose(token) else { return };
    let stage = &mut functions.stage;
    for (owner, packets) in &lent.held {
        context.counters.given_back(*owner, *packets);
        stage.packets = stage.packets.saturating_sub(*packets);
    }
    context.pool.write_off(lent.works.len() + lent.rest.len());
    stage.buffers = stage.buffers.saturating_sub(lent.works.len() + lent.rest.len());
    for work in lent.works.iter().chain(&lent.rest) {
        let reason = match work.step {
            Step::Decided(Verdict::Drop(reason)) => reason,
            _ => DropReason::FunctionFailed,
        };
        context.counters.dropped(work.owner, work.path, reason, work.volume.packets);
    }
    // Who was asked before it has been heard.
    tell(token, functions);
}
