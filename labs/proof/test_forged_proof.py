"""The proof of forged frames must be able to fail: made-up captures with one thing wrong each."""

import os
import struct
import tempfile
import unittest

import forged_proof
from captures import Unreadable

MARKER = b"forged by a lab!"
FORGED, ORDINARY = b"\x02" * 60 + MARKER, b"\x02" * 76


def pcap(frames):
    head = struct.pack("<IHHiIII", 0xA1B23C4D, 2, 4, 0, 0, 65535, 1)
    return head + b"".join(struct.pack("<IIII", 1, 0, len(one), len(one)) + one for one in frames)


class Proof(unittest.TestCase):
    def judged(self, captured, entrances=(("s1", "strange", 2),), lost=0):
        with tempfile.TemporaryDirectory() as folder:
            captures = []
            for (node, interface), frames in captured.items():
                name = f"{node}.{interface}.pcap"
                with open(os.path.join(folder, name), "wb") as file:
                    file.write(frames if isinstance(frames, bytes) else pcap(frames))
                captures.append({"node": node, "interface": interface, "pcap": name, "lost": lost})
            told = {"marker": MARKER.hex(), "captures": captures,
                    "entrances": [dict(zip(("node", "interface", "frames"), one)) for one in entrances]}
            return forged_proof.judge(told, folder)

    def whole(self, **others):
        return {("s1", "strange"): [FORGED, ORDINARY, FORGED], ("h1", "l-s1"): [ORDINARY], **others}

    def test_frames_that_are_seen_where_they_were_put_and_nowhere_else_are_proved(self):
        verdict = self.judged(self.whole())
        self.assertTrue(verdict["ok"], verdict)
        self.assertEqual((verdict["captures"], verdict["frames"], verdict["elsewhere"]), (2, 4, 0))

    def test_one_that_travels_is_told_with_its_place(self):
        # As it was sent, and inside something else.
        for frame in (FORGED, b"\x08\x00" + FORGED + b"behind"):
            verdict = self.judged({**self.whole(), ("h2", "data0"): [frame]})
            self.assertFalse(verdict["ok"])
            self.assertIn("h2:data0: 1 forged frames came in", verdict["violations"][0])

    def test_frames_that_nodes_between_pass_on_may_come_to_the_one_that_checks_them_and_no_further(self):
        way = (("s1", "l-h1", 1), ("s2", "l-s1", 1))
        passed = {("s1", "l-h1"): [FORGED], ("s2", "l-s1"): [FORGED, ORDINARY], ("h2", "l-s2"): [ORDINARY]}
        self.assertTrue(self.judged(passed, way)["ok"])
        out = self.judged({**passed, ("v1", "net"): [FORGED]}, way)
        self.assertEqual((out["ok"], out["elsewhere"]), (False, 1))
        for place in way:
            for frames in ([], [FORGED, FORGED]):
                self.assertFalse(self.judged({**passed, place[:2]: frames}, way)["ok"])

    def test_captures_that_see_nothing_prove_nothing(self):
        without = {("s1", "strange"): [ORDINARY], ("h1", "l-s1"): []}
        self.assertIn("0 of 2", self.judged(without)["violations"][0])
        self.assertIn("was not captured", self.judged({("h1", "l-s1"): []})["violations"][0])
        self.assertFalse(self.judged({("h1", "l-s1"): []}, entrances=())["ok"])
        self.assertFalse(self.judged(self.whole(), lost=1)["ok"])

    def test_a_capture_that_is_cut_is_refused(self):
        for cut in (1, 80):
            with self.assertRaises(Unreadable):
                self.judged({("s1", "strange"): pcap([FORGED])[:-cut]})


if __name__ == "__main__":
    unittest.main()
