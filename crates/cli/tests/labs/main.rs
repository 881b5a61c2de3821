//! The whole product from outside: the real binary, real namespaces, real functions of the kernel,
//! real sockets. It knows the command line, the API and what a network shows; it refuses to know
//! how anything inside is done.
//!
//! Needs root, and iproute2, iputils-ping, lldpd, tcpdump and python3. One test runs at a time: they
//! share two processors and, most of them, one lab. `CATENA_FULL=1` runs the long forms.

mod account;
mod alone;
mod bad_input;
mod building;
mod bump;
mod bundled;
mod bundled_alerts;
mod bundled_memory;
mod bundled_nat;
mod capture;
mod chaos;
mod clean_ends;
mod command_line;
mod comparing;
mod deaths;
mod delays;
mod doors;
mod endings;
mod equipment;
mod experiments;
mod explain;
mod exports;
mod failover;
mod first_packet;
mod full_disks;
mod functions;
mod hostile;
mod house;
mod instances;
mod kills;
mod large_rules;
mod links;
mod many_slices;
mod nf_monitor;
mod node;
mod ordinary;
mod own_function;
mod own_tunnels;
mod partitions;
mod passing_by;
mod paths;
mod patience;
mod port_kinds;
mod privileges;
mod procfs;
mod punt;
mod segment_errors;
mod shares;
mod slices;
mod stack;
mod stateless;
mod steering;
mod streams;
mod surroundings;
mod traffic;
mod underlay;
mod updates;
mod via;
mod views;
