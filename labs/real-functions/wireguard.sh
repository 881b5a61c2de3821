#!/bin/sh
# One end of a tunnel of wireguard-go; both make their keys of it where they stand. Its socket is in a /run of its own, which
# nobody else sees: start it by `unshare --mount`.
# Usage: wireguard.sh NAME PEER ADDRESS PEER-ADDRESS PORT [PEER-ENDPOINT]
set -eu
mount -t tmpfs none /run
umask 077
[ -e "$1.key" ] || { wg genkey >"$1.new" && mv "$1.new" "$1.key"; }
[ -e "$2.key" ] || { wg genkey >"$2.new" && mv "$2.new" "$2.key"; }
wireguard-go -f wg0 &
tunnel=$!
trap 'kill "$tunnel"' EXIT
trap 'exit 0' INT TERM
until wg show wg0 >show.txt 2>&1; do sleep 0.05; done
wg set wg0 private-key "$1.key" listen-port "$5" \
    peer "$(wg pubkey <"$2.key")" allowed-ips "$4/32" ${6:+endpoint "$6"}
ip addr add "$3/24" dev wg0
ip link set wg0 up
echo "the tunnel is up"
wait "$tunnel"
