//! Compiles the messages without protoc. The gRPC stubs are made in controller and agent.

fn main() -> Result<(), Box<dyn std::error::Error>> {
    println!("cargo::rerun-if-changed=proto/catena.proto");
    let descriptors = protox::compile(["proto/catena.proto"], ["proto"])?;
    prost_build::Config::new().compile_fds(descriptors)?;
    Ok(())
}
