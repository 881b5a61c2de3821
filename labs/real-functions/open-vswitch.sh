#!/bin/sh
# Open vSwitch in user space forwards by OpenFlow alone what comes in at an interface, out by the same, one hop on. What it
# writes is in the folder where it stands.
# Usage: open-vswitch.sh INTERFACE FLOWS
set -eu
export OVS_RUNDIR="$PWD" OVS_LOGDIR="$PWD" OVS_DBDIR="$PWD" OVS_SYSCONFDIR="$PWD"
database="unix:$PWD/db.sock"
rm -f ovs.db
ovsdb-tool create ovs.db /usr/share/openvswitch/vswitch.ovsschema
ovsdb-server ovs.db --remote="p$database" --unixctl="$PWD/db.ctl" --log-file=ovsdb.log -vconsole:off &
server=$!
trap 'kill "$server" ${daemon:+"$daemon"}' EXIT
trap 'exit 0' INT TERM
# Hosts leave checksums and segmentation to interfaces.
ovs-vsctl --db="$database" --retry --no-wait init -- set Open_vSwitch . other_config:userspace-tso-enable=true
ovs-vswitchd "$database" --unixctl="$PWD/vs.ctl" --log-file=ovs.log -vconsole:off &
daemon=$!
ovs-vsctl --db="$database" --timeout=20 add-br br0 -- set bridge br0 datapath_type=netdev fail-mode=secure -- add-port br0 "$1"
ovs-ofctl add-flows "unix:$PWD/br0.mgmt" "$2"
echo "the switch forwards"
wait "$daemon"
