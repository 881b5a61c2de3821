"""Starts and stops the two servers that are compared: ours, and the real neutron with networking-sfc."""
import http.client
import json
import os
import pathlib
import shutil
import socket
import subprocess
import time

HERE = pathlib.Path(__file__).resolve().parent
CACHE = pathlib.Path(os.environ.get("CATENA_CACHE") or pathlib.Path.home() / ".cache/catena")
START_S_MAX = 30
# The clients read OS_*: what the caller has set there must not lead them elsewhere.
ENVIRONMENT = {key: value for key, value in os.environ.items() if not key.startswith(("OS_", "PYTHON"))}


class Unavailable(Exception):
    """The judge cannot be had on this machine; the text says why."""


def announced(script, *arguments):
    """The `key=value` lines of one of the scripts in peer/."""
    done = subprocess.run([HERE / "peer" / script, *map(str, arguments)], stdin=subprocess.DEVNULL,
                          capture_output=True, text=True)
    if done.returncode:
        said = (done.stderr or done.stdout).strip().splitlines() or ["it said nothing"]
        raise Unavailable(f"peer/{script} failed: {said[-1]}")
    return dict(line.split("=", 1) for line in done.stdout.splitlines())


class Peer:
    """The real neutron, started for one run."""

    def __init__(self, work):
        self.work = work
        self.url = announced("up", work, 0)["url"]

    def stop(self):
        subprocess.run([HERE / "peer/down", self.work], stdin=subprocess.DEVNULL, stdout=subprocess.DEVNULL)


class Keystone:
    """The real Keystone, started for one run; `settings` are the OS_* words of its administrator."""

    def __init__(self, work):
        self.work = work
        told = announced("keystone-up", work, 0)
        self.url = told["url"]
        self.settings = {key: value for key, value in told.items() if key.startswith("OS_")}

    def stop(self):
        subprocess.run([HERE / "peer/keystone-down", self.work], stdin=subprocess.DEVNULL, stdout=subprocess.DEVNULL)


class Catena:
    """Our controller with an empty store on a free port of the loopback interface."""

    def __init__(self, program, work, *options, auth="none"):
        self.work = work
        shutil.rmtree(work, ignore_errors=True)
        work.mkdir(parents=True)
        with socket.socket() as probe:
            probe.bind(("127.0.0.1", 0))
            port = probe.getsockname()[1]
        self.url = f"http://127.0.0.1:{port}"
        self.log = work / "controller.log"
        command = [program, "controller", "--listen", f"127.0.0.1:{port}", "--data", work / "data", "--auth", auth, *options]
        with open(self.log, "wb") as log:
            self.process = subprocess.Popen([str(word) for word in command], stdin=subprocess.DEVNULL, stdout=log, stderr=log)
        deadline = time.monotonic() + START_S_MAX
        while not answers(self.url):
            if self.process.poll() is not None or time.monotonic() > deadline:
                self.stop()
                raise RuntimeError(f"our controller does not answer on {self.url}:\n{self.log.read_text(errors='replace')[-2000:]}")
            time.sleep(0.05)

    def stop(self):
        self.process.terminate()
        try:
            self.process.wait(10)
        except subprocess.TimeoutExpired:
            self.process.kill()
            self.process.wait()


def answers(url):
    try:
        return call(url, "GET", "/")[0] == 200
    except OSError:
        return False


def call(url, method, path, body=None, headers=None):
    """One request on a connection of its own: status, headers, body as bytes."""
    if body is not None and not isinstance(body, bytes):
        body = json.dumps(body).encode()
    sent = {"Accept": "application/json"}
    if body is not None:
        sent["Content-Type"] = "application/json"
    sent.update(headers or {})
    host, port = url.removeprefix("http://").split(":")
    client = http.client.HTTPConnection(host, int(port), timeout=60)
    try:
        client.request(method, path, body=body, headers=sent)
        answer = client.getresponse()
        return answer.status, {key.lower(): value for key, value in answer.getheaders()}, answer.read()
    finally:
        client.close()
