"""Two projects behind the real Keystone, by the real command line client: keystone_projects.py URL.

The administrator's OS_* words come by environment. Nobody may see, use or change what is the other project's.
"""
import contextlib
import io
import json
import multiprocessing
import os
import secrets
import sys
import urllib.error
import urllib.request

from openstackclient import shell

from verdicts import Verdicts

VERDICTS = Verdicts()
URL = sys.argv[1]


def serve(pipe, settings):
    """Runs one person's commands: the client remembers who it was, so each person has a process."""
    for key in [key for key in os.environ if key.startswith("OS_")]:
        del os.environ[key]
    os.environ.update(settings)
    while True:
        out, err = io.StringIO(), io.StringIO()
        command = pipe.recv()
        with contextlib.redirect_stdout(out), contextlib.redirect_stderr(err):
            try:
                code = shell.main(command.split())
            except SystemExit as end:
                code = end.code
        pipe.send((code or 0, out.getvalue(), err.getvalue()))


class Person:
    """Somebody with a name and a password, which travel by environment only."""

    def __init__(self, settings):
        self.name, self.settings = settings["OS_USERNAME"], settings
        self.pipe, there = multiprocessing.Pipe()
        multiprocessing.Process(target=serve, args=(there, settings), daemon=True).start()

    def run(self, command):
        """Exit code, output and errors of a command."""
        self.pipe.send(command)
        return self.pipe.recv()


ADMINISTRATOR = Person({key: value for key, value in os.environ.items() if key.startswith("OS_")})


def ask(person, command):
    """A command that must work, and its answer."""
    code, out, err = person.run(f"{command} -f json")
    VERDICTS.equal(f"{person.name}: {command}: exit code ({err.strip()})", code, 0)
    return json.loads(out) if code == 0 else {}


def fails(person, command, said=""):
    code, _, err = person.run(command)
    VERDICTS.holds(f"{person.name}: {command} fails and says «{said}»", code != 0 and said in err, f"exit code {code}: {err.strip()}")


def names(person, noun):
    answer = ask(person, f"sfc {noun} list") if noun != "network" else ask(person, "network list")
    return sorted(row["Name"] for row in answer)


def person(name, project, role):
    """A new user with one role in a project."""
    # One of 64 random words begins with a dash, and a client takes that for an option.
    password = "-" + secrets.token_urlsafe(12)
    ask(ADMINISTRATOR, f"user create --domain default --password={password} {name}")
    code, _, err = ADMINISTRATOR.run(f"role add --user {name} --project {project} {role}")
    VERDICTS.equal(f"role add {name} ({err.strip()})", code, 0)
    return Person({**ADMINISTRATOR.settings, "OS_USERNAME": name, "OS_PASSWORD": password, "OS_PROJECT_NAME": project})


def status_of(token):
    """What a plain request with that token is answered; no token when it is empty."""
    request = urllib.request.Request(f"{URL}/v2.0/sfc/port_chains", headers={"X-Auth-Token": token} if token else {})
    try:
        with urllib.request.urlopen(request, timeout=30) as answer:
            return answer.status
    except urllib.error.HTTPError as error:
        return error.code


def main():
    ask(ADMINISTRATOR, "service create --name catena network")
    ask(ADMINISTRATOR, f"endpoint create --region RegionOne network public {URL}")
    projects = {name: ask(ADMINISTRATOR, f"project create --domain default {name}").get("id") for name in ("red", "blue")}
    red, blue, reader = person("rose", "red", "member"), person("bert", "blue", "member"), person("rita", "red", "reader")

    made = {}
    for owner, project in ((red, "red"), (blue, "blue")):
        made[project] = {
            "network": ask(owner, "network create net"),
            "classifier": ask(owner, "sfc flow classifier create --protocol tcp --ethertype IPv4 class"),
            "group": ask(owner, "sfc port pair group create group"),
            "chain": ask(owner, "sfc port chain create --port-pair-group group --flow-classifier class chain"),
        }
        for kind, answer in made[project].items():
            VERDICTS.equal(f"owner of the {kind} of {project}", answer.get("Project", answer.get("project_id")), projects[project])
    for noun, name in (("network", "net"), ("flow classifier", "class"), ("port pair group", "group"), ("port chain", "chain")):
        for owner in (red, blue, reader):
            VERDICTS.equal(f"{owner.name} sees of {noun}", names(owner, noun), [name])
        VERDICTS.equal(f"the administrator sees of {noun}", names(ADMINISTRATOR, noun), [name, name])

    theirs = made["blue"]
    fails(red, f"sfc port chain show {theirs['chain'].get('ID')}", "No SfcPortChain found")
    fails(red, f"sfc port chain delete {theirs['chain'].get('ID')}", "No SfcPortChain found")
    fails(red, f"sfc port chain set --name mine {theirs['chain'].get('ID')}", "No SfcPortChain found")
    fails(red, f"sfc port chain create --port-pair-group {theirs['group'].get('ID')} stolen", "No SfcPortPairGroup found")
    fails(red, f"network delete {theirs['network'].get('id')}")
    fails(red, f"network create --project {projects['blue']} gift")
    ask(reader, "sfc port chain show chain")
    fails(reader, "sfc port pair group create another", "403")
    fails(reader, "sfc port chain delete chain", "403")
    VERDICTS.equal("the chain of blue is still called", names(blue, "port chain"), ["chain"])

    token = ask(red, "token issue").get("id", "")
    VERDICTS.equal("status with a token", status_of(token), 200)
    VERDICTS.equal("status without a token", status_of(""), 401)
    VERDICTS.equal("status with a wrong token", status_of(f"{token[:-4]}AAAA"), 401)

    for owner in (red, blue):
        for command in ("sfc port chain delete chain", "sfc port pair group delete group", "sfc flow classifier delete class", "network delete net"):
            code, _, err = owner.run(command)
            VERDICTS.equal(f"{owner.name}: {command} ({err.strip()})", code, 0)
    VERDICTS.equal("chains at the end", names(ADMINISTRATOR, "port chain"), [])


try:
    main()
except Exception as error:  # the rest builds on it and cannot be judged
    VERDICTS.holds("the script runs to its end", False, f"{type(error).__name__}: {error}")
VERDICTS.tell()
