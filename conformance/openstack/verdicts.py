"""What the scripts that run inside the clients' environment say of their findings: one JSON line at the end."""
import json


class Verdicts:
    def __init__(self):
        self.count = 0
        self.wrong = []

    def equal(self, what, got, expected):
        self.count += 1
        if got != expected:
            self.wrong.append(f"{what}: got {got!r}, expected {expected!r}")

    def holds(self, what, is_so, detail=""):
        self.count += 1
        if not is_so:
            self.wrong.append(f"{what}{': ' if detail else ''}{detail}")

    def tell(self):
        print(json.dumps({"count": self.count, "wrong": self.wrong}))
