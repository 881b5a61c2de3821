//! Paths of namespaces, as others write them.

use catena_kernel::KernelError;
use catena_kernel::attach::FunctionNamespace;
use catena_kernel::namespace::NetNamespace;
use rustix::fs::{CWD, FileType, Mode};

use crate::PATIENCE;

#[test]
fn what_is_no_namespace_is_refused_without_touching_it() {
    // To open the reading end of a pipe that nobody writes to would never return.
    let pipe = std::env::temp_dir().join(format!("catena-kernel-pipe-{}", std::process::id()));
    let rights = Mode::RUSR | Mode::WUSR;
    rustix::fs::mknodat(CWD, &pipe, FileType::Fifo, rights, 0).unwrap();
    let (answer, outcome) = std::sync::mpsc::channel();
    let opened = pipe.clone();
    std::thread::spawn(move || answer.send(NetNamespace::open(&opened)));
    let outcome = outcome.recv_timeout(PATIENCE);
    std::fs::remove_file(&pipe).unwrap();
    let error = outcome.expect("it waits for a writer").unwrap_err();
    assert!(error.to_string().contains("not a namespace"), "{error}");
    for path in ["/dev/null", "/proc/self/ns/pid", "/run"] {
        let error = NetNamespace::open(std::path::Path::new(path)).unwrap_err();
        assert!(matches!(error, KernelError::Invalid { .. }), "{path}: {error}");
    }
    let relative = FunctionNamespace::named("../proc/self/ns/net");
    assert!(matches!(relative.open(), Err(KernelError::Invalid { .. })));
    assert!(matches!(
        FunctionNamespace::named("..").open(),
        Err(KernelError::Invalid { .. } | KernelError::NotFoundYet { .. })
    ));
}
