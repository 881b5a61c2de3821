//! Makes the gRPC stubs without protoc: the client for the agent, the server for its tests, which
//! stand in the controller's place. The messages themselves come from `protocol`.

use std::path::PathBuf;

fn main() -> Result<(), Box<dyn std::error::Error>> {
    println!("cargo::rerun-if-changed=../protocol/proto/catena.proto");
    let descriptors = protox::compile(["catena.proto"], ["../protocol/proto"])?;
    let client = PathBuf::from(std::env::var("OUT_DIR")?);
    let server = client.join("server");
    std::fs::create_dir_all(&server)?;
    for (is_client, folder) in [(true, client), (false, server)] {
        tonic_prost_build::configure()
            .build_client(is_client)
            .build_server(!is_client)
            .extern_path(".catena.v1", "::catena_protocol::message")
            .emit_rerun_if_changed(false)
            .out_dir(folder)
            .compile_fds(descriptors.clone())?;
    }
    Ok(())
}
