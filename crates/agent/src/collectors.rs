//! Ways to collectors, a task each: a name that takes long to be looked up is nobody else's affair. Knows sockets and
//! how many datagrams there may be; refuses to know what is in them. What a collector does not take is not known here.

use catena_model::limits::NODE_FUNCTIONS_MAX;
use std::collections::HashMap;
use std::io;
use std::net::{IpAddr, Ipv4Addr, Ipv6Addr, SocketAddr};
use std::time::{Duration, Instant};
use tokio::net::{UdpSocket, lookup_host};
use tokio::sync::mpsc;
use tokio::time::timeout;

/// Datagrams that may wait for one collector.
const WAITING_MAX: usize = 1_024;
/// How long a name may take to be looked up.
const LOOKUP_TIMEOUT: Duration = Duration::from_secs(3);
/// A collector may move: its name is looked up again behind this time.
const LOOKUP_EVERY: Duration = Duration::from_secs(60);
/// The same where the last time failed.
const RETRY_EVERY: Duration = Duration::from_secs(5);
/// A way that nothing has gone for so long is taken down.
const IDLE: Duration = Duration::from_secs(300);

/// Who counts what became of datagrams.
pub(crate) trait Tally: Clone + Send + 'static {
    /// Whose a datagram is.
    type Of: Copy + Send;

    /// One was sent.
    fn note_sent(&self, of: Self::Of);

    /// One was not, for this reason.
    fn note_unsent(&self, of: Self::Of, why: &str);
}

/// A message on its way.
#[derive(Debug)]
pub(crate) struct Datagram<O> {
    pub(crate) of: O,
    pub(crate) body: Vec<u8>,
}

/// Ways to collectors, whose datagrams are counted by one.
#[derive(Debug)]
pub(crate) struct Collectors<T: Tally> {
    ways: HashMap<String, mpsc::Sender<Datagram<T::Of>>>,
    tally: T,
    /// Datagrams that may be sent in a second, by whom.
    limit: (u64, &'static str),
    /// The second that is now, and what was sent in it.
    second: (Instant, u64),
}

impl<T: Tally> Collectors<T> {
    /// `limit`: so many datagrams a second, by whom.
    pub(crate) fn new(tally: T, limit: (u64, &'static str)) -> Self {
        Self { ways: HashMap::new(), tally, limit, second: (Instant::now(), 0) }
    }

    /// Sends a datagram, or counts why not.
    pub(crate) fn send(&mut self, collector: &str, datagram: Datagram<T::Of>) {
        let of = datagram.of;
        if let Err(why) = self.try_send(collector, datagram) {
            self.tally.note_unsent(of, &why);
        }
    }

    fn try_send(&mut self, collector: &str, datagram: Datagram<T::Of>) -> Result<(), String> {
        let now = Instant::now();
        if now.duration_since(self.second.0) >= Duration::from_secs(1) {
            self.second = (now, 0);
        }
        let (limit, who) = self.limit;
        if self.second.1 >= limit {
            return Err(format!("{who} would send more than {limit} datagrams a second"));
        }
        self.second.1 += 1;
        let too_many = |_| format!("more than {WAITING_MAX} datagrams wait for '{collector}'");
        if let Some(way) = self.ways.get(collector).filter(|way| !way.is_closed()) {
            return way.try_send(datagram).map_err(too_many);
        }
        self.ways.retain(|_, way| !way.is_closed());
        if self.ways.len() >= NODE_FUNCTIONS_MAX {
            return Err(format!("there are more than {NODE_FUNCTIONS_MAX} collectors"));
        }
        let (way, waiting) = mpsc::channel(WAITING_MAX);
        let first = way.try_send(datagram).map_err(too_many);
        tokio::spawn(serve(collector.to_owned(), waiting, self.tally.clone()));
        self.ways.insert(collector.to_owned(), way);
        first
    }
}

/// Sends what comes, until nothing has for long.
async fn serve<T: Tally>(
    collector: String,
    mut waiting: mpsc::Receiver<Datagram<T::Of>>,
    tally: T,
) {
    let mut socket = Err(String::new());
    let mut opened: Option<Instant> = None;
    while let Ok(Some(Datagram { of, body })) = timeout(IDLE, waiting.recv()).await {
        let every = if socket.is_ok() { LOOKUP_EVERY } else { RETRY_EVERY };
        if opened.is_none_or(|at| at.elapsed() >= every) {
            let open = timeout(LOOKUP_TIMEOUT, open(&collector)).await;
            socket = match open {
                Ok(Ok(socket)) => Ok(socket),
                Ok(Err(error)) => Err(error.to_string()),
                Err(_) => Err("its name takes too long to be looked up".to_owned()),
            };
            opened = Some(Instant::now());
        }
        let sent = match &socket {
            Ok(socket) => socket.send(&body).await.map(drop).map_err(|error| error.to_string()),
            Err(why) => Err(why.clone()),
        };
        match sent {
            Ok(()) => tally.note_sent(of),
            Err(why) => tally.note_unsent(of, &format!("collector '{collector}': {why}")),
        }
    }
}

/// A socket whose datagrams go to the collector: by the first of its addresses that there is a way to.
async fn open(collector: &str) -> io::Result<UdpSocket> {
    let mut last = io::Error::new(io::ErrorKind::NotFound, "it has no address");
    for address in lookup_host(collector).await? {
        let own: IpAddr = match address {
            SocketAddr::V4(_) => Ipv4Addr::UNSPECIFIED.into(),
            SocketAddr::V6(_) => Ipv6Addr::UNSPECIFIED.into(),
        };
        let socket = UdpSocket::bind((own, 0)).await?;
        match socket.connect(address).await {
            Ok(()) => return Ok(socket),
            Err(error) => last = error,
        }
    }
    Err(last)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::messages::Counts;
    use catena_model::account::{FunctionCounters, MessageCounters};
    use catena_model::bundle::ConfigurationId;
    use catena_model::id::InstanceId;
    use uuid::Uuid;

    const LIMIT: u64 = 1_000;

    fn counted(counts: &Counts, instance: InstanceId) -> MessageCounters {
        let mut known = [FunctionCounters {
            instance,
            name: "flows".into(),
            configuration: ConfigurationId([0; 32]),
            rules: Vec::new(),
            rules_untold: 0,
            events: 0,
            messages: MessageCounters::default(),
            errors_withheld: 0,
            deaths: 0,
            copied_bytes: 0,
            choice: None,
        }];
        counts.complete(&mut known);
        let [function] = known;
        function.messages
    }

    #[tokio::test]
    async fn what_is_sent_arrives_and_what_is_not_is_told() {
        let collector = UdpSocket::bind((Ipv4Addr::LOCALHOST, 0)).await.unwrap();
        let place = collector.local_addr().unwrap().to_string();
        let (counts, instance) = (Counts::default(), InstanceId(Uuid::from_u128(1)));
        let mut collectors = Collectors::new(counts.clone(), (LIMIT, "a test"));
        let datagram = |body: &[u8]| Datagram { of: instance, body: body.to_vec() };
        for body in [b"one", b"two"] {
            collectors.send(&place, datagram(body));
            let mut heard = [0; 16];
            let length = collector.recv(&mut heard).await.unwrap();
            assert_eq!(&heard[..length], body);
        }
        collectors.send("no such host", datagram(b"lost"));
        let is_counted = || counted(&counts, instance).unsent > 0;
        while !is_counted() {
            tokio::time::sleep(Duration::from_millis(5)).await;
        }
        let MessageCounters { sent, unsent, trouble, .. } = counted(&counts, instance);
        assert_eq!((sent, unsent), (2, 1));
        assert!(trouble.starts_with("collector 'no such host': "), "{trouble}");
    }

    #[tokio::test]
    async fn nobody_sends_more_than_he_may() {
        let (counts, instance) = (Counts::default(), InstanceId(Uuid::from_u128(1)));
        let mut collectors = Collectors::new(counts.clone(), (LIMIT, "a test"));
        let all = LIMIT + 3;
        collectors.second = (Instant::now() + Duration::from_secs(60), 0);
        for number in 0..all {
            // Of one collector too many would wait.
            let collector = format!("{}:1", number % 64);
            collectors.send(&collector, Datagram { of: instance, body: Vec::new() });
        }
        let MessageCounters { unsent, trouble, .. } = counted(&counts, instance);
        assert_eq!(unsent, 3);
        assert_eq!(trouble, "a test would send more than 1000 datagrams a second");
    }
}
