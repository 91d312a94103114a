"""Files of sentence pairs: what is read, and what is told of bad ones."""

from __future__ import annotations

from pathlib import Path

import pytest
from files import write_lines

from surprise_rerank.errors import DataError
from surprise_rerank.eval.studies.sts.data import YEARS, read_data_sets

SICK_HEADER = "pair_ID\tsentence_A\tsentence_B\trelatedness_score\tentailment_judgment"


def year(folder: Path, name: str = "STS13") -> Path:
    """A year whose sub-tasks have four pairs; the third has no judgement."""
    for task in YEARS[name]:
        pairs = ("a cat\tthe cat", "a dog\tdogs", "x\ty", "up\tthe \x85 sky")
        write_lines(folder / name / f"STS.input.{task}.txt", *pairs)
        write_lines(folder / name / f"STS.gs.{task}.txt", "4.5", "5.000", "", "0")
    return folder / name


def test_pairs_without_a_judgement_are_left_out(tmp_path: Path) -> None:
    folder = year(tmp_path)
    # Of sub-tasks whose sentences are not published there is only this.
    write_lines(folder / "STS.gs.SMT.txt", "1", "2")
    (data_set,) = read_data_sets(tmp_path, ["STS13"])
    assert [task.name for task in data_set.subtasks] == ["STS13 FNWN", "STS13 headlines", "STS13 OnWN"]
    task = data_set.subtasks[0]
    assert task.first == ("a cat", "a dog", "up")
    assert task.second == ("the cat", "dogs", "the \x85 sky")
    assert task.judgements.tolist() == [4.5, 5.0, 0.0]
    assert (len(task), len(data_set), len(data_set.sentences)) == (3, 9, 18)


def test_parts_of_sts_b_are_read_on_request_and_may_have_fields_about_licences(tmp_path: Path) -> None:
    for part in ("test", "train", "dev"):
        rows = (f"main\tMSRvid\t2012\t{i}\t{i}.5\t{part} {i} a\t{part} {i} b\turl\tmore" for i in range(4))
        write_lines(tmp_path / "STSBenchmark" / f"sts-{part}.csv", *rows)
    (dev,) = read_data_sets(tmp_path, ["STS-B-dev"])
    assert (dev.name, dev.other_sentences, dev.subtasks[0].first[1]) == ("STS-B-dev", (), "dev 1 a")
    (dev,) = read_data_sets(tmp_path, ["STS-B-dev"], other_parts=True)
    assert len(dev.other_sentences) == 16
    assert not set(dev.other_sentences) & set(dev.sentences)


def test_sick_is_read_with_the_line_ends_of_either_system(tmp_path: Path) -> None:
    rows = [f"{i}\tfirst {i}\tsecond {i}\t{i}.1\tNEUTRAL" for i in range(1, 5)]
    for name, end in (("SICK_test_annotated.txt", "\r\n"), ("SICK_trial.txt", "\n")):
        write_lines(tmp_path / "SICK" / name, SICK_HEADER, *rows, end=end)
    test, trial = read_data_sets(tmp_path, ["SICK-R", "SICK-R-trial"])
    assert test.subtasks[0].second == trial.subtasks[0].second
    assert test.subtasks[0].judgements.tolist() == [1.1, 2.1, 3.1, 4.1]


def test_str_quotes_two_sentences_as_two_lines(tmp_path: Path) -> None:
    records = ['0,P_0,"It is, now.\nHe said ""now"".",1.0', '1,P_1,"a\nb",0.5', '2,P_2,"c d\ne",0']
    path = tmp_path / "STR" / "sem_text_rel_ranked.csv"
    write_lines(path, "Index,PairID,Text,Score", *records)
    data_sets = read_data_sets(tmp_path, ["STR", "STR-characters"])
    words, characters = (data_set.subtasks[0] for data_set in data_sets)
    assert words.first == ("It is, now.", "a", "c d")
    assert words.second[0] == 'He said "now".'
    assert words.judgements.tolist() == [1.0, 0.5, 0.0]
    assert characters.first == ("I t   i s ,   n o w .", "a", "c   d")


@pytest.mark.parametrize(
    ("name", "file", "lines", "message"),
    [
        ("STS13", "STS13/STS.input.FNWN.txt", ["a\tb", "a", "a\tb", "a\tb"], r"FNWN\.txt, line 2: "),
        ("STS13", "STS13/STS.gs.FNWN.txt", ["1", "2", "5.5", "4"], r"FNWN\.txt, line 3: .* from 0 to 5"),
        ("STS13", "STS13/STS.gs.FNWN.txt", ["1", "2", "3"], r"FNWN\.txt has 3 lines, .* each of 4 pairs"),
        ("STS13", "STS13/STS.gs.FNWN.txt", ["1", "", "", "2"], r"2 judged pairs, expected at least 3"),
        ("STS-B", "STSBenchmark/sts-test.csv", ["a\tb\tc\td\tx\ty"], r"line 1: .*two sentences"),
        ("SICK-R", "SICK/SICK_test_annotated.txt", ["1\ta\tb\t3\tNEUTRAL"], r"first line must be the header"),
        ("SICK-R", "SICK/SICK_test_annotated.txt", [], r"first line must be the header"),
        ("SICK-R", "SICK/SICK_test_annotated.txt", [SICK_HEADER, "1\ta\tb\t0.5\tN"], r"2: .* from 1 to 5"),
        ("STR", "STR/sem_text_rel_ranked.csv", ["Index,Text", '0,"a\nb"'], r"line 4: 'Score', expected"),
        ("STR", "STR/sem_text_rel_ranked.csv", ["Text,Score", '"a\nb\nc",1'], r"line 5: too many values"),
        ("STR", "STR/sem_text_rel_ranked.csv", ["Text,Score", '"a\nb",2'], r"line 4: .* from 0 to 1"),
        ("STR", "STR/sem_text_rel_ranked.csv", ["Text,Score", '"a\nb"'], r"line 4: .*expected the columns"),
        ("STR", "STR/sem_text_rel_ranked.csv", ["Text,Score", '"a\nb,1'], r"expected the columns"),
        ("STR", "STR/sem_text_rel_ranked.csv", [], r"0 judged pairs"),
        ("STS17", "STS17/none.txt", [], r"sets\[0\]='STS17' is not known"),
    ],
)
def test_what_is_wrong_with_a_file_is_told(
    tmp_path: Path, name: str, file: str, lines: list[str], message: str
) -> None:
    year(tmp_path)
    write_lines(tmp_path / file, *lines)
    with pytest.raises(DataError, match=message):
        read_data_sets(tmp_path, [name])


@pytest.mark.shared
def test_the_published_files_have_as_many_pairs_as_they_are_said_to(shared_data: Path) -> None:
    sizes = {data_set.name: len(data_set) for data_set in read_data_sets(shared_data)}
    assert sizes == {
        "STS12": 3108,
        "STS13": 1500,
        "STS14": 3750,
        "STS15": 3000,
        "STS16": 1186,
        "STS-B": 1379,
        "SICK-R": 4927,
        "STR": 5500,
    }
