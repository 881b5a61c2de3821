"""What is shown of a packet is what its captures have, and what they have not is said."""

import contextlib
import io
import os
import tempfile
import unittest

import journey
import telemetry_proof
from test_telemetry_proof import (Journey, MACS, PROXY, datagram, good, set_header, set_record, with_one, write_run)


def shown(events, *arguments, is_proved=True):
    """(exit status, what was printed, what was complained) of a run with these events."""
    with tempfile.TemporaryDirectory() as folder:
        path = write_run(folder, events)
        out, err = io.StringIO(), io.StringIO()
        if is_proved:
            with contextlib.redirect_stderr(io.StringIO()):
                telemetry_proof.main([path, os.path.join(folder, "telemetry_proof.json")])
        with contextlib.redirect_stdout(out), contextlib.redirect_stderr(err):
            status = journey.main([folder, *arguments])
        return status, out.getvalue(), err.getvalue()


class Shown(unittest.TestCase):
    def rows(self, events, start, *arguments):
        status, out, err = shown(events, *arguments)
        self.assertEqual((status, err), (0, ""))
        return [line.strip() for line in out.splitlines() if line.strip().startswith(start)]

    def test_each_wire_has_a_segment_less_and_a_record_more(self):
        status, out, err = shown(good())
        self.assertEqual((status, err), (0, ""))
        wires = out.split(" ─► ")[1:]
        self.assertEqual([wire.split(":")[0] for wire in wires], ["h2", "h3", "h4"])
        for place, wire in enumerate(wires):
            self.assertIn(f"Segments Left {2 - place}\n", wire)
            entries = [row.split("  ")[-1] for row in wire.splitlines() if row.strip().startswith("[")]
            kinds = ["segment"] * (2 - place) + ["active segment"] + ["record of device"] * (place + 1)
            self.assertEqual([entry.startswith(kind) for entry, kind in zip(entries, kinds)], [True] * 4, entries)
            self.assertIn("120 of them IPv6 and its routing header", wire)
        self.assertIn("12 of 12 proved, with 36 records in 36 headers; frames at functions and endpoints with more in "
                      "them than was sent, or something else: 0", out)

    def test_a_record_is_told_field_by_field_in_the_time_of_the_packet(self):
        found = self.rows(good(), "[3]")[0]
        self.assertTrue(found.endswith("record of device 11 (h1): arrival 25000.0 µs, latency 100000.0 µs, counter 5, "
                                       "no queue"), found)
        self.assertIn("1ea0 000b", found)
        late = self.rows(with_one(set_record(0, {"saturated": 1, "latency": 0xFFFFFF})), "[3]", "1", "1")[0]
        self.assertIn("latency more than 2147483.5 µs, counter 2", late)
        strange = self.rows(with_one(set_record(0, {"device": 77, "valid": 0x11, "arrival": 0, "latency": 0})), "[3]",
                            "1", "1")[0]
        self.assertTrue(strange.endswith("record of device 77 (of no node): counter 2, no arrival, no latency, no "
                                         "queue"), strange)

    def test_a_segment_that_nobody_wrote_over_is_told(self):
        def wrong(_, state):
            state["records"] = []
        self.assertIn("segment of a hop that wrote nothing: ", self.rows(with_one(wrong), "[3]", "1", "1")[0])

    def test_bytes_at_functions_and_ends_are_those_of_the_frame(self):
        for options, kind in (({}, "IPv4"), ({"v6": True}, "IPv6"), ({"ethernet": True}, "IPv4")):
            status, out, _ = shown(good(**options))
            self.assertEqual(status, 0)
            frame = datagram((0, 4), 64, options.get("v6", False), (PROXY, MACS["S"]))
            self.assertIn(f"S at h1 sends {len(frame)} bytes, nothing of the chain in it", out)
            self.assertEqual(out.count("nothing of the chain in it"), 12)
            self.assertIn(f"      {kind}      {frame[14:-60].hex(' ', -2)}  hop limit 64", out)
            self.assertEqual(out.count("as they were sent"), 10)
            self.assertEqual(out.count("of the frame inside"), 3 if options.get("ethernet") else 0)

    def test_what_is_left_at_a_function_and_what_is_altered_is_told(self):
        events = []
        for (name, network), time, frame in Journey((0, 0)).tell():
            if name == "v2":
                frame += b"!!"
            if name == "D":
                frame = frame[:-1] + b"!"
            events.append(((name, network), time, frame))
        _, out, _ = shown(events)
        self.assertIn("v2 at h2 gets 96 bytes, in it 2 bytes behind its packet", out)
        self.assertIn("and 52 bytes, not as they were sent", out)

    def test_the_packet_is_one_that_is_mirrored_or_the_one_that_is_named(self):
        self.assertIn("datagram 4 of flow 0: from S (h1) by v1 (h1), v2 (h2), v3 (h2), v4 (h3), v5 (h4) to D (h4)",
                      shown(good())[1])
        self.assertIn("datagram 3 of flow 1:", shown(good(), "1", "3")[1])
        for arguments, text in ((("1", "99"), "datagram 99 of flow 1 was not seen"), (("1",), "Usage"),
                                (("a", "b"), "Usage")):
            status, out, err = shown(good(), *arguments)
            self.assertEqual((status, out), (2, ""))
            self.assertIn(text, err)

    def test_what_cannot_be_shown_is_said_in_a_line(self):
        cases = [(good(mirrored=False), {}, "no packet that is marked to be told of was seen"),
                 ([event for event in good() if event[0][0] != "D"], {}, "do not have all of the way from S to D"),
                 (with_one(set_header(1, tlv=251)), {}, "ends with a TLV of type 251"),
                 (good(), {"is_proved": False}, "telemetry_proof.json")]
        for events, options, text in cases:
            status, out, err = shown(events, **options)
            self.assertEqual((status, out, err.count("\n")), (2, "", 1))
            self.assertIn(text, err)

    def test_a_description_that_says_too_little_is_named(self):
        with tempfile.TemporaryDirectory() as folder:
            for name in ("telemetry.json", "telemetry_proof.json"):
                with open(os.path.join(folder, name), "w", encoding="utf-8") as file:
                    file.write("{}")
            err = io.StringIO()
            with contextlib.redirect_stderr(err):
                self.assertEqual(journey.main([folder]), 2)
            self.assertIn("has no 'streams'", err.getvalue())


if __name__ == "__main__":
    unittest.main()
