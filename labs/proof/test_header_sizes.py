"""Sizes by the documents of formats, and those of captures, which must be able to differ."""

import contextlib
import io
import tempfile
import unittest
from decimal import Decimal

import header_sizes
from test_telemetry_proof import good, set_header, with_one, write_run

NAMES = list(header_sizes.FORMATS)


def printed(*runs):
    """(exit status, what was printed, what was complained)"""
    out, err = io.StringIO(), io.StringIO()
    with contextlib.ExitStack() as stack:
        folders = [stack.enter_context(tempfile.TemporaryDirectory()) for _ in runs]
        for folder, events in zip(folders, runs):
            write_run(folder, events)
        with contextlib.redirect_stdout(out), contextlib.redirect_stderr(err):
            status = header_sizes.main(folders)
    return status, out.getvalue(), err.getvalue()


class Sizes(unittest.TestCase):
    def test_headers_save_what_the_paper_says(self):
        savings = {hops: header_sizes.saving(hops) for hops in (2, 4, 6, 10, 16)}
        self.assertEqual(savings, {hops: Decimal(value) for hops, value in
                                   ((2, "31.3"), (4, "37.5"), (6, "40.6"), (10, "43.8"), (16, "45.8"))})

    def test_bytes_are_those_that_formats_have(self):
        for hops, sizes in ((2, (88, 128, 128, 88, 80)), (6, (152, 256, 256, 152, 80)), (7, (168, 288, 288, 192, 104)),
                            (10, (216, 384, 384, 240, 104)), (14, (280, 512, 512, 320, 120)),
                            (15, (296, 544, 544, 336, None)), (16, (312, 576, None, 352, None))):
            found = tuple(header_sizes.FORMATS[name](hops) for name in NAMES)
            self.assertEqual(found, sizes, hops)

    def test_a_hop_writes_as_much_in_each_format_that_tells_of_nodes(self):
        self.assertEqual({header_sizes.RECORD, header_sizes.INT_MD_HOP, header_sizes.IOAM_HOP}, {header_sizes.SEGMENT})

    def test_what_is_in_front_of_packets_is_measured(self):
        for options in ({}, {"v6": True}, {"ethernet": True}):
            status, out, err = printed(good(**options))
            self.assertEqual((status, err), (0, ""))
            self.assertIn("    4      120*           192 ", out)
            self.assertIn("    5      136            224 ", out)
            self.assertIn("* measured: 120 bytes in front of each of 36 packets between nodes, of 4 hops", out)

    def test_captures_of_several_ways_are_measured_together(self):
        status, out, _ = printed(good(), good(way=("h2", "h3", "h4")))
        self.assertEqual(status, 0)
        self.assertIn("* measured: 104 bytes in front of each of 36 packets between nodes, of 3 hops", out)
        self.assertIn("* measured: 120 bytes in front of each of 36 packets between nodes, of 4 hops", out)

    def test_headers_that_are_longer_than_their_format_are_told(self):
        def longer(hop, state):
            if hop == 1:
                state["inner"] += b"more"
        status, out, err = printed(with_one(longer))
        self.assertEqual((status, err), (1, "1 headers of 4 hops have 124 bytes, and by their format 120\n"))
        self.assertIn("* measured: 120, 124 bytes in front of each of 36 packets", out)

    def test_what_cannot_be_judged_is_said_in_a_line(self):
        cases = [([[]], "no header that takes records along"),
                 ([with_one(set_header(1, tlv=251))], "ends with a TLV of type 251")]
        for runs, text in cases:
            status, out, err = printed(*runs)
            self.assertEqual((status, out, err.count("\n")), (2, "", 1))
            self.assertIn(text, err)
        err = io.StringIO()
        with contextlib.redirect_stderr(err):
            self.assertEqual((header_sizes.main([]), header_sizes.main(["/nowhere"])), (2, 2))
        self.assertIn("Usage", err.getvalue())
        self.assertIn("'/nowhere/telemetry.json'", err.getvalue())


if __name__ == "__main__":
    unittest.main()
