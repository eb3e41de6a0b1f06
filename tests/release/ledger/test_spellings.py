"""One spelling of names: a person, a column and a label are known again however they are typed or stored."""

import itertools
import json
import sqlite3
import uuid
from contextlib import closing

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from labeldp import Classes, Curator, Ledger, combined_guarantee, release_table
from labeldp._spelling import canonical
from labeldp.errors import BudgetError, InputError
from labeldp.release.tables import cell_hashes, unit_keys

SPACE = Classes(["no", "yes"])
HEX = "123e4567e89b12d3a456426614174000"
DASHED = str(uuid.UUID(HEX))
#: Spellings of one name each; no two rows have one in common.
SAME = {
    "accents": [
        *("Jos\xe9", "Jose\u0301", "JOS\xc9", " jos\xe9", "jos\xe9 ", "jos\xe9\xa0", "\ufeffJos\xe9", "jos\xe9\u200b"),
        *("jo\xads\xe9", "\u2003jose\u0301", "JOSE\u0301"),
    ],
    "numbers": ["7", "007", "+7", "7.0", "7.", "\uff17", "\u0667", "7e0", "0.7e1", "70e-1", "7 ", "\u200e7"],
    "blanks": ["P 7", "p\xa07", "P  7", "p\u20037", "p\t7", "P \u200b7"],
    "fractions": ["3.5", "3.50", "35e-1", "0003.5", "+3.5", "3,5".replace(",", ".")],
    "thousands": ["1000", "1e3", "1E+3", "1000.00", "0.1e4"],
    "sharp s": ["Stra\xdfe", "STRASSE", "strasse"],
    "dashes": ["P-7", "P\u20117", "p\u20137", "P\u22127".replace("\u2212", "-")],
    "UUIDs": [DASHED, DASHED.upper(), HEX, HEX.upper(), f"{{{DASHED}}}", f"urn:uuid:{DASHED}"],
    "ligatures": ["\ufb01le", "file", "FILE", "\uff46ile"],
    "zero": ["0", "-0", "0.0", "00", "0e5", "-0.0"],
}
#: Names that stay different.
OTHER = ["8", "-7", "7.01", "p7", "jose", "joss\xe9", "1001", "3.51", "7a", "", "e7", ".", "0-7", HEX[:-1] + "1", "nan"]


@pytest.mark.parametrize("kind", SAME)
def test_spellings_of_one_name_fall_together(kind):
    """As a text, as a privacy unit, and in the fingerprint of a row."""
    column = pa.array(SAME[kind])
    assert len(set(map(canonical, SAME[kind]))) == 1
    assert len(set(unit_keys(column).tolist())) == 1
    assert len(set(cell_hashes(column)[0].tolist())) == 1
    assert len(set(cell_hashes(column.dictionary_encode())[0].tolist())) == 1


def test_other_names_stay_apart():
    """No two of them are one, nor one of them and any of the spellings above."""
    names = [*OTHER, *(spellings[0] for spellings in SAME.values())]
    assert len(set(map(canonical, names))) == len(names)
    assert len(set(unit_keys(pa.array(names)).tolist())) == len(names)


def test_a_canonical_spelling_stays_what_it_is():
    """Spelling it again changes nothing, also of random texts of all letters."""
    chance = np.random.default_rng(0)
    letters = "aA7.0e+-\xe9\u0301\xdf\u0130\u03a3\u03c2\ufb01\u200b\xa0\u0667\uff17\u2011{}: \ud7a3\u1e9e\u01c5"
    texts = ["".join(chance.choice(list(letters), size)) for size in chance.integers(0, 9, 3000)]
    for text in itertools.chain(texts, *SAME.values()):
        assert canonical(canonical(text)) == canonical(text)


def test_numbers_are_spelled_by_their_value():
    """Against exact decimals, for a few thousand spellings; huge exponents take no time."""
    chance = np.random.default_rng(1)
    for _ in range(3000):
        whole, power = int(chance.integers(-(10**9), 10**9)), int(chance.integers(-60, 60))
        shift = int(chance.integers(0, 9))
        assert canonical(f"{whole}e{power}") == canonical(f"{whole * 10**shift}e{power - shift}")
        assert canonical(f"{whole}e{power}") != canonical(f"{whole + 1}e{power}")
    assert canonical("1e999999999") == canonical("10e999999998")
    assert canonical("1e9999999999") == "1e9999999999"


def table(names, rows=60):
    """Rows of people by these names, one after the other."""
    return pa.table({"pid": [names[row % len(names)] for row in range(rows)], "ill": ["no", "yes"] * (rows // 2)})


def release(path, output, **options):
    """Release a table at epsilon 1."""
    return release_table(path, "ill", SPACE, 1.0, path.parent / output, keep=[], **options)


def test_two_spellings_of_one_person_are_one_unit(tmp_path):
    """All rows of Zoe share an epsilon, whichever way her name is composed."""
    pq.write_table(table(["Zo\xeb", "Zoe\u0308", "Ann", "Bob"]), tmp_path / "t.parquet")
    folder = release(tmp_path / "t.parquet", "out", unit="pid").output
    groups, sizes = pq.read_table(folder)["ill_groups"].to_pylist(), {"Zo\xeb": 30, "Ann": 15, "Bob": 15}
    assert groups[0] == groups[1] != groups[2] == groups[3]
    assert sorted(sizes.values(), reverse=True)[0] == 2 * groups.count(groups[2]) // 2


#: What becomes of identifiers between two months.
MONTHS = {
    "decomposed": (lambda n: f"Zo\xeb {n}", lambda n: f"Zoe\u0308 {n}"),
    "no-break blank": (lambda n: f"P {n}", lambda n: f"P\xa0{n}"),
    "wide digits": (lambda n: f"P{n}", lambda n: f"P{n}".translate({48 + i: 0xFF10 + i for i in range(10)})),
    "zero width": (lambda n: f"P{n}", lambda n: f"\ufeffP{n}"),
    "UUID digits": (lambda n: str(uuid.UUID(int=10**30 + n)), lambda n: uuid.UUID(int=10**30 + n).hex),
}


@pytest.mark.parametrize("unit", ["pid", "row"])
@pytest.mark.parametrize("change", MONTHS)
def test_people_are_known_in_the_next_month(tmp_path, change, unit):
    """Their rows count as released, whatever a program did to the spelling of their names."""
    before, after = MONTHS[change]
    for month, spelled in (("jan", before), ("feb", after)):
        names = [spelled(10_000 + 7 * number) for number in range(60)]
        pq.write_table(table(names), tmp_path / f"{month}.parquet")
    ledger = tmp_path / "people.labeldp-ledger"
    release(tmp_path / "jan.parquet", "o1", unit=unit, ledger=ledger)
    with pytest.raises(BudgetError):
        release(tmp_path / "feb.parquet", "o2", unit=unit, ledger=ledger)


def test_a_column_of_uuids_is_known_as_texts(tmp_path):
    """The type in which a database or a program stores them plays no part."""
    numbers = [uuid.UUID(int=10**30 + 7 * number) for number in range(60)]
    people = table(["x"])
    texts = people.set_column(0, "pid", pa.array(list(map(str, numbers))))
    typed = people.set_column(0, "pid", pa.array([each.bytes for each in numbers], pa.uuid()))
    for name, each in (("jan", texts), ("feb", typed)):
        pq.write_table(each, tmp_path / f"{name}.parquet")
    ledger = tmp_path / "people.labeldp-ledger"
    release(tmp_path / "jan.parquet", "o1", unit="pid", ledger=ledger)
    with pytest.raises(BudgetError):
        release(tmp_path / "feb.parquet", "o2", unit="pid", ledger=ledger)


def test_a_label_is_known_in_another_spelling(tmp_path):
    """Of its name, in a table and in a curator; and it is no public column."""
    rows = table([f"P{number}" for number in range(60)])
    pq.write_table(rows, tmp_path / "t.parquet")
    release(tmp_path / "t.parquet", "o1", unit="row")
    spelled = rows.rename_columns(["pid", "Ill "]).append_column("score", pa.array(["a", "b"] * 30))
    pq.write_table(spelled, tmp_path / "u.parquet")
    with pytest.raises(BudgetError):
        release_table(tmp_path / "u.parquet", "Ill ", SPACE, 1.0, tmp_path / "o2", keep=[], unit="row")
    with pytest.raises(InputError, match="'Ill ' was already released with noise"):
        release_table(tmp_path / "u.parquet", "score", Classes(["a", "b"]), 1.0, tmp_path / "o3", keep=["Ill "])
    ledger = tmp_path / "l.labeldp-ledger"
    Curator(["no", "yes"], SPACE, name="ill", ledger=ledger, budget=1.0).randomize(epsilon=1.0)
    assert Curator(["no", "yes"], SPACE, name="ILL", ledger=ledger).spent == (1.0, 0.0)


def test_a_name_in_another_spelling_is_the_column_of_the_table(tmp_path):
    """Wherever one is typed; it leaves as the table spells it. A name that spells two columns is none."""
    rows = pa.table({"\xe2ge": [30, 40] * 30, "Person ": list(range(60)), "Gu\xe9ri": ["Oui", "non "] * 30})
    pq.write_table(rows, tmp_path / "t.parquet")
    typed = {"keep": ["a\u0302GE"], "unit": "person"}
    done = release_table(tmp_path / "t.parquet", "gue\u0301ri", Classes(["oui", "non"]), 1.0, tmp_path / "o", **typed)
    assert pq.read_table(done.output).column_names[:2] == ["\xe2ge", "Gu\xe9ri_released"]
    assert done.certificate.label == "Gu\xe9ri"
    assert done.certificate.guarantee.unit == "Person "
    with pytest.raises(InputError, match="'Gu\xe9ri' is the label"):
        release_table(tmp_path / "t.parquet", "gu\xe9ri", SPACE, 1.0, tmp_path / "o2", keep=["GUE\u0301RI"])
    pq.write_table(rows.append_column("PERSON", rows["Person "]), tmp_path / "u.parquet")
    with pytest.raises(InputError, match="no unit column 'person'"):
        release_table(tmp_path / "u.parquet", "gu\xe9ri", SPACE, 1.0, tmp_path / "o3", keep=[], unit="person")


def test_releases_of_a_label_in_two_spellings_add_up(tmp_path):
    """One account, whatever the curator called it."""
    for number, name in enumerate(("ill", "ILL ")):
        curator = Curator(["no", "yes"] * 9, SPACE, name=name, budget=1.0)
        curator.randomize(epsilon=1.0).save(tmp_path / f"o{number}")
    (found,) = combined_guarantee([tmp_path / "o0", tmp_path / "o1"])
    assert found.composition.epsilon == 2.0


def test_a_unit_is_known_by_its_name_in_another_spelling(tmp_path):
    """Charges of both add up, in the ledger and over folders; a column called Row is no row."""
    names = [f"P{number}" for number in range(60)]
    for month, unit in (("jan", "N\xb0 assur\xe9"), ("feb", "N\xb0 ASSURE\u0301"), ("mar", "Row")):
        pq.write_table(table(names).rename_columns([unit, "ill"]), tmp_path / f"{month}.parquet")
    ledger = tmp_path / "people.labeldp-ledger"
    one = release(tmp_path / "jan.parquet", "o1", unit="N\xb0 assur\xe9", ledger=ledger, budget=3.0)
    two = release(tmp_path / "feb.parquet", "o2", unit="N\xb0 ASSURE\u0301", ledger=ledger)
    assert two.spent == (2.0, 0.0)
    (found,) = combined_guarantee([one.output, two.output])
    assert found.composition.epsilon == 2.0
    with pytest.raises(BudgetError, match="one privacy unit"):
        release(tmp_path / "mar.parquet", "o3", unit="Row", ledger=ledger)


@pytest.mark.parametrize("odd", [False, True])
def test_a_ledger_from_before_is_no_weaker(tmp_path, odd):
    """It knows texts in an older spelling: where a table has others, all of its rows may have been released."""
    names = [f"Zo\xeb  {number}" if odd else f"Zoe {number}" for number in range(60)]
    pq.write_table(table(names), tmp_path / "t.parquet")
    ledger = release(tmp_path / "t.parquet", "o1", unit="row").ledger
    with closing(sqlite3.connect(ledger)) as database, database:
        triggers = database.execute("SELECT name, sql FROM sqlite_master WHERE type = 'trigger'").fetchall()
        ((body,),) = database.execute("SELECT body FROM events WHERE event = 'charged'")
        older = {name: value for name, value in json.loads(body).items() if name != "spelling"}
        for name, _ in triggers:
            database.execute(f"DROP TRIGGER {name}")
        database.execute("UPDATE events SET body = ? WHERE event = 'charged'", [json.dumps(older)])
        for _, sql in triggers:
            database.execute(sql)
    database.close()
    (entry,) = Ledger(ledger).entries()
    assert entry.spelling == 0
    others = [f"Zo\xeb  {number}" if odd else f"Zoe {number}" for number in range(10_000, 10_060)]
    pq.write_table(table(others), tmp_path / "other.parquet")
    if odd:
        with pytest.raises(BudgetError):
            release(tmp_path / "other.parquet", "o2", unit="row", ledger=ledger)
    else:
        assert release(tmp_path / "other.parquet", "o2", unit="row", ledger=ledger).spent == (1.0, 0.0)
