"""The judge of differences, judged: it must see what differs, and forgive nothing that its list does not hold."""
import tomllib
import unittest

import differential
import table
from differential import Answer, Values, judged, outcomes
from table.steps import Step

GET = Step("get", "GET", "/v2.0/sfc/port_pair_groups")


def answer(status, content, **headers):
    return Answer(status, {"content-type": "application/json", **headers}, content)


def error(status, kind):
    return answer(status, {"NeutronError": {"type": kind, "message": "text", "detail": ""}})


class Outcomes(unittest.TestCase):
    def compare(self, ours, theirs, rows=(), step=GET):
        return outcomes(step, ours, theirs, Values(rows))

    def test_errors_are_equal_in_status_and_type_whatever_their_text(self):
        theirs = answer(400, {"NeutronError": {"type": "A", "message": "other", "detail": ""}})
        self.assertEqual(self.compare(error(400, "A"), theirs), ("400 A", "400 A"))
        self.assertEqual(self.compare(error(400, "B"), theirs), ("400 B", "400 A"))
        self.assertEqual(self.compare(error(409, "A"), theirs), ("409 A", "400 A"))

    def test_a_value_that_differs_is_named_with_its_place(self):
        ours, theirs = (answer(200, {"port_pair": {"p": {"weight": weight}}}) for weight in (1, 2))
        self.assertEqual(self.compare(ours, theirs), ("200 port_pair.p.weight=1", "200 port_pair.p.weight=2"))

    def test_a_truth_value_is_not_the_number_one(self):
        ours, theirs = (answer(200, {"port_pair": {"tap": value}}) for value in (True, 1))
        self.assertNotEqual(*self.compare(ours, theirs))

    def test_two_clocks_may_say_the_same_by_chance_and_nothing_else_may(self):
        made = answer(200, {"network": {"created_at": "2026-01-01T00:00:00Z"}})
        for row, unmet in [({"is_clock": True}, []), ({}, [("network", "created_at")])]:
            values = Values([{"resource": "network", "attribute": "created_at", "kind": "value", **row}])
            outcomes(Step("get", "GET", "/v2.0/networks/1"), made, made, values)
            self.assertEqual(values.unmet(), unmet)

    def test_an_attribute_of_one_side_only_is_a_difference_unless_it_is_listed(self):
        ours, theirs = answer(200, {"port_chain": {"status": "active"}}), answer(200, {"port_chain": {}})
        self.assertEqual(self.compare(ours, theirs), ("200 has port_chain.status", "200 no port_chain.status"))
        listed = [{"resource": "port_chain", "attribute": "status", "kind": "ours only"}]
        self.assertEqual(self.compare(ours, theirs, listed), ("200", "200"))
        self.assertNotEqual(*self.compare(theirs, ours, listed))

    def test_lists_of_objects_have_no_order_and_lists_of_values_do(self):
        first, second = {"id": "$a", "x": 1}, {"id": "$b", "x": 2}
        lists = [answer(200, {"port_chains": items}) for items in ([first, second], [second, first])]
        self.assertEqual(*self.compare(*lists))
        lists = [answer(200, {"port_chain": {"port_pair_groups": items}}) for items in (["$a", "$b"], ["$b", "$a"])]
        self.assertNotEqual(*self.compare(*lists))
        lists = [answer(200, {"port_chain": {"flow_classifiers": items}}) for items in (["$a", "$b"], ["$b", "$a"])]
        self.assertEqual(*self.compare(*lists))
        graphs = [answer(200, {"service_graph": {"port_chains": {"$k": items}}}) for items in (["$a", "$b"], ["$b", "$a"])]
        self.assertEqual(*self.compare(*graphs))
        lists = [answer(200, {"port_chains": items}) for items in ([first], [first, second])]
        self.assertEqual(self.compare(*lists), ("200 port_chains=$a", "200 port_chains=$a,$b"))


class Lists(unittest.TestCase):
    def test_a_difference_passes_only_as_it_is_listed(self):
        seen = {"a": ("400 A", "400 A"), "b": ("400 A", "201")}
        self.assertEqual(len(judged(seen, {}, complete=True)), 1)
        self.assertEqual(judged(seen, {"b": ("400 A", "201", "reason")}, complete=True), [])
        self.assertEqual(len(judged(seen, {"b": ("400 B", "201", "reason")}, complete=True)), 1)

    def test_an_entry_that_no_longer_differs_or_is_never_asked_fails(self):
        seen = {"a": ("201", "201")}
        self.assertEqual(len(judged(seen, {"a": ("400 A", "201", "reason")}, complete=True)), 1)
        self.assertEqual(len(judged(seen, {"z": ("400 A", "201", "reason")}, complete=True)), 1)

    def test_an_update_keeps_reasons_and_puts_what_is_new_under_none(self):
        text = '# head\n\n[[difference]]\nreason = "R"\n[difference.requests]\n"a" = ["400 A", "201"]\n"b" = ["400 A", "201"]\n'
        seen = {"a": ("201", "201"), "b": ("409 B", "201"), "c": ("200 x=\"1\"", "200")}
        made = differential.refreshed(text, seen)
        self.assertTrue(made.startswith("# head\n"))
        found = differential.expected_differences(tomllib.loads(made))
        self.assertEqual(found, {"b": ("409 B", "201", "R"), "c": ("200 x=\"1\"", "200", differential.UNDECIDED)})
        self.assertEqual(judged(seen, found, complete=True), [])

    def test_the_committed_list_can_be_read_and_every_line_has_a_reason(self):
        document = differential.listed()
        requests = {f"{scenario.name}/{step.name}" for scenario in table.scenarios() for step in scenario.steps}
        for request, (ours, theirs, reason) in differential.expected_differences(document).items():
            self.assertIn(request, requests)
            self.assertNotEqual(ours, theirs, request)
            self.assertTrue(reason, request)
        for row in document["attribute"]:
            self.assertTrue(row["reason"], row)

    def test_the_table_has_at_least_600_requests_and_each_its_own_name(self):
        names = [f"{scenario.name}/{step.name}" for scenario in table.scenarios() for step in scenario.steps]
        self.assertGreaterEqual(len(names), 600)
        self.assertEqual(len(names), len(set(names)))


if __name__ == "__main__":
    unittest.main()
