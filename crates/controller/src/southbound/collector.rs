//! The counters of nodes, asked for once for all who want them. Knows who waits for what; refuses to
//! know what counters mean.
//!
//! A node is asked at once when somebody looks. Who comes while an answer is under way waits for the
//! next one, together with all others who do: so counters are never older than the wish for them, and
//! a node has one such question at a time, however many look. Some chains alone are asked for beside
//! the whole, which may take longer.

use super::fleet::Fleet;
use catena_model::id::NodeName;
use catena_model::{Answer, CounterScope, NodeCounters, Question};
use catena_plan::Counted;
use std::collections::{BTreeMap, BTreeSet};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use tokio::sync::oneshot;
use tokio::task::JoinSet;

/// Where counters go; none: the node gave none.
type Reader = oneshot::Sender<Option<Arc<NodeCounters>>>;

/// What the next question to a node asks for, and for whom.
struct Round {
    with_interfaces: bool,
    of: Option<CounterScope>,
    readers: Vec<Reader>,
}

impl Round {
    fn question(&self) -> Question {
        Question::Counters { with_interfaces: self.with_interfaces, of: self.of.clone() }
    }
}

/// One kind of question to one node: the whole, or some chains.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
struct Line {
    node: NodeName,
    is_whole: bool,
}

/// Asks nodes for counters.
pub(crate) struct Collector {
    fleet: Arc<Fleet>,
    /// The lines on which an answer is under way, and what is asked for next.
    lines: Mutex<BTreeMap<Line, Option<Round>>>,
}

impl Collector {
    pub(crate) fn new(fleet: Arc<Fleet>) -> Self {
        Self { fleet, lines: Mutex::default() }
    }

    /// All counters of every node that answers in time.
    pub(crate) async fn all(self: &Arc<Self>, with_interfaces: bool) -> Counted {
        self.read(self.fleet.nodes(), with_interfaces, None).await
    }

    /// The counters of some chains and ports at these nodes, as far as they answer in time.
    pub(crate) async fn some(
        self: &Arc<Self>,
        nodes: BTreeSet<NodeName>,
        with_interfaces: bool,
        of: CounterScope,
    ) -> Counted {
        self.read(nodes, with_interfaces, Some(of)).await
    }

    async fn read(
        self: &Arc<Self>,
        nodes: BTreeSet<NodeName>,
        with_interfaces: bool,
        of: Option<CounterScope>,
    ) -> Counted {
        let mut asked = JoinSet::new();
        for node in nodes {
            let answer = self.want(&node, with_interfaces, of.as_ref());
            let of = of.clone();
            asked.spawn(async move {
                let counters = Arc::unwrap_or_clone(answer.await.ok()??);
                Some((node, only(counters, of.as_ref())))
            });
        }
        let mut counted = Counted::default();
        while let Some(answer) = asked.join_next().await {
            counted.extend(answer.ok().flatten());
        }
        counted
    }

    fn want(
        self: &Arc<Self>,
        node: &NodeName,
        with_interfaces: bool,
        of: Option<&CounterScope>,
    ) -> oneshot::Receiver<Option<Arc<NodeCounters>>> {
        let (reader, answer) = oneshot::channel();
        let line = Line { node: node.clone(), is_whole: of.is_none() };
        let mut lines = self.lock();
        let is_under_way = lines.contains_key(&line);
        let next = lines.entry(line.clone()).or_default();
        let round = next.get_or_insert_with(|| Round {
            with_interfaces,
            of: of.map(|_| CounterScope::default()),
            readers: Vec::new(),
        });
        round.with_interfaces |= with_interfaces;
        if let (Some(scope), Some(of)) = (&mut round.of, of) {
            scope.extend(of.clone());
        }
        round.readers.push(reader);
        if !is_under_way {
            tokio::spawn(Arc::clone(self).serve(line));
        }
        answer
    }

    /// Asks for as long as anybody wants to know.
    async fn serve(self: Arc<Self>, line: Line) {
        while let Some(round) = self.next(&line) {
            let answer = self.fleet.ask(&line.node, &round.question()).await;
            let counters = match answer {
                Ok(Answer::Counters(counters)) => Some(Arc::from(counters)),
                _ => None,
            };
            for reader in round.readers {
                // Who has gone wants nothing.
                reader.send(counters.clone()).ok();
            }
        }
    }

    /// What is asked for next; none: nothing, and the line is closed.
    fn next(&self, line: &Line) -> Option<Round> {
        let mut lines = self.lock();
        let next = lines.get_mut(line)?.take();
        if next.is_none() {
            lines.remove(line);
        }
        next
    }

    fn lock(&self) -> MutexGuard<'_, BTreeMap<Line, Option<Round>>> {
        self.lines.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// Without what was asked for others.
fn only(mut counters: NodeCounters, of: Option<&CounterScope>) -> NodeCounters {
    if let Some(of) = of {
        counters.chains.retain(|counted| of.chains.contains(&counted.chain));
        counters.ports.retain(|counted| of.ports.contains(&counted.port));
        counters.links.retain(|counted| of.ports.contains(&counted.port));
        counters.functions.retain(|counted| of.functions.contains(&counted.instance));
    }
    counters
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::southbound::fleet::Membership;
    use catena_model::BlueprintNumber;
    use catena_model::id::ChainId;
    use std::time::Duration;
    use tokio::time::timeout;
    use uuid::Uuid;

    const SOON: Duration = Duration::from_secs(10);

    fn node() -> NodeName {
        NodeName::new("host1").unwrap()
    }

    fn chain(number: u128) -> ChainId {
        ChainId(Uuid::from_u128(number))
    }

    fn bed() -> (Arc<Collector>, Membership) {
        let fleet = Arc::new(Fleet::default());
        let membership = fleet.join(&node(), "agent".into());
        (Arc::new(Collector::new(fleet)), membership)
    }

    /// Reads the counters of a chain, and what they said of the program.
    fn reading(collector: &Arc<Collector>, of: u128) -> tokio::task::JoinHandle<u64> {
        let collector = Arc::clone(collector);
        tokio::spawn(async move {
            let chains = BTreeSet::from([chain(of)]);
            let of = CounterScope { chains, ..CounterScope::default() };
            let counted = collector.some(BTreeSet::from([node()]), false, of).await;
            counted.get(&node()).map_or(0, |counters| counters.program.0)
        })
    }

    /// The next question, as which chains it is about.
    async fn asked(
        membership: &mut Membership,
    ) -> (Option<BTreeSet<ChainId>>, crate::southbound::fleet::Reply) {
        let ask = timeout(SOON, membership.asks.recv()).await.unwrap().unwrap();
        let Question::Counters { of, .. } = serde_json::from_slice(&ask.question).unwrap() else {
            panic!("another question");
        };
        (of.map(|of| of.chains), ask.reply)
    }

    fn answer(program: u64) -> Answer {
        Answer::Counters(Box::new(NodeCounters::none(node(), BlueprintNumber(program))))
    }

    #[tokio::test]
    async fn who_comes_while_an_answer_is_under_way_shares_the_next_one_with_all_who_do() {
        let (collector, mut membership) = bed();
        let first = reading(&collector, 1);
        let (chains, reply) = asked(&mut membership).await;
        assert_eq!(chains, Some(BTreeSet::from([chain(1)])));
        let later: Vec<_> = (2..50).map(|of| reading(&collector, of)).collect();
        // All of them have come before the answer has.
        while collector.lock().values().flatten().map(|round| round.readers.len()).sum::<usize>()
            < 48
        {
            tokio::task::yield_now().await;
        }
        assert!(membership.asks.try_recv().is_err(), "one question at a time");
        reply.send(answer(7)).unwrap();
        let (chains, reply) = asked(&mut membership).await;
        assert_eq!(chains, Some((2..50).map(chain).collect()));
        reply.send(answer(8)).unwrap();
        assert_eq!(first.await.unwrap(), 7);
        for later in later {
            assert_eq!(later.await.unwrap(), 8, "nothing older than the wish for it");
        }
        assert!(membership.asks.try_recv().is_err());
    }

    #[tokio::test]
    async fn some_chains_do_not_wait_for_the_whole() {
        let (collector, mut membership) = bed();
        let whole = tokio::spawn({
            let collector = Arc::clone(&collector);
            async move { collector.all(false).await.len() }
        });
        let (chains, first) = asked(&mut membership).await;
        assert_eq!(chains, None);
        let some = reading(&collector, 1);
        let (_, reply) = asked(&mut membership).await;
        reply.send(answer(3)).unwrap();
        assert_eq!(some.await.unwrap(), 3);
        first.send(answer(4)).unwrap();
        assert_eq!(whole.await.unwrap(), 1);
    }

    #[tokio::test]
    async fn a_node_that_is_away_gives_nothing_and_keeps_nobody_waiting() {
        let (collector, membership) = bed();
        drop(membership);
        assert_eq!(reading(&collector, 1).await.unwrap(), 0);
        assert!(collector.lock().is_empty(), "no line stays open");
    }
}
