//! Changes that are made alone, together, and not at all.

use super::*;
use catena_model::ProjectId;
use catena_model::id::NetworkId;
use catena_model::resource::Label;
use catena_store::{Change, Document, Transaction};
use catena_wire::scalar::Vni;
use std::sync::Mutex;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::mpsc::{Receiver, Sender, channel};
use uuid::Uuid;

#[derive(Debug)]
struct Refused(String);
impl From<StoreError> for Refused {
    fn from(error: StoreError) -> Self {
        Self(error.to_string())
    }
}
impl From<PlanError> for Refused {
    fn from(error: PlanError) -> Self {
        Self(error.to_string())
    }
}

fn network(name: &str) -> Network {
    Network {
        id: NetworkId(Uuid::new_v4()),
        label: Label {
            name: name.into(),
            description: String::new(),
            project: ProjectId("p".into()),
        },
        vni: Vni::new(1).unwrap(),
        mtu: 1_400,
        admin_state_up: true,
    }
}

fn names(snapshot: &Snapshot) -> Vec<&str> {
    let mut names: Vec<&str> =
        snapshot.intent.networks.values().map(|network| network.label.name.as_str()).collect();
    names.sort_unstable();
    names
}

async fn put(declared: &Declared, network: Network) -> Result<Snapshot, Refused> {
    let made = declared.change(move |draft| -> Result<(), Refused> { Ok(draft.put(network)?) });
    made.await.map(|((), snapshot)| snapshot)
}

#[tokio::test(flavor = "multi_thread")]
async fn a_change_that_fails_half_way_leaves_no_trace_and_a_good_one_survives_a_restart() {
    let store: Arc<dyn Store> = Arc::new(MemoryStore::default());
    let declared = Declared::load(Arc::clone(&store)).unwrap();
    let failed = declared.change(|draft| -> Result<(), Refused> {
        draft.put(network("lost"))?;
        Err(Refused("half way".into()))
    });
    assert!(failed.await.is_err());
    assert!(declared.snapshot().intent.networks.is_empty());
    let kept = network("kept");
    let id = kept.id;
    put(&declared, kept).await.unwrap();
    assert_eq!(store.revision().unwrap(), Revision(1));
    let again = Declared::load(Arc::clone(&store)).unwrap();
    assert_eq!(*again.snapshot().intent, *declared.snapshot().intent);
    let removed = declared.change(move |draft| -> Result<(), Refused> {
        draft.remove::<Network>(id);
        Ok(())
    });
    removed.await.unwrap();
    assert!(Declared::load(store).unwrap().snapshot().intent.networks.is_empty());
}

#[tokio::test(flavor = "multi_thread")]
async fn a_copy_is_changed_without_its_origin_and_knows_what_it_had() {
    let declared = Declared::load(Arc::new(MemoryStore::default())).unwrap();
    let (first, mut second) = (network("first"), network("second"));
    let id = first.id;
    put(&declared, first).await.unwrap();
    put(&declared, second.clone()).await.unwrap();
    let copy = Declared::copy_of(&declared.snapshot());
    second.label.name = "renamed".into();
    put(&copy, second).await.unwrap();
    let removed = copy.change(move |draft| -> Result<(), Refused> {
        draft.remove::<Network>(id);
        Ok(())
    });
    removed.await.unwrap();
    assert_eq!(names(&copy.snapshot()), ["renamed"]);
    assert_eq!(names(&declared.snapshot()), ["first", "second"]);
}

/// A store whose disk takes its time: each commit waits for a word of the test.
struct SlowStore {
    memory: MemoryStore,
    begun: Sender<usize>,
    may_end: Mutex<Receiver<()>>,
    is_full: AtomicBool,
}

impl Store for SlowStore {
    fn revision(&self) -> Result<Revision, StoreError> {
        self.memory.revision()
    }

    fn get(&self, key: &Key) -> Result<Option<Document>, StoreError> {
        self.memory.get(key)
    }

    fn list(&self, kind: &str) -> Result<Vec<Document>, StoreError> {
        self.memory.list(kind)
    }

    fn commit_all(&self, transactions: Vec<Transaction>) -> Result<Vec<Revision>, StoreError> {
        self.begun.send(transactions.len()).unwrap();
        self.may_end.lock().unwrap().recv().unwrap();
        if self.is_full.load(Ordering::Relaxed) {
            return Err(StoreError::Full("slow".into()));
        }
        self.memory.commit_all(transactions)
    }

    fn changes(&self, after: Revision) -> Result<Vec<Change>, StoreError> {
        self.memory.changes(after)
    }
}

/// Changes that wait behind a first one, whose commit has begun and not ended.
struct Crowd {
    store: Arc<SlowStore>,
    declared: Arc<Declared>,
    /// How many changes each commit carries.
    begun: Receiver<usize>,
    may_end: Sender<()>,
    first: tokio::task::JoinHandle<Result<Snapshot, Refused>>,
}

impl Crowd {
    async fn gather() -> Self {
        let (begun, commits) = channel();
        let (may_end, end) = channel();
        let store = Arc::new(SlowStore {
            memory: MemoryStore::default(),
            begun,
            may_end: Mutex::new(end),
            is_full: AtomicBool::new(false),
        });
        let declared = Arc::new(Declared::load(Arc::clone(&store) as Arc<dyn Store>).unwrap());
        let writer = Arc::clone(&declared);
        let first = tokio::spawn(async move { put(&writer, network("first")).await });
        let crowd = Self { store, declared, begun: commits, may_end, first };
        assert_eq!(crowd.commit().await, 1);
        crowd
    }

    /// The disk has taken a commit.
    fn end(&self) {
        self.may_end.send(()).unwrap();
    }

    /// Hands a change in; it waits.
    fn join<T: Send + 'static>(
        &self,
        edit: impl FnOnce(&mut Draft) -> Result<T, Refused> + Send + 'static,
    ) -> tokio::task::JoinHandle<Result<(T, Snapshot), Refused>> {
        let declared = Arc::clone(&self.declared);
        tokio::spawn(async move { declared.change(edit).await })
    }

    /// The same, once it stands in the queue: behind those that were handed in before.
    async fn wait_in_line<T: Send + 'static>(
        &self,
        edit: impl FnOnce(&mut Draft) -> Result<T, Refused> + Send + 'static,
    ) -> tokio::task::JoinHandle<Result<(T, Snapshot), Refused>> {
        let before = self.declared.writer.waiting();
        let waiting = self.join(edit);
        while self.declared.writer.waiting() == before {
            tokio::task::yield_now().await;
        }
        waiting
    }

    /// The next commit begins: how many changes it carries.
    async fn commit(&self) -> usize {
        loop {
            tokio::task::yield_now().await;
            if let Ok(carried) = self.begun.try_recv() {
                return carried;
            }
        }
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn changes_that_wait_for_the_disk_share_one_commit_and_keep_their_order_and_revisions() {
    let crowd = Crowd::gather().await;
    let shared = network("shared");
    let id = shared.id;
    let mut waiting = vec![
        crowd
            .wait_in_line(move |draft| {
                draft.put(shared)?;
                Ok(draft.base())
            })
            .await,
    ];
    for number in 0..10 {
        // Each builds on what the one before it has made: no update is lost.
        let another = crowd.wait_in_line(move |draft| {
            let mut network = draft.intent().networks.get(&id).unwrap().clone();
            network.label.name.push_str(&number.to_string());
            draft.put(network)?;
            Ok(draft.base())
        });
        waiting.push(another.await);
    }
    assert!(crowd.declared.snapshot().intent.networks.is_empty(), "nothing is durable yet");
    crowd.end();
    assert_eq!(crowd.commit().await, 11);
    crowd.end();
    for (at, waiting) in waiting.into_iter().enumerate() {
        let (base, snapshot) = waiting.await.unwrap().unwrap();
        assert_eq!(snapshot.revision, Revision(2 + at as u64));
        assert_eq!(base, Revision(1 + at as u64), "each sees that others came before him");
        assert_eq!(snapshot.intent.networks[&id].label.name.len(), "shared".len() + at);
    }
    crowd.first.await.unwrap().unwrap();
    assert_eq!(names(&crowd.declared.snapshot()), ["first", "shared0123456789"]);
    let stored = Declared::load(Arc::clone(&crowd.store) as Arc<dyn Store>).unwrap();
    assert_eq!(*stored.snapshot().intent, *crowd.declared.snapshot().intent);
    let log = crowd.store.changes(Revision(1)).unwrap();
    assert_eq!(log.iter().map(|c| c.revision.0).collect::<Vec<_>>(), (2..=12).collect::<Vec<_>>());
}

#[tokio::test(flavor = "multi_thread")]
async fn one_that_fails_among_others_is_answered_alone_and_leaves_no_trace() {
    let crowd = Crowd::gather().await;
    let good = crowd.wait_in_line(|draft| Ok(draft.put(network("good"))?)).await;
    let bad = crowd.wait_in_line(|draft| -> Result<(), Refused> {
        draft.put(network("bad"))?;
        Err(Refused("changed my mind".into()))
    });
    let bad = bad.await;
    let broken = crowd.wait_in_line(|draft| -> Result<(), Refused> {
        draft.put(network("broken"))?;
        panic!("a fault of the test's own making");
    });
    let broken = broken.await;
    let reader = crowd.wait_in_line(|draft| Ok(draft.intent().networks.len())).await;
    crowd.end();
    assert_eq!(crowd.commit().await, 2, "the good one, and the one that only looks");
    crowd.end();
    good.await.unwrap().unwrap();
    assert_eq!(bad.await.unwrap().unwrap_err().0, "changed my mind");
    assert!(broken.await.unwrap().unwrap_err().0.contains("failed inside the controller"));
    assert_eq!(reader.await.unwrap().unwrap().0, 2);
    assert_eq!(names(&crowd.declared.snapshot()), ["first", "good"]);
}

#[tokio::test(flavor = "multi_thread")]
async fn a_commit_that_fails_is_told_to_all_who_shared_it_and_changes_nothing() {
    let mut crowd = Crowd::gather().await;
    let mut waiting = Vec::new();
    for _ in 0..3 {
        waiting.push(crowd.wait_in_line(|draft| Ok(draft.put(network("late"))?)).await);
    }
    crowd.end();
    (&mut crowd.first).await.unwrap().unwrap();
    assert_eq!(crowd.commit().await, 3);
    crowd.store.is_full.store(true, Ordering::Relaxed);
    crowd.end();
    for waiting in waiting {
        assert!(waiting.await.unwrap().unwrap_err().0.contains("the disk is full"));
    }
    assert_eq!(names(&crowd.declared.snapshot()), ["first"]);
    crowd.store.is_full.store(false, Ordering::Relaxed);
    let again = crowd.join(|draft| Ok(draft.put(network("again"))?));
    assert_eq!(crowd.commit().await, 1);
    crowd.end();
    again.await.unwrap().unwrap();
    assert_eq!(names(&crowd.declared.snapshot()), ["again", "first"]);
}

#[tokio::test(flavor = "multi_thread")]
async fn a_resource_knows_when_it_was_made_and_changed_also_after_a_restart() {
    let store: Arc<dyn Store> = Arc::new(MemoryStore::default());
    let declared = Declared::load(Arc::clone(&store)).unwrap();
    let mut kept = network("kept");
    let stamp = |snapshot: &Snapshot| snapshot.stamps.get(&kept.id.0).copied().unwrap();
    let first = stamp(&put(&declared, kept.clone()).await.unwrap());
    assert!(first.revision == 0 && first.made().is_some() && first.made() == first.changed_last());
    // Written as it is: nothing was changed.
    assert_eq!(stamp(&put(&declared, kept.clone()).await.unwrap()), first);
    kept.mtu = 1_300;
    let second = stamp(&put(&declared, kept.clone()).await.unwrap());
    assert_eq!((second.revision, second.made()), (1, first.made()));
    assert!(second.changed_last() >= first.changed_last());
    let again = Declared::load(store).unwrap();
    assert_eq!(again.snapshot().stamps, declared.snapshot().stamps);
    let id = kept.id;
    let removed = declared.change(move |draft| -> Result<(), Refused> {
        draft.remove::<Network>(id);
        Ok(())
    });
    removed.await.unwrap();
    assert!(declared.snapshot().stamps.is_empty());
}

#[tokio::test(flavor = "multi_thread")]
async fn of_a_store_from_before_stamps_nothing_is_said_that_nobody_wrote_down() {
    let store: Arc<dyn Store> = Arc::new(MemoryStore::default());
    let mut old = network("old");
    let mut transaction = Transaction::new();
    transaction.put(Key::new("network", old.id), &old, catena_store::Expect::Absent).unwrap();
    store.commit(transaction).unwrap();
    let declared = Declared::load(Arc::clone(&store)).unwrap();
    assert_eq!(declared.snapshot().stamps.get(&old.id.0), Some(&Stamp::default()));
    old.mtu = 1_300;
    let stamp = put(&declared, old.clone()).await.unwrap().stamps[&old.id.0];
    assert_eq!((stamp.revision, stamp.made()), (1, None), "when it was made is still unknown");
    assert!(stamp.changed_last().is_some());
}
