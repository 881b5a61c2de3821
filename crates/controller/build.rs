//! Makes the gRPC stubs without protoc; the messages themselves come from `protocol`.

fn main() -> Result<(), Box<dyn std::error::Error>> {
    println!("cargo::rerun-if-changed=../protocol/proto/catena.proto");
    let descriptors = protox::compile(["catena.proto"], ["../protocol/proto"])?;
    tonic_prost_build::configure()
        .extern_path(".catena.v1", "::catena_protocol::message")
        .emit_rerun_if_changed(false)
        .compile_fds(descriptors)?;
    Ok(())
}
