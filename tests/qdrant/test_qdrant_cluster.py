"""Three nodes of a real cluster: one is killed, paused or away, and nothing is lost or answered otherwise.

`benchmarks/cluster_faults.py` has all combinations; these are some of each kind, with shorter pauses.
"""

import sys
from pathlib import Path

import pytest

# Behind what is installed: the scripts of benchmarks/ belong to no package.
sys.path.append(str(Path(__file__).parents[2] / "benchmarks"))

from cluster_faults import Outcome, Scenario, run
from cluster_nodes import ClusterNodes

pytestmark = [pytest.mark.cluster, pytest.mark.slow, pytest.mark.timeout(420)]
DOCUMENTS = 2000


@pytest.fixture
def nodes() -> ClusterNodes:
    try:
        found = ClusterNodes.of_environment()
    except LookupError as error:
        pytest.skip(str(error))
    if len(found.urls) < 3:
        pytest.skip(f"{len(found.urls)} addresses in QDRANT_URL, three are needed")
    return found


def assert_kept(outcome: Outcome) -> None:
    assert outcome.lost == 0
    assert outcome.differ == 0
    assert outcome.asked > 20


@pytest.mark.parametrize(
    ("node", "work", "fault"),
    [
        ("client's", "search", "killed"),
        ("client's", "index", "killed"),
        ("another", "index", "paused"),
        ("client's", "rebuild", "away"),
        ("another", "rebuild", "killed"),
        ("client's", "ensemble", "paused"),
        ("another", "ensemble", "away"),
    ],
)
def test_with_two_copies_no_fault_of_a_node_fails_a_question_or_a_change(nodes, node, work, fault):
    outcome = run(Scenario(2, node, work, fault, DOCUMENTS, pause=8.0), nodes)
    assert outcome.errors == []
    assert outcome.failed == 0
    assert_kept(outcome)


@pytest.mark.parametrize(("node", "work"), [("client's", "search"), ("another", "index")])
def test_with_one_copy_it_works_again_when_the_node_is_back(nodes, node, work):
    outcome = run(Scenario(1, node, work, "killed", DOCUMENTS), nodes)
    assert outcome.again is not None
    assert outcome.again < 60
    assert_kept(outcome)
