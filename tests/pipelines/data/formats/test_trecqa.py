from __future__ import annotations

from collections import Counter

import pytest

from answermill.pipelines.data.formats import read_dataset
from answermill.pipelines.errors import BAD_DATA, JobError

PAIRS = """<QApairs id='32.1'>
<question>
Who\tis\tA&E\t?
WP\tVB\tNN\t.
2\t0\t2\t2
</question>
<negative>
1\t<\t2\tsays\t<question>
CD\tX\tCD\tVB\tX
</negative>
<positive>
<positive>
NN
</positive>
</QApairs>
<QApairs id='32.2'>
<question>
What\t?
</question>
</QApairs>
<QApairs id="33">
<question>
Where\t?
</question>
<positive>
Here\t.
</positive>
</QApairs>
"""


def put(path, text):
    path.write_bytes(text.encode())
    return path


def test_the_first_line_of_a_block_is_the_text_whatever_it_looks_like(tmp_path):
    counted: Counter[str] = Counter()
    rows = list(read_dataset(put(tmp_path / "TEST.xml", PAIRS), counted=counted))
    assert [(c.question_id, c.question, c.position, c.text, c.label) for c in rows] == [
        ("32.1", "Who is A&E ?", 0, "1 < 2 says <question>", 0),
        ("32.1", "Who is A&E ?", 1, "<positive>", 1),
        ("33", "Where ?", 0, "Here .", 1),
    ]
    assert counted == {"questions without candidates": 1}


@pytest.mark.parametrize(
    ("old", "new", "says"),
    [
        ("</QApairs>\n<QApairs id='32.2'>", "<QApairs id='32.2'>", ":15: <QApairs> inside question '32.1'"),
        ('id="33"', 'id="32.1"', ":26: question '32.1' comes again; it began at 8"),
        ("</negative>\n", "", ":7: <negative> is not closed"),
        (
            "<question>\nWhat\t?\n</question>",
            "<positive>\nYes\n</positive>",
            ":17: <positive> where question '32.2' has none",
        ),
        ("Here\t.\n", "", ":25: <positive> without tokens"),
        ("<question>\nWhere", "</question>\nWhere", ":22: unexpected outside a block: '</question>'"),
        ("Here\t.\n</positive>\n</QApairs>\n", "Here\t.\n</positive>\n", ":25: ends inside question '33'"),
        (PAIRS, "<top>\n<num> Number: 1\n", ":1: unexpected outside a block: '<top>'"),
        (PAIRS, "", "no candidate in it"),
    ],
)
def test_what_is_wrong_is_said_with_its_line(tmp_path, old, new, says):
    assert old in PAIRS
    path = put(tmp_path / "t.xml", PAIRS.replace(old, new))
    with pytest.raises(JobError, match=says) as raised:
        list(read_dataset(path, "trecqa"))
    assert raised.value.code == BAD_DATA
