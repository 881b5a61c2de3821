//! Programs that cannot be run say why.

use crate::scene::{rules, three_hosts, with_chain};
use crate::town::Town;
use catena_dataplane::engine::{CompileError, Tables};
use catena_model::NodeProgram;
use catena_model::entry::{Change, Program};
use catena_model::limits::CHAIN_FUNCTIONS_MAX;
use catena_model::resource::Encapsulation;

fn refusal(program: &NodeProgram) -> CompileError {
    Tables::compile(program).expect_err("the program is refused")
}

fn town() -> Town {
    with_chain(Encapsulation::Nsh, &[&["v1"], &["v2"]])
}

#[test]
fn a_sound_program_keeps_its_number_and_ports() {
    let tables = town().tables(0);
    assert_eq!(tables.number().0, 1);
    let names: Vec<_> = tables.local_ports().map(|(_, entry)| entry.name.as_str()).collect();
    assert_eq!(names, ["S", "v1.in", "v1.out"]);
}

#[test]
fn identities_are_unique() {
    let mut program = town().program(0);
    program.ports.push(program.ports[0].clone());
    assert!(matches!(refusal(&program), CompileError::Twice { what: "port", .. }));
    let mut program = town().program(0);
    program.paths.push(program.paths[0].clone());
    assert!(matches!(refusal(&program), CompileError::Twice { what: "path", .. }));
    let mut program = town().program(0);
    program.networks[1].vni = program.networks[0].vni;
    assert!(matches!(refusal(&program), CompileError::Twice { what: "VNI", .. }));
    let mut program = town().program(0);
    program.tunnels.push(program.tunnels[0].clone());
    assert!(matches!(refusal(&program), CompileError::Twice { what: "node", .. }));
}

#[test]
fn what_is_named_must_be_there() {
    let mut program = town().program(0);
    program.networks.remove(0);
    assert!(matches!(refusal(&program), CompileError::PortWithoutNetwork { .. }));
    let mut program = town().program(0);
    program.paths.clear();
    let text = refusal(&program).to_string();
    assert_eq!(text, "rule 'c-0' sends into path 100, which is not in the program");
}

#[test]
fn limits_hold() {
    let mut program = town().program(0);
    program.paths[0].hops = vec![program.paths[0].hops[0].clone(); CHAIN_FUNCTIONS_MAX + 1];
    let expected = CompileError::TooMany {
        what: "functions in one path",
        have: CHAIN_FUNCTIONS_MAX + 1,
        max: CHAIN_FUNCTIONS_MAX,
    };
    assert_eq!(refusal(&program), expected);
}

#[test]
fn a_path_identifier_must_fit_its_encapsulation() {
    for (encapsulation, path) in
        [(Encapsulation::Nsh, 0), (Encapsulation::Mpls, 15), (Encapsulation::Mpls, 1 << 20)]
    {
        let mut town = three_hosts();
        town.chain("c", encapsulation, &[&["v1"]], &rules(1)).path = path;
        assert!(matches!(refusal(&town.program(0)), CompileError::PathIdentifier { .. }));
    }
}

/// Tables that follow others by edits of their program.
pub(crate) fn changed(tables: &Tables, changes: &[Change]) -> Result<Tables, String> {
    let mut entries = tables.entries().clone();
    for change in changes {
        entries.edit(change.clone()).map_err(|error| error.to_string())?;
    }
    let program = Program::new(tables.number(), entries);
    tables.following(&program).map_err(|error| error.to_string())
}
