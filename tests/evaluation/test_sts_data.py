"""Files of sentence pairs: what is read, and what is told of bad ones."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import pytest

from surprise_rerank.errors import DataError, DatasetError
from surprise_rerank.eval.studies.sts.data import NAMES, PUBLISHED, YEARS, check_names, read_data_sets

SICK_HEADER = "pair_ID\tsentence_A\tsentence_B\trelatedness_score\tentailment_judgment"


def write(path: Path, *lines: str, end: str = "\n") -> Path:
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_bytes("".join(line + end for line in lines).encode())
    return path


def year(folder: Path, name: str = "STS13") -> Path:
    """A year whose sub-tasks have four pairs; the third has no judgement."""
    for task in YEARS[name]:
        write(
            folder / name / f"STS.input.{task}.txt",
            "a cat\tthe cat",
            "a dog\tdogs",
            "x\ty",
            "up\tthe \x85 sky",
        )
        write(folder / name / f"STS.gs.{task}.txt", "4.5", "5.000", "", "0")
    return folder / name


def sts_b(folder: Path, part: str, *lines: str) -> Path:
    rows = lines or [f"main\tMSRvid\t2012\t{i}\t{i}.5\t{part} {i} a\t{part} {i} b" for i in range(4)]
    return write(folder / "STSBenchmark" / f"sts-{part}.csv", *rows)


def test_pairs_without_a_judgement_are_left_out(tmp_path: Path) -> None:
    folder = year(tmp_path)
    # Of sub-tasks whose sentences are not published there is only this.
    write(folder / "STS.gs.SMT.txt", "1", "2")
    (found,) = read_data_sets(tmp_path, ["STS13"])
    assert [task.name for task in found.subtasks] == ["STS13 FNWN", "STS13 headlines", "STS13 OnWN"]
    task = found.subtasks[0]
    assert task.first == ("a cat", "a dog", "up")
    assert task.second == ("the cat", "dogs", "the \x85 sky")
    assert task.judgements.tolist() == [4.5, 5.0, 0.0]
    assert (len(task), len(found), len(found.sentences)) == (3, 9, 18)


def test_the_folder_is_found_where_it_may_lie(tmp_path: Path) -> None:
    year(tmp_path / "sts")
    for data in (tmp_path, tmp_path / "sts", tmp_path / "sts" / "STS13"):
        assert len(read_data_sets(data, ["STS13"])[0]) == 9


def test_sts_b_may_have_fields_about_licences(tmp_path: Path) -> None:
    lines = [f"news\theadlines\t2015\t{i}\t{i}\ta {i}\tb {i}\thttp://licence\tmore" for i in range(3)]
    sts_b(tmp_path, "test", *lines)
    (found,) = read_data_sets(tmp_path, ["STS-B"])
    (task,) = found.subtasks
    assert (task.name, task.first[1], task.second[1]) == ("STS-B", "a 1", "b 1")


def test_the_other_parts_of_a_data_set_are_read_on_request_only(tmp_path: Path) -> None:
    sts_b(tmp_path, "dev")
    (dev,) = read_data_sets(tmp_path, ["STS-B-dev"])
    assert (dev.name, dev.other_sentences) == ("STS-B-dev", ())
    with pytest.raises(DatasetError, match=r"sts-test\.csv"):
        read_data_sets(tmp_path, ["STS-B-dev"], other_parts=True)
    sts_b(tmp_path, "test")
    sts_b(tmp_path, "train")
    (dev,) = read_data_sets(tmp_path, ["STS-B-dev"], other_parts=True)
    assert len(dev.other_sentences) == 16
    assert not set(dev.other_sentences) & set(dev.sentences)


def test_sick_is_read_with_the_line_ends_of_either_system(tmp_path: Path) -> None:
    rows = [f"{i}\tfirst {i}\tsecond {i}\t{i}.1\tNEUTRAL" for i in range(1, 5)]
    for name, end in (("SICK_test_annotated.txt", "\r\n"), ("SICK_trial.txt", "\n")):
        write(tmp_path / "SICK" / name, SICK_HEADER, *rows, end=end)
    test, trial = read_data_sets(tmp_path, ["SICK-R", "SICK-R-trial"])
    assert test.subtasks[0].second == trial.subtasks[0].second
    assert test.subtasks[0].judgements.tolist() == [1.1, 2.1, 3.1, 4.1]


def str_file(folder: Path, *records: str, header: str = "Index,PairID,Text,Score") -> Path:
    return write(folder / "STR" / "sem_text_rel_ranked.csv", header, *records)


def test_str_quotes_two_sentences_as_two_lines(tmp_path: Path) -> None:
    records = ['0,P_0,"It is, now.\nHe said ""now"".",1.0', '1,P_1,"a\nb",0.5', '2,P_2,"c d\ne",0']
    str_file(tmp_path, *records)
    words, characters = read_data_sets(tmp_path, ["STR", "STR-characters"])
    (task,) = words.subtasks
    assert task.first == ("It is, now.", "a", "c d")
    assert task.second[0] == 'He said "now".'
    assert task.judgements.tolist() == [1.0, 0.5, 0.0]
    assert characters.subtasks[0].name == "STR-characters"
    assert characters.subtasks[0].first == ("I t   i s ,   n o w .", "a", "c   d")


@pytest.mark.parametrize(
    ("pairs", "gold", "message"),
    [
        (["a\tb", "a", "a\tb"], ["1", "2", "3"], r"input\.FNWN\.txt, line 2: 1 columns, expected 2"),
        (["a\tb", "a\tb", "a\tb\tc"], ["1", "2", "3"], r"input\.FNWN\.txt, line 3: 3 columns"),
        (["a\tb"] * 3, ["1", "good", "3"], r"gs\.FNWN\.txt, line 2: the judgement is 'good'"),
        (["a\tb"] * 3, ["1", "2", "5.5"], r"gs\.FNWN\.txt, line 3: .* from 0 to 5"),
        (["a\tb"] * 3, ["1", "2", "nan"], r"line 3: the judgement is 'nan'"),
        (["a\tb"] * 4, ["1", "2", "3"], r"gs\.FNWN\.txt ends after line 3, .*input.* has 4"),
        (["a\tb"] * 3, [], r"empty, expected 3 lines"),
        (["a\tb"] * 3, ["1", "", "2"], r"2 judged pairs, expected at least 3"),
    ],
)
def test_what_is_wrong_with_a_year_is_told(
    tmp_path: Path, pairs: list[str], gold: list[str], message: str
) -> None:
    folder = year(tmp_path)
    write(folder / "STS.input.FNWN.txt", *pairs)
    write(folder / "STS.gs.FNWN.txt", *gold)
    with pytest.raises(DataError, match=message):
        read_data_sets(tmp_path, ["STS13"])


def wrong_sts_b(folder: Path) -> None:
    sts_b(folder, "test", "a\tb\tc\td\t1\tx\ty", "a\tb\tc\td\tx\ty")


def wrong_score(folder: Path) -> None:
    sts_b(folder, "test", "a\tb\tc\td\t1\tx\ty", "a\tb\tc\td\thigh\tx\ty")


def headless_sick(folder: Path) -> None:
    write(folder / "SICK" / "SICK_test_annotated.txt", "1\ta\tb\t3\tNEUTRAL")


def shuffled_sick(folder: Path) -> None:
    shuffled = "\t".join(reversed(SICK_HEADER.split("\t")))
    write(folder / "SICK" / "SICK_test_annotated.txt", shuffled, "1\ta\tb\t3\tNEUTRAL")


def unrelated_sick(folder: Path) -> None:
    write(folder / "SICK" / "SICK_test_annotated.txt", SICK_HEADER, "1\ta\tb\t0.5\tNEUTRAL")


def empty_sick(folder: Path) -> None:
    write(folder / "SICK" / "SICK_test_annotated.txt")


@pytest.mark.parametrize(
    ("prepare", "name", "message"),
    [
        (wrong_sts_b, "STS-B", r"sts-test\.csv, line 2: 6 columns, expected 7 .*second sentence"),
        (wrong_score, "STS-B", r"sts-test\.csv, line 2: the score is 'high'"),
        (headless_sick, "SICK-R", r"line 1: no column 'pair_ID', expected the header"),
        (shuffled_sick, "SICK-R", r"line 1: the header"),
        (unrelated_sick, "SICK-R", r"line 2: the relatedness score is '0.5', expected .* from 1 to 5"),
        (empty_sick, "SICK-R", r"line 1: no column 'pair_ID'"),
    ],
)
def test_what_is_wrong_with_a_file_is_told(
    tmp_path: Path, prepare: Callable[[Path], None], name: str, message: str
) -> None:
    prepare(tmp_path)
    with pytest.raises(DataError, match=message):
        read_data_sets(tmp_path, [name])


@pytest.mark.parametrize(
    ("header", "records", "message"),
    [
        ("Index,Text", ['0,"a\nb"'], r"line 1: no column 'Score'; the file has Index, Text"),
        ("Text,Score", ['"a\nb",1', '"a\nb\nc",1'], r"line 4: the column Text has 3 lines, expected 2"),
        ("Text,Score", ['"a\nb",1', '"a\nb",much'], r"line 4: the score is 'much'"),
        ("Text,Score", ['"a\nb",1', '"a\nb",2'], r"line 4: the score is '2', expected .* from 0 to 1"),
        ("Text,Score", ['"a\nb",1', '"a\nb"'], r"line 4: 1 columns, expected 2"),
        ("Text,Score", ['"a\nb",1', '"a\nb,1'], r"line 4: not CSV"),
        ("Text,Score", ['"a\nb",1'], r"1 judged pairs"),
    ],
)
def test_what_is_wrong_with_str_is_told_with_the_records_first_line(
    tmp_path: Path, header: str, records: list[str], message: str
) -> None:
    str_file(tmp_path, *records, header=header)
    with pytest.raises(DataError, match=message):
        read_data_sets(tmp_path, ["STR"])


def test_an_empty_file_of_str_lacks_its_columns(tmp_path: Path) -> None:
    write(tmp_path / "STR" / "sem_text_rel_ranked.csv")
    with pytest.raises(DataError, match="no column 'Text'; the file has no header"):
        read_data_sets(tmp_path, ["STR"])


def test_missing_folders_and_files_are_named(tmp_path: Path) -> None:
    with pytest.raises(DatasetError, match="there is no folder sts/STS12"):
        read_data_sets(tmp_path, ["STS12"])
    (tmp_path / "STS12").mkdir()
    with pytest.raises(DatasetError, match=r"STS\.input\.MSRpar\.txt"):
        read_data_sets(tmp_path, ["STS12"])
    with pytest.raises(DatasetError, match="where are the data"):
        read_data_sets(None, ["STS12"])


def test_names_of_data_sets_are_checked() -> None:
    assert check_names(["STR", "STS12", "STR"]) == ("STR", "STS12")
    assert len(set(NAMES)) == len(NAMES)
    assert set(PUBLISHED) < set(NAMES)
    with pytest.raises(DataError, match="unknown data set 'STS17'; choose of STS12"):
        check_names(["STS12", "STS17"])
    with pytest.raises(DataError, match="no data set"):
        check_names([])


@pytest.mark.shared
def test_the_published_files_have_as_many_pairs_as_they_are_said_to(shared_data: Path) -> None:
    sizes = {found.name: len(found) for found in read_data_sets(shared_data)}
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
