//! Packs what goes to other nodes into datagrams for UDP_SEGMENT: all packets of one datagram
//! row are of one flow and one size, save the last. Knows sizes and bounds; refuses to know what a
//! header says.

use super::context::Context;
use super::effects::Effect;
use super::output::{Datagram, Output};
use crate::engine::account::tx_batches::{Ends, TxBatches, TxRef};
use crate::engine::encap::Header;
use crate::engine::packet::segments::Segments;
use crate::engine::tables::Tables;
use crate::engine::vector::Work;
use catena_io::{Buffer, BufferPool, TUNNEL_PAYLOAD_BYTES_MAX, TUNNEL_SEGMENTS_MAX};
use catena_model::DropReason;
use catena_model::TunnelKind;
use catena_model::account::Volume;
use std::net::IpAddr;

/// Places of rows that can still grow; a row has one, by the hash of its flow, and ends when another
/// takes it.
const ROW_PLACES: usize = 256;
/// Bytes of the outer UDP header, and of the outer IP header of each family.
const UDP_HEADER_BYTES: usize = catena_wire::udp::HEADER_BYTES;
const IPV4_HEADER_BYTES: usize = catena_wire::ipv4::HEADER_BYTES;
const IPV6_HEADER_BYTES: usize = catena_wire::ipv6::HEADER_BYTES;

/// A packet that no tunnel takes.
pub(crate) struct TooBig {
    pub(crate) work: Work,
    pub(crate) segments: Segments,
    /// How long a frame in its place may be, in bytes.
    pub(crate) frame_bytes_max: usize,
}

/// What a packet needs to travel.
pub(crate) struct Load<'h> {
    pub(crate) to: IpAddr,
    pub(crate) kind: TunnelKind,
    pub(crate) ends: Ends,
    pub(crate) header: &'h Header,
}

/// One wire packet of a frame.
#[derive(Clone, Copy)]
struct Piece<'p> {
    header: &'p Header,
    frame: &'p [u8],
    segments: &'p Segments,
    index: u32,
}

impl Piece<'_> {
    /// Length with its header, in bytes.
    fn len(&self) -> usize {
        self.header.added_bytes() + self.segments.len(self.index)
    }

    /// What the counters see of it.
    fn volume(&self) -> Volume {
        Volume { packets: 1, bytes: self.segments.len(self.index) as u64 }
    }

    /// Appends it; false, and nothing appended, when there is no room.
    fn append_to(&self, buffer: &mut Buffer) -> bool {
        let before = buffer.len();
        let Self { header, frame, segments, index } = *self;
        let is_added =
            header.append_to(buffer, index, |buffer| segments.append_to(frame, index, buffer));
        if !is_added {
            buffer.truncate(before);
        }
        is_added
    }
}

/// What all packets of a row have in common.
#[derive(Clone, Copy)]
pub(crate) struct GsoKey {
    pub(crate) flow_hash: u64,
    pub(crate) to: IpAddr,
    pub(crate) kind: TunnelKind,
    /// What its packets are counted by, in the output's batches.
    pub(crate) batch: u32,
}

/// A row. Small, since most packets begin one: the rest of its key is in its datagram and
/// that one's batch.
#[derive(Clone, Copy, Default)]
struct GsoBatch {
    /// The opening in which it began: rows of others are closed. 0: it is closed.
    opening: u64,
    flow_hash: u64,
    /// Index of its datagram in the output.
    datagram: u32,
    segment_bytes: u32,
    segments: u32,
}

impl GsoBatch {
    fn close(&mut self) {
        self.opening = 0;
    }

    /// Is there room for another packet? Closes the row if there is none.
    fn can_grow(&mut self, key: &GsoKey, bytes: usize, out: &Output) -> bool {
        let datagram = out.datagrams.get(self.datagram as usize);
        let Some(datagram) = datagram.filter(|datagram| is_of(datagram, key, &out.batches)) else {
            return false;
        };
        let fits = bytes <= self.segment_bytes as usize
            && (self.segments as usize) < TUNNEL_SEGMENTS_MAX
            && datagram.buffer.len() + bytes <= TUNNEL_PAYLOAD_BYTES_MAX;
        if !fits {
            self.close();
        }
        fits
    }
}

/// The open rows of a vector.
pub(crate) struct GsoBatcher {
    /// By place; empty before the first.
    rows: Vec<GsoBatch>,
    opening: u64,
    is_following: bool,
    underlay_mtu: u16,
}

impl GsoBatcher {
    /// No row is open, and the underlay takes what the tables say.
    pub(crate) fn new() -> Self {
        Self { rows: Vec::new(), opening: 0, is_following: false, underlay_mtu: u16::MAX }
    }

    /// The longest IP packet that the underlay's devices take now, in bytes, if that is less than the
    /// tables say.
    pub(crate) fn limit_to(&mut self, underlay_mtu: u16) {
        self.underlay_mtu = underlay_mtu;
    }

    /// What [`Self::limit_to`] was told last.
    pub(crate) fn limit(&self) -> u16 {
        self.underlay_mtu
    }

    /// Begins a vector.
    pub(crate) fn open(&mut self) {
        self.opening += 1;
        self.rows.resize(ROW_PLACES, GsoBatch::default());
    }

    /// Says whether the kernel sends other packets of the flows that come now. A row has outer
    /// checksums, by which the other node leaves it to a socket: what the kernel sends later would
    /// overtake it there. So each packet is a datagram of its own then.
    pub(crate) fn follow(&mut self, is_following: bool) {
        self.is_following = is_following;
    }

    /// Packs the wire packets of a frame, or drops them by name; one that is too big comes back.
    pub(crate) fn pack(
        &mut self,
        mut work: Work,
        load: &Load<'_>,
        context: &mut Context<'_>,
        out: &mut Output,
    ) -> Option<TooBig> {
        let segments = match Segments::of(&mut work.buffer, &work.view) {
            Ok(segments) => segments,
            Err(reason) => {
                context.end_work(work, reason);
                return None;
            }
        };
        let room = self.room((load.to, load.kind), context.tables);
        let frame_bytes_max = room.saturating_sub(load.header.added_bytes());
        if frame_bytes_max < segments.len(0) {
            return Some(TooBig { work, segments, frame_bytes_max });
        }
        let batch = out.batches.open(load.ends);
        let key = GsoKey { to: load.to, kind: load.kind, batch, flow_hash: work.flow_hash };
        if let Segments::Whole(len) = segments
            && load.header.put_before(&mut work.buffer)
        {
            let volume = Volume { packets: 1, bytes: len as u64 };
            let batch = self.pack_plain(work.buffer, volume, key, context.pool, out);
            out.batches.add(batch, volume);
            context.counters.held(work.owner, 1);
            return None;
        }
        let mut packed = 0;
        for index in 0..segments.count() {
            let (header, frame) = (load.header, work.buffer.bytes());
            let piece = Piece { header, frame, segments: &segments, index };
            match self.add(key, piece, context.pool, out) {
                Some(batch) => {
                    out.batches.add(batch, piece.volume());
                    packed += 1;
                }
                None => {
                    let reason = DropReason::BuffersExhausted;
                    context.trace.note(work.copy, || Effect::Dropped { reason });
                    context.counters.dropped(work.owner, work.path, reason, 1);
                }
            }
        }
        context.counters.held(work.owner, packed);
        context.pool.put(work.buffer);
        None
    }

    /// Is a packet of so many bytes, header included, small enough for this kind of tunnel to another node?
    #[inline]
    pub(crate) fn fits(&self, to: (IpAddr, TunnelKind), bytes: usize, tables: &Tables) -> bool {
        bytes <= self.room(to, tables)
    }

    /// Bytes that such a tunnel takes.
    #[inline]
    fn room(&self, (to, kind): (IpAddr, TunnelKind), tables: &Tables) -> usize {
        let outer = match to {
            // The header is that of the IPv6 packet.
            _ if kind.is_segmented() => 0,
            IpAddr::V4(_) => IPV4_HEADER_BYTES + UDP_HEADER_BYTES,
            IpAddr::V6(_) => IPV6_HEADER_BYTES + UDP_HEADER_BYTES,
        };
        self.underlay_mtu(tables).saturating_sub(outer)
    }

    /// Bytes behind the Ethernet header that the underlay takes, and links, which carry it.
    #[inline]
    pub(crate) fn underlay_mtu(&self, tables: &Tables) -> usize {
        tables.underlay_mtu.min(self.underlay_mtu).into()
    }

    /// Packs a whole frame that has its header and fits; `volume` is that of the frame alone. Answers
    /// the batch that it is in.
    #[inline(always)]
    pub(crate) fn pack_plain(
        &mut self,
        buffer: Buffer,
        volume: Volume,
        key: GsoKey,
        pool: &mut BufferPool,
        out: &mut Output,
    ) -> u32 {
        let bytes = buffer.len();
        if let Some(row) = self.growing(&key, bytes, out)
            && let Some(datagram) = out.datagrams.get_mut(row.datagram as usize)
            && datagram.buffer.append(buffer.bytes())
        {
            grow(row, datagram, volume);
            if bytes < row.segment_bytes as usize {
                row.close();
            }
            pool.put(buffer);
            return datagram.share.batch;
        }
        self.begin(key, buffer, volume, out);
        key.batch
    }

    /// Adds one wire packet to its flow's row, or begins a new one. Answers the batch that it is in; none
    /// when no buffer is free.
    fn add(
        &mut self,
        key: GsoKey,
        piece: Piece<'_>,
        pool: &mut BufferPool,
        out: &mut Output,
    ) -> Option<u32> {
        if let Some(row) = self.growing(&key, piece.len(), out)
            && let Some(datagram) = out.datagrams.get_mut(row.datagram as usize)
        {
            let is_added = piece.append_to(&mut datagram.buffer);
            if is_added {
                grow(row, datagram, piece.volume());
            }
            if !is_added || piece.len() < row.segment_bytes as usize {
                row.close();
            }
            return is_added.then_some(datagram.share.batch);
        }
        let mut buffer = pool.take()?;
        if piece.append_to(&mut buffer) {
            self.begin(key, buffer, piece.volume(), out);
            return Some(key.batch);
        }
        pool.put(buffer);
        None
    }

    /// The row that can take another packet of this size. A row of the flow that cannot is closed,
    /// lest a later packet overtake.
    #[inline(always)]
    fn growing(&mut self, key: &GsoKey, bytes: usize, out: &Output) -> Option<&mut GsoBatch> {
        if self.is_following {
            return None;
        }
        let row = self.rows.get_mut(place(key.flow_hash))?;
        // Most packets find no row of theirs, and learn it here.
        if row.opening != self.opening || row.flow_hash != key.flow_hash {
            return None;
        }
        row.can_grow(key, bytes, out).then_some(row)
    }

    #[inline(always)]
    fn begin(&mut self, key: GsoKey, buffer: Buffer, volume: Volume, out: &mut Output) {
        let row = GsoBatch {
            opening: self.opening,
            flow_hash: key.flow_hash,
            // A vector fills far fewer, and a buffer far less.
            datagram: out.datagrams.len() as u32,
            segment_bytes: buffer.len() as u32,
            segments: 1,
        };
        if let Some(free) = self.rows.get_mut(place(key.flow_hash)) {
            *free = row;
        }
        out.datagrams.push(Datagram {
            to: key.to,
            kind: key.kind,
            entropy: entropy(key.flow_hash),
            segment_bytes: None,
            is_followed: self.is_following,
            buffer,
            share: TxRef { batch: key.batch, volume },
        });
    }
}

/// One more packet is in the row.
#[inline]
fn grow(row: &mut GsoBatch, datagram: &mut Datagram, volume: Volume) {
    row.segments += 1;
    datagram.segment_bytes = u16::try_from(row.segment_bytes).ok();
    datagram.share.volume.merge(volume);
}

/// Have the packets of a datagram what those of a row have in common, but for the flow?
#[inline]
fn is_of(datagram: &Datagram, key: &GsoKey, batches: &TxBatches) -> bool {
    (datagram.to, datagram.kind) == (key.to, key.kind)
        && batches.are_alike(datagram.share.batch, key.batch)
}

#[inline]
fn place(flow_hash: u64) -> usize {
    (flow_hash >> 32) as usize % ROW_PLACES
}

/// The same for a whole flow: it chooses the socket, hence the source port (RFC 7348 section 5,
/// RFC 7510 section 3). Both directions have the same: they start at different nodes, so routers
/// spread them by the addresses already.
#[inline]
pub(crate) fn entropy(flow_hash: u64) -> u16 {
    const DYNAMIC_PORTS: u16 = 0xc000;
    DYNAMIC_PORTS | (flow_hash % u64::from(u16::MAX - DYNAMIC_PORTS + 1)) as u16
}
