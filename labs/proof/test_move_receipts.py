"""What is told of moves is what receipts and the proof say."""

import contextlib
import copy
import io
import json
import os
import tempfile
import unittest

import move_receipts

ROUND = ["srv6", "mpls", "source-route/native", "nsh", "srv6"]


def report():
    def change(number, encapsulation):
        drained = {"path": number + 1, "proof": "counted", "in_flight": 0, "lost_in_function": 0,
                   "lost_between_nodes": 0, "dropped": {}}
        return {"encapsulation": encapsulation, "asked": 0, "answered": 30_500_000, "over": 41_000_000,
                "receipt": {"name": "moving", "paths": [number + 2], "drained": [drained], "took_ms": 25}}
    each = [{"old": 100 + number, "new": 101 + number} for number in range(len(ROUND))]
    run = {"update": {"chain": "moving", "first_encapsulation": "nsh",
                      "changes": [change(number, name) for number, name in enumerate(ROUND)]},
           "update_proof": {"changes": len(ROUND), "sent": 600, "lost": 0, "duplicated": 0, "mixed": 0, "each": each}}
    return {"evidence": {"runs": [run]}}


def told(content):
    """(exit status, what was printed, what was complained)"""
    out, err = io.StringIO(), io.StringIO()
    with tempfile.TemporaryDirectory() as folder:
        path = os.path.join(folder, "report.json")
        with open(path, "w", encoding="utf-8") as file:
            file.write(content if isinstance(content, str) else json.dumps(content))
        with contextlib.redirect_stdout(out), contextlib.redirect_stderr(err):
            status = move_receipts.main([path])
    return status, out.getvalue(), err.getvalue()


class Told(unittest.TestCase):
    def test_the_first_round_goes_through_all_families_and_back(self):
        status, out, err = told(report())
        self.assertEqual((status, err), (0, ""))
        lines = out.splitlines()
        self.assertEqual(lines[0], "'moving' goes round NSH, SRv6, MPLS, source routes: the first 4 of 5 moves")
        self.assertEqual([line.split()[:2] for line in lines[2:6]],
                         [["nsh", "srv6"], ["srv6", "mpls"], ["mpls", "source-route/native"],
                          ["source-route/native", "nsh"]])
        self.assertEqual(" ".join(lines[3].split()),
                         "srv6 mpls 30.5 ms 41.0 ms 101 102 2: counted, 0 in flight, 0 lost")
        self.assertIn('  drained: [{"path": 1, "proof": "counted"', out)
        self.assertEqual(lines[-1], "by captures, over all 5 moves: 600 packets sent, 0 lost, 0 duplicated, 0 mixed")

    def test_what_was_lost_is_told_and_is_no_success(self):
        for name in ("lost", "duplicated", "mixed"):
            wrong = report()
            wrong["evidence"]["runs"].append(copy.deepcopy(wrong["evidence"]["runs"][0]))
            wrong["evidence"]["runs"][1]["update_proof"][name] = 3
            status, out, _ = told(wrong)
            self.assertEqual(status, 1)
            self.assertIn("over all 10 moves: 1200 packets sent, ", out)
            self.assertIn(f"3 {name}", out)
        wrong = report()
        wrong["evidence"]["runs"][0]["update"]["changes"][0]["receipt"]["drained"][0].update(
            {"proof": "deadline", "in_flight": 2, "lost_in_function": 1, "dropped": {"no_route": 4}})
        self.assertIn("1: deadline, 2 in flight, 5 lost", told(wrong)[1])

    def test_what_cannot_be_told_is_said_in_a_line(self):
        still = report()
        still["evidence"]["runs"][0]["update"] = None
        untold = report()
        del untold["evidence"]["runs"][0]["update_proof"]["each"]
        for content, text in (("{}", "has no 'evidence'"), ("no JSON", "cannot be told"), ("[]", "cannot be told"),
                              (still, "no chain of this lab has moved"), (untold, "has no 'each'")):
            status, out, err = told(content)
            self.assertEqual((status, out, err.count("\n")), (2, "", 1), err)
            self.assertIn(text, err)
        err = io.StringIO()
        with contextlib.redirect_stderr(err):
            self.assertEqual((move_receipts.main([]), move_receipts.main(["/nowhere"])), (2, 2))
        self.assertIn("'/nowhere'", err.getvalue())


if __name__ == "__main__":
    unittest.main()
