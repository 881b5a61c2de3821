//! How long connections are remembered of which nothing more is seen. Knows seconds; refuses to know
//! connections.

/// Seconds after the last packet, by what was seen so far.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Timeouts {
    /// TCP: a SYN, and no answer.
    pub syn_sent_s: u64,
    /// TCP: a SYN, and the SYN that answers it.
    pub syn_received_s: u64,
    /// TCP: open.
    pub established_s: u64,
    /// TCP: one side has closed.
    pub fin_wait_s: u64,
    /// TCP: one side has closed, and the other knows.
    pub close_wait_s: u64,
    /// TCP: both sides have closed.
    pub last_ack_s: u64,
    /// TCP: both sides have closed, and both know.
    pub time_wait_s: u64,
    /// TCP: reset.
    pub close_s: u64,
    /// TCP: a SYN from either side.
    pub syn_sent_2_s: u64,
    /// TCP: the most, once a segment was sent again and again, or a side takes no more.
    pub retransmitted_s: u64,
    /// TCP: the most, while something is not acknowledged.
    pub unacknowledged_s: u64,
    /// UDP without an answer, and the first two seconds of a flow with answers.
    pub udp_s: u64,
    /// UDP: a flow with answers.
    pub udp_stream_s: u64,
    /// ICMP and ICMPv6.
    pub icmp_s: u64,
    /// GRE without an answer.
    pub gre_s: u64,
    /// GRE with answers.
    pub gre_stream_s: u64,
    /// Any other protocol.
    pub other_s: u64,
}

impl Default for Timeouts {
    /// Those of Linux (net/netfilter/nf_conntrack_proto_*.c).
    fn default() -> Self {
        Self {
            syn_sent_s: 120,
            syn_received_s: 60,
            established_s: 432_000,
            fin_wait_s: 120,
            close_wait_s: 60,
            last_ack_s: 30,
            time_wait_s: 120,
            close_s: 10,
            syn_sent_2_s: 120,
            retransmitted_s: 300,
            unacknowledged_s: 300,
            udp_s: 30,
            udp_stream_s: 120,
            icmp_s: 30,
            gre_s: 30,
            gre_stream_s: 180,
            other_s: 600,
        }
    }
}
