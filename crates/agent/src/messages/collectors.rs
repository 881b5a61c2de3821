//! Ways to collectors, a task each: a name that takes long to be looked up is nobody else's affair. Knows sockets and
//! how many datagrams there may be; refuses to know what is in them. What a collector does not take is not known here.

use super::Counts;
use catena_model::id::InstanceId;
use catena_model::limits::{FUNCTION_DATAGRAMS_PER_SECOND, NODE_FUNCTIONS_MAX};
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

/// A message on its way.
#[derive(Debug)]
pub(super) struct Datagram {
    pub(super) instance: InstanceId,
    pub(super) body: Vec<u8>,
}

#[derive(Debug)]
pub(super) struct Collectors {
    ways: HashMap<String, mpsc::Sender<Datagram>>,
    counts: Counts,
    /// The second that is now, and what was sent in it.
    second: (Instant, u64),
}

impl Collectors {
    pub(super) fn new(counts: Counts) -> Self {
        Self { ways: HashMap::new(), counts, second: (Instant::now(), 0) }
    }

    /// Sends a datagram, or counts why not.
    pub(super) fn send(&mut self, collector: String, datagram: Datagram) {
        let instance = datagram.instance;
        if let Err(why) = self.try_send(collector, datagram) {
            unsent(&self.counts, instance, &why);
        }
    }

    fn try_send(&mut self, collector: String, datagram: Datagram) -> Result<(), String> {
        let now = Instant::now();
        if now.duration_since(self.second.0) >= Duration::from_secs(1) {
            self.second = (now, 0);
        }
        if self.second.1 >= FUNCTION_DATAGRAMS_PER_SECOND {
            return Err(format!(
                "the functions of this node send more than {FUNCTION_DATAGRAMS_PER_SECOND} datagrams a second"
            ));
        }
        self.second.1 += 1;
        let too_many = |_| format!("more than {WAITING_MAX} datagrams wait for '{collector}'");
        if let Some(way) = self.ways.get(&collector).filter(|way| !way.is_closed()) {
            return way.try_send(datagram).map_err(too_many);
        }
        self.ways.retain(|_, way| !way.is_closed());
        if self.ways.len() >= NODE_FUNCTIONS_MAX {
            return Err(format!("there are more than {NODE_FUNCTIONS_MAX} collectors"));
        }
        let (way, waiting) = mpsc::channel(WAITING_MAX);
        let first = way.try_send(datagram).map_err(too_many);
        tokio::spawn(serve(collector.clone(), waiting, self.counts.clone()));
        self.ways.insert(collector, way);
        first
    }
}

fn unsent(counts: &Counts, instance: InstanceId, why: &str) {
    counts.note(instance, |counters| {
        counters.unsent += 1;
        why.clone_into(&mut counters.trouble);
    });
}

/// Sends what comes, until nothing has for long.
async fn serve(collector: String, mut waiting: mpsc::Receiver<Datagram>, counts: Counts) {
    let mut socket = Err(String::new());
    let mut opened: Option<Instant> = None;
    while let Ok(Some(Datagram { instance, body })) = timeout(IDLE, waiting.recv()).await {
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
            Ok(()) => counts.note(instance, |counters| counters.sent += 1),
            Err(why) => unsent(&counts, instance, &format!("collector '{collector}': {why}")),
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
    use catena_model::account::{FunctionCounters, MessageCounters};
    use catena_model::bundle::ConfigurationId;
    use uuid::Uuid;

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
        let mut collectors = Collectors::new(counts.clone());
        let datagram = |body: &[u8]| Datagram { instance, body: body.to_vec() };
        for body in [b"one", b"two"] {
            collectors.send(place.clone(), datagram(body));
            let mut heard = [0; 16];
            let length = collector.recv(&mut heard).await.unwrap();
            assert_eq!(&heard[..length], body);
        }
        collectors.send("no such host".into(), datagram(b"lost"));
        let is_counted = || counted(&counts, instance).unsent > 0;
        while !is_counted() {
            tokio::time::sleep(Duration::from_millis(5)).await;
        }
        let MessageCounters { sent, unsent, trouble, .. } = counted(&counts, instance);
        assert_eq!((sent, unsent), (2, 1));
        assert!(trouble.starts_with("collector 'no such host': "), "{trouble}");
    }

    #[tokio::test]
    async fn a_node_sends_no_more_than_it_may() {
        let (counts, instance) = (Counts::default(), InstanceId(Uuid::from_u128(1)));
        let mut collectors = Collectors::new(counts.clone());
        let all = FUNCTION_DATAGRAMS_PER_SECOND + 3;
        collectors.second = (Instant::now() + Duration::from_secs(60), 0);
        for number in 0..all {
            // Of one collector too many would wait.
            let collector = format!("{}:1", number % 64);
            collectors.send(collector, Datagram { instance, body: Vec::new() });
        }
        let MessageCounters { unsent, trouble, .. } = counted(&counts, instance);
        assert_eq!(unsent, 3);
        assert!(trouble.contains("datagrams a second"), "{trouble}");
    }
}
