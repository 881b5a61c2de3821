//! An explanation from node to node: what to ask whom next, and the lines so far. Knows the order
//! of lines and when to stop; refuses to know how a node is asked.

use super::{
    DepartureBy, ExplainAction, ExplainAt, ExplainLine, ExplainReply, ExplainRequest, ExplainStep,
    RuleVerdict,
};
use crate::id::NodeName;
use crate::limits::EXPLAIN_QUESTIONS_MAX;
use std::collections::{BTreeSet, VecDeque};

/// A question to a node.
#[derive(Clone, Debug, PartialEq, Eq)]
struct Leg {
    node: NodeName,
    request: ExplainRequest,
    is_copy: bool,
}

/// A packet's way over the nodes; the packet itself first, then its copies.
#[derive(Debug)]
pub struct Journey {
    waiting: VecDeque<Leg>,
    asked: Option<Leg>,
    questions: usize,
    lines: Vec<(NodeName, ExplainStep)>,
    copies: Vec<(NodeName, ExplainStep)>,
    why_not: Vec<RuleVerdict>,
}

/// What a journey tells.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Told {
    /// The lines, numbered.
    pub lines: Vec<ExplainLine>,
    /// What became of the packet.
    pub verdict: String,
    /// What the first node said of the rules that were asked about.
    pub why_not: Vec<RuleVerdict>,
}

impl Journey {
    /// Begins at a node.
    #[must_use]
    pub fn new(node: NodeName, request: ExplainRequest) -> Self {
        Self {
            waiting: VecDeque::from([Leg { node, request, is_copy: false }]),
            asked: None,
            questions: 0,
            lines: Vec::new(),
            copies: Vec::new(),
            why_not: Vec::new(),
        }
    }

    /// Whom to ask what; [`Journey::heard`] wants the answer. None: it is over.
    pub fn next_question(&mut self) -> Option<(NodeName, ExplainRequest)> {
        let leg = self.waiting.pop_front()?;
        if self.questions == EXPLAIN_QUESTIONS_MAX {
            let why =
                format!("{EXPLAIN_QUESTIONS_MAX} nodes were asked: the explanation ends here");
            self.waiting.clear();
            self.stop(&leg, why);
            return None;
        }
        self.questions += 1;
        let question = (leg.node.clone(), leg.request.clone());
        self.asked = Some(leg);
        Some(question)
    }

    /// Hears the answer to the last question. `arrives` knows at which node, and by what, arrives what leaves one, or
    /// why nobody knows.
    pub fn heard(
        &mut self,
        answer: Result<ExplainReply, String>,
        arrives: impl Fn(&NodeName, DepartureBy) -> Result<(NodeName, ExplainAt), String>,
    ) {
        let Some(leg) = self.asked.take() else { return };
        let reply = match answer {
            Ok(reply) => reply,
            Err(why) => return self.stop(&leg, why),
        };
        for step in reply.steps {
            let is_copy = leg.is_copy || step.copy > 0;
            let lines = if is_copy { &mut self.copies } else { &mut self.lines };
            lines.push((leg.node.clone(), step));
        }
        if self.questions == 1 {
            self.why_not = reply.why_not;
        }
        for departure in reply.departures {
            let is_copy = leg.is_copy || departure.copy > 0;
            let (node, at) = match arrives(&leg.node, departure.by) {
                Ok(arrival) => arrival,
                Err(why) => {
                    self.stop(&Leg { is_copy, ..leg.clone() }, why);
                    continue;
                }
            };
            let request = ExplainRequest { at, frame: departure.payload, why_not: None };
            let next = Leg { node, request, is_copy };
            if is_copy {
                self.waiting.push_back(next);
            } else {
                self.waiting.push_front(next);
            }
        }
    }

    fn stop(&mut self, leg: &Leg, why: String) {
        let lines = if leg.is_copy { &mut self.copies } else { &mut self.lines };
        lines.push((leg.node.clone(), ExplainStep::new(0, ExplainAction::Stopped { why })));
    }

    /// All lines, those about copies behind the others.
    #[must_use]
    pub fn told(self) -> Told {
        let verdict = verdict(&self.lines, &self.copies);
        let own = self.lines.into_iter().map(|(node, step)| (node, step, false));
        let of_copies = self.copies.into_iter().map(|(node, step)| (node, step, true));
        let lines = own.chain(of_copies).zip(1..);
        let lines = lines.map(|((node, step, is_copy), number)| ExplainLine {
            number,
            node,
            is_copy,
            step,
            evidence: None,
        });
        Told { lines: lines.collect(), verdict, why_not: self.why_not }
    }
}

/// What became of the packet itself, and how far it came.
fn verdict(lines: &[(NodeName, ExplainStep)], copies: &[(NodeName, ExplainStep)]) -> String {
    let end = lines.iter().rev().find(|(_, step)| {
        !matches!(step.action, ExplainAction::Switched { .. } | ExplainAction::Finished { .. })
    });
    let what = match end.map(|(node, step)| (node, &step.action)) {
        Some((node, ExplainAction::Delivered { port, .. })) => {
            format!("delivered by port {port} of {node}")
        }
        Some((node, ExplainAction::Dropped { reason })) => {
            format!("dropped at {node}: {}", reason.name())
        }
        Some((node, ExplainAction::Visited { instance, .. })) => {
            format!("ends inside '{instance}' at {node}")
        }
        Some((node, ExplainAction::Stopped { why })) => format!("unknown behind {node}: {why}"),
        Some((node, _)) => format!("ends at {node}"),
        None => "nothing is known".to_owned(),
    };
    let nodes: BTreeSet<&NodeName> = lines.iter().map(|(node, _)| node).collect();
    let is_visit = |action: &ExplainAction| {
        matches!(action, ExplainAction::Visited { .. } | ExplainAction::Judged { .. })
    };
    let functions = lines.iter().filter(|(_, step)| is_visit(&step.action)).count();
    let mut parts = vec![what, count(nodes.len(), "node"), count(functions, "function")];
    let taps = copies.iter().filter(|(_, step)| is_visit(&step.action)).count();
    if taps > 0 {
        parts.push(count(taps, "tap"));
    }
    let is_delivery = |action: &ExplainAction| matches!(action, ExplainAction::Delivered { .. });
    match copies.iter().filter(|(_, step)| is_delivery(&step.action)).count() {
        0 => {}
        1 => parts.push("1 copy".to_owned()),
        copies => parts.push(format!("{copies} copies")),
    }
    parts.join(" · ")
}

fn count(number: usize, what: &str) -> String {
    if number == 1 { format!("1 {what}") } else { format!("{number} {what}s") }
}
