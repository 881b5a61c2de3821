//! Packs what goes to other nodes into datagrams for UDP_SEGMENT: all packets of one datagram
//! row are of one flow and one size, save the last. Knows sizes and bounds; refuses to know what a
//! header says.

use super::context::Context;
use super::counters::{Booking, Books, Owner, Passage};
use super::output::{Datagram, Output};
use super::packet::TunnelKind;
use super::segments::Segments;
use super::vector::Work;
use catena_io::{Buffer, BufferPool, TUNNEL_PAYLOAD_BYTES_MAX, TUNNEL_SEGMENTS_MAX};
use catena_model::DropReason;
use catena_model::account::Volume;
use std::net::IpAddr;

/// Rows that can still grow at the same time.
const ROWS_OPEN_MAX: usize = 16;
/// Bytes of the outer UDP header, and of the outer IP header of each family.
const UDP_HEADER_BYTES: usize = catena_wire::udp::HEADER_BYTES;
const IPV4_HEADER_BYTES: usize = catena_wire::ipv4::HEADER_BYTES;
const IPV6_HEADER_BYTES: usize = catena_wire::ipv6::HEADER_BYTES;

/// What a packet needs to travel.
pub(super) struct Load<'h> {
    pub(super) to: IpAddr,
    pub(super) kind: TunnelKind,
    pub(super) passage: Passage,
    pub(super) header: &'h [u8],
}

/// One wire packet of a frame.
#[derive(Clone, Copy)]
struct Piece<'p> {
    header: &'p [u8],
    frame: &'p [u8],
    segments: &'p Segments,
    index: u32,
}

impl Piece<'_> {
    /// Length with its header, in bytes.
    fn len(&self) -> usize {
        self.header.len() + self.segments.len(self.index)
    }

    /// What the counters see of it.
    fn volume(&self) -> Volume {
        Volume { packets: 1, bytes: self.segments.len(self.index) as u64 }
    }

    /// Appends it; false, and nothing appended, when there is no room.
    fn append_to(&self, buffer: &mut Buffer) -> bool {
        let before = buffer.len();
        let is_added =
            buffer.append(self.header) && self.segments.append_to(self.frame, self.index, buffer);
        if !is_added {
            buffer.truncate(before);
        }
        is_added
    }
}

/// What all packets of a row have in common.
#[derive(Clone, Copy, PartialEq, Eq)]
struct RowKey {
    to: IpAddr,
    kind: TunnelKind,
    passage: Passage,
    owner: Owner,
    flow_hash: u64,
}

/// A row that can still grow.
struct Row {
    key: RowKey,
    /// Index of its datagram in the output.
    datagram: usize,
    segment_bytes: usize,
    segments: usize,
}

/// The open rows of a vector.
#[derive(Default)]
pub(super) struct Packer {
    rows: Vec<Row>,
    /// Datagrams of earlier vectors in the same output.
    first: usize,
}

impl Packer {
    /// Begins a vector.
    pub(super) fn open(&mut self, out: &Output) {
        self.rows.clear();
        self.first = out.datagrams.len();
    }

    /// Ends a vector: what it made is held until it is booked.
    pub(super) fn close(&mut self, books: &mut Books, out: &Output) {
        self.rows.clear();
        for datagram in &out.datagrams[self.first..] {
            books.hold(&datagram.booking);
        }
    }

    /// Packs the wire packets of a frame, or drops them by name.
    pub(super) fn pack(
        &mut self,
        mut work: Work,
        load: &Load<'_>,
        context: &mut Context<'_>,
        out: &mut Output,
    ) {
        let planned = Segments::of(&mut work.buffer, &work.view);
        let planned = planned.and_then(|segments| {
            let outer = if load.to.is_ipv4() { IPV4_HEADER_BYTES } else { IPV6_HEADER_BYTES };
            let packet = outer + UDP_HEADER_BYTES + load.header.len() + segments.len(0);
            let fits = packet <= usize::from(context.tables.underlay_mtu);
            if fits { Ok(segments) } else { Err(DropReason::MtuExceeded) }
        });
        let segments = match planned {
            Ok(segments) => segments,
            Err(reason) => {
                context.end_work(work, reason);
                return;
            }
        };
        let key = RowKey {
            to: load.to,
            kind: load.kind,
            passage: load.passage,
            owner: work.owner,
            flow_hash: work.flow_hash,
        };
        if let Segments::Whole(len) = segments
            && self.growing(&key, load.header.len() + len, out).is_none()
            && let Some(room) = work.buffer.prepend(load.header.len())
        {
            room.copy_from_slice(load.header);
            let volume = Volume { packets: 1, bytes: len as u64 };
            self.begin(key, work.buffer, volume, out);
            return;
        }
        for index in 0..segments.count() {
            let (header, frame) = (load.header, work.buffer.bytes());
            let piece = Piece { header, frame, segments: &segments, index };
            if !self.add(key, piece, context.pool, out) {
                let reason = DropReason::BuffersExhausted;
                context.books.dropped(work.owner, work.path, reason, 1);
            }
        }
        context.pool.put(work.buffer);
    }

    /// Adds one wire packet to its flow's row, or begins a new one; false when no buffer is free.
    fn add(
        &mut self,
        key: RowKey,
        piece: Piece<'_>,
        pool: &mut BufferPool,
        out: &mut Output,
    ) -> bool {
        if let Some(place) = self.growing(&key, piece.len(), out) {
            let row = &mut self.rows[place];
            let datagram = &mut out.datagrams[row.datagram];
            let is_added = piece.append_to(&mut datagram.buffer);
            if is_added {
                row.segments += 1;
                datagram.segment_bytes = u16::try_from(row.segment_bytes).ok();
                datagram.booking.volume.merge(piece.volume());
            }
            if !is_added || piece.len() < row.segment_bytes {
                self.rows.remove(place);
            }
            return is_added;
        }
        let Some(mut buffer) = pool.take() else { return false };
        if piece.append_to(&mut buffer) {
            self.begin(key, buffer, piece.volume(), out);
            return true;
        }
        pool.put(buffer);
        false
    }

    /// The row that can take another packet of this size. A row of the flow that cannot is closed,
    /// lest a later packet overtake.
    fn growing(&mut self, key: &RowKey, bytes: usize, out: &Output) -> Option<usize> {
        let place = self.rows.iter().position(|row| row.key == *key)?;
        let row = &self.rows[place];
        let total = out.datagrams[row.datagram].buffer.len() + bytes;
        let fits = bytes <= row.segment_bytes
            && row.segments < TUNNEL_SEGMENTS_MAX
            && total <= TUNNEL_PAYLOAD_BYTES_MAX;
        if fits {
            return Some(place);
        }
        self.rows.remove(place);
        None
    }

    fn begin(&mut self, key: RowKey, buffer: Buffer, volume: Volume, out: &mut Output) {
        if self.rows.len() == ROWS_OPEN_MAX {
            self.rows.remove(0);
        }
        let segment_bytes = buffer.len();
        self.rows.push(Row { key, datagram: out.datagrams.len(), segment_bytes, segments: 1 });
        out.datagrams.push(Datagram {
            to: key.to,
            kind: key.kind,
            entropy: entropy(key.flow_hash),
            segment_bytes: None,
            buffer,
            booking: Booking { owner: key.owner, to: Owner::Tunnels, passage: key.passage, volume },
        });
    }
}

/// The same for a whole flow: it chooses the socket, hence the source port (RFC 7348 section 5,
/// RFC 7510 section 3). Both directions have the same: they start at different nodes, so routers
/// spread them by the addresses already.
fn entropy(flow_hash: u64) -> u16 {
    const DYNAMIC_PORTS: u16 = 0xc000;
    DYNAMIC_PORTS | (flow_hash % u64::from(u16::MAX - DYNAMIC_PORTS + 1)) as u16
}
