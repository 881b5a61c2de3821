use crate::scene::{packet, with_chain, CHAINED_PORT};
use crate::frames::Spec;
use catena_dataplane::engine::*;
use catena_io::*;
use catena_model::resource::Encapsulation;
use catena_wire::scalar::IpProtocol;
use std::sync::Arc;
#[test]
fn speed() {
    let town = with_chain(Encapsulation::Nsh, &[&["v1"], &["v2"]]);
    let mut e = Engine::new(EngineConfig::new(crate::town::node_name(0)));
    e.replace_tables(Arc::new(town.tables(0)));
    let mut e2 = Engine::new(EngineConfig::new(crate::town::node_name(1)));
    e2.replace_tables(Arc::new(town.tables(1)));
    let mut pool = BufferPool::new(1024);
    let s = e.slot_of(town.port_named("S").id).unwrap();
    let v1o = e.slot_of(town.port_named("v1.out").id).unwrap();
    let mut out = Output::default();
    let frames: Vec<_> = (0..256u16).map(|i| { let mut p = packet(&town, CHAINED_PORT); p.ports.0 = 1000 + i; p.frame() }).collect();
    let n = 2000;
    for (slot, name) in [(s, "classify+deliver"), (v1o, "return+tunnel")] {
        let mut spent = std::time::Duration::ZERO;
        for _ in 0..n {
            let mut input: Vec<Packet> = frames.iter().map(|f| { let mut b = pool.take().unwrap(); assert!(b.fill(f)); Packet::from_port(slot, b) }).collect();
            let t = std::time::Instant::now();
            e.process(1, &mut input, &mut pool, &mut out);
            spent += t.elapsed();
            for f in out.frames.drain(..) { e.booked_sent(f.booking); pool.put(f.buffer); }
            for f in out.datagrams.drain(..) { e.booked_sent(f.booking); pool.put(f.buffer); }
        }
        eprintln!("{name}: {} ns/packet", spent.as_nanos() / (n * 256));
    }
    let tcp = Spec { protocol: IpProtocol::TCP, payload: vec![1; 60_000], ..packet(&town, CHAINED_PORT) };
    let f = tcp.frame();
    let off = Offload { checksum: Some(PartialChecksum { start: 34, offset: 16 }), segmentation: Some(Segmentation { kind: SegmentationKind::TcpV4, ecn: false, segment_bytes: 1340, header_bytes: 54 }) };
    let (mut t1, mut t2, mut t3) = (std::time::Duration::ZERO, std::time::Duration::ZERO, std::time::Duration::ZERO);
    let mut delivered = 0;
    for _ in 0..n {
        let mk = |pool: &mut BufferPool, slot| { let mut b = pool.take().unwrap(); assert!(b.fill(&f)); b.offload = off; vec![Packet::from_port(slot, b)] };
        let mut input = mk(&mut pool, s);
        let t = std::time::Instant::now();
        e.process(1, &mut input, &mut pool, &mut out);
        t1 += t.elapsed();
        for f in out.frames.drain(..) { e.booked_sent(f.booking); pool.put(f.buffer); }
        let mut input = mk(&mut pool, v1o);
        let t = std::time::Instant::now();
        e.process(1, &mut input, &mut pool, &mut out);
        t2 += t.elapsed();
        let mut input = vec![];
        for d in out.datagrams.drain(..) { e.booked_sent(d.booking);
            for c in d.buffer.bytes().chunks(usize::from(d.segment_bytes.unwrap())) { let mut b = pool.take().unwrap(); assert!(b.fill(c)); input.push(Packet::from_tunnel(d.kind, crate::town::node_address(0), b)); }
            pool.put(d.buffer); }
        let t = std::time::Instant::now();
        e2.process(1, &mut input, &mut pool, &mut out);
        t3 += t.elapsed();
        for f in out.frames.drain(..) { delivered += 1; e2.booked_sent(f.booking); pool.put(f.buffer); }
    }
    eprintln!("super local {} ns, to tunnel {} ns ({} Gbit/s), from tunnel {} ns ({} Gbit/s), frames {delivered}", t1.as_nanos()/n, t2.as_nanos()/n, 480_000*n/t2.as_nanos(), t3.as_nanos()/n, 480_000*n/t3.as_nanos());
}
