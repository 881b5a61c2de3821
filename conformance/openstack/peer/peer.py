"""Shared by up, down, keystone-up, keystone-down and clients: environment, uWSGI process, pid file."""
import argparse, fcntl, hashlib, http.client, os, pathlib, shutil, signal, socket, subprocess, sys, time

PINS = pathlib.Path(__file__).resolve().with_name("constraints.txt")
CLIENT_PINS = PINS.with_name("constraints-clients.txt")
CACHE = pathlib.Path(os.environ.get("CATENA_CACHE") or pathlib.Path.home() / ".cache/catena").absolute()
# OpenStack reads options from OS_*, uWSGI from UWSGI_*: the caller's must not leak in.
ENV = {k: v for k, v in os.environ.items() if not k.startswith(("OS_", "UWSGI_", "PYTHON"))}


def arguments(doc, default_port=None):
    parser = argparse.ArgumentParser(description=doc)
    parser.add_argument("work", type=lambda p: pathlib.Path(p).absolute(), help="folder for configuration, database, log and pid file")
    if default_port:
        parser.add_argument("port", type=int, nargs="?", default=default_port, help=f"default {default_port}; 0 takes a free one")
    return parser.parse_args()


def run(command, **extra):
    """Run to the end; only `up` itself prints to stdout, so that its output can be parsed."""
    done = subprocess.run([str(c) for c in command], stdin=subprocess.DEVNULL, stdout=subprocess.PIPE,
                          stderr=subprocess.STDOUT, text=True, env={**ENV, **extra})
    if done.returncode:
        sys.exit(f"{done.stdout[-3000:]}\n{command[0]} failed with status {done.returncode}")


def environment(name, packages, prepare, pins=(PINS,), native=("uwsgi",)):
    """The virtual environment with these exact versions, built once; prepare(venv) is its last step."""
    pinned = b"".join(file.read_bytes() for file in pins)
    key = hashlib.sha256(f"{sys.version}{packages}".encode() + pinned).hexdigest()[:12]
    venv = CACHE / name / key
    venv.parent.mkdir(parents=True, exist_ok=True)
    with open(venv.parent / "lock", "w") as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)
        if not (venv / "complete").exists():
            shutil.rmtree(venv, ignore_errors=True)
            run([sys.executable, "-m", "venv", venv])
            pip = [venv / "bin/pip", "install", "-q", *(word for file in pins for word in ("-c", file))]
            # uWSGI contains the interpreter; pip's cache would hand out the build of another Python of the same version.
            for package in native:
                run([*pip, "--no-cache-dir", package])
            run([*pip, *packages])
            prepare(venv)
            (venv / "complete").touch()
    return venv


def fresh_database(venv, file):
    # A journal left by a killed server would be replayed into the new file: remove it too.
    for old in file.parent.glob(file.name + "*"):
        old.unlink()
    shutil.copyfile(venv / "empty.db", file)


def started(pid):
    """Start time of a live process, None once it ended: tells ours from a later one with the same pid."""
    try:
        fields = pathlib.Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()
    except OSError:
        return None
    return None if fields[0] in "ZX" else fields[19]


def claim(work, name, port):
    """Refuse a second server here and a busy port: a stranger on it would answer the readiness check. Returns the port."""
    file = work / f"{name}.pid"
    if file.exists() and started(file.read_text().split()[0]) == file.read_text().split()[1]:
        sys.exit(f"{name} already runs in {work}, see {file}")
    work.mkdir(parents=True, exist_ok=True)
    with socket.socket() as probe:
        probe.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        try:
            probe.bind(("127.0.0.1", port))
        except OSError as error:
            sys.exit(f"127.0.0.1:{port}: {error}")
        return probe.getsockname()[1]


def serve(work, name, venv, port, module, env, path, ready):
    """Start one single-threaded worker without a master, wait until ready(body of GET path), return its pid."""
    command = [venv / "bin/uwsgi", "--http-socket", f"127.0.0.1:{port}", "--module", module, "--processes", "1",
               # The server's own background threads; requests still come one by one: SQLite locks up under two writers.
               "--enable-threads",
               # This socket ends every connection; without the header clients would reuse it and fail.
               "--add-header", "Connection: close",
               "--need-app", "--die-on-term", "--disable-logging", "--buffer-size", "65535"]
    log = work / f"{name}.log"
    with open(log, "wb") as out:
        process = subprocess.Popen([str(c) for c in command], cwd=work, env={**ENV, **env}, stdin=subprocess.DEVNULL,
                                   stdout=out, stderr=out, start_new_session=True)
    (work / f"{name}.pid").write_text(f"{process.pid} {started(process.pid)}\n")
    deadline = time.monotonic() + 120
    try:
        while process.poll() is None and time.monotonic() < deadline:
            client = http.client.HTTPConnection("127.0.0.1", port, timeout=30)
            try:
                client.request("GET", path)
                if ready(client.getresponse().read()):
                    return process.pid
            except (OSError, http.client.HTTPException, ValueError, KeyError):
                pass  # not up yet
            finally:
                client.close()
            time.sleep(0.1)
    except BaseException:
        stop(work, name)
        raise
    stop(work, name)
    sys.exit(f"{log.read_text(errors='replace')[-3000:]}\n{name} did not become ready, see {log}")


def stop(work, name):
    """End exactly the process of the pid file; False when there is none."""
    file = work / f"{name}.pid"
    if not file.exists():
        return False
    pid, start = file.read_text().split()
    for sign in (signal.SIGTERM, signal.SIGKILL):
        deadline = time.monotonic() + 10
        if started(pid) == start:
            os.kill(int(pid), sign)
        while started(pid) == start and time.monotonic() < deadline:
            time.sleep(0.05)
    if started(pid) == start:
        sys.exit(f"{name}: process {pid} does not end")
    file.unlink()
    return True
