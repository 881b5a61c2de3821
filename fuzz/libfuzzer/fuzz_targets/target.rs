//! One source for every target: libFuzzer's entry, named by the binary that cargo makes of it.
#![no_main]

libfuzzer_sys::fuzz_target!(|bytes: &[u8]| catena_fuzz::run(env!("CARGO_BIN_NAME"), bytes));
