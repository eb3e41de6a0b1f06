"""What columns may identify: people with several rows by values, in every language, and single rows."""

import hashlib
import itertools
import math
import timeit
import uuid

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
import pytest

from labeldp.columns import TEXT_FORMS, Columns
from labeldp.release.tables import IdentityFinder, people_in, people_of, tells_people_apart

ROWS = 6000
CHANCE = np.random.default_rng(0)
#: Stays of patients: most have one, some many.
PATIENTS = np.repeat(np.arange(2400), np.minimum(CHANCE.geometric(0.4, 2400), 18))[:ROWS]


def identities(table, size=None):
    """What the columns of a table may identify, by their names."""
    finder = IdentityFinder(table.schema)
    for batch in table.to_batches(max_chunksize=size):
        finder.add(batch)
    return {each.name: each for each in finder.result()}


def kinds(table):
    """The kind of what each column may identify."""
    return {name: each.of for name, each in identities(table).items()}


NAMES = {
    "English": [
        "patient_nbr",
        "patientID",
        "User Id",
        "SSN",
        "NHS number",
        "nhs_no",
        "mrn",
        "household",
        "email",
        "Member No.",
    ],
    "German": [
        "Patienten-Nr.",
        "PatientenNr",
        "Patientennummer",
        "Versichertennummer",
        "KVNR",
        "Kundennummer",
        "Personalnummer",
    ],
    "French": ["N° patient", "N° dossier", "N° assuré", "NIR", "IPP", "élève", "adhérent_id"],
    "Spanish": ["paciente", "DNI", "nº asegurado", "usuario", "empleado"],
    "Italian": ["codice fiscale", "paziente", "utente", "dipendente"],
    "Portuguese": ["CPF", "paciente", "pessoa"],
    "Dutch": ["klantnummer", "BSN", "medewerker", "gebruiker"],
    "Polish": ["pacjent", "PESEL", "użytkownik"],
    "Swedish, Danish, Norwegian": ["kundnummer", "personnummer", "CPR", "fødselsnummer", "pasient"],
    "Russian, Chinese, Japanese": ["Пациент", "患者ID", "用户", "顧客番号"],
    "CDISC": ["USUBJID", "SUBJID", "subject"],
    "FHIR, OMOP": ["subject.reference", "Patient.id", "person_id", "person_source_value"],
    "advertising": ["userid", "user_id", "cookie", "idfa", "gaid", "device_id", "visitorId", "hem", "ip_address"],
}
OTHERS = [
    "age",
    "zip",
    "date",
    "duration",
    "price",
    "idle",
    "state",
    "country",
    "Preis",
    "ville",
    "users",
    "patients_age_year",
]


@pytest.mark.parametrize("name", [name for names in NAMES.values() for name in names])
def test_identifiers_are_known_by_name(name):
    """In ten languages, and as standards and advertisers call them: they are asked about though values say nothing."""
    values = np.random.default_rng(1).integers(0, 100, 2000)
    assert tells_people_apart(name)
    assert kinds(pa.table({name: values, "x": values})) == {name: "people"}


@pytest.mark.parametrize("name", OTHERS)
def test_other_names_are_no_identifiers(name):
    """Words that begin like one, plurals that count people, and measurements of people."""
    assert not tells_people_apart(name)


def test_a_hospital_of_another_language_is_asked_about():
    """By the number of the patient, with numbers to decide by; the number of the case names rows."""
    table = pa.table(
        {"Patienten-Nr.": PATIENTS * 7919 + 10**7, "Fall-Nr.": np.arange(PATIENTS.size) * 1693 + 4 * 10**8}
    )
    found = identities(table.take(CHANCE.permutation(PATIENTS.size)))
    assert {name: each.of for name, each in found.items()} == {"Patienten-Nr.": "people", "Fall-Nr.": "rows"}
    counts = np.unique(PATIENTS, return_counts=True)[1]
    assert found["Patienten-Nr."].question == (
        f"'Patienten-Nr.' has {counts.size:,} values in {PATIENTS.size:,} rows, up to {counts.max()} rows each"
    )


def hashes(values):
    """Texts that tell values apart and say nothing else."""
    return [hashlib.sha256(str(each).encode()).hexdigest()[:12] for each in values]


#: Values of people with several rows, in a column whose name says nothing.
PEOPLE = {
    "numbers that lie apart": PATIENTS * 7919 + 10**7,
    "numbers that follow each other": PATIENTS,
    "as many rows each": np.arange(ROWS) % 1500,
    "the same, with steps": np.arange(ROWS) % 1500 * 10,
    "with a gap": pa.array([None, *(PATIENTS[1:] * 31.0)], pa.float64()),
    "decimals": pa.array(PATIENTS * 7919, pa.int64()).cast(pa.decimal128(38, 0)),
    "texts of numbers": list(map(str, PATIENTS * 7919)),
    "codes": [f"P-{each:05d}" for each in PATIENTS],
    "numbers of sites and people": [f"{each % 40:03d}-01-{each:04d}" for each in PATIENTS],
    "hashes": hashes(PATIENTS),
    "bytes": pa.array(list(map(str.encode, hashes(PATIENTS)))),
    "UUIDs in bytes": pa.array([uuid.UUID(int=int(each) << 64).bytes for each in PATIENTS], pa.binary(16)),
    "a dictionary": pa.array(hashes(PATIENTS)).dictionary_encode(),
}


@pytest.mark.parametrize("values", PEOPLE.values(), ids=PEOPLE)
def test_people_are_found_by_values_alone(values):
    """Whatever the column is called, in any order of rows."""
    table = pa.table({"x7": values})
    assert kinds(table) == {"x7": "people"}
    assert kinds(table.take(CHANCE.permutation(table.num_rows))) == {"x7": "people"}


def test_views_of_bytes_are_bytes():
    """Arrow counts them in no other form."""
    assert kinds(pa.table({"x7": pa.array(list(map(str.encode, hashes(PATIENTS))), pa.binary_view())})) == {
        "x7": "people"
    }


@pytest.mark.parametrize("kind", TEXT_FORMS)
def test_a_form_is_looked_for_in_no_time(kind):
    """Each file of a table, and each column, pays for each pattern anew; letters of Unicode take 20 milliseconds."""
    texts = pa.array(["a"])
    assert min(timeit.repeat(lambda: pc.match_substring_regex(texts, TEXT_FORMS[kind]), number=1, repeat=20)) < 0.004


#: Values of a few people with many rows each, which values alone would not tell from categories.
FORMS = {
    "addresses": [f"{each}@example.org" for each in range(15)],
    "telephones": [f"+49 170 {each:04d} 55" for each in range(15)],
    "UUIDs": [str(uuid.UUID(int=each << 64)) for each in range(15)],
    "identifiers for advertising": [str(uuid.UUID(int=each << 64)).upper() for each in range(15)],
    "machines": [f"00:1B:44:11:3A:{each:02X}" for each in range(15)],
    "addresses of machines": [f"192.168.0.{each}" for each in range(15)],
    "references": [f"Patient/{each}" for each in range(15)],
}


@pytest.mark.parametrize("values", FORMS.values(), ids=FORMS)
def test_identifiers_are_known_by_form(values):
    """Fifteen of them in 60 rows each; fifteen words are categories."""
    assert kinds(pa.table({"x7": values * 60, "z": [f"word {each}" for each in "abcdefghijklmno"] * 60})) == {
        "x7": "people"
    }


def smooth(scale, rows=ROWS):
    """Whole numbers of a normal distribution."""
    return np.random.default_rng(2).normal(5 * scale, scale, rows).round().astype(np.int64)


#: Measurements and categories, most of whose values occur in 1 to 50 rows.
MEASURED = {
    "a normal distribution": smooth(200),
    "a wide one": smooth(20_000),
    "even numbers of one": smooth(300) * 2,
    "hundreds of one": smooth(300) * 100,
    "an even distribution": np.random.default_rng(3).integers(0, 700, ROWS),
    "seconds": np.random.default_rng(4).exponential(400, ROWS).astype(np.int64),
    "round sums and others": np.where(
        np.random.default_rng(5).random(ROWS) < 0.4, smooth(3000), smooth(3000) // 500 * 500
    ),
    "prices with nines": smooth(4000) // 10 * 10 + 9,
    "fractions": smooth(200) / 10,
    "texts with decimal commas": [f"{each // 10},{each % 10}" for each in smooth(200)],
    "dates": [f"{each % 28 + 1:02d}.{each % 12 + 1:02d}.20{each % 20:02d}" for each in smooth(200)],
    "months in words": [f"{each % 28 + 1}. märz {1900 + each % 120}" for each in smooth(200)],
    "months in another script": [f"{each % 28 + 1} февраля {1900 + each % 120}" for each in smooth(200)],
    "days": [f"2026-{each % 12 + 1:02d}-{each % 28 + 1:02d} 10:00" for each in smooth(200)],
    "categories": np.random.default_rng(6).choice([f"kind {each}" for each in range(90)], ROWS),
    "one value": np.full(ROWS, 7),
}


@pytest.mark.parametrize("values", MEASURED.values(), ids=MEASURED)
def test_measurements_and_categories_are_no_people(values):
    """What independent draws of a smooth density, rounded or not, show; and values in many rows."""
    assert "people" not in kinds(pa.table({"x7": values})).values()


@pytest.mark.parametrize("name", ["city", "Postleitzahl_ort", "model", "Datum"])
def test_names_break_ties(name):
    """Texts in a few rows each may be people or places: a name of places decides, and none asks."""
    texts = hashes(PATIENTS)
    assert "people" not in kinds(pa.table({name: texts})).values()
    assert kinds(pa.table({"x7": texts, name: texts}))["x7"] == "people"


@pytest.mark.parametrize(
    ("kind", "added", "found"),
    [
        (pa.float64(), [None], True),
        (pa.float32(), [math.nan, math.inf], True),
        (pa.int64(), [None], True),
        (pa.string(), [None], True),
        (pa.string_view(), [None], True),
        (pa.dictionary(pa.int32(), pa.float64()), [None], True),
        (pa.float64(), [0.5], False),
        (pa.float32(), [None, -0.25], False),
        (pa.dictionary(pa.int32(), pa.float64()), [0.5], False),
    ],
)
def test_a_gap_hides_no_identifier(kind, added, found):
    """Whole numbers with a gap are stored as floats; measurements have fractions."""
    texts = kind in (pa.string(), pa.string_view())
    people = [str(row // 3) if texts else row // 3 for row in range(100)]
    plain = kind.value_type if pa.types.is_dictionary(kind) else kind
    column = pa.array([*people, *added], plain)
    column = column.dictionary_encode() if pa.types.is_dictionary(kind) else column
    assert [each.name for each in people_of(Columns(pa.table({"user": column})))] == (["user"] if found else [])


def test_a_fraction_in_any_part_is_a_measurement():
    """Parts of a table are merged with what is known of their floats, in either order."""
    schema = pa.schema([("user", pa.float64())])
    for order in (1, -1):
        finder = IdentityFinder(schema)
        for extra in (0.0, 0.5)[::order]:
            part = IdentityFinder(schema)
            part.add(pa.record_batch({"user": pa.array(np.arange(100) // 3 + extra)}))
            finder.merge(part)
        assert finder.result() == ()


@pytest.mark.parametrize("most", [500, 1 << 18])
def test_parts_in_any_order_give_the_same_answer(most, monkeypatch):
    """Of however many rows, merged in any order, with all values and with those of some hashes alone."""
    monkeypatch.setattr("labeldp.release.tables._identities._MOST_VALUES", most)
    columns = {name: values for name, values in PEOPLE.items() if len(values) == ROWS}
    table = pa.table(columns | MEASURED)
    whole = set(identities(table).values())
    assert people_in(whole)
    for cuts in ([3000], [1, 2, 5999], range(500, ROWS, 500)):
        ends = [0, *cuts, ROWS]
        parts = [table.slice(low, high - low) for low, high in itertools.pairwise(ends)]
        finder = IdentityFinder(table.schema)
        for number in CHANCE.permutation(len(parts)):
            part = IdentityFinder(table.schema)
            for batch in parts[number].to_batches(max_chunksize=700):
                part.add(batch)
            finder.merge(part)
        assert set(finder.result()) == whole


#: Columns of which each row has another value, and whether these name rows.
SINGLE = {
    "numbers of cases": (np.arange(ROWS) * 1693 + 4 * 10**8, "rows"),
    "places": (np.arange(40), "rows"),
    "names": ([f"First{each} Last" for each in range(ROWS)], "rows"),
    "addresses": ([f"{each}@example.org" for each in range(ROWS)], "rows"),
    "dates of birth": ([f"{each:02}/01/1990" for each in range(1, 29)], "rows"),
    "dates of birth that were read": (np.arange(28) * 97 + np.datetime64("1950-03-01"), "rows"),
    "moments": (np.arange(28) * 97 + np.datetime64("1950-03-01T00:00:00"), None),
    "numbers of accounts": ([f"1,{each:03},567" for each in range(1, 29)], "rows"),
    "few measurements": (np.arange(40) ** 3 * 7919, None),
    "fractions": (np.arange(ROWS) / 7, None),
    "images": ([f"{each}.png" for each in range(ROWS)], None),
    "images in bytes": ([b"%065d" % each for each in range(ROWS)], None),
    "two rows": (["a", "b"], None),
}


@pytest.mark.parametrize(("values", "kind"), SINGLE.values(), ids=SINGLE)
def test_columns_that_name_rows_are_known(values, kind):
    """Texts and numbers that were given out, none twice."""
    assert kinds(pa.table({"x7": values})) == ({} if kind is None else {"x7": kind})


@pytest.mark.parametrize("values", [np.arange(100) % 5, np.full(100, 3)], ids=["few", "one"])
def test_codes_of_a_few_kinds_identify_nobody(values):
    """Whatever their name."""
    assert kinds(pa.table({"id": values})) == {}
