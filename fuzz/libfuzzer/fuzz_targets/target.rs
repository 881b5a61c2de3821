//! libFuzzer's entry for every target: `CATENA_FUZZ_TARGET` names the one that runs. One binary for
//! all of them, since each would hold the whole data plane again.
#![no_main]

use std::sync::LazyLock;

static NAME: LazyLock<String> = LazyLock::new(|| {
    std::env::var("CATENA_FUZZ_TARGET").expect("CATENA_FUZZ_TARGET names the target to run")
});

libfuzzer_sys::fuzz_target!(|bytes: &[u8]| catena_fuzz::run(&NAME, bytes));
