"""What goes to stdout."""

import json

from driver import output


def test_a_number_that_json_does_not_have_is_null():
    assert json.loads(output.document({"loss": float("nan"), "steps": [1, float("inf")], "text": "nan"})) == {
        "loss": None,
        "steps": [1, None],
        "text": "nan",
    }
