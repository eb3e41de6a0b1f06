"""Public columns whose values or names may identify people with several rows, single rows, or few people.

Whole numbers that were given out, as identifiers are, are told from those that were measured.
"""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Iterable
from dataclasses import dataclass, field
from typing import ClassVar, Literal
from unicodedata import combining, normalize

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from labeldp._shapes import Bool, Int, UInt64
from labeldp.columns import (
    TEXT_FORMS,
    arrow,
    as_array,
    is_bytes,
    is_number,
    is_text,
    plain_numbers,
    plain_type,
    value_counts,
)
from labeldp.release.tables._cell_hashes import MISSING, cell_hashes, whole_hashes
from labeldp.release.tables._copies import CopyCounter

#: Expected pairs of equal whole numbers, of which measurements would show one.
_COINCIDENCES = 10.0
#: Numbers of a block, whose codes follow each other: a multiple of the steps, and less than the codes of a block.
_BLOCK, _CODES = 4000, 0xFFF
_STEPS = (1000, 500, 200, 100, 50, 20, 10, 5, 4, 2, 1)
_LONGEST_STEP = 100
#: Values in more rows than these are categories.
MOST_ROWS = 50
_FEWEST_PAIRS = 6
_SMOOTH = 0.3
#: Two of ten last digits have a fifth of the numbers that were given out.
_TWO_DIGITS, _MOST_OF_TWO = 0.2, 0.35


def number_rows(count: int, low: int, high: int) -> bool:
    """True if so many different whole numbers lie so near each other that they were not measured, but given out.

    Measured independently, whatever their distribution, n values among r numbers would all be different with a
    probability of at most ``exp(-n (n - 1) / 2 r)``, which is here below one in 22 000, or r is at most n.

    References:
        Bloom 1973, for even shares as those with the fewest coincidences.
    """
    numbers = high - low + 1
    return bool(numbers <= count or count * (count - 1) >= 2 * _COINCIDENCES * numbers)


def block_codes(whole: Int[np.ndarray, "n"]) -> UInt64[np.ndarray, "n"]:
    """Codes of whole numbers: hashes of blocks, in which numbers that follow each other have codes that do."""
    blocks, places = np.divmod(whole, _BLOCK)
    return (whole_hashes(blocks) & np.uint64(~_CODES & (1 << 64) - 1)) | places.astype(np.uint64)


def given_out(codes: UInt64[np.ndarray, "m"], times: Int[np.ndarray, "m"]) -> bool:
    """True if the rows of different whole numbers are not as independent measurements would spread them.

    Measured independently with a smooth density, a number has as many rows as its neighbour up to chance, so the mean
    square of the rows of a number exceeds the mean product with those of its neighbour by their mean (``excess`` is 1).
    A person with as many rows as any other makes it less. Identifiers that lie apart, or people with different numbers
    of rows, make it more. So do round numbers and steep densities, whose digits and neighbours show it: these are
    measurements. Numbers in more than 50 rows are left out.

    Args:
        codes: The ``block_codes`` of all different numbers, or of those in some blocks, ascending.
        times: The rows of each.
    """
    places = (codes & np.uint64(_CODES)).astype(np.int64)
    step = next(step for step in _STEPS if not ((places - places[0]) % step).any())
    if step > _LONGEST_STEP:
        return False
    rows = np.where(times <= MOST_ROWS, times, 0).astype(np.float64)
    together = np.diff(codes) == np.uint64(step)
    one, other = rows[:-1][together], rows[1:][together]
    total = max(rows.sum(), 1.0)
    near = (one * other).sum() / total
    excess = (rows * rows).sum() / total - near
    error = np.sqrt(2.0 / rows.size)
    if excess < 1.0 - 4.0 * error:
        return True
    more = excess > 1.0 + 6.0 * error and excess - 1.0 > 0.1
    return (
        bool(more) and not _is_round(places // step, rows * np.maximum(rows - 1.0, 0.0)) and not _is_steep(one, other)
    )


def _is_round(numbers: Int[np.ndarray, "m"], pairs: np.ndarray) -> bool:
    """True if two last digits have many more of the numbers than others, as 0 and 5 of sums that people state.

    The digits are counted for numbers that repeat, and for pairs of equal rows, most of which a few numbers may have.
    """
    digits = numbers % 10
    for weights in ((pairs > 0).astype(np.float64), pairs):
        total = max(weights.sum(), 1.0)
        two = np.sort(np.bincount(digits, weights, 10))[-2:].sum() / total
        error = np.sqrt(_TWO_DIGITS * (1.0 - _TWO_DIGITS) * (weights * weights).sum()) / total
        if two > max(_MOST_OF_TWO, _TWO_DIGITS + 4.0 * error):
            return True
    return False


def _is_steep(one: np.ndarray, other: np.ndarray) -> bool:
    """True if numbers with many rows have neighbours with many, so that a density explains the difference."""
    known = (one > 0) & (other > 0)
    first, second = np.log(one[known]), np.log(other[known])
    if first.size < _FEWEST_PAIRS or not np.ptp(first) or not np.ptp(second):
        return False
    return bool(np.corrcoef(first, second)[0, 1] > _SMOOTH)


#: Most different values of a column that are counted.
_MOST_VALUES = 1 << 18
#: Fewest values of a column that is named like an identifier, and their most rows on average; then those of any other.
_FEWEST_NAMED, _ROWS_PER_NAMED = 12, 500
_FEWEST_VALUES = 20
#: Fewest of these values that repeat.
_FEWEST_REPEATED = 10
#: Fewest rows whose different values name them, and rows from which on numbers name them however they are spread.
_FEWEST_ROWS, _MANY_ROWS = 3, 1000
#: Texts of more different values may name people if most of these are in fewer than ``_FEW`` rows.
_MANY_TEXTS, _FEW = 20, 5
#: Longer bytes are images or other files, which identify nobody by being equal.
_LONGEST_BYTES = 64


@dataclass(frozen=True)
class Identity:
    """A column that may identify people or rows, by its values in the first million rows.

    Attributes:
        name: Its name.
        of: ``"people"`` if values repeat; ``"rows"`` if each row has a different value; ``"few"`` for texts of
            which most are in fewer than 5 rows.
        values: The number of different values.
        rows: The number of rows with a value.
        most: The most rows of one value.
    """

    name: str
    of: Literal["people", "rows", "few"]
    values: int
    rows: int
    most: int

    @property
    def question(self) -> str:
        """The number of values and rows, in words."""
        return f"{self.name!r} has {self.values:,} values in {self.rows:,} rows, up to {self.most:,} rows each"


class IdentityFinder:
    """Looks for columns whose values identify people or rows, in the first million rows."""

    #: Rows in which values are counted.
    ROWS: ClassVar[int] = 1 << 20

    def __init__(self, schema: pa.Schema) -> None:
        self._columns = {
            each.name: _Column(each.name, _is_text(each.type)) for each in schema if _may_identify(each.type)
        }
        self._rows = 0

    def add(self, batch: pa.RecordBatch) -> None:
        """Add rows, which have some of the columns."""
        for name in set(self._columns).intersection(batch.schema.names if self._rows < self.ROWS else ()):
            self._columns[name].add(batch[name])
        self._rows += batch.num_rows

    def merge(self, other: IdentityFinder) -> None:
        """Add the rows of another part of the table, which follow."""
        for name, column in other._columns.items() if self._rows < self.ROWS else ():
            self._columns[name].merge(column)
        self._rows += other._rows

    def result(self) -> tuple[Identity, ...]:
        """The columns that may identify somebody, in order."""
        return in_order(identity for column in self._columns.values() if (identity := column.identity()) is not None)


def in_order(identities: Iterable[Identity]) -> tuple[Identity, ...]:
    """Columns that may identify somebody: first those with such a name, then those with most different values."""
    return tuple(sorted(identities, key=lambda each: (not tells_people_apart(each.name), -each.values)))


def people_in(identities: Iterable[Identity]) -> tuple[Identity, ...]:
    """The columns whose values may be people with several rows."""
    return tuple(each for each in identities if each.of == "people")


@dataclass
class _Column:
    """The values of a column."""

    name: str
    is_text: bool
    kinds: Counter[str] = field(default_factory=Counter)
    ends: tuple[int, int] | None = None

    def __post_init__(self) -> None:
        self._values = CopyCounter(_MOST_VALUES)

    def add(self, column: pa.Array) -> None:
        """Add values."""
        if pa.types.is_floating(column.type):
            self._add_fractions(as_array(column))
        if self._is_measured:  # then its values are not counted, which takes a hash table
            return
        counted = value_counts(column)
        if counted is None:
            return
        values, times = counted
        if is_bytes(values.type):
            self._add_bytes(values.cast(pa.large_binary()), times)
        elif self.is_text:
            self._add_texts(pc.utf8_lower(pc.utf8_trim_whitespace(values.cast(pa.large_string()))), times)
        else:
            self._add_numbers(plain_numbers(values), times, "day" if pa.types.is_date(values.type) else "whole")

    def merge(self, other: _Column) -> None:
        """Add the values of another part."""
        self.kinds.update(other.kinds)
        self._widen(other.ends)
        self._values.merge(other._values)

    @property
    def _is_measured(self) -> bool:
        """True if numbers have fractions."""
        return not self.is_text and self.kinds["number"] > 0

    def _widen(self, ends: tuple[int, int] | None) -> None:
        """Widen the range of whole numbers."""
        known = [each for each in (self.ends, ends) if each]
        self.ends = (min(low for low, _ in known), max(high for _, high in known)) if known else None

    def _add_fractions(self, values: np.ndarray, times: Int[np.ndarray, "m"] | int = 1) -> Bool[np.ndarray, "m"]:
        """Count floats that are no whole numbers; return a mask of those that are."""
        values, finite = values.astype(np.float64, copy=False), np.isfinite(values)
        whole = finite & (values == np.rint(values)) & (np.abs(values) < 1 << 62)
        self.kinds["number"] += int((times * (finite & ~whole)).sum())
        return np.asarray(whole)

    def _add_numbers(self, values: np.ndarray, times: Int[np.ndarray, "m"], kind: str) -> None:
        """Add numbers, or numbers of days, and how often each occurs."""
        if values.dtype.kind == "f":
            whole = self._add_fractions(values, times)
            values, times = values[whole], times[whole]
        self.kinds[kind] += int(times.sum())
        if values.size:
            whole = values.astype(np.int64)
            self._widen((int(whole.min()), int(whole.max())))
            self._values.add_counted(block_codes(whole), times)

    def _add_texts(self, values: pa.Array, times: Int[np.ndarray, "m"]) -> None:
        """Add texts, and how often each occurs; those that are whole numbers count as such."""
        left = np.ones(len(values), np.bool_)
        for kind, pattern in TEXT_FORMS.items():
            fits = as_array(pc.match_substring_regex(values, pattern)) & left
            left &= ~fits
            if kind != "whole":
                self.kinds[kind] += int(times[fits].sum())
            elif fits.any():
                numbers = pc.replace_substring(values.take(arrow(np.flatnonzero(fits))), "+", "")
                self._add_numbers(as_array(numbers.cast(pa.int64())), times[fits], kind)
                values, times, left = values.take(arrow(np.flatnonzero(left))), times[left], left[left]
        self._add_others(values, times, left)

    def _add_bytes(self, values: pa.Array, times: Int[np.ndarray, "m"]) -> None:
        """Add bytes, such as UUIDs without a type, and how often each occurs; long ones are images."""
        long = as_array(pc.greater(pc.binary_length(values), _LONGEST_BYTES))
        self.kinds["image"] += int(times[long].sum())
        self._add_others(values, times, ~long)

    def _add_others(self, values: pa.Array, times: Int[np.ndarray, "m"], plain: Bool[np.ndarray, "m"]) -> None:
        """Add values by their hashes, of which those of a mask are plain texts."""
        hashes = cell_hashes(values)[0]
        known = hashes != MISSING
        self.kinds["text"] += int(times[plain & known].sum())
        self._values.add_counted(hashes[known], times[known])

    def identity(self) -> Identity | None:
        """The identity that the column may show; None if it shows none."""
        codes, times, share = self._values.found()
        if not times.size or self._is_measured:
            return None
        known, most = sum(self.kinds.values()), int(times.max())
        facts = round(times.size / share), known, most
        if most == 1:
            return Identity(self.name, "rows", *facts) if self._names_rows(known) else None
        if self._names_people(codes, times, facts):
            return Identity(self.name, "people", *facts)
        spelled = self.kinds["number"] + self.kinds["time"] + self.kinds["image"]
        few = self.is_text and spelled < known and facts[0] > _MANY_TEXTS and np.mean(times < _FEW) > 0.5
        return Identity(self.name, "few", *facts) if few else None

    def _names_rows(self, known: int) -> bool:
        """True if different values name rows: texts, days, and whole numbers given out or with such a name."""
        if known < _FEWEST_ROWS or self.kinds["image"] == known:
            return False
        many = known >= _MANY_ROWS or (self.ends is not None and number_rows(known, *self.ends))
        return self.is_text or self.kinds["day"] > 0 or tells_people_apart(self.name) or many

    def _names_people(self, codes: np.ndarray, times: np.ndarray, facts: tuple[int, int, int]) -> bool:
        """True if the values repeat like people: by number and form, or by the column's name if these do not decide."""
        different, known, _ = facts
        texts = self.kinds["text"] + self.kinds["person"] > 0
        if not texts and self.kinds["whole"] < known:
            return False
        if tells_people_apart(self.name) or 2 * self.kinds["person"] > known:
            return are_people(different, known)
        enough = different >= max(_FEWEST_VALUES, known / MOST_ROWS) and np.sum(times > 1) >= _FEWEST_REPEATED
        several = enough and np.mean(times <= MOST_ROWS) > 0.5 and not is_of_others(self.name)
        return bool(several and (texts or given_out(codes, times)))


def _may_identify(kind: pa.DataType) -> bool:
    """True for numbers, dates, texts and bytes; of floats, the values decide."""
    plain = plain_type(kind)
    return is_number(plain) or pa.types.is_date(plain) or _is_text(plain)


def _is_text(kind: pa.DataType) -> bool:
    """True for texts, and for bytes, as those of UUIDs."""
    plain = plain_type(kind)
    return is_text(plain) or is_bytes(plain)


#: Whole words: short ones of any language, of FHIR, OMOP, CDISC, registers of people, and advertising.
_WORDS_OF_PEOPLE = frozenset(
    re.findall(
        "[a-z]+",
        "id ids uid uuid guid pid mrn nbr nhs ssn sin nino dni nie nif cif curp cpf rut nir ipp ins bsn cnp pnr cpr "
        "kvnr svnr kvid subj subjid usubjid patid pat panelist hid hhid userid custid memberid loginid idfa idfv gaid "
        "aaid adid maid ifa oaid tdid rampid muid hem ip ipaddress imei imsi msisdn mac",
    )
)
#: Beginnings of words; in other scripts, parts of words.
_STEMS_OF_PEOPLE = re.compile(
    "patient|pacient|pacjent|pazient|pasient|potilas|subject|sujet|sujeto|soggett|proband|particip|teilnehm|deelnem|"
    "client|klient|klant|kund|customer|consumer|asiakas|member|mitglied|membre|miembro|membro|lid(?:nr|nummer|maat)|"
    "versich|insured|assur|asegurad|assicurat|verzeker|ubezpieczon|person(?!al$|nel)|pessoa|osob|household|famil(?!iar)|haushalt|foyer|menage|"
    "hogar|huishoud|student|schuler|schueler|eleve|alumn|estudiant|uczen|employee|mitarbeit|angestellt|emplead|employe|dipendent|"
    "medewerk|pracownik|user|usuari|usager|utilisat|utente|benutz|nutzer|gebruiker|anvandar|bruker|uzytkownik|account|konto|"
    "compte|cuenta|email|mail|correo|phone|telefon|telephone|telefoon|handy|cookie|device|visitor|dossier|codicefiscale|fiscal|"
    "pesel|personnummer|fodselsnummer|steuer(?:id|nummer)|ausweis|passport|passeport|pasaporte"
)
_PARTS_OF_PEOPLE = re.compile("пациент|клиент|участник|пользоват|снилс|полис|患者|病人|用户|客户|顧客|会員")
_STEMS_OF_OTHERS = re.compile(
    "date|datum|fecha$|fech|years?$|jahr|annee|ano$|anno$|month|monat|mois$|mes$|week|woche|days?$|tage?$|jour$|dia$|giorn|hour|"
    "stunde|minutes?$|seconds?$|time|zeit|duration|dauer|duree|ages?$|alter$|edad$|eta$|idade$|leeftijd$|wiek$|"
    "price|preis|prix$|precio|prezzo|costs?$|kosten|cout|amount|betrag|montant|salar|wages?$|income|einkommen|revenu|balance|saldo|"
    "tax$|weight|gewicht|poids|peso$|height|sizes?$|width|length|distance|area|scores?$|ratings?$|rates?$|percent|ratio$|counts?$|"
    "anzahl|quantity|temp$|temperat|latitude|longitude|lat$|lon$|lng$|altitude|"
    "states?$|country|land$|pays$|pais$|paese|nation|county|region|province|provinz|canton|kanton|city|cities|stadt|ville$|ciudad|"
    "citta|towns?$|ort$|zip|plz$|postcode|postal|neighborhood|streets?$|district|continent|"
    "models?$|brand|marke$|marque|manufactur|product|produkt|produit|items?$|sku$|category|kategorie|species|genus|genes?$|diag|icd|"
    "atc$|occupation|jobs?$|beruf|fields?$|teams?$|titles?$|color|colour"
)
_LETTERS = str.maketrans("łøŁØ", "loLO")
_WORDS = re.compile(r"[A-Z]+(?![a-z])|[A-Z]?[a-z]+")


def are_people(values: int, rows: int) -> bool:
    """True if a column that is named like an identifier has as many values as people may be, and more than codes."""
    return values >= max(_FEWEST_NAMED, rows / _ROWS_PER_NAMED)


def tells_people_apart(name: str) -> bool:
    """True if a column's name has a word for people or their identifiers, and none for places or measurements."""
    return _is_of_people(name) and not _is_of_others(name)


def is_of_others(name: str) -> bool:
    """True if a column's name has a word for places, times, measurements or things, and none for people."""
    return _is_of_others(name) and not _is_of_people(name)


def _is_of_people(name: str) -> bool:
    """True if a word is one of people's identifiers; plurals of English, such as users, count people."""
    words = [*_words(name)]
    stems = (match for match in map(_STEMS_OF_PEOPLE.match, words) if match)
    known = not _WORDS_OF_PEOPLE.isdisjoint(words) or any(each.string[each.end() :] != "s" for each in stems)
    return known or bool(_PARTS_OF_PEOPLE.search(name.casefold()))


def _is_of_others(name: str) -> bool:
    """True if a word is one of places, times, measurements or things."""
    return any(map(_STEMS_OF_OTHERS.match, _words(name)))


def _words(name: str) -> list[str]:
    """The words of a name, in small letters without accents."""
    plain = "".join(letter for letter in normalize("NFKD", name.translate(_LETTERS)) if not combining(letter))
    return [word.lower() for word in _WORDS.findall(plain)]
